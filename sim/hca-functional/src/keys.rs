//! Memory behind keys: rows of the function's key table, page lists, device memory.

use std::collections::BTreeMap;

use hca_abi::{
    DIRECT_PAGE_SHIFT, DM_BUS_HIGH, DM_PAGE_BYTES, DmRow, MAX_LOG_KEYS, MAX_PAGE_SHIFT, MIN_PAGE_SHIFT, Mpt,
    PD_ANY,
};
use hca_model::{Access, Refusal, Sge};

use crate::HostPort;
use crate::body::Body;

/// On whose behalf a key is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyUser {
    pub func: u8,
    pub pd: u32,
    pub qpn: u32,
}

/// A run of bus addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub addr: u64,
    pub len: usize,
}

/// Where in the region of a key an address is.
fn offset_in(mpt: &Mpt, addr: u64) -> Option<u64> {
    if mpt.zero_based() {
        Some(addr)
    } else {
        addr.checked_sub(mpt.start())
    }
}

/// Pages that are there, by row of the table, with their owners.
#[derive(Debug, Default)]
pub(crate) struct DeviceMemory {
    pages: BTreeMap<u32, (u8, Vec<u8>)>,
}

impl DeviceMemory {
    /// It is a bus address of device memory.
    pub fn has(addr: u64) -> bool {
        addr >> 48 == u64::from(DM_BUS_HIGH)
    }

    /// MEM-19: a page is cleared when it comes.
    pub fn row_written(&mut self, index: u32, row: &[u8]) {
        match DmRow::read_from(row).filter(DmRow::there) {
            Some(row) => {
                let zeros = vec![0; DM_PAGE_BYTES as usize];
                self.pages.insert(index, (row.func(), zeros));
            }
            None => drop(self.pages.remove(&index)),
        }
    }

    fn byte(&mut self, func: u8, addr: u64) -> Option<&mut u8> {
        let at = addr << 16 >> 16;
        let page = u32::try_from(at / u64::from(DM_PAGE_BYTES)).ok()?;
        let within = (at % u64::from(DM_PAGE_BYTES)) as usize;
        let (_, bytes) = self.pages.get_mut(&page).filter(|(owner, _)| *owner == func)?;
        bytes.get_mut(within)
    }

    /// False: some of it is not there.
    pub fn read(&mut self, func: u8, addr: u64, out: &mut [u8]) -> bool {
        (addr..).zip(out).all(|(at, out)| {
            let found = self.byte(func, at).map(|byte| *byte);
            *out = found.unwrap_or(0);
            found.is_some()
        })
    }

    /// What goes to pages that are not there is lost.
    pub fn write(&mut self, func: u8, addr: u64, bytes: &[u8]) {
        for (at, byte) in (addr..).zip(bytes) {
            if let Some(to) = self.byte(func, at) {
                *to = *byte;
            }
        }
    }
}

impl Body {
    /// A ring of a function, which may be in its device memory.
    pub fn look_at(&mut self, host: &mut dyn HostPort, func: u8, addr: u64, out: &mut [u8]) -> bool {
        if DeviceMemory::has(addr) {
            self.device_memory.read(func, addr, out)
        } else {
            host.look(func, addr, out)
        }
    }

    /// Memory of a function, its device memory included.
    pub fn read_bus(&mut self, host: &mut dyn HostPort, func: u8, addr: u64, out: &mut [u8]) -> bool {
        if DeviceMemory::has(addr) {
            self.device_memory.read(func, addr, out)
        } else {
            host.read(func, addr, out)
        }
    }

    pub fn write_bus(&mut self, host: &mut dyn HostPort, func: u8, addr: u64, bytes: &[u8]) -> bool {
        if DeviceMemory::has(addr) {
            self.device_memory.write(func, addr, bytes);
            return true;
        }
        host.write(func, addr, bytes)
    }

    /// Bus address of the row of a key of a function.
    pub fn key_row_addr(&self, func: u8, key: u32) -> Option<u64> {
        let index = key >> 8;
        let (owner, row) = (index >> MAX_LOG_KEYS, index & ((1 << MAX_LOG_KEYS) - 1));
        let table = self.keys.get(usize::from(func))?;
        let there = owner == u32::from(func) && table.valid() && row >> table.log_size() == 0;
        there.then(|| table.base() + u64::from(row) * Mpt::BYTES as u64)
    }

    /// The row of a key, whatever it says.
    pub fn key_row(&self, host: &mut dyn HostPort, func: u8, key: u32) -> Option<Mpt> {
        let mut row = [0; Mpt::BYTES];
        host.look(func, self.key_row_addr(func, key)?, &mut row)
            .then(|| Mpt::read_from(&row))?
    }

