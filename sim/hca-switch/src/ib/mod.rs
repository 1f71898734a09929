//! InfiniBand.

pub(crate) mod config;
mod credit;
mod headers;
pub(crate) mod link;
mod management;
pub(crate) mod port;
mod queue;
pub(crate) mod switch;
pub(crate) mod tables;
