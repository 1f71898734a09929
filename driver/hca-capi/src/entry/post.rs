//! ibv_post_send and ibv_post_recv. Nothing is allocated here, nothing of a list is copied, and the only lock is the
//! queue's own.

use std::ffi::c_int;

use hca_abi::WrOpcode;
use hca_verbs::{
    BadWr, Datagram, Destination, Opcodes, PlainWr, Posting, RecvWr, SendOp, SendWr, Sge, WrData,
};

use crate::abi::*;
use crate::boundary::convert::{flags_of, sges_of};
use crate::boundary::window::bind_op;
use crate::boundary::{Errno, Verb, status};
use crate::cards::DevPtr;
use crate::objects::ah;
use crate::objects::qp::QpObject;
use crate::objects::srq::SrqObject;

/// Most scatter/gather entries of any work request.
const MAX_SGE: usize = hca_abi::MAX_SGE as usize;

/// The program's scatter/gather list.
///
/// # Safety
/// The work request names `num_sge` entries at `sg_list`.
#[inline]
unsafe fn entries<'a>(sg_list: *const ibv_sge, num_sge: c_int) -> Verb<&'a [Sge]> {
    match usize::try_from(num_sge) {
        Ok(0) => Ok(&[]),
        // SAFETY: the caller vouches for it.
        Ok(n) if n <= MAX_SGE && !sg_list.is_null() => Ok(unsafe { sges_of(sg_list, n) }),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// The program's buffer behind an entry of inline data.
///
/// # Safety
/// V-167: it is there until the post returns.
#[inline]
unsafe fn bytes_of<'a>(sge: &Sge) -> &'a [u8] {
    match sge.length {
        0 => &[],
        // SAFETY: the caller vouches for it.
        length => unsafe { std::slice::from_raw_parts(sge.addr as *const u8, length as usize) },
    }
}

/// What a work request does.
///
/// # Safety
/// The fields that the opcode names are set.
#[inline]
unsafe fn operation(wr: &ibv_send_wr) -> Verb<SendOp> {
    // SAFETY: the caller vouches for the fields of this opcode.
    unsafe {
        let (imm_data, key) = (
            u32::from_be(wr.__bindgen_anon_1.imm_data),
            wr.__bindgen_anon_1.invalidate_rkey,
        );
        let (remote_addr, rkey) = (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
        let atomic = wr.wr.atomic;
        Ok(match wr.opcode {
            IBV_WR_SEND => SendOp::Send,
            IBV_WR_SEND_WITH_IMM => SendOp::SendWithImm { imm_data },
            IBV_WR_SEND_WITH_INV => SendOp::SendWithInv { invalidate_rkey: key },
            IBV_WR_RDMA_WRITE => SendOp::RdmaWrite { remote_addr, rkey },
            IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
            IBV_WR_RDMA_READ => SendOp::RdmaRead { remote_addr, rkey },
            IBV_WR_ATOMIC_CMP_AND_SWP => SendOp::AtomicCmpAndSwp {
                remote_addr: atomic.remote_addr,
                rkey: atomic.rkey,
                compare: atomic.compare_add,
                swap: atomic.swap,
            },
            IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::AtomicFetchAndAdd {
                remote_addr: atomic.remote_addr,
                rkey: atomic.rkey,
                add: atomic.compare_add,
            },
            // Its eight bytes are inline: IBV_SEND_INLINE.
            IBV_WR_ATOMIC_WRITE => SendOp::AtomicWrite { remote_addr, rkey },
            IBV_WR_BIND_MW => {
                let bind = wr.__bindgen_anon_2.bind_mw;
                bind_op(bind.mw, bind.rkey, &bind.bind_info)?
            }
            IBV_WR_LOCAL_INV => SendOp::LocalInv { invalidate_rkey: key },
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        })
    }
}

/// Where a datagram goes. One without a handle has no destination.
///
/// # Safety
/// A work request of a QP of datagrams, whose handle the program does not destroy meanwhile.
#[inline]
unsafe fn destination(wr: &ibv_send_wr) -> Verb<Destination<'_>> {
    // SAFETY: the caller vouches for the fields.
    unsafe {
        let ud = wr.wr.ud;
        if ud.ah.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        Ok(Destination {
            address: ah::vector(ud.ah),
            remote_qpn: ud.remote_qpn,
            remote_qkey: ud.remote_qkey,
        })
    }
}

/// Flags that change nothing but a bit of the header.
const USUAL_FLAGS: u32 = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
const SENDS: Opcodes = Opcodes::NONE.with(WrOpcode::Send).with(WrOpcode::SendWithImm);
const WITH_IMM: Opcodes = Opcodes::NONE
    .with(WrOpcode::SendWithImm)
    .with(WrOpcode::RdmaWriteWithImm);

/// Writes one work request into the ring.
///
/// # Safety
/// As ibv_post_send(3) says: what the opcode and the flags name is there.
#[inline(always)]
unsafe fn push(posting: &mut Posting<'_, DevPtr>, wr: &ibv_send_wr) -> Verb<()> {
    let is_plain = posting.plain().has(wr.opcode) && wr.send_flags & !USUAL_FLAGS == 0;
    // The numbers of card and header are the same (convert.rs).
    let (true, Ok(opcode)) = (is_plain, WrOpcode::try_from(wr.opcode as u8)) else {
        // SAFETY: the caller's promise.
        return unsafe { push_any(posting, wr) };
    };
    let is_send = SENDS.has(wr.opcode);
    // SAFETY: the caller vouches for the list, and these fields are numbers, whatever the opcode.
    let (sges, imm_data, rdma) = unsafe {
        (
            entries(wr.sg_list, wr.num_sge)?,
            wr.__bindgen_anon_1.imm_data,
            wr.wr.rdma,
        )
    };
    let posted = posting.push_plain(&PlainWr {
        wr_id: wr.wr_id,
        opcode,
        imm_data: if WITH_IMM.has(wr.opcode) { imm_data } else { 0 },
        remote_addr: if is_send { 0 } else { rdma.remote_addr },
        rkey: if is_send { 0 } else { rdma.rkey },
        flags: flags_of(wr.send_flags)?,
        sges,
    });
    posted.map_err(|error| Errno(error.errno()))
}

/// The same of any kind.
///
/// # Safety
/// As of [`push`].
#[inline(never)]
unsafe fn push_any(posting: &mut Posting<'_, DevPtr>, wr: &ibv_send_wr) -> Verb<()> {
    // SAFETY: the caller vouches for the work request.
    let (op, sges) = unsafe { (operation(wr)?, entries(wr.sg_list, wr.num_sge)?) };
    let flags = flags_of(wr.send_flags)?;
    let mut pieces;
    let data = if wr.send_flags & IBV_SEND_INLINE == 0 {
        WrData::Sges(sges)
    } else if let [one] = sges {
        // Inline data is copied now, from the addresses of the list.
        // SAFETY: as above.
        WrData::Inline(unsafe { bytes_of(one) })
    } else {
        pieces = [&[][..]; MAX_SGE];
        for (piece, sge) in pieces.iter_mut().zip(sges) {
            // SAFETY: as above.
            *piece = unsafe { bytes_of(sge) };
        }
        WrData::InlineList(&pieces[..sges.len()])
    };
    let wr_id = wr.wr_id;
    let out = SendWr {
        wr_id,
        op,
        flags,
        data,
    };
    let posted = if posting.is_of_datagrams() {
        // SAFETY: as above.
        let to = unsafe { destination(wr)? };
        posting.push_datagram(&Datagram { wr: out, to })
    } else if posting.is_of_xrc() {
        // SAFETY: the caller vouches for the work request, and of XRC for this field.
        let remote_srqn = unsafe { wr.qp_type.xrc.remote_srqn };
        posting.push_xrc(&out, remote_srqn)
    } else {
        posting.push(&out)
    };
    posted.map_err(|error| Errno(error.errno()))
}

pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP; posting does not look it up.
        let qp = unsafe { &*qp.cast::<QpObject>() };
        qp.inner.with(|inner| {
            // The doorbell rings at its end, for all that was pushed.
            let mut posting = inner.qp.own()?.start_posting();
            let mut next = wr;
            // SAFETY: the program's list.
            while let Some(wr) = unsafe { next.as_ref() } {
                // SAFETY: as above.
                if let Err(errno) = unsafe { push(&mut posting, wr) } {
                    return refuse(bad_wr, next, errno);
                }
                next = wr.next;
            }
            Ok(())
        })
    })
}

