//! Shared receive queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_abi::CreateSrqCmd;
use hca_dev::{Device, DmaBuf};
use hca_driver::{BadWr, DevicePtr, DriverError, PostError, RecvWr, SrqRing, WqSize};

use crate::objects::cq::{Cq, CqShared};
use crate::objects::pd::{Pd, PdShared};
use crate::objects::xrc::{Xrcd, XrcdShared};
use crate::values::error::{Error, Result};

/// Size and limit of an SRQ: ibv_srq_attr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqAttr {
    /// Work requests that it holds.
    pub max_wr: u32,
    /// Scatter/gather entries of each.
    pub max_sge: u32,
    /// Fewer posted work requests raise SRQ_LIMIT_REACHED, once; 0: not armed.
    pub srq_limit: u32,
}

pub(crate) struct SrqShared<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    pub srqn: u32,
    pub ring: Arc<SrqRing>,
    max_sge: u32,
    /// Of one of XRC.
    xrc: Option<XrcPart<P>>,
    gone: AtomicBool,
}

/// Domain and CQ of an SRQ of XRC.
type XrcPlace<P> = (Arc<XrcdShared<P>>, Arc<CqShared<P>>);

/// What an SRQ of XRC has beside.
pub(crate) struct XrcPart<P: DevicePtr> {
    /// What peers name it.
    pub number: u32,
    /// Where its receives complete.
    pub cq: Arc<CqShared<P>>,
    /// Keeps it open.
    pub _xrcd: Arc<XrcdShared<P>>,
}

impl<P: DevicePtr> SrqShared<P> {
    fn check_alive(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::Destroyed {
                what: "SRQ",
                id: self.srqn,
            });
        }
        Ok(())
    }

    fn destroy(&self) -> Result<()> {
        self.check_alive()?;
        self.pd.shared.function().destroy_srq(self.srqn)?;
        self.release()
    }

    fn release(&self) -> Result<()> {
        self.gone.store(true, Ordering::Release);
        if let Some(xrc) = &self.xrc {
            xrc.cq.detach_srq(xrc.number);
        }
        for memory in self.ring.memory() {
            self.pd.shared.device().free_dma(memory.clone())?;
        }
        Ok(())
    }
}

impl<P: DevicePtr> Drop for SrqShared<P> {
    fn drop(&mut self) {
        if !self.gone.load(Ordering::Acquire) {
            // The card may be gone: its memory is released all the same.
            let _ = self.pd.shared.function().destroy_srq(self.srqn);
            let _ = self.release();
        }
    }
}

/// Shared receive queue: ibv_srq. Clones are the same queue; QPs keep theirs alive.
pub struct Srq<P: DevicePtr> {
    inner: Arc<SrqShared<P>>,
}

debug_as!(Srq, srqn);

impl<P: DevicePtr> Clone for Srq<P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_srq: of at least this size. Its receives serve every QP that is made with it.
    pub fn create_srq(&self, max_wr: u32, max_sge: u32) -> Result<Srq<P>> {
        Srq::new(self.inner().clone(), max_wr, max_sge, None)
    }

    /// ibv_create_srq_ex of type XRC: peers name it in what they send to the targets of its XRC domain. Its receives
    /// complete in `cq`; its memory keys, and those that peers name beside it, are of this PD.
    pub fn create_xrc_srq(&self, xrcd: &Xrcd<P>, cq: &Cq<P>, max_wr: u32, max_sge: u32) -> Result<Srq<P>> {
        let xrc = (xrcd.inner().clone(), cq.inner().clone());
        Srq::new(self.inner().clone(), max_wr, max_sge, Some(xrc))
    }
}

