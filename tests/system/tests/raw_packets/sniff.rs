//! Sniffers (V-155): a copy of everything that comes to the port, packets of the transport too.

use crate::common::forge::{self, Forged};
use crate::common::{LOCAL_AND_REMOTE, Pair, cap};
use crate::net::{TCP, VLAN, mac, to_rts};
use hca_host::PcieParams;
use hca_link::{Dir, LinkKind};
use hca_system_tests::{Arena, Dev, Node, Place, RigConfig, Rng, connect, path};
use hca_verbs::{
    ConnectOptions, Cq, CqOptions, Flow, FlowAttr, FlowKind, Mr, Mtu, QpCap, QpOptions, RawQp, RecvWr,
    SendFlags, SendOp, Service, WcOpcode, WcStatus, WrData,
};
use hca_wire::{ExtHeaders, Framing, Link, Opcode, WholePacket, aeth, deth, vlan};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, Endianness};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SLOT: u64 = 8192;
const SLOTS: u64 = 64;
const REGION_BYTES: u64 = 64 << 10;
const TAG: vlan::Repr = vlan::Repr {
    pcp: 5,
    dei: false,
    vid: 0x123,
    ethertype: 0,
};

/// A raw QP with a sniffer's rule and a CQ of its own.
struct Sniffer {
    _flow: Flow<Dev>,
    qp: RawQp<Dev>,
    cq: Cq<Dev>,
    mr: Mr<Dev>,
    memory: Arena,
    frames: Vec<Vec<u8>>,
}

impl Sniffer {
    fn new(node: &Node) -> Self {
        let cq = node.context.create_cq(&CqOptions::new(256)).unwrap();
        let cap = QpCap {
            max_recv_wr: SLOTS as u32,
            ..cap()
        };
        let mut qp = node
            .pd
            .create_raw_qp(&QpOptions {
                cap,
                service: Service::Raw,
                ..QpOptions::new(&cq, &cq)
            })
            .unwrap();
        to_rts(&mut qp);
        let buf = node.alloc((SLOT * SLOTS) as usize).unwrap();
        let memory = Arena::new(buf, &mut Rng::new(3, "sniffer"));
        let place = Place::whole(memory.buf(), LOCAL_AND_REMOTE, 0);
        let mr = node.register(memory.buf(), place).unwrap();
        let attr = FlowAttr {
            kind: FlowKind::Sniffer,
            port_num: 1,
            ..FlowAttr::default()
        };
        let flow = qp.create_flow(&attr).unwrap();
        let mut sniffer = Self {
            _flow: flow,
            qp,
            cq,
            mr,
            memory,
            frames: Vec::new(),
        };
        (0..SLOTS).for_each(|slot| sniffer.post(slot));
        sniffer
    }

    fn post(&mut self, slot: u64) {
        let sge = self.mr.sge(slot * SLOT, SLOT as u32);
        let wr = RecvWr {
            wr_id: slot,
            sges: &[sge],
        };
        self.qp.post_recv(&[wr]).unwrap();
    }

    /// Takes what is there; `again`: and posts the receives again.
    fn drain(&mut self, again: bool) {
        let mut wc = [Default::default()];
        while self.cq.poll_ready(&mut wc).unwrap() == 1 {
            assert_eq!((wc[0].status, wc[0].opcode), (WcStatus::Success, WcOpcode::Recv));
            let mut frame = vec![0; wc[0].byte_len as usize];
            self.memory
                .buf()
                .read_bytes((wc[0].wr_id * SLOT) as usize, &mut frame);
            self.frames.push(frame);
            if again {
                self.post(wc[0].wr_id);
            }
        }
    }
}

fn config(seed: u64, capture: &Path) -> RigConfig {
    RigConfig {
        capture: Some(capture.to_owned()),
        ..RigConfig::new(seed, LinkKind::Ethernet)
    }
}

