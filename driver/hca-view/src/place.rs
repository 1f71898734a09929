//! Which paths are led into the folder with the cards' files.

use std::ffi::{CStr, c_char};

/// Longest path (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// The folder, as `hca run` names it to the program.
const VARIABLE: &CStr = c"HCA_VIEW";
/// Ours alone: a real card's files would lead to a library that is not in use.
const OURS: [&[u8]; 4] = [
    b"/sys/class/infiniband",
    b"/sys/class/infiniband_verbs",
    b"/sys/class/infiniband_mad",
    b"/dev/infiniband",
];
/// Where some of the files are ours.
const SHARED: &[u8] = b"/sys/";

/// The folder with the cards' files.
pub fn root() -> Option<&'static [u8]> {
    // SAFETY: a C string; programs that change their environment while they call the C library have lost already.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    // SAFETY: as above.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// Is something there? Asked of the kernel, past this library.
fn exists(path: *const c_char) -> bool {
    // SAFETY: errno of this thread; a C string.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let found = libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path, libc::F_OK, flags) == 0;
        *libc::__errno_location() = errno;
        found
    }
}

/// Calls with the path that is meant.
///
/// # Safety
/// NULL or a C string.
pub unsafe fn with<T>(path: *const c_char, call: impl FnOnce(*const c_char) -> T) -> T {
    let mut buffer = [0u8; PATH_BYTES];
    // SAFETY: the caller's promise.
    match unsafe { led(path, &mut buffer) } {
        true => call(buffer.as_ptr().cast()),
        false => call(path),
    }
}

/// Puts the path that is meant into a buffer; false: it is what it says.
unsafe fn led(path: *const c_char, buffer: &mut [u8; PATH_BYTES]) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let asked = unsafe { CStr::from_ptr(path) }.to_bytes();
    let is_ours = OURS.iter().any(|ours| is_below(asked, ours));
    if !is_ours && !asked.starts_with(SHARED) {
        return false;
    }
    let Some(root) = root().filter(|root| root.len() + asked.len() < PATH_BYTES) else {
        return false;
    };
    buffer[..root.len()].copy_from_slice(root);
    buffer[root.len()..][..asked.len()].copy_from_slice(asked);
    is_ours || (exists(buffer.as_ptr().cast()) && !exists(path))
}

/// Takes the folder's name off a path that the C library has resolved.
///
/// # Safety
/// NULL or a C string that may be written to.
pub unsafe fn strip(path: *mut c_char) -> *mut c_char {
    if path.is_null() {
        return path;
    }
    // SAFETY: the caller's promise; the rest moves to the front with its NUL.
    unsafe {
        let bytes = CStr::from_ptr(path).to_bytes_with_nul();
        if let Some(root) = root().filter(|root| is_below(&bytes[..bytes.len() - 1], root)) {
            let rest = bytes.len() - root.len();
            std::ptr::copy(path.add(root.len()), path, rest);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_are_compared() {
        assert!(is_below(b"/sys/class/infiniband/hca0", OURS[0]));
        assert!(is_below(b"/sys/class/infiniband", OURS[0]));
        assert!(!is_below(b"/sys/class/infiniband_other", OURS[0]));
        assert!(!is_below(b"/sys/class", OURS[0]));
    }
}
