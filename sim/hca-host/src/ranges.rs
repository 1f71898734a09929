//! Mappings by bus address: ranges that do not overlap, each backed by some memory and open for some accesses. Ends are
//! last bytes, so that a range may reach the end of the address space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

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
    /// Their places, by start.
    all: BTreeMap<u64, u32>,
    /// Mappings with their starts, and places that are free.
    places: Vec<Option<(u64, Mapping)>>,
    free: Vec<u32>,
    /// Places of ranges that were found last, by address: hints, which may have become others.
    near: [AtomicU32; 1 << LOG_NEAR],
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
        let last = near.load(Ordering::Relaxed);
        if let Some(Some((start, range))) = self.places.get(last as usize)
            && let Some(offset) = addr.checked_sub(*start)
            && offset < range.len_bytes
        {
            return Some((range, offset));
        }
        let (start, place) = self.all.range(..=addr).next_back()?;
        near.store(*place, Ordering::Relaxed);
        let offset = addr - start;
        let range = self.at(*place)?;
        (offset < range.len_bytes).then_some((range, offset))
    }

    fn at(&self, place: u32) -> Option<&Mapping> {
        let (_, range) = self.places.get(place as usize)?.as_ref()?;
        Some(range)
    }

    /// The mapping that starts there goes.
    fn take(&mut self, start: u64) -> Option<Mapping> {
        let place = self.all.remove(&start)?;
        self.free.push(place);
        let (_, range) = self.places.get_mut(place as usize)?.take()?;
        Some(range)
    }

    pub fn is_free(&self, start: u64, last: u64) -> bool {
        let before = self.all.range(..=last).next_back();
        let range = before.and_then(|(found, place)| Some((found, self.at(*place)?)));
        range.is_none_or(|(found, range)| found + (range.len_bytes - 1) < start)
    }

    /// To be free, which the caller has looked at.
    pub fn insert(&mut self, start: u64, range: Mapping) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        self.places[place as usize] = Some((start, range));
        self.all.insert(start, place);
    }

    /// Ends the range with exactly this start and length. None: no range starts there; false: one of another length.
    pub fn remove(&mut self, start: u64, len_bytes: u64) -> Option<bool> {
        let same = self.at(*self.all.get(&start)?)?.len_bytes == len_bytes;
        if same {
            self.take(start);
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
        let ended = starts.iter().filter_map(|at| self.take(*at));
        Some(Unmapped {
            len_bytes: ended.map(|range| range.len_bytes).sum(),
            goes_on,
        })
    }
}
