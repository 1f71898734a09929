//! Completion queues.

use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::WorkCompletion;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object};
use crate::cards::DevPtr;
use crate::objects::card::Card;
use crate::objects::channel::ChannelObject;
use crate::objects::events::Events;
use crate::objects::memory::Hold;

/// A completion queue, extended or not: the first fields of both structures are the same.
#[repr(C)]
pub struct CqObject {
    pub raw: CStruct<ibv_cq_ex>,
    pub cq: hca_verbs::Cq<DevPtr>,
    /// Events that destroy waits for.
    pub events: Arc<Events>,
    /// The extended interface: what its readers read, from start to end of a section.
    pub current: ShortLock<WorkCompletion>,
    pub channel: *mut ChannelObject,
    pub card: Arc<Card>,
    /// The parent domain that it was made in.
    pub _domain: Option<Hold>,
}

impl Object for CqObject {
    const KIND: Kind = Kind::Cq;
}
