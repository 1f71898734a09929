//! Queue pairs with states checked at run time.

use std::sync::Arc;

use hca_abi::{AdminCmd, CreateQpCmd, Mtu, QpState, Service};
use hca_dev::{Device, DmaBuf, PAGE_BYTES};
use hca_driver::{
    BadWr, Datagram, DatagramRules, DevicePtr, Opcodes, PlainWr, PostError, QpShadow, RecvRing, RecvShadow,
    RecvWr, SendRing, SendWr, WqSize,
};
use hca_room::NoRoom;

use crate::objects::context::Context;
use crate::objects::cq::{Cq, CqShared};
use crate::objects::flow::{Flow, FlowTarget};
use crate::objects::pd::{Pd, PdShared};
use crate::objects::srq::Srq;
use crate::values::attr::{QpAttr, QpAttrMask, QpCap};
use crate::values::error::{Error, Result};
use crate::values::flow::FlowAttr;

/// What a QP is made with: ibv_qp_init_attr.
pub struct QpOptions<'a, P: DevicePtr> {
    /// CQ of the send queue.
    pub send_cq: &'a Cq<P>,
    /// CQ of the receive queue; may be the same.
    pub recv_cq: &'a Cq<P>,
    /// Where it receives, if not into a queue of its own; of its PD.
    pub srq: Option<&'a Srq<P>>,
    /// Sizes. With an SRQ those of the receive queue do not count (SPEC-9).
    pub cap: QpCap,
    /// Transport service.
    pub service: Service,
    /// QP1 of its port, a QP of datagrams: of this function, beside those of the others (MGMT-4).
    pub is_gsi: bool,
    /// QP0 of its port, a QP of datagrams of the first function: subnet management (MGMT-2).
    pub is_smi: bool,
    /// Every send makes a completion, flagged or not.
    pub sq_sig_all: bool,
}

impl<'a, P: DevicePtr> QpOptions<'a, P> {
    /// A reliable connection of the default size, with selective signalling.
    pub fn new(send_cq: &'a Cq<P>, recv_cq: &'a Cq<P>) -> Self {
        Self {
            send_cq,
            recv_cq,
            srq: None,
            cap: QpCap::default(),
            service: Service::Rc,
            is_gsi: false,
            is_smi: false,
            sq_sig_all: false,
        }
    }
}

/// Queue pair whose state is checked at run time: ibv_qp.
pub struct RawQp<P: DevicePtr> {
    pd: Arc<PdShared<P>>,
    send_cq: Arc<CqShared<P>>,
    recv_cq: Arc<CqShared<P>>,
    qpn: u32,
    cap: QpCap,
    service: Service,
    send: SendRing,
    recv: RecvQueue<P>,
    /// Of its rings, and of its alternate path.
    memory: DmaBuf,
    /// The last state software chose. The card may have moved the QP to ERR or SQE since; posting is legal there
    /// too.
    state: QpState,
    /// Whose alternate path has been loaded.
    alternate: QpAttr,
    gone: bool,
}

debug_as!(RawQp, qp_num, state);

/// Where a QP receives.
enum RecvQueue<P: DevicePtr> {
    /// Nowhere: an initiator of XRC.
    Absent,
    Own(RecvRing),
    Shared(Srq<P>),
}

impl<P: DevicePtr> RecvQueue<P> {
    fn shadow(&self) -> RecvShadow {
        match self {
            Self::Absent => RecvShadow::Absent,
            Self::Own(ring) => RecvShadow::Own(ring.shadow().clone()),
            Self::Shared(srq) => RecvShadow::Shared {
                srqn: srq.srqn(),
                ring: srq.inner().ring.clone(),
            },
        }
    }
}

/// What queues of these sizes hold.
fn real_cap(send: &WqSize, recv: Option<&WqSize>, is_ud: bool) -> QpCap {
    let (sges, inline_bytes) = if is_ud {
        (send.datagram_sges(), send.datagram_inline_bytes())
    } else {
        (send.send_sges(), send.inline_bytes())
    };
    QpCap {
        max_send_wr: 1 << send.log_size,
        max_recv_wr: recv.map_or(0, |recv| 1 << recv.log_size),
        max_send_sge: sges as u32,
        max_recv_sge: recv.map_or(0, |recv| recv.recv_sges() as u32),
        max_inline_data: inline_bytes as u32,
    }
}

/// APM-4: behind the send queue of a connection the card keeps its alternate path, as the command that has loaded it.
fn alternate_bytes(service: Service) -> usize {
    match service {
        Service::Rc | Service::Uc => AdminCmd::BYTES,
        _ => 0,
    }
}

