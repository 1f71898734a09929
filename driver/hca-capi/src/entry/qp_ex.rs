//! The extended send interface: builders and setters between wr_start and wr_complete.

use std::ffi::{c_int, c_void};

use hca_abi::device_cap;
use hca_verbs::{DeviceAttr, Flush, SendOp, Service, Sge};

use crate::abi::*;
use crate::boundary::window::bind_op;
use crate::boundary::{Verb, set_errno, unsupported};
use crate::objects::ah;
use crate::objects::qp::{Inner, QpObject, WrFlush};
use crate::objects::section::{Section, To};

/// Names that verbs.h has from rdma-core 45 on.
const IBV_QP_EX_WITH_FLUSH: u32 = 1 << 11;
const IBV_FLUSH_RANGE: u8 = 0;
const IBV_FLUSH_MR: u8 = 1;

/// Builders by flag of send_ops_flags, as far as card and QP type can do them (V-179).
pub fn check_ops(device: &DeviceAttr, qp_type: ibv_qp_type, ops: u64) -> Verb<()> {
    let mut known = IBV_QP_EX_WITH_RDMA_WRITE
        | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        | IBV_QP_EX_WITH_SEND
        | IBV_QP_EX_WITH_SEND_WITH_IMM
        | IBV_QP_EX_WITH_RDMA_READ;
    if device.atomic_cap() != 0 {
        known |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    if device.device_cap_flags() & device_cap::ATOMIC_WRITE != 0 {
        known |= IBV_QP_EX_WITH_ATOMIC_WRITE;
    }
    if device.device_cap_flags() & device_cap::FLUSH_GLOBAL != 0 {
        known |= IBV_QP_EX_WITH_FLUSH;
    }
    if device.device_cap_flags() & u64::from(IBV_DEVICE_MEM_WINDOW) != 0 {
        known |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    }
    known &= match qp_type {
        IBV_QPT_UD => IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
        IBV_QPT_RAW_PACKET => IBV_QP_EX_WITH_SEND,
        IBV_QPT_UC => {
            !(IBV_QP_EX_WITH_RDMA_READ
                | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
                | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                | IBV_QP_EX_WITH_ATOMIC_WRITE
                | IBV_QP_EX_WITH_FLUSH
                | IBV_QP_EX_WITH_SEND_WITH_INV)
        }
        _ => known,
    };
    if ops & !u64::from(known) == 0 {
        Ok(())
    } else {
        Err(unsupported(format_args!(
            "send_ops_flags {ops:#x}: a QP of this type on this card can do {known:#x}"
        )))
    }
}

/// Only what was asked for, as ibv_create_qp_ex(3) says: another builder is NULL.
pub fn set_functions(qp: &mut ibv_qp_ex, service: Service, ops: u64) {
    let has = |flag: u32| ops & u64::from(flag) != 0;
    macro_rules! builders {
        ($($flag:ident => $slot:ident,)*) => {
            $(if has($flag) {
                qp.$slot = Some($slot);
            })*
        };
    }
    builders! {
        IBV_QP_EX_WITH_RDMA_WRITE => wr_rdma_write,
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM => wr_rdma_write_imm,
        IBV_QP_EX_WITH_SEND => wr_send,
        IBV_QP_EX_WITH_SEND_WITH_IMM => wr_send_imm,
        IBV_QP_EX_WITH_SEND_WITH_INV => wr_send_inv,
        IBV_QP_EX_WITH_BIND_MW => wr_bind_mw,
        IBV_QP_EX_WITH_LOCAL_INV => wr_local_inv,
        IBV_QP_EX_WITH_RDMA_READ => wr_rdma_read,
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP => wr_atomic_cmp_swp,
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD => wr_atomic_fetch_add,
        IBV_QP_EX_WITH_ATOMIC_WRITE => wr_atomic_write,
    }
    match service {
        Service::Ud => qp.wr_set_ud_addr = Some(wr_set_ud_addr),
        Service::Xrc => qp.wr_set_xrc_srqn = Some(wr_set_xrc_srqn),
        _ => {}
    }
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
}

/// The builder of FLUSH, which stands behind the others.
pub fn flush_of(ops: u64) -> Option<WrFlush> {
    (ops & u64::from(IBV_QP_EX_WITH_FLUSH) != 0).then_some(wr_flush)
}

/// Runs `f` on the section that wr_start has opened.
///
/// # Safety
/// An extended QP of the program, in a section of this thread.
unsafe fn in_section<R>(qp: *mut ibv_qp_ex, f: impl FnOnce(&mut Section) -> R) -> R {
    // SAFETY: the section holds the QP's lock, and no closure calls back.
    unsafe {
        (*qp.cast::<QpObject>())
            .inner
            .inside(|inner| f(&mut inner.section))
    }
}

/// # Safety
/// As [`in_section`].
unsafe fn build(qp: *mut ibv_qp_ex, op: SendOp) {
    // SAFETY: as the caller says; the program has set both fields before.
    unsafe {
        let (wr_id, wr_flags) = ((*qp).wr_id, (*qp).wr_flags);
        in_section(qp, |section| section.build(wr_id, wr_flags, op));
    }
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP.
    unsafe {
        (*qp.cast::<QpObject>()).inner.open();
        in_section(qp, Section::reserve);
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP, in a section, which ends here.
    unsafe {
        in_section(qp, Section::clear);
        (*qp.cast::<QpObject>()).inner.close();
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program's QP, in a section, which ends here.
    let result = unsafe {
        let qp = &*qp.cast::<QpObject>();
        let result = qp.inner.inside(|Inner { qp, section }| {
            let posted = qp.own().and_then(|qp| section.post(qp));
            section.clear();
            posted
        });
        qp.inner.close();
        result
    };
    result.map_or_else(
        |errno| {
            set_errno(errno);
            errno.0
        },
        |()| 0,
    )
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP, in a section.
    unsafe { build(qp, SendOp::Send) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, imm_data: __be32) {
    // SAFETY: the program's QP, in a section.
    unsafe {
        build(
            qp,
            SendOp::SendWithImm {
                imm_data: u32::from_be(imm_data),
            },
        )
    };
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: the program's QP, in a section.
    unsafe { build(qp, SendOp::SendWithInv { invalidate_rkey }) };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the program's QP, in a section, its window, and its description of what to bind it to.
    unsafe {
        match info.as_ref().map(|info| bind_op(mw, rkey, info)) {
            Some(Ok(op)) => build(qp, op),
            _ => in_section(qp, |section| section.fail(libc::EINVAL)),
        }
    };
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, invalidate_rkey: u32) {
    // SAFETY: the program's QP, in a section.
    unsafe { build(qp, SendOp::LocalInv { invalidate_rkey }) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) {
    // SAFETY: the program's QP, in a section.
    unsafe { build(qp, SendOp::RdmaWrite { remote_addr, rkey }) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, imm_data: __be32) {
    let imm_data = u32::from_be(imm_data);
    // SAFETY: the program's QP, in a section.
    unsafe {
        build(
            qp,
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
        )
    };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64) {
    // SAFETY: the program's QP, in a section.
    unsafe { build(qp, SendOp::RdmaRead { remote_addr, rkey }) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    // SAFETY: the program's QP, in a section.
    unsafe {
        build(
            qp,
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare,
                swap,
            },
        )
    };
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, add: u64) {
    // SAFETY: the program's QP, in a section.
    unsafe {
        build(
            qp,
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
            },
        )
    };
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    atomic_wr: *const c_void,
) {
    // SAFETY: the program's QP, in a section, and its eight bytes, which need not be aligned.
    unsafe {
        build(qp, SendOp::AtomicWrite { remote_addr, rkey });
        let bytes = atomic_wr.cast::<[u8; 8]>().read();
        in_section(qp, |section| section.set_operand(bytes));
    }
}

unsafe extern "C" fn wr_flush(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    len: usize,
    placement: u8,
    selectivity: u8,
) {
    let length = u32::try_from(len);
    let flush = Flush {
        remote_addr,
        rkey,
        length: length.unwrap_or_default(),
        placement,
        whole_region: selectivity == IBV_FLUSH_MR,
    };
    // SAFETY: the program's QP, in a section.
    unsafe {
        build(qp, SendOp::Flush(flush));
        // The placement type is judged with the ring.
        if length.is_err() || !matches!(selectivity, IBV_FLUSH_RANGE | IBV_FLUSH_MR) {
            in_section(qp, |section| section.fail(libc::EINVAL));
        }
    }
}

unsafe extern "C" fn wr_set_ud_addr(
    qp: *mut ibv_qp_ex,
    handle: *mut ibv_ah,
    remote_qpn: u32,
    remote_qkey: u32,
) {
    // SAFETY: the program's QP, in a section, and its handle, or NULL.
    unsafe {
        in_section(qp, |section| {
            if handle.is_null() {
                return section.fail(libc::EINVAL);
            }
            section.set_destination(To {
                address: *ah::vector(handle),
                remote_qpn,
                remote_qkey,
            });
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: the program's QP, in a section.
    unsafe { in_section(qp, |section| section.set_remote_srqn(remote_srqn)) };
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the program's QP, in a section.
    unsafe {
        in_section(qp, |section| {
            section.set_sges(std::iter::once(Sge { addr, length, lkey }))
        })
    };
}

/// A list of the program; none if it is empty.
///
/// # Safety
/// `count` elements at `list`, unless `count` is 0.
unsafe fn list_of<'a, T>(list: *const T, count: usize) -> &'a [T] {
    if count == 0 || list.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(list, count) }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, num_sge: usize, list: *const ibv_sge) {
    // SAFETY: the program's QP, in a section, and its list.
    unsafe {
        let list = list_of(list, num_sge).iter().map(|sge| Sge {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        });
        in_section(qp, |section| section.set_sges(list));
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the program's QP, in a section, and its buffer.
    unsafe {
        let bytes = list_of(addr.cast::<u8>(), length);
        in_section(qp, |section| section.set_inline(std::iter::once(bytes)));
    }
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, num_buf: usize, list: *const ibv_data_buf) {
    // SAFETY: the program's QP, in a section, and its list, whose elements name buffers of the program.
    unsafe {
        let list = list_of(list, num_buf).iter();
        let pieces = list.map(|buf| list_of(buf.addr.cast::<u8>(), buf.length));
        in_section(qp, |section| section.set_inline(pieces));
    }
}
