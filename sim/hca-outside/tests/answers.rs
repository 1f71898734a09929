//! What a wire answers in the place of its port, and whom it gets to know; frames as a peer's kernel makes them.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hca_outside::{Host, Wire, WireConfig, WireCounts, gid_of_ip};

const PATIENCE: Duration = Duration::from_secs(20);
const OWN: [u8; 6] = [2, 0, 10, 0, 0, 1];
const PEER: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const BROADCAST: [u8; 6] = [0xff; 6];

struct Bench {
    wire: Wire,
    peer: UnixStream,
    arrivals: Receiver<()>,
    _folder: tempfile::TempDir,
}

fn bench(change: impl FnOnce(&mut WireConfig)) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire");
    let mut config = WireConfig::new(path.to_str().unwrap().parse().unwrap());
    change(&mut config);
    let wire = Wire::open(config).unwrap();
    let gids = ["fe80::aff:fe00:1", "::ffff:10.0.0.1", "fd00::1"].map(gid);
    wire.set_host(Host::of_gids(OWN, &gids));
    wire.keep_aside();
    let (tell, arrivals) = channel();
    wire.on_arrival(move || tell.send(()).unwrap_or(()));
    let peer = UnixStream::connect(path).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    Bench {
        wire,
        peer,
        arrivals,
        _folder: folder,
    }
}

impl Bench {
    fn send(&mut self, frame: &[u8]) {
        let framed = [&(frame.len() as u32).to_be_bytes()[..], frame].concat();
        self.peer.write_all(&framed).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.peer.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.peer.read_exact(&mut frame).unwrap();
        frame
    }

    /// Waits until a frame sent last has been dealt with, and says what was counted.
    fn settle(&mut self) -> WireCounts {
        let last = roce4(&[10, 0, 0, 9], &[10, 0, 0, 1]);
        self.send(&last);
        while self.next_at_the_card() != last {}
        self.wire.stats().counts()
    }

    /// Waits for a frame that reaches the card.
    fn next_at_the_card(&mut self) -> Vec<u8> {
        loop {
            match self.wire.take() {
                Some(frame) => return frame,
                None => self.arrivals.recv_timeout(PATIENCE).unwrap(),
            }
        }
    }

    fn knows(&self, address: &str) -> Option<[u8; 6]> {
        let wanted = gid_of_ip(address.parse().unwrap());
        let list = self.wire.neighbours().list();
        list.into_iter()
            .find(|(gid, _)| *gid == wanted)
            .map(|(_, mac)| mac)
    }
}

fn gid(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

fn ip6(text: &str) -> [u8; 16] {
    gid(text)
}

fn ethernet(to: [u8; 6], from: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &ethertype.to_be_bytes(), payload].concat()
}

fn arp(operation: u8, source: ([u8; 6], [u8; 4]), target: ([u8; 6], [u8; 4])) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    [&head[..], &source.0, &source.1, &target.0, &target.1].concat()
}

/// RFC 1071.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!(((folded & 0xffff) + (folded >> 16)) as u16)).to_be_bytes()
}

fn ipv4(protocol: u8, source: &[u8; 4], target: &[u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len() as u16).to_be_bytes();
    let mut head = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
    head.extend_from_slice(source);
    head.extend_from_slice(target);
    let sum = checksum(&[&head]);
    head[10..12].copy_from_slice(&sum);
    [&head[..], payload].concat()
}

fn ipv6(next: u8, hops: u8, source: &[u8; 16], target: &[u8; 16], payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, len[0], len[1], next, hops];
    [&head[..], source, target, payload].concat()
}

fn icmpv6(source: &[u8; 16], target: &[u8; 16], message: &[u8]) -> Vec<u8> {
    let len = (message.len() as u32).to_be_bytes();
    let sum = checksum(&[source, target, &len, &[0, 0, 0, 58], message]);
    let mut message = message.to_vec();
    message[2..4].copy_from_slice(&sum);
    message
}

fn udp(port: u16) -> Vec<u8> {
    [
        &0xc000u16.to_be_bytes()[..],
        &port.to_be_bytes(),
        &24u16.to_be_bytes(),
        &[0; 18],
    ]
    .concat()
}

fn roce4(source: &[u8; 4], target: &[u8; 4]) -> Vec<u8> {
    ethernet(OWN, PEER, 0x0800, &ipv4(17, source, target, &udp(4791)))
}

/// A neighbour solicitation with its option, if any.
fn solicitation(target: &str, option: Option<[u8; 6]>) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&ip6(target));
    if let Some(mac) = option {
        message.extend_from_slice(&[1, 1]);
        message.extend_from_slice(&mac);
    }
    message
}

