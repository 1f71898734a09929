//! Process mode: every served function of the fabric's cards is a vfio-user device on a UNIX socket, for
//! drivers in other processes. One thread owns the fabric; while nothing is under way it waits for doors and doorbells,
//! and simulated time stands still. It makes no system call that could wait for a client: a thread of each function,
//! its door, does that. In each turn every function gets a bounded piece of work done.

mod calls;
mod config_space;
mod door;
mod endpoint;
mod files;
mod lane;
mod messages;
mod pace;
mod process;
mod signal;
mod status;
mod vectors;
mod wake;

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::SimError;
use crate::fabric::{CardId, Fabric};
use crate::observe::{ObserverFactory, Session};
pub use calls::Calls;
pub use config_space::pci_config;
use door::Door;
use endpoint::Endpoint;
use lane::{Event, Lane, Newcomer};
use pace::{Pace, Rest};
use signal::Signals;
pub use status::{LinkStatus, OutsideStatus, PortStatus, ServerStatus, Traffic};
use wake::Waker;

/// Steps between two looks at sockets and doorbells.
const BATCH_STEPS: u32 = 16;
/// Turns between two looks at what waits for clients' memory, while time goes on: to wake a thread for it costs as much
/// as some accesses.
const MEMORY_TURNS: u32 = 4;
/// Looks for work that leave the processor to others, before the simulation sleeps.
const LOOKS: u32 = 64;
/// They end after this time in any case.
const LOOKS_TIME: Duration = Duration::from_micros(200);
/// While a client's memory does not answer, this often is looked how long.
const STUCK_LOOK: Duration = Duration::from_millis(100);
/// How long a client may take to greet, or to read its answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// A fabric whose cards other processes drive.
pub struct Server {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    calls: Calls,
    functions: Arc<AtomicUsize>,
    patience_ms: Arc<AtomicU64>,
    /// Made with the first function.
    signals: Option<Arc<Signals>>,
    /// With wires to the outside.
    pace: Option<Pace>,
    cycle_ps: u64,
    /// Since when only timers run.
    rest: Option<Rest>,
    turns: u32,
    observers: Option<ObserverFactory>,
    status: Arc<ServerStatus>,
}

/// Stops a server from another thread.
#[derive(Clone)]
pub struct StopHandle {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl StopHandle {
    /// [`Server::run`] returns soon after.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

impl Server {
    /// Takes the fabric over.
    pub fn new(mut fabric: Fabric) -> Self {
        for card in fabric.cards() {
            fabric.card_mut(card).list_violations();
            fabric.host_mut(card).contain_lost_writes(true);
        }
        let waker = Arc::new(Waker::new());
        let calls = Calls::new(waker.clone());
        for outside in fabric.outsides() {
            let waker = waker.clone();
            outside.wire().on_arrival(move || waker.wake());
        }
        let has_outside = !fabric.outsides().is_empty();
        let cycle_ps = fabric
            .cards()
            .next()
            .map_or(1, |card| fabric.card(card).cycle_ps());
        let pace = has_outside.then(|| Pace::new(cycle_ps, fabric.now(), Instant::now()));
        Self {
            status: Arc::new(ServerStatus::new(&fabric)),
            fabric,
            endpoints: Vec::new(),
            waker,
            pace,
            cycle_ps,
            rest: None,
            turns: 0,
            stop: Arc::default(),
            calls,
            functions: Arc::default(),
            patience_ms: Arc::new(AtomicU64::new(PATIENCE.as_millis() as u64)),
            signals: None,
            observers: None,
        }
    }

    /// From now on a client that has not greeted, or has not read its answers, for so long is hung up. Without this,
    /// five seconds.
    pub fn set_patience(&mut self, patience: Duration) {
        let millis = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        self.patience_ms.store(millis, Ordering::Relaxed);
    }

