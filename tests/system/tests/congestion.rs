//! Congestion control on Ethernet: marks are answered with CNPs, CNPs count where they come from the QP's peer, and
//! nothing of it happens where it is off.

mod common;

use std::fs::File;
use std::path::PathBuf;

use common::forge::{self, Forged};
use common::{LOCAL_AND_REMOTE, Pair};
use hca_link::{Dir, LinkKind};
use hca_system_tests::{RigConfig, path};
use hca_verbs::{CcAlgorithm, Congestion, ConnectOptions, Mtu, QpState};
use hca_wire::{ExtHeaders, Framing, Link, Network, Opcode, WholePacket, reth};
use pcap_file::pcap::PcapReader;

/// Bits of a traffic class.
const ECT0: u8 = 2;
const CE: u8 = 3;
/// Traffic class of the connections, without its congestion bits.
const CLASS: u8 = 26 << 2;
/// Where packets from outside write.
const TARGET: u64 = 4096;
const CNP_INTERVAL_NS: u64 = 20_000;

/// Two connected cards, and what passes between them.
struct Watched {
    pair: Pair,
    gid_index: u8,
    psn: u32,
    capture: PathBuf,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn new(gid_index: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("link.pcap");
        let config = RigConfig {
            capture: Some(capture.clone()),
            ..RigConfig::new(23, LinkKind::Ethernet)
        };
        let options = ConnectOptions {
            gid_index: Some(gid_index),
            traffic_class: CLASS,
            ..path(Mtu::Bytes1024)
        };
        let pair = Pair::new(&config, &options, 8192, [LOCAL_AND_REMOTE; 2]);
        Self {
            pair,
            gid_index,
            psn: 0,
            capture,
            _folder: folder,
        }
    }

    fn on(self) -> Self {
        let congestion = Congestion {
            cnp_interval_ns: CNP_INTERVAL_NS,
            ..Congestion::default()
        };
        for node in &self.pair.rig.nodes {
            node.context.set_congestion(1, Some(&congestion)).unwrap();
        }
        self
    }

    /// Headers as node `from`'s card makes them, with this traffic class.
    fn link(&self, from: usize, class: u8) -> Link {
        let link = forge::link(from, LinkKind::Ethernet);
        let link = if self.gid_index == 1 {
            link
        } else {
            let gid = |node: usize| {
                let context = &self.pair.rig.nodes[node].context;
                context.query_gid(1, self.gid_index.into()).unwrap()
            };
            forge::global(link, gid(from), gid(1 - from))
        };
        let Link::Ethernet {
            eth,
            vlan,
            mut ip,
            udp,
        } = link
        else {
            panic!("not Ethernet")
        };
        match &mut ip {
            Network::Ipv4(ip) => (ip.dscp, ip.ecn) = (class >> 2, class & 3),
            Network::Ipv6(ip) => ip.traffic_class = class,
        }
        Link::Ethernet { eth, vlan, ip, udp }
    }

    /// Node 1 gets a WRITE, as from node 0 and as a switch has marked it.
    fn write(&mut self, class: u8) {
        let (va, rkey) = self.pair.remote(1, TARGET);
        let payload = [self.psn as u8 | 0x40; 64];
        self.pair.expect(1, TARGET, &payload);
        let ext = ExtHeaders {
            reth: Some(reth::Repr {
                va,
                rkey,
                dma_len: 64,
            }),
            ..ExtHeaders::default()
        };
        let packet = Forged {
            link: self.link(0, class),
            opcode: Opcode::RcWriteOnly,
            dest_qp: self.pair.qps[1].qp_num(),
            psn: self.psn,
            pkey: 0xffff,
            ext,
            payload: &payload,
        };
        forge::send(&mut self.pair.rig, 0, &packet);
        self.psn += 1;
        self.pair.rig.run(2_000);
        self.pair.check_memory("a marked WRITE is a WRITE");
    }