#[test]
fn arp_is_answered_and_learnt_from() {
    let mut bench = bench(|_| ());
    let question = arp(1, (PEER, [10, 0, 0, 9]), ([0; 6], [10, 0, 0, 1]));
    bench.send(&ethernet(BROADCAST, PEER, 0x0806, &question));
    let answer = arp(2, (OWN, [10, 0, 0, 1]), (PEER, [10, 0, 0, 9]));
    assert_eq!(bench.receive(), ethernet(PEER, OWN, 0x0806, &answer));
    assert_eq!(bench.knows("10.0.0.9"), Some(PEER));
    // A probe (RFC 5227) is answered; there is nothing to learn from it.
    let probe = arp(1, (PEER, [0; 4]), ([0; 6], [10, 0, 0, 1]));
    bench.send(&ethernet(BROADCAST, PEER, 0x0806, &probe));
    let answer = arp(2, (OWN, [10, 0, 0, 1]), (PEER, [0; 4]));
    assert_eq!(bench.receive(), ethernet(PEER, OWN, 0x0806, &answer));
    // Questions for others; from others who are not known.
    let other = arp(1, (PEER, [10, 0, 0, 8]), ([0; 6], [10, 0, 0, 7]));
    bench.send(&ethernet(BROADCAST, PEER, 0x0806, &other));
    // The neighbour has moved, and says so to all.
    let moved = [0x52, 0x54, 0, 0, 0, 2];
    let gratuitous = arp(1, (moved, [10, 0, 0, 9]), ([0; 6], [10, 0, 0, 9]));
    bench.send(&ethernet(BROADCAST, moved, 0x0806, &gratuitous));
    let thief = arp(2, (PEER, [10, 0, 0, 1]), (OWN, [10, 0, 0, 1]));
    bench.send(&ethernet(OWN, PEER, 0x0806, &thief));
    bench.send(&ethernet(BROADCAST, PEER, 0x0806, &question[..27]));
    let counts = bench.settle();
    assert_eq!(
        (bench.knows("10.0.0.9"), bench.knows("10.0.0.8")),
        (Some(moved), None)
    );
    assert_eq!((counts.asked, counts.conflicts, counts.malformed), (2, 1, 1));
    let mut seen = Vec::new();
    while let Some((came, frame)) = bench.wire.take_aside() {
        seen.push((came, frame.len()));
    }
    assert_eq!(seen[..2], [(true, 42), (false, 42)]);
}

#[test]
fn neighbours_are_answered_and_learnt_from() {
    let mut bench = bench(|_| ());
    for (own, group) in [
        ("fd00::1", "ff02::1:ff00:1"),
        ("fe80::aff:fe00:1", "ff02::1:ff00:1"),
    ] {
        let (source, group) = (ip6("fd00::9"), ip6(group));
        let message = icmpv6(&source, &group, &solicitation(own, Some(PEER)));
        let to = [0x33, 0x33, 0xff, 0, 0, 1];
        bench.send(&ethernet(
            to,
            PEER,
            0x86dd,
            &ipv6(58, 255, &source, &group, &message),
        ));
        // Solicited, override, and our MAC address.
        let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
        message.extend_from_slice(&ip6(own));
        message.extend_from_slice(&[2, 1]);
        message.extend_from_slice(&OWN);
        let message = icmpv6(&ip6(own), &source, &message);
        let answer = ethernet(PEER, OWN, 0x86dd, &ipv6(58, 255, &ip6(own), &source, &message));
        assert_eq!(bench.receive(), answer);
        assert_eq!(bench.knows("fd00::9"), Some(PEER));
    }
    // Somebody tries out our address: all are told whose it is.
    let (none, group) = ([0; 16], ip6("ff02::1:ff00:1"));
    let message = icmpv6(&none, &group, &solicitation("fd00::1", None));
    let to = [0x33, 0x33, 0xff, 0, 0, 1];
    bench.send(&ethernet(
        to,
        PEER,
        0x86dd,
        &ipv6(58, 255, &none, &group, &message),
    ));
    let answer = bench.receive();
    assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(answer[38..54], ip6("ff02::1"));
    assert_eq!(answer[54..62], [136, 0, answer[56], answer[57], 0x20, 0, 0, 0]);
}

