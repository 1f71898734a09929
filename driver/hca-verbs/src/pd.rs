//! Protection domains.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hca_driver::DevicePtr;

use crate::address::AhAttr;
use crate::ah::Ah;
use crate::context::{Context, Shared};
use crate::cq::Cq;
use crate::error::{Error, Result};
use crate::raw_qp::{QpOptions, RawQp};
use crate::srq::Srq;
use crate::typed_qp::{Qp, Reset};
use crate::xrc::Xrcd;

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

    /// ibv_create_qp: a QP in RESET.
    pub fn create_qp(&self, options: &QpOptions<'_, P>) -> Result<Qp<Reset, P>> {
        Ok(Qp::new(self.create_raw_qp(options)?))
    }

    /// The same, with states checked at run time.
    pub fn create_raw_qp(&self, options: &QpOptions<'_, P>) -> Result<RawQp<P>> {
        RawQp::new(self.inner.clone(), options)
    }

    /// ibv_create_srq: of at least this size. Its receives serve every QP that is made with it.
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<Srq<P>> {
        Srq::new(self.inner.clone(), max_wr, max_sge, None)
    }

    /// ibv_create_srq_ex of type XRC: peers name it in what they send to the targets of its XRC domain. Its receives
    /// complete in `cq`; its memory keys, and those that peers name beside it, are of this PD.
    pub fn create_xrc_srq(&self, xrcd: &Xrcd<P>, cq: &Cq<P>, max_wr: u32, max_sge: u32) -> Result<Srq<P>> {
        let xrc = (xrcd.inner().clone(), cq.inner().clone());
        Srq::new(self.inner.clone(), max_wr, max_sge, Some(xrc))
    }

    /// ibv_create_ah: the way to a port elsewhere, for datagrams of QPs of this domain and of the port that it leads
    /// through. On Ethernet the MAC address behind the GID is found now, unless `attr` has one.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah<P>> {
        Ah::new(self.inner.clone(), attr)
    }

    /// ibv_dealloc_pd now: EBUSY while anything is left in it, and then nothing has changed.
    pub fn destroy(&self) -> Result<()> {
        self.inner.destroy()
    }
}
