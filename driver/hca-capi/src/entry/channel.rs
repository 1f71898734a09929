//! Completion channels and asynchronous events, with the acknowledgements that a destroy waits for.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{get, lock, publish, retire};
use crate::boundary::pipe::{EventPipe, read_record};
use crate::boundary::{Errno, Verb, count, invalid, pointer, put, status};
use crate::objects::card::Card;
use crate::objects::channel::ChannelObject;
use crate::objects::context::context_of;
use crate::objects::cq::CqObject;
use crate::objects::events::{ChannelEnds, Numbered, parse_record};
use crate::objects::qp::QpObject;
use crate::objects::srq::SrqObject;
use crate::objects::wq::WqObject;

pub unsafe extern "C" fn create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let pipe = EventPipe::new()?;
        let channel = owner.hca().create_comp_channel();
        let ends = Arc::new(ChannelEnds { channel, pipe });
        let object = ChannelObject::new(context, owner.card.clone(), ends.clone());
        lock(&owner.card.shared.targets).add_channel(&ends)?;
        let published = publish(object);
        if published.is_err() {
            lock(&owner.card.shared.targets).remove_channel(&ends);
        }
        Ok(published?.cast())
    })
}

pub unsafe extern "C" fn destroy_comp_channel(raw: *mut ibv_comp_channel) -> c_int {
    status(|| {
        let object = raw.cast::<ChannelObject>();
        // SAFETY: looked up first.
        let channel = unsafe { get(object)? };
        if channel.has_users() {
            return Err(Errno(libc::EBUSY));
        }
        lock(&channel.card.shared.targets).remove_channel(&channel.ends);
        drop(retire(object)?);
        Ok(())
    })
}

/// Waits for an event of a CQ that still exists. Those of CQs that are gone are passed over.
pub unsafe extern "C" fn get_cq_event(
    raw: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    count(|| {
        // SAFETY: looked up first.
        let channel = unsafe { get(raw.cast::<ChannelObject>())? };
        loop {
            let (cqn, generation) = parse_record(read_record(channel.ends.pipe.fd())?);
            let mut targets = lock(&channel.card.shared.targets);
            let Some(target) = targets.find(Numbered::Cq, cqn, generation) else {
                continue;
            };
            let found = target.object as *mut ibv_cq;
            target.events.completion.add();
            // SAFETY: CQs leave the table before they are freed, and we hold its lock. The program's pointers.
            unsafe {
                put(cq, found)?;
                put(cq_context, (*found).cq_context)?;
            }
            return Ok(0);
        }
    })
}

pub unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    count(|| {
        // SAFETY: looked up first.
        let found = unsafe { get(cq.cast::<CqObject>())? }.events.clone();
        found.completion.ack(events);
        Ok(0)
    });
}

/// Whose number an event's record holds; of the others it is a port's.
fn numbered(kind: ibv_event_type) -> Option<Numbered> {
    match kind {
        IBV_EVENT_CQ_ERR => Some(Numbered::Cq),
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Some(Numbered::Srq),
        IBV_EVENT_WQ_FATAL => Some(Numbered::Wq),
        IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => Some(Numbered::Qp),
        _ => None,
    }
}

/// The object that an event names, if it still exists, with one more event to acknowledge.
fn element(card: &Card, kind: ibv_event_type, id: [u8; 8]) -> Option<ibv_async_event__bindgen_ty_1> {
    let (number, generation) = parse_record(id);
    let Some(numbered) = numbered(kind) else {
        let port_num = number as c_int;
        return Some(ibv_async_event__bindgen_ty_1 { port_num });
    };
    let mut targets = lock(&card.shared.targets);
    let target = targets.find(numbered, number, generation)?;
    target.events.asynchronous.add();
    Some(match numbered {
        Numbered::Cq => ibv_async_event__bindgen_ty_1 {
            cq: target.object as *mut ibv_cq,
        },
        Numbered::Qp => ibv_async_event__bindgen_ty_1 {
            qp: target.object as *mut ibv_qp,
        },
        Numbered::Srq => ibv_async_event__bindgen_ty_1 {
            srq: target.object as *mut ibv_srq,
        },
        Numbered::Wq => ibv_async_event__bindgen_ty_1 {
            wq: target.object as *mut ibv_wq,
        },
    })
}

pub unsafe extern "C" fn get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    count(|| {
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        loop {
            let record: [u8; 16] = read_record(owner.async_fd())?;
            let [id, kind] = [0, 8].map(|at| std::array::from_fn(|i| record[at + i]));
            let (event_type, _) = parse_record(kind);
            if let Some(element) = element(&owner.card, event_type, id) {
                // SAFETY: the program's structure.
                unsafe { put(event, ibv_async_event { element, event_type })? };
                return Ok(0);
            }
        }
    })
}

pub unsafe extern "C" fn ack_async_event(event: *mut ibv_async_event) {
    count(|| ack(event).map(|()| 0));
}

fn ack(event: *mut ibv_async_event) -> Verb<()> {
    // SAFETY: the program's structure, or NULL; which pointer is valid depends on the type, and each is looked up.
    let events = unsafe {
        let event = event.as_ref().ok_or_else(|| invalid("no event"))?;
        match numbered(event.event_type) {
            Some(Numbered::Cq) => get(event.element.cq.cast::<CqObject>())?.events.clone(),
            Some(Numbered::Srq) => get(event.element.srq.cast::<SrqObject>())?.events.clone(),
            Some(Numbered::Wq) => get(event.element.wq.cast::<WqObject>())?.events.clone(),
            Some(Numbered::Qp) => get(event.element.qp.cast::<QpObject>())?.events.clone(),
            None => return Ok(()),
        }
    };
    events.asynchronous.ack(1);
    Ok(())
}
