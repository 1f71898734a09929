//! Reads that take a while: memory of another process.

use std::ops::Range;
use std::time::Duration;

use super::fault::Fault;
use crate::remote::Ticket;

/// What a read has found at once, or when it will have.
pub enum Found {
    /// The bytes are there.
    Now,
    /// They come with the fetch.
    Later(Fetch),
}

/// A read under way: it knows where its bytes go.
pub struct Fetch {
    pub(super) fault: Fault,
    /// What was there at once, in its place; nothing if that was nothing.
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<(Range<usize>, Ticket)>,
}

impl Fetch {
    /// All is done, or there is no patience left to wait for it.
    pub fn wait(&self) -> bool {
        self.pieces.iter().all(|(_, ticket)| ticket.wait())
    }

    /// All is done, within this time of the machine's clock: for who can do nothing else meanwhile.
    pub fn wait_for(&self, limit: Duration) -> bool {
        self.pieces.iter().all(|(_, ticket)| ticket.wait_for(limit))
    }

    /// All is done.
    pub fn is_done(&self) -> bool {
        self.pieces.iter().all(|(_, ticket)| ticket.is_done())
    }

    /// Copies out what has come.
    pub fn finish(self, out: &mut [u8]) -> Result<(), Fault> {
        if !self.bytes.is_empty() {
            out.copy_from_slice(&self.bytes);
        }
        for (place, ticket) in self.pieces {
            if !ticket.take(&mut out[place]) {
                return Err(self.fault);
            }
        }
        Ok(())
    }
}
