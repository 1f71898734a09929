//! Mappings by bus address: ranges that do not overlap, each backed by some memory and open for some accesses. Ends are
//! last bytes, so that a range may reach the end of the address space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::iommu::Memory;

/// What the card may do in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    ReadWrite,
    /// Read.
    ReadOnly,
    /// Write.
    WriteOnly,
}

impl Access {
    /// Everything of `wanted` is allowed.
    #[inline]
    pub(crate) fn allows(self, wanted: Self) -> bool {
        self == Self::ReadWrite || self == wanted
    }
}

pub(crate) struct Mapping {
    pub len_bytes: u64,
    pub memory: Memory,
    pub access: Access,
}

/// An unmapping has ended some mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmapped {
    /// Length of those, together.
    pub len_bytes: u64,
    /// There may be more in the range.
    pub goes_on: bool,
}

/// Places for what was found last, log2.
const LOG_NEAR: u32 = 4;
/// Addresses that share a place, log2.
const NEAR_SHIFT: u32 = 12;
/// The golden ratio: buffers begin at multiples of large numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mappings of a function.
#[derive(Default)]
pub(crate) struct Ranges {
    all: BTreeMap<u64, Mapping>,
    /// Starts of ranges that were found last, by address: hints, which need not be there any more.
    near: [AtomicU64; 1 << LOG_NEAR],
}

impl Ranges {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The range that holds `addr`, and where in it that is.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<(&Mapping, u64)> {
        let place = (addr >> NEAR_SHIFT).wrapping_mul(SPREAD) >> (u64::BITS - LOG_NEAR);
        let near = &self.near[place as usize];
        let start = near.load(Ordering::Relaxed);
        if let Some(range) = self.all.get(&start)
            && let Some(offset) = addr.checked_sub(start)
            && offset < range.len_bytes
        {
            return Some((range, offset));
        }
        let (start, range) = self.all.range(..=addr).next_back()?;
        near.store(*start, Ordering::Relaxed);
        let offset = addr - start;
        (offset < range.len_bytes).then_some((range, offset))
    }

    pub fn is_free(&self, start: u64, last: u64) -> bool {
        let before = self.all.range(..=last).next_back();
        before.is_none_or(|(found, range)| found + (range.len_bytes - 1) < start)
    }

    /// To be free, which the caller has looked at.
    pub fn insert(&mut self, start: u64, range: Mapping) {
        self.all.insert(start, range);
    }

    /// Ends the range with exactly this start and length. None: no range starts there; false: one of another length.
    pub fn remove(&mut self, start: u64, len_bytes: u64) -> Option<bool> {
        let same = self.all.get(&start)?.len_bytes == len_bytes;
        if same {
            self.all.remove(&start);
        }
        Some(same)
    }

    /// Ends whole ranges from `start` to `last`, at most `limit` of them. None, and nothing changed, where that would
    /// cut one.
    pub fn remove_inside(&mut self, start: u64, last: u64, limit: usize) -> Option<Unmapped> {
        // The mapping at either end must be whole inside.
        let whole = |at: u64| {
            self.find(at).is_none_or(|(range, offset)| {
                let first = at - offset;
                first >= start && first + (range.len_bytes - 1) <= last
            })
        };
        if !whole(start) || !whole(last) {
            return None;
        }
        let mut starts: Vec<u64> = self
            .all
            .range(start..=last)
            .map(|(at, _)| *at)
            .take(limit + 1)
            .collect();
        let goes_on = starts.len() > limit;
        starts.truncate(limit);
        let ended = starts.iter().filter_map(|at| self.all.remove(at));
        Some(Unmapped {
            len_bytes: ended.map(|range| range.len_bytes).sum(),
            goes_on,
        })
    }
}
