//! A ring at an address that cannot be read is refused when it is made: its first and last line are read, of one within
//! a page only the first. Each takes as long as host memory takes; a command may do other work meanwhile.

use crate::hal::Hal;
use crate::{Bus, CmdResult};
use hca_abi::AdminStatus;

/// Bytes that host memory is mapped by, at least.
const PAGE_BYTES: u64 = 4096;
/// What is read at a time.
const LINE_BYTES: u64 = 64;
/// Ends of the rings of a command.
const ENDS: usize = 4;

/// Lines that are read one after the other.
pub(crate) struct Probes {
    func: u8,
    ends: [u64; ENDS],
    count: usize,
    /// The next one; the one before it is under way.
    next: usize,
}

impl Probes {
    pub const fn new(func: u8) -> Self {
        Self {
            func,
            ends: [0; ENDS],
            count: 0,
            next: 0,
        }
    }

    /// The ends of a ring of so many bytes, a multiple of 64; of two rings at most.
    pub fn add(&mut self, base: u64, bytes: u64) -> CmdResult {
        let last = base.checked_add(bytes).ok_or((AdminStatus::BadParam, 0))? - LINE_BYTES;
        self.put(base);
        if base / PAGE_BYTES != last / PAGE_BYTES {
            self.put(last);
        }
        Ok(())
    }

    fn put(&mut self, end: u64) {
        if let Some(place) = self.ends.get_mut(self.count) {
            *place = end;
            self.count += 1;
        }
    }

    /// Waits for the line under way, and asks for the next one.
    #[inline(never)]
    pub fn step<B: Bus>(&mut self, hal: &mut Hal<B>) -> CmdResult {
        if self.next > self.count {
            return Ok(());
        }
        if self.next != 0 {
            hal.end_probe().map_err(|_| (AdminStatus::DmaError, 0))?;
        }
        if let Some(addr) = self.ends.get(self.next).filter(|_| self.next < self.count) {
            hal.start_probe(self.func, *addr);
        }
        self.next += 1;
        Ok(())
    }

    /// All of them have been read.
    pub fn finish<B: Bus>(&mut self, hal: &mut Hal<B>) -> CmdResult {
        while self.next <= self.count {
            self.step(hal)?;
        }
        Ok(())
    }
}