    /// Offers a function at a socket path. A socket there that nobody listens at any more is replaced.
    pub fn serve(&mut self, card: CardId, func: u8, path: &Path) -> Result<(), SimError> {
        self.fabric.check_function(card, func)?;
        let os = |reason| SimError::Os {
            what: format!("cannot listen at {}", path.display()),
            reason,
        };
        self.waker.check().map_err(os)?;
        let signals = match &self.signals {
            Some(signals) => signals.clone(),
            None => Arc::new(Signals::new().map_err(os)?),
        };
        self.signals = Some(signals.clone());
        remove_stale(path).map_err(os)?;
        let listener = UnixListener::bind(path).map_err(os)?;
        let lane = Lane::new(self.waker.clone(), self.patience_ms.clone()).map_err(os)?;
        let lane = Arc::new(lane);
        let door = Door::new(listener, lane.clone(), self.functions.clone()).map_err(os)?;
        let thread = std::thread::Builder::new()
            .name(format!("door of function {func}"))
            .spawn(move || door.run());
        // It ends with the server, or a little later where it still closes what a client gave.
        drop(thread.map_err(os)?);
        self.functions.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{func}", self.fabric.card(card).name());
        self.status.add_function(name);
        self.endpoints.push(Endpoint::new(
            &self.fabric,
            card,
            func,
            path.to_owned(),
            lane,
            signals,
        ));
        Ok(())
    }

    /// What has been done so far; kept up to date by [`Server::run`].
    pub fn status(&self) -> Arc<ServerStatus> {
        self.status.clone()
    }

    /// From now on every process that gets a function gets an observer as well. It is dropped when the process has
    /// gone.
    pub fn observe(&mut self, observers: ObserverFactory) {
        self.observers = Some(observers);
        for card in self.fabric.cards() {
            self.fabric.card_mut(card).note_packets(true);
        }
    }

    /// For other threads.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle {
            stop: self.stop.clone(),
            waker: self.waker.clone(),
        }
    }

    /// For other threads that want something done with the fabric.
    pub fn calls(&self) -> Calls {
        self.calls.clone()
    }

