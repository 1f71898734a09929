//! What verbs are asked with and answer: no object of a card among it.

pub mod address;
pub mod attr;
pub mod error;
pub mod flow;
pub mod gid;
pub mod lock;
pub mod wall_clock;
