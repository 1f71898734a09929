//! Memory registration: keys and translation entries (KEY-27..KEY-31, MEM-3..MEM-8).

use crate::hal::Hal;
use crate::objects::{MrRec, require, require_size};
use crate::turns::{Fenced, Rest};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, CtxTable, DIRECT_PAGE_SHIFT, MAX_PAGE_SHIFT, MIN_PAGE_SHIFT, ModifyMrCmd, Mpt,
    QueryMrResult, RegMrCmd, RegMrResult, access,
};

/// Longest region: everything a 48-bit address space can hold.
pub(crate) const MAX_MR_BYTES: u64 = 1 << 48;
/// Pages of one region: as many as its entries can be counted in the command.
pub(crate) const MAX_PAGES: u32 = u32::MAX;
/// Rights that regions and QPs have here.
pub(crate) const GRANTED: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
/// Rights that may be asked for and that nobody gets: there are no atomics and no windows to use them with, and all
/// writes of this card keep their order.
pub(crate) const IGNORED: u32 = access::REMOTE_ATOMIC | access::MW_BIND | access::RELAXED_ORDERING;

impl Control {
    fn own_mr(&self, func: u8, lkey: u32) -> CmdResult<usize> {
        // Index 0 is never given out: key 0 is never valid.
        let index = lkey >> 8;
        if self.mr_ids.owns(func, index) && self.mrs[index as usize].tag == lkey as u8 {
            Ok(index as usize)
        } else {
            Err((AdminStatus::BadHandle, lkey))
        }
    }

    /// The page list stays the driver's: hardware reads it when it needs a page.
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
        if !direct {
            check_list(hal, func, cmd)?;
        }
        let limit = self.mr_ids.limit();
        let index = self.mr_ids.alloc(func).ok_or((AdminStatus::NoResources, limit))?;
        let mr = &mut self.mrs[index as usize];
        // KEY-30: a new tag for each use of the index, so a stale key never works again.
        *mr = MrRec {
            tag: mr.tag.wrapping_add(1),
            pd: cmd.pd(),
            access: rights & GRANTED,
            start: cmd.start(),
            length: cmd.length(),
            iova: if direct { cmd.iova() } else { cmd.page_list_addr() },
            page_shift: cmd.page_shift(),
        };
        self.pds[pd] += 1;
        Ok(self.publish_mr(hal, func, index))
    }

    /// From now on the keys work.
    fn publish_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, index: u32) -> RegMrResult {
        let mr = &self.mrs[index as usize];
        hal.ctx_write(CtxTable::Mpt, index, mpt_of(func, mr).as_bytes());
        let key = index << 8 | u32::from(mr.tag);
        let mut out = RegMrResult::new();
        out.set_lkey(key);
        out.set_rkey(key);
        out
    }

    /// V-131: other rights, another domain, the same keys. After the fence no access of the old rights is under way.
    pub(crate) fn modify_mr<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &ModifyMrCmd,
    ) -> CmdResult<Rest> {
        let i = self.own_mr(func, cmd.lkey())?;
        let pd = self.own_pd(func, cmd.pd())?;
        check_rights(cmd.access())?;
        let mr = &mut self.mrs[i];
        self.pds[mr.pd as usize] -= 1;
        self.pds[pd] += 1;
        (mr.pd, mr.access) = (cmd.pd(), cmd.access() & GRANTED);
        hal.ctx_write(CtxTable::Mpt, i as u32, mpt_of(func, mr).as_bytes());
        Ok(Rest::Fence(Fenced::Nothing))
    }

    pub(crate) fn dereg_mr<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, lkey: u32) -> CmdResult<Rest> {
        let index = self.own_mr(func, lkey)? as u32;
        self.invalidate_mr(hal, index);
        // Accesses that passed the key check before may still be under way; after the fence none is.
        Ok(Rest::Fence(Fenced::FreeMr(index)))
    }

    /// From now on the keys do not work.
    pub(crate) fn invalidate_mr<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        hal.ctx_write(CtxTable::Mpt, index, Mpt::new().as_bytes());
    }

    /// An invalid region is gone, after a fence.
    pub(crate) fn free_mr(&mut self, index: u32) {
        self.pds[self.mrs[index as usize].pd as usize] -= 1;
        self.mr_ids.free(index);
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
}

fn check_rights(rights: u32) -> CmdResult {
    if rights & (access::ZERO_BASED | access::ON_DEMAND) != 0 {
        return Err((AdminStatus::Unsupported, rights));
    }
    require(rights & !(GRANTED | IGNORED) == 0, rights)?;
    // MEM-8: who lets others write must be allowed to write itself.
    let remote_write = rights & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    require(!remote_write || rights & access::LOCAL_WRITE != 0, rights)
}

fn mpt_of(func: u8, mr: &MrRec) -> Mpt {
    let mut m = Mpt::new();
    m.set_valid(true);
    m.set_access(mr.access);
    m.set_tag(mr.tag);
    m.set_func(func);
    m.set_pd(mr.pd);
    m.set_page_shift(mr.page_shift);
    m.set_start(mr.start);
    m.set_length(mr.length);
    m.set_iova(mr.iova);
    m
}

/// The list has as many entries as the region touches pages, and its first one can be read. Of the others hardware finds
/// out when it needs them.
fn check_list<B: Bus>(hal: &mut Hal<B>, func: u8, cmd: &RegMrCmd) -> CmdResult {
    let shift = u32::from(cmd.page_shift());
    require(({ MIN_PAGE_SHIFT }..={ MAX_PAGE_SHIFT }).contains(&shift), shift)?;
    let first = cmd.start() >> shift;
    let last = (cmd.start() + cmd.length() - 1) >> shift;
    let pages = last - first + 1;
    require_size(pages <= u64::from(MAX_PAGES), 0)?;
    require_size(pages == u64::from(cmd.num_pages()), cmd.num_pages())?;
    let list = cmd.page_list_addr();
    require(
        list.is_multiple_of(64) && list.checked_add(pages * 8).is_some(),
        0,
    )?;
    hal.dma_from_host(func, list, LIST_AREA, 64)
        .map_err(|_| (AdminStatus::DmaError, 0))
}

/// Where in the mailbox the first line of a page list goes: above the admin command and completion.
const LIST_AREA: u32 = 1024;
