//! InfiniBand.

mod credit;
pub(crate) mod link;
mod management;
mod queue;
pub(crate) mod switch;
pub(crate) mod tables;
