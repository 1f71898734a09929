//! The host of a simulated card: memory behind an IOMMU, and a PCIe link with latency, bandwidth and bounded
//! tags.
//!
//! This crate must not know what the card does with its reads and writes. Time is the card's clock, in
//! cycles.
//!
//! ```
//! use hca_host::{Host, PcieModel, PcieParams};
//! let mut host = Host::new(1);
//! let mut pcie = PcieModel::new(PcieParams::default(), 1).unwrap();
//! pcie.push_read(0, 7, 0, 0x1000, 64).unwrap(); // nothing is mapped there: an error completion
//! let beat = (0..1000).find_map(|now| {
//!     pcie.advance(now, &mut host);
//!     pcie.poll_completion(now)
//! });
//! assert!(beat.unwrap().err);
//! ```

mod backing;
mod events;
mod host;
mod iommu;
mod late;
mod params;
mod patience;
mod pcie;
mod ranges;
mod remote;
mod up;
mod uses;
mod violation;

pub use events::{Interrupt, MmioRequest, ReadBeat, WriteBeat};
pub use host::Host;
pub use iommu::{Cause, Fault, Fetch, Found, IommuMap, MapError, Mappings, Memory, SharedWrite, Touch};
pub use params::{ParamError, PcieParams};
pub use pcie::{PcieCounters, PcieModel, earlier};
pub use ranges::{Access, Unmapped};
pub use remote::{Presence, Remote, RemoteMemory, Ticket, Watcher};
pub use violation::Violation;

/// Bytes of one beat of the card's host port.
pub const LINE_BYTES: usize = 64;

/// 64 bytes, memory order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u8; LINE_BYTES]);

impl Line {
    /// All bytes zero.
    pub const ZERO: Line = Line([0; LINE_BYTES]);

    /// From 32-bit words, least significant first (a 512-bit port).
    #[inline]
    pub fn from_words(words: &[u32; 16]) -> Self {
        let mut line = Self::ZERO;
        for (bytes, word) in line.0.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        line
    }

    /// To 32-bit words.
    #[inline]
    pub fn to_words(&self) -> [u32; 16] {
        std::array::from_fn(|i| {
            let byte = &self.0[4 * i..4 * i + 4];
            u32::from_le_bytes([byte[0], byte[1], byte[2], byte[3]])
        })
    }
}
