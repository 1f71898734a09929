//! One function's view of host memory: ranges of bus addresses, each backed by some memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use hca_dev::{SharedMem, UserMemory, load_bytes, store_bytes, store_line};
use thiserror::Error;

use crate::uses::{PIECES, RangeUses};
use crate::{LINE_BYTES, Line};

/// Memory of another process, reached by its own address.
pub trait RemoteMemory: Send + Sync {
    /// Copies out. False: the address is not there any more.
    fn read(&self, addr: u64, out: &mut [u8]) -> bool;
    /// Copies in. False: the address is not there any more, or not writable.
    fn write(&self, addr: u64, bytes: &[u8]) -> bool;
}

/// Memory of a process that is no more.
struct Nobody;

impl RemoteMemory for Nobody {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }

    fn write(&self, _: u64, _: &[u8]) -> bool {
        true
    }
}

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
    /// Memory that only its owner reaches, and would have to be asked for by messages. That is not done yet: every access
    /// is a fault.
    Messages,
}

/// The card touched an address that is not mapped (or vanished).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("function {func}: bus address {addr:#x} is not mapped")]
pub struct Fault {
    /// Function.
    pub func: u8,
    /// First address that failed.
    pub addr: u64,
}

/// A mapping that cannot be made or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Zero bytes, or past the end of the address space or of the memory behind it.
    #[error("range {iova:#x} + {len_bytes:#x} is empty, wraps, or is longer than the memory behind it")]
    BadRange {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Part of it is mapped to something else.
    #[error("range {iova:#x} + {len_bytes:#x} overlaps a mapping: unmap that first")]
    Overlap {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Too many mappings overlap it.
    #[error(
        "range {iova:#x} + {len_bytes:#x} is cut into more than {PIECES} pieces by mappings that overlap it"
    )]
    Pieces {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// No such mapping.
    #[error("no mapping starts at {iova:#x} with length {len_bytes:#x}")]
    NotMapped {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
}

struct Range {
    len_bytes: u64,
    memory: Memory,
}

/// The map of one function. Memory of the program that is mapped at its own address may be mapped in
/// overlapping pieces (registered buffers do that); everything else is exclusive. The program is this
/// process, unless [`IommuMap::set_process`] names another one.
#[derive(Default)]
pub struct IommuMap {
    ranges: BTreeMap<u64, Range>,
    identity: RangeUses,
    process: Option<Arc<dyn RemoteMemory>>,
    shared_writes: u64,
    /// The writes themselves, for whoever watches.
    log: Option<Vec<SharedWrite>>,
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

impl IommuMap {
    /// From now on the program is another process, with nothing mapped yet.
    pub fn set_process(&mut self, process: Arc<dyn RemoteMemory>) {
        self.clear();
        self.process = Some(process);
    }

    /// The process is no more, but the card does not know yet. What it still writes to the process's memory is
    /// lost, what it reads from there faults, and rings stay as they are, all until [`IommuMap::clear`].
    pub fn abandon(&mut self) {
        if self.process.is_some() {
            self.process = Some(Arc::new(Nobody));
        }
    }

    /// Maps memory of the process named before at its own address.
    pub fn map_process(&mut self, addr: u64, len_bytes: u64) -> Result<(), MapError> {
        let bad = MapError::BadRange {
            iova: addr,
            len_bytes,
        };
        let end = addr
            .checked_add(len_bytes)
            .filter(|_| len_bytes > 0 && self.process.is_some());
        self.map_identity(addr, end.ok_or(bad)?)
    }

    /// Maps `len_bytes` at bus address `iova`.
    pub fn map(&mut self, iova: u64, len_bytes: u64, memory: Memory) -> Result<(), MapError> {
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
        if self.process.is_none() && matches!(&memory, Memory::User(user) if user.addr() == iova) {
            return self.map_identity(iova, end);
        }
        if self.overlaps_range(iova, end) || !self.identity.is_free(iova, end) {
            return Err(MapError::Overlap { iova, len_bytes });
        }
        self.ranges.insert(iova, Range { len_bytes, memory });
        Ok(())
    }

    fn map_identity(&mut self, iova: u64, end: u64) -> Result<(), MapError> {
        if self.overlaps_range(iova, end) {
            return Err(MapError::Overlap {
                iova,
                len_bytes: end - iova,
            });
        }
        if !self.identity.add(iova, end) {
            return Err(MapError::Pieces {
                iova,
                len_bytes: end - iova,
            });
        }
        Ok(())
    }

    fn overlaps_range(&self, iova: u64, end: u64) -> bool {
        let last = self.ranges.range(..end).next_back();
        last.is_some_and(|(start, range)| start + range.len_bytes > iova)
    }

    /// Ends a mapping made with exactly this start and length.
    pub fn unmap(&mut self, iova: u64, len_bytes: u64) -> Result<(), MapError> {
        let not_mapped = MapError::NotMapped { iova, len_bytes };
        match self.ranges.get(&iova) {
            Some(range) if range.len_bytes == len_bytes => {
                self.ranges.remove(&iova);
                Ok(())
            }
            Some(_) => Err(not_mapped),
            None => {
                let end = iova
                    .checked_add(len_bytes)
                    .filter(|end| *end > iova)
                    .ok_or(not_mapped)?;
                if self.identity.remove(iova, end) {
                    Ok(())
                } else {
                    Err(not_mapped)
                }
            }
        }
    }

    /// Ends every mapping that lies wholly inside the range; returns how many bytes those were.
    pub fn unmap_inside(&mut self, iova: u64, len_bytes: u64) -> u64 {
        let end = iova.saturating_add(len_bytes);
        let inside = self
            .ranges
            .range(iova..end)
            .filter(|(start, range)| *start + range.len_bytes <= end);
        let starts: Vec<u64> = inside.map(|(start, _)| *start).collect();
        let ended = starts.iter().filter_map(|start| self.ranges.remove(start));
        ended.map(|range| range.len_bytes).sum()
    }

    /// Ends everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.identity.clear();
    }

    /// Lines written into memory that was mapped as [`Memory::Shared`]: rings, where the program is another process.
    pub fn shared_writes(&self) -> u64 {
        self.shared_writes
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
        self.ranges.len() + self.identity.len()
    }

    /// Nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The range that holds `addr`: where the byte lies, and how many bytes of the range are left from it.
    #[inline]
    fn find(&self, addr: u64) -> Option<(Place<'_>, u64)> {
        if let Some((start, range)) = self.ranges.range(..=addr).next_back()
            && addr - start < range.len_bytes
        {
            let offset = addr - start;
            let place = match &range.memory {
                Memory::Shared { memory, offset: base } => {
                    Place::Local(memory.as_ptr().wrapping_add(base + offset as usize))
                }
                Memory::User(user) => Place::Local((user.addr() + offset) as *mut u8),
                Memory::Messages => return None,
            };
            return Some((place, range.len_bytes - offset));
        }
        let left = self.identity.left(addr)?;
        let place = match &self.process {
            Some(process) => Place::Remote(process.as_ref(), addr),
            None => Place::Local(addr as *mut u8),
        };
        Some((place, left))
    }

    /// Copies out of memory, across mappings. On a fault the buffer holds no promise.
    pub fn read(&self, func: u8, addr: u64, mut out: &mut [u8]) -> Result<(), Fault> {
        let mut at = addr;
        while !out.is_empty() {
            let fault = Fault { func, addr: at };
            let (place, left) = self.find(at).ok_or(fault)?;
            let (piece, rest) = out.split_at_mut(out.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            match place {
                Place::Remote(process, addr) if process.read(addr, piece) => {}
                Place::Remote(..) => return Err(fault),
                // SAFETY: `find` says that piece.len() bytes from here are inside the mapping, which is
                // alive; the other side of a race sees atomic accesses (registered memory is the program's to
                // share).
                Place::Local(ptr) => unsafe { load_bytes(ptr, piece) },
            }
            at = at.wrapping_add(piece.len() as u64);
            out = rest;
        }
        Ok(())
    }

    /// Writes the enabled bytes of one line; `addr` is a multiple of 64.
    /// `cycle` is for the log.
    pub fn write_line(
        &mut self,
        cycle: u64,
        func: u8,
        addr: u64,
        line: &Line,
        strb: u64,
    ) -> Result<(), Fault> {
        if let Some((Place::Local(ptr), left)) = self.find(addr)
            && left >= LINE_BYTES as u64
        {
            // SAFETY: the whole line is inside the mapping, which is alive.
            unsafe { store_line(ptr, &line.0, strb) };
            if self.process.is_some() {
                self.shared_writes += 1;
                if let Some(log) = &mut self.log {
                    let line = *line;
                    log.push(SharedWrite {
                        cycle,
                        addr,
                        line,
                        strb,
                    });
                }
            }
            return Ok(());
        }
        self.write_pieces(func, addr, line, strb)
    }

    /// The slow way, for lines that are not wholly in one local mapping: one run of enabled bytes at a time.
    fn write_pieces(&self, func: u8, addr: u64, line: &Line, strb: u64) -> Result<(), Fault> {
        let mut byte = 0;
        while byte < LINE_BYTES {
            if strb >> byte & 1 == 0 {
                byte += 1;
                continue;
            }
            let fault = Fault {
                func,
                addr: addr.wrapping_add(byte as u64),
            };
            let run = (strb >> byte).trailing_ones() as usize;
            let (place, left) = self.find(fault.addr).ok_or(fault)?;
            let len = run.min(usize::try_from(left).unwrap_or(usize::MAX));
            let bytes = &line.0[byte..byte + len];
            match place {
                Place::Remote(process, addr) if process.write(addr, bytes) => {}
                Place::Remote(..) => return Err(fault),
                // SAFETY: `find` says that len bytes from here are inside the mapping, which is alive.
                Place::Local(ptr) => unsafe { store_bytes(ptr, bytes) },
            }
            byte += len;
        }
        Ok(())
    }
}

/// Where a byte lies.
enum Place<'a> {
    /// In this process.
    Local(*mut u8),
    /// In another one, at its address.
    Remote(&'a dyn RemoteMemory, u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(bytes: usize) -> (Arc<SharedMem>, Memory) {
        let memory = Arc::new(SharedMem::new("test", bytes).unwrap());
        (memory.clone(), Memory::Shared { memory, offset: 0 })
    }

    #[test]
    fn reads_and_writes_cross_mappings() {
        let mut map = IommuMap::default();
        let (a, a_memory) = shared(4096);
        let (_b, b_memory) = shared(4096);
        map.map(0x10_0000, 4064, a_memory).unwrap();
        map.map(0x10_0000 + 4064, 4096, b_memory).unwrap();
        let line = Line(std::array::from_fn(|i| i as u8 + 1));
        map.write_line(9, 0, 0x10_0000 + 4032, &line, u64::MAX).unwrap();
        let mut out = [0; 64];
        map.read(0, 0x10_0000 + 4032, &mut out).unwrap();
        assert_eq!(out, line.0);
        // SAFETY: offset 4063 is inside the mapping.
        assert_eq!(unsafe { *a.as_ptr().add(4063) }, 32);
        let fault = map.read(3, 0x10_0000 + 4064 + 4090, &mut out).unwrap_err();
        assert_eq!(
            fault,
            Fault {
                func: 3,
                addr: 0x10_0000 + 4064 + 4096
            }
        );
    }

    #[test]
    fn an_abandoned_map_keeps_rings_and_loses_writes() {
        let mut map = IommuMap::default();
        let (_ring, memory) = shared(4096);
        map.set_process(Arc::new(Nobody));
        map.map(0x10_0000, 4096, memory).unwrap();
        map.map_process(0x20_0000, 4096).unwrap();
        map.abandon();
        let (line, mut out) = (Line([7; 64]), [0; 64]);
        map.write_line(9, 0, 0x10_0000, &line, u64::MAX).unwrap();
        map.read(0, 0x10_0000, &mut out).unwrap();
        assert_eq!(out, line.0);
        map.write_line(9, 0, 0x20_0000, &line, u64::MAX).unwrap();
        assert_eq!(
            map.read(0, 0x20_0000, &mut out),
            Err(Fault {
                func: 0,
                addr: 0x20_0000
            })
        );
        map.clear();
        assert!(map.write_line(9, 0, 0x20_0000, &line, u64::MAX).is_err());
    }

    #[test]
    fn overlaps_and_empty_ranges_are_refused() {
        let mut map = IommuMap::default();
        let (_a, memory) = shared(8192);
        map.map(0x2000, 0x1000, memory.clone()).unwrap();
        assert_eq!(
            map.map(0x1000, 0x1001, memory.clone()),
            Err(MapError::Overlap {
                iova: 0x1000,
                len_bytes: 0x1001
            })
        );
        assert!(matches!(
            map.map(0x2fff, 1, memory.clone()),
            Err(MapError::Overlap { .. })
        ));
        assert!(matches!(
            map.map(0, 0, memory.clone()),
            Err(MapError::BadRange { .. })
        ));
        assert!(matches!(
            map.map(0, 8193, memory.clone()),
            Err(MapError::BadRange { .. })
        ));
        assert!(matches!(
            map.map(u64::MAX, 2, memory.clone()),
            Err(MapError::BadRange { .. })
        ));
        map.map(0x3000, 0x1000, memory).unwrap();
        assert!(matches!(
            map.unmap(0x2000, 0x2000),
            Err(MapError::NotMapped { .. })
        ));
        assert_eq!(map.unmap_inside(0x2000, 0x2000), 0x2000);
        assert!(map.is_empty());
    }

    #[test]
    fn same_user_memory_counts_uses() {
        let mut map = IommuMap::default();
        let mut bytes = vec![0u8; 100];
        // SAFETY: `bytes` outlives the map's use of it.
        let user = unsafe { UserMemory::new(bytes.as_mut_ptr(), 100) };
        map.map(user.addr(), 100, Memory::User(user)).unwrap();
        map.map(user.addr(), 100, Memory::User(user)).unwrap();
        map.unmap(user.addr(), 100).unwrap();
        assert_eq!(map.len(), 1);
        map.unmap(user.addr(), 100).unwrap();
        assert!(map.unmap(user.addr(), 100).is_err());
    }
}