    /// Node 0 gets a CNP from outside.
    fn cnp(&mut self, link: Link, dest_qp: u32, pkey: u16, payload: &[u8]) {
        let packet = Forged {
            link,
            opcode: Opcode::Cnp,
            dest_qp,
            psn: 0,
            pkey,
            ext: ExtHeaders::default(),
            payload,
        };
        forge::send(&mut self.pair.rig, 1, &packet);
        self.pair.rig.run(2_000);
    }

    fn set(&self, node: usize, congestion: &Congestion) {
        let context = &self.pair.rig.nodes[node].context;
        context.set_congestion(1, Some(congestion)).unwrap();
    }

    /// Bytes per cycle that node 0 puts on the wire, headers included, while it always has WRITEs to send.
    fn rate(&mut self, cycles: u64) -> f64 {
        let wire_bytes = |pair: &Pair| pair.rig.cable_stats().dir(Dir::AToB).wire_bytes;
        let (op, sges) = (self.pair.write_to(1, TARGET), [self.pair.mrs[0].sge(0, 4096)]);
        let bytes = self.pair.expected(0, 0, 4096);
        self.pair.expect(1, TARGET, &bytes);
        let mut under_way = 0;
        let mut drive = |pair: &mut Pair, cycles: u64| {
            let (start, before) = (pair.rig.now_cycles(), wire_bytes(pair));
            while pair.rig.now_cycles() < start + cycles {
                while under_way < 16 {
                    pair.post(0, 7, op, &sges);
                    under_way += 1;
                }
                if let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
                    assert!(wc.is_ok(), "{wc:?}");
                    under_way -= 1;
                }
            }
            (wire_bytes(pair) - before) as f64 / (pair.rig.now_cycles() - start) as f64
        };
        drive(&mut self.pair, 4_000); // what waits for the wire already
        let rate = drive(&mut self.pair, cycles);
        for _ in 0..under_way {
            self.pair.wait_ok(0, 7);
        }
        self.pair.check_memory("rates");
        rate
    }

    /// Of a node: marks seen, CNPs sent, CNPs received.
    fn counts(&self, node: usize) -> [u64; 3] {
        let counters = self.pair.rig.nodes[node].context.query_counters(1).unwrap();
        [
            counters.np_ecn_marked_roce_packets(),
            counters.np_cnp_sent(),
            counters.rp_cnp_handled(),
        ]
    }

    /// Everything that was on the wire: opcode, traffic class, and the packet from its transport header on.
    fn packets(&mut self) -> Vec<(Opcode, u8, u32, Vec<u8>)> {
        self.pair.rig.close_captures().unwrap();
        let mut reader = PcapReader::new(File::open(&self.capture).unwrap()).unwrap();
        let mut seen = Vec::new();
        while let Some(frame) = reader.next_packet() {
            let frame = frame.unwrap();
            let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
            assert!(packet.crcs().icrc_ok());
            let Link::Ethernet { ip, .. } = packet.link() else {
                panic!("not Ethernet")
            };
            let class = match ip {
                Network::Ipv4(ip) => ip.dscp << 2 | ip.ecn,
                Network::Ipv6(ip) => ip.traffic_class,
            };
            let bth = packet.bth();
            // FECN and BECN are all of a CNP's header that other packets do not have.
            let flags = u32::from(bth.fecn) << 1 | u32::from(bth.becn);
            seen.push((
                packet.opcode(),
                class,
                bth.dest_qp << 2 | flags,
                packet.payload().to_vec(),
            ));
        }
        seen
    }
}

