//! Where C calls in: results become return values and errno, and no panic crosses.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A Linux errno, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// Result of a call.
pub type Call<T> = Result<T, Errno>;

/// An argument is wrong, or the id is not at the point where this could be done.
pub const EINVAL: Errno = Errno(libc::EINVAL);

/// The last system call's errno.
pub fn last_errno() -> Errno {
    Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}

fn set_errno(errno: Errno) {
    // SAFETY: the C library gives every thread its own errno, always writable.
    unsafe { *libc::__errno_location() = errno.0 };
}

fn contained<T>(f: impl FnOnce() -> Call<T>) -> Call<T> {
    let result = catch_unwind(AssertUnwindSafe(f)).unwrap_or(Err(Errno(libc::EIO)));
    if let Err(errno) = result {
        set_errno(errno);
    }
    result
}

/// CM-4: 0, or -1 and errno.
pub fn status(f: impl FnOnce() -> Call<()>) -> c_int {
    contained(f).map_or(-1, |()| 0)
}

/// 0 or more, or -1 and errno.
pub fn count<T: From<i8>>(f: impl FnOnce() -> Call<T>) -> T {
    contained(f).unwrap_or(T::from(-1))
}

/// A pointer, or NULL and errno.
pub fn pointer<T>(f: impl FnOnce() -> Call<*mut T>) -> *mut T {
    contained(f).unwrap_or(std::ptr::null_mut())
}

/// For calls that return a number and cannot fail.
pub fn value<T: Default>(f: impl FnOnce() -> T) -> T {
    contained(|| Ok(f())).unwrap_or_default()
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
