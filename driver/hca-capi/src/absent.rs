//! What is exported and not there: verbs that no card of ours has yet, and the private interface of rdma-core's
//! drivers, which libraries such as libmlx5 want to find when they are loaded.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::abi::*;
use crate::boundary::{EINVAL, EOPNOTSUPP, Errno, set_errno};

/// For verbs that return an errno.
pub extern "C" fn status_unsupported() -> c_int {
    set_errno(EOPNOTSUPP);
    EOPNOTSUPP.0
}

/// For verbs that return a pointer.
pub extern "C" fn pointer_unsupported() -> *mut c_void {
    set_errno(EOPNOTSUPP);
    null_mut()
}

/// V-100: a card without SRQs has no such verb.
pub extern "C" fn create_srq() -> *mut c_void {
    set_errno(Errno(libc::ENOSYS));
    null_mut()
}

/// For verbs on objects that nobody can have: the pointer is none.
pub extern "C" fn status_invalid() -> c_int {
    set_errno(EINVAL);
    EINVAL.0
}

/// For drivers' calls: nothing to do.
pub extern "C" fn nothing() {}

/// A driver's call of a kernel that is not there.
pub extern "C" fn no_kernel() -> c_int {
    set_errno(Errno(libc::ENOSYS));
    libc::ENOSYS
}

/// A driver's call of a kernel that is not there.
pub extern "C" fn no_kernel_pointer() -> *mut c_void {
    set_errno(Errno(libc::ENOSYS));
    null_mut()
}

/// The simulator reaches a process' memory by its address, so that copy on write after a fork does no harm, and rings
/// are shared mappings: nothing has to be prepared.
pub extern "C" fn fork_init() -> c_int {
    0
}

pub extern "C" fn is_fork_initialized() -> ibv_fork_status {
    IBV_FORK_UNNEEDED
}

pub extern "C" fn fork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// No completion of this card is known to arrive in order with its data beyond what the specification says.
pub extern "C" fn query_qp_data_in_order(_qp: *mut ibv_qp, _op: ibv_wr_opcode, _flags: u32) -> c_int {
    0
}
