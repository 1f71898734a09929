//! Completion queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hca_dev::{OneThread, ShortLock};
use hca_verbs::{CqOptions, WorkCompletion};

use crate::abi::*;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{Errno, Verb, count, destroyed, invalid, pointer, status, status_with_room};
use crate::entry::query::max_cqe;
use crate::objects::channel::ChannelObject;
use crate::objects::context::{ContextObject, context_of};
use crate::objects::cq::CqObject;
use crate::objects::events::{Events, Numbered};
use crate::objects::memory::Hold;

/// What both create verbs ask for.
pub struct CqWish {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: i64,
    /// The parent domain that it is made in.
    pub domain: Option<Hold>,
    pub one_thread: Option<OneThread>,
    pub ignore_overrun: bool,
}

/// Makes the queue; `finish` adds what the extended interface needs.
pub fn create(
    context: *mut ibv_context,
    wish: &CqWish,
    finish: impl FnOnce(&mut ibv_cq_ex),
) -> Verb<*mut CqObject> {
    // SAFETY: as context_of says.
    let owner: &ContextObject = unsafe { context_of(context)? };
    let max = max_cqe(&owner.hca().query_device()?);
    if wish.cqe == 0 || wish.cqe > max {
        return Err(invalid(format_args!("cqe {}: must be 1 to {max}", wish.cqe)));
    }
    let comp_vector = u16::try_from(wish.comp_vector).map_err(|_| invalid("comp_vector out of range"))?;
    let channel = wish.channel.cast::<ChannelObject>();
    let used = if channel.is_null() {
        None
    } else {
        // SAFETY: looked up first.
        let found = unsafe { get(channel)? };
        // SAFETY: it was just found.
        if unsafe { (*wish.channel).context } != context {
            return Err(invalid("the channel of a CQ must be of its context"));
        }
        Some(found)
    };
    let options = CqOptions {
        cqe: wish.cqe,
        channel: used.map(|c| &c.ends.channel),
        comp_vector,
        one_thread: wish.one_thread,
        ignore_overrun: wish.ignore_overrun,
    };
    owner.card.shared.require_room(Numbered::Cq)?;
    let cq = owner.hca().create_cq(&options)?;
    let mut raw = ibv_cq_ex {
        context,
        channel: wish.channel,
        cq_context: wish.cq_context,
        handle: cq.cqn(),
        cqe: cq.cqe() as c_int,
        ..Default::default()
    };
    finish(&mut raw);
    let cqn = cq.cqn();
    let events = Arc::<Events>::default();
    let object = publish(CqObject {
        raw: CStruct::new(raw),
        cq,
        events: events.clone(),
        current: ShortLock::new(WorkCompletion::default(), wish.one_thread),
        channel,
        card: owner.card.clone(),
        _domain: wish.domain.clone(),
    })?;
    if let Some(channel) = used {
        channel.add_user();
    }
    let opened = std::ptr::from_ref(owner) as usize;
    owner
        .card
        .shared
        .announce(Numbered::Cq, cqn, object, opened, &events);
    Ok(object)
}

pub unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let cqe = u32::try_from(cqe).map_err(|_| invalid("cqe below 0"))?;
        let wish = CqWish {
            cqe,
            cq_context,
            channel,
            comp_vector: comp_vector.into(),
            domain: None,
            one_thread: None,
            ignore_overrun: false,
        };
        Ok(create(context, &wish, |_| ())?.cast())
    })
}

/// V-63. A size that the ring has already is granted and changes nothing.
pub unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first.
        let cq = unsafe { get(cq.cast::<CqObject>())? };
        let max = i64::from(max_cqe(&cq.card.shared.context.query_device()?));
        match cqe {
            cqe if cqe < 1 || i64::from(cqe) > max => {
                Err(invalid(format_args!("cqe {cqe}: must be 1 to {max}")))
            }
            cqe if cqe as u32 == cq.cq.cqe() => Ok(()),
            _ => {
                cq.cq.resize(cqe as u32)?;
                // SAFETY: it is still there, and the program's own view of it: who reads the number while another
                // thread changes it gets one of both, as of any card's library.
                unsafe { (&raw mut (*cq.raw.as_ptr()).cqe).write_volatile(cq.cq.cqe() as c_int) };
                Ok(())
            }
        }
    })
}

/// V-64: moderation, the only attribute that a CQ can change.
pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (cq, attr) = unsafe { (get(cq.cast::<CqObject>())?, attr.as_ref()) };
        let attr = attr.ok_or(Errno(libc::EINVAL))?;
        if attr.attr_mask != IBV_CQ_ATTR_MODERATE {
            return Err(invalid("ibv_modify_cq: no attribute but MODERATE"));
        }
        let asked = attr.moderate;
        let most = cq.card.shared.context.query_device()?;
        if asked.cq_count > most.max_cq_count() || asked.cq_period > most.max_cq_period_us() {
            return Err(invalid(format_args!(
                "ibv_modify_cq: cq_count {} and cq_period {} us: at most {} and {}",
                asked.cq_count,
                asked.cq_period,
                most.max_cq_count(),
                most.max_cq_period_us()
            )));
        }
        Ok(cq.cq.moderate(asked.cq_count, asked.cq_period)?)
    })
}

pub unsafe extern "C" fn destroy_cq(raw: *mut ibv_cq) -> c_int {
    status(|| {
        let object = raw.cast::<CqObject>();
        // SAFETY: looked up first.
        let cq = unsafe { get(object)? };
        destroyed(cq.cq.destroy())?;
        cq.card.shared.withdraw(Numbered::Cq, cq.cq.cqn(), object);
        cq.events.completion.wait();
        cq.events.asynchronous.wait();
        let cq = retire(object)?;
        if !cq.channel.is_null() {
            // SAFETY: a channel with users is not destroyed.
            unsafe { (*cq.channel).remove_user() };
        }
        Ok(())
    })
}

fn to_c(wc: &WorkCompletion) -> ibv_wc {
    let with_inv = u32::from(wc.wc_flags) & IBV_WC_WITH_INV != 0;
    ibv_wc {
        wr_id: wc.wr_id,
        status: u8::from(wc.status).into(),
        opcode: u8::from(wc.opcode).into(),
        vendor_err: wc.vendor_err.into(),
        byte_len: wc.byte_len,
        __bindgen_anon_1: ibv_wc__bindgen_ty_1 {
            imm_data: if with_inv {
                wc.imm_data
            } else {
                wc.imm_data.to_be()
            },
        },
        qp_num: wc.qp_num,
        src_qp: wc.src_qp,
        wc_flags: wc.wc_flags.into(),
        pkey_index: wc.pkey_index,
        slid: wc.slid,
        sl: wc.sl,
        dlid_path_bits: wc.dlid_path_bits,
    }
}

pub unsafe extern "C" fn poll_cq(raw: *mut ibv_cq, num_entries: c_int, out: *mut ibv_wc) -> c_int {
    count(|| {
        // SAFETY: the program's CQ; polling does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        let max = usize::try_from(num_entries).map_err(|_| Errno(libc::EINVAL))?;
        let got = cq.cq.poll_each(max, |at, wc| {
            // SAFETY: below `max`, the room in the program's array.
            unsafe { out.add(at).write(to_c(wc)) };
        })?;
        Ok(got as c_int)
    })
}

/// V-67, V-70.
pub unsafe extern "C" fn req_notify_cq(raw: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: the program's CQ; the data path does not look it up.
        let cq = unsafe { &*raw.cast::<CqObject>() };
        Ok(cq.cq.req_notify(solicited_only != 0)?)
    })
}
