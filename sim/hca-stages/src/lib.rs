//! When each send work request reached each stage on its way through two cards: one record per work request.
//!
//! A [`StageLog`] watches the ports of every card of a fabric and their trace port (`hw/rtl/top/hca_trace.sv`)
//! and joins what it sees: a doorbell names a queue and an index, the requester's record ties the index to packet
//! sequence numbers, packets on the wire and at the peer are known by those, completions by the index again.
//! Nothing in the cards changes, so a watched run takes the same cycles as one that nobody watches.
//!
//! This crate must not know how packets or completions come about; it only recognises them. What each stage means
//! exactly: [`Stage`]. Tests: `tests/system/tests/stages.rs`, for they need two cards with drivers.

mod join;
mod lines;
mod log;
mod open;
mod packet;
mod record;
mod stage;
mod tap;

pub use lines::Lines;
pub use log::{Counts, StageError, StageLog};
pub use record::{Span, WorkRecord};
pub use stage::Stage;
