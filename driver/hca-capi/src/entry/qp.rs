//! Queue pairs: create, modify, query, destroy.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use hca_dev::{OneThread, ShortLock};
use hca_verbs::{QpOptions, RawQp, Service};

use crate::abi::*;
use crate::boundary::convert::{cap_from_c, cap_to_c, qp_attr_from_c, qp_attr_to_c};
use crate::boundary::live::{CStruct, get, lock, publish, retire};
use crate::boundary::{Errno, Verb, destroyed, invalid, pointer, put, status, status_with_room, unsupported};
use crate::cards::DevPtr;
use crate::entry::{qp_ex, rss};
use crate::objects::context::{ContextObject, context_of};
use crate::objects::cq::CqObject;
use crate::objects::events::{Events, Numbered};
use crate::objects::memory::{Hold, PdObject};
use crate::objects::names::SharedTarget;
use crate::objects::qp::{AnyQp, Inner, NO_QUEUES, QpObject, WrFlush};
use crate::objects::section::Section;
use crate::objects::srq::srq_of;
use crate::objects::xrc::XrcdObject;

/// The kernel's type of QP1, for the connection manager's library; no header of user space has it.
const QPT_GSI: ibv_qp_type = 1;
/// And of QP0, for libibumad.
const QPT_SMI: ibv_qp_type = 0;

/// Services by QP type. Of these a card has what it has; the others no card of ours can have.
fn service_of(qp_type: ibv_qp_type) -> Verb<hca_abi::Service> {
    match qp_type {
        IBV_QPT_RC => Ok(hca_abi::Service::Rc),
        IBV_QPT_UC => Ok(hca_abi::Service::Uc),
        IBV_QPT_UD | QPT_GSI | QPT_SMI => Ok(hca_abi::Service::Ud),
        IBV_QPT_XRC_SEND => Ok(hca_abi::Service::Xrc),
        IBV_QPT_XRC_RECV => Err(invalid(
            "a QP of type XRC_RECV needs an XRC domain: ibv_create_qp_ex",
        )),
        IBV_QPT_RAW_PACKET => Ok(hca_abi::Service::Raw),
        IBV_QPT_DRIVER => Err(unsupported(format_args!("QP type {qp_type}"))),
        _ => Err(invalid(format_args!("QP type {qp_type} does not exist"))),
    }
}

fn create(pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr, send_ops: Option<u64>) -> Verb<*mut QpObject> {
    let service = service_of(attr.qp_type)?;
    // An initiator of XRC receives nothing.
    let recv_cq = if service == Service::Xrc {
        attr.send_cq
    } else {
        attr.recv_cq
    };
    // SAFETY: each is looked up first.
    let (domain, send, recv) = unsafe {
        let (send, recv) = (attr.send_cq.cast::<CqObject>(), recv_cq.cast::<CqObject>());
        (get(pd.cast::<PdObject>())?, get(send)?, get(recv)?)
    };
    // SAFETY: the PD's context is open.
    let context = unsafe { (*pd).context };
    // SAFETY: as context_of says.
    let owner = unsafe { context_of(context)? };
    // SAFETY: both were just found.
    if unsafe { (*attr.send_cq).context != context || (*recv_cq).context != context } {
        return Err(invalid(
            "the CQs of a QP must be of the context that its PD is of",
        ));
    }
    // SAFETY: the program does not destroy it meanwhile.
    let srq = unsafe { srq_of(attr.srq, context)? };
    if service == Service::Xrc && srq.is_some() {
        return Err(invalid(
            "an initiator of XRC has no SRQ: its work requests name the peer's",
        ));
    }
    let options = QpOptions {
        send_cq: &send.cq,
        recv_cq: &recv.cq,
        srq,
        cap: cap_from_c(&attr.cap),
        service,
        is_gsi: attr.qp_type == QPT_GSI,
        is_smi: attr.qp_type == QPT_SMI,
        sq_sig_all: attr.sq_sig_all != 0,
    };
    let qp = domain.pd.create_raw_qp(&options)?;
    let (qp_num, cap) = (qp.qp_num(), qp.cap());
    attr.cap = cap_to_c(cap);
    let mut raw = ibv_qp_ex {
        qp_base: ibv_qp {
            context,
            qp_context: attr.qp_context,
            pd,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            handle: qp_num,
            qp_num: match (options.is_smi, options.is_gsi) {
                (true, _) => hca_wire::QPN_SMI,
                (_, true) => hca_wire::QPN_GSI,
                _ => qp_num,
            },
            state: IBV_QPS_RESET,
            qp_type: attr.qp_type,
            ..Default::default()
        },
        ..Default::default()
    };
    let mut wr_flush = None;
    if let Some(ops) = send_ops {
        qp_ex::set_functions(&mut raw, service, ops);
        wr_flush = qp_ex::flush_of(ops);
    }
    let inner = Inner {
        qp: AnyQp::Own(qp),
        section: Section::new(cap, service),
    };
    hand_out(
        owner,
        (raw, wr_flush),
        inner,
        qp_num,
        send_ops.is_some(),
        attr.sq_sig_all,
        (domain.hold(), domain.one_thread()),
    )
}

