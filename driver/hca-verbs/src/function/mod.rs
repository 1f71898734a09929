//! An open function of a card: what all objects share.

pub mod dispatcher;
pub mod known;
pub mod shared;
