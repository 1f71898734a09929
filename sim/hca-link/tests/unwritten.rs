//! Packets that are not bytes yet: on the cable they are as those that are, and whoever looks sees the same bytes.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hca_link::*;

/// A packet that counts how often it was written.
struct Lazy {
    bytes: Vec<u8>,
    written: Arc<AtomicU32>,
}

impl Unwritten for Lazy {
    fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn write(&self) -> Vec<u8> {
        self.written.fetch_add(1, Ordering::Relaxed);
        self.bytes.clone()
    }
}

fn cable(faults: &str) -> Cable {
    Cable::new(CableConfig {
        faults: faults.parse().unwrap(),
        seed: 7,
        delivery: Delivery::LastBit,
        ..CableConfig::new("t", LinkKind::Ethernet)
    })
    .unwrap()
}

fn packet(number: usize) -> Vec<u8> {
    (0..60 + number * 37 % 1500)
        .map(|at| (at * 7 + number) as u8)
        .collect()
}

/// Packets as they arrive, with the cycle; and how many were written on the way.
fn carry(cable: &mut Cable, lazily: bool) -> (Vec<(u64, Vec<u8>)>, u32) {
    const COUNT: usize = 400;
    let written = Arc::new(AtomicU32::new(0));
    let (mut arrived, mut sent) = (Vec::new(), 0);
    for now in 0..200_000 {
        if sent < COUNT && cable.ready(Dir::AToB, now) {
            let bytes = packet(sent);
            sent += 1;
            if lazily {
                let written = written.clone();
                cable
                    .push_unwritten(Dir::AToB, now, Box::new(Lazy { bytes, written }))
                    .unwrap();
            } else {
                cable.push_packet(Dir::AToB, now, &bytes).unwrap();
            }
        }
        while let Some(content) = cable.poll_content(Dir::AToB, now) {
            arrived.push((
                now,
                match content {
                    Content::Bytes(bytes) => bytes,
                    Content::Unwritten(packet) => {
                        let packet: Box<dyn Any> = packet;
                        packet.downcast::<Lazy>().unwrap().bytes
                    }
                },
            ));
        }
    }
    assert_eq!(sent, COUNT);
    (arrived, written.load(Ordering::Relaxed))
}

#[test]
fn nobody_writes_what_nobody_looks_at() {
    let (mut lazy, mut plain) = (cable(""), cable(""));
    let (arrived, written) = carry(&mut lazy, true);
    assert_eq!((arrived.len(), written), (400, 0));
    assert_eq!(arrived, carry(&mut plain, false).0);
    assert_eq!(lazy.stats(), plain.stats());
}

/// Faults hit the same packets in the same way, and write those alone that they change or copy.
#[test]
fn faults_are_the_same() {
    for faults in [
        "loss=0.1",
        "dup=0.1",
        "reorder=0.2,delay_ns=500",
        "corrupt=0.1,pause=0.1",
        "dup=1",
    ] {
        let (mut lazy, mut plain) = (cable(faults), cable(faults));
        let (arrived, written) = carry(&mut lazy, true);
        assert_eq!(arrived, carry(&mut plain, false).0, "{faults}");
        assert_eq!(lazy.stats(), plain.stats(), "{faults}");
        let counts = lazy.stats().a_to_b.faults;
        assert_eq!(
            u64::from(written),
            counts.corrupted + counts.duplicated,
            "{faults}"
        );
    }
}

/// A capture, a listener or a watch sees bytes.
#[test]
fn who_looks_sees_bytes() {
    struct Count(Arc<AtomicU32>);
    impl Listener for Count {
        fn sent(&mut self, _: Dir, _: u64, bytes: &[u8]) {
            assert_eq!(bytes, packet(self.0.fetch_add(1, Ordering::Relaxed) as usize));
        }
        fn delivered(&mut self, _: Dir, _: u64, _: &[u8]) {}
    }
    let plain = carry(&mut cable(""), false).0;
    let heard = Arc::new(AtomicU32::new(0));
    let mut listened = cable("");
    listened.listen(Some(Box::new(Count(heard.clone()))));
    assert_eq!(carry(&mut listened, true), (plain.clone(), 400));
    assert_eq!(heard.load(Ordering::Relaxed), 400);
    let mut watched = cable("");
    watched.watch(Dir::AToB, true);
    assert_eq!(carry(&mut watched, true), (plain, 400));
    assert_eq!(watched.take_sightings(Dir::AToB).0.len(), 400);
}

