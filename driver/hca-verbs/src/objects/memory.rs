//! Memory regions.

use std::sync::Arc;

use hca_abi::{DIRECT_PAGE_SHIFT, MIN_PAGE_SHIFT, ModifyMrCmd, NULL_PAGES, RegMrCmd};
use hca_dev::{Device, DmaBuf, UserMemory};
use hca_driver::{DevicePtr, Sge};

use crate::objects::context::Context;
use crate::objects::device_memory::{DeviceMemory, DmShared};
use crate::objects::pd::{Pd, PdShared};
use crate::values::attr::Access;
use crate::values::error::{Error, Result};

/// How the card finds the memory of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// One contiguous bus range: no page list.
    #[default]
    Direct,
    /// Pages of 4 KiB.
    KiB4,
    /// Pages of 2 MiB. Virtual and bus address must agree in their low 21 bits.
    MiB2,
    /// Pages of `1 << n` bytes, 12..=30. Virtual and bus address must agree in their low n bits.
    Shift(u8),
}

impl PageSize {
    pub(super) fn shift(self) -> u8 {
        match self {
            Self::Direct => DIRECT_PAGE_SHIFT as u8,
            Self::KiB4 => 12,
            Self::MiB2 => 21,
            Self::Shift(n) => n,
        }
    }
}

/// How to register memory.
#[derive(Clone, Copy, Debug)]
pub struct MrOptions {
    /// Rights.
    pub access: Access,
    /// Translation.
    pub page_size: PageSize,
    /// First virtual address that work requests and peers use; `None`: the address in this process, or 0 of a region
    /// with ZERO_BASED (MEM-10), which may have no other.
    pub addr: Option<u64>,
    /// First byte of the buffer.
    pub offset: usize,
    /// Bytes; `None`: all after `offset`.
    pub length: Option<usize>,
}

impl MrOptions {
    /// The whole buffer, direct, at its address in this process.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            page_size: PageSize::Direct,
            addr: None,
            offset: 0,
            length: None,
        }
    }
}

/// What keeps the memory reachable for the card.
enum Backing<P: DevicePtr> {
    /// Of [`Context::alloc_dm`]; as long as there is a region it is not freed.
    Device { _dm: Arc<DmShared<P>> },
    /// Memory that the device has allocated; the clone keeps the mapping alive.
    Dma { _buf: DmaBuf },
    /// Mapped by us.
    User { iova: u64, len_bytes: usize },
    /// What a null region reads: nobody writes it.
    Zeros(DmaBuf),
    /// The caller's business.
    Caller,
}

/// Memory region: ibv_mr.
pub struct Mr<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    lkey: u32,
    rkey: u32,
    addr: u64,
    length: u64,
    backing: Option<Backing<P>>,
    /// The card reads it for as long as it knows the keys.
    page_list: Option<DmaBuf>,
}

debug_as!(Mr, lkey, rkey, addr, length);

/// The range of a region in all its addresses.
pub(super) struct Range {
    pub(super) addr: u64,
    pub(super) iova: u64,
    pub(super) length: u64,
}

/// What a piece of a work request that begins in the first page may reach.
const NULL_BYTES: usize = (NULL_PAGES as usize) << MIN_PAGE_SHIFT;

impl<P: DevicePtr> Pd<P> {
    /// ibv_alloc_null_mr (V-133): a region in which every address is, for local use. What is written there is lost;
    /// zeros are read. The only right is LOCAL_WRITE, for ever.
    pub fn alloc_null_mr(&self) -> Result<Mr<P>> {
        let dev = self.inner().shared.device();
        let zeros = dev.alloc_dma(NULL_BYTES)?;
        let range = Range {
            addr: 0,
            iova: zeros.iova(),
            length: NULL_BYTES as u64,
        };
        let mut cmd = reg_cmd(self.handle(), &range, &MrOptions::new(Access::LOCAL_WRITE));
        cmd.set_is_null(true);
        match self.send_reg_mr(&cmd, &range, Backing::Zeros(zeros.clone()), None) {
            Ok(mut mr) => {
                mr.length = u64::MAX;
                Ok(mr)
            }
            Err(e) => {
                dev.free_dma(zeros)?;
                Err(e)
            }
        }
    }

    /// ibv_reg_mr of a whole DMA buffer, at its address in this process.
    pub fn reg_mr(&self, buf: &DmaBuf, access: Access) -> Result<Mr<P>> {
        self.reg_mr_with(buf, &MrOptions::new(access))
    }

    /// The same with choices.
    pub fn reg_mr_with(&self, buf: &DmaBuf, options: &MrOptions) -> Result<Mr<P>> {
        let range = range_of(buf.as_ptr() as u64, buf.iova(), buf.len_bytes(), options)?;
        self.register(&range, options, Backing::Dma { _buf: buf.clone() })
    }

