//! Process mode: every served function of the fabric's cards is a vfio-user device on a UNIX socket, for
//! drivers in other processes. One thread owns the fabric; while nothing is under way it waits for the
//! sockets and simulated time stands still.

mod config_space;
mod endpoint;
mod listener;
mod process;
mod status;

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hca_vfio_user::ActivityPage;

use crate::SimError;
use crate::fabric::{CardId, Fabric};
use endpoint::Endpoint;
use listener::{Door, Event};
pub use status::ServerStatus;

/// Steps between two looks at the sockets.
const BATCH_STEPS: u32 = 64;
/// Messages that may wait for the simulation; then their senders do.
const QUEUE: usize = 4096;

/// A fabric whose cards other processes drive.
pub struct Server {
    fabric: Fabric,
    endpoints: Vec<Endpoint>,
    sender: SyncSender<Event>,
    receiver: Receiver<Event>,
    /// What each card has made visible to its host, at the last look.
    seen_writes: Vec<u64>,
    status: Arc<ServerStatus>,
}

/// Stops a server from another thread.
#[derive(Clone)]
pub struct StopHandle {
    sender: SyncSender<Event>,
}

impl StopHandle {
    /// [`Server::run`] returns soon after.
    pub fn stop(&self) {
        // Fails only when the server is gone already.
        let _ = self.sender.send(Event::Stop);
    }
}

impl Server {
    /// Takes the fabric over.
    pub fn new(fabric: Fabric) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let seen_writes = vec![0; fabric.cards().count()];
        Self {
            fabric,
            endpoints: Vec::new(),
            sender,
            receiver,
            seen_writes,
            status: Arc::default(),
        }
    }

    /// Offers a function at a socket path. A socket there that nobody listens at any more is replaced.
    pub fn serve(&mut self, card: CardId, func: u8, path: &Path) -> Result<(), SimError> {
        self.fabric.check_function(card, func)?;
        let os = |reason| SimError::Os {
            what: format!("cannot listen at {}", path.display()),
            reason,
        };
        remove_stale(path).map_err(os)?;
        let listener = UnixListener::bind(path).map_err(os)?;
        let activity = ActivityPage::new().map_err(|e| os(std::io::Error::other(e)))?;
        let taken = Arc::new(AtomicBool::new(false));
        let door = Door {
            endpoint: self.endpoints.len(),
            events: self.sender.clone(),
            taken: taken.clone(),
        };
        door.listen(listener);
        self.endpoints
            .push(Endpoint::new(card, func, path.to_owned(), taken, activity));
        Ok(())
    }

    /// What has been done so far; kept up to date by [`Server::run`].
    pub fn status(&self) -> Arc<ServerStatus> {
        self.status.clone()
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
                let Ok(event) = self.receiver.recv() else { return };
                if !self.handle(event) {
                    return;
                }
            }
            while let Ok(event) = self.receiver.try_recv() {
                if !self.handle(event) {
                    return;
                }
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
                self.endpoints[endpoint].connected(&mut self.fabric, connection, pid, process_memory);
                self.publish();
            }
            Event::Message { endpoint, message } => {
                self.endpoints[endpoint].message(&mut self.fabric, message)
            }
            Event::Gone { endpoint } => {
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

    /// Tells the clients what has reached their side.
    fn deliver(&mut self) {
        for (card, seen) in self.fabric.cards().zip(&mut self.seen_writes) {
            let writes = self.fabric.card(card).host_writes();
            let news = std::mem::replace(seen, writes) != writes;
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
            if news {
                self.endpoints
                    .iter()
                    .filter(|end| end.card == card)
                    .for_each(Endpoint::announce);
            }
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
            // A path that somebody else removed is as good as removed.
            let _ = std::fs::remove_file(&endpoint.path);
        }
    }
}