fn mtu_bytes(mtu: Mtu) -> u32 {
    128 << u8::from(mtu)
}

/// The ring of a service.
fn send_ring(
    service: Service,
    memory: DmaBuf,
    size: WqSize,
    pd: u32,
) -> std::result::Result<SendRing, NoRoom> {
    match service {
        Service::Ud => {
            let rules = DatagramRules {
                pd,
                port_num: 0,
                mtu_bytes: 0,
            };
            SendRing::for_datagrams(memory, size, rules)
        }
        Service::Uc => SendRing::for_unreliable(memory, size),
        Service::Raw => SendRing::for_frames(memory, size),
        Service::Xrc => SendRing::for_xrc(memory, size),
        _ => SendRing::new(memory, size),
    }
}

/// Where a QP receives: a ring of this size, or the SRQ.
fn recv_queue<P: DevicePtr>(
    cmd: &mut CreateQpCmd,
    memory: DmaBuf,
    size: Option<WqSize>,
    srq: Option<&Srq<P>>,
) -> std::result::Result<RecvQueue<P>, NoRoom> {
    if let Some(size) = size {
        cmd.set_rq_log_size(size.log_size);
        cmd.set_rq_log_stride(size.log_stride);
        cmd.set_rq_base(memory.iova());
        return Ok(RecvQueue::Own(RecvRing::new(memory, size)?));
    }
    let Some(srq) = srq else {
        return Ok(RecvQueue::Absent);
    };
    cmd.set_has_srq(true);
    cmd.set_srqn(srq.srqn());
    Ok(RecvQueue::Shared(srq.clone()))
}

impl<P: DevicePtr> Pd<P> {
    /// ibv_create_qp: a QP in RESET, with states checked at run time.
    pub fn create_raw_qp(&self, options: &QpOptions<'_, P>) -> Result<RawQp<P>> {
        RawQp::new(self.inner().clone(), options)
    }
}

impl<P: DevicePtr> RawQp<P> {
    pub(crate) fn new(pd: Arc<PdShared<P>>, options: &QpOptions<'_, P>) -> Result<Self> {
        let cap = options.cap;
        let is_ud = options.service == Service::Ud;
        let size = if is_ud {
            WqSize::for_datagrams
        } else {
            WqSize::for_send
        };
        let send_size = size(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data)?;
        let shared = pd.shared.clone();
        let push_slot = shared.push_slot()?;
        let mut cmd = CreateQpCmd::new();
        cmd.set_service(options.service.into());
        cmd.set_is_gsi(options.is_gsi);
        cmd.set_is_smi(options.is_smi);
        cmd.set_sq_sig_all(options.sq_sig_all);
        cmd.set_sq_log_size(send_size.log_size);
        cmd.set_sq_log_stride(send_size.log_stride);
        cmd.set_pd(pd.pd);
        cmd.set_send_cqn(options.send_cq.cqn());
        cmd.set_recv_cqn(options.recv_cq.cqn());
        cmd.set_async_eqn(shared.async_eq.eqn);
        let srq = options.srq.filter(|_| options.service != Service::Xrc);
        let has_ring = srq.is_none() && options.service != Service::Xrc;
        let recv_size = has_ring.then(|| WqSize::for_recv(cap.max_recv_wr, cap.max_recv_sge));
        let recv_size = recv_size.transpose()?;
        // One piece of memory for both rings: to have one mapped takes a conversation, and time.
        let recv_bytes = recv_size.map_or(0, |size| size.ring_bytes().next_multiple_of(PAGE_BYTES));
        let ring_bytes = recv_bytes + send_size.ring_bytes();
        let all_bytes = ring_bytes + alternate_bytes(options.service);
        let ((qpn, mut send, recv), memory) = shared.with_ring(all_bytes, |memory| {
            let [rings, _] = memory.split(ring_bytes);
            let [recv_memory, send_memory] = rings.split(recv_bytes);
            let recv = recv_queue(&mut cmd, recv_memory, recv_size, srq)?;
            cmd.set_sq_base(send_memory.iova());
            let send = send_ring(options.service, send_memory, send_size, pd.pd)?;
            Ok((shared.function().create_qp(&cmd)?, send, recv))
        })?;
        send.set_push_slot(push_slot);
        let cap = real_cap(&send_size, recv_size.as_ref(), is_ud);
        let (send_cq, recv_cq) = (options.send_cq.inner().clone(), options.recv_cq.inner().clone());
        let shadow = QpShadow {
            send: send.shadow().clone(),
            recv: recv.shadow(),
        };
        send_cq.attach(qpn, shadow.clone());
        recv_cq.attach(qpn, shadow);
        Ok(Self {
            pd,
            send_cq,
            recv_cq,
            qpn,
            cap,
            service: options.service,
            send,
            recv,
            memory,
            state: QpState::Reset,
            alternate: QpAttr::default(),
            gone: false,
        })
    }

