//! Device memory (MEM-19). A function is given pages of its share of the card's RAM; the hardware knows the owner of
//! each, and for others it is not there. Here is which of them are given.

use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::pool::Shares;
use crate::{Bus, CmdResult, Control, Quotas};
use hca_abi::{
    AdminStatus, AllocDmCmd, CopyDmCmd, CtxTable, DM_BUS_HIGH, DM_COPY_BYTES, DM_PAGE_BYTES, DM_PAGES, DmRow,
};
use hca_regs as reg;

/// Where in the mailbox a piece that is copied goes.
const PIECE_AREA: u32 = 2048;
/// Bytes that DMA moves, at least.
const LINE_BYTES: u32 = 64;
/// Bus address of the first page.
const BASE: u64 = (DM_BUS_HIGH as u64) << 48;

/// The pages of all functions, a bit each.
#[derive(Clone)]
pub(crate) struct DeviceMemory {
    given: u32,
    /// With these an allocation begins.
    first: u32,
    shares: Shares,
}

impl DeviceMemory {
    pub const fn new(quotas: Quotas) -> Self {
        const { assert!(DM_PAGES <= u32::BITS) }
        Self {
            given: 0,
            first: 0,
            shares: Shares::new(DM_PAGES, 0, quotas),
        }
    }

    /// What a function can have.
    pub const fn limit_bytes(&self, func: u8) -> u32 {
        self.shares.limit(func) * DM_PAGE_BYTES
    }

    /// The first place for so many pages in a row.
    fn find(&self, func: u8, pages: u32) -> Option<u32> {
        let (own, mask) = (self.shares.of(func), mask_of(pages));
        let last = own.end.checked_sub(pages)?;
        (own.start..last + 1).find(|at| self.given & mask << at == 0)
    }

    /// Pages of the function's allocation that begins with this one.
    fn pages_at(&self, func: u8, page: u32) -> Option<u32> {
        let own = self.shares.of(func);
        if !own.contains(&page) || self.first >> page & 1 == 0 {
            return None;
        }
        // Behind the first one the allocation goes on where pages are given and begin nothing.
        let behind = (self.given & !self.first) >> page >> 1;
        Some((1 + behind.trailing_ones()).min(own.end - page))
    }

    fn give(&mut self, page: u32, pages: u32) {
        self.given |= mask_of(pages) << page;
        self.first |= 1 << page;
    }

    fn take(&mut self, page: u32, pages: u32) {
        self.given &= !(mask_of(pages) << page);
        self.first &= !(1 << page);
    }
}

/// Bits of so many pages, 1 or more.
fn mask_of(pages: u32) -> u32 {
    u32::MAX >> (DM_PAGES - pages)
}

/// Beside the place in the mailbox: so many bytes at the beginning of the first line that goes out, and at the end of
/// the last one, are left as they are.
fn edges(skip: u32, spare: u32) -> u32 {
    reg::place(skip, reg::MGMT_DMA_LOCAL_SKIP_MASK) | reg::place(spare, reg::MGMT_DMA_LOCAL_SPARE_MASK)
}

/// The rows of pages of a function.
fn set_rows<B: Bus>(hal: &mut Hal<B>, func: u8, page: u32, pages: u32, is_there: bool) {
    let mut row = DmRow::new();
    row.set_there(is_there);
    row.set_func(func);
    for page in page..page + pages {
        hal.ctx_write(CtxTable::DeviceMemory, page, row.as_bytes());
    }
}

