//! Memory registration: keys and translation entries (KEY-27..KEY-31, MEM-3..MEM-8).

use crate::hal::Hal;
use crate::objects::{MrRec, require, require_size};
use crate::{Bus, CmdResult, Firmware};
use hca_abi::{
    AdminStatus, CtxTable, DIRECT_PAGE_SHIFT, MAX_PAGE_SHIFT, MIN_PAGE_SHIFT, ModifyMrCmd, Mpt,
    QueryMrResult, RegMrCmd, RegMrResult, access,
};

/// Longest region: everything a 48-bit address space can hold.
pub(crate) const MAX_MR_BYTES: u64 = 1 << 48;
/// Rights that regions and QPs have here.
pub(crate) const GRANTED: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
/// Rights that may be asked for and that nobody gets: there are no atomics and no windows to use them with, and all
/// writes of this card keep their order.
pub(crate) const IGNORED: u32 = access::REMOTE_ATOMIC | access::MW_BIND | access::RELAXED_ORDERING;

impl Firmware {
    fn own_mr(&self, func: u8, lkey: u32) -> CmdResult<usize> {
        let index = lkey >> 8;
        // Index 0 is reserved: key 0 is never valid.
        if index != 0 && self.mr_ids.contains(index) {
            let mr = &self.mrs[index as usize];
            if mr.func == func && mr.tag == lkey as u8 {
                return Ok(index as usize);
            }
        }
        Err((AdminStatus::BadHandle, lkey))
    }

    pub(crate) fn reg_mr<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &RegMrCmd,
    ) -> CmdResult<RegMrResult> {
        let pd = self.own_pd(func, cmd.pd())?;
        let rights = cmd.access();
        check_rights(rights)?;
        require_size(cmd.length() >= 1 && cmd.length() <= MAX_MR_BYTES, 0)?;
        require_size(cmd.start().checked_add(cmd.length()).is_some(), 0)?;
        let direct = u32::from(cmd.page_shift()) == DIRECT_PAGE_SHIFT;
        require_size(!direct || cmd.iova().checked_add(cmd.length()).is_some(), 0)?;
        let pages = if direct { 0 } else { pages_of(cmd)? };
        let index = self.mr_ids.alloc().ok_or((AdminStatus::NoResources, 0))?;
        let mtt_base = if direct { None } else { self.mtts.alloc(pages) };
        if !direct && mtt_base.is_none() {
            self.mr_ids.free(index);
            return Err((AdminStatus::NoResources, pages));
        }
        if let Some(base) = mtt_base
            && let Err(e) = load_pages(hal, func, cmd, base, pages)
        {
            self.mtts.free(base);
            self.mr_ids.free(index);
            return Err(e);
        }
        let mr = &mut self.mrs[index as usize];
        // KEY-30: a new tag for each use of the index, so a stale key never works again.
        *mr = MrRec {
            func,
            tag: mr.tag.wrapping_add(1),
            pd: cmd.pd(),
            access: rights & GRANTED,
            start: cmd.start(),
            length: cmd.length(),
            iova: cmd.iova(),
            page_shift: cmd.page_shift(),
            mtt_base,
        };
        self.pds[pd].1 += 1;
        let key = index << 8 | u32::from(mr.tag);
        hal.ctx_write(CtxTable::Mpt, index, mpt_of(mr).as_bytes());
        let mut out = RegMrResult::new();
        out.set_lkey(key);
        out.set_rkey(key);
        Ok(out)
    }

    /// V-131: other rights, another domain, the same keys. When it returns, no access of the old rights is under way.
    pub(crate) fn modify_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &ModifyMrCmd) -> CmdResult {
        let i = self.own_mr(func, cmd.lkey())?;
        let pd = self.own_pd(func, cmd.pd())?;
        check_rights(cmd.access())?;
        let mr = &mut self.mrs[i];
        self.pds[mr.pd as usize].1 -= 1;
        self.pds[pd].1 += 1;
        (mr.pd, mr.access) = (cmd.pd(), cmd.access() & GRANTED);
        hal.ctx_write(CtxTable::Mpt, i as u32, mpt_of(mr).as_bytes());
        hal.fence_memory();
        Ok(())
    }

    pub(crate) fn dereg_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, lkey: u32) -> CmdResult {
        let i = self.own_mr(func, lkey)?;
        hal.ctx_write(CtxTable::Mpt, i as u32, Mpt::new().as_bytes());
        // Accesses that passed the key check before may still be under way; after the fence none is.
        hal.fence_memory();
        if let Some(base) = self.mrs[i].mtt_base.take() {
            self.mtts.free(base);
        }
        self.pds[self.mrs[i].pd as usize].1 -= 1;
        self.mr_ids.free(i as u32);
        Ok(())
    }

    pub(crate) fn query_mr(&self, func: u8, lkey: u32) -> CmdResult<QueryMrResult> {
        let mr = &self.mrs[self.own_mr(func, lkey)?];
        let mut out = QueryMrResult::new();
        out.set_lkey(lkey);
        out.set_rkey(lkey);
        out.set_pd(mr.pd);
        out.set_access(mr.access);
        out.set_start(mr.start);
        out.set_length(mr.length);
        out.set_page_shift(mr.page_shift);
        Ok(out)
    }

    /// Drops every region of a function.
    pub(crate) fn drop_mrs<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        for i in 0..self.mrs.len() as u32 {
            if self.mr_ids.contains(i) && i != 0 && self.mrs[i as usize].func == func {
                let key = i << 8 | u32::from(self.mrs[i as usize].tag);
                let _ = self.dereg_mr(hal, func, key);
            }
        }
    }
}

