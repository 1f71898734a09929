//! XRC domains and the QPs that receive for all of their SRQs. Initiators are a [`RawQp`](crate::RawQp) of
//! [`Service::Xrc`]; they post with [`post_send_xrc`](crate::RawQp::post_send_xrc).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_abi::{CreateQpCmd, QpState, Service};
use hca_driver::DevicePtr;

use crate::function::shared::Shared;
use crate::objects::context::Context;
use crate::values::attr::{QpAttr, QpAttrMask};
use crate::values::error::{Error, Result};

pub(crate) struct XrcdShared<P: DevicePtr> {
    pub shared: Arc<Shared<P>>,
    pub xrcd: u32,
    gone: AtomicBool,
}

impl<P: DevicePtr> XrcdShared<P> {
    fn check_alive(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) {
            return Err(Error::Destroyed {
                what: "XRC domain",
                id: self.xrcd,
            });
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        self.check_alive()?;
        self.shared.function().dealloc_xrcd(self.xrcd)?;
        self.gone.store(true, Ordering::Release);
        Ok(())
    }
}

impl<P: DevicePtr> Drop for XrcdShared<P> {
    fn drop(&mut self) {
        // Already closed, or the card is gone; the function's reset frees what is left.
        let _ = self.close();
    }
}

/// XRC domain: ibv_xrcd. What peers send to its targets reaches its SRQs, and no others. Clones are the same domain;
/// what is made in it keeps it alive.
pub struct Xrcd<P: DevicePtr> {
    inner: Arc<XrcdShared<P>>,
}

debug_as!(Xrcd, handle);

impl<P: DevicePtr> Clone for Xrcd<P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<P: DevicePtr> Context<P> {
    /// ibv_open_xrcd without a file: a domain that only this object's clones share.
    pub fn alloc_xrcd(&self) -> Result<Xrcd<P>> {
        Xrcd::new(self.shared().clone())
    }
}

impl<P: DevicePtr> Xrcd<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>) -> Result<Self> {
        let xrcd = shared.function().alloc_xrcd()?;
        Ok(Self {
            inner: Arc::new(XrcdShared {
                shared,
                xrcd,
                gone: AtomicBool::new(false),
            }),
        })
    }

    pub(crate) fn inner(&self) -> &Arc<XrcdShared<P>> {
        &self.inner
    }

    /// Its number.
    pub fn handle(&self) -> u32 {
        self.inner.xrcd
    }

    /// ibv_create_qp_ex with IBV_QPT_XRC_RECV: a target in RESET.
    pub fn create_target(&self) -> Result<XrcTarget<P>> {
        self.inner.check_alive()?;
        let shared = &self.inner.shared;
        let mut cmd = CreateQpCmd::new();
        cmd.set_service(Service::Xrc.into());
        cmd.set_is_target(true);
        cmd.set_xrcd(self.inner.xrcd);
        cmd.set_async_eqn(shared.async_eq.eqn);
        let qpn = shared.function().create_qp(&cmd)?;
        Ok(XrcTarget {
            xrcd: self.inner.clone(),
            qpn,
            gone: false,
        })
    }

    /// ibv_close_xrcd of the last reference, now: EBUSY while SRQs or targets are in it, and then nothing has changed.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

/// Target of XRC: what a peer's initiator is connected to. It has no queues: each message goes to the SRQ that it
/// names, and completes in that SRQ's CQ, with the number of this QP.
pub struct XrcTarget<P: DevicePtr> {
    xrcd: Arc<XrcdShared<P>>,
    qpn: u32,
    gone: bool,
}

debug_as!(XrcTarget, qp_num);

impl<P: DevicePtr> XrcTarget<P> {
    /// QPN.
    pub fn qp_num(&self) -> u32 {
        self.qpn
    }

    /// Number of its domain.
    pub fn xrcd(&self) -> u32 {
        self.xrcd.xrcd
    }

    /// The context it belongs to.
    pub fn context(&self) -> Context<P> {
        Context::from_shared(self.xrcd.shared.clone())
    }

    fn check_alive(&self) -> Result<()> {
        if self.gone {
            return Err(Error::Destroyed {
                what: "QP",
                id: self.qpn,
            });
        }
        Ok(())
    }

    /// ibv_modify_qp: all of it or nothing (QPS-3).
    pub fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        self.check_alive()?;
        self.xrcd.shared.modify_qp(self.qpn, attr, mask)
    }

    /// Moves to RESET or ERR, which is legal in any state.
    pub fn modify_state(&mut self, qp_state: QpState) -> Result<()> {
        let attr = QpAttr {
            qp_state,
            ..QpAttr::default()
        };
        self.modify(&attr, QpAttrMask::STATE)
    }

    /// ibv_query_qp: every attribute as the card has it.
    pub fn query(&self) -> Result<QpAttr> {
        self.check_alive()?;
        let result = self.xrcd.shared.function().query_qp(self.qpn)?;
        Ok(QpAttr::from_abi(&hca_abi::QpAttr(result.attr())))
    }

    /// ibv_destroy_qp of the last reference, now, in any state. What it has received stays received; a message under
    /// way gives its receive back, flushed.
    pub fn destroy(&mut self) -> Result<()> {
        self.check_alive()?;
        self.xrcd.shared.function().destroy_qp(self.qpn)?;
        self.gone = true;
        Ok(())
    }
}

impl<P: DevicePtr> Drop for XrcTarget<P> {
    fn drop(&mut self) {
        if !self.gone {
            // The card may be gone.
            let _ = self.destroy();
        }
    }
}
