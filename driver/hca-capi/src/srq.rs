//! Shared receive queues.

use std::ffi::c_int;
use std::sync::Arc;

use hca_verbs::Srq;

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, destroyed, invalid, pointer, status, unsupported};
use crate::card::{Card, Target};
use crate::channel::Unacked;
use crate::context::{context_of, put};
use crate::live::{CStruct, Kind, Object, get, lock, publish, retire};
use crate::memory::PdObject;
use crate::sockets::DevPtr;

/// A shared receive queue.
#[repr(C)]
pub struct SrqObject {
    raw: CStruct<ibv_srq>,
    pub srq: Srq<DevPtr>,
    /// Events that destroy waits for.
    pub async_events: Arc<Unacked>,
    card: Arc<Card>,
}

impl Object for SrqObject {
    const KIND: Kind = Kind::Srq;
}

/// A limit at creation is that of iWARP, and nobody's here (DEFECT-4). What is asked for beyond the card is EINVAL.
pub unsafe extern "C" fn create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (domain, attr) = unsafe { (get(pd.cast::<PdObject>())?, attr.as_mut()) };
        let attr = attr.ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the PD's context is open.
        let context = unsafe { (*pd).context };
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let srq = domain.pd.create_srq(attr.attr.max_wr, attr.attr.max_sge)?;
        let srqn = srq.srqn();
        attr.attr = ibv_srq_attr {
            max_wr: srq.max_wr(),
            max_sge: srq.max_sge(),
            srq_limit: 0,
        };
        let raw = CStruct::new(ibv_srq {
            context,
            srq_context: attr.srq_context,
            pd,
            handle: srqn,
            ..Default::default()
        });
        let object = publish(Box::new(SrqObject {
            raw,
            srq,
            async_events: Arc::default(),
            card: owner.card.clone(),
        }));
        let shared = &owner.card.shared;
        let target = Target {
            generation: shared.new_generation(),
            object: object as usize,
            context: std::ptr::from_ref(owner) as usize,
        };
        lock(&shared.targets).srqs.insert(srqn, target);
        Ok(object.cast())
    })
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

pub unsafe extern "C" fn modify_srq(raw: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (srq, attr) = unsafe { (get(raw.cast::<SrqObject>())?, attr.as_ref()) };
        let (attr, mask) = (attr.ok_or(Errno(libc::EINVAL))?, mask as u32);
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(invalid(&format!(
                "srq_attr_mask {mask:#x}: there are MAX_WR and LIMIT"
            )));
        }
        if mask & IBV_SRQ_MAX_WR != 0 {
            return Err(unsupported(
                "an SRQ of another size: the device has no IBV_DEVICE_SRQ_RESIZE",
            ));
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            srq.srq.arm_limit(attr.srq_limit)?;
        }
        Ok(())
    })
}

pub unsafe extern "C" fn query_srq(raw: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    count(|| {
        // SAFETY: looked up first.
        let found = unsafe { get(raw.cast::<SrqObject>())? }.srq.query()?;
        let found = ibv_srq_attr {
            max_wr: found.max_wr,
            max_sge: found.max_sge,
            srq_limit: found.srq_limit,
        };
        // SAFETY: the program's structure, or NULL.
        unsafe { put(attr, found)? };
        Ok(0)
    })
}

pub unsafe extern "C" fn destroy_srq(raw: *mut ibv_srq) -> c_int {
    status(|| {
        let object = raw.cast::<SrqObject>();
        // SAFETY: looked up first.
        let srq = unsafe { get(object)? };
        let srqn = srq.srq.srqn();
        destroyed(srq.srq.destroy())?;
        {
            let srqs = &mut lock(&srq.card.shared.targets).srqs;
            // The card may have given the number to a new SRQ by now.
            if srqs.get(&srqn).is_some_and(|t| t.object == object as usize) {
                srqs.remove(&srqn);
            }
        }
        srq.async_events.wait();
        drop(retire(object)?);
        Ok(())
    })
}
