//! Pages that nobody writes for a while: whoever tries waits (userfaultfd(2)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use hca_dev::PAGE_BYTES;

/// Version of the calls.
const API: u64 = 0xaa;
/// Faults of writes alone; in shared memory, too.
const FEATURE_WRITES: u64 = 1 << 0;
const FEATURE_WRITES_SHARED: u64 = 1 << 12;
const REGISTER_WRITES: u64 = 1 << 1;
const PROTECT: u64 = 1 << 0;
/// Waits only for writes of programs, not for those of the kernel on their behalf: all that everybody may ask for.
const USER_MODE_ONLY: libc::c_int = 1;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    calls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len_bytes: u64,
    mode: u64,
    calls: u64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    len_bytes: u64,
    mode: u64,
}

mod raw {
    use super::{Api, Register, WriteProtect};

    nix::ioctl_readwrite!(api, 0xaa, 0x3f, Api);
    nix::ioctl_readwrite!(register, 0xaa, 0x00, Register);
    nix::ioctl_readwrite!(write_protect, 0xaa, 0x06, WriteProtect);
}

/// Until it is dropped, no thread writes to these pages, and no handler of a signal runs on this thread.
pub(super) struct Still {
    /// Closed, it wakes who waits.
    faults: Option<OwnedFd>,
    signals: libc::sigset_t,
}

impl Still {
    /// The pages are the program's. This thread must not write there either: it would wait for itself.
    pub fn new(addr: u64, len_bytes: usize) -> io::Result<Self> {
        let faults = open()?;
        for offset in (0..len_bytes).step_by(PAGE_BYTES) {
            // Before Linux 6.4 a page that was never touched cannot be protected.
            // SAFETY: a byte of the program's; what it is does not matter.
            unsafe { (addr as *const u8).wrapping_add(offset).read_volatile() };
        }
        let len_bytes = len_bytes as u64;
        let mut register = Register {
            start: addr,
            len_bytes,
            mode: REGISTER_WRITES,
            calls: 0,
        };
        // SAFETY: a structure as the call expects it; nothing happens to the pages.
        unsafe { raw::register(faults.as_raw_fd(), &raw mut register) }?;
        let still = Self {
            signals: block_signals(),
            faults: Some(faults),
        };
        let mut protect = WriteProtect {
            start: addr,
            len_bytes,
            mode: PROTECT,
        };
        let faults = still.faults.as_ref().map_or(-1, |faults| faults.as_raw_fd());
        // SAFETY: as above; who writes to the pages waits until `faults` is closed.
        unsafe { raw::write_protect(faults, &raw mut protect) }?;
        Ok(still)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.faults = None;
        // SAFETY: a set that the kernel has filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.signals, std::ptr::null_mut()) };
    }
}

fn open() -> io::Result<OwnedFd> {
    let ask = |flags: libc::c_int| {
        // SAFETY: a system call without pointers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fd is new and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
    };
    let faults = ask(libc::O_CLOEXEC).or_else(|_| ask(libc::O_CLOEXEC | USER_MODE_ONLY))?;
    let mut api = Api {
        api: API,
        features: FEATURE_WRITES | FEATURE_WRITES_SHARED,
        calls: 0,
    };
    // SAFETY: a structure as the call expects it.
    unsafe { raw::api(faults.as_raw_fd(), &raw mut api) }?;
    Ok(faults)
}

/// All of them; the set as it was.
fn block_signals() -> libc::sigset_t {
    let mut every = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: of zeros a set is valid, too.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, every.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}
