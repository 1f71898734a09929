//! Wires that leave the simulator: Ethernet frames to and from a UNIX socket, UDP, or a TAP device.
//!
//! A [`Wire`] has a thread that alone reads and writes the socket. The simulation never waits for it: frames pass
//! through bounded queues in both directions, and what does not fit is dropped and counted, as on a wire whose receiver
//! is slow. A peer may come, go and come back at any time, and may send anything.
//!
//! Where the wire is told of the port's addresses ([`Wire::set_host`]), only RoCEv2 reaches the card. ARP, Neighbour
//! Discovery and echo requests are answered at the wire, and what neighbours there are is known to [`Neighbours`].
//!
//! This crate must not know about cards, cables or simulated time.
//!
//! ```
//! use hca_outside::{Wire, WireConfig};
//! let folder = tempfile::tempdir().unwrap();
//! let socket = folder.path().join("wire.sock");
//! let wire = Wire::open(WireConfig::new(socket.to_str().unwrap().parse().unwrap())).unwrap();
//! wire.send(&[0; 60]); // nobody is there: dropped and counted
//! assert!(wire.take().is_none());
//! ```

mod address;
mod answer;
mod error;
mod framing;
mod host;
mod neighbours;
mod packet;
mod queue;
mod socket;
mod stats;
mod stream;
mod table;
mod tap;
mod wire;

pub use address::PeerAddress;
pub use error::{AddressError, WireError};
pub use host::{Gateway, Host, Mac, StaticNeighbour, gid_of_ip, ip_of_gid};
pub use neighbours::Neighbours;
pub use stats::{WireCounts, WireStats};
pub use wire::{Wire, WireConfig};

/// Bytes of the shortest frame: two addresses and a type. Virtual interfaces do not pad.
pub const FRAME_BYTES_MIN: usize = 14;
/// Bytes of the longest frame that is passed on: a 9000-byte payload with its header and a VLAN tag.
pub const FRAME_BYTES_MAX: usize = 9018;
