//! Memory regions, and who may touch them (KEY-27 to KEY-31).

use std::collections::BTreeMap;
use std::ops::BitOr;

/// Rights: of a region, and of a QP towards its peer (MEM-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Access(u32);

impl Access {
    /// The card may read for its owner, which is always allowed.
    pub const NONE: Self = Self(0);
    /// The card may write for its owner.
    pub const LOCAL: Self = Self(hca_abi::access::LOCAL_WRITE);
    /// The peer may WRITE.
    pub const REMOTE_WRITE: Self = Self(hca_abi::access::REMOTE_WRITE);
    /// The peer may READ.
    pub const REMOTE_READ: Self = Self(hca_abi::access::REMOTE_READ);
    /// The peer may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(hca_abi::access::REMOTE_ATOMIC);
    /// The peer may FLUSH, for global visibility.
    pub const FLUSH_GLOBAL: Self = Self(hca_abi::access::FLUSH_GLOBAL);
    /// All of these.
    pub const ALL: Self = Self(
        Self::LOCAL.0
            | Self::REMOTE_WRITE.0
            | Self::REMOTE_READ.0
            | Self::REMOTE_ATOMIC.0
            | Self::FLUSH_GLOBAL.0,
    );

    /// Rights by their bits in `hca_abi::access`.
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Has at least the rights of `other`.
    pub const fn allows(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why memory is not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No region has this key.
    Key,
    /// The region is in another protection domain than the QP.
    Domain,
    /// Not all of it is in the region.
    Range,
    /// The region does not give this right.
    Right,
    /// The list is over before the data is.
    TooShort,
}

/// An entry of a scatter or gather list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// L_Key.
    pub lkey: u32,
    /// Virtual address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

impl Sge {
    /// `len` bytes at `addr` of the region that has this key.
    pub const fn new(lkey: u32, addr: u64, len: u32) -> Self {
        Self { lkey, addr, len }
    }
}

struct Region {
    domain: u32,
    va: u64,
    access: Access,
    bytes: Vec<u8>,
}

/// The memory of a model: regions by their keys. A region's L_Key is its R_Key.
#[derive(Default)]
pub struct Memory {
    regions: BTreeMap<u32, Region>,
    made: u32,
}

impl Memory {
    /// Registers bytes at a virtual address in a protection domain; the key is new (KEY-29).
    pub fn register(&mut self, domain: u32, va: u64, bytes: Vec<u8>, access: Access) -> u32 {
        self.made += 1;
        let key = self.made << 8 | 0x5a;
        let region = Region {
            domain,
            va,
            access,
            bytes,
        };
        self.regions.insert(key, region);
        key
    }

    /// KEY-30: from now on the key is nothing. Gives the bytes back.
    pub fn deregister(&mut self, key: u32) -> Option<Vec<u8>> {
        self.regions.remove(&key).map(|region| region.bytes)
    }

    /// What is in a region.
    pub fn bytes(&self, key: u32) -> Option<&[u8]> {
        self.regions.get(&key).map(|region| &region.bytes[..])
    }

    /// The same, to change: its owner writes.
    pub fn bytes_mut(&mut self, key: u32) -> Option<&mut [u8]> {
        self.regions.get_mut(&key).map(|region| &mut region.bytes[..])
    }

    /// Where in its region a range begins, if `right` allows it there (KEY-31).
    fn find(&self, domain: u32, range: Sge, right: Access) -> Result<usize, Refusal> {
        let region = self.regions.get(&range.lkey).ok_or(Refusal::Key)?;
        if region.domain != domain {
            return Err(Refusal::Domain);
        }
        let offset = range.addr.checked_sub(region.va).ok_or(Refusal::Range)?;
        let end = offset.checked_add(range.len.into()).ok_or(Refusal::Range)?;
        if end > region.bytes.len() as u64 {
            return Err(Refusal::Range);
        }
        if !region.access.allows(right) {
            return Err(Refusal::Right);
        }
        Ok(offset as usize)
    }

