//! Raw packet QPs on RTL: frames as a program made them (XPORT-7, WIRE-20), rules that say who gets which (V-155), and
//! checksums both ways (OP-17).

mod common;

use common::{LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, RigConfig, Rng, path};
use hca_verbs::{
    EthFilter, Flow, FlowAttr, FlowKind, FlowSpec, Ipv4Filter, Ipv6Filter, Mtu, PortFilter, QpAttr,
    QpAttrMask, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, WcOpcode, WcStatus,
    WrData, wc_flag,
};

const REGION_BYTES: u64 = 256 << 10;
/// Room of each receive.
const SLOT: u64 = 8192;
/// Shortest frame on a wire, without FCS.
const MIN_FRAME: usize = 60;
const VLAN: [u8; 2] = [0x81, 0x00];
const ALL_MACS: [u8; 6] = [0xff; 6];

fn mac(node: usize) -> [u8; 6] {
    hca_system_tests::identity(node as u8, LinkKind::Ethernet).mac
}

/// An Ethernet header and what is behind it.
fn frame(dst: [u8; 6], src: [u8; 6], tag: Option<u16>, ether_type: u16, body: &[u8]) -> Vec<u8> {
    let mut out = [dst, src].concat();
    if let Some(tag) = tag {
        out.extend(VLAN);
        out.extend(tag.to_be_bytes());
    }
    out.extend(ether_type.to_be_bytes());
    out.extend(body);
    out
}

/// RFC 1071, over big-endian words; an odd byte at the end is followed by 0.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// IPv4 with TCP or UDP, checksums right or left empty.
fn ipv4(proto: u8, ips: [[u8; 4]; 2], ports: [u16; 2], data: &[u8], with_sums: bool) -> Vec<u8> {
    let mut l4 = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
    let at = if proto == UDP {
        l4.extend((8 + data.len() as u16).to_be_bytes());
        l4.extend([0, 0]);
        6
    } else {
        l4.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
        16
    };
    l4.extend(data);
    let mut ip = vec![0x45, 0];
    ip.extend((20 + l4.len() as u16).to_be_bytes());
    ip.extend([0, 7, 0x40, 0, 61, proto, 0, 0]);
    ip.extend(ips.concat());
    if with_sums {
        let check = !sum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        let mut pseudo = ips.concat();
        pseudo.extend([0, proto]);
        pseudo.extend((l4.len() as u16).to_be_bytes());
        pseudo.extend(&l4);
        let check = match !sum(&pseudo) {
            0 if proto == UDP => 0xffff,
            check => check,
        };
        l4[at..at + 2].copy_from_slice(&check.to_be_bytes());
    }
    ip.extend(l4);
    ip
}

fn ipv6(next: u8, ips: [[u8; 16]; 2], ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x6a, 0xb1, 0x23, 0x45];
    out.extend((8 + data.len() as u16).to_be_bytes());
    out.extend([next, 63]);
    out.extend(ips.concat());
    out.extend([ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat());
    out.extend((8 + data.len() as u16).to_be_bytes());
    out.extend([0xab, 0xcd]);
    out.extend(data);
    out
}

