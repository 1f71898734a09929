//! How the simulation thread sleeps while nothing is under way, and who wakes it.
//!
//! Sockets have threads that leave events in lanes; doorbells come through shared memory without any. Either side of
//! each first does its own and then looks at the other, with a sequentially consistent fence between: the sleeper says
//! that it sleeps and then looks for work, the waker leaves work and then looks whether anybody sleeps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use hca_vfio_user::{clear_kick, eventfd};

/// Without a descriptor of its own a server that serves nothing looks this often whether it shall stop.
const UNSERVED_LIMIT: Duration = Duration::from_millis(100);

/// Wakes whoever polls an eventfd of ours.
pub(super) fn kick(eventfd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: a live buffer of eight bytes. A full eventfd wakes as well, and is non-blocking.
    unsafe { libc::write(eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Wakes the simulation thread from within this process.
pub(super) struct Waker {
    /// None when the process had no descriptor left; then nothing is served.
    kick: Option<OwnedFd>,
    asleep: AtomicBool,
}

impl Waker {
    pub fn new() -> Self {
        Self {
            kick: eventfd().ok(),
            asleep: AtomicBool::new(false),
        }
    }

    /// Fails where the waker could not be made.
    pub fn check(&self) -> io::Result<()> {
        let missing = || io::Error::from_raw_os_error(libc::EMFILE);
        self.kick.as_ref().map(|_| ()).ok_or_else(missing)
    }

    /// To be called behind whatever the simulation thread shall see.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if let Some(eventfd) = &self.kick
            && self.asleep.swap(false, Ordering::Relaxed)
        {
            kick(eventfd);
        }
    }

    /// From now on [`Waker::wake`] kicks. To be followed by a look for events.
    pub fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// No kicks any more.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sleeps until somebody kicks, here or at one of the clients' descriptors, or for so long.
    pub fn sleep<'a>(&'a self, clients: impl Iterator<Item = &'a OwnedFd>, limit: Option<Duration>) {
        let kicks: Vec<&OwnedFd> = clients.chain(&self.kick).collect();
        let mut polls: Vec<libc::pollfd> = kicks
            .iter()
            .map(|kick| libc::pollfd {
                fd: kick.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let limit = if self.kick.is_some() {
            limit
        } else {
            Some(limit.map_or(UNSERVED_LIMIT, |limit| limit.min(UNSERVED_LIMIT)))
        };
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // A signal ends it early: the caller looks for work and comes back.
        // SAFETY: live pollfds, as many as named; a live time or none, and no signal mask.
        unsafe {
            libc::ppoll(
                polls.as_mut_ptr(),
                polls.len() as libc::nfds_t,
                limit,
                std::ptr::null(),
            )
        };
        for (kick, poll) in kicks.iter().zip(&polls) {
            if poll.revents != 0 {
                // An eventfd of ours: reading it can only find nothing.
                let _ = clear_kick(kick);
            }
        }
    }
}
