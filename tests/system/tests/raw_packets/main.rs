//! Raw packet QPs on RTL: frames as a program made them (XPORT-7, WIRE-20), rules that say who gets which (V-155), and
//! checksums both ways (OP-17).

#[path = "../common/mod.rs"]
mod common;
mod fields;
mod net;
mod rss;
mod sniff;

use common::{CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap};
use fields::{A4, B4, four, six};
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, RigConfig, Rng, path};
use hca_verbs::{
    EthFilter, Flow, FlowAttr, FlowKind, FlowSpec, Mtu, PortFilter, QpAttr, QpAttrMask, QpOptions, QpState,
    RecvWr, SendFlags, SendOp, SendWr, Service, WcOpcode, WcStatus, WrData,
};
use net::{ALL_MACS, Net, REGION_BYTES, SLOT, TCP, UDP, frame, ipv4, mac, raw_qp, sum};

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

/// D15: frames can be anything, so they are the manager's: others get EPERM, and cannot touch its rules. Its reset
/// takes them away.
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
            1
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
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    net.recv(0);
    net.recv(1);
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
    net.who(&frame([2, 0, 0, 0, 0, 9], mac(0), None, 0x0800, &packet), &[0]);
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
            let at = (CANARY_BYTES + wc.wr_id * SLOT) as usize;
            net.pair.memory[1].buf().read_bytes(at, &mut got);
            assert_eq!(got, bytes);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen} frames");
}
