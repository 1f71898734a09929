//! A function's door: the thread that alone waits for its socket, for callers that have not greeted yet and for the
//! client. It looks at what comes, and closes and unmaps what clients have given; all of that may take long, which then
//! holds up this one function.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hca_dev::PAGE_BYTES;
use hca_host::{Presence, Remote, RemoteMemory};
use hca_vfio_user::{
    Capabilities, Command, Connection, DmaMap, Header, MAJOR, MAX_FDS, MINOR, Message, SharedRegion,
    decode_version, encode_version, eventfd,
};

use super::endpoint::MAX_MAPPINGS;
use super::files::{Files, Share};
use super::lane::{Event, Given, Lane, Newcomer, Request, Shared, encode_reply};
use super::messages::{Mailbox, MessageMemory};
use super::process::ProcessMemory;

/// Callers of a function that may be there without having greeted; one more, and the oldest is hung up.
const CALLERS: usize = 16;
/// Pause after a connection that could not be accepted: out of descriptors, which passes when connections end.
const BREATHER: Duration = Duration::from_millis(50);
/// Bytes of one access to a region, or of a DMA message: a page, and many in a message.
const MAX_TRANSFER_BYTES: u64 = 32 << 10;
/// Connections accepted and messages read before the door looks at everything else again.
const PER_LOOK: usize = 16;

/// Mappings of files that all functions together may have: the kernel's usual limit for a process (65530,
/// vm.max_map_count) less what the simulator itself needs.
const MAPPINGS: usize = 48 * 1024;
/// What a function may have of them however many functions there are.
const MAPPINGS_MIN: usize = 1024;
/// Bytes of address space for these mappings, of the 2^47 of a process.
const MAPPED_BYTES: usize = 1 << 46;

/// A connection that has not been accepted as the client's.
struct Caller {
    connection: Connection,
    until: Instant,
    /// It has greeted, and waits for the last client to be cleaned up behind.
    hello: Option<Hello>,
}

/// A greeting that can be answered.
struct Hello {
    header: Header,
    minor: u16,
    /// What both can do.
    agreed: Capabilities,
    /// The caller's own memory, where it hands that over.
    memory: Option<OwnedFd>,
}

/// What we can do, all of it.
fn abilities() -> Capabilities {
    Capabilities {
        max_msg_fds: MAX_FDS as u32,
        max_data_xfer_size: MAX_TRANSFER_BYTES,
        max_dma_maps: MAX_MAPPINGS as u64,
        pgsizes: !(PAGE_BYTES as u64 - 1),
        hca_process_memory: true,
        hca_shared_region: true,
    }
}

/// Who has the function.
enum Holder {
    Nobody,
    Client(Connection),
    /// The client has gone; the simulation cleans up behind it.
    Leaving,
}

pub(super) struct Door {
    listener: UnixListener,
    lane: Arc<Lane>,
    /// Functions of this server, which share what a process can map.
    functions: Arc<AtomicUsize>,
    callers: Vec<Caller>,
    holder: Holder,
    /// Of the thread that touches the client's memory. While one is held there by a page that does not come, nobody
    /// else gets the function: so there are never more of them than functions.
    presence: Option<Presence>,
    /// Of the client, or the last one.
    mailbox: Arc<Mailbox>,
    /// Memory that the client has given.
    files: Files,
    /// Nothing is accepted before.
    pause: Option<Instant>,
}

