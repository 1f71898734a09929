//! A wire: its queues, and the thread at its socket.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::framing::Unframed;
use crate::queue::{Pushed, Queue};
use crate::socket::{Sent, Socket};
use crate::stats::{WireStats, add};
use crate::{FRAME_BYTES_MAX, PeerAddress, WireError};

/// What a wire is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// The other end.
    pub address: PeerAddress,
}

impl WireConfig {
    /// A wire to a peer.
    pub fn new(address: PeerAddress) -> Self {
        Self { address }
    }
}

type Wake = Box<dyn Fn() + Send + Sync>;

struct Shared {
    inbound: Queue,
    outbound: Queue,
    kick: EventFd,
    closed: AtomicBool,
    wake: OnceLock<Wake>,
    stats: Arc<WireStats>,
}

/// The simulation's end of a wire.
pub struct Wire {
    shared: Arc<Shared>,
    address: PeerAddress,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Opens the socket and starts its thread.
    pub fn open(config: WireConfig) -> Result<Self, WireError> {
        let WireConfig { address } = config;
        let failed = |reason: io::Error| WireError::Os {
            address: address.to_string(),
            reason,
        };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let shared = Arc::new(Shared {
            inbound: Queue::default(),
            outbound: Queue::default(),
            kick: EventFd::from_flags(flags).map_err(|error| failed(error.into()))?,
            closed: AtomicBool::new(false),
            wake: OnceLock::new(),
            stats: Arc::default(),
        });
        let socket = Socket::open(&address, &shared.stats).map_err(failed)?;
        let worker = Worker {
            shared: shared.clone(),
            socket,
            waiting: None,
        };
        let thread = std::thread::Builder::new().name("wire".to_owned());
        let thread = thread.spawn(move || worker.run()).map_err(failed)?;
        Ok(Self {
            shared,
            address,
            thread: Some(thread),
        })
    }

    /// Where its other end is.
    pub fn address(&self) -> &PeerAddress {
        &self.address
    }

    /// Called, from the wire's thread, whenever something has come; only the first call of this function counts.
    pub fn on_arrival(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.wake.set(Box::new(wake));
    }

    /// Something has come.
    pub fn has_frame(&self) -> bool {
        !self.shared.inbound.is_empty()
    }

    /// The next frame that has come.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.shared.inbound.pop()
    }

    /// Sends a frame, or counts why not.
    pub fn send(&self, frame: &[u8]) {
        let stats = &self.shared.stats;
        if frame.len() > FRAME_BYTES_MAX {
            return add(&stats.oversized, 1);
        }
        match self.shared.outbound.push(frame.to_vec()) {
            Pushed::First => self.shared.kick(),
            Pushed::Behind => {}
            Pushed::Dropped => add(&stats.dropped_out, 1),
        }
    }

    /// Its counts.
    pub fn stats(&self) -> Arc<WireStats> {
        self.shared.stats.clone()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.kick();
        if let Some(thread) = self.thread.take() {
            // It never waits for a peer, and has nothing to say when it ends.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn kick(&self) {
        // One that is full wakes as well.
        let _ = self.kick.write(1);
    }
}

/// The thread.
struct Worker {
    shared: Arc<Shared>,
    socket: Socket,
    /// A frame for which the socket had no room.
    waiting: Option<Vec<u8>>,
}

impl Worker {
    fn run(mut self) {
        while !self.shared.closed.load(Ordering::SeqCst) {
            self.wait();
            // Nothing to read: somebody else woke us.
            let _ = self.shared.kick.read();
            self.socket.maintain(&self.shared.stats);
            self.receive();
            self.transmit();
        }
    }

    fn wait(&self) {
        let watched = self.socket.watch();
        let mut polls = vec![PollFd::new(self.shared.kick.as_fd(), PollFlags::POLLIN)];
        polls.extend(watched.iter().map(|(fd, write)| {
            let write = if *write {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            PollFd::new(*fd, PollFlags::POLLIN | write)
        }));
        let left = self
            .socket
            .retry_at()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let limit = left.map_or(PollTimeout::NONE, |left| {
            // Rounded up, so that the time has come when it ends.
            PollTimeout::try_from(left.as_millis() as i32 + 1).unwrap_or(PollTimeout::MAX)
        });
        // A signal ends it early, which the caller allows.
        let _ = poll(&mut polls, limit);
    }

    fn receive(&mut self) {
        let shared = &self.shared;
        self.socket.receive(&shared.stats, |what| match what {
            Unframed::Frame(frame) => shared.arrived(frame),
            Unframed::Runt => add(&shared.stats.runts, 1),
            Unframed::Oversized => add(&shared.stats.oversized, 1),
        });
    }

    fn transmit(&mut self) {
        let stats = &self.shared.stats;
        while let Some(frame) = self.waiting.take().or_else(|| self.shared.outbound.pop()) {
            match self.socket.send(&frame) {
                Sent::Done => add(&stats.frames_out, 1),
                Sent::NoPeer => add(&stats.no_peer, 1),
                Sent::Full => {
                    self.waiting = Some(frame);
                    if !self.socket.flush(stats) {
                        return;
                    }
                }
            }
        }
        self.socket.flush(stats);
    }
}

impl Shared {
    fn arrived(&self, frame: Vec<u8>) {
        match self.inbound.push(frame) {
            Pushed::Dropped => add(&self.stats.dropped_in, 1),
            Pushed::First | Pushed::Behind => {
                add(&self.stats.frames_in, 1);
                self.wake.get().into_iter().for_each(|wake| wake());
            }
        }
    }
}
