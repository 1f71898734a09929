//! Where C calls in: what fails is a negative errno, and no panic crosses.

use std::ffi::c_int;

use hca_exports::errno::contained;
pub use hca_exports::errno::{Call, EINVAL, Errno, last_errno, made, pointer, verb, with_room};

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// A number, or a negative errno, which is in errno, too. The thread cannot be cancelled meanwhile: where it may, it
/// waits outside of this.
pub fn number(f: impl FnOnce() -> Call<c_int>) -> c_int {
    let mut cancel_state = 0;
    // SAFETY: a variable of this function; both states are valid.
    unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancel_state) };
    let result = contained(f);
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(cancel_state, &mut cancel_state) };
    result.unwrap_or_else(|Errno(code)| -code)
}

/// 0, or a negative errno.
pub fn status(f: impl FnOnce() -> Call<()>) -> c_int {
    number(|| f().map(|()| 0))
}