/// What the wire carried to node 1.
fn wire(capture: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_packet() {
        frames.push(frame.unwrap().data.into_owned());
    }
    frames.retain(|frame| frame[6..12] != mac(1));
    frames
}

fn opcode(frame: &[u8]) -> Option<Opcode> {
    WholePacket::parse(Framing::Ethernet, frame)
        .ok()
        .map(|packet| packet.opcode())
}

/// To UDP port 4791, whatever else is wrong with it.
fn is_roce(frame: &[u8]) -> bool {
    let at = if frame[12..14] == VLAN { 16 } else { 12 };
    let port = match frame[at..at + 2] {
        [0x08, 0x00] => at + 24,
        [0x86, 0xdd] => at + 44,
        _ => return false,
    };
    frame.get(port..port + 2) == Some(&[0x12, 0xb7])
}

/// As the other node would have sent it.
fn forged(link: Link, opcode: Opcode, dest_qp: u32, payload: &[u8]) -> Forged<'_> {
    let ext = ExtHeaders {
        aeth: (opcode == Opcode::RcAcknowledge).then(aeth::Repr::default),
        deth: (opcode == Opcode::UdSendOnly).then(deth::Repr::default),
        ..ExtHeaders::default()
    };
    Forged {
        link,
        opcode,
        dest_qp,
        psn: 7,
        pkey: 0xffff,
        ext,
        payload,
    }
}

fn tagged(link: Link) -> Link {
    match link {
        Link::Ethernet { eth, ip, udp, .. } => Link::Ethernet {
            eth,
            vlan: Some(TAG),
            ip,
            udp,
        },
        other @ Link::InfiniBand { .. } => other,
    }
}

/// Writes, reads and sends of many sizes both ways; what the sniffer has is taken meanwhile.
fn traffic(pair: &mut Pair, sniffer: &mut Sniffer) {
    for len in [1, 4, 63, 64, 200, 1024, 4096, 9001] {
        for node in 0..2 {
            let other = 1 - node;
            let sges = [pair.mrs[node].sge(0, len)];
            let bytes = pair.expected(node, 0, len);
            pair.expect(other, 16 << 10, &bytes);
            pair.expect(other, 32 << 10, &bytes);
            let read = pair.expected(other, 48 << 10, len);
            pair.expect(node, 48 << 10, &read);
            let target = [pair.mrs[other].sge(32 << 10, len)];
            pair.recv(other, 3, &target);
            let (write, read) = (pair.write_to(other, 16 << 10), pair.read_from(other, 48 << 10));
            pair.post(node, 1, write, &sges);
            pair.post(node, 2, SendOp::Send, &sges);
            let into = [pair.mrs[node].sge(48 << 10, len)];
            pair.post(node, 4, read, &into);
            for wr_id in [1, 2, 4] {
                pair.wait_ok(node, wr_id);
                sniffer.drain(true);
            }
            pair.wait_ok(other, 3);
            sniffer.drain(true);
        }
    }
    pair.check_memory("beside a sniffer");
}

/// Packets that no QP takes, or that are bad: unknown QPs, tags, CNPs, datagrams, a wrong ICRC.
fn strays(pair: &mut Pair, sniffer: &mut Sniffer, ipv6: bool) {
    let mut link = forge::link(0, LinkKind::Ethernet);
    if ipv6 {
        let gids = [0, 1].map(|node: usize| pair.rig.nodes[node].context.query_gid(1, 0).unwrap());
        link = forge::global(link, gids[0], gids[1]);
    }
    let own = pair.qps[1].qp_num();
    for (link, opcode, dest_qp, len) in [
        (link, Opcode::RcSendOnly, 0x12_3456, 100),
        (tagged(link), Opcode::RcSendOnly, 0x12_3456, 4096),
        (tagged(link), Opcode::RcAcknowledge, own, 0),
        (tagged(link), Opcode::UdSendOnly, 0x77, 33),
        (link, Opcode::UdSendOnly, 0xff_ffff, 64),
        (link, Opcode::Cnp, own, 16),
        (link, Opcode::UcSendOnly, own, 1024),
    ] {
        let payload = vec![if opcode == Opcode::Cnp { 0 } else { 0x5a }; len];
        forge::send(&mut pair.rig, 0, &forged(link, opcode, dest_qp, &payload));
    }
    // A wrong bit in the payload; behind it the same packet cut, which is shorter than it says.
    let bad = {
        let capture = sniffer.frames.iter().rev();
        let mut frame = capture
            .into_iter()
            .find(|frame| frame.len() > 300)
            .unwrap()
            .clone();
        frame[200] ^= 4;
        frame
    };
    for frame in [&bad[..], &bad[..150]] {
        push(pair, frame);
    }
    pair.rig.run(4_000);
    sniffer.drain(true);
}

