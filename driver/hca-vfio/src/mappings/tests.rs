use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;

/// A type 1 IOMMU: overlaps on the bus are refused, of an unmap only whole mappings are known.
#[derive(Default)]
struct Type1 {
    mapped: RefCell<BTreeMap<u64, (u64, u64)>>,
    /// Refuses beyond so many.
    entries_max: Option<usize>,
    /// Pages of the process that cannot be written.
    read_only: Vec<u64>,
    refuses_unmap: bool,
}

impl Iommu for Type1 {
    type Error = &'static str;

    fn map(&self, addr: u64, iova: u64, len_bytes: u64) -> Result<bool, Self::Error> {
        let mut mapped = self.mapped.borrow_mut();
        if self.entries_max == Some(mapped.len()) {
            return Err("ENOSPC");
        }
        let overlaps = mapped
            .iter()
            .any(|(start, (_, len))| iova < start + len && *start < iova + len_bytes);
        assert!(!overlaps, "EEXIST: {len_bytes:#x} bytes at {iova:#x}");
        assert!([addr, iova, len_bytes].iter().all(|n| n % PAGE == 0) && len_bytes > 0);
        mapped.insert(iova, (addr, len_bytes));
        Ok(!self
            .read_only
            .iter()
            .any(|page| (addr..addr + len_bytes).contains(page)))
    }

    fn unmap(&self, iova: u64, len_bytes: u64) -> Result<(), Self::Error> {
        if self.refuses_unmap {
            return Err("EIO");
        }
        let removed = self.mapped.borrow_mut().remove(&iova);
        assert_eq!(removed.map(|(_, len)| len), Some(len_bytes), "at {iova:#x}");
        Ok(())
    }
}

impl Type1 {
    /// Address in the process behind a bus address.
    fn translate(&self, iova: u64) -> Option<u64> {
        let mapped = self.mapped.borrow();
        let (start, (addr, len)) = mapped.range(..=iova).next_back()?;
        (iova < start + len).then(|| addr + (iova - start))
    }

    fn count(&self) -> usize {
        self.mapped.borrow().len()
    }
}

fn book() -> Mappings {
    Mappings::new(IovaSpace::new(&[0..1 << 38, 1 << 38..1 << 39], PAGE), PAGE)
}

#[test]
fn pages_are_mapped_once_and_unmapped_with_their_last_user() {
    let (iommu, mut book) = (Type1::default(), book());
    let whole = book.map(&iommu, 0x10_0000, 16 * PAGE, true).unwrap();
    let again = book.map(&iommu, 0x10_0000, 16 * PAGE, true).unwrap();
    let inside = book.map(&iommu, 0x10_0000 + 3 * PAGE + 17, 100, true).unwrap();
    assert_eq!((again, inside), (whole, whole + 3 * PAGE + 17));
    assert_eq!((iommu.count(), book.pinned_bytes()), (1, 16 * PAGE));
    book.unmap(&iommu, whole, 16 * PAGE).unwrap();
    book.unmap(&iommu, whole, 16 * PAGE).unwrap();
    assert_eq!(book.unmap(&iommu, whole, 16 * PAGE), Err(UnmapError::NotMapped));
    assert_eq!(iommu.translate(inside), Some(0x10_0000 + 3 * PAGE + 17));
    book.unmap(&iommu, inside, 100).unwrap();
    assert_eq!((iommu.count(), book.len(), book.pinned_bytes()), (0, 0, 0));
}

#[test]
fn a_partial_overlap_has_a_range_of_its_own() {
    let (iommu, mut book) = (Type1::default(), book());
    let first = book.map(&iommu, 0, 8 * PAGE, true).unwrap();
    let second = book.map(&iommu, 4 * PAGE, 8 * PAGE, true).unwrap();
    let third = book.map(&iommu, 0, 12 * PAGE, true).unwrap();
    assert_eq!(iommu.count(), 3);
    for (iova, addr, len) in [(first, 0, 8), (second, 4, 8), (third, 0, 12)] {
        for page in 0..len {
            assert_eq!(iommu.translate(iova + page * PAGE), Some((addr + page) * PAGE));
        }
    }
    for (iova, len) in [(first, 8), (third, 12), (second, 8)] {
        book.unmap(&iommu, iova, len * PAGE).unwrap();
    }
    assert_eq!(iommu.count(), 0);
}

