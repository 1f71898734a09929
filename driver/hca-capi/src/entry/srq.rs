//! Shared receive queues.

use std::ffi::c_int;
use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{Errno, count, destroyed, invalid, pointer, put, status, unsupported};
use crate::objects::context::context_of;
use crate::objects::events::{Events, Numbered};
use crate::objects::memory::PdObject;
use crate::objects::srq::SrqObject;

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
        let events = Arc::<Events>::default();
        let object = publish(Box::new(SrqObject {
            raw,
            srq,
            events: events.clone(),
            card: owner.card.clone(),
            _domain: domain.hold(),
        }));
        let opened = std::ptr::from_ref(owner) as usize;
        let shared = &owner.card.shared;
        shared.announce(Numbered::Srq, srqn, object, opened, &events);
        Ok(object.cast())
    })
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
        srq.card.shared.withdraw(Numbered::Srq, srqn, object);
        srq.events.asynchronous.wait();
        drop(retire(object)?);
        Ok(())
    })
}
