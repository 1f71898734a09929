//! Wires of every kind, and peers that misbehave.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hca_outside::{FRAME_BYTES_MAX, Wire, WireConfig, WireCounts};

/// Far beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A wire and the news of it.
struct End {
    wire: Wire,
    arrivals: Receiver<()>,
}

fn open(address: &str) -> End {
    let wire = Wire::open(WireConfig::new(address.parse().unwrap())).unwrap();
    let (tell, arrivals) = channel();
    wire.on_arrival(move || tell.send(()).unwrap_or(()));
    End { wire, arrivals }
}

impl End {
    fn frame(&self) -> Vec<u8> {
        loop {
            if let Some(frame) = self.wire.take() {
                return frame;
            }
            self.arrivals.recv_timeout(PATIENCE).expect("a frame");
        }
    }

    /// Waits until the counts are right. Nothing tells of them, so they are looked at.
    fn until(&self, right: impl Fn(&WireCounts) -> bool) -> WireCounts {
        let stats = self.wire.stats();
        let begin = std::time::Instant::now();
        loop {
            let counts = stats.counts();
            if right(&counts) {
                return counts;
            }
            assert!(begin.elapsed() < PATIENCE, "{counts:?}");
            std::thread::yield_now();
        }
    }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes()[..], frame].concat()
}

fn read_frame(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Two ends of each kind carry frames of every length both ways, in order.
#[test]
fn every_kind_carries_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let ports: Vec<u16> = (0..4)
        .map(|at| UdpSocket::bind((if at < 2 { "127.0.0.1" } else { "::1" }, 0)).unwrap())
        .map(|socket| socket.local_addr().unwrap().port())
        .collect();
    let pairs = [
        (
            format!("unix:{}", path("s")),
            format!("unix-connect:{}", path("s")),
        ),
        (
            format!("dgram:{},{}", path("a"), path("b")),
            format!("dgram:{},{}", path("b"), path("a")),
        ),
        (
            format!("udp:127.0.0.1:{0},127.0.0.1:{1}", ports[0], ports[1]),
            format!("udp:127.0.0.1:{1},127.0.0.1:{0}", ports[0], ports[1]),
        ),
        (
            format!("udp:[::1]:{0},[::1]:{1}", ports[2], ports[3]),
            format!("udp:[::1]:{1},[::1]:{0}", ports[2], ports[3]),
        ),
    ];
    for (a, b) in pairs {
        let (near, far) = (open(&a), open(&b));
        for end in [&near, &far] {
            end.until(|counts| counts.connects == 1);
        }
        for (from, to) in [(&near, &far), (&far, &near)] {
            for len in [14, 60, 61, 1500, 4200, FRAME_BYTES_MAX] {
                let frame: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
                from.wire.send(&frame);
                assert_eq!(to.frame(), frame, "{a}");
            }
            from.until(|counts| counts.frames_out == 6);
        }
        near.wire.send(&[0; FRAME_BYTES_MAX + 1]);
        near.until(|counts| counts.oversized == 1);
    }
}

#[test]
fn stale_sockets_are_replaced_and_living_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    drop(UnixListener::bind(&path).unwrap());
    let address = format!("unix:{}", path.display());
    let wire = open(&address);
    let again = Wire::open(WireConfig::new(address.parse().unwrap()));
    let why = again.err().unwrap().to_string();
    assert!(why.contains("somebody else listens there"), "{why}");
    let datagram = format!("dgram:{},{}", path.display(), folder.path().join("b").display());
    let why = Wire::open(WireConfig::new(datagram.parse().unwrap()))
        .err()
        .unwrap();
    assert!(why.to_string().contains("somebody else listens there"), "{why}");
    drop(wire);
    assert!(!path.exists());
    drop(UnixDatagram::bind(&path).unwrap());
    drop(open(&datagram));
    drop(UnixDatagram::bind(&path).unwrap());
    drop(open(&address));
    let living = UnixDatagram::bind(&path).unwrap();
    assert!(Wire::open(WireConfig::new(address.parse().unwrap())).is_err());
    drop(living);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "text").unwrap();
    let why = Wire::open(WireConfig::new(address.parse().unwrap()))
        .err()
        .unwrap();
    assert!(why.to_string().contains("no socket is in the way"), "{why}");
    assert!(path.exists());
}

