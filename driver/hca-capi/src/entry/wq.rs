//! Receive work queues and their indirection tables (V-90 to V-94).

use std::ffi::c_int;
use std::sync::Arc;

use hca_dev::ShortLock;
use hca_verbs::WqState;

use crate::abi::*;
use crate::boundary::live::{CStruct, get, publish, retire};
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, status, status_with_room, unsupported};
use crate::entry::post::post_receives;
use crate::objects::context::context_of;
use crate::objects::cq::CqObject;
use crate::objects::events::{Events, Numbered};
use crate::objects::memory::{PdObject, is_in_use};
use crate::objects::wq::{IndTableObject, WqObject};

pub unsafe extern "C" fn create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq {
    pointer(|| {
        // SAFETY: the program's structure, or NULL; what it names is looked up first.
        let (attr, domain, cq) = unsafe {
            let attr = attr.as_mut().ok_or(Errno(libc::EINVAL))?;
            let domain = get(attr.pd.cast::<PdObject>())?;
            let cq = get(attr.cq.cast::<CqObject>())?;
            (attr, domain, cq)
        };
        let has_flags = attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS != 0;
        if attr.comp_mask & !IBV_WQ_INIT_ATTR_FLAGS != 0 || (has_flags && attr.create_flags != 0) {
            return Err(unsupported("ibv_create_wq: no create_flags are there"));
        }
        if attr.wq_type != IBV_WQT_RQ {
            return Err(invalid("ibv_create_wq: WQs are of type RQ"));
        }
        // SAFETY: both were just found.
        if unsafe { (*attr.pd).context != context || (*attr.cq).context != context } {
            return Err(invalid("ibv_create_wq: PD and CQ must be of the context"));
        }
        // SAFETY: as context_of says.
        let owner = unsafe { context_of(context)? };
        let shared = &owner.card.shared;
        shared.require_room(Numbered::Wq)?;
        let wq = domain.pd.create_wq(&cq.cq, attr.max_wr, attr.max_sge)?;
        (attr.max_wr, attr.max_sge) = (wq.cap().max_recv_wr, wq.cap().max_recv_sge);
        let raw = ibv_wq {
            context,
            wq_context: attr.wq_context,
            pd: attr.pd,
            cq: attr.cq,
            wq_num: wq.wq_num(),
            handle: wq.wq_num(),
            state: IBV_WQS_RESET,
            wq_type: IBV_WQT_RQ,
            post_recv: Some(post_recv),
            ..Default::default()
        };
        let (wq_num, events) = (wq.wq_num(), Arc::<Events>::default());
        let object = publish(WqObject {
            raw: CStruct::new(raw),
            inner: ShortLock::new(wq, domain.one_thread()),
            events: events.clone(),
            wq_num,
            card: owner.card.clone(),
            users: Arc::default(),
            _domain: domain.hold(),
        })?;
        let opened = std::ptr::from_ref(owner) as usize;
        shared.announce(Numbered::Wq, wq_num, object, opened, &events);
        Ok(object.cast())
    })
}

unsafe extern "C" fn post_recv(
    wq: *mut ibv_wq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's WQ; posting does not look it up.
        let wq = unsafe { &*wq.cast::<WqObject>() };
        wq.inner
            .with(|inner| post_receives(wr, bad_wr, |list| inner.post_recv_iter(list)))
    })
}

fn state_of(state: ibv_wq_state) -> Verb<WqState> {
    Ok(match state {
        IBV_WQS_RESET => WqState::Reset,
        IBV_WQS_RDY => WqState::Rdy,
        IBV_WQS_ERR => WqState::Err,
        _ => {
            return Err(invalid(format_args!(
                "WQ state {state}: there are RESET, RDY and ERR"
            )));
        }
    })
}

