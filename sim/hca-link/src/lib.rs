//! A cable between two ports, in simulated time, with seeded faults.
//!
//! The cable does no IO of its own except for captures, has no clock and no threads: every call
//! says which cycle it is. Same configuration, same seed, same calls: same result, bit for bit.
//!
//! A sender asks [`Cable::ready`] and pushes a packet beat by beat with [`Cable::push_beat`]. The
//! cable serialises it at the line rate, draws its faults, and hands it out at the far end through
//! [`Cable::poll`]. [`BeatStream`] cuts delivered packets into beats at no more than the line rate.
//! A sender that has its packets in another form pushes them so ([`Unwritten`]): they become bytes when somebody looks.
//! [`Cable::next_event_cycle`] says how far a simulator may skip.
#![forbid(unsafe_code)]

mod cable;
mod capture;
mod clock;
mod config;
mod content;
pub mod erf;
mod error;
mod fault;
mod lane;
mod stats;
mod stream;
mod watch;

pub use cable::Cable;
pub use capture::Tap;
pub use config::{CableConfig, Delivery, Dir, LinkKind};
pub use content::{Content, Unwritten};
pub use error::LinkError;
pub use fault::{FaultCounts, FaultSpec, REORDER_DISTANCE_MAX, REORDER_HOLD_NS};
pub use lane::Packet;
pub use stats::{CableStats, DirStats};
pub use stream::{Beat, BeatStream};
pub use watch::{Listener, Sighting};

/// Longest packet a cable carries, in bytes: a 9000-byte jumbo frame and more.
pub const PACKET_BYTES_MAX: usize = 16 * 1024;
