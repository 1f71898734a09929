//! Fast registration (MEM-16): keys that work requests register and invalidate, in line with the messages around them.

use std::sync::Arc;

use hca_abi::RegMrCmd;
use hca_dev::{Device, DmaBuf};
use hca_driver::{DevicePtr, RegMr, SendOp, Sge};

use crate::objects::memory::{MrOptions, PageSize, Range, check_pages, pages_of, range_of};
use crate::objects::pd::{Pd, PdShared};
use crate::values::attr::Access;
use crate::values::error::{Error, Result};

/// Most pages of a region for fast registration.
pub const MAX_FAST_PAGES: u32 = 1 << 16;
const LOG_PAGE_BYTES: u8 = 12;
/// Page lists begin at multiples of this.
const LINE_BYTES: usize = 64;
/// Page lists of a key: one of the region that it is of, one of what it is to be of.
const LISTS: usize = 2;

/// Region for fast registration: what `ib_alloc_mr` makes. It is free until a work request registers memory under its
/// key, and again when one has invalidated it, or a SEND of a peer has.
///
/// The operations carry the key's low byte, which the program chooses: another one each time, so that a stale key never
/// works. Queues carry them out in their order: a work request behind [`FastMr::reg_op`] of the same queue may use the
/// key, and what is before [`FastMr::inv_op`] has used it.
///
/// A page list is written when the operation is made, and there are two: the next one may be made while the region of
/// before is registered, but its work request must have been completed, and the region before it invalidated.
pub struct FastMr<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    key: u32,
    max_pages: u32,
    addr: u64,
    /// The lists, one behind the other; none: it has been destroyed.
    lists: Option<DmaBuf>,
    /// Which one is next.
    next: usize,
    /// What they are of: it stays mapped.
    bufs: [Option<DmaBuf>; LISTS],
}

debug_as!(FastMr, key, max_pages);

fn list_bytes(max_pages: u32) -> usize {
    (8 * max_pages as usize).next_multiple_of(LINE_BYTES)
}

impl<P: DevicePtr> Pd<P> {
    /// ib_alloc_mr: a key for fast registration of memory in at most `max_pages` pages.
    pub fn alloc_mr(&self, max_pages: u32) -> Result<FastMr<P>> {
        if max_pages == 0 || max_pages > MAX_FAST_PAGES {
            return Err(Error::Invalid(format!(
                "a region for fast registration of {max_pages} pages: must be 1 to {MAX_FAST_PAGES}; register more \
                 memory with reg_mr, or with larger pages"
            )));
        }
        let shared = &self.inner().shared;
        let lists = shared.device().alloc_dma(LISTS * list_bytes(max_pages))?;
        let mut cmd = RegMrCmd::new();
        cmd.set_pd(self.handle());
        cmd.set_access(Access::LOCAL_WRITE.bits());
        cmd.set_length(u64::from(max_pages) << LOG_PAGE_BYTES);
        cmd.set_page_list_addr(lists.iova());
        cmd.set_num_pages(max_pages);
        cmd.set_page_shift(LOG_PAGE_BYTES);
        let made = shared.function().alloc_fast_mr(&cmd);
        let key = match made {
            Ok(key) => key,
            Err(error) => {
                shared.device().free_dma(lists)?;
                return Err(error.into());
            }
        };
        Ok(FastMr {
            pd: self.inner().clone(),
            key,
            max_pages,
            addr: 0,
            lists: Some(lists),
            next: 0,
            bufs: [None, None],
        })
    }
}

impl<P: DevicePtr> FastMr<P> {
    /// L_Key and R_Key of the newest operation: the upper 24 bits of all of them.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// How many pages it may have.
    pub fn max_pages(&self) -> u32 {
        self.max_pages
    }

