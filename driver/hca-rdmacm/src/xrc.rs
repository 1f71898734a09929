//! Extended reliable connections: domains, and the verbs that have no symbols of their own.

use std::mem::offset_of;

use crate::abi::*;
use crate::errno::{Call, Errno, made};
use crate::state::Cm;

/// The verbs that programs reach by the structure around a device's context.
///
/// # Safety
/// The context of an open device of libibverbs.
unsafe fn extended<'a>(context: *mut ibv_context) -> &'a verbs_context {
    // SAFETY: the caller's promise; a library of this version has the structure around each context.
    unsafe { &*context.byte_sub(offset_of!(verbs_context, context)).cast() }
}

/// What a library without the verb answers.
const ABSENT: Errno = Errno(libc::EOPNOTSUPP);

/// ibv_create_srq_ex.
///
/// # Safety
/// An open device, and attributes of its objects.
pub unsafe fn create_srq(context: *mut ibv_context, attr: &mut ibv_srq_init_attr_ex) -> Call<*mut ibv_srq> {
    // SAFETY: the caller's promise.
    unsafe { made(extended(context).create_srq_ex.ok_or(ABSENT)?(context, attr)) }
}

/// ibv_create_qp_ex.
///
/// # Safety
/// An open device, and attributes of its objects.
pub unsafe fn create_qp(context: *mut ibv_context, attr: &mut ibv_qp_init_attr_ex) -> Call<*mut ibv_qp> {
    // SAFETY: the caller's promise.
    unsafe { made(extended(context).create_qp_ex.ok_or(ABSENT)?(context, attr)) }
}

impl Cm {
    /// The domain of a port's card for who names none: this process' own.
    pub fn default_xrcd(&mut self, port: usize) -> Call<*mut ibv_xrcd> {
        let device = &mut self.devices[self.ports[port].device];
        if device.xrcd.is_null() {
            let mut attr = ibv_xrcd_init_attr {
                comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                fd: -1,
                oflags: libc::O_CREAT,
            };
            // SAFETY: devices stay open.
            device.xrcd = unsafe {
                made(extended(device.context).open_xrcd.ok_or(ABSENT)?(
                    device.context,
                    &mut attr,
                ))?
            };
        }
        Ok(device.xrcd)
    }
}
