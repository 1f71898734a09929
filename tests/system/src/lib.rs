//! Driver, firmware and RTL together: two simulated cards on a cable, and what may be demanded of them.
//!
//! * [`Rig`]: two cards with their drivers, in this thread. [`Node`]: one of them.
//! * [`scenario`]: random transfers under random faults, everything decided by a seed.
//! * [`raw`]: a client of the simulator that keeps no rules.
//! * [`siege`]: one function does everything wrong at random, while another one transfers.
//! * [`star`]: cards behind a switch, all of them busy. [`incast`]: several of them write to one.
//! * [`opposite`]: a card on one end of a cable, the reference model on the other.
//! * [`judge`]: the rules of the transport, at every packet of a rig.
//! * [`absent`]: memory that never comes. [`courier`]: a device that shares none.
//! * `tests/`: the system tests. `hca demo`, `hca perf` and `hca soak` stand on the same code.
//!
//! Nothing here knows how a card works inside: verdicts come from memory, completions, events and the cable.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod absent;
mod arena;
mod attack;
#[allow(unsafe_code)]
pub mod courier;
pub mod incast;
mod intruder;
pub mod judge;
mod node;
pub mod opposite;
mod plan;
#[allow(unsafe_code)]
pub mod raw;
mod rig;
mod rng;
pub mod scenario;
mod services;
mod shrink;
pub mod siege;
pub mod star;
mod station;
mod trace_hash;
mod traffic;
mod upheaval;

// Programs that use this crate have the cards.
#[cfg(feature = "rtl")]
use hca_models as _;

pub use arena::Arena;
pub use attack::{Attacker, Tally, Target};
pub use node::{Dev, Node, Place, connect, path};
pub use rig::{Rig, RigConfig, RigError, SecondCable, identity, second_identity};
pub use rng::Rng;
pub use shrink::shrink;
