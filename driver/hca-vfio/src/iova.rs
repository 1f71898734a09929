//! Bus addresses: which ranges behind the IOMMU are taken, and where the next one goes.
//!
//! An address keeps the low bits of the memory's own, as many as the range is large (1 GiB at most): the IOMMU can
//! then use its large pages where the memory has them, and so can a region with pages of 2 MiB or 1 GiB.
//!
//! Ranges above 4 GiB come first: below, a switch without ACS takes an address for a neighbour's BAR. The next range is
//! looked for behind the last one, so that an address does not come back at once, and a card that uses one after its
//! end is found out.

use std::collections::BTreeMap;
use std::ops::Range;

/// An address as aligned as this lets the IOMMU use its largest page.
const ALIGN_MAX: u64 = 1 << 30;
/// Neighbours' BARs and a null pointer are below.
const PREFERRED_START: u64 = 1 << 32;

/// The bus addresses of one IOMMU domain.
#[derive(Clone, Debug)]
pub struct IovaSpace {
    /// What the IOMMU can translate, in ascending order and in whole pages; nothing reserved is in it.
    usable: Vec<Range<u64>>,
    /// Start and end of what is taken.
    taken: BTreeMap<u64, u64>,
    page_bytes: u64,
    next: u64,
}

impl IovaSpace {
    /// Of an IOMMU that says it can translate these addresses. Address 0 is never given: cards take it for none.
    pub fn new(ranges: &[Range<u64>], page_bytes: u64) -> Self {
        let whole = |range: &Range<u64>| {
            let start = range.start.max(page_bytes).checked_next_multiple_of(page_bytes)?;
            let end = range.end - range.end % page_bytes;
            (start < end).then_some(start..end)
        };
        let mut usable: Vec<Range<u64>> = ranges.iter().filter_map(whole).collect();
        usable.sort_by_key(|range| range.start);
        Self {
            usable,
            taken: BTreeMap::new(),
            page_bytes,
            next: PREFERRED_START,
        }
    }

    /// Takes `len_bytes` (whole pages) for memory at `addr` (a page's start). None: there is no such room.
    pub fn take(&mut self, addr: u64, len_bytes: u64) -> Option<u64> {
        debug_assert!(
            addr.is_multiple_of(self.page_bytes)
                && len_bytes.is_multiple_of(self.page_bytes)
                && len_bytes > 0
        );
        let align = 1 << len_bytes.max(1).ilog2();
        let align = u64::clamp(align, self.page_bytes, ALIGN_MAX);
        let low_bits = addr % align;
        let searches = [
            self.next..u64::MAX,
            PREFERRED_START..self.next,
            0..PREFERRED_START,
        ];
        let found = searches
            .into_iter()
            .find_map(|within| self.find(&within, len_bytes, align, low_bits));
        let start = found?;
        self.taken.insert(start, start + len_bytes);
        if start >= PREFERRED_START {
            self.next = start + len_bytes;
        }
        Some(start)
    }

    /// Gives a range back that [`IovaSpace::take`] has returned.
    pub fn give_back(&mut self, start: u64) {
        let was_taken = self.taken.remove(&start).is_some();
        debug_assert!(was_taken, "{start:#x} is not taken");
    }

