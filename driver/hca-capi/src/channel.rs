//! Completion channels and asynchronous events, with the acknowledgements that a destroy waits for.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, invalid, pointer, status, warn};
use crate::card::{Card, parse_record};
use crate::context::{context_of, put};
use crate::cq::CqObject;
use crate::live::{CStruct, Kind, Object, get, lock, publish, retire};
use crate::pipe::{EventPipe, read_record};
use crate::qp::QpObject;
use crate::sockets::DevPtr;
use crate::srq::SrqObject;

/// A completion channel.
#[repr(C)]
pub struct ChannelObject {
    raw: CStruct<ibv_comp_channel>,
    /// CQs that use it.
    users: AtomicU32,
    /// Completion events.
    pub pipe: EventPipe<8>,
    /// Where our driver puts them.
    pub channel: hca_verbs::CompChannel<DevPtr>,
    card: Arc<Card>,
}

impl Object for ChannelObject {
    const KIND: Kind = Kind::Channel;
}

impl ChannelObject {
    pub fn add_user(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    pub fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}

pub unsafe extern "C" fn create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let pipe = EventPipe::new()?;
        let raw = CStruct::new(ibv_comp_channel {
            context,
            fd: pipe.fd(),
            refcnt: 0,
        });
        let channel = owner.hca().create_comp_channel();
        let (users, card) = (AtomicU32::new(0), owner.card.clone());
        let object = publish(Box::new(ChannelObject {
            raw,
            users,
            pipe,
            channel,
            card,
        }));
        lock(&owner.card.shared.targets).channels.push(object as usize);
        Ok(object.cast())
    })
}

pub unsafe extern "C" fn destroy_comp_channel(raw: *mut ibv_comp_channel) -> c_int {
    status(|| {
        let object = raw.cast::<ChannelObject>();
        // SAFETY: looked up first.
        let channel = unsafe { get(object)? };
        if channel.users.load(Ordering::Acquire) != 0 {
            return Err(Errno(libc::EBUSY));
        }
        lock(&channel.card.shared.targets)
            .channels
            .retain(|c| *c != object as usize);
        drop(retire(object)?);
        Ok(())
    })
}

/// Events that the program has read and not yet acknowledged. Shared: who acknowledges the last one may still be at it
/// when the object is gone.
#[derive(Default)]
pub struct Unacked {
    count: Mutex<u32>,
    none: Condvar,
}

impl Unacked {
    fn add(&self) {
        *lock(&self.count) += 1;
    }

    fn ack(&self, events: u32) {
        let mut count = lock(&self.count);
        if events > *count {
            warn(&"more events acknowledged than were read");
        }
        *count = count.saturating_sub(events);
        self.none.notify_all();
    }

    /// V-48, V-65: a destroy returns when all are acknowledged.
    pub fn wait(&self) {
        let mut count = lock(&self.count);
        while *count > 0 {
            count = self.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
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
            let (cqn, generation) = parse_record(read_record(channel.pipe.fd())?);
            let targets = lock(&channel.card.shared.targets);
            let Some(target) = targets.cqs.get(&cqn).filter(|t| t.generation == generation) else {
                continue;
            };
            let found = target.object as *mut CqObject;
            // SAFETY: CQs leave the table before they are freed, and we hold its lock. The program's pointers.
            unsafe {
                (*found).comp_events.add();
                put(cq, found.cast())?;
                put(cq_context, (*(*found).raw.as_ptr()).cq_context)?;
            }
            return Ok(0);
        }
    })
}

pub unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    count(|| {
        // SAFETY: looked up first.
        let unacked = unsafe { get(cq.cast::<CqObject>())? }.comp_events.clone();
        unacked.ack(events);
        Ok(0)
    });
}

/// The object that an event names, if it still exists, with one more event to acknowledge.
fn element(card: &Card, kind: ibv_event_type, id: [u8; 8]) -> Option<ibv_async_event__bindgen_ty_1> {
    let (number, generation) = parse_record(id);
    let targets = lock(&card.shared.targets);
    match kind {
        IBV_EVENT_CQ_ERR => {
            let target = targets.cqs.get(&number).filter(|t| t.generation == generation)?;
            let cq = target.object as *mut CqObject;
            // SAFETY: CQs leave the table before they are freed, and we hold its lock.
            unsafe { (*cq).async_events.add() };
            Some(ibv_async_event__bindgen_ty_1 { cq: cq.cast() })
        }
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
            let target = targets.srqs.get(&number).filter(|t| t.generation == generation)?;
            let srq = target.object as *mut SrqObject;
            // SAFETY: SRQs leave the table before they are freed, and we hold its lock.
            unsafe { (*srq).async_events.add() };
            Some(ibv_async_event__bindgen_ty_1 { srq: srq.cast() })
        }
        IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
            let mut places = targets.qps.get(&number)?.iter();
            let target = places.find(|place| place.generation == generation)?;
            let qp = target.object as *mut QpObject;
            // SAFETY: QPs leave the table before they are freed, and we hold its lock.
            unsafe { (*qp).async_events.add() };
            Some(ibv_async_event__bindgen_ty_1 { qp: qp.cast() })
        }
        _ => Some(ibv_async_event__bindgen_ty_1 {
            port_num: number as c_int,
        }),
    }
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
    let unacked = unsafe {
        let event = event.as_ref().ok_or_else(|| invalid("no event"))?;
        match event.event_type {
            IBV_EVENT_CQ_ERR => get(event.element.cq.cast::<CqObject>())?.async_events.clone(),
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => {
                get(event.element.srq.cast::<SrqObject>())?.async_events.clone()
            }
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                get(event.element.qp.cast::<QpObject>())?.async_events.clone()
            }
            _ => return Ok(()),
        }
    };
    unacked.ack(1);
    Ok(())
}
