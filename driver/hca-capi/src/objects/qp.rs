//! Queue pairs.

use std::ffi::c_int;
use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::RawQp;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;
use crate::objects::card::Card;
use crate::objects::events::Events;
use crate::objects::memory::Hold;
use crate::objects::section::Section;

/// What the QP's lock guards.
pub struct Inner {
    pub qp: RawQp<DevPtr>,
    /// The work requests of an open wr_start section.
    pub section: Section,
}

/// A queue pair, extended or not: ibv_qp is the first field of ibv_qp_ex.
#[repr(C)]
pub struct QpObject {
    pub raw: CStruct<ibv_qp_ex>,
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
