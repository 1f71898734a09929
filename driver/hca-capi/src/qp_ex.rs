//! The extended send interface: builders and setters between wr_start and wr_complete.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use hca_verbs::{
    AddressVector, Datagram, Destination, DeviceAttr, QpCap, RawQp, SendFlags, SendOp, SendWr, Sge, WrData,
};

use crate::abi::*;
use crate::ah;
use crate::boundary::{Errno, Verb, set_errno, unsupported};
use crate::post::flags_of;
use crate::qp::{Inner, QpObject};
use crate::sockets::DevPtr;

/// Room for so many work requests is there from the start; a longer section makes it once.
const USUAL_SECTION: u32 = 64;

struct Wr {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    data: Data,
    /// Place among the section's.
    destination: Option<usize>,
}

/// Where a datagram goes.
struct To {
    address: AddressVector,
    remote_qpn: u32,
    remote_qkey: u32,
}

enum Data {
    /// No setter was called.
    Missing,
    Sges(Range<usize>),
    Inline(Range<usize>),
}

/// The work requests of one section. It keeps its memory from section to section.
pub struct Section {
    cap: QpCap,
    is_ud: bool,
    wrs: Vec<Wr>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    destinations: Vec<To>,
    /// The first thing that was wrong: the whole section fails with it (V-177).
    error: Option<Errno>,
}

impl Section {
    pub fn new(cap: QpCap, is_ud: bool) -> Self {
        Self {
            cap,
            is_ud,
            wrs: Vec::new(),
            sges: Vec::new(),
            bytes: Vec::new(),
            destinations: Vec::new(),
            error: None,
        }
    }

    fn clear(&mut self) {
        self.wrs.clear();
        self.sges.clear();
        self.bytes.clear();
        self.destinations.clear();
        self.error = None;
    }

    /// Only extended QPs need it.
    fn reserve(&mut self) {
        let usual = USUAL_SECTION.min(self.cap.max_send_wr) as usize;
        self.wrs.reserve(usual);
        self.sges.reserve(usual);
        self.bytes.reserve(usual * self.cap.max_inline_data as usize);
        if self.is_ud {
            self.destinations.reserve(usual);
        }
    }

    fn fail(&mut self, errno: c_int) {
        self.error.get_or_insert(Errno(errno));
    }

    fn build(&mut self, wr_id: u64, wr_flags: u32, op: SendOp) {
        match flags_of(wr_flags) {
            Ok(flags) => self.wrs.push(Wr {
                wr_id,
                op,
                flags,
                data: Data::Missing,
                destination: None,
            }),
            Err(errno) => self.fail(errno.0),
        }
    }

    /// Gives the last work request its data.
    fn set(&mut self, data: Data) {
        match self.wrs.last_mut() {
            Some(wr) => wr.data = data,
            None => self.fail(libc::EINVAL),
        }
    }

    fn set_sges(&mut self, list: impl ExactSizeIterator<Item = Sge>) {
        if list.len() > self.cap.max_send_sge as usize {
            return self.fail(libc::EINVAL);
        }
        let start = self.sges.len();
        self.sges.extend(list);
        self.set(Data::Sges(start..self.sges.len()));
    }

    /// V-177: all of them, or none and the first error.
    fn post(&self, qp: &mut RawQp<DevPtr>) -> Verb<()> {
        if let Some(errno) = self.error {
            return Err(errno);
        }
        let posted = if self.is_ud {
            if self.wrs.iter().any(|wr| wr.destination.is_none()) {
                return Err(Errno(libc::EINVAL));
            }
            qp.post_send_all_to(self.wrs.iter().filter_map(|wr| self.datagram(wr)))
        } else {
            qp.post_send_all(self.wrs.iter().map(|wr| self.send_wr(wr)))
        };
        posted.map_err(|error| Errno(error.errno()))
    }

    fn send_wr(&self, wr: &Wr) -> SendWr<'_> {
        SendWr {
            wr_id: wr.wr_id,
            op: wr.op,
            flags: wr.flags,
            data: match &wr.data {
                Data::Missing => WrData::Sges(&[]),
                Data::Sges(range) => WrData::Sges(&self.sges[range.clone()]),
                Data::Inline(range) => WrData::Inline(&self.bytes[range.clone()]),
            },
        }
    }

    /// `None`: it has no destination.
    fn datagram(&self, wr: &Wr) -> Option<Datagram<'_>> {
        let to = self.destinations.get(wr.destination?)?;
        Some(Datagram {
            wr: self.send_wr(wr),
            to: Destination {
                address: &to.address,
                remote_qpn: to.remote_qpn,
                remote_qkey: to.remote_qkey,
            },
        })
    }

    /// V-176: mandatory for datagrams. The handle is looked at now, and may be gone when the section ends.
    fn set_destination(&mut self, to: To) {
        match self.wrs.last_mut() {
            Some(wr) => {
                wr.destination = Some(self.destinations.len());
                self.destinations.push(to);
            }
            None => self.fail(libc::EINVAL),
        }
    }

    /// V-180: for SEND and RDMA WRITE only.
    fn set_inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let start = self.bytes.len();
        for piece in pieces {
            if self.bytes.len() - start + piece.len() > self.cap.max_inline_data as usize {
                return self.fail(libc::EINVAL);
            }
            self.bytes.extend_from_slice(piece);
        }
        self.set(Data::Inline(start..self.bytes.len()));
    }
}

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
    if device.device_cap_flags() & u64::from(IBV_DEVICE_MEM_WINDOW) != 0 {
        known |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    }
    known &= match qp_type {
        IBV_QPT_UD => IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
        IBV_QPT_UC => {
            !(IBV_QP_EX_WITH_RDMA_READ
                | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
                | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
                | IBV_QP_EX_WITH_SEND_WITH_INV)
        }
        _ => known,
    };
    if ops & !u64::from(known) == 0 {
        Ok(())
    } else {
        Err(unsupported(&format!(
            "send_ops_flags {ops:#x}: a QP of this type on this card can do {known:#x}"
        )))
    }
}

/// Only what was asked for, as ibv_create_qp_ex(3) says: another builder is NULL.
pub fn set_functions(qp: &mut ibv_qp_ex, is_ud: bool, ops: u64) {
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
    }
    if is_ud {
        qp.wr_set_ud_addr = Some(wr_set_ud_addr);
    }
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
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
            let posted = section.post(qp);
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
        match info.as_ref().map(|info| crate::window::bind(mw, rkey, info)) {
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
