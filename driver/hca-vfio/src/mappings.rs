//! Which memory of the process the card reaches, and how often it was asked for.
//!
//! Each mapping has a range of bus addresses of its own, so that a registration is one range on the bus whatever it
//! overlaps; Linux maps a page of the process at as many of them as one likes, and refuses overlaps on the bus alone.
//! A registration whose pages are all in one mapping shares that one: pages are pinned, and count against the limits,
//! once. The mapping goes with its last user. One that only overlaps others gets its own mapping: cutting
//! mappings to share their parts would cost an entry of the IOMMU's list for each part, and give no contiguous range.
//!
//! Sharing takes the caller at its word that memory stays where it is until its last registration ends
//! ([`hca_dev::UserMemory::new`], V-132 for C programs): the pages that were pinned are those of that time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::iova::IovaSpace;

/// What maps pages: the kernel, or a test.
pub trait Iommu {
    /// Why it refuses.
    type Error;

    /// Lets the card reach `len_bytes` at `addr` at a bus address. True: writing as well.
    fn map(&self, addr: u64, iova: u64, len_bytes: u64) -> Result<bool, Self::Error>;

    /// Ends that.
    fn unmap(&self, iova: u64, len_bytes: u64) -> Result<(), Self::Error>;
}

/// Why a range was not mapped.
#[derive(Debug, PartialEq, Eq)]
pub enum MapError<E> {
    /// No bus address is left for so much.
    NoIova,
    /// It ends past the last address.
    NoRange,
    /// The kernel.
    Iommu(E),
}

/// Why a range was not unmapped.
#[derive(Debug, PartialEq, Eq)]
pub enum UnmapError<E> {
    /// Nobody has mapped this.
    NotMapped,
    /// The kernel.
    Iommu(E),
}

#[derive(Clone, Debug)]
struct Mapping {
    addr: u64,
    len_bytes: u64,
    /// Registrations in it.
    users: u32,
}

/// The book.
#[derive(Debug)]
pub struct Mappings {
    space: IovaSpace,
    page_bytes: u64,
    /// By first bus address.
    mappings: BTreeMap<u64, Mapping>,
    /// Mappings that may be shared, by first address in the process and on the bus.
    shared: BTreeSet<(u64, u64)>,
    /// No mapping that may be shared is longer.
    longest_bytes: u64,
    /// By bus address and length, as they were given.
    registrations: HashMap<(u64, u64), u32>,
    pinned_bytes: u64,
}

impl Mappings {
    /// Nothing is mapped.
    pub fn new(space: IovaSpace, page_bytes: u64) -> Self {
        Self {
            space,
            page_bytes,
            mappings: BTreeMap::new(),
            shared: BTreeSet::new(),
            longest_bytes: 0,
            registrations: HashMap::new(),
            pinned_bytes: 0,
        }
    }

    /// Mappings that there are.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Bytes in them.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Maps memory, in whole pages. `may_share`: with earlier registrations of it. Returns its bus address.
    pub fn map<I: Iommu>(
        &mut self,
        iommu: &I,
        addr: u64,
        len_bytes: u64,
        may_share: bool,
    ) -> Result<u64, MapError<I::Error>> {
        let first = addr - addr % self.page_bytes;
        let end = addr
            .checked_add(len_bytes.max(1))
            .and_then(|end| end.checked_next_multiple_of(self.page_bytes))
            .ok_or(MapError::NoRange)?;
        let found = may_share.then(|| self.covering(first, end)).flatten();
        let start = match found {
            Some(start) => start,
            None => self.add(iommu, first, end - first, may_share)?,
        };
        // Both are there: found, or just made.
        if let Some(mapping) = self.mappings.get_mut(&start) {
            mapping.users += 1;
            let iova = start + (addr - mapping.addr);
            *self.registrations.entry((iova, len_bytes)).or_default() += 1;
            return Ok(iova);
        }
        Err(MapError::NoIova)
    }

    fn add<I: Iommu>(
        &mut self,
        iommu: &I,
        addr: u64,
        len_bytes: u64,
        may_share: bool,
    ) -> Result<u64, MapError<I::Error>> {
        let start = self.space.take(addr, len_bytes).ok_or(MapError::NoIova)?;
        let is_writable = match iommu.map(addr, start, len_bytes) {
            Ok(is_writable) => is_writable,
            Err(error) => {
                self.space.give_back(start);
                return Err(MapError::Iommu(error));
            }
        };
        let users = 0;
        self.mappings.insert(
            start,
            Mapping {
                addr,
                len_bytes,
                users,
            },
        );
        self.pinned_bytes += len_bytes;
        // Memory that is read-only today may be writable when it is registered again.
        if may_share && is_writable {
            self.shared.insert((addr, start));
            self.longest_bytes = self.longest_bytes.max(len_bytes);
        }
        Ok(start)
    }

    /// A mapping that may be shared with all pages from `first` to `end`.
    fn covering(&self, first: u64, end: u64) -> Option<u64> {
        let from = end.saturating_sub(self.longest_bytes);
        if from > first {
            return None;
        }
        let candidates = self.shared.range((from, 0)..=(first, u64::MAX)).rev();
        let covers = |(addr, start): &&(u64, u64)| {
            let mapping = self.mappings.get(start);
            mapping.is_some_and(|mapping| addr + mapping.len_bytes >= end)
        };
        candidates.into_iter().find(covers).map(|(_, start)| *start)
    }

    /// Ends one registration; address and length as they were given and returned.
    pub fn unmap<I: Iommu>(
        &mut self,
        iommu: &I,
        iova: u64,
        len_bytes: u64,
    ) -> Result<(), UnmapError<I::Error>> {
        let key = (iova, len_bytes);
        let count = self.registrations.get_mut(&key).ok_or(UnmapError::NotMapped)?;
        let found = self.mappings.range_mut(..=iova).next_back();
        let (start, mapping) = found.ok_or(UnmapError::NotMapped)?;
        let start = *start;
        if mapping.users == 1 {
            iommu.unmap(start, mapping.len_bytes).map_err(UnmapError::Iommu)?;
        }
        mapping.users -= 1;
        *count -= 1;
        if *count == 0 {
            self.registrations.remove(&key);
        }
        if mapping.users == 0 {
            let (addr, len_bytes) = (mapping.addr, mapping.len_bytes);
            self.mappings.remove(&start);
            self.pinned_bytes -= len_bytes;
            self.space.give_back(start);
            self.shared.remove(&(addr, start));
            if self.shared.is_empty() {
                self.longest_bytes = 0;
            }
        }
        Ok(())
    }

    /// Unmaps whatever there is. Registrations stay known, so that their owners can end them.
    pub fn unmap_all<I: Iommu>(&mut self, iommu: &I) {
        for (start, mapping) in &self.mappings {
            // A kernel that refuses keeps the mapping until the container is closed, which follows.
            let _ = iommu.unmap(*start, mapping.len_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