    /// Whether a region may be touched, wherever its bytes are.
    pub fn check_region(&self, domain: u32, key: u32, right: Access) -> Result<(), Refusal> {
        let va = self.regions.get(&key).map_or(0, |region| region.va);
        self.find(domain, Sge::new(key, va, 0), right).map(|_| ())
    }

    /// Whether a range may be touched.
    pub fn check(&self, domain: u32, range: Sge, right: Access) -> Result<(), Refusal> {
        self.find(domain, range, right).map(|_| ())
    }

    /// The bytes of a range.
    pub fn read(&self, domain: u32, range: Sge, right: Access) -> Result<&[u8], Refusal> {
        let at = self.find(domain, range, right)?;
        let region = self.regions.get(&range.lkey).ok_or(Refusal::Key)?;
        Ok(&region.bytes[at..at + range.len as usize])
    }

    /// Writes to a range, as long as the bytes are.
    pub fn write(
        &mut self,
        domain: u32,
        key: u32,
        va: u64,
        bytes: &[u8],
        right: Access,
    ) -> Result<(), Refusal> {
        let range = Sge::new(key, va, bytes.len() as u32);
        let at = self.find(domain, range, right)?;
        let region = self.regions.get_mut(&key).ok_or(Refusal::Key)?;
        region.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The parts of a list in which `len` bytes from `offset` on lie. Empty ones touch nothing and need no key.
pub(crate) fn cut(list: &[Sge], offset: u32, len: u32) -> Result<Vec<Sge>, Refusal> {
    let (mut skip, mut left) = (u64::from(offset), u64::from(len));
    let mut pieces = Vec::new();
    for entry in list {
        let skipped = skip.min(entry.len.into());
        skip -= skipped;
        let take = (u64::from(entry.len) - skipped).min(left);
        left -= take;
        if take > 0 {
            pieces.push(Sge::new(
                entry.lkey,
                entry.addr.wrapping_add(skipped),
                take as u32,
            ));
        }
    }
    if left > 0 {
        Err(Refusal::TooShort)
    } else {
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KEY-31: key, domain, range and right, each alone.
    #[test]
    fn each_check_refuses_alone() {
        let mut memory = Memory::default();
        let key = memory.register(1, 0x1000, vec![7; 16], Access::REMOTE_READ);
        let read = |memory: &Memory, domain, key, va, len| {
            memory
                .read(domain, Sge::new(key, va, len), Access::REMOTE_READ)
                .map(<[u8]>::to_vec)
        };
        assert_eq!(read(&memory, 1, key, 0x1000, 16), Ok(vec![7; 16]));
        assert_eq!(read(&memory, 1, key + 1, 0x1000, 16), Err(Refusal::Key));
        assert_eq!(read(&memory, 2, key, 0x1000, 16), Err(Refusal::Domain));
        for (va, len) in [(0xfff, 1), (0x1000, 17), (0x1010, 1), (u64::MAX, 2)] {
            assert_eq!(read(&memory, 1, key, va, len), Err(Refusal::Range), "{va:#x}");
        }
        let write = memory.write(1, key, 0x1000, &[1], Access::REMOTE_WRITE);
        assert_eq!(write, Err(Refusal::Right));
        memory.deregister(key);
        assert_eq!(read(&memory, 1, key, 0x1000, 1), Err(Refusal::Key));
    }

    #[test]
    fn lists_are_cut_anywhere() {
        let list = [Sge::new(7, 4, 3), Sge::new(0, 0, 0), Sge::new(8, 20, 5)];
        assert_eq!(cut(&list, 2, 4), Ok(vec![Sge::new(7, 6, 1), Sge::new(8, 20, 3)]));
        assert_eq!(cut(&list, 5, 3), Ok(vec![Sge::new(8, 22, 3)]));
        assert_eq!(cut(&list, 8, 0), Ok(Vec::new()));
        assert_eq!(cut(&list, 5, 4), Err(Refusal::TooShort));
    }
}