fn hand_out(
    owner: &ContextObject,
    (raw, wr_flush): (ibv_qp_ex, Option<WrFlush>),
    inner: Inner,
    qp_num: u32,
    is_ex: bool,
    sq_sig_all: c_int,
    (domain, one_thread): (Option<Hold>, Option<OneThread>),
) -> Verb<*mut QpObject> {
    owner.card.shared.require_room(Numbered::Qp)?;
    let events = Arc::<Events>::default();
    let object = publish(QpObject {
        raw: CStruct::new(raw),
        wr_flush: CStruct::new(wr_flush),
        inner: ShortLock::new(inner, one_thread),
        events: events.clone(),
        qp_num,
        is_ex,
        sq_sig_all,
        card: owner.card.clone(),
        _domain: domain,
    })?;
    let shared = &owner.card.shared;
    let opened = std::ptr::from_ref(owner) as usize;
    shared.announce(Numbered::Qp, qp_num, object, opened, &events);
    Ok(object)
}

/// One more handle of a target of XRC.
pub fn hand_out_target(
    context: *mut ibv_context,
    owner: &ContextObject,
    target: Arc<SharedTarget>,
    qp_context: *mut c_void,
    state: ibv_qp_state,
) -> Verb<*mut QpObject> {
    let qp_num = lock(&target.qp).qp_num();
    let raw = ibv_qp_ex {
        qp_base: ibv_qp {
            context,
            qp_context,
            handle: qp_num,
            qp_num,
            state,
            qp_type: IBV_QPT_XRC_RECV,
            ..Default::default()
        },
        ..Default::default()
    };
    let inner = Inner {
        qp: AnyQp::Target(target),
        section: Section::new(NO_QUEUES, Service::Xrc),
    };
    hand_out(owner, (raw, None), inner, qp_num, false, 0, (None, None))
}

/// V-114 with IBV_QPT_XRC_RECV: of an XRC domain; no PD, CQs, SRQ or sizes count.
fn create_target(context: *mut ibv_context, attr: &mut ibv_qp_init_attr_ex) -> Verb<*mut QpObject> {
    if attr.comp_mask != IBV_QP_INIT_ATTR_XRCD {
        return Err(invalid(
            "ibv_create_qp_ex: a QP of type XRC_RECV is made with an XRC domain, and nothing else",
        ));
    }
    // SAFETY: as context_of says; looked up first.
    let (owner, domain) = unsafe { (context_of(context)?, get(attr.xrcd.cast::<XrcdObject>())?) };
    let target = domain.create_target(owner)?;
    attr.cap = cap_to_c(NO_QUEUES);
    hand_out_target(context, owner, target, attr.qp_context, IBV_QPS_RESET)
}

pub unsafe extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        Ok(create(pd, attr, None)?.cast())
    })
}

pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    pointer(|| {
        // SAFETY: the program's structure, or NULL.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        if attr.qp_type == IBV_QPT_XRC_RECV {
            return Ok(create_target(context, attr)?.cast());
        }
        if attr.comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH) != 0 {
            return Ok(rss::create(context, attr)?.cast());
        }
        let has = |bit| attr.comp_mask & bit != 0;
        if attr.comp_mask & !KNOWN != 0 || (has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0) {
            return Err(unsupported(
                "ibv_create_qp_ex: comp_mask beyond PD and SEND_OPS_FLAGS, or create_flags",
            ));
        }
        if !has(IBV_QP_INIT_ATTR_PD) {
            return Err(invalid("ibv_create_qp_ex: no PD"));
        }
        let send_ops = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
        if let Some(ops) = send_ops {
            // SAFETY: as context_of says.
            let device = unsafe { context_of(context)? }.hca().query_device()?;
            qp_ex::check_ops(&device, attr.qp_type, ops)?;
        }
        let mut plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        let object = create(attr.pd, &mut plain, send_ops)?;
        attr.cap = plain.cap;
        Ok(object.cast())
    })
}

