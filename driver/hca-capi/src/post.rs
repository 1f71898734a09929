//! ibv_post_send and ibv_post_recv. Nothing is allocated here, and the only lock is the QP's own.

use std::ffi::c_int;
use std::ptr::null_mut;

use hca_verbs::{
    BadWr, Datagram, Destination, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, Sge, Srq, WrData,
};

use crate::abi::*;
use crate::ah;
use crate::boundary::{Errno, Verb, status};
use crate::qp::QpObject;
use crate::sockets::DevPtr;
use crate::srq::SrqObject;

/// Work requests that share one doorbell.
const CHUNK: usize = 8;
/// Most scatter/gather entries of any work request.
const MAX_SGE: usize = hca_abi::MAX_SGE as usize;

/// The program's scatter/gather list.
///
/// # Safety
/// The work request names `num_sge` entries at `sg_list`.
unsafe fn entries<'a>(sg_list: *const ibv_sge, num_sge: c_int) -> Verb<&'a [ibv_sge]> {
    match usize::try_from(num_sge) {
        Ok(0) => Ok(&[]),
        Ok(n) if n <= MAX_SGE && !sg_list.is_null() => {
            // SAFETY: the caller vouches for it.
            Ok(unsafe { std::slice::from_raw_parts(sg_list, n) })
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn copy_entries<'a>(to: &'a mut [Sge; MAX_SGE], from: &[ibv_sge]) -> &'a [Sge] {
    for (to, from) in to.iter_mut().zip(from) {
        *to = Sge {
            addr: from.addr,
            length: from.length,
            lkey: from.lkey,
        };
    }
    &to[..from.len()]
}

/// Inline data is copied now, from the addresses of the list.
fn gather<'a>(to: &'a mut [&'a [u8]; MAX_SGE], from: &[ibv_sge]) -> &'a [&'a [u8]] {
    for (to, from) in to.iter_mut().zip(from) {
        if from.length > 0 {
            // SAFETY: the program's buffer (V-167); it stays until the post returns.
            *to = unsafe { std::slice::from_raw_parts(from.addr as *const u8, from.length as usize) };
        }
    }
    &to[..from.len()]
}

/// What a work request does.
///
/// # Safety
/// The fields that the opcode names are set.
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
            IBV_WR_BIND_MW => {
                let bind = wr.__bindgen_anon_2.bind_mw;
                crate::window::bind(bind.mw, bind.rkey, &bind.bind_info)?
            }
            IBV_WR_LOCAL_INV => SendOp::LocalInv { invalidate_rkey: key },
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        })
    }
}

/// A datagram without a handle has no destination.
///
/// # Safety
/// A work request of a QP of datagrams.
unsafe fn check_destination(wr: &ibv_send_wr) -> Verb<()> {
    // SAFETY: the caller vouches for the field.
    if unsafe { wr.wr.ud.ah.is_null() } {
        Err(Errno(libc::EINVAL))
    } else {
        Ok(())
    }
}

/// Where a datagram goes.
///
/// # Safety
/// As [`check_destination`], which has found a handle; the program does not destroy it meanwhile.
unsafe fn destination<'a>(wr: *const ibv_send_wr) -> Destination<'a> {
    // SAFETY: the caller vouches for the fields.
    unsafe {
        let ud = (*wr).wr.ud;
        Destination {
            address: ah::vector(ud.ah),
            remote_qpn: ud.remote_qpn,
            remote_qkey: ud.remote_qkey,
        }
    }
}

/// ibv_send_flags without INLINE. A checksum offload that no card of ours has is refused.
pub fn flags_of(send_flags: u32) -> Verb<SendFlags> {
    if send_flags & !(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    Ok(SendFlags {
        signaled: send_flags & IBV_SEND_SIGNALED != 0,
        solicited: send_flags & IBV_SEND_SOLICITED != 0,
        fence: send_flags & IBV_SEND_FENCE != 0,
    })
}

/// The next `N` work requests of a list, or fewer, and the one after them.
///
/// # Safety
/// `wr` starts a list of the program.
unsafe fn take<const N: usize, T>(
    mut wr: *mut T,
    next: unsafe fn(*mut T) -> *mut T,
) -> ([*mut T; N], usize, *mut T) {
    let (mut list, mut count) = ([null_mut(); N], 0);
    while count < N && !wr.is_null() {
        list[count] = wr;
        count += 1;
        // SAFETY: the caller vouches for the list.
        wr = unsafe { next(wr) };
    }
    (list, count, wr)
}

/// Errno and position of the first work request that was refused.
type Refused = Result<(), (Errno, usize)>;

pub fn refusal(bad: BadWr) -> (Errno, usize) {
    (Errno(bad.error.errno()), bad.index)
}

/// # Safety
/// The first `count` pointers are work requests of the program.
unsafe fn send_chunk<const N: usize>(
    qp: &mut RawQp<DevPtr>,
    list: &[*mut ibv_send_wr; N],
    count: usize,
) -> Refused {
    let mut sges = [[Sge::default(); MAX_SGE]; N];
    let mut pieces: [[&[u8]; MAX_SGE]; N] = [[&[]; MAX_SGE]; N];
    const NOTHING: SendWr<'_> = SendWr {
        wr_id: 0,
        op: SendOp::Send,
        flags: SendFlags {
            signaled: false,
            solicited: false,
            fence: false,
        },
        data: WrData::Inline(&[]),
    };
    let mut out = [NOTHING; N];
    let is_ud = qp.service() == Service::Ud;
    let mut found = Ok(());
    let mut ready = 0;
    for ((out, (sges, pieces)), wr) in out
        .iter_mut()
        .zip(sges.iter_mut().zip(&mut pieces))
        .zip(&list[..count])
    {
        // SAFETY: the caller vouches for the work request.
        let converted = unsafe {
            let wr = &**wr;
            (|| {
                if is_ud {
                    check_destination(wr)?;
                }
                Ok((
                    wr,
                    operation(wr)?,
                    flags_of(wr.send_flags)?,
                    entries(wr.sg_list, wr.num_sge)?,
                ))
            })()
        };
        match converted {
            Ok((wr, op, flags, list)) => {
                let inline = wr.send_flags & IBV_SEND_INLINE != 0;
                let data = if inline {
                    WrData::InlineList(gather(pieces, list))
                } else {
                    WrData::Sges(copy_entries(sges, list))
                };
                *out = SendWr {
                    wr_id: wr.wr_id,
                    op,
                    flags,
                    data,
                };
            }
            Err(errno) => {
                found = Err((errno, ready));
                break;
            }
        }
        ready += 1;
    }
    if is_ud {
        let datagrams = out[..ready].iter().zip(list).map(|(out, wr)| Datagram {
            wr: *out,
            // SAFETY: each has a handle, and posting does not last longer than this call.
            to: unsafe { destination(*wr) },
        });
        qp.post_send_to(datagrams).map_err(refusal)?;
    } else {
        qp.post_send(&out[..ready]).map_err(refusal)?;
    }
    found
}

