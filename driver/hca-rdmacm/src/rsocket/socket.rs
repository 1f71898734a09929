//! What a descriptor stands for, and how calls wait.
//!
//! One lock guards a socket, and nobody sleeps with it. Of several threads that wait for one stream, one sleeps on its
//! descriptor; it tells the others what has changed. Threads in rpoll have a descriptor each for the same purpose.

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hca_exports::table::{Table, lock};

use super::config::Config;
use super::datagram::Datagrams;
use super::stream::Stream;
use super::waits::{Bell, Transport, readable, sleep};
use super::wire::Control;
use crate::abi::*;
use crate::errno::{Call, EINVAL, Errno, last_errno};
use crate::ids;
use crate::state::with;

/// Nothing to do now.
pub const EAGAIN: Errno = Errno(libc::EAGAIN);
/// No socket of this library.
pub const EBADF: Errno = Errno(libc::EBADF);
/// There is no connection.
pub const ENOTCONN: Errno = Errno(libc::ENOTCONN);

/// Where a socket is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Idle,
    Bound,
    Listening,
    /// Has asked for a connection; or was asked, and has answered.
    Opening {
        is_passive: bool,
    },
    Connected,
    /// It could not be connected.
    Failed,
}

/// What the lock guards.
pub struct Inner {
    pub stage: Stage,
    pub stream: Option<Box<Stream>>,
    pub datagrams: Option<Box<Datagrams>>,
    pub config: Config,
    pub flags: c_int,
    /// Of an attempt that has failed, until somebody asks.
    pub error: Option<Errno>,
    pub options: HashMap<(c_int, c_int), c_int>,
    pub linger: libc::linger,
    /// The program's own path (RDMA_ROUTE), until it is taken.
    pub route: Option<Vec<u8>>,
    is_watched: bool,
    pollers: Vec<RawFd>,
}

/// A socket.
pub struct Rsocket {
    pub id: *mut rdma_cm_id,
    pub domain: c_int,
    pub is_datagram: bool,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// For the one thread that sleeps on a descriptor: others may have taken what it waits for.
    bell: Bell,
}

// SAFETY: ids may be used from any thread; the rest is behind the lock.
unsafe impl Send for Rsocket {}
// SAFETY: as above.
unsafe impl Sync for Rsocket {}

static TABLE: Table<HashMap<c_int, Arc<Rsocket>>> = Table::new();

/// The socket of a descriptor.
pub fn find(fd: c_int) -> Call<Arc<Rsocket>> {
    TABLE.lock().get(&fd).cloned().ok_or(EBADF)
}

/// Takes a socket out of the table.
pub fn take(fd: c_int) -> Call<Arc<Rsocket>> {
    TABLE.lock().remove(&fd).ok_or(EBADF)
}

/// Puts a socket into the table; its descriptor.
pub fn insert(socket: Rsocket) -> c_int {
    let fd = socket.cm_fd();
    TABLE.lock().insert(fd, Arc::new(socket));
    fd
}

