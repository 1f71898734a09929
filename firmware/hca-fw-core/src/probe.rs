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

/// Host memory could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DmaError;

/// Lines that are read one after the other.
pub(crate) struct Probes {
    func: u8,
    ends: [u64; ENDS],
    count: usize,
    /// The next one, once it has begun; the one before it is under way.
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
    #[inline(always)]
    pub fn add(&mut self, base: u64, bytes: u32) -> CmdResult {
        let last = base.wrapping_add(u64::from(bytes) - LINE_BYTES);
        if last < base || last > u64::MAX - LINE_BYTES {
            return Err((AdminStatus::BadParam, 0));
        }
        let at = self.count;
        if let Some([first, second]) = self.ends.get_mut(at..at + 2) {
            (*first, *second) = (base, last);
            self.count = at + 1 + usize::from((base ^ last) >= PAGE_BYTES);
        }
        Ok(())
    }

    /// Is there a ring?
    pub fn any(&self) -> bool {
        self.count != 0
    }

    /// Asks for the first line.
    #[inline(always)]
    pub fn begin<B: Bus>(&mut self, hal: &mut Hal<B>) {
        hal.start_probe(self.func, self.ends[0], true);
        self.next = 1;
    }

    /// Waits for the line under way, and asks for the next one. Calls nothing, so it keeps no registers.
    #[inline(never)]
    pub fn step<B: Bus>(&mut self, hal: &mut Hal<B>) -> CmdResult {
        let at = self.next;
        if at > self.count || at == 0 {
            return Ok(());
        }
        self.next = at + 1;
        hal.end_probe().map_err(|_| (AdminStatus::DmaError, 0))?;
        if let Some(addr) = self.ends.get(at).filter(|_| at < self.count) {
            hal.start_probe(self.func, *addr, false);
        }
        Ok(())
    }

    /// All of them have been read.
    #[inline(always)]
    pub fn finish<B: Bus>(&mut self, hal: &mut Hal<B>) -> CmdResult {
        while self.next != 0 && self.next <= self.count {
            self.step(hal)?;
        }
        Ok(())
    }
}
