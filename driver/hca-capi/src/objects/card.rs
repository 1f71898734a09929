//! A card that this process has claimed, shared by all its opens of it, and the thread that turns the card's events
//! into records in pipes.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;

use hca_exports::table::Table;
use hca_verbs::{AsyncEvent, Context, EventKind};

use crate::boundary::live::lock;
use crate::boundary::pipe::eventfd;
use crate::boundary::{Errno, Verb, warn};
use crate::cards::{DevPtr, cards};
use crate::objects::events::{Events, Numbered, Target, Targets};
use crate::objects::names::Names;

/// Every interrupt wakes the pump; it looks after this time all the same, for records that a full pipe refused.
const PUMP_INTERVAL_MS: i32 = 100;

/// What pump and verbs share.
pub struct Shared {
    pub context: Context<DevPtr>,
    pub targets: Mutex<Targets>,
    /// Of XRC: what is opened by name.
    pub names: Mutex<Names>,
    generation: AtomicU32,
}

impl Shared {
    /// Room for one more object of this kind.
    pub fn require_room(&self, kind: Numbered) -> Verb<()> {
        let targets = &mut lock(&self.targets);
        let reserved = targets.table(kind).try_reserve(1);
        reserved.map_err(|_| Errno(libc::ENOMEM))
    }

    /// From now on events name the object behind `pointer` by `number`. Whoever frees it takes it out first.
    pub fn announce<T>(
        &self,
        kind: Numbered,
        number: u32,
        pointer: *mut T,
        context: usize,
        events: &Arc<Events>,
    ) {
        let target = Target {
            generation: self.generation.fetch_add(1, Ordering::Relaxed),
            object: pointer as usize,
            context,
            events: events.clone(),
        };
        let targets = &mut lock(&self.targets);
        targets.table(kind).entry(number).or_default().push(target);
    }

    /// No event names the object any more; the card may have given its number to a new one by now.
    pub fn withdraw<T>(&self, kind: Numbered, number: u32, pointer: *mut T) {
        let targets = &mut lock(&self.targets);
        let table = targets.table(kind);
        if let Some(named) = table.get_mut(&number) {
            named.retain(|target| target.object != pointer as usize);
            if named.is_empty() {
                table.remove(&number);
            }
        }
    }
}

/// A claimed card. Its pump ends with it.
pub struct Card {
    pub shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    pump: Option<JoinHandle<()>>,
    /// The process that has claimed it.
    owner: u32,
}

/// By process and number: what a child has of its parent is not the child's.
type Claims = HashMap<(u32, u32), Weak<Card>>;

static OPEN: Table<Claims> = Table::new();

impl Card {
    /// The card with this number: as this process has it already, or claimed now.
    pub fn open(number: u32) -> Verb<Arc<Self>> {
        let mut open = OPEN.lock();
        let key = (process::id(), number);
        if let Some(card) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(card);
        }
        let card = Arc::new(Self::start(cards().claim(number)?)?);
        open.insert(key, Arc::downgrade(&card));
        Ok(card)
    }

    fn start(context: Context<DevPtr>) -> Verb<Self> {
        let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        context.leave_events_to_thread();
        let shared = Arc::new(Shared {
            context,
            targets: Mutex::default(),
            names: Mutex::default(),
            generation: AtomicU32::new(1),
        });
        let stop = Arc::new(eventfd().map_err(errno)?);
        let (theirs, their_stop) = (shared.clone(), stop.clone());
        let blocked = BlockedSignals::new();
        let pump = std::thread::Builder::new()
            .name("hca-events".into())
            .spawn(move || pump(&theirs, &their_stop));
        drop(blocked);
        Ok(Self {
            shared,
            stop,
            pump: Some(pump.map_err(errno)?),
            owner: process::id(),
        })
    }
}

impl Card {
    /// Of this process, and not of the one that it was forked from.
    pub fn is_ours(&self) -> bool {
        self.owner == process::id()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if !self.is_ours() {
            // A child closes what its parent has open: function, descriptors and pump are the parent's.
            std::mem::forget((self.shared.clone(), self.stop.clone(), self.pump.take()));
            return;
        }
        let one = 1u64.to_ne_bytes();
        // SAFETY: a live buffer of eight bytes.
        unsafe { libc::write(self.stop.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        if self.pump.take().is_some_and(|pump| pump.join().is_err()) {
            warn(&"the event thread has panicked");
        }
    }
}

/// A program's signals are for its own threads: one started while this lives takes none.
#[cfg(not(miri))]
struct BlockedSignals(libc::sigset_t);

#[cfg(not(miri))]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: both sets are live; an all-zero set is a valid one to write to.
        unsafe {
            let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            Self(old)
        }
    }
}

#[cfg(not(miri))]
impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set came from the same call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Miri knows no signals.
#[cfg(miri)]
struct BlockedSignals;

#[cfg(miri)]
impl BlockedSignals {
    fn new() -> Self {
        Self
    }
}

/// Waits until a descriptor can be read, at most for the interval.
#[cfg(not(miri))]
fn wait(polls: &mut [libc::pollfd], interval_ms: i32) {
    // SAFETY: live pollfds, as many as named.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, interval_ms) };
}

/// Miri knows no poll: eventfds that never wait are read, and whoever had something is told to be readable.
#[cfg(miri)]
fn wait(polls: &mut [libc::pollfd], _interval_ms: i32) {
    std::thread::yield_now();
    for poll in polls {
        let mut count = [0u8; 8];
        // SAFETY: a live buffer of eight bytes.
        let got = unsafe { libc::read(poll.fd, count.as_mut_ptr().cast(), count.len()) };
        poll.revents = if got > 0 { libc::POLLIN } else { 0 };
    }
}

fn pump(shared: &Shared, stop: &OwnedFd) {
    let device = shared.context.device();
    let vectors = 0..shared.context.info().vectors;
    let mut fds: Vec<RawFd> = vectors
        .filter_map(|v| device.irq_fd(v))
        .map(|fd| fd.as_raw_fd())
        .collect();
    // A device without descriptors (in-process) is looked at instead.
    let interval_ms = if fds.is_empty() { 1 } else { PUMP_INTERVAL_MS };
    fds.push(stop.as_raw_fd());
    let mut polls: Vec<libc::pollfd> = fds
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let mut is_gone = false;
    loop {
        wait(&mut polls, interval_ms);
        if polls.last().is_some_and(|stop| stop.revents != 0) {
            return;
        }
        for poll in polls.iter().filter(|poll| poll.revents != 0) {
            let mut count = [0u8; 8];
            // The count does not matter; reading it first means that whatever comes later wakes us again.
            // SAFETY: a live buffer of eight bytes.
            unsafe { libc::read(poll.fd, count.as_mut_ptr().cast(), count.len()) };
        }
        shared.deliver();
        if !is_gone && device.is_gone() {
            is_gone = true;
            device.why_gone().iter().for_each(|why| warn(why));
            shared.tell_gone();
        }
    }
}

impl Shared {
    /// EVT-1: the device is lost to every open of it.
    fn tell_gone(&self) {
        lock(&self.targets).route(&AsyncEvent {
            kind: EventKind::DeviceFatal,
            id: 0,
            data: 0,
            timestamp: 0,
        });
    }

    /// Brings every event that the card has written to the pipe it belongs in.
    fn deliver(&self) {
        let targets = lock(&self.targets);
        while let Some(event) = self.context.poll_async_event() {
            targets.route(&event);
        }
        targets.flush();
    }
}