pub unsafe extern "C" fn modify_wq(raw: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int {
    const KNOWN: u32 = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
    status_with_room(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (wq, attr) = unsafe {
            (
                get(raw.cast::<WqObject>())?,
                attr.as_ref().ok_or(Errno(libc::EINVAL))?,
            )
        };
        if attr.attr_mask & !KNOWN != 0 {
            return Err(unsupported("ibv_modify_wq: only states can change"));
        }
        let has = |bit| attr.attr_mask & bit != 0;
        let current = has(IBV_WQ_ATTR_CURR_STATE).then(|| state_of(attr.curr_wq_state));
        let current = current.transpose()?;
        let next = has(IBV_WQ_ATTR_STATE)
            .then(|| state_of(attr.wq_state))
            .transpose()?;
        wq.inner.with(|inner| {
            if current.is_some_and(|current| current != inner.state()) {
                return Err(invalid("ibv_modify_wq: the WQ is in another state"));
            }
            Ok(next.map_or(Ok(()), |next| inner.modify(next))?)
        })?;
        if has(IBV_WQ_ATTR_STATE) {
            // SAFETY: the program's structure; this field is ours to write.
            unsafe { (*wq.raw.as_ptr()).state = attr.wq_state };
        }
        Ok(())
    })
}

pub unsafe extern "C" fn destroy_wq(raw: *mut ibv_wq) -> c_int {
    status(|| {
        let object = raw.cast::<WqObject>();
        // SAFETY: looked up first.
        let wq = unsafe { get(object)? };
        if is_in_use(&wq.users) {
            return Err(Errno(libc::EBUSY));
        }
        destroyed(wq.inner.with(|inner| inner.destroy()))?;
        wq.card.shared.withdraw(Numbered::Wq, wq.wq_num, object);
        wq.events.asynchronous.wait();
        drop(retire(object)?);
        Ok(())
    })
}

pub unsafe extern "C" fn create_rwq_ind_table(
    context: *mut ibv_context,
    attr: *mut ibv_rwq_ind_table_init_attr,
) -> *mut ibv_rwq_ind_table {
    pointer(|| {
        // SAFETY: the program's structure, or NULL; as context_of says.
        let (attr, owner) = unsafe { (attr.as_ref().ok_or(Errno(libc::EINVAL))?, context_of(context)?) };
        if attr.comp_mask != 0 {
            return Err(unsupported("ibv_create_rwq_ind_table: no comp_mask"));
        }
        let most = u32::from(owner.hca().query_device()?.rss_entries());
        if most == 0 {
            return Err(unsupported("ibv_create_rwq_ind_table: frames are function 0's"));
        }
        let entries = 1u32.checked_shl(attr.log_ind_tbl_size).filter(|n| *n <= most);
        let entries = entries.ok_or_else(|| {
            invalid(format_args!(
                "ibv_create_rwq_ind_table: log_ind_tbl_size {}, a table has {most} entries at most",
                attr.log_ind_tbl_size
            ))
        })?;
        if attr.ind_tbl.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        let (mut wq_nums, mut queues, mut pd) = (Vec::new(), Vec::new(), None);
        for at in 0..entries as usize {
            // SAFETY: the program says that there are so many; each is looked up first.
            let (raw, wq) = unsafe {
                let raw = *attr.ind_tbl.add(at);
                (raw, get(raw.cast::<WqObject>())?)
            };
            // SAFETY: just found, and fields that nobody changes.
            let (of, in_context) = unsafe { ((*raw).pd, (*raw).context) };
            if in_context != context || *pd.get_or_insert(of) != of {
                return Err(invalid(
                    "ibv_create_rwq_ind_table: all WQs must be of the context, and of one PD",
                ));
            }
            wq_nums.push(wq.inner.with(|inner| inner.wq_num()));
            queues.push(wq.users.clone());
        }
        let raw = ibv_rwq_ind_table {
            context,
            ..Default::default()
        };
        Ok(publish(IndTableObject {
            raw: CStruct::new(raw),
            wq_nums,
            _queues: queues,
            users: Arc::default(),
        })?
        .cast())
    })
}

pub unsafe extern "C" fn destroy_rwq_ind_table(raw: *mut ibv_rwq_ind_table) -> c_int {
    status(|| {
        let object = raw.cast::<IndTableObject>();
        // SAFETY: looked up first.
        if is_in_use(unsafe { &get(object)?.users }) {
            return Err(Errno(libc::EBUSY));
        }
        drop(retire(object)?);
        Ok(())
    })
}
