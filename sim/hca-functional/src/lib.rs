//! A card that works without gates: the registers, context tables, rings and events of the contract around the
//! transport's reference model ([`hca_model::Qp`]).
//!
//! Whoever owns a [`Card`] gives it register accesses, firmware's bus accesses, packets and the time, and takes
//! register values, packets and the time at which it wants to be asked again. Firmware is the real one; it runs against
//! [`Card::bus_read`] and [`Card::bus_write`]. There are no cycles inside: what a doorbell asks for is done when the
//! port can take a packet, and memory is there when it is asked for.
//!
//! This crate must not know about cables, sockets or PCIe; the driver is unknown to it, too.
//!
//! ```
//! let card = hca_functional::Card::new(1, 32, 4_000);
//! assert_eq!(card.read_register(0, hca_regs::FUNC_ID as u16), hca_abi::HCA_ID);
//! ```
//!
//! Tests: `tests/system/tests/design.rs`, and `make test-model`.
#![forbid(unsafe_code)]

mod body;
mod bus;
mod card;
mod datagrams;
mod doorbells;
mod keys;
mod lines;
mod looks;
mod management;
mod paths;
mod port;
mod queues;
mod reach;
pub mod spare;
mod srq;
mod timers;
mod wqe;

pub use card::{Ahead, Card, Outgoing, PortCounters};
pub use hca_model::Frame;
pub use looks::{QpIndices, QueueIndices};

/// The host, as the card sees it.
pub trait HostPort {
    /// Reads memory of a function. False: not all of it is there.
    fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> bool;

    /// The same for what the function's driver keeps for the card, rings and tables: it need not wait for what the card
    /// has written.
    fn look(&mut self, func: u8, addr: u64, out: &mut [u8]) -> bool {
        self.read(func, addr, out)
    }

    /// Memory of a function is another process's, and each read of it keeps the card waiting.
    fn is_far(&self, func: u8) -> bool {
        let _ = func;
        false
    }

    /// Writes memory of a function, in the order of the calls. False: not all of it is there.
    fn write(&mut self, func: u8, addr: u64, bytes: &[u8]) -> bool;

    /// What is written from now on, or no longer, is nothing that anybody waits for.
    fn hush(&mut self, on: bool) {
        let _ = on;
    }

    /// Raises an interrupt, behind everything that was written.
    fn interrupt(&mut self, func: u8, vector: u16);
}
