//! Queue pairs with their state in their type: what a state forbids does not compile.
// A failed transition gives the QP back by value, as a successful one does.
#![allow(clippy::result_large_err)]

use std::fmt;
use std::marker::PhantomData;

use hca_abi::QpState;
use hca_driver::{BadWr, DevicePtr, RecvWr, SendWr};

use crate::objects::context::Context;
use crate::objects::pd::Pd;
use crate::objects::raw_qp::{QpOptions, RawQp};
use crate::values::attr::{Access, QpAttr, QpAttrMask, QpCap, RTR_MASK, RTS_MASK};
use crate::values::error::{Error, Result};

/// RESET: nothing may be posted.
#[derive(Debug)]
pub struct Reset;
/// INIT: receives may be posted.
#[derive(Debug)]
pub struct Init;
/// Ready to receive.
#[derive(Debug)]
pub struct Rtr;
/// Ready to send.
#[derive(Debug)]
pub struct Rts;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Reset {}
    impl Sealed for super::Init {}
    impl Sealed for super::Rtr {}
    impl Sealed for super::Rts {}
}

/// A state of a [`Qp`].
pub trait State: sealed::Sealed {}
impl State for Reset {}
impl State for Init {}
impl State for Rtr {}
impl State for Rts {}

/// States in which receives may be posted.
pub trait TakesReceives: State {}
impl TakesReceives for Init {}
impl TakesReceives for Rtr {}
impl TakesReceives for Rts {}

/// Queue pair in state `S`, the last state software chose. The card may move it to ERR at any time; work
/// requests then complete with WR_FLUSH_ERR.
pub struct Qp<S: State, P: DevicePtr> {
    raw: RawQp<P>,
    state: PhantomData<S>,
}

impl<S: State, P: DevicePtr> fmt::Debug for Qp<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// A transition failed; the QP is as it was.
pub struct TransitionError<S: State, P: DevicePtr> {
    /// The QP.
    pub qp: Qp<S, P>,
    /// Why.
    pub error: Error,
}

impl<S: State, P: DevicePtr> fmt::Debug for TransitionError<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QP {:#x}: {:?}", self.qp.qp_num(), self.error)
    }
}

impl<S: State, P: DevicePtr> fmt::Display for TransitionError<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QP {:#x}: {}", self.qp.qp_num(), self.error)
    }
}

impl<S: State, P: DevicePtr> std::error::Error for TransitionError<S, P> {}

impl<S: State, P: DevicePtr> From<TransitionError<S, P>> for Error {
    fn from(failed: TransitionError<S, P>) -> Self {
        failed.error
    }
}

/// Result of a transition.
pub type Transition<From, To, P> = std::result::Result<Qp<To, P>, TransitionError<From, P>>;

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_qp: a QP in RESET.
    pub fn create_qp(&self, options: &QpOptions<'_, P>) -> Result<Qp<Reset, P>> {
        Ok(Qp::new(self.create_raw_qp(options)?))
    }
}

impl<S: State, P: DevicePtr> Qp<S, P> {
    pub(crate) fn new(raw: RawQp<P>) -> Self {
        Self {
            raw,
            state: PhantomData,
        }
    }

    /// QPN.
    pub fn qp_num(&self) -> u32 {
        self.raw.qp_num()
    }

    /// What the QP really has.
    pub fn cap(&self) -> QpCap {
        self.raw.cap()
    }

    /// The context it belongs to.
    pub fn context(&self) -> Context<P> {
        self.raw.context()
    }

    /// ibv_query_qp.
    pub fn query(&self) -> Result<QpAttr> {
        self.raw.query()
    }

    /// The same QP with states checked at run time.
    pub fn into_raw(self) -> RawQp<P> {
        self.raw
    }

    pub(crate) fn raw(&self) -> &RawQp<P> {
        &self.raw
    }

    /// ibv_destroy_qp.
    pub fn destroy(mut self) -> Result<()> {
        self.raw.destroy()
    }

    /// Empties both queues and starts anew (QPS-6).
    pub fn to_reset(self) -> Transition<S, Reset, P> {
        let attr = QpAttr {
            qp_state: QpState::Reset,
            ..QpAttr::default()
        };
        self.transition(&attr, QpAttrMask::STATE)
    }

    fn transition<To: State>(mut self, attr: &QpAttr, mask: QpAttrMask) -> Transition<S, To, P> {
        match self.raw.modify(attr, mask) {
            Ok(()) => Ok(Qp::new(self.raw)),
            Err(error) => Err(TransitionError { qp: self, error }),
        }
    }
}

impl<S: TakesReceives, P: DevicePtr> Qp<S, P> {
    /// ibv_post_recv: one doorbell for the whole list.
    #[inline]
    pub fn post_recv(&mut self, list: &[RecvWr<'_>]) -> std::result::Result<(), BadWr> {
        self.raw.post_recv(list)
    }
}

impl<P: DevicePtr> Qp<Reset, P> {
    /// To INIT. Of `attr` count pkey_index, port_num, qp_access_flags.
    pub fn to_init(self, attr: &QpAttr) -> Transition<Reset, Init, P> {
        let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
        self.transition(
            &QpAttr {
                qp_state: QpState::Init,
                ..*attr
            },
            mask,
        )
    }
}

impl<P: DevicePtr> Qp<Init, P> {
    /// To RTR. Of `attr` count ah_attr, path_mtu, dest_qp_num, rq_psn, max_dest_rd_atomic, min_rnr_timer.
    pub fn to_rtr(self, attr: &QpAttr) -> Transition<Init, Rtr, P> {
        self.transition(
            &QpAttr {
                qp_state: QpState::Rtr,
                ..*attr
            },
            RTR_MASK,
        )
    }
}

impl<P: DevicePtr> Qp<Rtr, P> {
    /// To RTS. Of `attr` count sq_psn, timeout, retry_cnt, rnr_retry, max_rd_atomic.
    pub fn to_rts(self, attr: &QpAttr) -> Transition<Rtr, Rts, P> {
        self.transition(
            &QpAttr {
                qp_state: QpState::Rts,
                ..*attr
            },
            RTS_MASK,
        )
    }
}

impl<P: DevicePtr> Qp<Rts, P> {
    /// ibv_post_send: one doorbell for the whole list.
    #[inline]
    pub fn post_send(&mut self, list: &[SendWr<'_>]) -> std::result::Result<(), BadWr> {
        self.raw.post_send(list)
    }

    /// Changes what the peer may do, while in use.
    pub fn set_access(&mut self, qp_access_flags: Access) -> Result<()> {
        self.raw.modify(
            &QpAttr {
                qp_access_flags,
                ..QpAttr::default()
            },
            QpAttrMask::ACCESS_FLAGS,
        )
    }

    /// Fails the QP: everything outstanding completes with WR_FLUSH_ERR.
    pub fn fail(&mut self) -> Result<()> {
        self.raw.modify_state(QpState::Err)
    }
}
