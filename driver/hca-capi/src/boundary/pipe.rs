//! Events as records in a pipe: a real descriptor that poll, epoll and O_NONBLOCK work with.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use crate::boundary::live::lock;
use crate::boundary::{Errno, Verb, last_errno};

/// One direction, records of `N` bytes. `N` divides what a pipe writes in one piece.
pub struct EventPipe<const N: usize> {
    read: ProgramsFd,
    write: OwnedFd,
    /// What the pipe had no room for; the pump tries again.
    backlog: Mutex<VecDeque<[u8; N]>>,
}

impl<const N: usize> EventPipe<N> {
    pub fn new() -> Verb<Self> {
        let mut fds = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(last_errno());
        }
        // SAFETY: new, and nobody else owns it.
        let write = unsafe { OwnedFd::from_raw_fd(fds[1]) };
        let read = ProgramsFd::new(fds[0]);
        // Only the writer never waits; whether the reader does is the program's choice.
        // SAFETY: a plain system call on our own descriptor.
        if unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(last_errno());
        }
        let backlog = Mutex::default();
        Ok(Self { read, write, backlog })
    }

    /// The descriptor that the program sees.
    pub fn fd(&self) -> RawFd {
        self.read.fd
    }

    pub fn push(&self, record: [u8; N]) {
        lock(&self.backlog).push_back(record);
        self.flush();
    }

    /// Writes what there is room for.
    pub fn flush(&self) {
        let mut backlog = lock(&self.backlog);
        while let Some(record) = backlog.front() {
            // SAFETY: a live buffer of N bytes. Records up to PIPE_BUF are written whole or not at all.
            let sent = unsafe { libc::write(self.write.as_raw_fd(), record.as_ptr().cast(), N) };
            if sent != N as isize {
                return;
            }
            backlog.pop_front();
        }
    }
}

/// A descriptor that the program sees, and may have closed itself: by then the number can be another file's, which is
/// not ours to close.
struct ProgramsFd {
    fd: RawFd,
    /// Device and inode of what it is.
    identity: Option<(u64, u64)>,
}

fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: an all-zero stat is a valid one; the kernel writes to it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
    }
}

impl ProgramsFd {
    fn new(fd: RawFd) -> Self {
        let identity = identity(fd);
        Self { fd, identity }
    }
}

impl Drop for ProgramsFd {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(self.fd) == self.identity {
            // SAFETY: it is still the pipe that we have made.
            unsafe { libc::close(self.fd) };
        }
    }
}

/// The next record, by the descriptor: waits, unless the program has set O_NONBLOCK. A signal ends the wait with
/// EINTR, as with the kernel's descriptors.
pub fn read_record<const N: usize>(fd: RawFd) -> Verb<[u8; N]> {
    let mut record = [0; N];
    // SAFETY: a live buffer of N bytes.
    let got = unsafe { libc::read(fd, record.as_mut_ptr().cast(), N) };
    match got {
        got if got == N as isize => Ok(record),
        got if got < 0 => Err(last_errno()),
        _ => Err(Errno(libc::EIO)),
    }
}

/// An eventfd that is read without waiting.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