    /// QPN.
    pub fn qp_num(&self) -> u32 {
        self.qpn
    }

    /// The SRQ that it receives from.
    pub fn srq(&self) -> Option<&Srq<P>> {
        match &self.recv {
            RecvQueue::Absent | RecvQueue::Own(_) => None,
            RecvQueue::Shared(srq) => Some(srq),
        }
    }

    /// Its transport service.
    pub fn service(&self) -> Service {
        self.service
    }

    /// What the QP really has.
    pub fn cap(&self) -> QpCap {
        self.cap
    }

    /// The last state software chose; [`RawQp::query`] asks the card.
    pub fn state(&self) -> QpState {
        self.state
    }

    /// The context it belongs to.
    pub fn context(&self) -> Context<P> {
        Context::from_shared(self.pd.shared.clone())
    }

    fn check_alive(&self) -> Result<()> {
        if self.gone {
            Err(Error::Destroyed {
                what: "QP",
                id: self.qpn,
            })
        } else {
            Ok(())
        }
    }

    /// ibv_modify_qp: all of it or nothing (QPS-3). A `max_rd_atomic` above the device's limit becomes the limit: it is
    /// what a peer can serve, and who asks for less at a time is served all the same. `max_dest_rd_atomic` is a promise
    /// to the peer, and refused. RESET empties both queues and takes their completions out
    /// of the CQs (QPS-6).
    pub fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
        self.check_alive()?;
        let mut attr = *attr;
        if mask.contains(QpAttrMask::MAX_QP_RD_ATOMIC) {
            attr.max_rd_atomic = attr.max_rd_atomic.min(self.context().rd_atomic_max()?);
        }
        self.pd.shared.modify_qp(self.qpn, &attr, mask)?;
        if mask.contains(QpAttrMask::ALT_PATH) {
            self.alternate = attr;
        }
        if mask.contains(QpAttrMask::STATE) {
            self.state = attr.qp_state;
            if self.state == QpState::Reset {
                self.alternate = QpAttr::default();
                self.purge_cqs(false);
                self.send.reset();
                if let RecvQueue::Own(recv) = &mut self.recv {
                    recv.reset();
                }
            }
        }
        self.take_datagram_rules()
    }

    /// What datagrams must fit is what the card has: the port that was set, and its MTU then.
    fn take_datagram_rules(&mut self) -> Result<()> {
        if self.service != Service::Ud || matches!(self.state, QpState::Reset | QpState::Err) {
            return Ok(());
        }
        let now = self.query()?;
        if let Some(rules) = self.send.datagram_rules() {
            rules.port_num = now.port_num;
            rules.mtu_bytes = mtu_bytes(now.path_mtu);
        }
        Ok(())
    }

    /// Moves to RESET or ERR, which is legal in any state.
    pub fn modify_state(&mut self, qp_state: QpState) -> Result<()> {
        self.modify(
            &QpAttr {
                qp_state,
                ..QpAttr::default()
            },
            QpAttrMask::STATE,
        )
    }

    /// ibv_query_qp: every attribute as the card has it. The alternate path is the one that was loaded last, whether
    /// the QP has come to it or not: APM-5, `ah_attr` tells.
    pub fn query(&self) -> Result<QpAttr> {
        self.check_alive()?;
        let result = self.pd.shared.function().query_qp(self.qpn)?;
        Ok(QpAttr {
            alt_ah_attr: self.alternate.alt_ah_attr,
            alt_pkey_index: self.alternate.alt_pkey_index,
            alt_port_num: self.alternate.alt_port_num,
            alt_timeout: self.alternate.alt_timeout,
            ..QpAttr::from_abi(&hca_abi::QpAttr(result.attr()))
        })
    }

    /// ibv_attach_mcast: the QP gets a copy of what comes for a group through its port (MC-3), which it has from INIT
    /// on.
    pub fn attach_mcast(&self, mgid: [u8; 16]) -> Result<()> {
        self.check_alive()?;
        Ok(self.pd.shared.function().attach_mcast(self.qpn, mgid)?)
    }

    /// ibv_detach_mcast.
    pub fn detach_mcast(&self, mgid: [u8; 16]) -> Result<()> {
        self.check_alive()?;
        Ok(self.pd.shared.function().detach_mcast(self.qpn, mgid)?)
    }

    /// ibv_create_flow: a raw QP gets the frames that the rule describes, through its port, which it has from INIT on.
    pub fn create_flow(&self, attr: &FlowAttr<'_>) -> Result<Flow<P>> {
        self.check_alive()?;
        Flow::new(self.pd.clone(), FlowTarget::Qp(self.qpn), attr)
    }

    #[inline]
    fn may_send(&self) -> bool {
        !self.gone && !matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr)
    }

    /// Starts a list of sends: the card is told of all of it when the [`Posting`] is dropped.
    #[inline]
    pub fn start_posting(&mut self) -> Posting<'_, P> {
        Posting {
            start: self.send.next_index(),
            may_send: self.may_send(),
            qp: self,
        }
    }

    /// ibv_post_send: one doorbell for the whole list. On error the work requests before the bad one are
    /// posted.
    #[inline]
    pub fn post_send(&mut self, list: &[SendWr<'_>]) -> std::result::Result<(), BadWr> {
        let mut posting = self.start_posting();
        for (index, wr) in list.iter().enumerate() {
            posting.push(wr).map_err(|error| BadWr { index, error })?;
        }
        Ok(())
    }

    /// ibv_post_send of an initiator of XRC: each work request with the number of an SRQ of the peer (SPEC-3).
    #[inline]
    pub fn post_send_xrc<'a>(
        &mut self,
        list: impl IntoIterator<Item = (SendWr<'a>, u32)>,
    ) -> std::result::Result<(), BadWr> {
        let mut posting = self.start_posting();
        for (index, (wr, remote_srqn)) in list.into_iter().enumerate() {
            let pushed = posting.push_xrc(&wr, remote_srqn);
            pushed.map_err(|error| BadWr { index, error })?;
        }
        Ok(())
    }

    /// [`RawQp::post_send_all`] of an initiator of XRC.
    pub fn post_send_all_xrc<'a>(
        &mut self,
        list: impl Iterator<Item = (SendWr<'a>, u32)>,
    ) -> std::result::Result<(), PostError> {
        self.post_all(list, |ring, (wr, remote_srqn)| ring.push_xrc(&wr, remote_srqn))
    }

    /// ibv_post_send of a QP of datagrams. The address handles are of its PD (MEM-2) and lead through its port (V-145).
    #[inline]
    pub fn post_send_to<'a>(
        &mut self,
        list: impl IntoIterator<Item = Datagram<'a>>,
    ) -> std::result::Result<(), BadWr> {
        let mut posting = self.start_posting();
        for (index, datagram) in list.into_iter().enumerate() {
            let pushed = posting.push_datagram(&datagram);
            pushed.map_err(|error| BadWr { index, error })?;
        }
        Ok(())
    }

    /// [`RawQp::post_send_all`] of a QP of datagrams.
    pub fn post_send_all_to<'a>(
        &mut self,
        list: impl Iterator<Item = Datagram<'a>>,
    ) -> std::result::Result<(), PostError> {
        self.post_all(list, |ring, datagram| ring.push_datagram(&datagram))
    }

    /// ibv_wr_complete (V-177): all of the list, with one doorbell, or nothing of it.
    pub fn post_send_all<'a>(
        &mut self,
        list: impl Iterator<Item = SendWr<'a>>,
    ) -> std::result::Result<(), PostError> {
        self.post_all(list, |ring, wr| ring.push(&wr))
    }

    fn post_all<T>(
        &mut self,
        list: impl Iterator<Item = T>,
        push: impl Fn(&mut SendRing, T) -> std::result::Result<(), PostError>,
    ) -> std::result::Result<(), PostError> {
        if !self.may_send() {
            return Err(PostError::BadState);
        }
        let start = self.send.next_index();
        for wr in list {
            if let Err(error) = push(&mut self.send, wr) {
                self.send.rewind(start);
                return Err(error);
            }
        }
        if self.send.next_index() != start {
            self.send.ring_doorbell(&self.pd.shared.doorbells, self.qpn);
        }
        Ok(())
    }

    /// ibv_post_recv: one doorbell for the whole list. On error the work requests before the bad one are
    /// posted.
    #[inline]
    pub fn post_recv(&mut self, list: &[RecvWr<'_>]) -> std::result::Result<(), BadWr> {
        self.post_recv_iter(list.iter().copied())
    }

    /// The same of an iterator.
    #[inline]
    pub fn post_recv_iter<'a>(
        &mut self,
        list: impl IntoIterator<Item = RecvWr<'a>>,
    ) -> std::result::Result<(), BadWr> {
        let refused = |error| Err(BadWr { index: 0, error });
        if self.gone || self.state == QpState::Reset {
            return refused(PostError::BadState);
        }
        let recv = match &mut self.recv {
            RecvQueue::Own(recv) => recv,
            RecvQueue::Absent => return refused(PostError::NoReceiveQueue),
            RecvQueue::Shared(_) => return refused(PostError::SharedQueue),
        };
        let (mut result, mut done) = (Ok(()), 0);
        for wr in list {
            if let Err(error) = recv.push(&wr) {
                result = Err(BadWr { index: done, error });
                break;
            }
            done += 1;
        }
        if done > 0 {
            recv.ring_doorbell(&self.pd.shared.doorbells, self.qpn);
        }
        result
    }

    fn purge_cqs(&self, detach: bool) {
        self.send_cq.purge(self.qpn, detach);
        if !Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.recv_cq.purge(self.qpn, detach);
        }
    }

    /// ibv_destroy_qp now, in any state. Its outstanding work requests and unpolled completions are gone
    /// (QPS-16).
    pub fn destroy(&mut self) -> Result<()> {
        self.check_alive()?;
        self.pd.shared.function().destroy_qp(self.qpn)?;
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        self.gone = true;
        self.purge_cqs(true);
        Ok(self.pd.shared.device().free_dma(self.memory.clone())?)
    }
}