    /// ibv_reg_mr of memory the program has. It is mapped for the card, and unmapped when the region goes.
    pub fn reg_user_mr(&self, memory: UserMemory, options: &MrOptions) -> Result<Mr<P>> {
        let dev = self.inner().shared.device();
        let len_bytes = memory.len_bytes();
        let iova = dev.map_dma(memory)?;
        let made = range_of(memory.addr(), iova, len_bytes, options)
            .and_then(|range| self.register(&range, options, Backing::User { iova, len_bytes }));
        if made.is_err() {
            dev.unmap_dma(iova, len_bytes)?;
        }
        made
    }

    /// ibv_reg_dm_mr (V-80): a piece of device memory, by addresses from 0 on: `access` has ZERO_BASED.
    pub fn reg_dm_mr(
        &self,
        dm: &DeviceMemory<P>,
        offset: u64,
        len_bytes: usize,
        access: Access,
    ) -> Result<Mr<P>> {
        let inner = dm.inner();
        inner.check_alive()?;
        if !inner.is_of(&self.inner().shared) {
            return Err(Error::Invalid(
                "the device memory belongs to another context".into(),
            ));
        }
        if !access.contains(Access::ZERO_BASED) {
            return Err(Error::Invalid(
                "a region of device memory has addresses from 0 on: its rights have ZERO_BASED".into(),
            ));
        }
        let options = MrOptions {
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            length: Some(len_bytes),
            ..MrOptions::new(access)
        };
        let range = range_of(0, inner.iova(), inner.len_bytes(), &options)?;
        self.register(&range, &options, Backing::Device { _dm: inner.clone() })
    }

    /// Registers pages at the given bus addresses as one region that starts at `addr`: scattered memory.
    pub fn reg_pages(&self, pages: &[u64], options: &MrOptions) -> Result<Mr<P>> {
        let (Some(addr), Some(length)) = (options.addr, options.length) else {
            return Err(Error::Invalid("reg_pages needs addr and length".into()));
        };
        let range = Range {
            addr,
            iova: 0,
            length: length as u64,
        };
        self.register_pages(&range, options, pages, Backing::Caller)
    }

    fn register(&self, range: &Range, options: &MrOptions, backing: Backing<P>) -> Result<Mr<P>> {
        if options.page_size == PageSize::Direct {
            let cmd = reg_cmd(self.handle(), range, options);
            return self.send_reg_mr(&cmd, range, backing, None);
        }
        let pages = pages_of(range, options.page_size.shift())?;
        self.register_pages(range, options, &pages, backing)
    }

    fn register_pages(
        &self,
        range: &Range,
        options: &MrOptions,
        pages: &[u64],
        backing: Backing<P>,
    ) -> Result<Mr<P>> {
        check_pages(pages, options.page_size.shift())?;
        let dev = self.inner().shared.device();
        let list = dev.alloc_dma(pages.len().max(1) * 8)?;
        for (i, page) in pages.iter().enumerate() {
            list.store_u64(8 * i, *page);
        }
        let mut cmd = reg_cmd(self.handle(), range, options);
        cmd.set_page_list_addr(list.iova());
        cmd.set_num_pages(pages.len() as u32);
        let made = self.send_reg_mr(&cmd, range, backing, Some(list.clone()));
        if made.is_err() {
            dev.free_dma(list)?;
        }
        made
    }

    fn send_reg_mr(
        &self,
        cmd: &RegMrCmd,
        range: &Range,
        backing: Backing<P>,
        page_list: Option<DmaBuf>,
    ) -> Result<Mr<P>> {
        let keys = self.inner().shared.function().reg_mr(cmd)?;
        Ok(Mr {
            pd: self.inner().clone(),
            lkey: keys.lkey(),
            rkey: keys.rkey(),
            addr: range.addr,
            length: range.length,
            backing: Some(backing),
            page_list,
        })
    }
}

/// Bus addresses of the pages that a contiguous range touches.
pub(super) fn pages_of(range: &Range, shift: u8) -> Result<Vec<u64>> {
    if !(12..=30).contains(&shift) {
        return Err(Error::Invalid(format!(
            "page size 1 << {shift}: must be 1 << 12 to 1 << 30"
        )));
    }
    let mask = (1u64 << shift) - 1;
    if range.addr & mask != range.iova & mask {
        return Err(Error::Invalid(format!(
            "virtual address {:#x} and bus address {:#x} differ in their low {shift} bits: \
             choose smaller pages, or another address",
            range.addr, range.iova
        )));
    }
    let first = range.iova & !mask;
    let count = ((range.iova - first) + range.length).div_ceil(mask + 1);
    let mut pages = Vec::new();
    hca_room::reserve(&mut pages, count as usize)?;
    hca_room::require()?;
    pages.extend((0..count).map(|i| first + (i << shift)));
    Ok(pages)
}