fn raw_qp(node: &Node) -> RawQp<Dev> {
    let options = QpOptions {
        cap: cap(),
        service: Service::Raw,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let mut qp = node.pd.create_raw_qp(&options).unwrap();
    to_rts(&mut qp);
    qp
}

/// QPS-20: what a raw QP needs is its port.
fn to_rts(qp: &mut RawQp<Dev>) {
    let attr = |qp_state| QpAttr {
        qp_state,
        port_num: 1,
        ..QpAttr::default()
    };
    qp.modify(&attr(QpState::Init), QpAttrMask::STATE | QpAttrMask::PORT)
        .unwrap();
    for state in [QpState::Rtr, QpState::Rts] {
        qp.modify(&attr(state), QpAttrMask::STATE).unwrap();
    }
}

/// Two nodes with a connection, and a raw QP at node 0 that sends and several at node 1 that receive.
struct Net {
    pair: Pair,
    sender: RawQp<Dev>,
    takers: Vec<RawQp<Dev>>,
    next_id: u64,
}

impl Net {
    fn new(takers: usize) -> Self {
        Self::on(&RigConfig::new(61, LinkKind::Ethernet), takers)
    }

    fn on(config: &RigConfig, takers: usize) -> Self {
        let pair = Pair::new(config, &path(Mtu::Bytes4096), REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        let sender = raw_qp(&pair.rig.nodes[0]);
        let takers = (0..takers).map(|_| raw_qp(&pair.rig.nodes[1])).collect();
        Self {
            pair,
            sender,
            takers,
            next_id: 0,
        }
    }

    fn rule(&self, taker: usize, attr: FlowAttr<'_>) -> Flow<Dev> {
        self.takers[taker]
            .create_flow(&FlowAttr { port_num: 1, ..attr })
            .unwrap()
    }

    fn recv(&mut self, taker: usize) {
        let slot = self.next_id % 16;
        let sge = self.pair.mrs[1].sge(slot * SLOT, SLOT as u32);
        let wr_id = (taker as u64) << 32 | slot;
        self.next_id += 1;
        self.takers[taker]
            .post_recv(&[RecvWr { wr_id, sges: &[sge] }])
            .unwrap();
    }

    /// What node 0 sends next.
    fn put(&mut self, bytes: &[u8]) {
        let buf = self.pair.memory[0].buf();
        buf.write_bytes(common::CANARY_BYTES as usize, bytes);
        self.pair.expect(0, 0, bytes);
    }

    fn send(&mut self, bytes: &[u8], ip_csum: bool) {
        self.put(bytes);
        let (head, rest) = (
            bytes.len() as u32 / 3,
            bytes.len() as u32 - bytes.len() as u32 / 3,
        );
        let mr = &self.pair.mrs[0];
        let sges = [mr.sge(0, head), mr.sge(u64::from(head), rest)];
        let flags = SendFlags {
            ip_csum,
            ..SendFlags::SIGNALED
        };
        let wr = SendWr {
            wr_id: 77,
            op: SendOp::Send,
            flags,
            data: WrData::Sges(&sges),
        };
        self.sender.post_send(&[wr]).unwrap();
        let wc = self.pair.wait_ok(0, 77);
        assert_eq!(wc.opcode, WcOpcode::Send);
    }

    /// Sends a frame and says which takers got it, and whether its checksums were found right. It must be as sent,
    /// padded to the shortest of a wire.
    fn deliver(&mut self, sent: &[u8], wanted: &[u8], ip_csum: bool, takers: usize) -> (Vec<usize>, bool) {
        self.send(sent, ip_csum);
        let (mut got, mut csum_ok) = (Vec::new(), None);
        for _ in 0..takers {
            let wc = self.pair.wait(1);
            assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::Recv));
            let len = wanted.len().max(MIN_FRAME);
            assert_eq!(wc.byte_len as usize, len);
            let mut bytes = vec![0; len];
            let at = (wc.wr_id & 0xff) * SLOT;
            self.pair.memory[1]
                .buf()
                .read_bytes((common::CANARY_BYTES + at) as usize, &mut bytes);
            self.pair.expect(1, at, &bytes);
            assert_eq!(&bytes[..wanted.len()], wanted, "{} bytes", wanted.len());
            assert!(bytes[wanted.len()..].iter().all(|byte| *byte == 0));
            assert_eq!(wc.wc_flags & !wc_flag::IP_CSUM_OK, 0);
            let ok = wc.wc_flags & wc_flag::IP_CSUM_OK != 0;
            assert_eq!(*csum_ok.get_or_insert(ok), ok);
            got.push((wc.wr_id >> 32) as usize);
        }
        self.pair.silent(1, 1200);
        got.sort_unstable();
        (got, csum_ok.unwrap_or(false))
    }

    /// Each taker has a receive posted; who gets the frame?
    fn who(&mut self, sent: &[u8], expected: &[usize]) {
        let (got, _) = self.deliver(sent, sent, false, expected.len());
        assert_eq!(got, expected);
        for taker in got {
            self.recv(taker);
        }
    }
}

/// WIRE-20, XPORT-7: every length to the MTU of the port with a VLAN tag, from two entries, byte for byte.
#[test]
fn frames_arrive_as_they_were_made() {
    let mut net = Net::new(1);
    let to_us = EthFilter {
        dst_mac: mac(1),
        ..EthFilter::default()
    };
    let every = EthFilter {
        dst_mac: ALL_MACS,
        ..EthFilter::default()
    };
    let specs = [FlowSpec::Eth(to_us, every)];
    let _flow = net.rule(
        0,
        FlowAttr {
            specs: &specs,
            ..FlowAttr::default()
        },
    );
    let mut rng = Rng::new(5, "frames");
    let lengths = [
        14, 15, 59, 60, 61, 63, 64, 65, 126, 127, 128, 129, 191, 192, 193, 1499, 1514, 1518, 4109, 4110,
    ];
    for (i, len) in lengths.into_iter().chain([4111, 4112, 4113, 4114]).enumerate() {
        let mut body = vec![0; len];
        rng.fill(&mut body);
        let tag = (len >= 18 && i % 2 == 0).then_some(0x6abc);
        let mut sent = frame(mac(1), mac(0), tag, 0x88b5, &body);
        sent.truncate(len);
        net.recv(0);
        let (got, csum_ok) = net.deliver(&sent, &sent, false, 1);
        assert_eq!((got, csum_ok), (vec![0], false), "{len} bytes");
    }
    // To somebody else: nobody's.
    net.recv(0);
    net.send(&frame([2, 0, 0, 0, 0, 9], mac(0), None, 0x88b5, &[1; 60]), false);
    net.pair.silent(1, 4000);
    net.pair.check_traffic("beside frames");
}