/// Puts a frame on the wire to node 1.
fn push(pair: &mut Pair, frame: &[u8]) {
    loop {
        pair.rig.run(1);
        let mut fabric = pair.rig.sim.fabric();
        let now = fabric.now();
        let cable = fabric.cable_mut(pair.rig.cable);
        if cable.ready(Dir::AToB, now) {
            return cable.push_packet(Dir::AToB, now, frame).unwrap();
        }
    }
}

/// Wireshark's reading: number of each RoCEv2 packet, its opcode, and the ICRC, unless it takes that for
/// what a program has sent.
fn tshark(file: &Path) -> HashMap<usize, (u8, Option<u32>)> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file);
    command.args(["-Y", "infiniband.bth", "-T", "fields"]);
    for field in [
        "frame.number",
        "infiniband.bth.opcode",
        "infiniband.invariant.crc",
    ] {
        command.args(["-e", field]);
    }
    let done = command
        .output()
        .expect("tshark is not installed: run scripts/setup.sh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let row = |line: &str| {
        let fields: Vec<_> = line.split('\t').collect();
        let crc = u32::from_str_radix(fields[2].trim_start_matches("0x"), 16);
        (fields[0].parse().unwrap(), (fields[1].parse().unwrap(), crc.ok()))
    };
    text.lines().map(row).collect()
}

fn write_pcap(file: &Path, frames: &[Vec<u8>]) {
    let header = PcapHeader {
        datalink: DataLink::ETHERNET,
        endianness: Endianness::Little,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(file).unwrap(), header).unwrap();
    for frame in frames {
        let packet = PcapPacket::new(Duration::ZERO, frame.len() as u32, frame);
        writer.write_packet(&packet).unwrap();
    }
}

