//! Bindings of memory windows, from C.

use std::ffi::c_uint;

use hca_verbs::{Access, MwBind, SendOp};

use crate::abi::*;
use crate::boundary::{Errno, Verb};

/// Rights of a window. Programs give it those of its region, too, and no other card minds.
const MW_ACCESS: c_uint =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;

/// The operation of a bind. The window's next key has the low byte of `rkey`; what it has above is its own.
///
/// # Safety
/// `mw` and the region that `info` names are the program's, alive.
#[cold]
pub unsafe fn bind_op(mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Verb<SendOp> {
    let known = MW_ACCESS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    if mw.is_null() || info.mw_access_flags & !known != 0 || (info.mr.is_null() && info.length != 0) {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: as the caller says.
    let (is_type_2, lkey, own) = unsafe {
        let lkey = if info.mr.is_null() { 0 } else { (*info.mr).lkey };
        ((*mw).type_ == IBV_MW_TYPE_2, lkey, (*mw).rkey)
    };
    Ok(SendOp::BindMw(MwBind {
        rkey: own & !0xff | rkey & 0xff,
        is_type_2,
        lkey,
        addr: info.addr,
        length: info.length,
        access: Access::from_bits(info.mw_access_flags & MW_ACCESS).bits(),
    }))
}