#[test]
fn what_is_wrong_in_a_solicitation() {
    let mut bench = bench(|_| ());
    let (source, group) = (ip6("fd00::9"), ip6("ff02::1:ff00:1"));
    let to = [0x33, 0x33, 0xff, 0, 0, 1];
    let mut send = |source: [u8; 16], target: [u8; 16], hops, message: &[u8]| {
        bench.send(&ethernet(
            to,
            PEER,
            0x86dd,
            &ipv6(58, hops, &source, &target, message),
        ));
    };
    let good = icmpv6(&source, &group, &solicitation("fd00::1", Some(PEER)));
    // It has passed a router; its checksum is wrong; it is cut.
    send(source, group, 254, &good);
    let mut bad = good.clone();
    bad[2] ^= 1;
    send(source, group, 255, &bad);
    send(source, group, 255, &good[..20]);
    // It asks for a group; nobody asks with a MAC address; nobody asks one station.
    let groups = icmpv6(&source, &group, &solicitation("ff02::1", Some(PEER)));
    send(source, group, 255, &groups);
    let none = [0; 16];
    let with_mac = icmpv6(&none, &group, &solicitation("fd00::1", Some(PEER)));
    send(none, group, 255, &with_mac);
    let alone = icmpv6(&none, &ip6("fd00::1"), &solicitation("fd00::1", None));
    send(none, ip6("fd00::1"), 255, &alone);
    let foreign = icmpv6(&source, &group, &solicitation("fd00::2", Some(PEER)));
    send(source, group, 255, &foreign);
    let counts = bench.settle();
    assert_eq!(
        (counts.malformed, counts.foreign, counts.asked),
        (6, 1, 0),
        "{counts:?}"
    );
    assert_eq!(bench.knows("fd00::9"), None);
}

#[test]
fn pings_are_answered() {
    let mut bench = bench(|_| ());
    for len in [0, 1, 56, 1472] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let mut request = [&[8, 0, 0, 0, 0x12, 0x34, 0, 7][..], &data].concat();
        let sum = checksum(&[&request]);
        request[2..4].copy_from_slice(&sum);
        let packet = ipv4(1, &[10, 0, 0, 9], &[10, 0, 0, 1], &request);
        bench.send(&ethernet(OWN, PEER, 0x0800, &packet));
        let answer = bench.receive();
        let mut reply = [&[0, 0, 0, 0, 0x12, 0x34, 0, 7][..], &data].concat();
        let sum = checksum(&[&reply]);
        reply[2..4].copy_from_slice(&sum);
        assert_eq!(answer[..14], ethernet(PEER, OWN, 0x0800, &[]));
        assert_eq!(answer[26..34], [10, 0, 0, 1, 10, 0, 0, 9]);
        assert_eq!(checksum(&[&answer[14..34]]), [0, 0]);
        assert_eq!(answer[34..], reply);

        let (source, own) = (ip6("fd00::9"), ip6("fd00::1"));
        let request = icmpv6(
            &source,
            &own,
            &[&[128, 0, 0, 0, 0x12, 0x34, 0, 7][..], &data].concat(),
        );
        bench.send(&ethernet(
            OWN,
            PEER,
            0x86dd,
            &ipv6(58, 64, &source, &own, &request),
        ));
        let reply = icmpv6(
            &own,
            &source,
            &[&[129, 0, 0, 0, 0x12, 0x34, 0, 7][..], &data].concat(),
        );
        let answer = ethernet(PEER, OWN, 0x86dd, &ipv6(58, 64, &own, &source, &reply));
        assert_eq!(bench.receive(), answer);
    }
    assert_eq!(bench.settle().echoes, 8);
}

