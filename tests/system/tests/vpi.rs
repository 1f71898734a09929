//! SYS-3: two cards with two ports each, InfiniBand and Ethernet in every combination, at the same time.

mod common;

use std::fs::File;
use std::path::Path;

use common::{LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap, post};
use hca_link::{FaultSpec, LinkKind, erf};
use hca_system_tests::{Dev, RigConfig, Rng, SecondCable, connect, path};
use hca_verbs::{
    ConnectOptions, LinkConfig, Mtu, PortState, RawQp, RecvWr, SendOp, WcOpcode, WcStatus, connect_raw,
    peer_info,
};
use hca_wire::{Framing, Link, WholePacket};
use pcap_file::pcap::PcapReader;

const IB: LinkKind = LinkKind::InfiniBand;
const ETH: LinkKind = LinkKind::Ethernet;
/// Connections per port.
const QPS: usize = 3;
/// Messages of each of them.
const MESSAGES: u64 = 12;
/// Room for a message, and where a connection's messages lie in a region: sources, then targets of each kind.
const SLOT_BYTES: u32 = 6000;
const BLOCK_BYTES: u64 = MESSAGES * SLOT_BYTES as u64;
const REGION_BYTES: u64 = 2 * QPS as u64 * 3 * BLOCK_BYTES;

fn config(seed: u64, links: [LinkKind; 2]) -> RigConfig {
    RigConfig {
        switches: 0,
        second: Some(SecondCable::new(links[1])),
        ..RigConfig::new(seed, links[0])
    }
}

/// Options of a connection through a port, from 1.
fn through(port_num: u8, link: LinkKind) -> ConnectOptions {
    ConnectOptions {
        port_num,
        gid_index: (link == ETH).then_some(1),
        ..path(Mtu::Bytes1024)
    }
}

/// Two nodes; the connection that [`Pair`] makes by itself goes through the first port.
fn pair(config: &RigConfig) -> Pair {
    let options = through(1, config.link);
    Pair::new(config, &options, REGION_BYTES, [LOCAL_AND_REMOTE; 2])
}

fn connection(pair: &Pair, options: &ConnectOptions) -> [RawQp<Dev>; 2] {
    let mut qps = [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp(cap(), false).unwrap());
    connect(&mut qps, options).unwrap();
    qps
}

/// Every port can be asked what it is, by its number, and there is no third one.
#[test]
fn each_port_says_what_it_is() {
    for links in [[IB, ETH], [ETH, IB], [ETH, ETH], [IB, IB]] {
        let pair = pair(&config(1, links));
        for (node, node_of) in pair.rig.nodes.iter().enumerate() {
            let context = &node_of.context;
            assert_eq!(context.query_device().unwrap().phys_port_cnt(), 2);
            let mut macs = Vec::new();
            for (port, link) in (1..).zip(links) {
                let attr = context.query_port(port).unwrap();
                assert_eq!(attr.link_layer(), if link == IB { 1 } else { 2 }, "{links:?}");
                assert_eq!(
                    attr.state(),
                    u8::from(PortState::Active),
                    "{links:?}, port {port}"
                );
                assert_eq!(attr.lid(), if link == IB { node as u16 + 1 } else { 0 });
                let ipv4 = [10, 0, port - 1, node as u8 + 1];
                assert_eq!(context.query_gid(port, 1).unwrap(), hca_verbs::gid_of_ipv4(ipv4));
                assert_eq!(context.query_pkey(port, 0).unwrap(), 0xffff);
                macs.push(attr.mac());
            }
            assert_ne!(macs[0], macs[1]);
            // A table entry of one port is no entry of the other.
            context.set_pkey(2, 5, 0x8123).unwrap();
            assert_eq!(context.query_pkey(1, 5).unwrap(), 0);
            assert_eq!(context.query_pkey(2, 5).unwrap(), 0x8123);
            for port in [0, 3] {
                assert!(context.query_port(port).is_err() && context.query_gid(port, 0).is_err());
                assert!(context.query_counters(port).is_err() && context.link_status(port).is_err());
            }
        }
    }
}

/// What a test's traffic is about: for each message where it comes from and where it goes.
struct Traffic {
    /// Port, from 0, and ends.
    qps: Vec<(usize, [RawQp<Dev>; 2])>,
    left: [Vec<(u64, WcOpcode)>; 2],
}

