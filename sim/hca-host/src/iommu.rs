//! One function's view of host memory: ranges of bus addresses, each backed by some memory.

mod fault;
mod fetch;
mod memory;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hca_dev::{SharedMem, load_bytes, store_bytes, store_line};

use crate::backing::Backings;
use crate::ranges::{Access, Mapping, Ranges, Unmapped};
use crate::remote::{Remote, Target, Ticket};
use crate::uses::RangeUses;
use crate::{LINE_BYTES, Line};
pub use fault::{Cause, Fault, MapError, Touch};
pub use fetch::{Fetch, Found};
pub use memory::{Memory, SharedWrite};

/// What is written to a program's memory is there so many cycles later, or twice as many: fewer than it takes until the
/// other end of a transfer hears of it.
const LAG_CYCLES: u64 = 16;

/// The program whose addresses are mapped.
#[derive(Default)]
enum Program {
    /// This process.
    #[default]
    Ours,
    /// Another one.
    Remote(Remote),
    /// Another one that is no more: what is written to it is lost.
    Gone,
}

/// The map of one function. Memory of the program that is mapped at its own address may be mapped in
/// overlapping pieces (registered buffers do that); everything else is exclusive. The program is this
/// process, unless [`IommuMap::set_process`] names another one.
#[derive(Default)]
pub struct IommuMap {
    mappings: Mappings,
    /// The function may not master the bus.
    stopped: bool,
    /// A write that is lost stops those behind it.
    contains: bool,
    /// The one that was lost.
    lost: Option<Fault>,
    program: Program,
    /// Some write that was under way in this cycle.
    oldest: Option<(u64, Ticket)>,
    shared_writes: u64,
    /// The writes themselves, for whoever watches.
    log: Option<Vec<SharedWrite>>,
}

/// All mappings of a function.
#[derive(Default)]
pub struct Mappings {
    ranges: Ranges,
    identity: RangeUses,
    /// Files that memory of `identity` is in.
    backings: Backings,
}

impl IommuMap {
    /// From now on the program is another process, with nothing mapped yet.
    pub fn set_process(&mut self, process: Remote) {
        self.clear();
        self.lost = None;
        self.program = Program::Remote(process);
    }

    /// The process is no more, but the card does not know yet. What it still writes to the process's memory is
    /// lost, what it reads from there faults, and rings stay as they are, all until [`IommuMap::clear`].
    pub fn abandon(&mut self) {
        if !matches!(self.program, Program::Ours) {
            self.program = Program::Gone;
        }
    }

