//! Where C calls in: what every call of this library returns.

use std::ffi::c_int;

use hca_cm::Error;
use hca_exports::errno::contained;
pub use hca_exports::errno::{Call, EINVAL, Errno, count, last_errno, made, pointer, value, verb, with_room};

/// CM-4: 0, or -1 and errno.
pub fn status(f: impl FnOnce() -> Call<()>) -> c_int {
    contained(f).map_or(-1, |()| 0)
}

/// [`status`] of what makes, changes or waits for something.
pub fn status_with_room(f: impl FnOnce() -> Call<()>) -> c_int {
    status(with_room(f))
}

/// What the connection manager's refusals are called.
pub fn errno_of(error: Error) -> Errno {
    Errno(match error {
        Error::NoConnection(_) | Error::WrongState(_) => libc::EINVAL,
        Error::ServiceInUse(_) => libc::EADDRINUSE,
        Error::TooMany(_) => libc::ENOMEM,
    })
}
