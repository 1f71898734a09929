//! Process mode: every served function of the fabric's cards is a vfio-user device on a UNIX socket, for
//! drivers in other processes. One thread owns the fabric; while nothing is under way it waits for sockets and
//! doorbells, and simulated time stands still.

mod config_space;
mod endpoint;
mod listener;
mod process;
mod status;
mod wake;

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};

use crate::SimError;
use crate::fabric::{CardId, Fabric};
use crate::observe::{ObserverFactory, Session};
pub use config_space::pci_config;
use endpoint::Endpoint;
use listener::{Door, Event};
pub use status::{LinkStatus, ServerStatus};
use wake::{EventSender, Waker};

/// Steps between two looks at sockets and doorbells.
const BATCH_STEPS: u32 = 16;
/// Register accesses of a card under way, with which no more doorbells are taken: a link has so many credits.
const TAKE_PENDING_MAX: usize = 64;
/// Messages that may wait for the simulation; then their senders do.
const QUEUE: usize = 4096;

/// A fabric whose cards other processes drive.
pub struct Server {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
    sender: EventSender,
    waker: Arc<Waker>,
    receiver: Receiver<Event>,
    /// Found while falling asleep.
    early: Option<Event>,
    observers: Option<ObserverFactory>,
    status: Arc<ServerStatus>,
}

/// Stops a server from another thread.
#[derive(Clone)]
pub struct StopHandle {
    sender: EventSender,
}

impl StopHandle {
    /// [`Server::run`] returns soon after.
    pub fn stop(&self) {
        // Fails only when the server is gone already.
        self.sender.send(Event::Stop);
    }
}

impl Server {
    /// Takes the fabric over.
    pub fn new(fabric: Fabric) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let waker = Arc::new(Waker::new());
        Self {
            status: Arc::new(ServerStatus::new(&fabric)),
            fabric,
            endpoints: Vec::new(),
            sender: EventSender::new(sender, waker.clone()),
            waker,
            receiver,
            early: None,
            observers: None,
        }
    }

    /// Offers a function at a socket path. A socket there that nobody listens at any more is replaced.
    pub fn serve(&mut self, card: CardId, func: u8, path: &Path) -> Result<(), SimError> {
        self.fabric.check_function(card, func)?;
        let os = |reason| SimError::Os {
            what: format!("cannot listen at {}", path.display()),
            reason,
        };
        self.waker.check().map_err(os)?;
        remove_stale(path).map_err(os)?;
        let listener = UnixListener::bind(path).map_err(os)?;
        let taken = Arc::new(AtomicBool::new(false));
        let door = Door {
            endpoint: self.endpoints.len(),
            events: self.sender.clone(),
            taken: taken.clone(),
        };
        door.listen(listener);
        self.endpoints
            .push(Endpoint::new(card, func, path.to_owned(), taken));
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
            sender: self.sender.clone(),
        }
    }

    /// The fabric, to look at.
    pub fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// Simulates until it is stopped.
    pub fn run(&mut self) {
        loop {
            if !self.fabric.is_active() {
                self.wait_for_work();
            }
            while let Some(event) = self.early.take().or_else(|| self.receiver.try_recv().ok()) {
                if !self.handle(event) {
                    return;
                }
            }
            for endpoint in &mut self.endpoints {
                endpoint.take_writes(&mut self.fabric, TAKE_PENDING_MAX);
            }
            for _ in 0..BATCH_STEPS {
                if !self.fabric.step_if_active() {
                    break;
                }
            }
            self.deliver();
            self.publish();
        }
    }

    /// While the cards rest: forgets the memory of clients that are gone. Before, a card may still have work of theirs.
    pub fn settle(&mut self) {
        if !self.fabric.is_active() {
            for endpoint in &mut self.endpoints {
                endpoint.forget(&mut self.fabric);
            }
        }
    }

    /// Sleeps until a socket or a doorbell has something.
    fn wait_for_work(&mut self) {
        self.settle();
        self.waker.fall_asleep();
        self.endpoints.iter().for_each(Endpoint::fall_asleep);
        // The looks after the sleep was announced, see `wake`.
        match self.receiver.try_recv() {
            Ok(event) => self.early = Some(event),
            Err(_) if self.endpoints.iter().any(Endpoint::has_writes) => {}
            Err(_) => self.waker.sleep(self.endpoints.iter().filter_map(Endpoint::kick)),
        }
        self.waker.wake_up();
        self.endpoints.iter().for_each(Endpoint::wake_up);
    }

    /// False: stop.
    fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Stop => return false,
            Event::Connected {
                endpoint,
                connection,
                pid,
                process_memory,
            } => {
                let end = &mut self.endpoints[endpoint];
                end.connected(&mut self.fabric, connection, pid, process_memory);
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
                self.publish();
            }
            Event::Message { endpoint, message } => {
                self.endpoints[endpoint].message(&mut self.fabric, message)
            }
            Event::Gone { endpoint } => {
                // What it has done before counts.
                self.tell();
                self.endpoints[endpoint].gone(&mut self.fabric);
                self.publish();
            }
        }
        true
    }

    fn publish(&self) {
        let clients = self.endpoints.iter().filter(|end| end.has_client()).count();
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
            while let Some(interrupt) = self.fabric.card_mut(card).host().take_interrupt() {
                let mut ends = self.endpoints.iter_mut();
                if let Some(end) = ends.find(|end| end.card == card && end.func == interrupt.func) {
                    end.interrupt(interrupt.vector);
                }
            }
            while let Some((id, value)) = self.fabric.take_mmio_value(card) {
                // A value whose client is gone belongs to nobody.
                let _ = self
                    .endpoints
                    .iter_mut()
                    .any(|end| end.card == card && end.register_value(id, value));
            }
        }
        for endpoint in &mut self.endpoints {
            endpoint.announce(&mut self.fabric);
        }
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
            // A thread reads the other end of it.
            endpoint.hang_up();
            // A path that somebody else removed is as good as removed.
            let _ = std::fs::remove_file(&endpoint.path);
        }
    }
}