/// Tells the program which work request is the first that was not posted.
fn refuse<T>(bad_wr: *mut *mut T, wr: *mut T, errno: Errno) -> Verb<()> {
    if !bad_wr.is_null() {
        // SAFETY: the program's pointer.
        unsafe { *bad_wr = wr };
    }
    Err(errno)
}

/// A list of receives of the program, up to its end or to one whose own list cannot be read.
pub struct Receives {
    next: *mut ibv_recv_wr,
    /// What stopped it.
    error: Option<Errno>,
}

impl Iterator for &mut Receives {
    type Item = RecvWr<'static>;

    #[inline]
    fn next(&mut self) -> Option<RecvWr<'static>> {
        // SAFETY: the program's list, which stays until the post returns; so long does what we make of it live.
        let wr = unsafe { self.next.as_ref()? };
        // SAFETY: as above.
        match unsafe { entries(wr.sg_list, wr.num_sge) } {
            Ok(sges) => {
                self.next = wr.next;
                Some(RecvWr {
                    wr_id: wr.wr_id,
                    sges,
                })
            }
            Err(errno) => {
                self.error = Some(errno);
                None
            }
        }
    }
}

/// Posts a list to wherever `post` does.
pub fn post_receives(
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
    post: impl FnOnce(&mut Receives) -> Result<(), BadWr>,
) -> Verb<()> {
    let mut list = Receives {
        next: wr,
        error: None,
    };
    if let Err(bad) = post(&mut list) {
        let mut refused = wr;
        for _ in 0..bad.index {
            // SAFETY: the list was that long.
            refused = unsafe { (*refused).next };
        }
        return refuse(bad_wr, refused, Errno(bad.error.errno()));
    }
    match list.error {
        None => Ok(()),
        Some(errno) => refuse(bad_wr, list.next, errno),
    }
}

pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP; posting does not look it up.
        let qp = unsafe { &*qp.cast::<QpObject>() };
        qp.inner.with(|inner| {
            let own = inner.qp.own()?;
            post_receives(wr, bad_wr, |list| own.post_recv_iter(list))
        })
    })
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's SRQ; posting does not look it up.
        let srq = unsafe { &*srq.cast::<SrqObject>() };
        post_receives(wr, bad_wr, |list| srq.srq.post_recv_iter(list))
    })
}
