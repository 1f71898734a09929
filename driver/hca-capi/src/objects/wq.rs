//! Receive work queues and indirection tables.

use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::Wq;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;
use crate::objects::card::Card;
use crate::objects::events::Events;
use crate::objects::memory::Hold;

/// A receive work queue.
#[repr(C)]
pub struct WqObject {
    pub raw: CStruct<ibv_wq>,
    /// For posting, and for everything else.
    pub inner: ShortLock<Wq<DevPtr>>,
    pub events: Arc<Events>,
    pub wq_num: u32,
    pub card: Arc<Card>,
    /// Indirection tables have it.
    pub users: Hold,
    /// The parent domain that it was made in.
    pub _domain: Option<Hold>,
}

impl Object for WqObject {
    const KIND: Kind = Kind::Wq;
}

/// An indirection table: the card is told of it with each QP that spreads by it.
#[repr(C)]
pub struct IndTableObject {
    pub raw: CStruct<ibv_rwq_ind_table>,
    pub wq_nums: Vec<u32>,
    /// Its queues are not destroyed meanwhile.
    pub _queues: Vec<Hold>,
    /// QPs that spread by it.
    pub users: Hold,
}

impl Object for IndTableObject {
    const KIND: Kind = Kind::IndTable;
}