/// All of them are at multiples of their size.
pub(super) fn check_pages(pages: &[u64], shift: u8) -> Result<()> {
    let below = (1u64 << (shift & 63)) - 1;
    match pages.iter().find(|page| **page & below != 0) {
        None => Ok(()),
        Some(page) => Err(Error::Invalid(format!(
            "page at bus address {page:#x}: must be a multiple of {:#x}",
            below + 1
        ))),
    }
}

pub(super) fn range_of(addr: u64, iova: u64, len_bytes: usize, options: &MrOptions) -> Result<Range> {
    let rest = len_bytes.checked_sub(options.offset);
    let length = options.length.or(rest);
    match (length, rest) {
        (Some(length), Some(rest)) if length <= rest => Ok(Range {
            addr: match options.addr {
                Some(first) => first,
                None if options.access.contains(Access::ZERO_BASED) => 0,
                None => addr.wrapping_add(options.offset as u64),
            },
            iova: iova + options.offset as u64,
            length: length as u64,
        }),
        _ => Err(Error::Invalid(format!(
            "{:?} bytes at offset {:#x} are not inside a buffer of {len_bytes:#x} bytes",
            options.length, options.offset
        ))),
    }
}

fn reg_cmd(pd: u32, range: &Range, options: &MrOptions) -> RegMrCmd {
    let mut cmd = RegMrCmd::new();
    cmd.set_pd(pd);
    cmd.set_access(options.access.bits());
    cmd.set_start(range.addr);
    cmd.set_length(range.length);
    cmd.set_iova(range.iova);
    cmd.set_page_shift(options.page_size.shift());
    cmd
}

impl<P: DevicePtr> Mr<P> {
    /// Is it in this domain?
    pub fn is_in(&self, pd: &Pd<P>) -> bool {
        Arc::ptr_eq(&self.pd, pd.inner())
    }

    /// Key of work requests of this process.
    pub fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Key of work requests of peers.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// First virtual address.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Of [`Pd::alloc_null_mr`].
    pub fn is_null(&self) -> bool {
        matches!(self.backing, Some(Backing::Zeros(_)))
    }

    /// Of [`Pd::reg_dm_mr`].
    pub fn is_device_memory(&self) -> bool {
        matches!(self.backing, Some(Backing::Device { .. }))
    }

    /// The context it belongs to.
    pub fn context(&self) -> Context<P> {
        Context::from_shared(self.pd.shared.clone())
    }

    /// A scatter/gather entry: `length` bytes from `offset` of the region. Not checked here: the card does.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.addr.wrapping_add(offset),
            length,
            lkey: self.lkey,
        }
    }

    /// ibv_rereg_mr of rights and protection domain: the keys stay. When it returns, the old rights no longer hold.
    /// Whatever goes wrong, the region is as it was. The domain must be of the same context.
    pub fn modify(&mut self, pd: &Pd<P>, access: Access) -> Result<()> {
        if !Arc::ptr_eq(&pd.inner().shared, &self.pd.shared) {
            return Err(Error::Invalid(
                "the protection domain belongs to another context".into(),
            ));
        }
        let mut cmd = ModifyMrCmd::new();
        cmd.set_lkey(self.lkey);
        cmd.set_pd(pd.handle());
        cmd.set_access(access.bits());
        self.pd.shared.function().modify_mr(&cmd)?;
        self.pd = pd.inner().clone();
        Ok(())
    }

    /// ibv_dereg_mr now. When it returns, the card no longer touches the memory.
    pub fn destroy(&mut self) -> Result<()> {
        let Some(backing) = self.backing.take() else {
            return Err(Error::Destroyed {
                what: "MR",
                id: self.lkey,
            });
        };
        let shared = &self.pd.shared;
        if let Err(e) = shared.function().dereg_mr(self.lkey) {
            self.backing = Some(backing);
            return Err(e.into());
        }
        if let Some(list) = self.page_list.take() {
            shared.device().free_dma(list)?;
        }
        match backing {
            Backing::User { iova, len_bytes } => shared.device().unmap_dma(iova, len_bytes)?,
            Backing::Zeros(zeros) => shared.device().free_dma(zeros)?,
            Backing::Device { .. } | Backing::Dma { .. } | Backing::Caller => {}
        }
        Ok(())
    }
}

impl<P: DevicePtr> Drop for Mr<P> {
    fn drop(&mut self) {
        // A card that does not answer keeps nothing: the memory is unmapped all the same.
        if self.backing.is_none() || self.destroy().is_ok() {
            return;
        }
        let device = self.pd.shared.device();
        if let Some(list) = self.page_list.take() {
            let _ = device.free_dma(list);
        }
        let _ = match self.backing.take() {
            Some(Backing::User { iova, len_bytes }) => device.unmap_dma(iova, len_bytes),
            Some(Backing::Zeros(zeros)) => device.free_dma(zeros),
            _ => Ok(()),
        };
    }
}
