//! The C library's calls that take a path: each leads it to where it is meant, and calls on.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use hca_exports::next::Next;

use crate::place;

/// Calls with one path, behind the arguments in brackets. Arguments that a program leaves away (the mode of open) are
/// whatever is in their registers, as the C library has them.
macro_rules! led {
    ($($name:ident[$($before:ident: $before_ty:ty),*] path ($($after:ident: $after_ty:ty),*) -> $ret:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            $($before: $before_ty,)* path: *const c_char $(, $after: $after_ty)*
        ) -> $ret {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL"),
            };
            static NEXT: Next = Next::new(NAME);
            type Call = unsafe extern "C-unwind" fn($($before_ty,)* *const c_char $(, $after_ty)*) -> $ret;
            // SAFETY: the C library's function of this name has this type.
            let call: Call = unsafe { std::mem::transmute(NEXT.get()) };
            // SAFETY: what the program gave, as the manual page says.
            unsafe { place::with(path, |path| call($($before,)* path $(, $after)*)) }
        }
    )*};
}

type Stat = *mut c_void;

led! {
    open[] path (flags: c_int, mode: c_uint) -> c_int;
    open64[] path (flags: c_int, mode: c_uint) -> c_int;
    __open_2[] path (flags: c_int) -> c_int;
    __open64_2[] path (flags: c_int) -> c_int;
    openat[folder: c_int] path (flags: c_int, mode: c_uint) -> c_int;
    openat64[folder: c_int] path (flags: c_int, mode: c_uint) -> c_int;
    __openat_2[folder: c_int] path (flags: c_int) -> c_int;
    __openat64_2[folder: c_int] path (flags: c_int) -> c_int;
    fopen[] path (mode: *const c_char) -> *mut c_void;
    fopen64[] path (mode: *const c_char) -> *mut c_void;
    opendir[] path () -> *mut c_void;
    scandir[] path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    scandir64[] path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    stat[] path (out: Stat) -> c_int;
    stat64[] path (out: Stat) -> c_int;
    lstat[] path (out: Stat) -> c_int;
    lstat64[] path (out: Stat) -> c_int;
    fstatat[folder: c_int] path (out: Stat, flags: c_int) -> c_int;
    fstatat64[folder: c_int] path (out: Stat, flags: c_int) -> c_int;
    __xstat[version: c_int] path (out: Stat) -> c_int;
    __xstat64[version: c_int] path (out: Stat) -> c_int;
    __lxstat[version: c_int] path (out: Stat) -> c_int;
    __lxstat64[version: c_int] path (out: Stat) -> c_int;
    __fxstatat[version: c_int, folder: c_int] path (out: Stat, flags: c_int) -> c_int;
    __fxstatat64[version: c_int, folder: c_int] path (out: Stat, flags: c_int) -> c_int;
    statx[folder: c_int] path (flags: c_int, mask: c_uint, out: *mut c_void) -> c_int;
    getxattr[] path (name: *const c_char, out: *mut c_void, len: usize) -> isize;
    lgetxattr[] path (name: *const c_char, out: *mut c_void, len: usize) -> isize;
    listxattr[] path (out: *mut c_char, len: usize) -> isize;
    llistxattr[] path (out: *mut c_char, len: usize) -> isize;
    access[] path (mode: c_int) -> c_int;
    faccessat[folder: c_int] path (mode: c_int, flags: c_int) -> c_int;
    readlink[] path (out: *mut c_char, len: usize) -> isize;
    __readlink_chk[] path (out: *mut c_char, len: usize, room: usize) -> isize;
    readlinkat[folder: c_int] path (out: *mut c_char, len: usize) -> isize;
    __readlinkat_chk[folder: c_int] path (out: *mut c_char, len: usize, room: usize) -> isize;
}

/// Those that give back a path: of it the folder's name is taken off.
macro_rules! resolved {
    ($($name:ident($($after:ident: $after_ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(path: *const c_char $(, $after: $after_ty)*) -> *mut c_char {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL"),
            };
            static NEXT: Next = Next::new(NAME);
            type Call = unsafe extern "C-unwind" fn(*const c_char $(, $after_ty)*) -> *mut c_char;
            // SAFETY: the C library's function of this name has this type.
            let call: Call = unsafe { std::mem::transmute(NEXT.get()) };
            // SAFETY: what the program gave, as the manual page says; a result is the program's to write to.
            unsafe { place::strip(place::with(path, |path| call(path $(, $after)*))) }
        }
    )*};
}

resolved! {
    realpath(out: *mut c_char);
    __realpath_chk(out: *mut c_char, room: usize);
    canonicalize_file_name();
}
