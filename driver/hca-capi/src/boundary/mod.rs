//! Where C calls in: results become return values and errno, and no panic crosses. What lies beneath it knows the
//! structures of C, and none of our objects.

pub mod access;
pub mod convert;
pub mod live;
pub mod mapped;
pub mod pipe;
pub mod window;

use std::ffi::c_int;
use std::fmt::Display;
use std::sync::OnceLock;

pub use hca_exports::errno::value;
use hca_exports::errno::{self, contained};
use hca_room::NoRoom;

/// A Linux errno, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// An argument is wrong.
pub const EINVAL: Errno = Errno(libc::EINVAL);
/// This card, or this library, does not have it.
pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

/// Result of a verb.
pub type Verb<T> = Result<T, Errno>;

impl From<errno::Errno> for Errno {
    fn from(errno::Errno(code): errno::Errno) -> Self {
        Self(code)
    }
}

impl From<Errno> for errno::Errno {
    fn from(Errno(code): Errno) -> Self {
        Self(code)
    }
}

impl From<NoRoom> for Errno {
    fn from(error: NoRoom) -> Self {
        warn(&error);
        Self(libc::ENOMEM)
    }
}

impl From<hca_verbs::Error> for Errno {
    fn from(error: hca_verbs::Error) -> Self {
        warn(&error);
        Self(error.errno())
    }
}

/// An errno says little. With IBV_SHOW_WARNINGS in the environment (V-5) the reason goes to standard error.
pub fn warn(reason: &dyn Display) {
    static SHOW: OnceLock<bool> = OnceLock::new();
    if *SHOW.get_or_init(|| std::env::var_os("IBV_SHOW_WARNINGS").is_some()) {
        eprintln!("libibverbs: {reason}");
    }
}

/// EINVAL, with a reason for whoever asked for warnings.
pub fn invalid(reason: impl Display) -> Errno {
    warn(&reason);
    EINVAL
}

/// EOPNOTSUPP, with a reason for whoever asked for warnings.
pub fn unsupported(reason: impl Display) -> Errno {
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

/// Sets errno of this thread.
pub fn set_errno(errno: Errno) {
    errno::set_errno(errno.into());
}

/// The last system call's errno.
pub fn last_errno() -> Errno {
    errno::last_errno().into()
}

/// For verbs that make what they return a pointer to: NULL and errno, ENOMEM where there is no room for it.
pub fn pointer<T>(f: impl FnOnce() -> Verb<*mut T>) -> *mut T {
    found(|| {
        hca_room::require()?;
        f()
    })
}

/// For verbs that return a pointer to what is there: NULL and errno.
pub fn found<T>(f: impl FnOnce() -> Verb<*mut T>) -> *mut T {
    contained(f).unwrap_or(std::ptr::null_mut())
}

/// For verbs that return 0 or more, or -1 and errno.
pub fn count(f: impl FnOnce() -> Verb<c_int>) -> c_int {
    contained(f).unwrap_or(-1)
}

/// For verbs that return 0 or an errno; it is in errno too.
pub fn status(f: impl FnOnce() -> Verb<()>) -> c_int {
    match contained(f) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// [`status`] of verbs that may need memory for what they change or find out: ENOMEM where there is no room for it.
pub fn status_with_room(f: impl FnOnce() -> Verb<()>) -> c_int {
    status(|| {
        hca_room::require()?;
        f()
    })
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