/// RoCEv2 for our MAC address reaches the card, whatever its ECN and DSCP bits are; so does what is of no protocol of
/// the port's, for rules of raw QPs, but nothing that is malformed.
#[test]
fn the_card_gets_no_malformed_frames() {
    let mut bench = bench(|_| ());
    let roce = udp(4791);
    let packet6 = ipv6(17, 64, &ip6("fd00::9"), &ip6("fd00::1"), &roce);
    for tos in [0u8, 1, 2, 3, 0xff] {
        let mut packet4 = ipv4(17, &[10, 0, 0, 9], &[10, 0, 0, 1], &roce);
        packet4[1] = tos;
        let mut packet6 = packet6.clone();
        packet6[..2].copy_from_slice(&(0x6000 | u16::from(tos) << 4).to_be_bytes());
        for (ethertype, packet) in [(0x0800, packet4), (0x86dd, packet6)] {
            bench.send(&ethernet(OWN, PEER, ethertype, &packet));
            bench.next_at_the_card();
        }
    }
    let counts = bench.settle();
    assert_eq!((counts.frames_in, counts.foreign), (11, 0), "{counts:?}");
    let packet4 = ipv4(17, &[10, 0, 0, 9], &[10, 0, 0, 1], &roce);
    let mut fragment = packet4.clone();
    fragment[7] = 8;
    let other_port = ipv4(17, &[10, 0, 0, 9], &[10, 0, 0, 1], &udp(4790));
    for frame in [
        ethernet([2, 0, 10, 0, 0, 2], PEER, 0x0800, &packet4),
        ethernet(BROADCAST, PEER, 0x0800, &packet4),
        ethernet([0x33, 0x33, 0, 0, 0, 1], PEER, 0x86dd, &packet6),
        ethernet(OWN, [1, 0, 0, 0, 0, 1], 0x0800, &packet4),
        ethernet(OWN, PEER, 0x0800, &fragment),
        ethernet(OWN, PEER, 0x0800, &other_port),
        ethernet(OWN, PEER, 0x88cc, &[0; 46]),
        ethernet(OWN, PEER, 0x8100, &[0; 46]),
    ] {
        bench.send(&frame);
    }
    for cut in 0..28 {
        bench.send(&ethernet(OWN, PEER, 0x0800, &packet4[..cut]));
    }
    let after = bench.settle();
    assert_eq!(after.frames_in, counts.frames_in + 8 + 1, "{after:?}");
    assert_eq!((after.foreign, after.malformed), (8, 28));
}

#[test]
fn neighbours_are_asked_for() {
    let mut bench = bench(|config| {
        config.gateways = vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()];
        config.neighbours = vec!["10.0.0.77,52:54:00:00:00:77".parse().unwrap()];
    });
    let neighbours = bench.wire.neighbours();
    let want = |address: &str| neighbours.want(gid_of_ip(address.parse::<IpAddr>().unwrap()));
    assert_eq!(bench.knows("10.0.0.77"), Some([0x52, 0x54, 0, 0, 0, 0x77]));
    for (wanted, asked) in [
        ([10, 0, 0, 9], [10, 0, 0, 9]),
        ([192, 168, 1, 2], [10, 0, 0, 254]),
    ] {
        want(&IpAddr::from(wanted).to_string());
        let question = arp(1, (OWN, [10, 0, 0, 1]), ([0; 6], asked));
        // Asked again and again: the answer may be slow.
        for _ in 0..2 {
            assert_eq!(bench.receive(), ethernet(BROADCAST, OWN, 0x0806, &question));
        }
        let answer = arp(2, (PEER, asked), (OWN, [10, 0, 0, 1]));
        bench.send(&ethernet(OWN, PEER, 0x0806, &answer));
        bench.settle();
        assert_eq!(bench.knows(&IpAddr::from(wanted).to_string()), Some(PEER));
    }
    for (wanted, asked, source) in [
        ("fd00::9", "fd00::9", "fd00::1"),
        ("fe80::9", "fe80::9", "fe80::aff:fe00:1"),
        ("2001:db8::1", "fd00::fe", "fd00::1"),
    ] {
        want(wanted);
        let question = bench.receive();
        let [.., a, b, c] = ip6(asked);
        assert_eq!(question[..6], [0x33, 0x33, 0xff, a, b, c]);
        assert_eq!(question[22..38], ip6(source));
        assert_eq!((question[54], &question[62..78]), (135, &ip6(asked)[..]));
        let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
        message.extend_from_slice(&ip6(asked));
        message.extend_from_slice(&[2, 1]);
        message.extend_from_slice(&PEER);
        let message = icmpv6(&ip6(asked), &ip6(source), &message);
        bench.send(&ethernet(
            OWN,
            PEER,
            0x86dd,
            &ipv6(58, 255, &ip6(asked), &ip6(source), &message),
        ));
        bench.settle();
        assert_eq!(bench.knows(wanted), Some(PEER));
    }
}

/// A name that nobody has is asked for four times in a second, and then no more.
#[test]
fn questions_end() {
    let mut bench = bench(|_| ());
    let start = Instant::now();
    bench.wire.neighbours().want(gid("::ffff:10.0.0.9"));
    for _ in 0..4 {
        bench.receive();
    }
    assert!(start.elapsed() >= Duration::from_millis(750));
    bench
        .peer
        .set_read_timeout(Some(Duration::from_millis(600)))
        .unwrap();
    assert!(bench.peer.read(&mut [0]).is_err());
    for nobody in ["::", "ff02::1", "::ffff:224.0.0.1", "::1"] {
        bench.wire.neighbours().want(gid(nobody));
    }
    assert!(bench.peer.read(&mut [0]).is_err());
}
