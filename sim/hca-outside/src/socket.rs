//! The socket of a wire, of any kind; never waits.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::framing::Unframed;
use crate::stats::WireStats;
use crate::stream::{Stream, remove_stale};
use crate::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, PeerAddress, tap};

/// Longest datagram that is read whole.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Pause when the system has no room for a datagram, or refuses to receive: it does not say when that passes.
const PAUSE: Duration = Duration::from_millis(1);
const LONG_PAUSE: Duration = Duration::from_millis(100);
/// Datagrams received at a time.
const BURST: usize = 64;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is out, or will be without more ado.
    Done,
    /// No room at present.
    Full,
    /// Nobody is there.
    NoPeer,
}

/// An error that says no more than: not now.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A socket that keeps frames apart by itself.
enum Packets {
    Unix {
        socket: UnixDatagram,
        local: PathBuf,
        remote: PathBuf,
    },
    Udp(UdpSocket),
    Tap(File),
}

impl Packets {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { socket, .. } => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
            Self::Tap(file) => file.as_fd(),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix { socket, .. } => socket.recv(buffer),
            Self::Udp(socket) => socket.recv(buffer),
            Self::Tap(file) => file.read(buffer),
        }
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix { socket, remote, .. } => socket.send_to(frame, &*remote),
            Self::Udp(socket) => socket.send(frame),
            Self::Tap(file) => file.write(frame),
        }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        if let Self::Unix { local, .. } = self {
            // A path that somebody else removed is as good as removed.
            let _ = std::fs::remove_file(local);
        }
    }
}

enum Kind {
    Stream(Stream),
    Packets {
        packets: Packets,
        buffer: Vec<u8>,
        /// Neither heard nor written before.
        pause: Option<Instant>,
    },
}

pub(crate) struct Socket(Kind);

impl Socket {
    pub fn open(address: &PeerAddress, stats: &WireStats) -> io::Result<Self> {
        let packets = match address {
            PeerAddress::Listen(path) => return Ok(Self(Kind::Stream(Stream::listen(path)?))),
            PeerAddress::Connect(path) => return Ok(Self(Kind::Stream(Stream::connect(path)))),
            PeerAddress::Datagram { local, remote } => unix_datagram(local, remote)?,
            PeerAddress::Udp { local, remote } => {
                let socket = UdpSocket::bind(local)?;
                socket.connect(remote)?;
                socket.set_nonblocking(true)?;
                Packets::Udp(socket)
            }
            PeerAddress::Tap(name) => Packets::Tap(tap::open(name)?),
        };
        stats.set_connected(true);
        Ok(Self(Kind::Packets {
            packets,
            buffer: vec![0; DATAGRAM_BYTES],
            pause: None,
        }))
    }

    /// Descriptors to wait for; `true`: also until it can be written.
    pub fn watch(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        match &self.0 {
            Kind::Stream(stream) => stream.watch().collect(),
            Kind::Packets { packets, pause, .. } => match pause {
                None => vec![(packets.fd(), false)],
                Some(_) => Vec::new(),
            },
        }
    }

    /// When to look again although nothing comes.
    pub fn retry_at(&self) -> Option<Instant> {
        match &self.0 {
            Kind::Stream(stream) => stream.retry_at(),
            Kind::Packets { pause, .. } => *pause,
        }
    }

    /// Looks after the connection.
    pub fn maintain(&mut self, stats: &WireStats) {
        match &mut self.0 {
            Kind::Stream(stream) => stream.maintain(stats),
            Kind::Packets { pause, .. } => *pause = pause.filter(|until| Instant::now() < *until),
        }
    }

    /// Hands out some of what has come.
    pub fn receive(&mut self, stats: &WireStats, mut out: impl FnMut(Unframed)) {
        match &mut self.0 {
            Kind::Stream(stream) => stream.receive(stats, out),
            Kind::Packets { pause: Some(_), .. } => {}
            Kind::Packets {
                packets,
                buffer,
                pause,
            } => {
                for _ in 0..BURST {
                    match packets.receive(buffer) {
                        Ok(len) => out(judge(&buffer[..len])),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                        // An ICMP answer to what was sent: the peer is not there, or not yet.
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(_) => {
                            *pause = Some(Instant::now() + LONG_PAUSE);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Sends a frame, or takes it for [`Socket::flush`].
    pub fn send(&mut self, frame: &[u8]) -> Sent {
        match &mut self.0 {
            Kind::Stream(stream) => stream.send(frame),
            Kind::Packets { pause: Some(_), .. } => Sent::Full,
            Kind::Packets { packets, pause, .. } => match packets.send(frame) {
                Ok(_) => Sent::Done,
                Err(error) if is_transient(&error) || is_out_of_room(&error) => {
                    *pause = Some(Instant::now() + PAUSE);
                    Sent::Full
                }
                Err(_) => Sent::NoPeer,
            },
        }
    }

    /// Writes what waits; true: there is room for more.
    pub fn flush(&mut self, stats: &WireStats) -> bool {
        match &mut self.0 {
            Kind::Stream(stream) => stream.flush(stats),
            Kind::Packets { pause, .. } => pause.is_none(),
        }
    }
}

fn is_out_of_room(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32)
}

fn judge(frame: &[u8]) -> Unframed {
    match frame.len() {
        ..FRAME_BYTES_MIN => Unframed::Runt,
        FRAME_BYTES_MIN..=FRAME_BYTES_MAX => Unframed::Frame(frame.to_vec()),
        _ => Unframed::Oversized,
    }
}

fn unix_datagram(local: &Path, remote: &Path) -> io::Result<Packets> {
    remove_stale(local)?;
    let socket = UnixDatagram::bind(local)?;
    socket.set_nonblocking(true)?;
    Ok(Packets::Unix {
        socket,
        local: local.to_owned(),
        remote: remote.to_owned(),
    })
}
