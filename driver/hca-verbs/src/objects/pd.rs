//! Protection domains.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hca_driver::DevicePtr;

use crate::function::shared::Shared;
use crate::objects::context::Context;
use crate::values::error::{Error, Result};

pub(crate) struct PdShared<P: DevicePtr> {
    pub shared: Arc<Shared<P>>,
    pub pd: u32,
    /// The card does not know them.
    pub address_handles: AtomicUsize,
    gone: AtomicBool,
}

impl<P: DevicePtr> PdShared<P> {
    pub fn check_alive(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::Destroyed {
                what: "PD",
                id: self.pd,
            });
        }
        Ok(())
    }

    fn destroy(&self) -> Result<()> {
        self.check_alive()?;
        let address_handles = self.address_handles.load(Ordering::Acquire);
        if address_handles != 0 {
            return Err(Error::PdInUse {
                pd: self.pd,
                address_handles,
            });
        }
        self.shared.function().dealloc_pd(self.pd)?;
        self.gone.store(true, Ordering::Release);
        Ok(())
    }
}

impl<P: DevicePtr> Drop for PdShared<P> {
    fn drop(&mut self) {
        // Already destroyed, or the card is gone; the function's reset frees what is left.
        let _ = self.destroy();
    }
}

/// Protection domain: ibv_pd. Clones are the same domain; what is made in it keeps it alive.
pub struct Pd<P: DevicePtr> {
    inner: Arc<PdShared<P>>,
}

debug_as!(Pd, handle);

impl<P: DevicePtr> Clone for Pd<P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<P: DevicePtr> Context<P> {
    /// ibv_alloc_pd.
    pub fn alloc_pd(&self) -> Result<Pd<P>> {
        Pd::new(self.shared().clone())
    }
}

impl<P: DevicePtr> Pd<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>) -> Result<Self> {
        let pd = shared.function().alloc_pd()?;
        Ok(Self {
            inner: Arc::new(PdShared {
                shared,
                pd,
                address_handles: AtomicUsize::new(0),
                gone: AtomicBool::new(false),
            }),
        })
    }

    pub(crate) fn inner(&self) -> &Arc<PdShared<P>> {
        &self.inner
    }

    /// Its number.
    pub fn handle(&self) -> u32 {
        self.inner.pd
    }

    /// The context it belongs to.
    pub fn context(&self) -> Context<P> {
        Context::from_shared(self.inner.shared.clone())
    }

    /// Was it made in this context, by whatever clone of it?
    pub fn is_of(&self, context: &Context<P>) -> bool {
        Arc::ptr_eq(&self.inner.shared, context.shared())
    }

    /// ibv_dealloc_pd now: EBUSY while anything is left in it, and then nothing has changed.
    pub fn destroy(&self) -> Result<()> {
        self.inner.destroy()
    }
}
