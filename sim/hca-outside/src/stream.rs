//! A UNIX stream socket with QEMU's framing, in either role. The peer may go and come back.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::framing::{Unframed, Unframer, frame_up};
use crate::socket::{Sent, is_transient};
use crate::stats::{WireStats, add};

/// Time between two tries to reach a peer that is not there, and after an accept that failed.
const RETRY: Duration = Duration::from_millis(100);
/// Bytes that wait for a peer that does not read; more stays in the queue.
const PENDING_BYTES: usize = 64 << 10;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// How the peer comes.
enum Role {
    Listen(UnixListener),
    Connect,
}

pub(crate) struct Stream {
    role: Role,
    path: PathBuf,
    peer: Option<UnixStream>,
    /// Who comes after a peer that has hung up, once what that has said is heard.
    next: Option<UnixStream>,
    unframer: Unframer,
    pending: Vec<u8>,
    buffer: Vec<u8>,
    retry_at: Option<Instant>,
}

impl Stream {
    /// Makes the socket. One there that nobody listens at any more is replaced.
    pub fn listen(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::new(Role::Listen(listener), path))
    }

    /// The peer is looked for now and then.
    pub fn connect(path: &Path) -> Self {
        Self::new(Role::Connect, path)
    }

    fn new(role: Role, path: &Path) -> Self {
        let retry_at = matches!(role, Role::Connect).then(Instant::now);
        Self {
            role,
            path: path.to_owned(),
            peer: None,
            next: None,
            unframer: Unframer::default(),
            pending: Vec::new(),
            buffer: vec![0; READ_BYTES],
            retry_at,
        }
    }

    /// What to wait for: the descriptor, and whether to wait until it can be written.
    pub fn watch(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let listener = match &self.role {
            Role::Listen(listener) if self.retry_at.is_none() && self.next.is_none() => {
                Some((listener.as_fd(), false))
            }
            _ => None,
        };
        let peer = self.peer.as_ref();
        let peer = peer.map(|peer| (peer.as_fd(), !self.pending.is_empty()));
        listener.into_iter().chain(peer)
    }

    /// When to look again although nothing comes.
    pub fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Looks for a peer.
    pub fn maintain(&mut self, stats: &WireStats) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        match &self.role {
            Role::Listen(_) if self.next.is_some() => {}
            Role::Listen(listener) => match listener.accept() {
                Ok((peer, _)) => match &self.peer {
                    None => self.welcome(peer, stats),
                    Some(old) if is_hung_up(old) => self.next = Some(peer),
                    // A wire has two ends.
                    Some(_) => add(&stats.refused, 1),
                },
                Err(error) if is_transient(&error) => {}
                Err(_) => self.retry_at = Some(Instant::now() + RETRY),
            },
            Role::Connect if self.peer.is_none() => match UnixStream::connect(&self.path) {
                Ok(peer) => self.welcome(peer, stats),
                Err(_) => self.retry_at = Some(Instant::now() + RETRY),
            },
            Role::Connect => {}
        }
    }

    fn welcome(&mut self, peer: UnixStream, stats: &WireStats) {
        if peer.set_nonblocking(true).is_ok() {
            self.peer = Some(peer);
            stats.set_connected(true);
        }
    }

    fn hang_up(&mut self, stats: &WireStats) {
        self.peer = None;
        self.unframer = Unframer::default();
        self.pending.clear();
        stats.set_connected(false);
        if let Some(next) = self.next.take() {
            self.welcome(next, stats);
        }
        if matches!(self.role, Role::Connect) {
            self.retry_at = Some(Instant::now() + RETRY);
        }
    }

    /// Reads once, and hands out what is complete.
    pub fn receive(&mut self, stats: &WireStats, out: impl FnMut(Unframed)) {
        let Some(peer) = &mut self.peer else { return };
        match peer.read(&mut self.buffer) {
            Ok(0) => self.hang_up(stats),
            Ok(len) => {
                if self.unframer.feed(&self.buffer[..len], out).is_err() {
                    add(&stats.bad_streams, 1);
                    self.hang_up(stats);
                }
            }
            Err(error) if is_transient(&error) => {}
            Err(_) => self.hang_up(stats),
        }
    }

    /// Takes a frame; [`Stream::flush`] writes it.
    pub fn send(&mut self, frame: &[u8]) -> Sent {
        if self.peer.is_none() {
            return Sent::NoPeer;
        }
        if self.pending.len() > PENDING_BYTES {
            return Sent::Full;
        }
        frame_up(frame, &mut self.pending);
        Sent::Done
    }

    /// Writes as much as the peer takes; true: there is room for more.
    pub fn flush(&mut self, stats: &WireStats) -> bool {
        while let Some(peer) = self.peer.as_mut().filter(|_| !self.pending.is_empty()) {
            match peer.write(&self.pending) {
                Ok(0) => self.hang_up(stats),
                Ok(len) => drop(self.pending.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return false,
                Err(_) => self.hang_up(stats),
            }
        }
        true
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if matches!(self.role, Role::Listen(_)) {
            // A path that somebody else removed is as good as removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The other end has closed, or died.
fn is_hung_up(peer: &UnixStream) -> bool {
    let mut polls = [PollFd::new(peer.as_fd(), PollFlags::empty())];
    let found = poll(&mut polls, PollTimeout::ZERO);
    found.is_ok_and(|found| found > 0)
}

/// Makes way for a new socket: one that nobody listens at is removed, anything else is not ours to touch.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    let refuse = |reason| Err(io::Error::new(ErrorKind::AddrInUse, reason));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return refuse("a file that is no socket is in the way; move it or choose another path");
        }
        Ok(_) => {}
    }
    let refused = |error: io::Error| match error.kind() {
        ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        // EPROTOTYPE: a socket of the other type, stale or not; its connection says which.
        _ => Err(error),
    };
    match UnixStream::connect(path) {
        Ok(_) => refuse("somebody else listens there; stop it or choose another path"),
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EPROTOTYPE as i32) => {
            let probe = std::os::unix::net::UnixDatagram::unbound()?;
            match probe.connect(path) {
                Ok(()) => refuse("somebody else uses it; stop it or choose another path"),
                Err(error) => refused(error),
            }
        }
        Err(error) => refused(error),
    }
}
