//! What passes between the two threads of a function: its door, which alone waits for the client's socket, and the
//! simulation, which never does. Both ways are bounded, for each function on its own: a client that sends faster than
//! it is served, or does not read its answers, holds up itself.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hca_dev::SharedMem;
use hca_host::{Mappings, Remote, Watcher};
use hca_vfio_user::{Connection, HEADER_BYTES, Header, SharedRegion, clear_kick, eventfd};

use super::wake::{Waker, kick};

/// Messages of a client that may wait for the simulation.
const INBOX_MESSAGES: usize = 16;

/// A client that has been greeted, with all that it is given.
pub(super) struct Newcomer {
    pub pid: i32,
    /// Its memory, as far as the simulation has no mapping of it.
    pub memory: Remote,
    /// That is the whole process, by its addresses: it has agreed to that.
    pub process_memory: bool,
    /// Where it has asked for that.
    pub shared: Option<Shared>,
}

/// What a client shares with the simulation, made for it alone, so that an earlier one that kept the mapping reaches
/// nobody.
pub(super) struct Shared {
    pub region: SharedRegion,
    /// Wakes the simulation.
    pub kick: OwnedFd,
}

/// What came with a message, looked at and found harmless: the simulation may use and drop it without waiting.
pub(super) enum Given {
    /// No descriptors, or such as mean nothing with this command.
    Nothing,
    /// Eventfds, whatever their flags and counts are.
    Eventfds(Vec<OwnedFd>),
    /// Memory of a descriptor, from an offset in its mapping on. It holds no descriptor.
    Memory { memory: Arc<SharedMem>, offset: usize },
    /// Something else; the errno that says what is wrong with it.
    Refused(i32),
}

/// A message of the client.
pub(super) struct Request {
    pub header: Header,
    pub payload: Vec<u8>,
    pub given: Given,
}

/// What a door tells the simulation.
pub(super) enum Event {
    /// A client has been accepted.
    Connected(Box<Newcomer>),
    /// It sent something.
    Message(Request),
    /// It went away, broke the protocol or was hung up.
    Gone,
}

/// Answers that the socket did not take.
struct Outbox {
    connection: Connection,
    packets: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// When the socket took something for the last time.
    since: Instant,
    broken: bool,
}

impl Outbox {
    /// Sends what the socket takes.
    fn flush(&mut self) {
        while let Some((bytes, fd)) = self.packets.front_mut() {
            let fds = fd.as_ref().map(AsFd::as_fd);
            match self.connection.try_send(bytes, fds.as_slice()) {
                Ok(0) => return,
                Ok(sent) => {
                    self.since = Instant::now();
                    // Descriptors go with the first byte.
                    *fd = None;
                    bytes.drain(..sent);
                    if bytes.is_empty() {
                        self.packets.pop_front();
                    }
                }
                Err(_) => {
                    self.broken = true;
                    self.packets.clear();
                }
            }
        }
    }
}

/// See the head of this file.
pub(super) struct Lane {
    inbox: Mutex<VecDeque<Event>>,
    /// Length of the inbox, to be looked at often.
    waiting: AtomicUsize,
    outbox: Mutex<Option<Outbox>>,
    /// Mappings to be dropped by the door: that takes a while for many of them.
    discarded: Mutex<Vec<Mappings>>,
    /// Answers wait: no more messages are taken.
    stalled: AtomicBool,
    /// Interests of the door: room in the inbox, release of the function, an outbox to empty.
    door_kick: OwnedFd,
    waker: Arc<Waker>,
    released: AtomicBool,
    closed: AtomicBool,
    broken: AtomicBool,
    patience_ms: Arc<AtomicU64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    pub fn new(waker: Arc<Waker>, patience_ms: Arc<AtomicU64>) -> io::Result<Self> {
        Ok(Self {
            inbox: Mutex::default(),
            waiting: AtomicUsize::new(0),
            outbox: Mutex::default(),
            discarded: Mutex::default(),
            stalled: AtomicBool::new(false),
            door_kick: eventfd()?,
            waker,
            released: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            patience_ms,
        })
    }

