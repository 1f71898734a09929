//! What is behind bus addresses, and what the card has written there.

use std::sync::Arc;

use hca_dev::{SharedMem, UserMemory};

use crate::Line;

/// What lies behind a range of bus addresses.
#[derive(Clone)]
pub enum Memory {
    /// A part of a shared mapping that we keep alive.
    Shared {
        /// The mapping.
        memory: Arc<SharedMem>,
        /// Where in it the range starts.
        offset: usize,
    },
    /// Memory of this process that its owner keeps alive until it is unmapped.
    User(UserMemory),
    /// Memory that only the program reaches: asked for by bus address ([`crate::RemoteMemory`]).
    Messages,
}

/// A line that the card has written into memory shared with a driver in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedWrite {
    /// The cycle in which it became visible.
    pub cycle: u64,
    /// Bus address, a multiple of 64.
    pub addr: u64,
    /// What was written.
    pub line: Line,
    /// Which bytes of it.
    pub strb: u64,
}
