//! Use counts over ranges of addresses: registered buffers may overlap, and each is ended on its own.

use std::collections::BTreeMap;

/// Pieces that one more use may touch: its work is bounded, whatever the uses before were.
pub(crate) const PIECES: usize = 4096;

/// Disjoint ranges, each with the number of mappings that cover it.
#[derive(Default)]
pub(crate) struct RangeUses {
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl RangeUses {
    /// Bytes from `addr` to the end of the range that covers it.
    #[inline]
    pub fn left(&self, addr: u64) -> Option<u64> {
        let (_, (end, _)) = self.ranges.range(..=addr).next_back()?;
        end.checked_sub(addr).filter(|left| *left > 0)
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// No range overlaps `start..end`.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.ranges
            .range(..end)
            .next_back()
            .is_none_or(|(_, (last_end, _))| *last_end <= start)
    }

    /// One more use of `start..end`. False, and nothing changed, where others have cut it into more than [`PIECES`].
    pub fn add(&mut self, start: u64, end: u64) -> bool {
        if self.ranges.range(start..end).nth(PIECES).is_some() {
            return false;
        }
        self.split(start);
        self.split(end);
        let mut at = start;
        while at < end {
            match self.ranges.range_mut(at..end).next() {
                Some((found, (found_end, uses))) if *found == at => {
                    *uses = uses.saturating_add(1);
                    at = *found_end;
                }
                next => {
                    let gap_end = next.map_or(end, |(found, _)| *found);
                    self.ranges.insert(at, (gap_end, 1));
                    at = gap_end;
                }
            }
        }
        true
    }

    /// One use less of `start..end`. False, and nothing changed, when a part of it has no use.
    pub fn remove(&mut self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.left(at) {
                Some(left) => at += left,
                None => return false,
            }
        }
        self.split(start);
        self.split(end);
        for (_, (_, uses)) in self.ranges.range_mut(start..end) {
            *uses -= 1;
        }
        let unused = self
            .ranges
            .range(start..end)
            .filter(|(_, (_, uses))| *uses == 0)
            .map(|(at, _)| *at);
        for at in unused.collect::<Vec<_>>() {
            self.ranges.remove(&at);
        }
        true
    }

    /// Makes `addr` a boundary.
    fn split(&mut self, addr: u64) {
        if let Some((start, (end, uses))) = self.ranges.range_mut(..addr).next_back()
            && *end > addr
        {
            let upper = (*end, *uses);
            *end = addr;
            debug_assert!(*start < addr);
            self.ranges.insert(addr, upper);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_uses_end_one_by_one() {
        let mut uses = RangeUses::default();
        assert!(uses.add(100, 200) && uses.add(150, 300) && uses.add(50, 400));
        assert_eq!(uses.left(120), Some(30));
        assert!(uses.remove(50, 400));
        assert_eq!(uses.left(60), None);
        assert_eq!(uses.left(299), Some(1));
        assert!(uses.remove(100, 200));
        assert_eq!(uses.left(149), None);
        assert_eq!(uses.left(150), Some(50));
        assert!(!uses.remove(100, 200), "the first half has no use any more");
        assert!(uses.remove(150, 300));
        assert_eq!(uses.len(), 0);
        assert!(uses.is_free(0, u64::MAX));
    }

    #[test]
    fn a_use_across_many_others_is_refused() {
        let mut uses = RangeUses::default();
        for at in 0..=PIECES as u64 {
            assert!(uses.add(2 * at, 2 * at + 1));
        }
        let count = uses.len();
        assert!(!uses.add(0, u64::MAX));
        assert_eq!(uses.len(), count);
        assert!(uses.add(2, u64::MAX));
    }

    #[test]
    fn free_means_no_overlap() {
        let mut uses = RangeUses::default();
        assert!(uses.add(100, 200));
        assert!(uses.is_free(0, 100) && uses.is_free(200, 300));
        assert!(!uses.is_free(199, 300) && !uses.is_free(0, 101) && !uses.is_free(120, 130));
    }
}
