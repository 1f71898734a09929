//! Ethernet.

pub(crate) mod frame;
mod lldp;
pub(crate) mod port;
pub(crate) mod switch;
