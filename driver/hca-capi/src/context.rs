//! Open devices, with the tables of functions that the inline functions of verbs.h call.

use std::ffi::c_int;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::abi::*;
use crate::boundary::{Errno, Verb, count, invalid, pointer};
use crate::card::Card;
use crate::device::device_of;
use crate::live::{CStruct, Kind, Object, get, lock, publish, retire};
use crate::pipe::{EventPipe, eventfd};
use crate::{cq, cq_ex, post, qp, query, window};

/// An open device. The program's pointer is that of the last field of `verbs`.
#[repr(C)]
pub struct ContextObject {
    verbs: CStruct<verbs_context>,
    /// Asynchronous events.
    pub pipe: EventPipe<16>,
    /// What the program sees as `cmd_fd`: programs duplicate and poll it. There is no kernel driver behind it, so that
    /// every ioctl fails.
    _cmd_fd: OwnedFd,
    /// The card, claimed as long as any open of it lives.
    pub card: Arc<Card>,
}

impl Object for ContextObject {
    const KIND: Kind = Kind::Context;
}

impl ContextObject {
    /// The Rust context.
    pub fn hca(&self) -> &hca_verbs::Context<crate::sockets::DevPtr> {
        &self.card.shared.context
    }

    /// The descriptor as the program sees it.
    pub fn async_fd(&self) -> RawFd {
        self.pipe.fd()
    }
}

/// The object around the structure that the program holds.
fn object_of(raw: *mut ibv_context) -> *mut ContextObject {
    raw.wrapping_byte_sub(offset_of!(verbs_context, context)).cast()
}

/// The open device behind a pointer of the program.
///
/// # Safety
/// The program does not close it while the reference lives.
pub unsafe fn context_of<'a>(raw: *mut ibv_context) -> Verb<&'a ContextObject> {
    // SAFETY: looked up first.
    unsafe { get(object_of(raw)) }
}

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
        create_cq_ex: Some(cq_ex::create_cq_ex),
        create_qp_ex: Some(qp::create_qp_ex),
        sz: size_of::<verbs_context>(),
        context,
        ..Default::default()
    }
}

pub unsafe extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: as device_of says.
        let number = unsafe { device_of(device)? }.number();
        let (card, pipe) = (Card::open(number)?, EventPipe::new()?);
        let cmd_fd = eventfd().map_err(|e| Errno(e.raw_os_error().unwrap_or(libc::EIO)))?;
        let comp_vectors = card.shared.context.comp_vectors();
        let object = publish(Box::new(ContextObject {
            verbs: CStruct::new(tables(device, cmd_fd.as_raw_fd(), pipe.fd(), comp_vectors)),
            pipe,
            _cmd_fd: cmd_fd,
            card,
        }));
        // SAFETY: just published, and the program does not have it yet.
        let context = unsafe { &*object };
        lock(&context.card.shared.targets).contexts.push(object as usize);
        // A pointer into the whole object: from it the object is found again.
        // SAFETY: as above.
        Ok(unsafe { &raw mut (*object.cast::<verbs_context>()).context })
    })
}

/// V-26: objects that are left keep working until the process ends; the card is released with the last of them.
pub unsafe extern "C" fn close_device(raw: *mut ibv_context) -> c_int {
    count(|| {
        let object = object_of(raw);
        // SAFETY: the program closes it once; a second call finds nothing.
        let card = unsafe { get(object)? }.card.clone();
        lock(&card.shared.targets)
            .contexts
            .retain(|context| *context != object as usize);
        drop(retire(object)?);
        Ok(0)
    })
}

/// A port that exists.
pub fn check_port(context: &ContextObject, port_num: u8) -> Verb<()> {
    let ports = context.hca().query_device()?.phys_port_cnt();
    if (1..=ports).contains(&port_num) {
        Ok(())
    } else {
        Err(invalid(&format!(
            "port {port_num}: the card has ports 1 to {ports}"
        )))
    }
}

/// For verbs that write through a pointer.
///
/// # Safety
/// `pointer` is NULL or the program's, writable for a `T`.
pub unsafe fn put<T>(pointer: *mut T, value: T) -> Verb<()> {
    if pointer.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller vouches for it.
    unsafe { pointer.write(value) };
    Ok(())
}