/// A frame too short or too long ends the sends of its QP, and no other's; what else a raw QP cannot do is refused when
/// it is posted (V-179).
#[test]
fn lengths_and_operations_that_are_none() {
    let mut net = Net::new(1);
    for len in [0, 13, 4115, 8000] {
        let sge = net.pair.mrs[0].sge(0, len);
        let wr = SendWr {
            wr_id: 5,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(std::slice::from_ref(&sge)),
        };
        net.sender.post_send(&[wr]).unwrap();
        let wc = net.pair.wait(0);
        assert_eq!((wc.wr_id, wc.status), (5, WcStatus::LocLenErr), "{len} bytes");
        // QPS-12: its send queue alone has stopped.
        assert_eq!(net.sender.query().unwrap().qp_state, QpState::Sqe);
        let rts = QpAttr {
            qp_state: QpState::Rts,
            ..QpAttr::default()
        };
        net.sender.modify(&rts, QpAttrMask::STATE).unwrap();
    }
    let (remote_addr, rkey) = net.pair.remote(1, 0);
    for op in [
        SendOp::SendWithImm { imm_data: 1 },
        SendOp::RdmaWrite { remote_addr, rkey },
        SendOp::RdmaRead { remote_addr, rkey },
    ] {
        let wr = SendWr {
            wr_id: 5,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        assert_eq!(net.sender.post_send(&[wr]).unwrap_err().error.errno(), 22);
    }
    // OP-17: no other service has checksums of the program's.
    let sge = net.pair.mrs[0].sge(0, 64);
    let wr = SendWr {
        wr_id: 5,
        op: SendOp::Send,
        flags: SendFlags {
            ip_csum: true,
            ..SendFlags::SIGNALED
        },
        data: WrData::Sges(std::slice::from_ref(&sge)),
    };
    assert_eq!(net.pair.qps[0].post_send(&[wr]).unwrap_err().error.errno(), 22);
    net.pair.check_traffic("after refusals");
}

const A4: [u8; 4] = [10, 1, 2, 3];
const B4: [u8; 4] = [10, 1, 200, 4];
const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 2];

/// A frame's variants: the one that rules below describe, and what differs from it in one thing.
fn four(proto: u8, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut ip = ipv4(proto, [A4, B4], [1000, 2000], &[9; 40], true);
    change(&mut ip);
    frame(mac(1), mac(0), None, 0x0800, &ip)
}

fn six(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut ip = ipv6(UDP, [A6, B6], [1000, 2000], &[9; 40]);
    change(&mut ip);
    frame(mac(1), mac(0), None, 0x86dd, &ip)
}

/// A rule, frames that it takes, and frames that it leaves.
type Case = (&'static str, Vec<FlowSpec>, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn eth_cases() -> Vec<Case> {
    let (none, all) = (
        EthFilter::default(),
        EthFilter {
            dst_mac: ALL_MACS,
            src_mac: ALL_MACS,
            ether_type: 0xffff,
            vlan_tag: 0xffff,
        },
    );
    let bare = |dst, src, kind| frame(dst, src, None, kind, &[3; 80]);
    let tagged = |tag, kind| frame(mac(1), mac(0), Some(tag), kind, &[3; 80]);
    let kind = EthFilter {
        ether_type: 0x88b5,
        ..none
    };
    let tag = EthFilter {
        vlan_tag: 0x3005,
        ..none
    };
    let odd = [2, 0x48, 0x43, 7, 7, 7];
    vec![
        (
            "destination",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: mac(1),
                    ..none
                },
                EthFilter {
                    dst_mac: ALL_MACS,
                    ..none
                },
            )],
            vec![bare(mac(1), odd, 0x1234)],
            vec![bare([2, 0x48, 0x43, 0, 0, 3], odd, 0x1234)],
        ),
        (
            "vendor of the destination",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: [2, 0x48, 0x43, 9, 9, 9],
                    ..none
                },
                EthFilter {
                    dst_mac: [0xff, 0xff, 0xff, 0, 0, 0],
                    ..none
                },
            )],
            vec![bare(mac(1), mac(0), 0x88b5), bare(odd, mac(0), 0x88b5)],
            vec![bare([2, 0x48, 0x44, 0, 0, 2], mac(0), 0x88b5)],
        ),
        (
            "source",
            vec![FlowSpec::Eth(
                EthFilter { src_mac: odd, ..none },
                EthFilter {
                    src_mac: ALL_MACS,
                    ..none
                },
            )],
            vec![bare(mac(1), odd, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b5)],
        ),
        (
            "EtherType, behind a tag too",
            vec![FlowSpec::Eth(
                kind,
                EthFilter {
                    ether_type: 0xffff,
                    ..none
                },
            )],
            vec![bare(mac(1), mac(0), 0x88b5), tagged(7, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b6), bare(mac(1), mac(0), 0x8100)],
        ),
        (
            "VLAN",
            vec![FlowSpec::Eth(
                tag,
                EthFilter {
                    vlan_tag: 0x0fff,
                    ..none
                },
            )],
            vec![tagged(0x3005, 0x88b5), tagged(0x0005, 0x88b6)],
            vec![tagged(0x3006, 0x88b5), bare(mac(1), mac(0), 0x3005)],
        ),
        (
            "VLAN 0: a tag",
            vec![FlowSpec::Eth(
                none,
                EthFilter {
                    vlan_tag: 0x0fff,
                    ..none
                },
            )],
            vec![tagged(0xe000, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b5)],
        ),
        (
            "all of it",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: mac(1),
                    src_mac: mac(0),
                    ether_type: 0x88b5,
                    vlan_tag: 0x3005,
                },
                all,
            )],
            vec![tagged(0x3005, 0x88b5)],
            vec![tagged(0x2005, 0x88b5), tagged(0x3005, 0x88b4)],
        ),
    ]
}

