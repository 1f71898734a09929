//! Shared receive queues.

use std::sync::Arc;

use hca_verbs::Srq;

use crate::abi::*;
use crate::boundary::live::{CStruct, Kind, Object, get};
use crate::boundary::{Verb, invalid};
use crate::cards::DevPtr;
use crate::objects::card::Card;
use crate::objects::events::Events;
use crate::objects::memory::Hold;

/// A shared receive queue.
#[repr(C)]
pub struct SrqObject {
    pub raw: CStruct<ibv_srq>,
    pub srq: Srq<DevPtr>,
    /// Events that destroy waits for.
    pub events: Arc<Events>,
    pub card: Arc<Card>,
    /// The parent domain that it was made in.
    pub _domain: Option<Hold>,
}

impl Object for SrqObject {
    const KIND: Kind = Kind::Srq;
}

/// The SRQ that a QP is to be made with, if any; of the QP's context.
///
/// # Safety
/// The program does not destroy it meanwhile.
pub unsafe fn srq_of<'a>(srq: *mut ibv_srq, context: *mut ibv_context) -> Verb<Option<&'a Srq<DevPtr>>> {
    if srq.is_null() {
        return Ok(None);
    }
    // SAFETY: looked up first.
    let object = unsafe { get(srq.cast::<SrqObject>())? };
    // SAFETY: just found.
    if unsafe { (*object.raw.as_ptr()).context } != context {
        return Err(invalid(
            "the SRQ of a QP must be of the context that its PD is of",
        ));
    }
    Ok(Some(&object.srq))
}
