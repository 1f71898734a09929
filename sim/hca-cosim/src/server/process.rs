//! Memory of a client process, at its own addresses.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use hca_host::RemoteMemory;
use hca_vfio_user::Connection;

/// File systems of whose files one is a process' memory.
const PROC_MAGIC: i64 = 0x9fa0;

/// A process that lets us touch its memory: it has handed over its own /proc/self/mem, or the kernel lets us open it
/// (the same user, or PR_SET_PTRACER).
///
/// What is held is its memory, opened once, not its id: the id may be another process's tomorrow, and the process may
/// run another program. Then, and when it has ended, the file is at its end.
pub(super) struct ProcessMemory {
    memory: File,
}

impl ProcessMemory {
    /// Memory of the process at the other end. Fails where it has ended or does not allow it.
    pub fn of_peer(connection: &Connection) -> io::Result<Self> {
        let process = connection.peer_pidfd()?;
        let opened = Self::of_pid(connection.peer_pid()?)?;
        // Alive only now: the id was its own while the file was opened.
        if has_ended(&process) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(opened)
    }

    /// What a process has handed over as its memory. The kernel looks at who opens such a file, not at who uses it: no
    /// right to trace the process is needed, nor that it can be seen from here. Another process' memory is as good: who
    /// hands it over could write to it.
    pub fn handed_over(memory: OwnedFd) -> io::Result<Self> {
        // SAFETY: an all-zero statfs is valid.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills it in; any file may be asked.
        let asked = unsafe { libc::fstatfs(memory.as_raw_fd(), &mut system) };
        if asked != 0 || system.f_type != PROC_MAGIC {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Self {
            memory: memory.into(),
        })
    }

    fn of_pid(pid: i32) -> io::Result<Self> {
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))?;
        Ok(Self { memory })
    }
}

/// The process of a pidfd is no more.
fn has_ended(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd; does not wait.
    unsafe { libc::poll(&mut poll, 1, 0) != 0 }
}

/// All or nothing: `copy` is told how much has been done, and says how much more; 0: the process has ended or runs
/// another program, and its memory is no more.
fn whole(len: usize, mut copy: impl FnMut(usize) -> io::Result<usize>) -> bool {
    let mut done = 0;
    while done < len {
        match copy(done) {
            Ok(0) => return false,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

impl RemoteMemory for ProcessMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let at = |done| addr.wrapping_add(done as u64);
        whole(out.len(), |done| self.memory.read_at(&mut out[done..], at(done)))
    }

    /// Pages that are mapped for a device stay until they are unmapped for it, whatever their program does: it may have
    /// ended, a moment before its sockets close and the function is reset, or have released memory that is registered,
    /// as caches of registrations do. What is written there is seen by nobody, and is no fault (decision 0016).
    fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        let at = |done| addr.wrapping_add(done as u64);
        let _seen = whole(bytes.len(), |done| self.memory.write_at(&bytes[done..], at(done)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    fn ours() -> ProcessMemory {
        ProcessMemory::of_pid(std::process::id() as i32).unwrap()
    }

    #[test]
    fn our_own_memory_can_be_copied_and_bad_addresses_fail() {
        let (end, _other) = UnixStream::pair().unwrap();
        let memory = ProcessMemory::of_peer(&Connection::new(end)).unwrap();
        let (source, mut target) = ([1u8, 2, 3, 4], [0u8; 4]);
        assert!(memory.read(source.as_ptr() as u64, &mut target));
        assert_eq!(target, source);
        assert!(memory.write(target.as_mut_ptr() as u64, &[9, 8]));
        let seen = [0, 1].map(|i| {
            // SAFETY: inside the array; it was changed behind the compiler's back.
            unsafe { target.as_ptr().add(i).read_volatile() }
        });
        assert_eq!(seen, [9, 8]);
        for addr in [0, 8, 1 << 63, u64::MAX - 1, u64::MAX] {
            assert!(!memory.read(addr, &mut target));
        }
        assert!(ProcessMemory::of_pid(-5).is_err());
    }

    #[test]
    fn memory_that_is_handed_over_is_that_of_a_process() {
        let file = |path| File::options().read(true).write(true).open(path).unwrap();
        let memory = ProcessMemory::handed_over(file("/proc/self/mem").into()).unwrap();
        let (source, mut target) = ([5u8, 6], [0u8; 2]);
        assert!(memory.read(source.as_ptr() as u64, &mut target));
        assert_eq!(target, source);
        let (pipe, _writer) = io::pipe().unwrap();
        for other in [file("/dev/zero").into(), OwnedFd::from(pipe)] {
            assert!(ProcessMemory::handed_over(other).is_err());
        }
    }

    #[test]
    fn a_copy_that_runs_into_nothing_fails() {
        let memory = hca_dev::SharedMem::new("edge", 4096).unwrap();
        let end = memory.as_ptr() as u64 + 4096;
        assert!(ours().read(end - 8, &mut [0; 8]));
        drop(memory);
        assert!(!ours().read(end - 8, &mut [0; 8]));
    }

    /// UCX releases the memory of its receives before it destroys the QP that they are posted to.
    #[test]
    fn registered_memory_that_is_released_takes_writes_and_answers_no_reads() {
        let memory = hca_dev::SharedMem::new("released", 8192).unwrap();
        let page = memory.as_ptr() as u64;
        assert!(ours().write(page + 4096, &[1; 64]));
        drop(memory);
        assert!(ours().write(page + 4096, &[2; 64]));
        assert!(!ours().read(page + 4096, &mut [0; 64]));
    }

    #[test]
    fn a_process_that_has_ended_takes_writes_and_answers_no_reads() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let memory = ProcessMemory::of_pid(child.id() as i32).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        // Its id may be anybody's by now.
        assert!(memory.write(0x1000, &[1]));
        assert!(!memory.read(0x1000, &mut [0]));
    }

    /// The id stays, and so may the connection; the memory is another program's.
    #[test]
    fn a_process_that_runs_another_program_has_ended() {
        let mut child = Command::new("sh")
            .args(["-c", "echo ready; read line; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut String::new()).unwrap();
        let memory = ProcessMemory::of_pid(child.id() as i32).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
        let (start, _) = stack.split_once('-').unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        assert!(memory.read(start, &mut [0; 64]));
        let mut input = child.stdin.take().unwrap();
        // The second line is answered by the second program.
        input.write_all(b"go\nthere\n").unwrap();
        lines.read_exact(&mut [0; 6]).unwrap();
        assert!(!memory.read(start, &mut [0; 64]));
        assert!(memory.write(start, &[1]));
        drop(input);
        child.wait().unwrap();
    }
}
