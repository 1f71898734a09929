//! Where C calls in: results become return values and errno, and no panic crosses.
//!
//! A library whose verbs fail with a type of its own gives it the two conversions; the others use [`Errno`] itself.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hca_room::NoRoom;

/// A Linux errno, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    /// Nothing is wrong but that there is no more of something: descriptors, memory.
    pub fn is_shortage(self) -> bool {
        matches!(self.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM)
    }
}

impl From<NoRoom> for Errno {
    fn from(_: NoRoom) -> Self {
        Self(libc::ENOMEM)
    }
}

/// Result of a call.
pub type Call<T> = Result<T, Errno>;

/// An argument is wrong.
pub const EINVAL: Errno = Errno(libc::EINVAL);

/// Sets errno of this thread.
#[inline]
pub fn set_errno(errno: Errno) {
    // SAFETY: the C library gives every thread its own errno, always writable.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// The last system call's errno.
pub fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno(code.filter(|code| *code > 0).unwrap_or(libc::EIO))
}

/// Runs `f`. What fails is in errno too; a panic is EIO.
#[inline]
pub fn contained<T, E: Copy + From<Errno> + Into<Errno>>(f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let result = catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| Err(Errno(libc::EIO).into()));
    if let Err(error) = result {
        set_errno(error.into());
    }
    result
}

/// Runs `f` where there is room for what it makes: ENOMEM where there is none. What gives back needs no room.
pub fn with_room<T>(f: impl FnOnce() -> Call<T>) -> impl FnOnce() -> Call<T> {
    || {
        hca_room::require()?;
        f()
    }
}

/// A pointer to what is made, or NULL and errno.
pub fn pointer<T>(f: impl FnOnce() -> Call<*mut T>) -> *mut T {
    contained(with_room(f)).unwrap_or(std::ptr::null_mut())
}

/// 0 or more, or -1 and errno.
pub fn count<T: From<i8>>(f: impl FnOnce() -> Call<T>) -> T {
    contained(f).unwrap_or(T::from(-1))
}

/// For calls that return a value and cannot fail: the default if something panics.
pub fn value<T: Default>(f: impl FnOnce() -> T) -> T {
    contained(|| Call::Ok(f())).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stays_inside() {
        assert_eq!(count::<c_int>(|| panic!("on purpose")), -1);
        assert_eq!(last_errno(), Errno(libc::EIO));
        assert!(pointer::<u8>(|| Err(EINVAL)).is_null());
        assert_eq!(last_errno(), EINVAL);
        assert_eq!(value(|| 7), 7);
    }

    #[test]
    fn what_verbs_return() {
        assert_eq!(verb(0), Ok(()));
        assert_eq!(verb(libc::EBUSY), Err(Errno(libc::EBUSY)));
        assert_eq!(verb(-libc::EBUSY), Err(Errno(libc::EBUSY)));
        set_errno(Errno(libc::ENODEV));
        assert_eq!(verb(-1), Err(Errno(libc::ENODEV)));
        assert_eq!(made::<u8>(std::ptr::null_mut()), Err(Errno(libc::ENODEV)));
    }
}
