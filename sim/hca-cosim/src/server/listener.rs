//! Sockets: one thread listens per function, one reads per connection. They only pass messages on; the
//! simulation thread decides.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hca_vfio_user::{
    Capabilities, Command, Connection, MAJOR, MAX_FDS, Message, decode_version, encode_version,
};

use super::wake::EventSender;

/// How long a peer may take to say its version, or to read an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause after a connection that could not be accepted.
const BREATHER: Duration = Duration::from_millis(50);

/// What happens on the sockets. `endpoint` is the index of the function in the server.
pub(super) enum Event {
    /// A client has been accepted.
    Connected {
        endpoint: usize,
        connection: Connection,
        pid: i32,
        process_memory: bool,
    },
    /// It sent something.
    Message { endpoint: usize, message: Message },
    /// It went away, or broke the protocol.
    Gone { endpoint: usize },
    /// The server is asked to stop.
    Stop,
}

/// A function's socket as its threads see it.
#[derive(Clone)]
pub(super) struct Door {
    pub endpoint: usize,
    pub events: EventSender,
    /// A client has the function; cleared by the simulation thread when it has cleaned up behind it.
    pub taken: Arc<AtomicBool>,
}

impl Door {
    /// Accepts for the life of the process.
    pub fn listen(self, listener: UnixListener) {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let door = self.clone();
                let served = stream.and_then(|stream| {
                    std::thread::Builder::new().spawn(move || door.serve(Connection::new(stream)))
                });
                if served.is_err() {
                    // Out of descriptors or threads: that passes when connections end.
                    std::thread::sleep(BREATHER);
                }
            }
        });
    }

    fn serve(self, mut connection: Connection) {
        let Some((writer, pid, process_memory)) = self.greet(&mut connection) else {
            return;
        };
        let endpoint = self.endpoint;
        let connected = Event::Connected {
            endpoint,
            connection: writer,
            pid,
            process_memory,
        };
        let mut alive = self.events.send(connected);
        while alive && let Ok(message) = connection.receive() {
            alive = self.events.send(Event::Message { endpoint, message });
        }
        self.events.send(Event::Gone { endpoint });
    }

    /// The exchange of versions. None: not a client, or the function is taken.
    fn greet(&self, connection: &mut Connection) -> Option<(Connection, i32, bool)> {
        connection.set_send_timeout(PATIENCE).ok()?;
        connection.set_receive_timeout(Some(PATIENCE)).ok()?;
        let hello = connection.receive().ok()?;
        let is_version = hello.header.command == Command::Version as u16;
        let version = decode_version(&hello.payload)
            .ok()
            .filter(|(major, ..)| is_version && *major == MAJOR);
        let Some((_, _, capabilities)) = version else {
            connection
                .send_reply(&hello.header, &[], &[], libc::EPROTO as u32)
                .ok();
            return None;
        };
        let (writer, pid) = (connection.try_clone().ok()?, connection.peer_pid().ok()?);
        connection.set_receive_timeout(None).ok()?;
        if self.taken.swap(true, Ordering::AcqRel) {
            connection
                .send_reply(&hello.header, &[], &[], libc::EBUSY as u32)
                .ok();
            return None;
        }
        let process_memory = capabilities.hca_process_memory;
        let ours = Capabilities {
            max_msg_fds: MAX_FDS as u32,
            hca_process_memory: process_memory,
            ..capabilities
        };
        if connection
            .send_reply(&hello.header, &encode_version(&ours), &[], 0)
            .is_err()
        {
            self.taken.store(false, Ordering::Release);
            return None;
        }
        Some((writer, pid, process_memory))
    }
}
