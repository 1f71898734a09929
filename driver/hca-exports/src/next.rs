//! For libraries that stand before others by `LD_PRELOAD`: what a program would call without them.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Who has a name behind this library.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// Of a name that the C library has.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Its address. A C library without it cannot have had a program call it.
    pub fn get(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            if found.is_null() {
                std::process::abort();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }
}

/// `NAME(...)`, of the C library, for each of these.
#[macro_export]
macro_rules! behind {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)*) => {$(
        /// The C library's.
        ///
        /// # Safety
        /// As its manual page says.
        pub unsafe fn $name($($arg: $ty),*) -> $ret {
            const NAME: &::std::ffi::CStr =
                match ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no NUL"),
                };
            static NEXT: $crate::next::Next = $crate::next::Next::new(NAME);
            // Some of them are cancellation points: what ends a thread unwinds through here.
            // SAFETY: the C library's function of this name has this type.
            let call: unsafe extern "C-unwind" fn($($ty),*) -> $ret = unsafe { ::std::mem::transmute(NEXT.get()) };
            // SAFETY: the caller's promise.
            unsafe { call($($arg),*) }
        }
    )*};
}
