//! Switches between simulated cards: InfiniBand with virtual lanes and credits, Ethernet with priorities and pauses.
//!
//! A [`Net`] owns the cables and what is on them that is no card: switches, and for tests the traffic endpoints. Like
//! a cable it has no clock and no threads; its owner says which cycle it is and asks when something happens next, so
//! that a network in which nothing moves costs nothing. Same configuration, same seeds, same calls: same result.
//!
//! Switches store and forward: a packet is looked at when its last bit has arrived.
//!
//! * [`IbSwitch`]: linear and multicast forwarding tables, a receive buffer per port and VL with the credits of IBA
//!   vol1 7.9, SL-to-VL tables, VL arbitration ([`VlArbiter`]). Drops nothing for want of buffer.
//! * [`EthSwitch`]: forwarding by address, a queue per port and priority, pauses per priority, congestion marks.
//! * [`Deadlock`]: the cycle of receive buffers that wait for each other, by name.
//! * [`IbPort`]: an end of an InfiniBand link for a card that takes packets whole.
//! * [`IbEndpoint`], [`EthEndpoint`]: generators and sinks of checked traffic, where no card is needed.
#![forbid(unsafe_code)]

mod arb;
mod counters;
mod deadlock;
mod endpoint;
mod error;
mod eth;
mod ib;
mod net;
mod ports;
mod store;

pub use arb::{ENTRIES_MAX, Heads, LIMIT_UNLIMITED, Policy, VlArbConfig, VlArbiter, VlWeight};
pub use counters::{PortCounters, VlCounters};
pub use deadlock::{Buffer, Deadlock, Lacks};
pub use endpoint::{
    EthEndpoint, EthEndpointConfig, EthFlow, Flow, FlowCount, IbEndpoint, IbEndpointConfig, Stalls,
};
pub use error::SwitchError;
pub use eth::frame::EthPriorities;
pub use eth::port::PfcConfig;
pub use eth::switch::{EcnConfig, EthSwitch, EthSwitchConfig};
pub use ib::config::IbSwitchConfig;
pub use ib::port::IbPort;
pub use ib::switch::IbSwitch;
pub use ib::tables::{Forwarding, LID_PERMISSIVE, MLID_MIN, Sl2Vl, is_multicast};
pub use net::{EndpointId, EthEndpointId, EthSwitchId, LinkEndAt, LinkId, Net, SwitchId, SwitchObserver};

/// Ports of a switch.
pub const PORTS_MAX: u8 = 63;
/// The VL of subnet management.
pub const VL15: u8 = 15;
