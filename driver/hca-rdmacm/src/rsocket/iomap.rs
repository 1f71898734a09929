//! Mappings (RS-4, RS-5): memory of a program in which the other side writes by offsets.

use super::region::{Region, register};
use super::wire::{IOMAP_BYTES, Iomap, SGE_BYTES, Sge, TARGETS};
use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, verb};

/// A mapping of this side.
struct Own {
    at: *mut libc::c_void,
    len: usize,
    mr: *mut ibv_mr,
    /// Its entry in the other side's list; None: nobody else's.
    entry: Option<u16>,
}

/// Mappings of both sides.
pub struct Iomaps {
    own: Vec<Own>,
    /// Those that the other side has not been told of.
    news: Vec<(u16, Iomap)>,
    /// The other side's list of what is here, and its length.
    list: Sge,
    list_len: u16,
    /// What is there.
    remote: Box<[Iomap]>,
}

impl Iomaps {
    /// With room for so many of the other side's.
    pub fn new(capacity: u16) -> Call<Self> {
        Ok(Self {
            own: Vec::new(),
            news: Vec::new(),
            list: Sge::default(),
            list_len: 0,
            remote: hca_room::slice(capacity.into(), |_| Iomap::default())?,
        })
    }

    pub fn capacity(&self) -> u16 {
        self.remote.len() as u16
    }

    /// The other side's list.
    pub fn meet(&mut self, list: Sge, len: u16) {
        (self.list, self.list_len) = (list, len);
    }

    /// Maps memory.
    ///
    /// # Safety
    /// A live protection domain; the memory stays until it is unmapped.
    pub unsafe fn map(
        &mut self,
        pd: *mut ibv_pd,
        at: *mut libc::c_void,
        len: usize,
        is_remote: bool,
        offset: libc::off_t,
    ) -> Call<libc::off_t> {
        let offset = if offset == -1 { at as libc::off_t } else { offset };
        let length = u32::try_from(len).ok().filter(|len| *len > 0).ok_or(EINVAL)?;
        let taken = |index: &u16| self.own.iter().any(|own| own.entry == Some(*index));
        let entry = match is_remote {
            true => Some(
                (0..self.list_len)
                    .find(|index| !taken(index))
                    .ok_or(Errno(libc::ENOMEM))?,
            ),
            false => None,
        };
        let access = if is_remote { IBV_ACCESS_REMOTE_WRITE } else { 0 } | IBV_ACCESS_LOCAL_WRITE;
        // SAFETY: the caller's promise.
        let mr = unsafe { register(pd, at, len, access) }?;
        self.own.push(Own { at, len, mr, entry });
        if let Some(entry) = entry {
            let memory = Sge {
                addr: at as u64,
                // SAFETY: just registered.
                key: unsafe { (*mr).rkey },
                length,
            };
            let offset = offset as u64;
            self.news.push((entry, Iomap { offset, memory }));
        }
        Ok(offset)
    }

    /// Takes a mapping away.
    pub fn unmap(&mut self, at: *mut libc::c_void, len: usize) -> Call<()> {
        let found = self.own.iter().position(|own| own.at == at && own.len == len);
        let own = self.own.swap_remove(found.ok_or(EINVAL)?);
        self.news.retain(|(index, _)| Some(*index) != own.entry);
        // SAFETY: registered by `map`, once.
        verb(unsafe { ibv_dereg_mr(own.mr) })
    }

    /// The next mapping to tell of: its place in the other side's list, with key, index, and what it is.
    pub fn news(&self) -> Option<(u64, u32, u16, Iomap)> {
        let (index, map) = self.news.first()?;
        let at = self
            .list
            .addr
            .wrapping_add(u64::from(*index) * IOMAP_BYTES as u64);
        Some((at, self.list.key, *index, *map))
    }

    /// It was told.
    pub fn told(&mut self) {
        self.news.remove(0);
    }

    /// The other side has written an entry. False: there is none of this index.
    pub fn learn(&mut self, lists: &Region, index: u16) -> bool {
        let Some(entry) = self.remote.get_mut(usize::from(index)) else {
            return false;
        };
        let at = TARGETS as usize * SGE_BYTES + usize::from(index) * IOMAP_BYTES;
        *entry = Iomap::from_host(&lists.get(at));
        true
    }

    /// Memory of the other side at an offset, and how much there is from there on.
    pub fn find(&self, offset: u64) -> Option<(u64, u32, u32)> {
        self.remote.iter().find_map(|map| {
            let into = offset.checked_sub(map.offset)?;
            let left = u64::from(map.memory.length)
                .checked_sub(into)
                .filter(|left| *left > 0)?;
            Some((map.memory.addr.wrapping_add(into), map.memory.key, left as u32))
        })
    }

    /// Takes all mappings away.
    pub fn clear(&mut self) {
        for own in self.own.drain(..) {
            // SAFETY: registered by `map`, once.
            unsafe { ibv_dereg_mr(own.mr) };
        }
    }
}