fn check_rights(rights: u32) -> CmdResult {
    if rights & access::ZERO_BASED != 0 {
        return Err((AdminStatus::Unsupported, rights));
    }
    require(rights & !(GRANTED | IGNORED) == 0, rights)?;
    // MEM-8: who lets others write must be allowed to write itself.
    let remote_write = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    require(!remote_write || rights & access::LOCAL_WRITE != 0, rights)
}

fn mpt_of(mr: &MrRec) -> Mpt {
    let mut m = Mpt::new();
    m.set_valid(true);
    m.set_access(mr.access);
    m.set_tag(mr.tag);
    m.set_func(mr.func);
    m.set_pd(mr.pd);
    m.set_page_shift(mr.page_shift);
    m.set_mtt_base(mr.mtt_base.unwrap_or(0));
    m.set_start(mr.start);
    m.set_length(mr.length);
    m.set_iova(mr.iova);
    m
}

/// Pages the region touches; must equal the length of the list.
fn pages_of(cmd: &RegMrCmd) -> CmdResult<u32> {
    let shift = u32::from(cmd.page_shift());
    require(({ MIN_PAGE_SHIFT }..={ MAX_PAGE_SHIFT }).contains(&shift), shift)?;
    let first = cmd.start() >> shift;
    let last = (cmd.start() + cmd.length() - 1) >> shift;
    let pages = last - first + 1;
    require_size(pages <= u64::from(crate::NUM_MTTS), 0)?;
    require_size(pages == u64::from(cmd.num_pages()), cmd.num_pages())?;
    require(cmd.page_list_addr().is_multiple_of(64), 0)?;
    Ok(pages as u32)
}

/// Copies the page list from host memory into the translation table, a mailbox full at a time.
fn load_pages<B: Bus>(hal: &mut Hal<B>, func: u8, cmd: &RegMrCmd, base: u32, pages: u32) -> CmdResult {
    let mask = (1u64 << cmd.page_shift()) - 1;
    let mut done = 0;
    while done < pages {
        let n = (pages - done).min(PAGES_PER_LOAD);
        let bytes = (n * 8).next_multiple_of(64);
        let addr = cmd.page_list_addr().wrapping_add(u64::from(done) * 8);
        hal.dma_from_host(func, addr, LIST_AREA, bytes)
            .map_err(|_| (AdminStatus::DmaError, done))?;
        for i in 0..n {
            let mut entry = [0; 8];
            hal.mailbox_read(LIST_AREA + i * 8, &mut entry);
            require(u64::from_le_bytes(entry) & mask == 0, done + i)?;
            hal.ctx_write(CtxTable::Mtt, base + done + i, &entry);
        }
        done += n;
    }
    Ok(())
}

/// Where in the mailbox page lists go: above the admin command and completion.
const LIST_AREA: u32 = 1024;
const PAGES_PER_LOAD: u32 = 256;