    /// The first free place whose start is in `within`.
    fn find(&self, within: &Range<u64>, len_bytes: u64, align: u64, low_bits: u64) -> Option<u64> {
        // The first address from `from` on with these low bits.
        let fit = |from: u64| from.checked_add(low_bits.wrapping_sub(from) % align);
        for range in self.usable.iter().filter(|range| range.end > within.start) {
            let mut start = fit(range.start.max(within.start))?;
            while start < within.end {
                let Some(end) = start.checked_add(len_bytes).filter(|end| *end <= range.end) else {
                    break;
                };
                match self.taken.range(..end).next_back() {
                    Some((_, taken_end)) if *taken_end > start => start = fit(*taken_end)?,
                    _ => return Some(start),
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    /// What a machine with an IOMMU of 39 bits says: the window of message interrupts is missing.
    const RANGES: [Range<u64>; 2] = [0..0xfee0_0000, 0xfef0_0000..1 << 39];

    #[test]
    fn low_bits_stay_up_to_a_gigabyte() {
        let mut space = IovaSpace::new(&RANGES, PAGE);
        for (addr, len, kept) in [
            (0x7f12_3456_7000, PAGE, PAGE),
            (0x7f12_3456_7000, 2 << 20, 2 << 20),
            (0x7f12_3456_7000, (2 << 20) + PAGE, 2 << 20),
            (0x7f12_3456_7000, 1 << 30, 1 << 30),
            (0x7f12_3456_7000, 5 << 30, 1 << 30),
        ] {
            let iova = space.take(addr, len).unwrap();
            assert_eq!(iova % kept, addr % kept, "{len:#x} bytes");
            assert!(iova >= PREFERRED_START && iova + len <= 1 << 39);
        }
    }

    #[test]
    fn the_lower_range_is_the_last_resort_and_the_interrupt_window_is_never_used() {
        let mut space = IovaSpace::new(
            &[RANGES[0].clone(), 0xfef0_0000..PREFERRED_START + (4 << 20)],
            PAGE,
        );
        let mut seen = Vec::new();
        while let Some(iova) = space.take(0, 1 << 20) {
            seen.push(iova);
        }
        assert_eq!(seen[0], PREFERRED_START);
        assert!(seen[4] < PREFERRED_START, "only four fit above");
        // From 1 MiB on (0 is no address) to 0xfee00000, and from 0xfef00000 to 4 GiB.
        assert_eq!(seen.len(), 4 + 0xfed + 0x11);
        assert!(!seen.contains(&0xfee0_0000) && !seen.contains(&0));
    }

    #[test]
    fn an_address_that_was_given_back_is_not_the_next_one() {
        let mut space = IovaSpace::new(&RANGES, PAGE);
        let first = space.take(0, PAGE).unwrap();
        space.give_back(first);
        assert_ne!(space.take(0, PAGE), Some(first));
    }

    #[test]
    fn no_room_and_strange_ranges() {
        let mut space = IovaSpace::new(&[5..5, 100..4000, 0x1001..0x3fff, 0..0], PAGE);
        assert_eq!(space.take(0, PAGE), Some(0x2000));
        assert_eq!(space.take(0, PAGE), None);
        space.give_back(0x2000);
        assert_eq!(space.take(0, PAGE), Some(0x2000));
        assert_eq!(IovaSpace::new(&[], PAGE).take(0, PAGE), None);
        let mut top = IovaSpace::new(&[0..PAGE, PAGE..u64::MAX], PAGE);
        assert_eq!(top.take(0, 1 << 63), Some(PREFERRED_START));
        assert_eq!(top.take(0, 1 << 63), None);
    }

    proptest! {
        /// Against a model that knows no order: nothing overlaps, everything is inside, and a refusal is true.
        #[test]
        fn ranges_never_overlap(
            steps in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..24), 1..200),
            hole in 1u64..60,
        ) {
            let usable = [PAGE..hole * PAGE, (hole + 2) * PAGE..96 * PAGE];
            let mut space = IovaSpace::new(&usable, PAGE);
            let mut held: Vec<Range<u64>> = Vec::new();
            for (takes, addr, pages) in steps {
                if !takes && !held.is_empty() {
                    let range = held.swap_remove(addr as usize % held.len());
                    space.give_back(range.start);
                    continue;
                }
                let (addr, len) = (addr * PAGE, pages * PAGE);
                let align = 1u64 << len.ilog2();
                let is_free = |start: u64| {
                    usable.iter().any(|range| range.start <= start && start + len <= range.end)
                        && held.iter().all(|other| start + len <= other.start || other.end <= start)
                };
                match space.take(addr, len) {
                    Some(start) => {
                        prop_assert!(is_free(start) && start % align == addr % align);
                        held.push(start..start + len);
                    }
                    None => {
                        let starts = (0..96).map(|page| page * PAGE);
                        prop_assert!(!starts.filter(|s| s % align == addr % align).any(is_free));
                    }
                }
            }
        }
    }
}
