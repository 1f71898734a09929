//! A wire: its queues, and the thread at its socket.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::answer::Heard;
use crate::framing::Unframed;
use crate::neighbours::{Neighbourhood, Neighbours};
use crate::queue::{Pushed, Queue};
use crate::socket::{Sent, Socket};
use crate::stats::{WireStats, add};
use crate::table::STATIC_MAX;
use crate::{FRAME_BYTES_MAX, Gateway, Host, PeerAddress, StaticNeighbour, WireError};

/// What a wire is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// The other end.
    pub address: PeerAddress,
    /// Neighbours that are not asked for.
    pub neighbours: Vec<StaticNeighbour>,
    /// Routers to other networks; the first that fits counts.
    pub gateways: Vec<Gateway>,
}

impl WireConfig {
    /// A wire to a peer.
    pub fn new(address: PeerAddress) -> Self {
        Self {
            address,
            neighbours: Vec::new(),
            gateways: Vec::new(),
        }
    }
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// What the simulation and the thread have in common.
pub(crate) struct Shared {
    inbound: Queue,
    outbound: Queue,
    /// Frames that pass the card by, for captures; the last byte tells the direction.
    aside: Queue,
    captures: AtomicBool,
    neighbourhood: Mutex<Neighbourhood>,
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
        let WireConfig {
            address,
            neighbours,
            gateways,
        } = config;
        let name = address.to_string();
        if neighbours.len() > STATIC_MAX {
            return Err(WireError::TooManyNeighbours {
                address: name,
                count: neighbours.len(),
                limit: STATIC_MAX,
            });
        }
        let failed = |reason: io::Error| WireError::Os {
            address: name.clone(),
            reason,
        };
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let shared = Arc::new(Shared {
            inbound: Queue::default(),
            outbound: Queue::default(),
            aside: Queue::default(),
            captures: AtomicBool::new(false),
            neighbourhood: Mutex::new(Neighbourhood::new(&neighbours, &gateways)),
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

    /// From now on the wire answers for a port: only RoCEv2 passes.
    pub fn set_host(&self, host: Host) {
        self.neighbours().set_host(host);
    }

    /// Who is on the network behind it.
    pub fn neighbours(&self) -> Neighbours {
        Neighbours::new(self.shared.clone())
    }

    /// Called, from the wire's thread, whenever something has come; only the first call of this function counts.
    pub fn on_arrival(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.wake.set(Box::new(wake));
    }

    /// Something has come for the card.
    pub fn has_frame(&self) -> bool {
        !self.shared.inbound.is_empty()
    }

    /// The next frame that has come for the card.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.shared.inbound.pop()
    }

    /// From now on [`Wire::take_aside`] has something to tell.
    pub fn keep_aside(&self) {
        self.shared.captures.store(true, Ordering::SeqCst);
    }

    /// There is something to capture.
    pub fn has_aside(&self) -> bool {
        !self.shared.aside.is_empty()
    }

    /// The next frame that the wire has dealt with itself, for captures; true: it came, false: it went.
    pub fn take_aside(&self) -> Option<(bool, Vec<u8>)> {
        let mut frame = self.shared.aside.pop()?;
        let came = frame.pop()? != 0;
        Some((came, frame))
    }

    /// Sends a frame of the card, or counts why not.
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
    /// Lets the thread look for work.
    pub fn kick(&self) {
        // One that is full wakes as well.
        let _ = self.kick.write(1);
    }

    pub fn neighbourhood(&self) -> MutexGuard<'_, Neighbourhood> {
        // Nothing in it panics between changes that belong together.
        self.neighbourhood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, frame: Vec<u8>) {
        let heard = self.neighbourhood().hear(Instant::now(), &frame);
        let stats = &self.stats;
        let (count, answer) = match heard {
            Heard::Card => return self.deliver(frame),
            Heard::News => return self.note(true, &frame),
            Heard::Asked(answer) => (&stats.asked, Some(answer)),
            Heard::Echo(answer) => (&stats.echoes, Some(answer)),
            Heard::Conflict => (&stats.conflicts, None),
            // Of no protocol of the port's: for whoever has a rule for it.
            Heard::Foreign => {
                add(&stats.foreign, 1);
                return self.deliver(frame);
            }
            Heard::Malformed => (&stats.malformed, None),
        };
        add(count, 1);
        if let Some(answer) = answer {
            self.note(true, &frame);
            self.say(answer);
        }
    }

    fn deliver(&self, frame: Vec<u8>) {
        match self.inbound.push(frame) {
            Pushed::Dropped => add(&self.stats.dropped_in, 1),
            Pushed::First | Pushed::Behind => {
                add(&self.stats.frames_in, 1);
                self.wake();
            }
        }
    }

    /// Sends a frame that is not the card's.
    fn say(&self, frame: Vec<u8>) {
        self.note(false, &frame);
        if self.outbound.push(frame) == Pushed::Dropped {
            add(&self.stats.dropped_out, 1);
        }
    }

    /// Keeps a frame that passes the card by; one that finds no room is missing in captures.
    fn note(&self, came: bool, frame: &[u8]) {
        if self.captures.load(Ordering::SeqCst) {
            let _ = self.aside.push([frame, &[u8::from(came)]].concat());
            self.wake();
        }
    }

    fn wake(&self) {
        self.wake.get().into_iter().for_each(|wake| wake());
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
            self.ask();
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
        let times = [self.socket.retry_at(), self.shared.neighbourhood().next_time()];
        let left = times.into_iter().flatten().min();
        let limit = left.map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_duration_since(Instant::now());
            // Rounded up, so that the time has come when it ends.
            PollTimeout::try_from(left.as_millis().min(60_000) as i32 + 1).unwrap_or(PollTimeout::MAX)
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

    /// Asks for the neighbours that somebody wants.
    fn ask(&mut self) {
        let questions = self.shared.neighbourhood().questions(Instant::now());
        questions.into_iter().for_each(|frame| self.shared.say(frame));
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
