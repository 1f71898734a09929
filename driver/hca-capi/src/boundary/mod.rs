//! Where C calls in: results become return values and errno, and no panic crosses. What lies beneath it knows the
//! structures of C, and none of our objects.

pub mod access;
pub mod convert;
pub mod live;
pub mod mapped;
pub mod mutex;
pub mod pipe;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// A Linux errno, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// An argument is wrong.
pub const EINVAL: Errno = Errno(libc::EINVAL);
/// This card, or this library, does not have it.
pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

/// Result of a verb.
pub type Verb<T> = Result<T, Errno>;

impl From<hca_verbs::Error> for Errno {
    fn from(error: hca_verbs::Error) -> Self {
        warn(&error);
        Self(error.errno())
    }
}

/// An errno says little. With IBV_SHOW_WARNINGS in the environment (V-5) the reason goes to standard error.
pub fn warn(reason: &dyn std::fmt::Display) {
    static SHOW: OnceLock<bool> = OnceLock::new();
    if *SHOW.get_or_init(|| std::env::var_os("IBV_SHOW_WARNINGS").is_some()) {
        eprintln!("libibverbs: {reason}");
    }
}

/// EINVAL, with a reason for whoever asked for warnings.
pub fn invalid(reason: &str) -> Errno {
    warn(&reason);
    EINVAL
}

/// EOPNOTSUPP, with a reason for whoever asked for warnings.
pub fn unsupported(reason: &str) -> Errno {
    warn(&reason);
    EOPNOTSUPP
}

/// V-27: with RDMAV_ALLOW_DISASSOC_DESTROY in the environment a destroy on a card that has vanished is a success.
pub fn destroyed(result: hca_verbs::Result<()>) -> Verb<()> {
    let is_excused =
        |error: &Errno| error.0 == libc::EIO && std::env::var_os("RDMAV_ALLOW_DISASSOC_DESTROY").is_some();
    match result.map_err(Errno::from) {
        Err(error) if is_excused(&error) => Ok(()),
        result => result,
    }
}

pub fn set_errno(errno: Errno) {
    // SAFETY: the C library gives every thread its own errno, always writable.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// The last system call's errno.
pub fn last_errno() -> Errno {
    Errno(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}

fn contained<T>(f: impl FnOnce() -> Verb<T>) -> Verb<T> {
    let result = catch_unwind(AssertUnwindSafe(f)).unwrap_or(Err(Errno(libc::EIO)));
    if let Err(errno) = result {
        set_errno(errno);
    }
    result
}

/// For verbs that return a pointer: NULL and errno.
pub fn pointer<T>(f: impl FnOnce() -> Verb<*mut T>) -> *mut T {
    contained(f).unwrap_or(std::ptr::null_mut())
}

/// For verbs that return 0 or an errno; it is in errno too.
pub fn status(f: impl FnOnce() -> Verb<()>) -> c_int {
    match contained(f) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// For verbs that return 0 or more, or -1 and errno.
pub fn count(f: impl FnOnce() -> Verb<c_int>) -> c_int {
    contained(f).unwrap_or(-1)
}

/// For readers and the like, which cannot fail: the default if something panics.
pub fn value<T: Default>(f: impl FnOnce() -> T) -> T {
    contained(|| Ok(f())).unwrap_or_default()
}

/// For verbs that write through a pointer.
///
/// # Safety
/// `pointer` is NULL or the program's, writable for a `T`.
pub unsafe fn put<T>(pointer: *mut T, value: T) -> Verb<()> {
    if pointer.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller vouches for it.
    unsafe { pointer.write(value) };
    Ok(())
}
