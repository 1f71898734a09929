//! The activity page: how a client sleeps until a simulated card has written into its rings, instead of polling
//! memory.
//!
//! Word 0 counts what the card wrote into memory that its driver shares with it (rings: completions, events,
//! answers); word 1 counts clients asleep; word 2 says that a write of the card was lost, double word 2 to which bus
//! address it was. A client may write anything into it: that wakes or fails to wake only itself.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use crate::shared::SharedRegion;

const LOST_WRITE_OFFSET: usize = 16;

/// Either end's view of the page.
#[derive(Clone, Debug)]
pub struct ActivityPage {
    region: SharedRegion,
}

impl ActivityPage {
    pub(crate) fn new(region: SharedRegion) -> Self {
        Self { region }
    }

    fn word(&self, index: usize) -> &AtomicU32 {
        self.region.word32(4 * index)
    }

    /// What has been announced so far.
    pub fn sequence(&self) -> u32 {
        self.word(0).load(Ordering::Acquire)
    }

    /// The simulator: something new is visible.
    pub fn announce(&self) {
        self.word(0).fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.word(1).load(Ordering::Relaxed) != 0 {
            self.futex(libc::FUTEX_WAKE, i32::MAX as u32, None);
        }
    }

    /// The client: sleeps until the sequence is no longer `seen`, but at most for `limit`.
    pub fn wait(&self, seen: u32, limit: Duration) {
        self.word(1).fetch_add(1, Ordering::SeqCst);
        if self.sequence() == seen {
            let limit = libc::timespec {
                tv_sec: limit.as_secs() as i64,
                tv_nsec: i64::from(limit.subsec_nanos()),
            };
            self.futex(libc::FUTEX_WAIT, seen, Some(&limit));
        }
        self.word(1).fetch_sub(1, Ordering::SeqCst);
    }

    /// The simulator: a write of the card was refused, and the function is cut off. Wakes whoever sleeps.
    pub fn tell_lost_write(&self, addr: u64) {
        self.region
            .word64(LOST_WRITE_OFFSET)
            .store(addr, Ordering::Relaxed);
        self.word(2).store(1, Ordering::Release);
        self.announce();
    }

    /// The bus address of the write that was lost.
    pub fn lost_write(&self) -> Option<u64> {
        let is_lost = self.word(2).load(Ordering::Acquire) != 0;
        is_lost.then(|| self.region.word64(LOST_WRITE_OFFSET).load(Ordering::Relaxed))
    }

    /// Time-outs, early wake-ups and lost races are all the same to the callers.
    fn futex(&self, operation: i32, value: u32, limit: Option<&libc::timespec>) {
        let limit = limit.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word is alive and aligned; limit is null or points at a live timespec.
        unsafe { libc::syscall(libc::SYS_futex, self.word(0).as_ptr(), operation, value, limit) };
    }
}

/// An eventfd whose reads and writes never wait.
pub fn eventfd() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a plain system call; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn announcements_wake() {
        let page = SharedRegion::new().unwrap().activity();
        let seen = page.sequence();
        let other = page.clone();
        let waker = std::thread::spawn(move || {
            while other.word(1).load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            other.announce();
        });
        let start = Instant::now();
        page.wait(seen, Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10));
        waker.join().unwrap();
        page.wait(seen, Duration::from_secs(20));
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "not asleep when something is new"
        );
    }
}
