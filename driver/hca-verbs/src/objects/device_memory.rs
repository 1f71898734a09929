//! Device memory: RAM of the card (MEM-19).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_driver::DevicePtr;

use crate::function::shared::Shared;
use crate::objects::context::Context;
use crate::values::error::{Error, Result};

pub(crate) struct DmShared<P: DevicePtr> {
    shared: Arc<Shared<P>>,
    handle: u32,
    len_bytes: usize,
    gone: AtomicBool,
}

impl<P: DevicePtr> DmShared<P> {
    pub fn is_of(&self, shared: &Arc<Shared<P>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    pub fn iova(&self) -> u64 {
        hca_driver::dm_iova(self.handle)
    }

    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub fn check_alive(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::Destroyed {
                what: "device memory",
                id: self.handle,
            });
        }
        Ok(())
    }

    fn destroy(&self) -> Result<()> {
        self.check_alive()?;
        self.shared.function().free_dm(self.handle)?;
        self.gone.store(true, Ordering::Release);
        Ok(())
    }

    /// The place of so many bytes, as the card counts.
    fn place(&self, offset: u64, len_bytes: usize) -> Result<u32> {
        self.check_alive()?;
        let end = offset.checked_add(len_bytes as u64);
        match (u32::try_from(offset), end) {
            (Ok(place), Some(end)) if end <= self.len_bytes as u64 => Ok(place),
            _ => Err(Error::Invalid(format!(
                "{len_bytes} bytes at offset {offset:#x} are not inside device memory of {:#x} bytes",
                self.len_bytes
            ))),
        }
    }
}

impl<P: DevicePtr> Drop for DmShared<P> {
    fn drop(&mut self) {
        // Freed already, or the card is gone; the function's reset frees what is left.
        let _ = self.destroy();
    }
}

/// Device memory: ibv_dm. Regions of it ([`crate::Pd::reg_dm_mr`]) keep it alive.
pub struct DeviceMemory<P: DevicePtr> {
    inner: Arc<DmShared<P>>,
}

debug_as!(DeviceMemory, handle, len_bytes);

impl<P: DevicePtr> Context<P> {
    /// ibv_alloc_dm (V-77): so many bytes, all zeros. ENOMEM: the function has no more in one piece, of `max_dm_size`.
    /// EOPNOTSUPP: the card is built without. It begins at a multiple of 4096 for whoever needs an alignment.
    pub fn alloc_dm(&self, len_bytes: usize) -> Result<DeviceMemory<P>> {
        let most = self.query_device()?.max_dm_size();
        if most == 0 {
            return Err(Error::Unsupported("this card has no device memory".into()));
        }
        let length = u32::try_from(len_bytes)
            .ok()
            .filter(|n| *n > 0 && u64::from(*n) <= most);
        let length = length.ok_or_else(|| {
            Error::Invalid(format!(
                "{len_bytes} bytes of device memory: a function can have 1 to {most}"
            ))
        })?;
        let shared = self.shared().clone();
        let handle = shared.function().alloc_dm(length)?;
        Ok(DeviceMemory {
            inner: Arc::new(DmShared {
                shared,
                handle,
                len_bytes,
                gone: AtomicBool::new(false),
            }),
        })
    }
}

impl<P: DevicePtr> DeviceMemory<P> {
    pub(crate) fn inner(&self) -> &Arc<DmShared<P>> {
        &self.inner
    }

    /// Its number.
    pub fn handle(&self) -> u32 {
        self.inner.handle
    }

    /// Was it made in this context, by whatever clone of it?
    pub fn is_of(&self, context: &Context<P>) -> bool {
        self.inner.is_of(context.shared())
    }

    /// Its length.
    pub fn len_bytes(&self) -> usize {
        self.inner.len_bytes
    }

    /// ibv_memcpy_to_dm (V-79): any bytes, any place; nothing beside them is written.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let place = self.inner.place(offset, bytes.len())?;
        Ok(self
            .inner
            .shared
            .function()
            .write_dm(self.inner.handle, place, bytes)?)
    }

    /// ibv_memcpy_from_dm (V-79).
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let place = self.inner.place(offset, out.len())?;
        Ok(self
            .inner
            .shared
            .function()
            .read_dm(self.inner.handle, place, out)?)
    }

    /// ibv_free_dm now (V-78): EBUSY while there are regions of it, and then nothing has changed.
    pub fn destroy(&self) -> Result<()> {
        self.inner.check_alive()?;
        if Arc::strong_count(&self.inner) > 1 {
            return Err(Error::DmInUse {
                handle: self.inner.handle,
            });
        }
        self.inner.destroy()
    }
}