impl Control {
    /// ALLOC_DM: what was there before is gone.
    pub(crate) fn alloc_dm<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &AllocDmCmd,
    ) -> CmdResult<u32> {
        let length = cmd.length();
        let own = &mut self.device_memory;
        let limit = own.limit_bytes(func);
        require_size((1..=limit).contains(&length), length)?;
        let pages = length.div_ceil(DM_PAGE_BYTES);
        let page = own.find(func, pages).ok_or((AdminStatus::NoResources, limit))?;
        own.give(page, pages);
        set_rows(hal, func, page, pages, true);
        Ok(page)
    }

    /// FREE_DM: from now on reads of it fail, and writes are lost.
    pub(crate) fn free_dm<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, handle: u32) -> CmdResult {
        let pages = self.own_dm(func, handle)?;
        set_rows(hal, func, handle, pages, false);
        self.device_memory.take(handle, pages);
        Ok(())
    }

    /// COPY_DM: by way of the mailbox. What is written to device memory is what was named, to the byte, for others may
    /// write beside it.
    pub(crate) fn copy_dm<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &CopyDmCmd) -> CmdResult {
        let (handle, offset, bytes) = (cmd.handle(), cmd.offset(), cmd.bytes());
        let there = self.own_dm(func, handle)? * DM_PAGE_BYTES;
        require_size(bytes >= 1 && bytes <= there, bytes)?;
        require_size(offset <= there - bytes, offset)?;
        let skip = offset % LINE_BYTES;
        require((cmd.addr() as u32) % LINE_BYTES == skip, offset)?;
        let lines = (skip + bytes).next_multiple_of(LINE_BYTES);
        require_size(lines <= DM_COPY_BYTES, bytes)?;
        let host = cmd.addr() - u64::from(skip);
        let card = BASE + u64::from(handle * DM_PAGE_BYTES + offset - skip);
        let (from, to, edges) = if cmd.to_host() {
            (card, host, 0)
        } else {
            (host, card, edges(skip, lines - skip - bytes))
        };
        hal.dma_from_host(func, from, PIECE_AREA, lines)
            .and_then(|()| hal.dma_to_host(func, to, PIECE_AREA | edges, lines))
            .map_err(|_| (AdminStatus::DmaError, 0))
    }

    /// Pages of an allocation of the function.
    fn own_dm(&self, func: u8, handle: u32) -> CmdResult<u32> {
        let own = &self.device_memory;
        own.pages_at(func, handle).ok_or((AdminStatus::BadHandle, handle))
    }

    /// The function begins anew.
    pub(crate) fn clear_dm<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        for page in self.device_memory.shares.of(func) {
            if self.device_memory.given >> page & 1 == 1 {
                set_rows(hal, func, page, 1, false);
                self.device_memory.take(page, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_once_and_come_back() {
        let mut all = DeviceMemory::new(Quotas::equal(4));
        let own = DM_PAGES / 4;
        assert_eq!(all.limit_bytes(1), own * DM_PAGE_BYTES);
        let ends = [3, 1, 2, 2].map(|pages| {
            let at = all.find(1, pages).unwrap();
            all.give(at, pages);
            (at - own, pages)
        });
        assert_eq!(ends, [(0, 3), (3, 1), (4, 2), (6, 2)]);
        assert_eq!(all.find(1, 1), None);
        for (at, pages) in &ends {
            assert_eq!(all.pages_at(1, own + at), Some(*pages));
            assert_eq!(all.pages_at(0, own + at), None, "another's");
        }
        for inside in [1, 2, 5, 7, own, u32::MAX - own] {
            assert_eq!(all.pages_at(1, own + inside), None, "{inside}");
        }
        all.take(own + 3, 1);
        assert_eq!(
            all.pages_at(1, own),
            Some(3),
            "what is behind it is no part of it"
        );
        assert_eq!((all.find(1, 1), all.find(1, 2)), (Some(own + 3), None));
        all.take(own, 3);
        assert_eq!((all.find(1, 4), all.find(1, 5)), (Some(own), None));
        all.take(own + 4, 2);
        all.take(own + 6, 2);
        assert_eq!((all.find(1, own), all.find(1, own + 1)), (Some(own), None));
    }

    /// The last allocation of one function ends where the next one's first begins.
    #[test]
    fn an_allocation_ends_with_the_share() {
        let mut all = DeviceMemory::new(Quotas::equal(1));
        assert_eq!(all.find(0, DM_PAGES), Some(0));
        all.give(0, DM_PAGES);
        assert_eq!((all.find(0, 1), all.pages_at(0, 0)), (None, Some(DM_PAGES)));
        let mut all = DeviceMemory::new(Quotas::equal(4));
        for func in [0, 1] {
            let at = all.find(func, DM_PAGES / 4).unwrap();
            all.give(at, DM_PAGES / 4);
        }
        assert_eq!(all.pages_at(0, 0), Some(DM_PAGES / 4));
    }
}
