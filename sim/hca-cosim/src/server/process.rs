//! Memory of a client process, by its id and its own addresses.

use std::io;

use hca_host::RemoteMemory;

/// A process that allows us to touch its memory (the same user, or PR_SET_PTRACER).
pub(super) struct ProcessMemory {
    pid: i32,
}

impl ProcessMemory {
    pub fn new(pid: i32) -> Self {
        Self { pid }
    }
}

type Copy = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// All or nothing, except that signals are tried again.
fn copy(call: Copy, pid: i32, local: *mut u8, addr: u64, len: usize) -> bool {
    let here = libc::iovec {
        iov_base: local.cast(),
        iov_len: len,
    };
    let there = libc::iovec {
        iov_base: addr as *mut libc::c_void,
        iov_len: len,
    };
    loop {
        // SAFETY: `here` is a live buffer of ours that the callers pass; `there` is only looked at by the
        // kernel, in the other process.
        let done = unsafe { call(pid, &here, 1, &there, 1, 0) };
        if done >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return done == len as isize;
        }
    }
}

impl RemoteMemory for ProcessMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        copy(
            libc::process_vm_readv,
            self.pid,
            out.as_mut_ptr(),
            addr,
            out.len(),
        )
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        copy(
            libc::process_vm_writev,
            self.pid,
            bytes.as_ptr().cast_mut(),
            addr,
            bytes.len(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_can_be_copied_and_bad_addresses_fail() {
        let memory = ProcessMemory::new(std::process::id() as i32);
        let (source, mut target) = ([1u8, 2, 3, 4], [0u8; 4]);
        assert!(memory.read(source.as_ptr() as u64, &mut target));
        assert_eq!(target, source);
        assert!(memory.write(target.as_mut_ptr() as u64, &[9, 8]));
        let seen = [0, 1].map(|i| {
            // SAFETY: inside the array; it was changed behind the compiler's back.
            unsafe { target.as_ptr().add(i).read_volatile() }
        });
        assert_eq!(seen, [9, 8]);
        assert!(!memory.read(8, &mut target) && !memory.write(8, &[0]));
        assert!(!ProcessMemory::new(-5).read(source.as_ptr() as u64, &mut target));
    }
}