fn ip_cases() -> Vec<Case> {
    let (n4, n6) = (Ipv4Filter::default(), Ipv6Filter::default());
    let spec4 = |value, mask| vec![FlowSpec::Ipv4(value, mask)];
    let spec6 = |value, mask| vec![FlowSpec::Ipv6(value, mask)];
    let plain = || four(UDP, |_| ());
    let other = |at: usize, byte: u8| four(UDP, move |ip| ip[at] = byte);
    let other6 = |at: usize, byte: u8| six(move |ip| ip[at] = byte);
    let m4 = [0xff; 4];
    let m6 = [0xff; 16];
    let mut net = [0; 16];
    net[..8].fill(0xff);
    vec![
        (
            "IPv4",
            spec4(n4, n4),
            vec![plain(), other(8, 3)],
            vec![six(|_| ()), other(0, 0x46)],
        ),
        (
            "IPv4 source",
            spec4(Ipv4Filter { src_ip: A4, ..n4 }, Ipv4Filter { src_ip: m4, ..n4 }),
            vec![plain(), other(19, 7)],
            vec![other(15, 7)],
        ),
        (
            "IPv4 network",
            spec4(
                Ipv4Filter { dst_ip: B4, ..n4 },
                Ipv4Filter {
                    dst_ip: [255, 255, 0, 0],
                    ..n4
                },
            ),
            vec![plain(), other(19, 7)],
            vec![other(17, 7)],
        ),
        (
            "IPv4 protocol",
            spec4(Ipv4Filter { proto: TCP, ..n4 }, Ipv4Filter { proto: 0xff, ..n4 }),
            vec![four(TCP, |_| ())],
            vec![plain(), other(9, 1)],
        ),
        (
            "IPv4 tos, ttl, flags",
            spec4(
                Ipv4Filter {
                    tos: 0x10,
                    ttl: 61,
                    flags: 2,
                    ..n4
                },
                Ipv4Filter {
                    tos: 0xff,
                    ttl: 0xff,
                    flags: 3,
                    ..n4
                },
            ),
            vec![other(1, 0x10)],
            vec![
                plain(),
                four(UDP, |ip| (ip[1], ip[8]) = (0x10, 9)),
                four(UDP, |ip| (ip[1], ip[6]) = (0x10, 0x60)),
            ],
        ),
        (
            "IPv6",
            spec6(n6, n6),
            vec![six(|_| ())],
            vec![plain(), other6(0, 0x55)],
        ),
        (
            "IPv6 source",
            spec6(Ipv6Filter { src_ip: A6, ..n6 }, Ipv6Filter { src_ip: m6, ..n6 }),
            vec![six(|_| ()), other6(39, 9)],
            vec![other6(23, 9), other6(8, 9)],
        ),
        (
            "IPv6 network",
            spec6(Ipv6Filter { dst_ip: A6, ..n6 }, Ipv6Filter { dst_ip: net, ..n6 }),
            vec![six(|_| ()), other6(39, 9)],
            vec![other6(24, 9), other6(31, 9)],
        ),
        (
            "IPv6 label, class, hops, next header",
            spec6(
                Ipv6Filter {
                    flow_label: 0x1_2345,
                    traffic_class: 0xab,
                    hop_limit: 63,
                    next_hdr: UDP,
                    ..n6
                },
                Ipv6Filter {
                    flow_label: 0xf_ffff,
                    traffic_class: 0xff,
                    hop_limit: 0xff,
                    next_hdr: 0xff,
                    ..n6
                },
            ),
            vec![six(|_| ())],
            vec![
                other6(3, 0x46),
                other6(1, 0xc1),
                other6(1, 0xb0),
                other6(7, 62),
                other6(6, TCP),
            ],
        ),
    ]
}