    /// How long a client may take to greet, or to read an answer.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Ordering::Relaxed))
    }

    // ---- The simulation

    /// Something waits that can be handled now.
    pub fn has_event(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) != 0
            && (!self.is_stalled() || !matches!(lock(&self.inbox).front(), Some(Event::Message(_))))
    }

    /// A message waits.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// The oldest event; where messages cannot be handled now, only if it is none.
    pub fn take(&self, messages: bool) -> Option<Event> {
        if !self.has_waiting() {
            return None;
        }
        let messages = messages && !self.is_stalled();
        let mut inbox = lock(&self.inbox);
        let event = inbox.pop_front_if(|event| messages || !matches!(event, Event::Message(_)));
        if event.is_some() {
            let had_no_room = !has_room(&inbox, 1);
            self.waiting.store(inbox.len(), Ordering::SeqCst);
            drop(inbox);
            if had_no_room || matches!(&event, Some(Event::Message(request)) if request.has_descriptors()) {
                self.kick_door();
            }
        }
        event
    }

    /// The client does not read its answers.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Sends a message of our own: as an answer.
    pub fn send(&self, bytes: Vec<u8>) {
        self.reply(bytes, None);
    }

    /// Sends an answer, or leaves it to the door to send.
    pub fn reply(&self, bytes: Vec<u8>, fd: Option<BorrowedFd<'_>>) {
        let mut outbox = lock(&self.outbox);
        let Some(out) = outbox.as_mut().filter(|out| !out.broken) else {
            return;
        };
        if out.packets.is_empty() {
            out.since = Instant::now();
        }
        match fd.map(|fd| fd.try_clone_to_owned()).transpose() {
            Ok(fd) => out.packets.push_back((bytes, fd)),
            // Out of descriptors: the client gets none, and cannot go on without.
            Err(_) => out.broken = true,
        }
        out.flush();
        if out.broken || !out.packets.is_empty() {
            self.stalled.store(!out.packets.is_empty(), Ordering::Relaxed);
            self.kick_door();
        }
    }

    /// What the client had is cleaned up: the next one may have the function.
    pub fn release(&self) {
        self.released.store(true, Ordering::SeqCst);
        self.kick_door();
    }

    /// The card is broken: its clients are hung up, and nobody is let in any more. True the first time.
    pub fn shut(&self) -> bool {
        let first = !self.broken.swap(true, Ordering::SeqCst);
        if first {
            self.kick_door();
        }
        first
    }

    /// The client is hung up: its memory does not answer.
    pub fn hang_up(&self) {
        lock(&self.outbox).iter_mut().for_each(|out| out.broken = true);
        self.kick_door();
    }

    /// The server ends, and with it the connection.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        lock(&self.outbox)
            .iter()
            .for_each(|out| out.connection.shutdown());
        self.kick_door();
    }

    /// Leaves mappings to the door to drop.
    pub fn discard(&self, mappings: Mappings) {
        lock(&self.discarded).push(mappings);
        self.kick_door();
    }

    /// There may be mappings that nobody uses any more.
    pub fn kick_door(&self) {
        kick(&self.door_kick);
    }

    // ---- The door

    pub fn door_kick(&self) -> &OwnedFd {
        &self.door_kick
    }

    /// The door has been kicked, and looks.
    pub fn clear_door_kick(&self) {
        // An eventfd of ours: reading it can only find nothing.
        let _ = clear_kick(&self.door_kick);
    }

    /// Mappings to drop.
    pub fn take_discarded(&self) -> Vec<Mappings> {
        std::mem::take(&mut lock(&self.discarded))
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// True once for each release.
    pub fn take_release(&self) -> bool {
        self.released.swap(false, Ordering::SeqCst)
    }

    /// There is room for one more message. Descriptors wait alone, so that one client cannot have all of them.
    pub fn has_room(&self) -> bool {
        has_room(&lock(&self.inbox), 0)
    }

    pub fn push(&self, event: Event) {
        let mut inbox = lock(&self.inbox);
        inbox.push_back(event);
        self.waiting.store(inbox.len(), Ordering::SeqCst);
        drop(inbox);
        self.waker.wake();
    }

    /// A client has been accepted; answers go to this connection.
    pub fn open(&self, connection: Connection, newcomer: Newcomer) {
        *lock(&self.outbox) = Some(Outbox {
            connection,
            packets: VecDeque::new(),
            since: Instant::now(),
            broken: false,
        });
        self.stalled.store(false, Ordering::Relaxed);
        self.push(Event::Connected(Box::new(newcomer)));
    }

    /// The client is gone. Unless it went by itself, what it has sent and was not handled is dropped.
    pub fn leave(&self, by_itself: bool) {
        if let Some(out) = lock(&self.outbox).take() {
            out.connection.shutdown();
        }
        self.stalled.store(false, Ordering::Relaxed);
        if !by_itself {
            lock(&self.inbox).retain(|event| !matches!(event, Event::Message(_)));
        }
        self.push(Event::Gone);
    }

    /// Sends what waits. Err: the client is to be hung up. Otherwise until when there is patience with it, if something
    /// still waits.
    pub fn flush(&self) -> Result<Option<Instant>, ()> {
        let mut outbox = lock(&self.outbox);
        let Some(out) = outbox.as_mut() else {
            return Ok(None);
        };
        out.flush();
        let until = (!out.packets.is_empty()).then(|| out.since + self.patience());
        if out.broken || until.is_some_and(|until| until <= Instant::now()) {
            return Err(());
        }
        if until.is_none() && self.stalled.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
        Ok(until)
    }
}

/// Of the client's memory: the simulation may sleep for it, the door waits for its end.
impl Watcher for Lane {
    fn progress(&self) {
        self.waker.wake();
    }

    fn ended(&self) {
        self.kick_door();
    }
}

impl Request {
    fn has_descriptors(&self) -> bool {
        matches!(self.given, Given::Eventfds(_))
    }
}

/// Room for one more behind `extra` others.
fn has_room(inbox: &VecDeque<Event>, extra: usize) -> bool {
    let holds_descriptors = inbox
        .iter()
        .any(|event| matches!(event, Event::Message(request) if request.has_descriptors()));
    inbox.len() + extra < INBOX_MESSAGES && !holds_descriptors
}

/// An answer as bytes; errno 0 is success.
pub(super) fn encode_reply(to: &Header, payload: &[u8], errno: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend(Header::reply(to, payload.len(), errno).encode());
    bytes.extend(payload);
    bytes
}