/// NULL for a QP that was made without send_ops_flags.
pub unsafe extern "C" fn qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    pointer(|| {
        // SAFETY: looked up first.
        let is_ex = unsafe { get(qp.cast::<QpObject>())? }.is_ex;
        if is_ex {
            Ok(qp.cast())
        } else {
            Err(Errno(libc::EOPNOTSUPP))
        }
    })
}

pub unsafe extern "C" fn modify_qp(raw: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (qp, attr) = unsafe { (get(raw.cast::<QpObject>())?, attr.as_ref()) };
        let (attr, mask) = qp_attr_from_c(attr.ok_or(Errno(libc::EINVAL))?, mask as u32)?;
        qp.inner.with(|inner| inner.qp.modify(&attr, mask))?;
        if mask.contains(hca_verbs::QpAttrMask::STATE) {
            // SAFETY: the program's structure; this field is ours to write.
            unsafe { (*qp.raw.as_ptr()).qp_base.state = u8::from(attr.qp_state).into() };
        }
        Ok(())
    })
}

pub unsafe extern "C" fn query_qp(
    raw: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    status_with_room(|| {
        // SAFETY: looked up first.
        let qp = unsafe { get(raw.cast::<QpObject>())? };
        let (found, cap) = qp.inner.with(|inner| {
            let found = inner.qp.query();
            found.map(|found| (found, cap_to_c(inner.qp.cap())))
        })?;
        // SAFETY: the program's structures.
        unsafe {
            let base = &raw mut (*qp.raw.as_ptr()).qp_base;
            (*base).state = u8::from(found.qp_state).into();
            let init = ibv_qp_init_attr {
                qp_context: (*base).qp_context,
                send_cq: (*base).send_cq,
                recv_cq: (*base).recv_cq,
                srq: (*base).srq,
                cap,
                qp_type: (*base).qp_type,
                sq_sig_all: qp.sq_sig_all,
            };
            put(
                attr,
                ibv_qp_attr {
                    cap,
                    ..qp_attr_to_c(&found)
                },
            )?;
            put(init_attr, init)
        }
    })
}

/// MC-3: the GID says which group; on InfiniBand the LID goes with it.
fn change_mcast(
    raw: *mut ibv_qp,
    gid: *const ibv_gid,
    change: impl FnOnce(&RawQp<DevPtr>, [u8; 16]) -> hca_verbs::Result<()>,
) -> c_int {
    status(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let (qp, gid) = unsafe { (get(raw.cast::<QpObject>())?, gid.as_ref()) };
        // SAFETY: any bytes are a GID.
        let mgid = unsafe { gid.ok_or(Errno(libc::EINVAL))?.raw };
        qp.inner.with(|inner| Ok(change(inner.qp.own()?, mgid)?))
    })
}

pub unsafe extern "C" fn attach_mcast(raw: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    change_mcast(raw, gid, RawQp::attach_mcast)
}

pub unsafe extern "C" fn detach_mcast(raw: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    change_mcast(raw, gid, RawQp::detach_mcast)
}

pub unsafe extern "C" fn destroy_qp(raw: *mut ibv_qp) -> c_int {
    status(|| {
        let object = raw.cast::<QpObject>();
        // SAFETY: looked up first.
        let qp = unsafe { get(object)? };
        destroyed(qp.inner.with(|inner| match &mut inner.qp {
            AnyQp::Own(own) => own.destroy(),
            AnyQp::Target(target) => lock(&qp.card.shared.names).drop_target(target),
            AnyQp::Spread { qp, .. } => qp.destroy(),
        }))?;
        qp.card.shared.withdraw(Numbered::Qp, qp.qp_num, object);
        qp.events.asynchronous.wait();
        drop(retire(object)?);
        Ok(())
    })
}

/// No options: the card knows no enhanced connection establishment.
pub unsafe extern "C" fn query_ece(raw: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        unsafe {
            get(raw.cast::<QpObject>())?;
            put(ece, ibv_ece::default())
        }
    })
}

/// Nobody's options can be had here but none.
pub unsafe extern "C" fn set_ece(raw: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: looked up first; the program's structure, or NULL.
        let ece = unsafe {
            get(raw.cast::<QpObject>())?;
            ece.as_ref().ok_or(Errno(libc::EINVAL))?
        };
        if (ece.vendor_id, ece.options, ece.comp_mask) != (0, 0, 0) {
            return Err(invalid("ibv_set_ece: this card has no options"));
        }
        Ok(())
    })
}
