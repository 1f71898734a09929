//! What is exported and not there: verbs that no card of ours has yet, and the private interface of rdma-core's
//! drivers, which libraries such as libmlx5 want to find when they are loaded.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::abi::*;
use crate::boundary::{EOPNOTSUPP, Errno, set_errno, warn};

/// For verbs that return a pointer, also those on objects that nobody can have: rdma-core answers so for a driver that
/// has no such verb, and programs that try what a card can do look for it.
pub extern "C" fn pointer_unsupported() -> *mut c_void {
    set_errno(EOPNOTSUPP);
    null_mut()
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

/// How many attributes a driver's system call has, with those of the buffers chained to it: nobody made any.
pub extern "C" fn ioctl_final_num_attrs(attrs: c_uint, _link: *const c_void) -> c_uint {
    attrs
}

/// A driver reads a file of its device in sysfs; the kernel made none.
pub extern "C" fn read_ibdev_sysfs_file() -> c_int {
    set_errno(Errno(libc::ENOENT));
    -1
}

fn no_first_abi() {
    warn(&"this program was built for the verbs of 2006 (IBVERBS_1.0), which are not here: build it again");
    set_errno(Errno(libc::ENOSYS));
}

/// For verbs of the first ABI that return a pointer. Nobody gets a device by it, so that nothing else can be asked for.
pub extern "C" fn first_abi_pointer() -> *mut c_void {
    no_first_abi();
    null_mut()
}

/// For verbs of the first ABI that return an errno.
pub extern "C" fn first_abi_status() -> c_int {
    no_first_abi();
    libc::ENOSYS
}

/// For verbs of the first ABI that return -1.
pub extern "C" fn first_abi_count() -> c_int {
    no_first_abi();
    -1
}

/// For ibv_get_device_guid of the first ABI.
pub extern "C" fn first_abi_guid() -> u64 {
    no_first_abi();
    0
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