impl<P: DevicePtr> Srq<P> {
    pub(crate) fn new(
        pd: Arc<PdShared<P>>,
        max_wr: u32,
        max_sge: u32,
        xrc: Option<XrcPlace<P>>,
    ) -> Result<Self> {
        pd.check_alive()?;
        if max_wr == 0 || max_sge == 0 {
            return Err(Error::Invalid(format!(
                "an SRQ of {max_wr} work requests with {max_sge} scatter/gather entries: it holds at least one"
            )));
        }
        let size = WqSize::for_recv(max_wr, max_sge)?;
        let shared = pd.shared.clone();
        let list = shared.device().alloc_dma(SrqRing::list_bytes(&size))?;
        let mut cmd = CreateSrqCmd::new();
        cmd.set_pd(pd.pd);
        cmd.set_log_size(size.log_size);
        cmd.set_log_stride(size.log_stride);
        cmd.set_async_eqn(shared.async_eq.eqn);
        cmd.set_list_base(list.iova());
        if let Some((xrcd, cq)) = &xrc {
            cmd.set_is_xrc(true);
            cmd.set_xrcd(xrcd.xrcd);
            cmd.set_cqn(cq.cqn);
        }
        let made = shared.with_ring(size.ring_bytes(), |slots| {
            cmd.set_base(slots.iova());
            let ring = Arc::new(SrqRing::new(slots.clone(), list.clone(), size)?);
            let made = shared.function().create_srq(&cmd)?;
            Ok((made, ring))
        });
        match made {
            Ok((((srqn, number), ring), _)) => {
                let xrc = xrc.map(|(xrcd, cq)| {
                    cq.attach_srq(number, ring.clone());
                    XrcPart {
                        number,
                        cq,
                        _xrcd: xrcd,
                    }
                });
                Ok(Self {
                    inner: Arc::new(SrqShared {
                        pd,
                        srqn,
                        ring,
                        max_sge: size.recv_sges() as u32,
                        xrc,
                        gone: AtomicBool::new(false),
                    }),
                })
            }
            Err(e) => {
                shared.device().free_dma(list)?;
                Err(e)
            }
        }
    }

    pub(crate) fn inner(&self) -> &Arc<SrqShared<P>> {
        &self.inner
    }

    /// Its number, as asynchronous events give it.
    pub fn srqn(&self) -> u32 {
        self.inner.srqn
    }

    /// ibv_get_srq_num: what peers name an SRQ of XRC; no other has such a number.
    pub fn number(&self) -> Option<u32> {
        self.inner.xrc.as_ref().map(|xrc| xrc.number)
    }

    /// Work requests that it holds.
    pub fn max_wr(&self) -> u32 {
        self.inner.ring.entries()
    }

    /// Scatter/gather entries of a work request.
    pub fn max_sge(&self) -> u32 {
        self.inner.max_sge
    }

    /// Work requests that could be posted now: all but those that are posted, in use, or not polled yet.
    pub fn free_slots(&self) -> u32 {
        self.inner.ring.free_slots()
    }

    /// Its memory: slots and list. What a process writes there is its own affair; tests do.
    pub fn memory(&self) -> [&DmaBuf; 2] {
        self.inner.ring.memory()
    }

    /// ibv_post_srq_recv: one doorbell for the whole list. On error the work requests before the bad one are posted.
    /// Any thread may, at any time.
    pub fn post_recv(&self, list: &[RecvWr<'_>]) -> std::result::Result<(), BadWr> {
        self.post_recv_iter(list.iter().copied())
    }

    /// The same of an iterator.
    pub fn post_recv_iter<'a>(
        &self,
        list: impl IntoIterator<Item = RecvWr<'a>>,
    ) -> std::result::Result<(), BadWr> {
        let srq = &*self.inner;
        if srq.gone.load(Ordering::Acquire) {
            let error = PostError::BadState;
            return Err(BadWr { index: 0, error });
        }
        let (index, result) = srq.ring.post(&srq.pd.shared.doorbells, srq.srqn, list);
        result.map_err(|error| BadWr { index, error })
    }

    /// ibv_modify_srq with IBV_SRQ_LIMIT: arms a limit (SPEC-6), or none with 0. It is raised at once if fewer are
    /// posted now.
    pub fn arm_limit(&self, srq_limit: u32) -> Result<()> {
        self.inner.check_alive()?;
        if srq_limit > self.max_wr() {
            return Err(DriverError::TooLarge {
                what: "srq_limit",
                value: srq_limit.into(),
                max: self.max_wr().into(),
            }
            .into());
        }
        let mut function = self.inner.pd.shared.function();
        Ok(function.modify_srq(self.inner.srqn, srq_limit)?)
    }

    /// ibv_query_srq.
    pub fn query(&self) -> Result<SrqAttr> {
        self.inner.check_alive()?;
        let result = self.inner.pd.shared.function().query_srq(self.inner.srqn)?;
        Ok(SrqAttr {
            max_wr: result.max_wr(),
            max_sge: result.max_sge(),
            srq_limit: result.limit(),
        })
    }

    /// ibv_destroy_srq now: EBUSY while a QP uses it, and then nothing has changed. What is posted is gone.
    pub fn destroy(&self) -> Result<()> {
        self.inner.destroy()
    }
}