/// A CNP for a mark, to the QP's peer; no second one before its time; and it says what annex A17 has it say.
#[test]
fn a_mark_is_answered_with_one_cnp_per_interval() {
    for gid_index in [0, 1] {
        let mut watched = Watched::new(gid_index).on();
        watched.write(CLASS | ECT0);
        assert_eq!(watched.counts(1), [0, 0, 0], "nothing is marked");
        for _ in 0..3 {
            watched.write(CLASS | CE);
        }
        assert_eq!((watched.counts(1), watched.counts(0)), ([3, 1, 0], [0, 0, 1]));
        watched.pair.rig.run(2 * CNP_INTERVAL_NS / 4);
        watched.write(CLASS | CE);
        assert_eq!((watched.counts(1), watched.counts(0)), ([4, 2, 0], [0, 0, 2]));

        let dest_qp = watched.pair.qps[0].qp_num();
        let packets = watched.packets();
        let cnps: Vec<_> = packets
            .iter()
            .filter(|(opcode, ..)| *opcode == Opcode::Cnp)
            .collect();
        assert_eq!(cnps.len(), 2);
        for (_, class, dest_and_flags, payload) in cnps {
            assert_eq!((*class, *dest_and_flags), (48 << 2, dest_qp << 2 | 1));
            assert_eq!(payload, &[0; 16]);
        }
        assert_eq!(watched.pair.qps[0].query().unwrap().qp_state, QpState::Rts);
    }
}

/// Data of connections says that it understands marks; acknowledges and CNPs do not, for nothing would follow from one.
#[test]
fn data_of_connections_is_ect() {
    let mut watched = Watched::new(1).on();
    watched.pair.check_traffic("on");
    let bytes = watched.pair.expected(1, 0, 3000);
    watched.pair.expect(0, 4096, &bytes);
    let landing = [watched.pair.mrs[0].sge(4096, 3000)];
    let read = watched.pair.read_from(1, 0);
    watched.pair.post(0, 9, read, &landing);
    watched.pair.wait_ok(0, 9);
    let packets = watched.packets();
    let is_ack = |opcode: Opcode| opcode == Opcode::RcAcknowledge;
    assert!(packets.iter().any(|(opcode, ..)| is_ack(*opcode)));
    assert!(
        packets
            .iter()
            .any(|(opcode, ..)| *opcode == Opcode::RcReadResponseMiddle)
    );
    for (opcode, class, ..) in packets {
        let bits = if is_ack(opcode) { 0 } else { ECT0 };
        assert_eq!(class, CLASS | bits, "{opcode:?}");
    }
}

/// Marks are counted, and that is all.
#[test]
fn off_is_as_if_it_were_not_there() {
    let mut watched = Watched::new(1);
    watched.write(CLASS | CE);
    assert_eq!((watched.counts(1), watched.counts(0)), ([1, 0, 0], [0, 0, 0]));
    assert_eq!(watched.pair.rig.nodes[1].context.congestion(1).unwrap(), None);
    let on = watched.on();
    assert!(on.pair.rig.nodes[1].context.congestion(1).unwrap().is_some());
    on.pair.rig.nodes[1].context.set_congestion(1, None).unwrap();
    let mut off = on;
    off.write(CLASS | CE);
    assert_eq!(off.counts(1), [2, 0, 0]);
    assert!(off.packets().iter().all(|(_, class, ..)| class & 3 != ECT0));
}

/// A CNP that is not from the QP's peer, of its partition and well formed, is no CNP (QPS-17, KEY-14).
#[test]
fn a_strangers_cnp_counts_for_nothing() {
    let mut watched = Watched::new(1).on();
    let (qpn, truth) = (watched.pair.qps[0].qp_num(), watched.link(1, 48 << 2));
    let Link::Ethernet { eth, vlan, ip, udp } = truth else {
        panic!("not Ethernet")
    };
    let Network::Ipv4(mut ip) = ip else {
        panic!("not IPv4")
    };
    ip.src_addr[3] ^= 1;
    let lie = Link::Ethernet {
        eth,
        vlan,
        ip: Network::Ipv4(ip),
        udp,
    };
    watched.cnp(lie, qpn, 0xffff, &[0; 16]);
    watched.cnp(truth, qpn, 0x8123, &[0; 16]);
    watched.cnp(truth, qpn ^ 1 << 20, 0xffff, &[0; 16]);
    watched.cnp(truth, qpn, 0xffff, &[0; 12]);
    watched.cnp(truth, qpn, 0xffff, &[0; 20]);
    assert_eq!(watched.counts(0), [0, 0, 0]);
    watched.cnp(truth, qpn, 0xffff, &[0; 16]);
    assert_eq!(watched.counts(0), [0, 0, 1]);
    watched.pair.check_traffic("afterwards");
}

