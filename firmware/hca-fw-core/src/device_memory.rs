//! Device memory (MEM-19). Each function has its own pages of the card's RAM, at bus addresses of its own, so who may
//! touch them need not be asked: there are no others that it could name. Here is which of them it has been given.

use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, AllocDmCmd, CopyDmCmd, CtxTable, DM_BUS_HIGH, DM_BYTES, DM_COPY_BYTES, DM_PAGE_BYTES,
    DM_PAGES, DmRow,
};
use hca_regs as reg;

/// Where in the mailbox a piece that is copied goes.
const PIECE_AREA: u32 = 2048;
/// Bytes that DMA moves, at least.
const LINE_BYTES: u32 = 64;
/// Bus address of the first page.
const BASE: u64 = (DM_BUS_HIGH as u64) << 48;

/// The pages of a function, a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct DeviceMemory {
    given: u8,
    /// With these an allocation begins.
    first: u8,
}

impl DeviceMemory {
    pub const fn new() -> Self {
        const { assert!(DM_PAGES <= u8::BITS) }
        Self { given: 0, first: 0 }
    }

    /// The first place for so many pages in a row.
    fn find(self, pages: u32) -> Option<u32> {
        let mask = mask_of(pages);
        (0..=DM_PAGES.checked_sub(pages)?).find(|at| u32::from(self.given) & mask << at == 0)
    }

    /// Pages of the allocation that begins with this one.
    fn pages_at(self, page: u32) -> Option<u32> {
        if page >= DM_PAGES || self.first >> page & 1 == 0 {
            return None;
        }
        // Behind the first one the allocation goes on where pages are given and begin nothing.
        let behind = (self.given & !self.first) >> page >> 1;
        Some(1 + behind.trailing_ones())
    }

    fn give(&mut self, page: u32, pages: u32) {
        self.given |= (mask_of(pages) << page) as u8;
        self.first |= 1 << page;
    }

    fn take(&mut self, page: u32, pages: u32) {
        self.given &= !((mask_of(pages) << page) as u8);
        self.first &= !(1 << page);
    }
}

/// Bits of so many pages.
fn mask_of(pages: u32) -> u32 {
    (1 << pages) - 1
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
    for page in page..page + pages {
        hal.ctx_write(
            CtxTable::DeviceMemory,
            u32::from(func) * DM_PAGES + page,
            row.as_bytes(),
        );
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
        require_size((1..=DM_BYTES).contains(&length), length)?;
        let pages = length.div_ceil(DM_PAGE_BYTES);
        let own = &mut self.device_memory[usize::from(func)];
        let page = own.find(pages).ok_or((AdminStatus::NoResources, DM_BYTES))?;
        own.give(page, pages);
        set_rows(hal, func, page, pages, true);
        Ok(page)
    }

    /// FREE_DM: from now on reads of it fail, and writes are lost.
    pub(crate) fn free_dm<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, handle: u32) -> CmdResult {
        let pages = self.own_dm(func, handle)?;
        set_rows(hal, func, handle, pages, false);
        self.device_memory[usize::from(func)].take(handle, pages);
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
        let own = self.device_memory[usize::from(func)];
        own.pages_at(handle).ok_or((AdminStatus::BadHandle, handle))
    }

    /// The function begins anew.
    pub(crate) fn clear_dm<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        if core::mem::take(&mut self.device_memory[usize::from(func)]).given != 0 {
            set_rows(hal, func, 0, DM_PAGES, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_once_and_come_back() {
        let mut all = DeviceMemory::new();
        let ends = [3, 1, 2, 2].map(|pages| {
            let at = all.find(pages).unwrap();
            all.give(at, pages);
            (at, pages)
        });
        assert_eq!(ends, [(0, 3), (3, 1), (4, 2), (6, 2)]);
        assert_eq!(all.find(1), None);
        for (at, pages) in &ends {
            assert_eq!(all.pages_at(*at), Some(*pages));
        }
        for inside in [1, 2, 5, 7, DM_PAGES, u32::MAX] {
            assert_eq!(all.pages_at(inside), None, "{inside}");
        }
        all.take(3, 1);
        assert_eq!(all.pages_at(0), Some(3), "what is behind it is no part of it");
        assert_eq!((all.find(1), all.find(2)), (Some(3), None));
        all.take(0, 3);
        assert_eq!((all.find(4), all.find(5)), (Some(0), None));
        all.take(4, 2);
        all.take(6, 2);
        assert_eq!(all.find(DM_PAGES), Some(0));
        assert_eq!(all.find(DM_PAGES + 1), None);
    }
}