    /// First virtual address by the newest operation.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// A scatter/gather entry: `length` bytes from `offset` of the region. Not checked here: the card does.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.addr.wrapping_add(offset),
            length,
            lkey: self.key,
        }
    }

    /// Operation that registers memory of a DMA buffer under `key`. Pages are of 4 KiB if the options say
    /// [`PageSize::Direct`].
    pub fn reg_op(&mut self, key: u32, buf: &DmaBuf, options: &MrOptions) -> Result<SendOp> {
        let range = range_of(buf.as_ptr() as u64, buf.iova(), buf.len_bytes(), options)?;
        let shift = shift_of(options);
        let pages = pages_of(&range, shift)?;
        self.make_op(key, &range, options.access, shift, &pages, Some(buf.clone()))
    }

    /// The same of pages at these bus addresses, as one region that begins at `addr` of the options.
    pub fn reg_pages_op(&mut self, key: u32, pages: &[u64], options: &MrOptions) -> Result<SendOp> {
        let (Some(addr), Some(length)) = (options.addr, options.length) else {
            return Err(Error::Invalid("reg_pages_op needs addr and length".into()));
        };
        let range = Range {
            addr,
            iova: 0,
            length: length as u64,
        };
        self.make_op(key, &range, options.access, shift_of(options), pages, None)
    }

    fn make_op(
        &mut self,
        key: u32,
        range: &Range,
        access: Access,
        page_shift: u8,
        pages: &[u64],
        buf: Option<DmaBuf>,
    ) -> Result<SendOp> {
        let id = self.key;
        let lists = self.lists.as_ref().ok_or(Error::Destroyed { what: "MR", id })?;
        if (key ^ id) >> 8 != 0 {
            return Err(Error::Invalid(format!(
                "key {key:#x} of the region with key {id:#x}: only the low byte may be another one"
            )));
        }
        let max = self.max_pages;
        if pages.is_empty() || pages.len() > max as usize {
            return Err(Error::Invalid(format!(
                "{} pages, the region was allocated with 1 to {max}: allocate it with more, or take larger pages",
                pages.len()
            )));
        }
        check_pages(pages, page_shift)?;
        let at = self.next * list_bytes(max);
        let page_list_addr = lists.iova() + at as u64;
        if self.pd.shared.function().fast_mr_list(id) == Some(page_list_addr) {
            return Err(Error::Invalid(format!(
                "the region with key {id:#x} is registered with the page list that would be written: \
                 wait until it has been invalidated"
            )));
        }
        for (i, page) in pages.iter().enumerate() {
            lists.store_u64(at + 8 * i, *page);
        }
        self.bufs[self.next] = buf;
        self.next = (self.next + 1) % LISTS;
        (self.key, self.addr) = (key, range.addr);
        Ok(SendOp::RegMr(RegMr {
            key,
            addr: range.addr,
            length: range.length,
            access: access.bits(),
            page_shift,
            page_list_addr,
        }))
    }

    /// Operation that invalidates the key of the newest one: LOCAL_INV. A peer does it by SendWithInv.
    pub fn inv_op(&self) -> SendOp {
        SendOp::LocalInv {
            invalidate_rkey: self.key,
        }
    }

    /// ib_dereg_mr now, registered or free. When it returns, the card no longer touches the memory.
    pub fn destroy(&mut self) -> Result<()> {
        let Some(lists) = self.lists.take() else {
            return Err(Error::Destroyed {
                what: "MR",
                id: self.key,
            });
        };
        let shared = &self.pd.shared;
        if let Err(e) = shared.function().dealloc_fast_mr(self.key) {
            self.lists = Some(lists);
            return Err(e.into());
        }
        shared.device().free_dma(lists)?;
        Ok(())
    }
}

fn shift_of(options: &MrOptions) -> u8 {
    match options.page_size {
        PageSize::Direct => LOG_PAGE_BYTES,
        paged => paged.shift(),
    }
}

impl<P: DevicePtr> Drop for FastMr<P> {
    fn drop(&mut self) {
        if self.lists.is_none() || self.destroy().is_ok() {
            return;
        }
        // A card that does not answer uses nothing.
        if let Some(lists) = self.lists.take() {
            let _ = self.pd.shared.device().free_dma(lists);
        }
    }
}
