//! Open devices, with the tables of functions that the inline functions of verbs.h call.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::abi::*;
use crate::boundary::live::{CStruct, get, lock, publish, retire};
use crate::boundary::pipe::{EventPipe, eventfd};
use crate::boundary::{Errno, Verb, count, pointer};
use crate::entry::{counters, cq, cq_ex, device_memory, flow, memory, post, qp, query, srq, window, wq, xrc};
use crate::objects::card::Card;
use crate::objects::context::{ContextObject, object_of};
use crate::objects::device::device_of;

/// The mark of an extended context: (void *)-1.
const EXTENDED: *mut std::ffi::c_void = usize::MAX as *mut std::ffi::c_void;

/// What is absent stays NULL: the inline functions of verbs.h then report EOPNOTSUPP.
fn tables(device: *mut ibv_device, cmd_fd: RawFd, async_fd: RawFd, comp_vectors: u16) -> verbs_context {
    let ops = ibv_context_ops {
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        post_srq_recv: Some(post::post_srq_recv),
        alloc_mw: Some(window::alloc_mw),
        bind_mw: Some(window::bind_mw),
        dealloc_mw: Some(window::dealloc_mw),
        ..Default::default()
    };
    let context = ibv_context {
        device,
        ops,
        cmd_fd,
        async_fd,
        num_comp_vectors: comp_vectors.into(),
        abi_compat: EXTENDED,
        ..Default::default()
    };
    verbs_context {
        query_port: Some(query::query_port_len),
        query_device_ex: Some(query::query_device_ex),
        query_rt_values: Some(query::query_rt_values),
        modify_cq: Some(cq::modify_cq),
        alloc_null_mr: Some(memory::alloc_null_mr),
        alloc_dm: Some(device_memory::alloc_dm),
        free_dm: Some(device_memory::free_dm),
        reg_dm_mr: Some(device_memory::reg_dm_mr),
        alloc_td: Some(memory::alloc_td),
        dealloc_td: Some(memory::dealloc_td),
        alloc_parent_domain: Some(memory::alloc_parent_domain),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        create_qp_ex: Some(qp::create_qp_ex),
        ibv_create_flow: Some(flow::create_flow),
        ibv_destroy_flow: Some(flow::destroy_flow),
        create_counters: Some(counters::create_counters),
        destroy_counters: Some(counters::destroy_counters),
        attach_counters_point_flow: Some(counters::attach_counters_point_flow),
        read_counters: Some(counters::read_counters),
        create_wq: Some(wq::create_wq),
        modify_wq: Some(wq::modify_wq),
        destroy_wq: Some(wq::destroy_wq),
        create_rwq_ind_table: Some(wq::create_rwq_ind_table),
        destroy_rwq_ind_table: Some(wq::destroy_rwq_ind_table),
        open_qp: Some(xrc::open_qp),
        create_srq_ex: Some(srq::create_srq_ex),
        get_srq_num: Some(srq::get_srq_num),
        open_xrcd: Some(xrc::open_xrcd),
        close_xrcd: Some(xrc::close_xrcd),
        sz: size_of::<verbs_context>(),
        context,
        ..Default::default()
    }
}

pub unsafe extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: as device_of says.
        let number = unsafe { device_of(device)? }.number();
        let card = Card::open(number)?;
        let cmd_fd = eventfd().map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
        open_of(device, card, cmd_fd, EventPipe::new()?)
    })
}

/// One more open of a card.
pub fn open_of(
    device: *mut ibv_device,
    card: Arc<Card>,
    cmd_fd: OwnedFd,
    pipe: EventPipe<16>,
) -> Verb<*mut ibv_context> {
    let pipe = Arc::new(pipe);
    let comp_vectors = card.shared.context.comp_vectors();
    let object = publish(ContextObject {
        verbs: CStruct::new(tables(device, cmd_fd.as_raw_fd(), pipe.fd(), comp_vectors)),
        pipe,
        cmd_fd,
        card,
    })?;
    // SAFETY: just published, and the program does not have it yet.
    let context = unsafe { &*object };
    lock(&context.card.shared.targets).add_context(object as usize, &context.pipe);
    // A pointer into the whole object: from it the object is found again.
    // SAFETY: as above.
    Ok(unsafe { &raw mut (*object.cast::<verbs_context>()).context })
}

/// V-26: objects that are left keep working until the process ends; the card is released with the last of them.
pub unsafe extern "C" fn close_device(raw: *mut ibv_context) -> c_int {
    count(|| {
        let object = object_of(raw);
        // SAFETY: the program closes it once; a second call finds nothing.
        let card = unsafe { get(object)? }.card.clone();
        lock(&card.shared.targets).remove_context(object as usize);
        drop(retire(object)?);
        Ok(0)
    })
}
