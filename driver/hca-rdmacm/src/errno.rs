//! Where C calls in: what every call of this library returns.

use std::ffi::c_int;

use hca_exports::errno::contained;
pub use hca_exports::errno::{Call, EINVAL, Errno, count, last_errno, made, pointer, value, verb};

/// CM-4: 0, or -1 and errno.
pub fn status(f: impl FnOnce() -> Call<()>) -> c_int {
    contained(f).map_or(-1, |()| 0)
}
