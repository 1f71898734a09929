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

/// Why a copy did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The process has ended, and its memory with it.
    Ended,
    /// No such memory, or no permission.
    Refused,
}

/// All or nothing, except that signals are tried again.
fn copy(call: Copy, pid: i32, local: *mut u8, addr: u64, len: usize) -> Result<(), Failure> {
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
        if done >= 0 {
            return (done == len as isize).then_some(()).ok_or(Failure::Refused);
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ESRCH) => return Err(Failure::Ended),
            _ => return Err(Failure::Refused),
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
        .is_ok()
    }

    /// A process loses its memory a moment before its sockets close and the function is reset. Registered memory of a
    /// real process outlives it until then: what is written to it is lost, and its peer must not be told of a fault.
    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        let written = copy(
            libc::process_vm_writev,
            self.pid,
            bytes.as_ptr().cast_mut(),
            addr,
            bytes.len(),
        );
        matches!(written, Ok(()) | Err(Failure::Ended))
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

    #[test]
    fn a_process_that_has_ended_takes_writes_and_answers_no_reads() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let memory = ProcessMemory::new(child.id() as i32);
        // Until it has been waited for its id is its own.
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(memory.write(0x1000, &[1]));
        assert!(!memory.read(0x1000, &mut [0]));
        child.wait().unwrap();
    }
}