    /// The program is another process, which has to be asked for its memory.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self.program, Program::Remote(_)) && !self.mappings.backings.are_usual()
    }

    fn remote(&mut self) -> Option<&mut Remote> {
        match &mut self.program {
            Program::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// Gives accesses that were started to whoever does them.
    pub fn flush(&mut self) {
        self.remote().into_iter().for_each(Remote::flush);
    }

    /// Every access that was started is done, after a short wait if need be: then what is unmapped is untouched from
    /// there on.
    pub fn is_settled(&mut self) -> bool {
        self.remote().is_none_or(Remote::is_settled)
    }

    /// The same without any wait.
    pub fn is_idle(&self) -> bool {
        match &self.program {
            Program::Remote(remote) => remote.is_idle(),
            _ => true,
        }
    }

    /// The program's memory has not answered for so long.
    pub fn is_stuck(&mut self, limit: Duration) -> bool {
        self.remote().is_some_and(|remote| remote.is_stuck(limit))
    }

    /// The last write that is not done; what tells of it has to wait for it.
    pub(crate) fn last_write(&mut self) -> Option<Ticket> {
        self.remote()?.last_write()
    }

    /// Waits for a write that was started [`LAG_CYCLES`] ago, or a little earlier, and for those before it.
    #[inline]
    pub(crate) fn keep_up(&mut self, now: u64) {
        if let Program::Remote(_) = self.program {
            self.keep_up_with_remote(now);
        }
    }

    /// Others may hear of all writes so far.
    #[inline]
    pub(crate) fn see_writes(&mut self) {
        if let Program::Remote(remote) = &mut self.program {
            remote.see_writes();
        }
    }

    fn keep_up_with_remote(&mut self, now: u64) {
        let Program::Remote(remote) = &mut self.program else {
            return;
        };
        match &self.oldest {
            Some((since, write)) if now >= since + LAG_CYCLES => {
                write.wait();
                self.oldest = remote.last_seen().map(|write| (now, write));
            }
            Some(_) => {}
            None => self.oldest = remote.last_seen().map(|write| (now, write)),
        }
    }

    /// Writes that found no memory, since the last call: how many, and where the first were.
    pub(crate) fn take_failed(&mut self) -> (u64, Vec<u64>) {
        self.remote()
            .map_or_else(Default::default, |remote| remote.take_failed())
    }

    /// Maps memory of the process named before at its own address.
    pub fn map_process(&mut self, addr: u64, len_bytes: u64) -> Result<(), MapError> {
        self.map_of_process(addr, len_bytes)?;
        self.mappings.backings.add_without(len_bytes);
        Ok(())
    }

    /// The same of memory that the process has from a file: what lies at `addr` is at `offset` there.
    pub fn map_shared_process(
        &mut self,
        addr: u64,
        len_bytes: u64,
        file: (Arc<SharedMem>, usize),
    ) -> Result<(), MapError> {
        self.map_of_process(addr, len_bytes)?;
        self.mappings.backings.add(addr, len_bytes, file);
        Ok(())
    }

    fn map_of_process(&mut self, addr: u64, len_bytes: u64) -> Result<(), MapError> {
        let bad = MapError::BadRange {
            iova: addr,
            len_bytes,
        };
        let end = addr
            .checked_add(len_bytes)
            .filter(|_| len_bytes > 0 && !matches!(self.program, Program::Ours));
        self.map_identity(addr, end.ok_or(bad)?)
    }

    /// Maps `len_bytes` at bus address `iova`, to be read and written.
    pub fn map(&mut self, iova: u64, len_bytes: u64, memory: Memory) -> Result<(), MapError> {
        self.map_for(iova, len_bytes, memory, Access::ReadWrite)
    }

    /// The same for some accesses only.
    pub fn map_for(
        &mut self,
        iova: u64,
        len_bytes: u64,
        memory: Memory,
        access: Access,
    ) -> Result<(), MapError> {
        let bad = MapError::BadRange { iova, len_bytes };
        let end = iova.checked_add(len_bytes).filter(|_| len_bytes > 0).ok_or(bad)?;
        let behind = match &memory {
            Memory::Shared { memory, offset } => memory.len_bytes().checked_sub(*offset).ok_or(bad)?,
            Memory::User(user) => user.len_bytes(),
            Memory::Messages => usize::MAX,
        };
        if len_bytes > behind as u64 {
            return Err(bad);
        }
        if matches!(self.program, Program::Ours)
            && matches!(&memory, Memory::User(user) if user.addr() == iova)
        {
            return self.map_identity(iova, end);
        }
        if !self.mappings.ranges.is_free(iova, end - 1) || !self.mappings.identity.is_free(iova, end) {
            return Err(MapError::Overlap { iova, len_bytes });
        }
        let mapping = Mapping {
            len_bytes,
            memory,
            access,
        };
        self.mappings.ranges.insert(iova, mapping);
        Ok(())
    }

    fn map_identity(&mut self, iova: u64, end: u64) -> Result<(), MapError> {
        if !self.mappings.ranges.is_free(iova, end - 1) {
            return Err(MapError::Overlap {
                iova,
                len_bytes: end - iova,
            });
        }
        if !self.mappings.identity.add(iova, end) {
            return Err(MapError::Pieces {
                iova,
                len_bytes: end - iova,
            });
        }
        Ok(())
    }

    /// Ends a mapping made with exactly this start and length.
    pub fn unmap(&mut self, iova: u64, len_bytes: u64) -> Result<(), MapError> {
        let ended = match self.mappings.ranges.remove(iova, len_bytes) {
            Some(ended) => ended,
            None => {
                let end = iova.checked_add(len_bytes).filter(|end| *end > iova);
                let ended = end.is_some_and(|end| self.mappings.identity.remove(iova, end));
                if ended {
                    self.mappings.backings.remove(iova, len_bytes);
                }
                ended
            }
        };
        if ended {
            Ok(())
        } else {
            Err(MapError::NotMapped { iova, len_bytes })
        }
    }

    /// Ends mappings that lie wholly in the range, at most `limit` of them, for this takes time; memory of a process at
    /// its own addresses is not among them. To end none is no error, to cut one is.
    pub fn unmap_range(&mut self, iova: u64, len_bytes: u64, limit: usize) -> Result<Unmapped, MapError> {
        let Some(to_last) = len_bytes.checked_sub(1) else {
            return Ok(Unmapped::default());
        };
        let last = iova
            .checked_add(to_last)
            .ok_or(MapError::BadRange { iova, len_bytes })?;
        self.mappings
            .ranges
            .remove_inside(iova, last, limit)
            .ok_or(MapError::Cut { iova, len_bytes })
    }

    /// Ends everything.
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Ends everything at once; to drop what there was takes longer, and may be done elsewhere.
    pub fn take(&mut self) -> Mappings {
        std::mem::take(&mut self.mappings)
    }

    /// Whether the function may master the bus: if not, every access faults. Switching it on ends a containment.
    pub fn set_bus_master(&mut self, on: bool) {
        self.stopped = !on;
        if on {
            self.lost = None;
        }
    }

    /// Whether a lost write is contained: what the function writes behind it is lost, too, so that nobody finds later
    /// data, or a completion, without it. Otherwise it is only counted.
    pub fn contain_lost_writes(&mut self, on: bool) {
        self.contains = on;
    }

    /// The write that has been lost, and for which the function is contained.
    #[inline]
    pub fn lost_write(&self) -> Option<Fault> {
        self.lost
    }

    /// A write was refused. True: the function is contained for it, from now on.
    pub(crate) fn lose(&mut self, fault: Fault) -> bool {
        let is_first = self.contains && self.lost.is_none() && fault.is_mistake();
        if is_first {
            self.lost = Some(fault);
        }
        is_first
    }

    /// Lines written into memory that was mapped as [`Memory::Shared`]: rings, where the program is another process.
    pub fn shared_writes(&self) -> u64 {
        match &self.program {
            Program::Remote(remote) => self.shared_writes + remote.shared_writes(),
            _ => self.shared_writes,
        }
    }

    /// Keeps those lines from now on, until they are taken; or no longer.
    pub fn log_shared_writes(&mut self, on: bool) {
        self.log = on.then(Vec::new);
    }

    /// The lines kept since the last call.
    pub fn take_shared_writes(&mut self) -> Vec<SharedWrite> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Number of mappings.
    pub fn len(&self) -> usize {
        self.mappings.ranges.len() + self.mappings.identity.len()
    }

    /// Nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The mapping that holds `addr`, if it may be accessed so: where the byte lies, and how many bytes of the mapping
    /// are left from it.
    #[inline]
    fn find(&self, addr: u64, access: Access) -> Result<(Place, u64), Cause> {
        if self.stopped {
            return Err(Cause::Master);
        }
        if let Some((mapping, offset)) = self.mappings.ranges.find(addr) {
            if !mapping.access.allows(access) {
                return Err(Cause::Forbidden);
            }
            let place = match &mapping.memory {
                Memory::Shared { memory, offset: base } => {
                    Place::Theirs(Target::Shared(memory.clone(), base + offset as usize))
                }
                Memory::User(user) => Place::Ours((user.addr() + offset) as *mut u8),
                // Of a client that there is.
                Memory::Messages if matches!(self.program, Program::Ours) => return Err(Cause::Unmapped),
                Memory::Messages => self.theirs(addr),
            };
            return Ok((place, mapping.len_bytes - offset));
        }
        let left = self.mappings.identity.left(addr).ok_or(Cause::Unmapped)?;
        match self.backing(addr) {
            Some((ptr, in_file)) => Ok((Place::Ours(ptr), left.min(in_file))),
            None => Ok((self.theirs(addr), left)),
        }
    }

    /// Where memory of another process is in this one, too, if nothing that was started has to come before: otherwise
    /// it is reached by its address, behind the rest.
    #[inline]
    fn backing(&self, addr: u64) -> Option<(*mut u8, u64)> {
        match &self.program {
            Program::Remote(remote) => self.mappings.backings.find(addr).filter(|_| remote.is_idle()),
            _ => None,
        }
    }

    /// At an address of the program's.
    fn theirs(&self, addr: u64) -> Place {
        match &self.program {
            Program::Ours => Place::Ours(addr as *mut u8),
            Program::Remote(_) => Place::Theirs(Target::Process(addr)),
            Program::Gone => Place::Nowhere,
        }
    }

    /// So many bytes, if they lie in one mapping and in this process, and nothing that was started has to come before:
    /// where, and whether the memory is shared with the program.
    #[inline]
    fn at_hand(&self, addr: u64, len_bytes: usize, access: Access) -> Option<(*mut u8, bool)> {
        if self.stopped {
            return None;
        }
        if let Some((mapping, offset)) = self.mappings.ranges.find(addr) {
            if !mapping.access.allows(access) || mapping.len_bytes - offset < len_bytes as u64 {
                return None;
            }
            return match &mapping.memory {
                Memory::Shared { memory, offset: base } if self.is_idle() => {
                    Some((memory.as_ptr().wrapping_add(base + offset as usize), true))
                }
                Memory::User(user) => Some(((user.addr() + offset) as *mut u8, false)),
                _ => None,
            };
        }
        let left = self.mappings.identity.left(addr)?;
        let (ptr, left) = match &self.program {
            Program::Ours => (addr as *mut u8, left),
            _ => self
                .backing(addr)
                .map(|(ptr, in_file)| (ptr, left.min(in_file)))?,
        };
        (left >= len_bytes as u64).then_some((ptr, false))
    }

    /// Copies out of memory, across mappings. On a fault the buffer holds no promise.
    pub fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> Result<Found, Fault> {
        if let Some((ptr, _)) = self.at_hand(addr, out.len(), Access::ReadOnly) {
            // SAFETY: so many bytes from here are inside the mapping, which is alive; the other side of a race sees
            // atomic accesses (registered memory is the program's to share).
            unsafe { load_bytes(ptr, out) };
            return Ok(Found::Now);
        }
        let idle = self.is_idle();
        let mut later = Vec::new();
        let mut done = 0;
        while done < out.len() {
            let at = addr.wrapping_add(done as u64);
            let fault = |cause| Fault::read(func, at, cause);
            let (place, left) = self.find(at, Access::ReadOnly).map_err(fault)?;
            let len = (out.len() - done).min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = done..done + len;
            match place {
                // SAFETY: `find` says that so many bytes from here are inside the mapping, which is alive; the other
                // side of a race sees atomic accesses (registered memory is the program's to share).
                Place::Ours(ptr) => unsafe { load_bytes(ptr, &mut out[piece]) },
                Place::Theirs(Target::Shared(memory, offset)) if idle => {
                    // SAFETY: as above.
                    unsafe { load_bytes(memory.as_ptr().wrapping_add(offset), &mut out[piece]) };
                }
                Place::Theirs(target) => later.push((piece, target)),
                Place::Nowhere => return Err(fault(Cause::Ended)),
            }
            done += len;
        }
        Ok(self.start_fetch(Fault::read(func, addr, Cause::Unmapped), out, later))
    }

    /// Looks at memory that is shared with the program, as it is now. False: it is not all there.
    pub fn peek(&self, addr: u64, out: &mut [u8]) -> bool {
        let found = self.mappings.ranges.find(addr).filter(|_| !self.stopped);
        let Some((mapping, at)) = found.filter(|(mapping, _)| mapping.access.allows(Access::ReadOnly)) else {
            return false;
        };
        match &mapping.memory {
            Memory::Shared { memory, offset } if mapping.len_bytes - at >= out.len() as u64 => {
                // SAFETY: so many bytes from here are inside the mapping, which is alive.
                unsafe { load_bytes(memory.as_ptr().wrapping_add(offset + at as usize), out) };
                true
            }
            _ => false,
        }
    }

    fn start_fetch(&mut self, fault: Fault, out: &[u8], pieces: Vec<(Range<usize>, Target)>) -> Found {
        match self.remote() {
            Some(remote) if !pieces.is_empty() => {
                let is_all = pieces[0].0 == (0..out.len());
                let bytes = if is_all { Vec::new() } else { out.to_vec() };
                let start = |(place, target): (Range<usize>, Target)| {
                    let len_bytes = place.len();
                    (place, remote.start_read(target, len_bytes))
                };
                let pieces = pieces.into_iter().map(start).collect();
                Found::Later(Fetch { fault, bytes, pieces })
            }
            _ => Found::Now,
        }
    }

    /// Writes the enabled bytes of one line; `addr` is a multiple of 64. Memory of another process gets them soon, in
    /// the order of the calls. `cycle` is for the log.
    pub fn write_line(
        &mut self,
        cycle: u64,
        func: u8,
        addr: u64,
        line: &Line,
        strb: u64,
    ) -> Result<(), Fault> {
        if self.lost.is_some() {
            return Ok(());
        }
        if self.log.is_none()
            && let Some((ptr, is_shared)) = self.at_hand(addr, LINE_BYTES, Access::WriteOnly)
        {
            // SAFETY: the whole line is inside the mapping, which is alive.
            unsafe { store_line(ptr, &line.0, strb) };
            self.shared_writes += u64::from(is_shared);
            return Ok(());
        }
        let place = self.find(addr, Access::WriteOnly).ok();
        match place.filter(|(_, left)| *left >= LINE_BYTES as u64) {
            // SAFETY: the whole line is inside the mapping, which is alive.
            Some((Place::Ours(ptr), _)) => unsafe { store_line(ptr, &line.0, strb) },
            Some((Place::Theirs(target), _)) => {
                let line = *line;
                if let (Some(log), Target::Shared(..)) = (&mut self.log, &target) {
                    log.push(SharedWrite {
                        cycle,
                        addr,
                        line,
                        strb,
                    });
                }
                self.write_theirs(target, line, strb);
            }
            _ => return self.write_pieces(func, addr, line, strb),
        }
        Ok(())
    }

    /// Writes the first of whole lines that follow each other, as many as go at once; `addr` is a multiple of 64. Bytes
    /// that this was about, and how it went.
    pub fn write_lines(
        &mut self,
        cycle: u64,
        func: u8,
        addr: u64,
        bytes: &[u8],
    ) -> (usize, Result<(), Fault>) {
        debug_assert!(addr.is_multiple_of(LINE_BYTES as u64) && bytes.len().is_multiple_of(LINE_BYTES));
        if self.lost.is_some() {
            return (bytes.len(), Ok(()));
        }
        if self.log.is_none()
            && let Some((ptr, is_shared)) = self.at_hand(addr, bytes.len(), Access::WriteOnly)
        {
            // SAFETY: the whole run is inside the mapping, which is alive.
            unsafe { store_bytes(ptr, bytes) };
            self.shared_writes += u64::from(is_shared) * (bytes.len() / LINE_BYTES) as u64;
            return (bytes.len(), Ok(()));
        }
        let found = self.find(addr, Access::WriteOnly).ok();
        let left = found.as_ref().map_or(0, |(_, left)| *left);
        let left = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let run = &bytes[..left / LINE_BYTES * LINE_BYTES];
        match found {
            // SAFETY: the whole run is inside the mapping, which is alive.
            Some((Place::Ours(ptr), _)) if !run.is_empty() => unsafe { store_bytes(ptr, run) },
            Some((Place::Theirs(target), _))
                if !run.is_empty() && (self.log.is_none() || matches!(target, Target::Process(_))) =>
            {
                self.write_run(target, run);
            }
            // A line that is not wholly in one mapping, or whose write is noted.
            _ => {
                let mut line = Line::ZERO;
                line.0.copy_from_slice(&bytes[..LINE_BYTES]);
                return (LINE_BYTES, self.write_line(cycle, func, addr, &line, u64::MAX));
            }
        }
        (run.len(), Ok(()))
    }

    fn write_run(&mut self, target: Target, run: &[u8]) {
        let idle = self.is_idle();
        match (target, self.remote()) {
            (Target::Shared(memory, offset), remote) if idle || remote.is_none() => {
                // SAFETY: whoever made the target saw that the run is inside the mapping, which is alive.
                unsafe { store_bytes(memory.as_ptr().wrapping_add(offset), run) };
                self.shared_writes += (run.len() / LINE_BYTES) as u64;
            }
            (target, Some(remote)) => remote.start_run(target, run),
            // `find` names a process only where there is one.
            (Target::Process(_) | Target::Shared(..), None) => {}
        }
    }

    fn write_theirs(&mut self, target: Target, line: Line, strb: u64) {
        let idle = self.is_idle();
        match (target, self.remote()) {
            (Target::Shared(memory, offset), remote) if idle || remote.is_none() => {
                // SAFETY: whoever made the target saw that what `strb` enables is inside the mapping, which is alive.
                unsafe { store_line(memory.as_ptr().wrapping_add(offset), &line.0, strb) };
                self.shared_writes += 1;
            }
            (target, Some(remote)) => remote.start_write(target, line, strb),
            // `find` names a process only where there is one.
            (Target::Process(_) | Target::Shared(..), None) => {}
        }
    }

    /// The slow way, for lines that are not wholly in one mapping: one run of enabled bytes at a time.
    fn write_pieces(&mut self, func: u8, addr: u64, line: &Line, strb: u64) -> Result<(), Fault> {
        let mut byte = 0;
        while byte < LINE_BYTES {
            if strb >> byte & 1 == 0 {
                byte += 1;
                continue;
            }
            let at = addr.wrapping_add(byte as u64);
            let run = (strb >> byte).trailing_ones() as usize;
            let found = self.find(at, Access::WriteOnly);
            let (place, left) = found.map_err(|cause| Fault::write(func, at, cause))?;
            let len = run.min(usize::try_from(left).unwrap_or(usize::MAX));
            let bytes = &line.0[byte..byte + len];
            match place {
                // SAFETY: `find` says that so many bytes from here are inside the mapping, which is alive.
                Place::Ours(ptr) => unsafe { store_bytes(ptr, bytes) },
                Place::Theirs(target) => {
                    let mut piece = Line::ZERO;
                    piece.0[..len].copy_from_slice(bytes);
                    self.write_theirs(target, piece, u64::MAX >> (LINE_BYTES - len));
                }
                Place::Nowhere => {}
            }
            byte += len;
        }
        Ok(())
    }
}

/// Where a byte lies.
enum Place {
    /// In this process, too.
    Ours(*mut u8),
    /// In memory of the program's, shared or not.
    Theirs(Target),
    /// In a process that is no more.
    Nowhere,
}

#[cfg(test)]
mod tests;