impl Traffic {
    /// WRITEs, READs and SENDs of random lengths in both directions, on all connections.
    fn start(pair: &mut Pair, links: [LinkKind; 2], rng: &mut Rng) -> Self {
        let mut traffic = Self {
            qps: Vec::new(),
            left: [Vec::new(), Vec::new()],
        };
        for (port, link) in links.into_iter().enumerate() {
            for _ in 0..QPS {
                let qps = connection(pair, &through(port as u8 + 1, link));
                traffic.qps.push((port, qps));
            }
        }
        for index in 0..traffic.qps.len() {
            for message in 0..MESSAGES {
                for from in [0, 1] {
                    traffic.message(pair, index, from, message, rng);
                }
            }
        }
        traffic
    }

    fn message(&mut self, pair: &mut Pair, index: usize, from: usize, message: u64, rng: &mut Rng) {
        let len = 1 + rng.below(SLOT_BYTES - 1);
        let base = index as u64 * 3 * BLOCK_BYTES + message * u64::from(SLOT_BYTES);
        let (source, target) = (base, base + (1 + from as u64) * BLOCK_BYTES);
        let to = 1 - from;
        let wr_id = (index as u64) << 32 | message << 8 | from as u64;
        let bytes = pair.expected(from, source, len);
        let qps = &mut self.qps[index].1;
        match rng.below(3) {
            0 => {
                pair.expect(to, target, &bytes);
                let (op, sges) = (pair.write_to(to, target), [pair.mrs[from].sge(source, len)]);
                post(&mut qps[from], wr_id, op, &sges);
                self.left[from].push((wr_id, WcOpcode::RdmaWrite));
            }
            1 => {
                pair.expect(to, target, &bytes);
                let (op, sges) = (pair.read_from(from, source), [pair.mrs[to].sge(target, len)]);
                post(&mut qps[to], wr_id, op, &sges);
                self.left[to].push((wr_id, WcOpcode::RdmaRead));
            }
            _ => {
                pair.expect(to, target, &bytes);
                let landing = [pair.mrs[to].sge(target, len)];
                let recv = RecvWr {
                    wr_id,
                    sges: &landing,
                };
                qps[to].post_recv(&[recv]).unwrap();
                self.left[to].push((wr_id, WcOpcode::Recv));
                post(
                    &mut qps[from],
                    wr_id,
                    SendOp::Send,
                    &[pair.mrs[from].sge(source, len)],
                );
                self.left[from].push((wr_id, WcOpcode::Send));
            }
        }
    }

    /// Every completion, and no other.
    fn finish(&mut self, pair: &mut Pair) {
        let end_ns = pair.rig.now_ns() + LIMIT_NS;
        while self.left.iter().any(|left| !left.is_empty()) {
            for node in 0..2 {
                let Some(wc) = pair.rig.nodes[node].poll().unwrap() else {
                    continue;
                };
                assert!(wc.is_ok(), "{wc:?}");
                let at = self.left[node]
                    .iter()
                    .position(|want| *want == (wc.wr_id, wc.opcode));
                self.left[node].swap_remove(at.unwrap_or_else(|| panic!("{wc:?} was not expected")));
            }
            assert!(pair.rig.now_ns() < end_ns, "{:?} are missing", self.left);
        }
    }

    /// QPNs of a port, at both nodes.
    fn qpns(&self, port: usize) -> Vec<u32> {
        let of_port = self.qps.iter().filter(|(of, _)| *of == port);
        of_port
            .flat_map(|(_, qps)| qps.iter().map(RawQp::qp_num))
            .collect()
    }
}

/// Destination QPs of all packets in a capture; each of them has the framing and the addresses of its port.
fn packets(capture: &Path, link: LinkKind, port: u8) -> Vec<u32> {
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_packet() {
        let record = record.unwrap();
        let packet = match link {
            LinkKind::Ethernet => WholePacket::parse(Framing::Ethernet, &record.data),
            LinkKind::InfiniBand => {
                if erf::unwrap_link(&record.data).is_some() {
                    continue;
                }
                let bytes = erf::unwrap(&record.data).unwrap();
                WholePacket::parse(Framing::InfiniBand, bytes)
            }
        };
        let packet = packet.unwrap_or_else(|error| panic!("port {port}: {error}"));
        match packet.link() {
            Link::Ethernet { eth, .. } => {
                assert_eq!((link, eth.src_mac[4], eth.dst_mac[4]), (ETH, port - 1, port - 1));
            }
            Link::InfiniBand { lrh, .. } => {
                assert_eq!(link, IB);
                assert_eq!(lrh.slid + lrh.dlid, 3, "from one card to the other");
            }
        }
        found.push(packet.bth().dest_qp);
    }
    found
}