fn port_cases() -> Vec<Case> {
    let none = PortFilter::default();
    let both = PortFilter {
        src_port: 1000,
        dst_port: 2000,
    };
    let all = PortFilter {
        src_port: 0xffff,
        dst_port: 0xffff,
    };
    let high = PortFilter {
        src_port: 0xff00,
        ..none
    };
    let any4 = FlowSpec::Ipv4(Ipv4Filter::default(), Ipv4Filter::default());
    let port = |proto, at: usize, byte: u8| four(proto, move |ip| ip[20 + at] = byte);
    let later = |proto| four(proto, |ip| ip[7] = 1);
    let tagged = frame(
        mac(1),
        mac(0),
        Some(5),
        0x0800,
        &ipv4(UDP, [A4, B4], [1000, 2000], &[9; 40], true),
    );
    vec![
        (
            "TCP",
            vec![FlowSpec::Tcp(none, none)],
            vec![four(TCP, |_| ()), six(|ip| ip[6] = TCP)],
            vec![four(UDP, |_| ()), later(TCP), four(TCP, |ip| ip[9] = 1)],
        ),
        (
            "UDP ports, of both families",
            vec![FlowSpec::Udp(both, all)],
            vec![four(UDP, |_| ()), six(|_| ()), tagged],
            vec![
                four(TCP, |_| ()),
                port(UDP, 0, 9),
                port(UDP, 1, 9),
                port(UDP, 2, 9),
                later(UDP),
            ],
        ),
        (
            "UDP over IPv4",
            vec![any4, FlowSpec::Udp(both, high)],
            vec![four(UDP, |_| ()), port(UDP, 1, 9), port(UDP, 3, 9)],
            vec![six(|_| ()), port(UDP, 0, 9)],
        ),
    ]
}

