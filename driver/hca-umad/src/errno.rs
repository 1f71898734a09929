//! Where C calls in: what fails is a negative errno, and no panic crosses.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Linux errno, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// Result of a call.
pub type Call<T> = Result<T, Errno>;

/// An argument is wrong.
pub const EINVAL: Errno = Errno(libc::EINVAL);

/// The last system call's errno.
pub fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno(code.filter(|code| *code > 0).unwrap_or(libc::EIO))
}

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
    let result = catch_unwind(AssertUnwindSafe(f)).unwrap_or(Err(Errno(libc::EIO)));
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(cancel_state, &mut cancel_state) };
    match result {
        Ok(number) => number,
        Err(Errno(code)) => {
            // SAFETY: the C library gives every thread its own errno, always writable.
            unsafe { *libc::__errno_location() = code };
            -code
        }
    }
}

/// 0, or a negative errno.
pub fn status(f: impl FnOnce() -> Call<()>) -> c_int {
    number(|| f().map(|()| 0))
}

/// Of a verb that returns an errno.
pub fn verb(code: c_int) -> Call<()> {
    match code {
        0 => Ok(()),
        -1 => Err(last_errno()),
        code => Err(Errno(code.abs())),
    }
}

/// Of a verb that returns a pointer.
pub fn made<T>(pointer: *mut T) -> Call<*mut T> {
    if pointer.is_null() {
        Err(last_errno())
    } else {
        Ok(pointer)
    }
}