/// A receiver that takes bytes gets them; the limit of a packet's length holds.
#[test]
fn bytes_for_who_wants_them() {
    let mut cable = cable("");
    let written = Arc::new(AtomicU32::new(0));
    let lazy = |bytes: Vec<u8>| {
        Box::new(Lazy {
            bytes,
            written: written.clone(),
        })
    };
    cable.push_unwritten(Dir::AToB, 0, lazy(packet(3))).unwrap();
    let at = cable.next_arrival_cycle(Dir::AToB).unwrap();
    assert_eq!(cable.poll(Dir::AToB, at).unwrap().bytes, packet(3));
    let error = cable.push_unwritten(Dir::AToB, at, lazy(vec![0; PACKET_BYTES_MAX + 1]));
    assert!(matches!(error, Err(LinkError::PacketTooLong { .. })));
    cable.plug(false);
    cable.push_unwritten(Dir::AToB, at, lazy(packet(3))).unwrap();
    assert_eq!(cable.next_arrival_cycle(Dir::AToB), None);
}

/// Packets of one length in one.
struct Several {
    packets: Vec<Vec<u8>>,
}

impl Unwritten for Several {
    fn len_bytes(&self) -> usize {
        self.packets[0].len()
    }

    fn count(&self) -> u32 {
        self.packets.len() as u32
    }

    fn parts(&self) -> Vec<Box<dyn Unwritten>> {
        let part = |packet: &Vec<u8>| -> Box<dyn Unwritten> {
            Box::new(Self {
                packets: vec![packet.clone()],
            })
        };
        self.packets.iter().map(part).collect()
    }

    fn write(&self) -> Vec<u8> {
        assert_eq!(self.count(), 1, "nobody writes several packets as one");
        self.packets[0].clone()
    }
}

fn several(count: usize) -> Box<Several> {
    let packets = (0..count).map(|number| vec![number as u8; 1082]).collect();
    Box::new(Several { packets })
}

/// Packets in the order in which they arrive, with the cycles.
fn arrivals(cable: &mut Cable, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut arrived = Vec::new();
    for now in from..from + 10_000 {
        while let Some(packet) = cable.poll(Dir::AToB, now) {
            arrived.push((now, packet.bytes));
        }
    }
    arrived
}

/// Several packets in one take as long as one after the other: what comes behind them, and all counts, are the same.
#[test]
fn several_take_as_long_as_each_for_itself() {
    let (mut one, mut each) = (cable(""), cable(""));
    for (cable, is_one) in [(&mut one, true), (&mut each, false)] {
        cable.push_packet(Dir::AToB, 3, &packet(1)).unwrap();
        assert!(cable.is_smooth(Dir::AToB));
        let first = cable.ready_cycle(Dir::AToB);
        let behind = cable.ready_cycle_behind(Dir::AToB, 13, 1082);
        if is_one {
            cable.push_several(Dir::AToB, first, several(13)).unwrap();
        } else {
            for part in several(13).parts() {
                let cycle = cable.ready_cycle(Dir::AToB);
                cable.push_unwritten(Dir::AToB, cycle, part).unwrap();
            }
        }
        assert_eq!(cable.ready_cycle(Dir::AToB), behind);
        cable.push_packet(Dir::AToB, behind, &packet(2)).unwrap();
    }
    let mut last = None;
    for now in 0..10_000 {
        while let Some(content) = one.poll_content(Dir::AToB, now) {
            if let Content::Unwritten(packets) = content {
                assert_eq!(packets.count(), 13);
                last = Some(now);
            }
        }
    }
    let all = arrivals(&mut each, 0);
    assert_eq!(all.len(), 15);
    assert_eq!(last, Some(all[13].0));
    assert_eq!(one.stats(), each.stats());
}

/// Who begins to look sees each packet that is under way, and when it comes; so does who looks already.
#[test]
fn who_looks_sees_each_of_several() {
    struct Deaf;
    impl Listener for Deaf {
        fn sent(&mut self, _: Dir, _: u64, _: &[u8]) {}
        fn delivered(&mut self, _: Dir, _: u64, _: &[u8]) {}
    }
    let all: Vec<Vec<u8>> = several(13).packets;
    let mut times = Vec::new();
    for looks_before in [true, false] {
        let mut cable = cable("");
        if looks_before {
            cable.listen(Some(Box::new(Deaf)));
            assert!(!cable.is_smooth(Dir::AToB));
        }
        cable.push_several(Dir::AToB, 0, several(13)).unwrap();
        if !looks_before {
            cable.listen(Some(Box::new(Deaf)));
        }
        let (cycles, packets): (Vec<u64>, Vec<Vec<u8>>) = arrivals(&mut cable, 0).into_iter().unzip();
        assert_eq!(packets, all);
        times.push(cycles);
    }
    assert_eq!(times[0], times[1]);
    // Faults may hit each of them.
    let mut bad = cable("loss=0.5");
    assert!(!bad.is_smooth(Dir::AToB));
    bad.push_several(Dir::AToB, 0, several(13)).unwrap();
    let counts = bad.stats().a_to_b;
    assert_eq!(counts.sent_packets, 13);
    assert!((1..13).contains(&counts.faults.lost));
    // What is cut off is lost, and counted.
    let mut cut = cable("");
    cut.push_several(Dir::AToB, 0, several(13)).unwrap();
    cut.plug(false);
    assert_eq!(cut.stats().a_to_b.faults.lost, 13);
}