impl Door {
    pub fn new(listener: UnixListener, lane: Arc<Lane>, functions: Arc<AtomicUsize>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            lane,
            functions,
            callers: Vec::new(),
            holder: Holder::Nobody,
            presence: None,
            mailbox: Arc::default(),
            files: Files::default(),
            pause: None,
        })
    }

    /// Until the server ends.
    pub fn run(mut self) {
        let mut until = None;
        while !self.lane.is_closed() {
            self.wait(until);
            self.lane.clear_door_kick();
            drop(self.lane.take_discarded());
            self.files.forget_unused();
            if self.lane.take_release() {
                self.holder = Holder::Nobody;
            }
            let stalled_until = self.serve_client();
            self.hear_callers();
            self.admit();
            self.accept();
            let limits = self.callers.iter().map(|caller| caller.until);
            until = limits.chain(self.pause).chain(stalled_until).min();
        }
    }

    /// Waits until a descriptor has something, or until then.
    fn wait(&self, until: Option<Instant>) {
        let watch = |fd: BorrowedFd<'_>, events| libc::pollfd {
            fd: fd.as_raw_fd(),
            events,
            revents: 0,
        };
        let mut polls = vec![watch(self.lane.door_kick().as_fd(), libc::POLLIN)];
        if self.pause.is_none() {
            polls.push(watch(self.listener.as_fd(), libc::POLLIN));
        }
        // Who has greeted has nothing more to say; that he hangs up is seen when it is his turn.
        let talking = self.callers.iter().filter(|caller| caller.hello.is_none());
        polls.extend(talking.map(|caller| watch(caller.connection.fd(), libc::POLLIN)));
        if let Holder::Client(connection) = &self.holder {
            let reads = if self.lane.has_room() { libc::POLLIN } else { 0 };
            let writes = if self.lane.is_stalled() { libc::POLLOUT } else { 0 };
            if reads | writes != 0 {
                polls.push(watch(connection.fd(), reads | writes));
            }
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Rounded up, so that the time has come when it ends.
        let limit_ms = left.map_or(-1, |left| left.as_millis().min(60_000) as i32 + 1);
        // SAFETY: live pollfds, as many as named. A signal ends it early, which the caller allows.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, limit_ms) };
    }

    /// Takes messages and sends answers. Returns until when there is patience with the client.
    fn serve_client(&mut self) -> Option<Instant> {
        if !matches!(self.holder, Holder::Client(_)) {
            return None;
        }
        let stalled_until = match self.lane.flush() {
            Ok(until) if !self.lane.is_broken() => until,
            _ => {
                self.leave(false);
                return None;
            }
        };
        for _ in 0..PER_LOOK {
            let Holder::Client(connection) = &mut self.holder else {
                break;
            };
            if !self.lane.has_room() {
                break;
            }
            match connection.try_receive() {
                Ok(Some(message)) if message.header.is_reply() => self.mailbox.deliver(message),
                Ok(Some(message)) => {
                    let request = self.examine(message);
                    self.lane.push(Event::Message(request));
                }
                Ok(None) => break,
                Err(error) => self.leave(error.kind() == io::ErrorKind::UnexpectedEof),
            }
        }
        stalled_until
    }

    fn leave(&mut self, by_itself: bool) {
        self.mailbox.close();
        self.holder = Holder::Leaving;
        self.lane.leave(by_itself);
    }

    /// Looks at the descriptors of a message; what the simulation could wait for ends here.
    fn examine(&mut self, message: Message) -> Request {
        let Message { header, payload, fds } = message;
        let command = Command::from_wire(header.command);
        let given = match command {
            Some(Command::DeviceSetIrqs) if !fds.is_empty() => {
                if fds.iter().all(is_eventfd) {
                    Given::Eventfds(fds)
                } else {
                    Given::Refused(libc::EINVAL)
                }
            }
            Some(Command::DmaMap) if !fds.is_empty() => {
                self.map(&payload, fds).unwrap_or_else(Given::Refused)
            }
            _ => Given::Nothing,
        };
        Request {
            header,
            payload,
            given,
        }
    }

    fn map(&mut self, payload: &[u8], fds: Vec<OwnedFd>) -> Result<Given, i32> {
        let map = DmaMap::decode(payload).map_err(|_| libc::EINVAL)?;
        let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| libc::EINVAL)?;
        let functions = self.functions.load(Ordering::Relaxed).max(1);
        let share = Share {
            mappings: (MAPPINGS / functions).max(MAPPINGS_MIN),
            bytes: MAPPED_BYTES / functions,
        };
        let writable = map.flags & DmaMap::WRITE != 0;
        let (memory, offset) = self
            .files
            .map(&File::from(fd), map.offset, map.size, writable, share)?;
        Ok(Given::Memory { memory, offset })
    }

    // ---- Before the greeting

    fn accept(&mut self) {
        if self.pause.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.pause = None;
        for _ in 0..PER_LOOK {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.callers.len() >= CALLERS {
                        self.callers.remove(0);
                    }
                    self.callers.push(Caller {
                        connection: Connection::new(stream),
                        until: Instant::now() + self.lane.patience(),
                        hello: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.pause = Some(Instant::now() + BREATHER);
                    return;
                }
            }
        }
    }

    /// Reads greetings; hangs up on who says something else, or nothing for too long.
    fn hear_callers(&mut self) {
        let now = Instant::now();
        self.callers
            .retain_mut(|caller| caller.hello.is_some() || (caller.until > now && caller.hear()));
    }

    /// Gives the function to the first who has greeted, once it is free; while a client has it, the others are told.
    fn admit(&mut self) {
        let now = Instant::now();
        while let Some(at) = self.callers.iter().position(|caller| caller.hello.is_some()) {
            let busy = match &self.holder {
                _ if self.lane.is_broken() => Some(libc::EIO),
                Holder::Nobody if self.presence.as_ref().is_none_or(Presence::is_over) => None,
                Holder::Client(connection) if !is_hung_up(connection) => Some(libc::EBUSY),
                // On its way out: that passes.
                _ if self.callers[at].until > now => return,
                _ => Some(libc::EBUSY),
            };
            let caller = self.callers.remove(at);
            match (busy, caller.hello) {
                (Some(errno), Some(hello)) => {
                    // One that cannot take it is hung up anyway.
                    let _ = caller
                        .connection
                        .try_send(&encode_reply(&hello.header, &[], errno as u32), &[]);
                }
                (None, Some(hello)) => self.welcome(caller.connection, hello),
                (_, None) => {}
            }
        }
    }

    fn welcome(&mut self, connection: Connection, mut hello: Hello) {
        let mailbox = Arc::<Mailbox>::default();
        let made = newcomer(&connection, &mut hello, &self.lane, &mailbox);
        let made = made.and_then(|new| Ok((new, connection.try_clone()?)));
        let (newcomer, writer) = match made {
            Ok(made) => made,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                let _ = connection.try_send(&encode_reply(&hello.header, &[], errno as u32), &[]);
                return;
            }
        };
        let reply = encode_reply(&hello.header, &encode_version(hello.minor, &hello.agreed), 0);
        if connection
            .try_send(&reply, &[])
            .is_ok_and(|sent| sent == reply.len())
        {
            self.holder = Holder::Client(connection);
            self.presence = Some(newcomer.memory.presence());
            self.mailbox = mailbox;
            self.lane.open(writer, newcomer);
        }
    }
}