/// V-155: every kind of spec, every field, whole and masked: what is described comes to the rule's QP, what differs in one
/// thing to the default one's.
#[test]
fn every_field_of_every_spec_counts() {
    let mut net = Net::new(2);
    let _rest = net.rule(
        1,
        FlowAttr {
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    (net.recv(0), net.recv(1));
    for (what, specs, takes, leaves) in eth_cases().into_iter().chain(ip_cases()).chain(port_cases()) {
        let mut flow = net.rule(
            0,
            FlowAttr {
                specs: &specs,
                ..FlowAttr::default()
            },
        );
        for (frames, to) in [(&takes, 0), (&leaves, 1)] {
            for (i, sent) in frames.iter().enumerate() {
                let (got, _) = net.deliver(sent, sent, false, 1);
                assert_eq!(got, [to], "{what}: frame {i}");
                net.recv(to);
            }
        }
        flow.destroy().unwrap();
        net.who(&takes[0], &[1]);
    }
}

fn to_mac(value: [u8; 6], mask: [u8; 6]) -> [FlowSpec; 1] {
    let of = |dst_mac| EthFilter {
        dst_mac,
        ..EthFilter::default()
    };
    [FlowSpec::Eth(of(value), of(mask))]
}

/// V-155: priorities, DONT_TRAP, the two defaults, sniffers, and rules that come and go.
#[test]
fn who_goes_before_whom() {
    let mut net = Net::new(6);
    (0..6).for_each(|taker| net.recv(taker));
    let specs = to_mac(mac(1), ALL_MACS);
    let group = [1, 0, 0x5e, 1, 2, 3];
    let (ours, others) = (
        four(UDP, |_| ()),
        frame([2, 0, 0, 0, 0, 9], mac(0), None, 0x88b5, &[0; 60]),
    );
    let to_group = frame(group, mac(0), None, 0x88b5, &[0; 60]);
    let kind = |kind| FlowAttr {
        kind,
        ..FlowAttr::default()
    };
    let normal = |priority, dont_trap| FlowAttr {
        specs: &specs,
        priority,
        dont_trap,
        ..FlowAttr::default()
    };
    let rest = net.rule(0, kind(FlowKind::AllDefault));
    net.who(&ours, &[0]);
    net.who(&to_group, &[0]);
    let groups = net.rule(1, kind(FlowKind::McDefault));
    net.who(&to_group, &[1]);
    net.who(&others, &[0]);
    let late = net.rule(2, normal(9, false));
    net.who(&ours, &[2]);
    let mut early = net.rule(3, normal(3, false));
    net.who(&ours, &[3]);
    // Of the same rank: both.
    let mut same = net.rule(4, normal(3, false));
    net.who(&ours, &[3, 4]);
    same.destroy().unwrap();
    early.destroy().unwrap();
    let mut open = net.rule(3, normal(3, true));
    net.who(&ours, &[2, 3]);
    let opener = net.rule(4, normal(65535, true));
    net.who(&ours, &[2, 3]);
    let mut sniffer = net.rule(5, kind(FlowKind::Sniffer));
    net.who(&ours, &[2, 3, 5]);
    net.who(&others, &[0, 5]);
    net.who(&to_group, &[1, 5]);
    drop(late);
    net.who(&ours, &[0, 3, 4, 5]);
    open.destroy().unwrap();
    sniffer.destroy().unwrap();
    net.who(&ours, &[0, 4]);
    drop((rest, groups, opener));
    net.send(&ours, false);
    net.pair.silent(1, 3000);
    assert!(open.destroy().is_err(), "twice");
    net.pair.check_traffic("after rules");
}

/// The limit of the table, and what a rule may not be.
#[test]
fn rules_that_are_refused() {
    let mut net = Net::new(1);
    let specs = to_mac(mac(1), ALL_MACS);
    let attr = |port_num, priority| FlowAttr {
        specs: &specs,
        port_num,
        priority,
        ..FlowAttr::default()
    };
    for port_num in [0, 2, 9] {
        assert_eq!(
            net.takers[0].create_flow(&attr(port_num, 0)).unwrap_err().errno(),
            22
        );
    }
    // No QP but a raw one, and that only with a port.
    assert_eq!(net.pair.qps[1].create_flow(&attr(1, 0)).unwrap_err().errno(), 22);
    let node = &net.pair.rig.nodes[1];
    let options = QpOptions {
        cap: cap(),
        service: Service::Raw,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let young = node.pd.create_raw_qp(&options).unwrap();
    assert_eq!(young.create_flow(&attr(1, 0)).unwrap_err().errno(), 22);
    drop(young);
    let mut rules: Vec<_> = (0..hca_abi::RULES as u16)
        .map(|priority| net.rule(0, attr(1, priority)))
        .collect();
    assert_eq!(net.takers[0].create_flow(&attr(1, 40)).unwrap_err().errno(), 12);
    // The QP stays while it has rules.
    assert_eq!(net.takers[0].destroy().unwrap_err().errno(), 16);
    net.recv(0);
    net.who(&four(UDP, |_| ()), &[0]);
    rules.truncate(1);
    net.who(&four(UDP, |_| ()), &[0]);
    drop(rules);
    net.takers[0].destroy().unwrap();
}

/// OP-17: checksums are filled in, whatever was there, and found right or not at the other end; nothing else changes.
#[test]
fn checksums_both_ways() {
    let mut net = Net::new(1);
    let _rest = net.rule(
        0,
        FlowAttr {
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    let mut rng = Rng::new(9, "checksums");
    let lengths = [
        0, 1, 2, 17, 18, 21, 22, 25, 26, 27, 63, 64, 65, 1000, 1459, 1460, 3999, 4000, 4055,
    ];
    for (i, len) in lengths.into_iter().enumerate() {
        let mut data = vec![0; len];
        rng.fill(&mut data);
        for proto in [TCP, UDP] {
            let tag = (i % 2 == 1).then_some(0x2005);
            let of = |with_sums| {
                let ip = ipv4(proto, [A4, B4], [1000, 2000], &data, with_sums);
                frame(mac(1), mac(0), tag, 0x0800, &ip)
            };
            let (empty, right) = (of(false), of(true));
            let mut wrong = right.clone();
            let last = wrong.len() - 1;
            wrong[last] ^= 0x40;
            for (sent, asks, wanted, ok) in [
                (&empty, true, &right, true),
                (&right, true, &right, true),
                (&right, false, &right, true),
                (&wrong, false, &wrong, false),
                (&empty, false, &empty, false),
            ] {
                net.recv(0);
                let (_, csum_ok) = net.deliver(sent, wanted, asks, 1);
                assert_eq!(csum_ok, ok, "protocol {proto}, {len} bytes, asked {asks}");
            }
        }
    }
}

/// What there is no checksum for stays as it is, also if it is asked for, and nobody vouches for it.
#[test]
fn nothing_to_sum() {
    let mut net = Net::new(1);
    let _rest = net.rule(
        0,
        FlowAttr {
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    let header_only = |change: fn(&mut Vec<u8>)| {
        let mut ip = ipv4(UDP, [A4, B4], [1000, 2000], &[5; 30], false);
        change(&mut ip);
        let sent = frame(mac(1), mac(0), None, 0x0800, &ip);
        let check = !sum(&ip[..20]);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        (sent, frame(mac(1), mac(0), None, 0x0800, &ip))
    };
    let cases = [
        header_only(|ip| ip[9] = 1),    // ICMP
        header_only(|ip| ip[6] = 0x20), // the first fragment of several
        header_only(|ip| ip[7] = 8),    // a later one
        (six(|_| ()), six(|_| ())),
        (four(UDP, |ip| ip[0] = 0x46), four(UDP, |ip| ip[0] = 0x46)),
        (four(UDP, |ip| ip[3] = 0xff), four(UDP, |ip| ip[3] = 0xff)), // longer than the frame
    ];
    for (sent, wanted) in cases {
        net.recv(0);
        let (_, csum_ok) = net.deliver(&sent, &wanted, true, 1);
        assert!(!csum_ok);
    }
    // RFC 768: UDP without a checksum.
    let none = four(UDP, |ip| ip[26..28].fill(0));
    net.recv(0);
    assert!(!net.deliver(&none, &none, false, 1).1);
}

/// Frames that find no receive are lost, and nothing else is; one that does not fit its receive is an error of that QP
/// alone.
#[test]
fn receives_run_out() {
    let mut net = Net::new(2);
    let specs = to_mac(mac(1), ALL_MACS);
    let flow = net.rule(
        0,
        FlowAttr {
            specs: &specs,
            ..FlowAttr::default()
        },
    );
    let sent = four(UDP, |_| ());
    for _ in 0..40 {
        net.send(&sent, false);
    }
    net.pair.silent(1, 3000);
    net.pair.check_traffic("behind lost frames");
    net.recv(0);
    net.who(&sent, &[0]);
    // The other receive of the test before is still there; a short one behind it.
    let sge = net.pair.mrs[1].sge(0, 50);
    net.takers[0]
        .post_recv(&[RecvWr {
            wr_id: 9,
            sges: &[sge],
        }])
        .unwrap();
    net.send(&sent, false);
    assert_eq!(net.pair.wait(1).status, WcStatus::Success);
    net.send(&sent, false);
    let wc = net.pair.wait(1);
    assert_eq!((wc.wr_id, wc.status), (9, WcStatus::LocLenErr));
    drop(flow);
    let _flow = net.rule(
        1,
        FlowAttr {
            specs: &specs,
            ..FlowAttr::default()
        },
    );
    net.recv(1);
    net.who(&sent, &[1]);
}

/// D15: frames can be anything, so they are the manager's: others get EPERM, and cannot touch its rules. Its reset takes
/// them away.
#[test]
fn frames_are_the_managers() {
    let mut net = Net::new(1);
    let card = net.pair.rig.cards[1];
    let foreign = Node::open(net.pair.rig.sim.device(card, 1).unwrap(), 64).unwrap();
    let options = QpOptions {
        cap: cap(),
        service: Service::Raw,
        ..QpOptions::new(&foreign.cq, &foreign.cq)
    };
    assert_eq!(foreign.pd.create_raw_qp(&options).unwrap_err().errno(), 1);
    let caps = hca_abi::device_cap::RAW_IP_CSUM | hca_abi::device_cap::MANAGED_FLOW_STEERING;
    let theirs = foreign.context.query_device().unwrap();
    assert_eq!(
        (theirs.device_cap_flags() & caps, theirs.raw_packet_caps()),
        (0, 0)
    );
    let ours = net.pair.rig.nodes[1].context.query_device().unwrap();
    assert_eq!(
        (ours.device_cap_flags() & caps, ours.raw_packet_caps()),
        (caps, 4)
    );
    let specs = to_mac(mac(1), ALL_MACS);
    let flow = net.rule(
        0,
        FlowAttr {
            specs: &specs,
            ..FlowAttr::default()
        },
    );
    let mut cmd = hca_abi::CreateRuleCmd::new();
    cmd.set_qpn(net.takers[0].qp_num());
    cmd.set_port_num(1);
    assert_eq!(
        foreign.context.function().create_rule(&cmd).unwrap_err().errno(),
        1
    );
    for handle in [flow.handle(), 31, 32, u32::MAX] {
        assert_eq!(
            foreign
                .context
                .function()
                .destroy_rule(handle)
                .unwrap_err()
                .errno(),
            2
        );
    }
    net.recv(0);
    net.who(&four(UDP, |_| ()), &[0]);
    net.pair.rig.nodes[1].context.function().reset_func().unwrap();
    net.send(&four(UDP, |_| ()), false);
    net.pair.silent(1, 3000);
}

/// RoCEv2 packets for the port are the transport's, whatever rules say; those for another MAC address are frames.
#[test]
fn no_rule_takes_a_packet_of_the_transport() {
    let mut net = Net::new(2);
    let roce = PortFilter {
        dst_port: 4791,
        ..PortFilter::default()
    };
    let specs = [FlowSpec::Udp(
        roce,
        PortFilter {
            dst_port: 0xffff,
            ..PortFilter::default()
        },
    )];
    let _udp = net.rule(
        0,
        FlowAttr {
            specs: &specs,
            ..FlowAttr::default()
        },
    );
    let _all = net.rule(
        1,
        FlowAttr {
            kind: FlowKind::Sniffer,
            ..FlowAttr::default()
        },
    );
    (net.recv(0), net.recv(1));
    net.pair.check_traffic("with rules for everything");
    net.pair.silent(1, 3000);
    // A forged packet is judged as any from the wire: it is not from the QP's peer, or its ICRC is wrong.
    let packet = ipv4(
        UDP,
        [[10, 0, 0, 1], [10, 0, 0, 2]],
        [0xc000, 4791],
        &[4; 60],
        true,
    );
    net.send(&frame(mac(1), mac(0), None, 0x0800, &packet), false);
    net.pair.silent(1, 3000);
    net.who(&frame([2, 0, 0, 0, 0, 9], mac(0), None, 0x0800, &packet), &[0, 1]);
    net.pair.check_traffic("after a forged packet");
}

/// An InfiniBand port has no Ethernet frames.
#[test]
fn infiniband_ports_refuse_frames() {
    let config = RigConfig::new(3, LinkKind::InfiniBand);
    let pair = Pair::new(
        &config,
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    );
    let node = &pair.rig.nodes[0];
    let options = QpOptions {
        cap: cap(),
        service: Service::Raw,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let mut qp = node.pd.create_raw_qp(&options).unwrap();
    let init = QpAttr {
        qp_state: QpState::Init,
        port_num: 1,
        ..QpAttr::default()
    };
    let mask = QpAttrMask::STATE | QpAttrMask::PORT;
    assert_eq!(qp.modify(&init, mask).unwrap_err().errno(), 22);
}

/// A frame for the sender's own port comes back.
#[test]
fn a_frame_to_ones_own_port() {
    let mut net = Net::new(1);
    let node = &net.pair.rig.nodes[1];
    let mut own = raw_qp(node);
    let _rest = net.rule(
        0,
        FlowAttr {
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    net.recv(0);
    let sent = frame(mac(1), mac(1), None, 0x88b5, &[7; 100]);
    let wr = SendWr {
        wr_id: 1 << 40,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: WrData::Inline(&sent),
    };
    own.post_send(&[wr]).unwrap();
    let seen = [net.pair.wait(1), net.pair.wait(1)];
    let got = seen.iter().find(|wc| wc.opcode == WcOpcode::Recv).unwrap();
    assert_eq!(
        (got.status, got.byte_len as usize),
        (WcStatus::Success, sent.len())
    );
}

/// A flood to QPs whose rules come and go, and that are destroyed: what arrives is whole, and the connection beside it
/// loses nothing.
#[test]
fn rules_and_qps_come_and_go_in_a_flood() {
    let mut net = Net::new(3);
    let specs = to_mac(mac(1), ALL_MACS);
    let rule = |net: &Net, taker| {
        net.rule(
            taker,
            FlowAttr {
                specs: &specs,
                ..FlowAttr::default()
            },
        )
    };
    let bytes = four(TCP, |ip| ip[30..60].fill(0x5a));
    net.put(&bytes);
    let mut rng = Rng::new(4, "flood");
    let mut flows: Vec<Option<Flow<Dev>>> = (0..3).map(|taker| Some(rule(&net, taker))).collect();
    let mut seen = 0;
    for round in 0..60u64 {
        let sge = net.pair.mrs[0].sge(0, bytes.len() as u32);
        let sges = [sge];
        let wr = SendWr {
            wr_id: 77,
            op: SendOp::Send,
            flags: SendFlags::default(),
            data: WrData::Sges(&sges),
        };
        let last = SendWr {
            flags: SendFlags::SIGNALED,
            ..wr
        };
        net.sender
            .post_send(&[[wr; 15].as_slice(), &[last]].concat())
            .unwrap();
        let taker = rng.below(3) as usize;
        match rng.below(3) {
            0 => flows[taker] = None,
            1 if flows[taker].is_none() => flows[taker] = Some(rule(&net, taker)),
            2 if flows[taker].is_none() => {
                net.takers[taker].destroy().unwrap();
                net.takers[taker] = raw_qp(&net.pair.rig.nodes[1]);
            }
            _ => {
                let slot = round % 16;
                let sge = net.pair.mrs[1].sge(slot * SLOT, SLOT as u32);
                // A full queue takes no more; nothing is lost by it.
                let _ = net.takers[taker].post_recv(&[RecvWr {
                    wr_id: slot,
                    sges: &[sge],
                }]);
            }
        }
        net.pair.wait_ok(0, 77);
        while let Some(wc) = net.pair.rig.nodes[1].poll_ready().unwrap() {
            assert_eq!(
                (wc.status, wc.byte_len as usize),
                (WcStatus::Success, bytes.len())
            );
            let mut got = vec![0; bytes.len()];
            let at = (common::CANARY_BYTES + wc.wr_id * SLOT) as usize;
            net.pair.memory[1].buf().read_bytes(at, &mut got);
            assert_eq!(got, bytes);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen} frames");
}
