//! Shared receive queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hca_verbs::Srq;

use crate::abi::*;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{
    Errno, Verb, count, destroyed, invalid, last_errno, pointer, put, status, status_with_room, unsupported,
};
use crate::cards::DevPtr;
use crate::objects::context::context_of;
use crate::objects::cq::CqObject;
use crate::objects::events::{Events, Numbered};
use crate::objects::memory::{Hold, PdObject};
use crate::objects::srq::SrqObject;
use crate::objects::xrc::XrcdObject;

/// A limit at creation is that of iWARP, and nobody's here (DEFECT-4). What is asked for beyond the card is EINVAL.
pub unsafe extern "C" fn create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (domain, attr) = unsafe { (get(pd.cast::<PdObject>())?, attr.as_mut()) };
        let attr = attr.ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the PD's context is open.
        let context = unsafe { (*pd).context };
        let srq = domain.pd.create_srq(attr.attr.max_wr, attr.attr.max_sge)?;
        hand_out(context, pd, attr.srq_context, &mut attr.attr, srq, domain.hold())
    })
}

fn hand_out(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    attr: &mut ibv_srq_attr,
    srq: Srq<DevPtr>,
    domain: Option<Hold>,
) -> Verb<*mut ibv_srq> {
    // SAFETY: as context_of says.
    let owner = unsafe { context_of(context)? };
    let srqn = srq.srqn();
    *attr = ibv_srq_attr {
        max_wr: srq.max_wr(),
        max_sge: srq.max_sge(),
        srq_limit: 0,
    };
    let raw = CStruct::new(ibv_srq {
        context,
        srq_context,
        pd,
        handle: srqn,
        ..Default::default()
    });
    owner.card.shared.require_room(Numbered::Srq)?;
    let events = Arc::<Events>::default();
    let object = publish(SrqObject {
        raw,
        srq,
        events: events.clone(),
        card: owner.card.clone(),
        _domain: domain,
    })?;
    let opened = std::ptr::from_ref(owner) as usize;
    let shared = &owner.card.shared;
    shared.announce(Numbered::Srq, srqn, object, opened, &events);
    Ok(object.cast())
}

/// V-101: the types BASIC and XRC.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const PARTS: u32 = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        let has_type = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
        match if has_type { attr.srq_type } else { IBV_SRQT_BASIC } {
            IBV_SRQT_BASIC => {
                let mut plain = ibv_srq_init_attr {
                    srq_context: attr.srq_context,
                    attr: attr.attr,
                };
                if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
                    return Err(invalid("ibv_create_srq_ex: no PD"));
                }
                // SAFETY: looked up there; our own structure.
                let srq = unsafe { create_srq(attr.pd, &mut plain) };
                attr.attr = plain.attr;
                if srq.is_null() { Err(last_errno()) } else { Ok(srq) }
            }
            IBV_SRQT_XRC => {
                if attr.comp_mask & PARTS != PARTS {
                    return Err(invalid(
                        "ibv_create_srq_ex: an SRQ of XRC has a PD, an XRC domain and a CQ",
                    ));
                }
                // SAFETY: each is looked up first.
                let (pd, xrcd, cq) = unsafe {
                    (
                        get(attr.pd.cast::<PdObject>())?,
                        get(attr.xrcd.cast::<XrcdObject>())?,
                        get(attr.cq.cast::<CqObject>())?,
                    )
                };
                // SAFETY: just found.
                if unsafe { [(*attr.pd).context, (*attr.xrcd).context, (*attr.cq).context] } != [context; 3] {
                    return Err(invalid("PD, XRC domain and CQ of an SRQ must be of its context"));
                }
                let (max_wr, max_sge) = (attr.attr.max_wr, attr.attr.max_sge);
                let srq = pd.pd.create_xrc_srq(&xrcd.domain.xrcd, &cq.cq, max_wr, max_sge)?;
                hand_out(context, attr.pd, attr.srq_context, &mut attr.attr, srq, pd.hold())
            }
            other => Err(unsupported(format_args!("SRQ type {other}"))),
        }
    })
}

/// V-103: what peers name an SRQ of XRC.
pub unsafe extern "C" fn get_srq_num(raw: *mut ibv_srq, number: *mut u32) -> c_int {
    status(|| {
        // SAFETY: looked up first.
        let srq = unsafe { get(raw.cast::<SrqObject>())? };
        let found = srq.srq.number();
        let found = found.ok_or_else(|| invalid("ibv_get_srq_num: the SRQ is not of XRC"))?;
        // SAFETY: the program's pointer, or NULL.
        unsafe { put(number, found) }
    })
}

pub unsafe extern "C" fn modify_srq(raw: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (srq, attr) = unsafe { (get(raw.cast::<SrqObject>())?, attr.as_ref()) };
        let (attr, mask) = (attr.ok_or(Errno(libc::EINVAL))?, mask as u32);
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(invalid(format_args!(
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
