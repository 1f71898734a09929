//! Ethernet.

pub(crate) mod frame;
pub(crate) mod port;
pub(crate) mod switch;
