//! A client that speaks the protocol but keeps none of its rules.

use hca_vfio_user::{
    Capabilities, Command, Connection, MINOR, Message, RegionAccess, encode_version, region,
};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A greeted client, or one that is not yet.
pub struct RawClient {
    /// The socket, for bytes that are no messages.
    pub stream: UnixStream,
    /// The same for messages.
    pub connection: Connection,
}

impl RawClient {
    /// Connects and says nothing.
    pub fn silent(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let connection = Connection::new(stream.try_clone()?);
        Ok(Self { stream, connection })
    }

    /// Connects, greets and enables the function. Where it is refused, the error is the simulator's.
    pub fn greeted(socket: &Path) -> io::Result<Self> {
        let mut client = Self::silent(socket)?;
        match client.ask(Command::Version, &hello(), &[])?.header.errno() {
            0 => {
                client.ask(Command::RegionWrite, &enabling(), &[])?;
                Ok(client)
            }
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// A command and its answer.
    pub fn ask(&mut self, command: Command, payload: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<Message> {
        self.connection.send_command(2, command, payload, fds, true)?;
        self.connection.receive()
    }

    /// Sends a command as often as the socket takes it at once; returns how often that was. The last one may be half.
    pub fn stuff(&mut self, command: Command, payload: &[u8], wants_reply: bool) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let mut sent = 0;
        let result = loop {
            match self
                .connection
                .send_command(3, command, payload, &[], wants_reply)
            {
                Ok(()) => sent += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(sent),
                Err(error) => break Err(error),
            }
        };
        self.stream.set_nonblocking(false)?;
        result
    }

    /// The simulator has hung up.
    pub fn is_hung_up(&self) -> bool {
        self.wait_hung_up(Duration::ZERO)
    }

    /// Waits until the simulator hangs up; false: it has not, for so long.
    pub fn wait_hung_up(&self, limit: Duration) -> bool {
        self.wait(libc::POLLRDHUP, limit)
    }

    /// Waits until there is something to read, or room to write.
    pub fn wait_ready(&self, limit: Duration) -> bool {
        self.wait(libc::POLLIN | libc::POLLOUT, limit)
    }

    fn wait(&self, events: libc::c_short, limit: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.stream.as_raw_fd(),
            events,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) == 1 }
    }
}

/// The payload of a greeting.
pub fn hello() -> Vec<u8> {
    let ours = Capabilities {
        hca_process_memory: true,
        hca_shared_region: true,
        ..Capabilities::default()
    };
    encode_version(MINOR, &ours)
}

/// The payload of a write that lets the function answer, and reach memory.
pub fn enabling() -> Vec<u8> {
    const COMMAND_OFFSET: u64 = 4;
    RegionAccess {
        region: region::CONFIG,
        offset: COMMAND_OFFSET,
        count: 2,
    }
    .encode(&[6, 0])
}

/// The payload of a read of `count` bytes.
pub fn read_of(region: u32, offset: u64, count: u32) -> Vec<u8> {
    RegionAccess {
        region,
        offset,
        count,
    }
    .encode(&[])
}

/// A read of the whole configuration space.
pub fn read_config() -> Vec<u8> {
    read_of(region::CONFIG, 0, 256)
}