/// Parameters with which nothing happens by itself within a test.
fn still() -> Congestion {
    Congestion {
        alpha_period_ns: 4_000_000,
        rate_period_ns: 4_000_000,
        rate_bytes: (1 << 24) - 1,
        min_rate_mbps: 1000,
        ..Congestion::default()
    }
}

#[track_caller]
fn near(found: f64, wanted: f64, what: &str) {
    assert!(
        (found / wanted - 1.0).abs() < 0.04,
        "{what}: {found:.3} bytes per cycle instead of {wanted}"
    );
}

/// DCQCN: a QP at the full rate of 64 bytes per cycle is cut to the half by each CNP, exactly, but not below the least
/// rate; a new row forgets it all.
#[test]
fn cnps_cut_the_rate_of_their_qp() {
    let mut watched = Watched::new(1);
    watched.set(0, &still());
    let full = watched.rate(20_000);
    assert!(full > 45.0, "{full} bytes per cycle");
    let truth = watched.link(1, 48 << 2);
    let qpn = watched.pair.qps[0].qp_num();
    for (cnps, wanted) in [(2, 16.0), (1, 8.0), (2, 2.0)] {
        for _ in 0..cnps {
            watched.cnp(truth, qpn, 0xffff, &[0; 16]);
        }
        near(watched.rate(40_000), wanted, "after CNPs");
    }
    for _ in 0..4 {
        watched.cnp(truth, qpn, 0xffff, &[0; 16]);
    }
    near(watched.rate(120_000), 0.5, "the least rate, 1 Gb/s");
    watched.set(0, &still());
    let again = watched.rate(20_000);
    assert!(again > 0.97 * full, "{again} bytes per cycle, {full} at first");
}

/// DCQCN: without further CNPs the rate comes back, first to where it was cut, then beyond.
#[test]
fn time_without_cnps_brings_the_rate_back() {
    let mut watched = Watched::new(1);
    let quick = Congestion {
        rate_period_ns: 10_000,
        additive_mbps: 5_000,
        ..still()
    };
    watched.set(0, &quick);
    let full = watched.rate(20_000);
    let truth = watched.link(1, 48 << 2);
    let qpn = watched.pair.qps[0].qp_num();
    for _ in 0..3 {
        watched.cnp(truth, qpn, 0xffff, &[0; 16]);
    }
    let cut = watched.rate(4_000);
    assert!(cut < 20.0, "{cut} bytes per cycle");
    let recovered = watched.rate(8_000);
    assert!((12.0..30.0).contains(&recovered), "{recovered} bytes per cycle");
    watched.rate(100_000);
    let again = watched.rate(20_000);
    assert!(again > 0.97 * full, "{again} bytes per cycle, {full} at first");
}

/// The other algorithm: round trips that are too long cut the rate, short ones bring it back; CNPs mean nothing.
#[test]
fn round_trips_set_the_rate() {
    let mut watched = Watched::new(1);
    let delay = |target_ns| Congestion {
        algorithm: CcAlgorithm::Delay,
        delay_target_ns: target_ns,
        delay_scale: 0,
        rate_period_ns: 2_000,
        additive_mbps: 5_000,
        ..still()
    };
    watched.set(0, &delay(4_000_000));
    let full = watched.rate(20_000);
    let truth = watched.link(1, 48 << 2);
    watched.cnp(truth, watched.pair.qps[0].qp_num(), 0xffff, &[0; 16]);
    let same = watched.rate(20_000);
    assert!(same > 0.97 * full, "{same} bytes per cycle, {full} at first");
    watched.set(0, &delay(0));
    watched.rate(100_000);
    near(watched.rate(120_000), 0.5, "the least rate, 1 Gb/s");
}
