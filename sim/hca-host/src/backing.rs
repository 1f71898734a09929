//! Files behind memory of a program that is mapped at its own addresses: where there is one, nobody has to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use hca_dev::SharedMem;

/// A file that the program has mapped, too.
struct Backing {
    memory: Arc<SharedMem>,
    /// Mappings of the function that were made with it, and their bytes.
    uses: u32,
    bytes: u64,
}

impl Backing {
    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes() as u64
    }
}

/// Disjoint files, by the address of the program at which they begin.
///
/// It only says where else the same bytes are found: what no file is known for is reached by address.
#[derive(Default)]
pub(crate) struct Backings {
    files: BTreeMap<u64, Backing>,
    /// Bytes that are mapped with a file, and without.
    with_bytes: u64,
    without_bytes: u64,
}

impl Backings {
    /// Memory is mapped that no file is behind.
    pub fn add_without(&mut self, len_bytes: u64) {
        self.without_bytes = self.without_bytes.saturating_add(len_bytes);
    }

    /// Memory at `addr` is mapped, and is that of a file from `offset` on. What was known of other files there is
    /// forgotten: the program has put this one in their place.
    pub fn add(&mut self, addr: u64, len_bytes: u64, (memory, offset): (Arc<SharedMem>, usize)) {
        let start = addr.checked_sub(offset as u64);
        let range = start.and_then(|start| Some((start, start.checked_add(memory.len_bytes() as u64)?)));
        let Some((start, end)) = range else {
            return self.add_without(len_bytes);
        };
        let is_known = self
            .files
            .get(&start)
            .is_some_and(|found| Arc::ptr_eq(&found.memory, &memory));
        if !is_known {
            self.forget(start, end);
        }
        let found = self.files.entry(start).or_insert(Backing {
            memory,
            uses: 0,
            bytes: 0,
        });
        found.uses = found.uses.saturating_add(1);
        found.bytes = found.bytes.saturating_add(len_bytes);
        self.with_bytes = self.with_bytes.saturating_add(len_bytes);
    }

    /// What is mapped of files that overlap the range counts as mapped without.
    fn forget(&mut self, start: u64, end: u64) {
        let before = self.files.range(..start).next_back();
        let before = before.filter(|(at, found)| start - **at < found.len_bytes());
        let overlapping = before.into_iter().chain(self.files.range(start..end));
        for at in overlapping.map(|(at, _)| *at).collect::<Vec<_>>() {
            if let Some(gone) = self.files.remove(&at) {
                self.with_bytes = self.with_bytes.saturating_sub(gone.bytes);
                self.add_without(gone.bytes);
            }
        }
    }

    /// A mapping has ended.
    pub fn remove(&mut self, addr: u64, len_bytes: u64) {
        let found = self.files.range_mut(..=addr).next_back();
        let Some((&start, found)) = found.filter(|(start, found)| addr - **start < found.len_bytes()) else {
            self.without_bytes = self.without_bytes.saturating_sub(len_bytes);
            return;
        };
        found.uses -= 1;
        found.bytes = found.bytes.saturating_sub(len_bytes);
        self.with_bytes = self.with_bytes.saturating_sub(len_bytes);
        if found.uses == 0 {
            self.files.remove(&start);
        }
    }

    /// Where the byte at an address is, and how many bytes of the file are left from it.
    #[inline]
    pub fn find(&self, addr: u64) -> Option<(*mut u8, u64)> {
        let (start, found) = self.files.range(..=addr).next_back()?;
        let offset = addr - start;
        let left = found.len_bytes().checked_sub(offset).filter(|left| *left > 0)?;
        Some((found.memory.as_ptr().wrapping_add(offset as usize), left))
    }

    /// More of what is mapped has a file than has none.
    pub fn are_usual(&self) -> bool {
        self.with_bytes > self.without_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn file(pages: usize) -> Arc<SharedMem> {
        Arc::new(SharedMem::new("backing", pages * PAGE as usize).unwrap())
    }

    #[test]
    fn a_file_is_found_by_the_addresses_of_the_program() {
        let (mut backings, memory) = (Backings::default(), file(4));
        assert!(!backings.are_usual() && backings.find(0x1_0000).is_none());
        backings.add(0x1_1000, 8, (memory.clone(), 0x1000));
        backings.add(0x1_3000, PAGE, (memory.clone(), 0x3000));
        assert_eq!(backings.find(0x1_0000), Some((memory.as_ptr(), 4 * PAGE)));
        assert_eq!(
            backings.find(0x1_3fff),
            Some((memory.as_ptr().wrapping_add(0x3fff), 1))
        );
        assert!(backings.find(0xffff).is_none() && backings.find(0x1_4000).is_none());
        assert!(backings.are_usual());
        backings.add_without(PAGE + 8);
        assert!(!backings.are_usual());
        backings.remove(0x9_0000, PAGE + 8);
        assert!(backings.are_usual());
        backings.remove(0x1_1000, 8);
        assert!(backings.find(0x1_0000).is_some());
        backings.remove(0x1_3000, PAGE);
        assert!(backings.find(0x1_0000).is_none() && Arc::strong_count(&memory) == 1);
    }

    #[test]
    fn a_file_in_the_place_of_others_is_the_one_that_counts() {
        for (start, pages) in [
            (0x1_0000, 2),
            (0x1_1000, 1),
            (0x0_f000, 4),
            (0x0_f000, 2),
            (0x1_0000, 3),
        ] {
            let (mut backings, old, new) = (Backings::default(), file(2), file(pages));
            backings.add(0x1_0000, 2 * PAGE, (old.clone(), 0));
            backings.add(start, PAGE, (new.clone(), 0));
            assert_eq!(Arc::strong_count(&old), 1, "{start:#x}");
            assert_eq!(backings.find(start), Some((new.as_ptr(), pages as u64 * PAGE)));
            assert!(!backings.are_usual(), "the old mapping is one by address now");
        }
        let (mut backings, old, new) = (Backings::default(), file(2), file(1));
        backings.add(0x1_0000, PAGE, (old.clone(), 0));
        backings.add(0x1_2000, PAGE, (new, 0));
        assert_eq!(Arc::strong_count(&old), 2, "they only touch");
    }

    #[test]
    fn a_file_that_cannot_begin_or_end_there_is_none() {
        let (mut backings, memory) = (Backings::default(), file(2));
        backings.add(0x800, 8, (memory.clone(), 0x1000));
        backings.add(u64::MAX - PAGE, 8, (memory.clone(), 0));
        assert!(!backings.are_usual() && Arc::strong_count(&memory) == 1);
    }
}