/// Every frame of the wire, byte for byte, in its order, but for those that the card says it has not copied: RC both
/// ways, with ACKs and READ responses, datagrams, CNPs, IPv4 and IPv6, tags, QPs that are not there, a wrong ICRC.
/// Wireshark reads them.
fn captured(ipv6: bool, pcie: PcieParams, may_lose: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (capture, copy) = (
        folder.path().join("link.pcap"),
        folder.path().join("sniffer.pcap"),
    );
    let options = ConnectOptions {
        gid_index: Some(if ipv6 { 0 } else { 1 }),
        ..path(Mtu::Bytes4096)
    };
    let config = RigConfig {
        other_pcie: Some(pcie),
        ..config(71, &capture)
    };
    let mut pair = Pair::new(&config, &options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
    let mut sniffer = Sniffer::new(&pair.rig.nodes[1]);
    traffic(&mut pair, &mut sniffer);
    strays(&mut pair, &mut sniffer, ipv6);
    traffic(&mut pair, &mut sniffer);
    pair.rig.run(4_000);
    sniffer.drain(false);
    pair.rig.close_captures().unwrap();

    let counters = pair.rig.nodes[1].context.query_counters(1).unwrap();
    assert_eq!(counters.datagrams_without_receive(), 0);
    assert_eq!((counters.rx_crc_errors(), counters.rx_drops()), (1, 1));
    assert!(counters.stray_packets() >= 3, "{}", counters.stray_packets());
    let wire = wire(&capture);
    let roce = |frames: &[Vec<u8>]| frames.iter().filter(|frame| is_roce(frame)).count();
    assert!(sniffer.frames.len() > 100, "{} frames", sniffer.frames.len());
    // What it did not get has been counted. Frames of before its time are none of the transport's.
    let lost = roce(&wire) - roce(&sniffer.frames);
    assert_eq!(lost as u64, counters.sniffer_drops());
    assert!(lost <= may_lose, "{lost}");
    let mut sent = wire.iter();
    for (number, seen) in sniffer.frames.iter().enumerate() {
        assert!(
            sent.any(|sent| sent == seen),
            "frame {number} is not of the wire, or not in its order"
        );
    }
    let kind = if ipv6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    assert!(
        sniffer
            .frames
            .iter()
            .filter(|frame| frame[12..14] == kind)
            .count()
            > 90
    );
    assert!(sniffer.frames.iter().any(|frame| frame[12..14] == VLAN));

    write_pcap(&copy, &sniffer.frames);
    let rows = tshark(&copy);
    let (mut bad, mut shown) = (0, 0);
    for (number, frame) in (1..).zip(&sniffer.frames) {
        let Ok(packet) = WholePacket::parse(Framing::Ethernet, frame) else {
            continue;
        };
        bad += usize::from(!packet.crcs().icrc_ok());
        let (opcode, icrc) = rows[&number];
        assert_eq!(opcode, packet.opcode() as u8, "frame {number}");
        let last = frame.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        assert!(
            icrc.is_none() || icrc == last,
            "frame {number}: {icrc:?}, not {last:?}"
        );
        shown += usize::from(icrc.is_some());
    }
    assert!(bad == 1 || may_lose > 0, "{bad} wrong ICRCs");
    assert!(shown > 20, "{shown} ICRCs that Wireshark has found");
}

#[test]
fn a_sniffer_has_what_the_wire_has() {
    captured(false, PcieParams::default(), 0);
}

#[test]
fn a_sniffer_has_ipv6_packets_with_a_host_that_stalls() {
    let pcie = PcieParams {
        stall_ns: 700,
        stall_every_ns: 4_000,
        read_jitter_ns: 500,
        ..PcieParams::default()
    };
    captured(true, pcie, 10);
}

/// As any frame: what a port sends to itself comes back, and its sniffer has it.
#[test]
fn what_a_port_sends_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(72, &folder.path().join("link.pcap"));
    let pair = Pair::new(
        &config,
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    );
    let node = &pair.rig.nodes[1];
    let mut qps = [(); 2].map(|()| node.create_qp(cap(), false).unwrap());
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let mut sniffer = Sniffer::new(node);
    let (remote_addr, rkey) = pair.remote(1, 8192);
    let sge = pair.mrs[1].sge(0, 3000);
    let wr = hca_verbs::SendWr {
        wr_id: 5,
        op: SendOp::RdmaWrite { remote_addr, rkey },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[sge]),
    };
    qps[0].post_send(&[wr]).unwrap();
    pair.wait_ok(1, 5);
    sniffer.drain(false);
    let seen: Vec<_> = sniffer.frames.iter().filter_map(|frame| opcode(frame)).collect();
    let wanted = [
        Opcode::RcWriteFirst,
        Opcode::RcWriteMiddle,
        Opcode::RcWriteLast,
        Opcode::RcAcknowledge,
    ];
    assert_eq!(seen, wanted);
    assert!(
        sniffer
            .frames
            .iter()
            .all(|frame| frame[..6] == mac(1) && frame[6..12] == mac(1))
    );
}