/// SYS-3: one port InfiniBand and one Ethernet, traffic of all kinds on both at once, seeded faults on both cables.
/// Every byte arrives where it belongs, every packet is on its port's cable and looks like it.
#[test]
fn both_ports_at_once() {
    let faults: FaultSpec = "loss=0.02,corrupt=0.02,dup=0.01,reorder=0.01".parse().unwrap();
    for (seed, links) in (20..).zip([[IB, ETH], [ETH, IB], [ETH, ETH], [IB, IB]]) {
        let folder = tempfile::tempdir().unwrap();
        let captures = [
            folder.path().join("first.pcap"),
            folder.path().join("second.pcap"),
        ];
        let config = RigConfig {
            faults,
            capture: Some(captures[0].clone()),
            second: Some(SecondCable {
                faults,
                capture: Some(captures[1].clone()),
                ..SecondCable::new(links[1])
            }),
            ..config(seed, links)
        };
        let mut pair = pair(&config);
        let mut traffic = Traffic::start(&mut pair, links, &mut Rng::new(seed, "traffic"));
        traffic.finish(&mut pair);
        pair.check_memory(&format!("{links:?}"));
        pair.rig.check_idle(2_000_000).unwrap();
        pair.rig.close_captures().unwrap();
        for (port, capture) in captures.iter().enumerate() {
            let qpns = traffic.qpns(port);
            let found = packets(capture, links[port], port as u8 + 1);
            let strange = found.iter().find(|qpn| !qpns.contains(qpn));
            assert_eq!(strange, None, "{links:?}: on the cable of port {}", port + 1);
            assert!(
                found.len() as u64 > QPS as u64 * MESSAGES,
                "{links:?}: {} packets",
                found.len()
            );
        }
        // Both ports have counted what they have had, each its own.
        for port in [1, 2] {
            let nodes = pair.rig.nodes.iter();
            let counters: Vec<_> = nodes
                .map(|node| node.context.query_counters(port).unwrap())
                .collect();
            let again: u64 = counters.iter().map(|of| of.retransmitted_packets()).sum();
            assert!(again > 0, "{links:?}, port {port}: no fault");
            for of in counters {
                assert!(of.tx_packets() > QPS as u64 * MESSAGES, "{links:?}, port {port}");
            }
        }
    }
}

/// A packet for a QP counts only if it comes in through the QP's port: a peer that sends by the other cable gets no
/// answer, and the QP neither sees nor does anything.
#[test]
fn packets_through_the_wrong_port() {
    for links in [[IB, ETH], [ETH, ETH], [IB, IB]] {
        let mut pair = pair(&config(5, links));
        let options = ConnectOptions {
            timeout: 1,
            retry_cnt: 1,
            ..through(2, links[1])
        };
        // The addresses of the second port, the number of the QP at the first.
        let mut stranger = pair.rig.nodes[0].create_qp(cap(), false).unwrap();
        let mut decoy = pair.rig.nodes[1].create_qp(cap(), false).unwrap();
        let peer = hca_verbs::PeerInfo {
            qp_num: pair.qps[1].qp_num(),
            ..peer_info(&decoy, &options, options.psns.1).unwrap()
        };
        connect_raw(&mut stranger, &options, options.psns.0, &peer).unwrap();
        let back = peer_info(&stranger, &options, options.psns.0).unwrap();
        connect_raw(&mut decoy, &options, options.psns.1, &back).unwrap();
        let before = pair.rig.nodes[1].context.query_counters(2).unwrap().rx_packets();

        let (op, sges) = (pair.write_to(1, 0), [pair.mrs[0].sge(64, 100)]);
        post(&mut stranger, 7, op, &sges);
        let wc = pair.wait(0);
        assert_eq!((wc.wr_id, wc.status), (7, WcStatus::RetryExcErr), "{links:?}");
        let after = pair.rig.nodes[1].context.query_counters(2).unwrap();
        assert!(after.rx_packets() > before, "{links:?}: the packets arrived");
        assert_eq!(after.naks_sent(), 0, "{links:?}: nobody has answered");
        pair.check_memory("after packets from the wrong port");
        pair.check_traffic("the QP of the first port");
    }
}