/// A peer that goes in the middle of a frame, comes back, and finds nothing of the old times.
#[test]
fn a_peer_may_hang_up_anywhere_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let whole = framed(&[7; 60]);
    for cut in 0..whole.len() {
        let mut peer = connect(&path);
        peer.write_all(&whole[..cut]).unwrap();
        drop(peer);
        end.until(|counts| counts.connects == cut as u64 + 1);
    }
    let mut peer = connect(&path);
    peer.write_all(&whole).unwrap();
    assert_eq!(end.frame(), [7; 60]);
    end.wire.send(&[9; 20]);
    assert_eq!(read_frame(&mut peer), [9; 20]);
    assert_eq!(end.until(|_| true).frames_in, 1);
    // What is sent while nobody is there is lost and counted.
    drop(peer);
    while end.wire.stats().is_connected() {
        std::thread::yield_now();
    }
    end.wire.send(&[8; 20]);
    end.until(|counts| counts.no_peer == 1);
    let mut peer = connect(&path);
    end.until(|counts| counts.connects == whole.len() as u64 + 2);
    end.wire.send(&[6; 20]);
    assert_eq!(read_frame(&mut peer), [6; 20]);
}

/// The other role: the listener dies, and the wire finds its successor.
#[test]
fn a_listener_may_die_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&format!("unix-connect:{}", path.display()));
    for round in 0..3 {
        let listener = UnixListener::bind(&path).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(&framed(&[round; 60])).unwrap();
        assert_eq!(end.frame(), [round; 60]);
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(end.until(|counts| counts.connects == 3).frames_in, 3);
}

#[test]
fn a_second_caller_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let mut first = connect(&path);
    end.until(|counts| counts.connects == 1);
    let mut second = connect(&path);
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    assert_eq!(end.until(|_| true).refused, 1);
    first.write_all(&framed(&[1; 14])).unwrap();
    assert_eq!(end.frame(), [1; 14]);
}

#[test]
fn garbage_is_counted_and_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let mut peer = connect(&path);
    for len in [0, 1, 13, FRAME_BYTES_MAX + 1, 65536, 60] {
        peer.write_all(&framed(&vec![0x55; len])).unwrap();
    }
    assert_eq!(end.frame().len(), 60);
    let counts = end.until(|_| true);
    assert_eq!((counts.runts, counts.oversized), (3, 2));
    peer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap_or(0), 0, "hung up");
    assert_eq!(end.until(|counts| counts.bad_streams == 1).frames_in, 1);
    let mut peer = connect(&path);
    peer.write_all(&framed(&[2; 60])).unwrap();
    assert_eq!(end.frame(), [2; 60]);

    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let end = open(&format!("dgram:{},{}", a.display(), b.display()));
    let peer = UnixDatagram::bind(&b).unwrap();
    for len in [0, 13, FRAME_BYTES_MAX + 1, 14] {
        peer.send_to(&vec![0x55; len], &a).unwrap();
    }
    assert_eq!(end.frame().len(), 14);
    let counts = end.until(|_| true);
    assert_eq!((counts.runts, counts.oversized), (2, 1));
    drop(peer);
    end.wire.send(&[0; 60]);
    end.until(|counts| counts.no_peer == 1);
}

/// A peer that floods does not fill the memory: what nobody takes is dropped.
#[test]
fn a_flood_is_bounded() {
    const FRAMES: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let mut peer = connect(&path);
    let frame = framed(&[0xaa; 1024]);
    for _ in 0..FRAMES {
        peer.write_all(&frame).unwrap();
    }
    let counts = end.until(|counts| counts.frames_in + counts.dropped_in == FRAMES);
    assert!(counts.dropped_in > 0 && counts.frames_in > 0, "{counts:?}");
    let mut held = 0;
    while end.wire.take().is_some() {
        held += 1;
    }
    assert_eq!(held, counts.frames_in);
    peer.write_all(&framed(&[1; 60])).unwrap();
    assert_eq!(end.frame(), [1; 60]);
}

/// A peer that never reads neither holds the sender up nor fills the memory; when it reads, it finds whole frames.
#[test]
fn a_peer_that_never_reads_is_bounded() {
    const FRAMES: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let mut peer = connect(&path);
    end.until(|counts| counts.connects == 1);
    for number in 0..FRAMES {
        let mut frame = [0; 1024];
        frame[..8].copy_from_slice(&number.to_be_bytes());
        end.wire.send(&frame);
    }
    let dropped = end.until(|counts| counts.dropped_out > 0).dropped_out;
    assert!(dropped < FRAMES);
    let mut last = None;
    for _ in 0..FRAMES - dropped {
        let frame = read_frame(&mut peer);
        assert_eq!(frame.len(), 1024);
        let number = frame.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        assert!(number > last);
        last = number;
    }
    assert_eq!(end.until(|_| true).frames_out, FRAMES - dropped);
}

/// Its thread and its socket end with a wire, whatever the peer does.
#[test]
fn a_wire_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let end = open(&path.display().to_string());
    let _peer = connect(&path);
    end.until(|counts| counts.connects == 1);
    (0..2000).for_each(|_| end.wire.send(&[0; 9000]));
    let stats = Arc::downgrade(&end.wire.stats());
    drop(end);
    assert!(stats.upgrade().is_none() && !path.exists());
}