impl Rsocket {
    /// A socket on an id that has a channel of its own, and is the socket's from now on.
    pub fn new(id: *mut rdma_cm_id, domain: c_int, stage: Stage, config: Config) -> Call<Self> {
        let bell = Bell::new().inspect_err(|_| {
            let _ = ids::destroy(id);
        })?;
        let socket = Self {
            id,
            domain,
            // SAFETY: a live id.
            is_datagram: unsafe { (*id).ps } == RDMA_PS_UDP,
            inner: Mutex::new(Inner {
                stage,
                stream: None,
                datagrams: None,
                config,
                flags: libc::O_RDWR,
                error: None,
                options: HashMap::new(),
                linger: libc::linger {
                    l_onoff: 0,
                    l_linger: 0,
                },
                route: None,
                is_watched: false,
                pollers: Vec::new(),
            }),
            changed: Condvar::new(),
            bell,
        };
        // Waiting for the connection manager is done here.
        // SAFETY: a live descriptor.
        if unsafe { libc::fcntl(socket.cm_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
            return Err(last_errno());
        }
        Ok(socket)
    }

    /// Descriptor of the id's channel, and number of the socket.
    pub fn cm_fd(&self) -> c_int {
        // SAFETY: the id and its channel live as long as this.
        unsafe { (*(*self.id).channel).fd }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Tells who waits that something has changed.
    pub fn tell(&self, inner: &Inner) {
        self.changed.notify_all();
        let one = 1u64.to_ne_bytes();
        let watcher = inner.is_watched.then_some(&self.bell.0);
        for fd in inner.pollers.iter().chain(watcher) {
            // SAFETY: a live buffer of eight bytes; the descriptor's thread is in rpoll.
            unsafe { libc::write(*fd, one.as_ptr().cast(), one.len()) };
        }
    }

    /// Looks at what the card has done.
    pub fn process(&self, inner: &mut Inner) {
        let transport = inner.transport();
        if transport.is_some_and(|transport| transport.process()) {
            self.tell(inner);
        }
    }

    /// Sleeps until the connection manager has news, or another thread has heard them.
    pub fn wait_for_cm<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> Call<MutexGuard<'a, Inner>> {
        if inner.is_watched {
            return Ok(self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
        inner.is_watched = true;
        drop(inner);
        let slept = sleep(&mut [readable(self.cm_fd()), readable(self.bell.0)], None);
        inner = self.lock();
        inner.is_watched = false;
        self.bell.hush();
        self.tell(&inner);
        slept.map(|_| inner)
    }

    /// Waits until a stream has what is asked for.
    pub fn wait<'a>(
        &'a self,
        inner: MutexGuard<'a, Inner>,
        may_wait: bool,
        is_there: impl Fn(&mut Stream) -> bool,
    ) -> Call<MutexGuard<'a, Inner>> {
        self.wait_until(inner, may_wait, |inner| Ok(is_there(inner.stream()?)))
    }

    /// Waits until a condition holds.
    pub fn wait_until<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        may_wait: bool,
        holds: impl Fn(&mut Inner) -> Call<bool>,
    ) -> Call<MutexGuard<'a, Inner>> {
        let patience = Duration::from_micros(inner.config.polling_us.into());
        let mut begun = None;
        loop {
            self.process(&mut inner);
            if holds(&mut inner)? {
                return Ok(inner);
            }
            if !may_wait {
                return Err(EAGAIN);
            }
            if begun.get_or_insert_with(Instant::now).elapsed() < patience {
                continue;
            }
            if inner.is_watched {
                inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // What has come before it was armed is not heard of.
            let transport = inner.transport().ok_or(ENOTCONN)?;
            if transport.arm() {
                continue;
            }
            let (mut polls, until) = (transport.polls(), transport.look_again());
            inner.is_watched = true;
            drop(inner);
            polls.push(readable(self.bell.0));
            let slept = sleep(&mut polls, until);
            inner = self.lock();
            inner.is_watched = false;
            self.bell.hush();
            if let Some(transport) = inner.transport() {
                transport.disarm();
            }
            self.tell(&inner);
            slept?;
        }
    }

    /// Ends a direction, or both.
    pub fn shut<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        reads: bool,
        writes: bool,
        waits: bool,
    ) -> Call<MutexGuard<'a, Inner>> {
        let control = inner.stream()?.shut(reads, writes);
        if let Some(control) = control {
            inner = self.wait(inner, true, |stream| stream.can_control() || !stream.is_open)?;
            let stream = inner.stream()?;
            if stream.is_open {
                stream.say(control)?;
            }
            if waits {
                inner = self.wait(inner, true, |stream| stream.is_drained())?;
            }
            if control == Control::Disconnect {
                inner.stream()?.close();
            }
            self.tell(&inner);
        }
        Ok(inner)
    }

    /// A thread that is in rpoll wants to hear of changes, or no longer.
    pub fn watch(&self, inner: &mut Inner, poller: RawFd, is_on: bool) {
        inner.pollers.retain(|fd| *fd != poller);
        if is_on {
            inner.pollers.push(poller);
        }
    }
}

impl Inner {
    /// Must a call return at once?
    pub fn may_wait(&self, flags: c_int) -> bool {
        self.flags & libc::O_NONBLOCK == 0 && flags & libc::MSG_DONTWAIT == 0
    }

    /// What its bytes come and go by, if there is anything yet.
    pub fn transport(&mut self) -> Option<&mut dyn Transport> {
        match (&mut self.stream, &mut self.datagrams) {
            (Some(stream), _) => Some(&mut **stream),
            (None, Some(datagrams)) => Some(&mut **datagrams),
            (None, None) => None,
        }
    }

    pub fn datagrams(&mut self) -> Call<&mut Datagrams> {
        self.datagrams.as_deref_mut().ok_or(ENOTCONN)
    }

    pub fn stream(&mut self) -> Call<&mut Stream> {
        self.stream.as_deref_mut().ok_or(ENOTCONN)
    }
}

impl Drop for Rsocket {
    fn drop(&mut self) {
        // The QP first: it is the id's.
        let mut inner = lock(&self.inner);
        (inner.stream, inner.datagrams) = (None, None);
        drop(inner);
        // Its descriptor is closed with it.
        let _ = ids::destroy(self.id);
    }
}

/// Private data of the last event of an id.
pub fn private_data(id: *mut rdma_cm_id) -> Call<Vec<u8>> {
    with(id, |_, _| {
        // SAFETY: a live id; its event, if it has one, is one of a connection, whose data is as long as it says.
        unsafe {
            let event = (*id).event.as_ref().ok_or(EINVAL)?;
            let conn = event.param.conn;
            if conn.private_data.is_null() {
                return Ok(Vec::new());
            }
            let len = conn.private_data_len.into();
            Ok(std::slice::from_raw_parts(conn.private_data.cast(), len).to_vec())
        }
    })
}
