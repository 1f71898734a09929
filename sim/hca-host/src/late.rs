//! What has reached the host and waits for memory that does not answer at once.

use std::collections::VecDeque;
use std::ops::Range;

use crate::LINE_BYTES;
use crate::iommu::Fetch;
use crate::remote::Ticket;

/// A read request of the card that has reached the host.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub at: u64,
    pub tag: u8,
    pub addr: u64,
    pub len_bytes: u16,
}

impl Request {
    /// The bytes of the lines around it that it asks for.
    pub fn lanes(self) -> Range<usize> {
        let lane = (self.addr % LINE_BYTES as u64) as usize;
        lane..lane + usize::from(self.len_bytes)
    }
}

struct Read {
    request: Request,
    /// The cycle from which its bytes are wanted.
    due: u64,
    fetch: Fetch,
    /// Somebody has waited for it already, and will not again.
    waited: bool,
}

/// Reads that are not done, and items that must not pass writes that are not.
pub(crate) struct Late<T> {
    reads: VecDeque<Read>,
    behind: VecDeque<(Ticket, T)>,
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self {
            reads: VecDeque::new(),
            behind: VecDeque::new(),
        }
    }
}

impl<T> Late<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.behind.is_empty()
    }

    /// The bytes come with the fetch, and are wanted from cycle `due` on.
    pub fn push_read(&mut self, request: Request, due: u64, fetch: Fetch) {
        self.reads.push_back(Read {
            request,
            due,
            fetch,
            waited: false,
        });
    }

    /// It comes behind the write.
    pub fn push_behind(&mut self, write: Ticket, item: T) {
        self.behind.push_back((write, item));
    }

    /// The next read that is due and done. For one that becomes due there is a wait, a short one and once.
    pub fn take_read(&mut self, now: u64) -> Option<(Request, Fetch)> {
        let is_done = |read: &mut Read| {
            if read.due > now {
                return false;
            }
            if std::mem::replace(&mut read.waited, true) {
                read.fetch.is_done()
            } else {
                read.fetch.wait()
            }
        };
        let at = self.reads.iter_mut().position(is_done)?;
        let Read { request, fetch, .. } = self.reads.remove(at)?;
        Some((request, fetch))
    }

    /// The next item whose write is done.
    pub fn take_behind(&mut self) -> Option<T> {
        let at = self.behind.iter().position(|(write, _)| write.is_done())?;
        let (_, item) = self.behind.remove(at)?;
        Some(item)
    }

    /// The next cycle in which there may be something to take; none where only others can bring it about.
    #[inline]
    pub fn next_event(&self) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let reads = self.reads.iter().filter_map(|read| match read.waited {
            false => Some(read.due),
            true => read.fetch.is_done().then_some(0),
        });
        let behind = self.behind.iter().any(|(write, _)| write.is_done()).then_some(0);
        reads.chain(behind).min()
    }
}