#[test]
fn a_ring_at_the_address_of_a_region_whose_memory_is_gone_is_mapped_anew() {
    let (iommu, mut book) = (Type1::default(), book());
    let region = book.map(&iommu, 0, 8 * PAGE, true).unwrap();
    let ring = book.map(&iommu, 0, 2 * PAGE, false).unwrap();
    assert!(ring < region || region + 8 * PAGE <= ring);
    // Nor does a region share a ring.
    let other = book.map(&iommu, 100 * PAGE, PAGE, false).unwrap();
    assert_ne!(book.map(&iommu, 100 * PAGE, PAGE, true).unwrap(), other);
}

#[test]
fn read_only_memory_is_not_shared() {
    let mut iommu = Type1 {
        read_only: vec![0],
        ..Type1::default()
    };
    let mut book = book();
    let before = book.map(&iommu, 0, PAGE, true).unwrap();
    iommu.read_only.clear();
    assert_ne!(book.map(&iommu, 0, PAGE, true).unwrap(), before);
}

#[test]
fn refusals_leave_the_book_as_it_was() {
    let iommu = Type1 {
        entries_max: Some(1),
        ..Type1::default()
    };
    let mut book = book();
    let first = book.map(&iommu, 0, PAGE, true).unwrap();
    assert_eq!(
        book.map(&iommu, 5 * PAGE, PAGE, true),
        Err(MapError::Iommu("ENOSPC"))
    );
    // What is there already needs no entry.
    assert_eq!(book.map(&iommu, 8, 8, true), Ok(first + 8));
    assert_eq!(book.map(&iommu, u64::MAX - 5, 10, true), Err(MapError::NoRange));
    assert_eq!(book.map(&iommu, 0, 1 << 40, true), Err(MapError::NoIova));
    assert_eq!(book.unmap(&iommu, first, 8), Err(UnmapError::NotMapped));
    book.unmap(&iommu, first + 8, 8).unwrap();
    let refusing = Type1 {
        refuses_unmap: true,
        ..Type1::default()
    };
    assert_eq!(book.unmap(&refusing, first, PAGE), Err(UnmapError::Iommu("EIO")));
    book.unmap(&iommu, first, PAGE).unwrap();
    assert_eq!((iommu.count(), book.len()), (0, 0));
}

proptest! {
    /// Against a list of registrations: each has one range on the bus with its own bytes behind it for as long as it
    /// lives, whatever others do; in the end nothing is mapped; and what lies in a mapping adds none.
    #[test]
    fn each_registration_keeps_its_bytes(
        steps in prop::collection::vec((0u8..3, 0u64..40 * PAGE, 1u64..9 * PAGE), 1..120),
    ) {
        let (iommu, mut book) = (Type1::default(), book());
        let mut held: Vec<(u64, u64, u64)> = Vec::new();
        for (kind, addr, len) in steps {
            if kind == 0 && !held.is_empty() {
                let (_, len, iova) = held.swap_remove(addr as usize % held.len());
                prop_assert_eq!(book.unmap(&iommu, iova, len), Ok(()));
            } else {
                let (first, end) = (addr / PAGE * PAGE, (addr + len).next_multiple_of(PAGE));
                let is_covered = iommu.mapped.borrow().values()
                    .any(|(at, length)| *at <= first && end <= at + length);
                let before = iommu.count();
                let iova = book.map(&iommu, addr, len, true).unwrap();
                prop_assert_eq!(iommu.count() - before, usize::from(!is_covered));
                held.push((addr, len, iova));
            }
            for (addr, len, iova) in &held {
                for offset in [0, len / 2, len - 1] {
                    prop_assert_eq!(iommu.translate(iova + offset), Some(addr + offset));
                }
            }
            prop_assert_eq!(book.len(), iommu.count());
        }
        for (_, len, iova) in held {
            prop_assert_eq!(book.unmap(&iommu, iova, len), Ok(()));
        }
        prop_assert_eq!((iommu.count(), book.pinned_bytes()), (0, 0));
    }
}
