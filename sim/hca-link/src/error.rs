//! What can go wrong at a cable.

use std::io;
use std::path::PathBuf;

/// A cable refused something, or could not write a capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A fault specification cannot be understood.
    #[error(
        "fault '{text}': {why}; legal are loss, dup, reorder, corrupt, pause, fc_loss, fc_corrupt = probability \
         0 to 1, and delay_ns, pause_ns = 0 to 1000000000, as in 'loss=0.01,delay_ns=500'"
    )]
    FaultSpec {
        /// The part that is wrong.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A number of the configuration is out of range.
    #[error("cable {name}: {field} is {found}, it must be {low} to {high}")]
    Config {
        /// Name of the cable.
        name: String,
        /// Field of [`crate::CableConfig`].
        field: &'static str,
        /// Value found.
        found: u64,
        /// Least legal value.
        low: u64,
        /// Greatest legal value.
        high: u64,
    },
    /// A packet did not end in time; the part received is thrown away.
    #[error("cable {name}: packet longer than {limit_bytes} bytes; the sender must mark its last beat")]
    PacketTooLong {
        /// Name of the cable.
        name: String,
        /// Limit in bytes.
        limit_bytes: usize,
    },
    /// A capture file cannot be created or written; the capture is closed.
    #[error(
        "capture {}: {reason}; free some space or choose another path (the capture is closed)",
        path.display()
    )]
    Capture {
        /// File of the capture.
        path: PathBuf,
        /// What the operating system said. Part of the sentence, so not a `source()` that would say it twice.
        reason: io::Error,
    },
}