/// A QP's path leads through its own port.
#[test]
fn paths_of_another_port_are_refused() {
    let pair = pair(&config(6, [IB, ETH]));
    let options = through(2, ETH);
    let [mut qp, other] = [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp(cap(), false).unwrap());
    let peer = peer_info(&other, &options, 0).unwrap();
    // INIT at port 1, where a path needs a LID; then a path of port 2.
    let first = through(1, IB);
    let dead_end = hca_verbs::PeerInfo {
        lid: 0,
        gid: None,
        ..peer
    };
    assert!(connect_raw(&mut qp, &first, 0, &dead_end).is_err(), "no LID");
    assert!(
        connect_raw(&mut qp, &options, 0, &peer).is_err(),
        "a path of the other port"
    );
}

const WRITE_BYTES: u32 = 65_536;

/// Keeps a port busy with WRITEs of 64 KiB, `count` of them, and says how long that took.
fn write_time_ns(pair: &mut Pair, qp: &mut RawQp<Dev>, count: u64) -> u64 {
    let begin_ns = pair.rig.now_ns();
    let (mut posted, mut done) = (0, 0);
    while done < count {
        while posted < count && posted - done < 8 {
            let (op, sges) = (pair.write_to(1, 0), [pair.mrs[0].sge(0, WRITE_BYTES)]);
            post(qp, 1000 + posted, op, &sges);
            posted += 1;
        }
        let wc = pair.wait(0);
        if wc.wr_id >= 1000 {
            assert!(wc.is_ok(), "{wc:?}");
            done += 1;
        }
    }
    pair.rig.now_ns() - begin_ns
}

/// Far more than the rings of the first port hold, in both directions.
fn overfill(pair: &Pair, qps: &mut [[RawQp<Dev>; 2]]) {
    for qps in qps {
        for id in 0..8 {
            let write = pair.write_to(1, 0);
            post(&mut qps[0], id, write, &[pair.mrs[0].sge(0, WRITE_BYTES)]);
            let read = pair.read_from(1, 0);
            post(&mut qps[0], id, read, &[pair.mrs[0].sge(0, WRITE_BYTES)]);
        }
    }
}

/// A port that goes nowhere, because its cable is a thousand times slower or its link is down, takes nothing from the
/// other one.
#[test]
fn a_stuck_port_leaves_the_other_alone() {
    const COUNT: u64 = 12;
    for (links, is_down) in [
        ([IB, ETH], false),
        ([ETH, IB], false),
        ([IB, ETH], true),
        ([ETH, IB], true),
    ] {
        let mut config = config(7, links);
        if !is_down {
            config.rate_bits_per_s = 100_000_000;
        }
        let mut pair = pair(&config);
        let mut fast = connection(&pair, &through(2, links[1]));
        let alone_ns = write_time_ns(&mut pair, &mut fast[0], COUNT);
        // A port that is down throws away what its QPs send, which they do once per time-out: 67 ms.
        let options = ConnectOptions {
            timeout: 14,
            ..through(1, links[0])
        };
        let mut stuck: Vec<_> = (0..4).map(|_| connection(&pair, &options)).collect();
        if is_down {
            let down = LinkConfig::new().state(PortState::Down);
            pair.rig.nodes[0].context.link_config(1, &down).unwrap();
        }
        overfill(&pair, &mut stuck);
        pair.rig.run(80_000);
        let beside_ns = write_time_ns(&mut pair, &mut fast[0], COUNT);
        println!(
            "VPI {links:?}, down {is_down}: {COUNT} writes take {alone_ns} ns alone, {beside_ns} ns beside"
        );
        assert!(
            beside_ns * 20 < alone_ns * 21,
            "{links:?}, down {is_down}: {alone_ns} ns alone, {beside_ns} ns beside"
        );
        let state = pair.rig.nodes[0].context.query_port(1).unwrap().state();
        assert_eq!(state == u8::from(PortState::Down), is_down);
    }
}
