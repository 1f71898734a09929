//! Receive work queues: what receive side scaling spreads frames over.

use hca_abi::{QpState, Service};
use hca_driver::{BadWr, DevicePtr, RecvWr};

use crate::objects::cq::Cq;
use crate::objects::pd::Pd;
use crate::objects::raw_qp::{QpOptions, RawQp};
use crate::values::attr::{QpAttr, QpAttrMask, QpCap};
use crate::values::error::{Error, Result};

/// State of a receive work queue: ibv_wq_state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WqState {
    /// Empty; what is spread to it is lost.
    Reset,
    /// Receives.
    Rdy,
    /// Its receives end with WR_FLUSH_ERR.
    Err,
}

/// A receive work queue: ibv_wq of type RQ. To the card it is a raw QP that is never asked to send: it has one of the
/// QPs of the function, and a send queue of the smallest size. Frames of any port come to it; none longer than the MTU
/// of port 1 allows.
pub struct Wq<P: DevicePtr> {
    qp: RawQp<P>,
    state: WqState,
}

debug_as!(Wq, wq_num, state);

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_wq: in RESET, for so many receives of so many entries.
    pub fn create_wq(&self, cq: &Cq<P>, max_wr: u32, max_sge: u32) -> Result<Wq<P>> {
        let options = QpOptions {
            cap: QpCap {
                max_send_wr: 1,
                max_send_sge: 1,
                max_recv_wr: max_wr,
                max_recv_sge: max_sge,
                max_inline_data: 0,
            },
            service: Service::Raw,
            ..QpOptions::new(cq, cq)
        };
        Ok(Wq {
            qp: self.create_raw_qp(&options)?,
            state: WqState::Reset,
        })
    }
}

impl<P: DevicePtr> Wq<P> {
    /// Its number: in completions the number of the QP.
    pub fn wq_num(&self) -> u32 {
        self.qp.qp_num()
    }

    /// What it really holds.
    pub fn cap(&self) -> QpCap {
        self.qp.cap()
    }

    /// The last state that software chose.
    pub fn state(&self) -> WqState {
        self.state
    }

    /// ibv_modify_wq. RDY is reached from RESET; RESET and ERR from anywhere, but ERR not from RESET.
    pub fn modify(&mut self, state: WqState) -> Result<()> {
        match (self.state, state) {
            (WqState::Rdy, WqState::Rdy) => {}
            (WqState::Reset, WqState::Rdy) => self.start()?,
            (_, WqState::Reset) => self.qp.modify_state(QpState::Reset)?,
            (WqState::Rdy | WqState::Err, WqState::Err) => self.qp.modify_state(QpState::Err)?,
            (from, to) => {
                return Err(Error::Invalid(format!(
                    "WQ {:#x}: from {from:?} to {to:?} there is no way, but by RESET",
                    self.wq_num()
                )));
            }
        }
        self.state = state;
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        let to_init = QpAttr {
            qp_state: QpState::Init,
            port_num: 1,
            ..QpAttr::default()
        };
        self.qp.modify(&to_init, QpAttrMask::STATE | QpAttrMask::PORT)?;
        let started = self.qp.modify_state(QpState::Rtr);
        if started.is_err() {
            self.qp.modify_state(QpState::Reset)?;
        }
        started
    }

    /// ibv_post_wq_recv: one doorbell for the whole list. On error the work requests before the bad one are posted.
    pub fn post_recv_iter<'a>(
        &mut self,
        list: impl IntoIterator<Item = RecvWr<'a>>,
    ) -> std::result::Result<(), BadWr> {
        self.qp.post_recv_iter(list)
    }

    /// ibv_destroy_wq now. What is still spread to it is lost.
    pub fn destroy(&mut self) -> Result<()> {
        self.qp.destroy()
    }
}