    /// The row of a key that gives this right, somewhere.
    fn granted(
        &self,
        host: &mut dyn HostPort,
        user: KeyUser,
        key: u32,
        right: Access,
    ) -> Result<Mpt, Refusal> {
        let mpt = self.key_row(host, user.func, key).ok_or(Refusal::Key)?;
        let is_local = right == Access::NONE || right == Access::LOCAL;
        let is_others = mpt.is_window() && mpt.is_type_2() && mpt.qpn() != user.qpn;
        let shift = u32::from(mpt.page_shift());
        let has_pages = (MIN_PAGE_SHIFT..=MAX_PAGE_SHIFT).contains(&shift);
        let is_readable = mpt.is_null() || shift == DIRECT_PAGE_SHIFT || has_pages;
        let is_it = mpt.valid() && u32::from(mpt.tag()) == key & 0xff && mpt.func() == user.func;
        if !is_it || is_others || !is_readable {
            return Err(Refusal::Key);
        }
        if user.pd != PD_ANY && mpt.pd() != user.pd {
            return Err(Refusal::Domain);
        }
        // A window gives rights to the peer only; a null region has no place for the result of an atomic, and nothing
        // that a FLUSH could reach.
        let needs_place = right == Access::REMOTE_ATOMIC || right == Access::FLUSH_GLOBAL;
        let is_excluded = (is_local && mpt.is_window()) || (needs_place && mpt.is_null());
        if is_excluded || !Access::of_bits(mpt.access()).allows(right) {
            return Err(Refusal::Right);
        }
        Ok(mpt)
    }

    /// KEY-31: the row of a key that allows this.
    fn allowed(
        &self,
        host: &mut dyn HostPort,
        user: KeyUser,
        range: Sge,
        right: Access,
    ) -> Result<Mpt, Refusal> {
        let mpt = self.granted(host, user, range.lkey, right)?;
        let end = offset_in(&mpt, range.addr).and_then(|offset| offset.checked_add(range.len.into()));
        if !mpt.is_null() && end.is_none_or(|end| end > mpt.length()) {
            return Err(Refusal::Range);
        }
        Ok(mpt)
    }

    /// Whether a range may be touched.
    pub fn check_key(
        &self,
        host: &mut dyn HostPort,
        user: KeyUser,
        range: Sge,
        right: Access,
    ) -> Result<(), Refusal> {
        self.allowed(host, user, range, right).map(|_| ())
    }

    /// Whether a region may be touched, wherever its range is.
    pub fn check_region(
        &self,
        host: &mut dyn HostPort,
        user: KeyUser,
        key: u32,
        right: Access,
    ) -> Result<(), Refusal> {
        self.granted(host, user, key, right).map(|_| ())
    }

    /// Where the bytes of a range are, into an empty list. Of a null region (V-133) nowhere.
    fn find_runs(
        &self,
        host: &mut dyn HostPort,
        user: KeyUser,
        range: Sge,
        right: Access,
        runs: &mut Vec<Run>,
    ) -> Result<(), Refusal> {
        let mpt = self.allowed(host, user, range, right)?;
        if mpt.is_null() {
            return Ok(());
        }
        let offset = offset_in(&mpt, range.addr).ok_or(Refusal::Range)?;
        let shift = u32::from(mpt.page_shift());
        if shift == DIRECT_PAGE_SHIFT {
            let addr = mpt.iova().wrapping_add(offset);
            runs.push(Run {
                addr,
                len: range.len as usize,
            });
            return Ok(());
        }
        // Where in the list's first page the region begins is part of the offset.
        let (mut at, mut left) = (mpt.list_offset().wrapping_add(offset), range.len as usize);
        while left > 0 {
            let within = at & ((1 << shift) - 1);
            let len = usize::try_from((1 << shift) - within)
                .unwrap_or(usize::MAX)
                .min(left);
            let mut entry = [0; 8];
            if !host.look(user.func, mpt.iova().wrapping_add(8 * (at >> shift)), &mut entry) {
                return Err(Refusal::Range);
            }
            let page = u64::from_le_bytes(entry) >> shift << shift;
            runs.push(Run {
                addr: page | within,
                len,
            });
            at = at.wrapping_add(len as u64);
            left -= len;
        }
        Ok(())
    }

    /// Does something with each run of a range, in their order; false: it is not there.
    fn each_run(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        (range, right): (Sge, Access),
        mut access: impl FnMut(&mut Self, &mut dyn HostPort, Run) -> bool,
    ) -> Result<(), Refusal> {
        // The list is kept: most ranges have one or two runs.
        let mut runs = std::mem::take(&mut self.runs);
        let mut done = self.find_runs(host, user, range, right, &mut runs);
        if done.is_ok() && !runs.iter().all(|run| access(self, host, *run)) {
            done = Err(Refusal::Range);
        }
        runs.clear();
        self.runs = runs;
        done
    }

    /// The bytes of a range, into as many. Those of a null region are zeros.
    pub fn read_key(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        what: (Sge, Access),
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        let mut done = 0;
        self.each_run(host, user, what, |body, host, run| {
            let now = &mut out[done..done + run.len];
            done += run.len;
            body.read_bus(host, user.func, run.addr, now)
        })?;
        out[done..].fill(0);
        Ok(())
    }

    /// Writes to a range.
    pub fn write_key(
        &mut self,
        host: &mut dyn HostPort,
        user: KeyUser,
        (key, va): (u32, u64),
        bytes: &[u8],
        right: Access,
    ) -> Result<(), Refusal> {
        let range = Sge::new(key, va, bytes.len() as u32);
        let mut done = 0;
        self.each_run(host, user, (range, right), |body, host, run| {
            let now = &bytes[done..done + run.len];
            done += run.len;
            body.write_bus(host, user.func, run.addr, now)
        })
    }
}