/// Where receives are posted to.
trait TakesReceives {
    fn take(&mut self, list: &[RecvWr<'_>]) -> Result<(), BadWr>;
}

impl TakesReceives for RawQp<DevPtr> {
    fn take(&mut self, list: &[RecvWr<'_>]) -> Result<(), BadWr> {
        self.post_recv(list)
    }
}

impl TakesReceives for &Srq<DevPtr> {
    fn take(&mut self, list: &[RecvWr<'_>]) -> Result<(), BadWr> {
        self.post_recv(list)
    }
}

/// # Safety
/// As [`send_chunk`].
unsafe fn recv_chunk<const N: usize>(
    queue: &mut impl TakesReceives,
    list: &[*mut ibv_recv_wr; N],
    count: usize,
) -> Refused {
    let mut sges = [[Sge::default(); MAX_SGE]; N];
    let mut out = [RecvWr { wr_id: 0, sges: &[] }; N];
    let mut found = Ok(());
    let mut ready = 0;
    for ((out, sges), wr) in out.iter_mut().zip(sges.iter_mut()).zip(&list[..count]) {
        // SAFETY: the caller vouches for the work request.
        let wr = unsafe { &**wr };
        // SAFETY: as above.
        match unsafe { entries(wr.sg_list, wr.num_sge) } {
            Ok(list) => {
                *out = RecvWr {
                    wr_id: wr.wr_id,
                    sges: copy_entries(sges, list),
                }
            }
            Err(errno) => {
                found = Err((errno, ready));
                break;
            }
        }
        ready += 1;
    }
    queue.take(&out[..ready]).map_err(refusal)?;
    found
}

/// # Safety
/// A work request of the program.
unsafe fn next_send(wr: *mut ibv_send_wr) -> *mut ibv_send_wr {
    // SAFETY: the caller vouches for it.
    unsafe { (*wr).next }
}

/// # Safety
/// A work request of the program.
unsafe fn next_recv(wr: *mut ibv_recv_wr) -> *mut ibv_recv_wr {
    // SAFETY: the caller vouches for it.
    unsafe { (*wr).next }
}

/// Posts a list piece by piece to a queue that the caller has.
macro_rules! post_list {
    ($queue:expr, $wr:ident, $bad:ident, $chunk:ident, $next:ident) => {{
        let queue = $queue;
        let mut wr = $wr;
        while !wr.is_null() {
            // One alone, the usual case, needs no room for more.
            // SAFETY: the program's list.
            let (done, list, rest) = unsafe {
                if $next(wr).is_null() {
                    ($chunk::<1>(queue, &[wr], 1), [wr; CHUNK], null_mut())
                } else {
                    let (list, count, rest) = take::<CHUNK, _>(wr, $next);
                    ($chunk::<CHUNK>(queue, &list, count), list, rest)
                }
            };
            if let Err((errno, index)) = done {
                if !$bad.is_null() {
                    // SAFETY: the program's pointer.
                    unsafe { *$bad = list[index] };
                }
                return Err(errno);
            }
            wr = rest;
        }
        Ok(())
    }};
}

pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP; posting does not look it up.
        let qp = unsafe { &*qp.cast::<QpObject>() };
        qp.inner
            .with(|inner| post_list!(&mut inner.qp, wr, bad_wr, send_chunk, next_send))
    })
}

pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: the program's QP; posting does not look it up.
        let qp = unsafe { &*qp.cast::<QpObject>() };
        qp.inner
            .with(|inner| post_list!(&mut inner.qp, wr, bad_wr, recv_chunk, next_recv))
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
        post_list!(&mut &srq.srq, wr, bad_wr, recv_chunk, next_recv)
    })
}