/// Sends being posted: [`RawQp::start_posting`].
pub struct Posting<'a, P: DevicePtr> {
    qp: &'a mut RawQp<P>,
    start: u32,
    may_send: bool,
}

impl<P: DevicePtr> Posting<'_, P> {
    /// Sends of this QP need destinations: [`Posting::push_datagram`].
    #[inline]
    pub fn is_of_datagrams(&self) -> bool {
        self.qp.service == Service::Ud
    }

    /// The operations that [`Posting::push_plain`] is for: none where a work request needs a destination or the number
    /// of an SRQ, or where the QP takes none now. [`Posting::push`] says why it refuses another one.
    #[inline(always)]
    pub fn plain(&self) -> Opcodes {
        if self.may_send {
            self.qp.send.plain()
        } else {
            Opcodes::NONE
        }
    }

    /// Writes one work request of the common kind into the ring.
    #[inline(always)]
    pub fn push_plain(&mut self, wr: &PlainWr<'_>) -> std::result::Result<(), PostError> {
        self.check_state()?;
        self.qp.send.push_plain(wr)
    }

    /// Writes one work request into the ring.
    #[inline]
    pub fn push(&mut self, wr: &SendWr<'_>) -> std::result::Result<(), PostError> {
        self.check_state()?;
        self.qp.send.push(wr)
    }

    /// Sends of this QP name an SRQ of the peer: [`Posting::push_xrc`].
    #[inline]
    pub fn is_of_xrc(&self) -> bool {
        self.qp.service == Service::Xrc
    }

    /// The same of an initiator of XRC: the SRQ is the peer's.
    #[inline]
    pub fn push_xrc(&mut self, wr: &SendWr<'_>, remote_srqn: u32) -> std::result::Result<(), PostError> {
        self.check_state()?;
        self.qp.send.push_xrc(wr, remote_srqn)
    }

    /// The same with a datagram.
    #[inline]
    pub fn push_datagram(&mut self, datagram: &Datagram<'_>) -> std::result::Result<(), PostError> {
        self.check_state()?;
        self.qp.send.push_datagram(datagram)
    }

    #[inline]
    fn check_state(&self) -> std::result::Result<(), PostError> {
        if self.may_send {
            Ok(())
        } else {
            Err(PostError::BadState)
        }
    }
}

impl<P: DevicePtr> Drop for Posting<'_, P> {
    /// One doorbell for all of them, if there are any.
    #[inline(always)]
    fn drop(&mut self) {
        if self.qp.send.next_index() != self.start {
            self.qp
                .send
                .ring_doorbell(&self.qp.pd.shared.doorbells, self.qp.qpn);
        }
    }
}

impl<P: DevicePtr> Drop for RawQp<P> {
    fn drop(&mut self) {
        if !self.gone {
            // The card may be gone: its memory is released all the same. With rules that live on the QP stays, but uses
            // its rings no more.
            if self.pd.shared.function().destroy_qp(self.qpn).is_err() {
                let _ = self.modify_state(QpState::Reset);
            }
            let _ = self.release();
        }
    }
}