impl Caller {
    /// False: not a client.
    fn hear(&mut self) -> bool {
        let hello = match self.connection.try_receive() {
            Ok(Some(hello)) => hello,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let header = hello.header;
        match read_hello(hello) {
            Ok(hello) => {
                self.hello = Some(hello);
                true
            }
            Err(errno) => {
                let reply = encode_reply(&header, &[], errno as u32);
                // One that cannot take it is hung up anyway.
                let _ = self.connection.try_send(&reply, &[]);
                false
            }
        }
    }
}

/// The greeting in a message, or an errno: EPROTO where it is none that we understand, EINVAL where the two have no
/// page size in common.
fn read_hello(message: Message) -> Result<Hello, i32> {
    let (major, minor, theirs) = decode_version(&message.payload).map_err(|_| libc::EPROTO)?;
    if message.header.command != Command::Version as u16 || major != MAJOR {
        return Err(libc::EPROTO);
    }
    Ok(Hello {
        header: message.header,
        minor: minor.min(MINOR),
        agreed: abilities().common(&theirs).ok_or(libc::EINVAL)?,
        memory: message.fds.into_iter().next(),
    })
}

/// Makes what a client is given.
fn newcomer(
    connection: &Connection,
    hello: &mut Hello,
    lane: &Arc<Lane>,
    mailbox: &Arc<Mailbox>,
) -> io::Result<Newcomer> {
    let agreed = &hello.agreed;
    let process_memory = agreed.hca_process_memory;
    let memory: Arc<dyn RemoteMemory> = if process_memory {
        Arc::new(match hello.memory.take() {
            Some(handed_over) => ProcessMemory::handed_over(handed_over)?,
            None => ProcessMemory::of_peer(connection)?,
        })
    } else {
        let max_bytes = agreed.max_data_xfer_size;
        Arc::new(MessageMemory::new(lane.clone(), mailbox.clone(), max_bytes))
    };
    let shared = if agreed.hca_shared_region {
        let region = SharedRegion::new().map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Some(Shared {
            region,
            kick: eventfd()?,
        })
    } else {
        None
    };
    Ok(Newcomer {
        pid: connection.peer_pid()?,
        memory: Remote::new(memory, lane.clone())?,
        process_memory,
        shared,
    })
}

/// The other end has closed, or died.
fn is_hung_up(connection: &Connection) -> bool {
    let mut poll = libc::pollfd {
        fd: connection.fd().as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: one live pollfd; does not wait.
    let found = unsafe { libc::poll(&mut poll, 1, 0) };
    found > 0 && poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// Anything else means nothing when it is counted up.
fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}
