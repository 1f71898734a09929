//! The management agents of an InfiniBand port: what answers a subnet manager (MGMT-2), and what tells counters.
//!
//! Datagrams in, datagrams out: an agent is told what has come and works on a [`Port`] or on [`Counters`]; it sends
//! nothing and knows no clock. Any bytes are an answer or nothing, never a panic. `no_std`, no heap: a card's firmware
//! has one agent for each port, a switch one for all of its ports.
//!
//! * [`mad`]: the fields of a management datagram.
//! * [`smp`]: which way a directed route goes on.
//! * [`sma`]: subnet management.
//! * [`switch`]: the same of a switch, with its ports and forwarding tables.
//! * `notice`: what an agent tells the manager unasked.
//! * [`pma`]: performance management.
//! * [`lldp`]: what an Ethernet port and its neighbour tell each other.
//! * [`packet`]: the headers around a datagram on an InfiniBand link.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod key_tests;

mod divide;
pub mod lldp;
pub mod mad;
mod notice;
pub mod packet;
pub mod pma;
mod port_info;
pub mod sma;
pub mod smp;
pub mod switch;

pub use divide::divide;
pub use mad::{MAD_BYTES, Mad};
pub use port_info::{PortFacts, PortSettings, State};
pub use sma::{Agent, Key, NodeFacts, Port, Refused};
