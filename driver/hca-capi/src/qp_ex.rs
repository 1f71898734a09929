//! The extended send interface: builders and setters between wr_start and wr_complete.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use hca_verbs::{DeviceAttr, QpCap, SendFlags, SendOp, SendWr, Sge, WrData};

use crate::abi::*;
use crate::boundary::{Errno, Verb, set_errno, unsupported};
use crate::post::flags_of;
use crate::qp::QpObject;

const CHUNK: usize = 8;
/// Room for so many work requests is there from the start; a longer section makes it once.
const USUAL_SECTION: u32 = 64;

struct Wr {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    data: Data,
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
    wrs: Vec<Wr>,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// The first thing that was wrong: the whole section fails with it (V-177).
    error: Option<Errno>,
}

impl Section {
    pub fn new(cap: QpCap) -> Self {
        Self {
            cap,
            wrs: Vec::new(),
            sges: Vec::new(),
            bytes: Vec::new(),
            error: None,
        }
    }

    fn clear(&mut self) {
        self.wrs.clear();
        self.sges.clear();
        self.bytes.clear();
        self.error = None;
    }

    /// Only extended QPs need it.
    fn reserve(&mut self) {
        let usual = USUAL_SECTION.min(self.cap.max_send_wr) as usize;
        self.wrs.reserve(usual);
        self.sges.reserve(usual);
        self.bytes.reserve(usual * self.cap.max_inline_data as usize);
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

/// Builders by flag of send_ops_flags, as far as the card can do them.
pub fn check_ops(device: &DeviceAttr, ops: u64) -> Verb<()> {
    let mut known = IBV_QP_EX_WITH_RDMA_WRITE
        | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        | IBV_QP_EX_WITH_SEND
        | IBV_QP_EX_WITH_SEND_WITH_IMM
        | IBV_QP_EX_WITH_RDMA_READ;
    if device.atomic_cap() != 0 {
        known |= IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    }
    if device.device_cap_flags() & u64::from(IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0 {
        known |= IBV_QP_EX_WITH_SEND_WITH_INV;
    }
    if ops & !u64::from(known) == 0 {
        Ok(())
    } else {
        Err(unsupported(&format!(
            "send_ops_flags {ops:#x}: this card can do {known:#x}"
        )))
    }
}

/// Only what was asked for, as ibv_create_qp_ex(3) says: another builder is NULL.
pub fn set_functions(qp: &mut ibv_qp_ex, ops: u64) {
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
        IBV_QP_EX_WITH_RDMA_READ => wr_rdma_read,
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP => wr_atomic_cmp_swp,
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD => wr_atomic_fetch_add,
    }
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
}

/// The section that wr_start has opened.
///
/// # Safety
/// An extended QP of the program, in a section of this thread.
unsafe fn section<'a>(qp: *mut ibv_qp_ex) -> &'a mut Section {
    // SAFETY: the section holds the QP's lock.
    unsafe { &mut (*(*qp.cast::<QpObject>()).inner.get()).section }
}

/// # Safety
/// As [`section`].
unsafe fn build(qp: *mut ibv_qp_ex, op: SendOp) {
    // SAFETY: as the caller says; the program has set both fields before.
    unsafe { section(qp).build((*qp).wr_id, (*qp).wr_flags, op) };
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP.
    unsafe {
        (*qp.cast::<QpObject>()).mutex.lock();
        section(qp).reserve();
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's QP, in a section.
    unsafe {
        section(qp).clear();
        (*qp.cast::<QpObject>()).mutex.unlock();
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program's QP, in a section, whose lock guards all of it.
    let inner = unsafe { &mut *(*qp.cast::<QpObject>()).inner.get() };
    let (qp_inner, section) = (&mut inner.qp, &mut inner.section);
    let result = match section.error {
        Some(errno) => Err(errno),
        // All or nothing: a section that does not fit is not begun.
        None if section.wrs.len() > qp_inner.send_room() as usize => Err(Errno(libc::ENOMEM)),
        None => section.wrs.chunks(CHUNK).try_for_each(|chunk| {
            let mut out: [SendWr<'_>; CHUNK] = std::array::from_fn(|_| SendWr {
                wr_id: 0,
                op: SendOp::Send,
                flags: SendFlags::default(),
                data: WrData::Sges(&[]),
            });
            for (out, wr) in out.iter_mut().zip(chunk) {
                let data = match &wr.data {
                    Data::Missing => WrData::Sges(&[]),
                    Data::Sges(range) => WrData::Sges(&section.sges[range.clone()]),
                    Data::Inline(range) => WrData::Inline(&section.bytes[range.clone()]),
                };
                *out = SendWr {
                    wr_id: wr.wr_id,
                    op: wr.op,
                    flags: wr.flags,
                    data,
                };
            }
            qp_inner
                .post_send(&out[..chunk.len()])
                .map_err(|bad| Errno(bad.error.errno()))
        }),
    };
    section.clear();
    // SAFETY: the section ends here.
    unsafe { (*qp.cast::<QpObject>()).mutex.unlock() };
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

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the program's QP, in a section.
    unsafe { section(qp) }.set_sges(std::iter::once(Sge { addr, length, lkey }));
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
    let (section, list) = unsafe { (section(qp), list_of(list, num_sge)) };
    section.set_sges(list.iter().map(|sge| Sge {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey,
    }));
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the program's QP, in a section, and its buffer.
    let (section, bytes) = unsafe { (section(qp), list_of(addr.cast::<u8>(), length)) };
    section.set_inline(std::iter::once(bytes));
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, num_buf: usize, list: *const ibv_data_buf) {
    // SAFETY: the program's QP, in a section, and its list.
    let (section, list) = unsafe { (section(qp), list_of(list, num_buf)) };
    // SAFETY: each is a buffer of the program.
    section.set_inline(
        list.iter()
            .map(|buf| unsafe { list_of(buf.addr.cast::<u8>(), buf.length) }),
    );
}
