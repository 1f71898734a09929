//! Interrupts: counts up eventfds that clients have made, without ever waiting.
//!
//! An eventfd that is full holds whoever writes to it, unless it is non-blocking; and that the client can change at any
//! moment, also between a look and a write. The kernel itself never waits: with asynchronous I/O it counts an eventfd
//! up when a request is done, whatever the eventfd's flags and count are. So for each interrupt we have one byte
//! written to /dev/null.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Requests that may be under way; each ends before its submission returns.
const QUEUE: libc::c_long = 32;
/// Of linux/aio_abi.h.
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of linux/aio_abi.h, on a little-endian machine.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    words: [u64; 4],
}

/// See the head of this file.
pub(super) struct Signals {
    context: libc::c_ulong,
    null: File,
}

impl Signals {
    /// Fails on a kernel without asynchronous I/O (CONFIG_AIO), or when all of the machine's is in use.
    pub fn new() -> io::Result<Self> {
        let null = File::options().write(true).open("/dev/null")?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is a live word, zero as it must be.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, QUEUE, &raw mut context) };
        if result < 0 {
            let reason = io::Error::last_os_error();
            let text =
                format!("asynchronous I/O of the kernel (io_setup; CONFIG_AIO, fs.aio-max-nr): {reason}");
            return Err(io::Error::new(reason.kind(), text));
        }
        Ok(Self { context, null })
    }

    /// Counts an eventfd up. One that is full for good stays full.
    pub fn raise(&self, eventfd: BorrowedFd<'_>) {
        let byte = 0u8;
        let mut request = Iocb {
            opcode: IOCB_CMD_PWRITE,
            fd: self.null.as_raw_fd() as u32,
            buf: (&raw const byte) as u64,
            bytes: 1,
            flags: IOCB_FLAG_RESFD,
            eventfd: eventfd.as_raw_fd() as u32,
            ..Iocb::default()
        };
        let mut list = [&raw mut request];
        // SAFETY: one live request whose buffer outlives it: writing to /dev/null is done when this returns.
        unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        let mut done = [IoEvent::default(); 4];
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: room for as many events as named; returns at once.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                done.len(),
                done.as_mut_ptr(),
                &raw const now,
            )
        };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: our own context, with nothing under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsFd as _, FromRawFd as _};

    #[test]
    fn every_eventfd_counts_and_none_holds_us() {
        let signals = Signals::new().unwrap();
        for flags in [0, libc::EFD_NONBLOCK, libc::EFD_SEMAPHORE] {
            // SAFETY: a plain system call; the result is checked.
            let fd = unsafe { libc::eventfd(0, flags) };
            assert!(fd >= 0);
            // SAFETY: new, and nobody else owns it.
            let mut eventfd = unsafe { File::from_raw_fd(fd) };
            let mut count = [0; 8];
            (0..3).for_each(|_| signals.raise(eventfd.as_fd()));
            eventfd.read_exact(&mut count).unwrap();
            let wanted = if flags == libc::EFD_SEMAPHORE { 1 } else { 3 };
            assert_eq!(u64::from_ne_bytes(count), wanted);
            if flags != libc::EFD_SEMAPHORE {
                eventfd.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
                (0..100).for_each(|_| signals.raise(eventfd.as_fd()));
                eventfd.read_exact(&mut count).unwrap();
                assert_eq!(u64::from_ne_bytes(count), u64::MAX);
            }
        }
        let (_reader, writer) = io::pipe().unwrap();
        signals.raise(writer.as_fd());
        signals.raise(signals.null.as_fd());
    }
}
