//! Queue pairs.

use std::ffi::c_int;
use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::{Flow, FlowAttr, QpAttr, QpAttrMask, QpCap, RawQp, RssQp, Service};

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object, lock};
use crate::boundary::{Errno, Verb};
use crate::cards::DevPtr;
use crate::objects::card::Card;
use crate::objects::events::Events;
use crate::objects::memory::Hold;
use crate::objects::names::SharedTarget;
use crate::objects::section::Section;

/// A QP with queues of its own, or one of the handles of a target of XRC.
#[allow(clippy::large_enum_variant, reason = "nearly all are of the large kind")]
pub enum AnyQp {
    Own(RawQp<DevPtr>),
    Target(Arc<SharedTarget>),
    /// It spreads frames over WQs, and keeps their table.
    Spread {
        qp: RssQp<DevPtr>,
        _table: Hold,
    },
}

impl AnyQp {
    /// For what only a QP with queues can do.
    #[inline]
    pub fn own(&mut self) -> Verb<&mut RawQp<DevPtr>> {
        match self {
            Self::Own(qp) => Ok(qp),
            Self::Target(_) | Self::Spread { .. } => Err(Errno(libc::EINVAL)),
        }
    }

    /// Programs treat QPs of XRC as those of RC: the kernel leaves away what is of the other kind, and so do we.
    pub fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> hca_verbs::Result<()> {
        const OF_TARGETS: QpAttrMask =
            QpAttrMask::from_bits(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        const OF_INITIATORS: QpAttrMask =
            QpAttrMask::from_bits(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
        let without = |other: QpAttrMask| QpAttrMask::from_bits(mask.bits() & !other.bits());
        match self {
            Self::Own(qp) if qp.service() == Service::Xrc => qp.modify(attr, without(OF_TARGETS)),
            Self::Own(qp) => qp.modify(attr, mask),
            Self::Target(target) => lock(&target.qp).modify(attr, without(OF_INITIATORS)),
            Self::Spread { .. } => Err(no_states()),
        }
    }

    pub fn query(&self) -> hca_verbs::Result<QpAttr> {
        match self {
            Self::Own(qp) => qp.query(),
            Self::Target(target) => lock(&target.qp).query(),
            Self::Spread { .. } => Err(no_states()),
        }
    }

    pub fn cap(&self) -> QpCap {
        match self {
            Self::Own(qp) => qp.cap(),
            Self::Target(_) | Self::Spread { .. } => NO_QUEUES,
        }
    }

    pub fn create_flow(&mut self, rule: &FlowAttr<'_>) -> Verb<Flow<DevPtr>> {
        match self {
            Self::Spread { qp, .. } => Ok(qp.create_flow(rule)?),
            _ => Ok(self.own()?.create_flow(rule)?),
        }
    }
}

fn no_states() -> hca_verbs::Error {
    hca_verbs::Error::Unsupported("a QP with an indirection table has no states: its WQs have".to_owned())
}

/// Sizes of the queues that a target does not have.
pub const NO_QUEUES: QpCap = QpCap {
    max_send_wr: 0,
    max_recv_wr: 0,
    max_send_sge: 0,
    max_recv_sge: 0,
    max_inline_data: 0,
};

/// What the QP's lock guards.
pub struct Inner {
    pub qp: AnyQp,
    /// The work requests of an open wr_start section.
    pub section: Section,
}

/// `wr_flush` of the ibv_qp_ex of rdma-core 45 and later: R_Key, address, bytes, placement type, selectivity level.
pub type WrFlush = unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, usize, u8, u8);

/// A program of an older header does not look there, one of a newer header finds it where it looks.
const _: () = assert!(std::mem::offset_of!(QpObject, wr_flush) == size_of::<ibv_qp_ex>());

/// A queue pair, extended or not: ibv_qp is the first field of ibv_qp_ex.
#[repr(C)]
pub struct QpObject {
    pub raw: CStruct<ibv_qp_ex>,
    /// Right behind it: where verbs.h of rdma-core 45 and later has ibv_wr_flush.
    pub wr_flush: CStruct<Option<WrFlush>>,
    /// For posting, and for everything else.
    pub inner: ShortLock<Inner>,
    /// Events that destroy waits for.
    pub events: Arc<Events>,
    pub qp_num: u32,
    pub is_ex: bool,
    pub sq_sig_all: c_int,
    pub card: Arc<Card>,
    /// The parent domain that it was made in.
    pub _domain: Option<Hold>,
}

impl Object for QpObject {
    const KIND: Kind = Kind::Qp;
}