/// D15: sniffers that are slow, or whose host is, lose copies, which are counted; the connection beside them loses
/// nothing, and sends nothing twice.
#[test]
fn slow_sniffers_hold_nobody_up() {
    const WRITES: u64 = 60;
    const LEN: u32 = 16 << 10;
    let run = |sniffers: usize| {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("link.pcap");
        let config = RigConfig {
            // As fast as the wire with headers and all, and no more.
            other_pcie: Some(PcieParams {
                bandwidth_mbps: 14_500,
                ..PcieParams::default()
            }),
            ..config(73, &capture)
        };
        let mut pair = Pair::new(
            &config,
            &path(Mtu::Bytes1024),
            REGION_BYTES,
            [LOCAL_AND_REMOTE; 2],
        );
        let mut sniffers: Vec<_> = (0..sniffers).map(|_| Sniffer::new(&pair.rig.nodes[1])).collect();
        let before = pair.rig.nodes[1].context.query_counters(1).unwrap();
        let begin = pair.rig.now_ns();
        let bytes = pair.expected(0, 0, LEN);
        pair.expect(1, 32 << 10, &bytes);
        let sges = [pair.mrs[0].sge(0, LEN)];
        for wr_id in 0..WRITES {
            let op = pair.write_to(1, 32 << 10);
            pair.post(0, wr_id, op, &sges);
            if wr_id >= 24 {
                pair.wait_ok(0, wr_id - 24);
            }
        }
        for wr_id in WRITES - 24..WRITES {
            pair.wait_ok(0, wr_id);
        }
        let took = pair.rig.now_ns() - begin;
        pair.check_memory("beside slow sniffers");
        pair.rig.run(20_000);
        sniffers.iter_mut().for_each(|sniffer| sniffer.drain(false));
        pair.rig.close_captures().unwrap();
        let packets = wire(&capture);
        let counters = pair.rig.nodes[1].context.query_counters(1).unwrap();
        assert_eq!(counters.rx_buffer_drops(), 0);
        assert_eq!(counters.out_of_sequence() + counters.duplicate_requests(), 0);
        let lost = counters.sniffer_drops() - before.sniffer_drops();
        let dry = counters.datagrams_without_receive() - before.datagrams_without_receive();
        if let [sniffer] = &sniffers[..] {
            // Each frame is with the sniffer, or counted.
            let roce = packets.iter().filter(|frame| opcode(frame).is_some()).count() as u64;
            assert_eq!(sniffer.frames.len() as u64 + lost + dry, roce);
        }
        for frame in sniffers.iter().flat_map(|sniffer| &sniffer.frames) {
            assert!(packets.contains(frame), "a frame that the wire did not carry");
        }
        println!(
            "{} sniffers: {took} ns, {lost} packets not copied, {dry} copies without a receive",
            sniffers.len()
        );
        (took, lost, dry)
    };
    let (alone, none, _) = run(0);
    let (with_one, _, dry) = run(1);
    let (with_many, lost, _) = run(8);
    assert_eq!(none, 0);
    assert!(dry > 0 && lost > 0);
    for took in [with_one, with_many] {
        assert!(
            took < alone + alone / 4,
            "{took} ns with sniffers, {alone} ns without"
        );
    }
}

/// Rules beside sniffers have no packet of the transport, and frames go to both, as before.
#[test]
fn other_rules_have_no_packets() {
    let folder = tempfile::tempdir().unwrap();
    let mut net = crate::net::Net::on(&config(74, &folder.path().join("link.pcap")), 1);
    let rest = FlowAttr {
        kind: FlowKind::AllDefault,
        ..FlowAttr::default()
    };
    let _rest = net.rule(0, rest);
    let mut sniffer = Sniffer::new(&net.pair.rig.nodes[1]);
    net.recv(0);
    net.pair.check_traffic("beside rules");
    net.pair.silent(1, 3000);
    sniffer.drain(true);
    let packets = sniffer.frames.len();
    assert!(packets >= 2, "{packets} packets");
    let sent = crate::fields::four(TCP, |_| ());
    net.who(&sent, &[0]);
    sniffer.drain(false);
    assert_eq!(sniffer.frames[packets..], [sent]);
}
