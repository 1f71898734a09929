//! InfiniBand.

mod credit;
pub(crate) mod link;
mod queue;
pub(crate) mod switch;
pub(crate) mod tables;
