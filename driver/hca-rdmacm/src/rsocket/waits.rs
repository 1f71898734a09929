//! What calls wait for, and by what.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::time::Instant;

use crate::errno::{Call, last_errno};

/// What calls wait for.
pub trait Transport {
    /// Looks at all completions. True: something has changed.
    fn process(&mut self) -> bool;
    /// The next completion will be heard of. False: that was so already.
    fn arm(&mut self) -> bool;
    /// Takes what has been heard.
    fn disarm(&mut self);
    /// Readable when there may be completions.
    fn polls(&self) -> Vec<libc::pollfd>;
    /// When to look again if nothing is heard.
    fn look_again(&self) -> Option<Instant> {
        None
    }
}

/// A descriptor of a thread's own, by which others tell it of changes while it is in rpoll.
pub struct Bell(pub RawFd);

impl Bell {
    pub fn new() -> Call<Self> {
        // SAFETY: no pointers.
        match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
            -1 => Err(last_errno()),
            fd => Ok(Self(fd)),
        }
    }

    pub fn hush(&self) {
        let mut count = [0u8; 8];
        // SAFETY: a live buffer of eight bytes.
        unsafe { libc::read(self.0, count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // SAFETY: nobody else closes it.
        unsafe { libc::close(self.0) };
    }
}

/// Sleeps until a descriptor is ready.
pub fn sleep(fds: &mut [libc::pollfd], until: Option<Instant>) -> Call<usize> {
    let timeout = match until {
        None => -1,
        // Up to the next millisecond: not a little too early again and again.
        Some(until) => until
            .saturating_duration_since(Instant::now())
            .as_micros()
            .div_ceil(1000)
            .min(i32::MAX as u128) as c_int,
    };
    // SAFETY: live entries, as many as named.
    match unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) } {
        count @ 0.. => Ok(count as usize),
        _ => Err(last_errno()),
    }
}

/// An entry for [`sleep`] that waits for input.
pub fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}