    /// The fabric, to look at.
    pub fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// Simulates until it is stopped.
    pub fn run(&mut self) {
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(limit) = self.idle() {
                self.wait_for_work(limit);
            }
            self.count_rest();
            for index in 0..self.endpoints.len() {
                if let Some(event) = self.endpoints[index].turn(&mut self.fabric) {
                    self.handle(index, event);
                }
            }
            self.calls.attend(&mut self.fabric);
            self.advance();
            self.turns = self.turns.wrapping_add(1);
            if self.turns.is_multiple_of(MEMORY_TURNS) {
                self.attend_memory();
            }
            self.attend_faults();
            self.deliver();
            self.part_with_broken_cards();
            self.publish();
        }
        self.fabric.capture_asides();
        self.stop.store(false, Ordering::SeqCst);
    }

    /// While the cards rest: forgets the memory of clients that are gone. Before, a card may still have work of theirs.
    pub fn settle(&mut self) {
        if !self.fabric.is_active() {
            for endpoint in &mut self.endpoints {
                endpoint.forget(&mut self.fabric);
            }
        }
    }

    /// Whatever the cards have started goes on its way.
    fn attend_memory(&mut self) {
        for card in self.fabric.cards() {
            self.fabric.host_mut(card).flush();
        }
        for endpoint in &mut self.endpoints {
            endpoint.attend_memory(&mut self.fabric);
        }
    }

    /// What the IOMMU has refused is told; a function that has lost a write is cut off.
    fn attend_faults(&mut self) {
        for card in self.fabric.cards() {
            let host = self.fabric.host_mut(card);
            let faults = host.take_faults();
            while let Some(func) = self.fabric.host_mut(card).take_contained() {
                if let Some(end) = find(&mut self.endpoints, card, func) {
                    end.contain(&mut self.fabric);
                }
            }
            for fault in faults {
                let end = find(&mut self.endpoints, card, fault.func);
                if let Some(text) = end.and_then(|end| end.refused(&self.fabric, &fault)) {
                    self.status.tell_fault(text);
                }
            }
        }
    }

    /// Lets some time pass.
    fn advance(&mut self) {
        let wall = Instant::now();
        let limit = match &mut self.pace {
            None => u64::MAX,
            Some(pace) => pace.limit(self.fabric.now(), wall),
        };
        // A rest that begins now has not lasted yet. Nobody's timer runs out over memory that is late.
        let waits = self.fabric.waits_for_memory();
        let timers = self.rest().filter(|_| !waits).map_or(0, |rest| rest.limit(wall));
        for _ in 0..BATCH_STEPS {
            if !self.fabric.step_before(limit, timers) {
                break;
            }
        }
    }

    /// While only timers run, time does not outrun the wall clock: a program that is about to answer would find it
    /// milliseconds later.
    fn rest(&mut self) -> Option<&Rest> {
        if self.fabric.is_moving() {
            self.rest = None;
            return None;
        }
        let (now, cycle_ps) = (self.fabric.now(), self.cycle_ps);
        Some(
            self.rest
                .get_or_insert_with(|| Rest::new(cycle_ps, now, Instant::now())),
        )
    }

    /// Of a rest in which a trap waits, all counts, though a program ends it before the trap is due: else programs that
    /// look again and again would keep it waiting for ever.
    fn count_rest(&mut self) {
        if self.fabric.is_moving() || !self.fabric.waits_to_tell() {
            return;
        }
        let due = self.fabric.next_cycle().unwrap_or(0);
        if let Some(rest) = &self.rest {
            self.fabric
                .pass(rest.limit(Instant::now()).min(due.saturating_sub(1)));
        }
    }

    /// Whether no time may pass at present, and for how long: for good, or until the wall clock has come so far.
    fn idle(&mut self) -> Option<Option<Duration>> {
        let Some(due) = self.fabric.next_cycle() else {
            return Some(None);
        };
        let wall = Instant::now();
        if self.rest().is_some() && self.fabric.waits_for_memory() {
            self.rest = None;
            return Some(None);
        }
        let rest = self.rest().and_then(|rest| rest.wait(due, wall));
        let now = self.fabric.now();
        let paced = self.pace.as_mut();
        let paced = paced.and_then(|pace| (due > pace.limit(now, wall)).then(|| pace.wait(due, wall)));
        rest.max(paced).map(Some)
    }

    /// Somebody has something before they have been looked at a few times: a program that answers does so sooner than
    /// a sleeper is woken.
    fn soon_has_work(&self, limit: Option<Duration>) -> bool {
        let begin = Instant::now();
        let limit = limit.map_or(LOOKS_TIME, |limit| limit.min(LOOKS_TIME));
        for _ in 0..LOOKS {
            if self.endpoints.iter().any(Endpoint::has_work) || self.stop.load(Ordering::SeqCst) {
                return true;
            }
            // Others may keep the processor for long.
            if begin.elapsed() >= limit {
                break;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Sleeps until a door, a doorbell, a wire or the memory of a client has something, or for so long.
    fn wait_for_work(&mut self, limit: Option<Duration>) {
        self.attend_memory();
        self.settle();
        // Where the wall clock says how time passes, whoever is outside does not wait for looks.
        if self.pace.is_none() && self.soon_has_work(limit) {
            return;
        }
        let due = self.fabric.next_cycle();
        self.waker.fall_asleep();
        self.endpoints.iter().for_each(Endpoint::fall_asleep);
        // The looks after the sleep was announced, see `wake`.
        let has_work = self.stop.load(Ordering::SeqCst)
            || self.calls.wait()
            || self.endpoints.iter().any(Endpoint::has_work)
            || self.idle().is_none_or(|left| is_sooner(left, limit));
        // While memory does not answer somebody has to look at the clock.
        let waits = |end: &Endpoint| end.waits_for_memory(&mut self.fabric);
        let look = self.endpoints.iter().any(waits).then_some(STUCK_LOOK);
        if !has_work {
            let limit = limit.into_iter().chain(look).min();
            self.waker
                .sleep(self.endpoints.iter().filter_map(Endpoint::kick), limit);
        }
        self.waker.wake_up();
        self.endpoints.iter().for_each(Endpoint::wake_up);
        if let (Some(pace), Some(due)) = (&self.pace, due) {
            self.fabric.pass(pace.reached(due, Instant::now()));
        }
    }

    /// A client has come or gone.
    fn handle(&mut self, index: usize, event: Event) {
        match event {
            Event::Connected(newcomer) => self.connected(index, *newcomer),
            Event::Gone => {
                // What it has done before counts.
                self.tell();
                self.endpoints[index].gone(&mut self.fabric);
            }
            Event::Message(_) => {}
        }
        self.publish();
    }

    fn connected(&mut self, index: usize, newcomer: Newcomer) {
        let end = &mut self.endpoints[index];
        let pid = newcomer.pid;
        end.connected(&mut self.fabric, newcomer);
        if let Some(make) = &mut self.observers {
            let session = Session {
                card: end.card,
                card_name: self.fabric.card(end.card).name().to_owned(),
                func: end.func,
                link: self.fabric.link_kind(end.card),
                pid,
            };
            end.set_observer(&mut self.fabric, make(&session));
        }
    }

    /// A card that has broken a contract or failed an assertion answers nobody any more: its clients are hung up, new
    /// ones refused (EIO). The other cards and their clients go on.
    fn part_with_broken_cards(&self) {
        for end in &self.endpoints {
            if let [what, ..] = self.fabric.card(end.card).violations() {
                self.status.set_broken(what);
                end.part_with();
            }
        }
    }

    fn publish(&mut self) {
        let clients = self.endpoints.iter().filter(|end| end.has_client()).count();
        let mappings = self.endpoints.iter().map(|end| end.mappings(&mut self.fabric));
        self.status.set_mappings(mappings);
        self.status.update(&self.fabric, clients as u64);
    }

    /// Tells the observers what has happened.
    fn tell(&mut self) {
        if self.observers.is_none() {
            return;
        }
        for card in self.fabric.cards() {
            let packets = self.fabric.card_mut(card).take_sent();
            for end in self.endpoints.iter_mut().filter(|end| end.card == card) {
                end.tell(&mut self.fabric, &packets);
            }
        }
    }

    /// Tells the clients what has reached their side.
    fn deliver(&mut self) {
        self.tell();
        for card in self.fabric.cards() {
            while let Some(interrupt) = self.fabric.host_mut(card).take_interrupt() {
                if let Some(end) = find(&mut self.endpoints, card, interrupt.func) {
                    end.interrupt(interrupt.vector);
                }
            }
            while let Some((id, value)) = self.fabric.take_mmio_value(card) {
                // A value whose client is gone belongs to nobody.
                let _ = self
                    .endpoints
                    .iter_mut()
                    .filter(|end| end.card == card)
                    .any(|end| end.register_value(id, value) || end.reset_value(&mut self.fabric, id, value));
            }
        }
        for endpoint in &mut self.endpoints {
            endpoint.announce(&mut self.fabric);
        }
    }
}

/// Who serves a function.
fn find(endpoints: &mut [Endpoint], card: CardId, func: u8) -> Option<&mut Endpoint> {
    let mut endpoints = endpoints.iter_mut();
    endpoints.find(|end| end.card == card && end.func == func)
}

/// Something has come up that makes a sleep shorter, by more than the time that it takes to look; none: it is for good.
fn is_sooner(left: Option<Duration>, planned: Option<Duration>) -> bool {
    const LOOK: Duration = Duration::from_millis(1);
    match (left, planned) {
        (Some(left), Some(planned)) => left + LOOK < planned,
        (left, planned) => left.is_some() && planned.is_none(),
    }
}

/// Makes way for a new socket: one that a killed simulator has left is removed, anything else is not ours to touch.
fn remove_stale(path: &Path) -> io::Result<()> {
    let refuse = |reason| Err(io::Error::new(io::ErrorKind::AddrInUse, reason));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return refuse("a file that is no socket is in the way; move it or choose another folder");
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => refuse("another simulator listens there; stop it or choose another folder"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for endpoint in &self.endpoints {
            // The client finds out.
            endpoint.lane.close();
            // A path that somebody else removed is as good as removed.
            let _ = std::fs::remove_file(&endpoint.path);
        }
    }
}
