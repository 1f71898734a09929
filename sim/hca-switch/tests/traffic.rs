//! Random traffic through InfiniBand switches: nothing lost, nothing out of order, buffers bounded, credits conserved.

mod common;

use common::*;
use hca_link::Dir;
use hca_switch::*;
use hca_wire::{ExtHeaders, Link, Opcode, PacketRepr, bth, deth, lrh};

/// Packets of the large run: 10^5, or what `HCA_SWITCH_SOAK` says.
fn soak_packets() -> u64 {
    let asked = std::env::var("HCA_SWITCH_SOAK").ok();
    asked.map_or(100_000, |text| text.parse().expect("HCA_SWITCH_SOAK is a number"))
}

fn all_to_all(config: &LineConfig) -> Line {
    let mut line = line(config);
    assert!(
        line.net.run(u64::MAX),
        "it does not end: {:?}",
        line.net.deadlock()
    );
    line
}

fn received(line: &Line) -> u64 {
    let counts = line
        .ends
        .iter()
        .map(|id| line.net.endpoint(*id).received_all().packets);
    counts.sum()
}

/// VL-6, VL-13: random sizes, SLs, destinations and stalled receivers over three switches and all VLs.
#[test]
fn random_traffic_over_three_switches() {
    let mut line = all_to_all(&LineConfig {
        switches: 3,
        per_switch: 2,
        packets: soak_packets(),
        data_vls: 15,
        buffer_blocks: 70,
        faults: "",
        stalls: Some(Stalls {
            per_mille: 5,
            cycles_max: 20_000,
        }),
    });
    assert_eq!(received(&line), soak_packets() / 6 * 6);
    check_delivery(&line.net);
    check_no_drops(&line.net);
    check_credits(&mut line.net);
}

/// Lost and damaged flow control packets delay, but lose nothing: the next ones say it all again.
#[test]
fn lost_flow_control_packets_lose_nothing() {
    let line = all_to_all(&LineConfig {
        switches: 2,
        per_switch: 2,
        packets: 20_000,
        data_vls: 4,
        buffer_blocks: 70,
        faults: "fc_loss=0.3,fc_corrupt=0.2",
        stalls: Some(Stalls {
            per_mille: 20,
            cycles_max: 5_000,
        }),
    });
    check_delivery(&line.net);
    check_no_drops(&line.net);
    let lost: u64 = line
        .net
        .cables()
        .iter()
        .map(|cable| cable.stats().a_to_b.faults.lost)
        .sum();
    assert!(lost > 1_000, "{lost}");
}

/// Lost and damaged data: each missing packet is one that a cable lost or a port found damaged; credits come back.
#[test]
fn lost_data_leaves_no_hole_in_the_credits() {
    let mut line = all_to_all(&LineConfig {
        switches: 2,
        per_switch: 2,
        packets: 20_000,
        data_vls: 4,
        buffer_blocks: 70,
        faults: "loss=0.02,corrupt=0.02,fc_loss=0,fc_corrupt=0",
        stalls: None,
    });
    let net = &line.net;
    let lost: u64 = net
        .cables()
        .iter()
        .flat_map(|cable| Dir::ALL.map(|dir| cable.stats().dir(dir).faults.lost))
        .sum();
    let ports = net
        .switches()
        .flat_map(|id| (1..=63).filter_map(move |port| net.counters(id, port)));
    let ends = line.ends.iter().map(|id| net.endpoint(*id).counters());
    let all: Vec<_> = ports.chain(ends).collect();
    let damaged: u64 = all.iter().map(|counters| counters.port_rcv_errors).sum();
    assert!(lost > 200 && damaged > 200, "{lost} lost, {damaged} damaged");
    assert_eq!(received(&line) + lost + damaged, 20_000);
    for id in &line.ends {
        assert_eq!(net.endpoint(*id).received_all().out_of_order, 0);
    }
    assert!(
        all.iter()
            .all(|counters| counters.excessive_buffer_overrun_errors == 0)
    );
    check_credits(&mut line.net);
}

/// VL-4: the link has the VLs of its smaller end, and every SL finds one of them.
#[test]
fn ends_with_different_vls_agree_on_the_fewer() {
    let mut net = Net::new();
    let switch = net.add_ib_switch(small_switch("sw0", 4, 8, 100)).unwrap();
    let mut ends = Vec::new();
    for (lid, data_vls) in [(1, 1), (2, 15), (3, 4)] {
        let dlids = (1..=3).filter(|dlid| *dlid != lid);
        let config = IbEndpointConfig {
            data_vls,
            ..sender(lid, dlids, 16, 2_000)
        };
        let end = net.add_ib_endpoint(config).unwrap();
        let at = [LinkEndAt::Endpoint(end), LinkEndAt::Switch(switch, lid as u8)];
        net.connect(at, cable(&format!("c{lid}"), "")).unwrap();
        net.switch_mut(switch)
            .forwarding_mut()
            .set_unicast(lid, lid as u8)
            .unwrap();
        ends.push(end);
    }
    assert_eq!(
        [1, 2, 3].map(|port| net.switch(switch).operational_vls(port)),
        [Some(1), Some(8), Some(4)]
    );
    assert!(net.run(u64::MAX));
    check_delivery(&net);
    check_no_drops(&net);
    // VL-5: behind the first port everything is on VL 0, whatever it was before.
    let sent = |port, vl| net.switch(switch).vl_counters(port, vl).unwrap().packets_sent;
    let vls = [1, 2, 3].map(|port| (0..15).filter(|vl| sent(port, *vl) > 0).count());
    assert_eq!(vls, [1, 8, 4]);
}

/// MC-10: one copy for each member, none for the sender, none for the others, over two switches.
#[test]
fn a_group_gets_one_copy_each() {
    const GROUP: u16 = 0xc010;
    let mut line = line(&LineConfig {
        switches: 2,
        per_switch: 3,
        packets: 0,
        data_vls: 2,
        buffer_blocks: 100,
        faults: "",
        stalls: None,
    });
    let mut config = sender(9, [GROUP], 1, 500);
    config.data_vls = 2;
    let source = line.net.add_ib_endpoint(config).unwrap();
    let ids: Vec<_> = line.net.switches().collect();
    let at = [LinkEndAt::Endpoint(source), LinkEndAt::Switch(ids[0], 9)];
    line.net.connect(at, cable("source", "")).unwrap();
    // Members: LIDs 1 and 3 at the first switch, 4 at the second, and the sender itself.
    for (switch, port) in [(0, 1), (0, 3), (0, 9), (0, 62), (1, 1), (1, 63)] {
        let tables = line.net.switch_mut(ids[switch]).forwarding_mut();
        tables.add_multicast(GROUP, port).unwrap();
    }
    assert!(line.net.run(u64::MAX));
    let count = |id: EndpointId| line.net.endpoint(id).received(9, GROUP, 0);
    let counts: Vec<_> = line.ends.iter().map(|id| count(*id).packets).collect();
    assert_eq!(counts, [500, 0, 500, 500, 0, 0]);
    assert_eq!(count(source).packets, 0);
    assert!(
        line.ends
            .iter()
            .all(|id| (count(*id).missing, count(*id).out_of_order) == (0, 0))
    );
    check_no_drops(&line.net);
    check_credits(&mut line.net);
}

/// An endpoint at the switch's port of the number of its LID.
fn plug_in(net: &mut Net, switch: SwitchId, lid: u16, end: EndpointId) {
    let port = lid as u8;
    let at = [LinkEndAt::Endpoint(end), LinkEndAt::Switch(switch, port)];
    net.connect(at, cable(&format!("c{lid}"), "")).unwrap();
    let tables = net.switch_mut(switch).forwarding_mut();
    tables.set_unicast(lid, port).unwrap();
}

/// VL-6: a VL whose receiver never takes anything slows no other.
#[test]
fn a_blocked_vl_holds_back_no_other() {
    let time_of = |blocked: bool| {
        let mut net = Net::new();
        let switch = net.add_ib_switch(small_switch("sw0", 4, 2, 70)).unwrap();
        let mut config = sender(1, [], 0, 0);
        config.payload_bytes = (2048, 2048);
        let flow = |dlid, sl| Flow { dlid, sl, share: 1 };
        config.flows = if blocked {
            vec![flow(2, 0), flow(2, 1)]
        } else {
            vec![flow(2, 1)]
        };
        config.packets = if blocked { 3_200 } else { 3_000 };
        let from = net
            .add_ib_endpoint(IbEndpointConfig {
                data_vls: 2,
                ..config
            })
            .unwrap();
        let to = IbEndpointConfig {
            data_vls: 2,
            buffer_blocks: 70,
            ..sender(2, [], 0, 0)
        };
        let to = net.add_ib_endpoint(to).unwrap();
        plug_in(&mut net, switch, 1, from);
        plug_in(&mut net, switch, 2, to);
        if blocked {
            // The receiver's VL 0 stands still from the first packet on.
            net.stall_endpoint(to, 0, u64::MAX);
        }
        let mut first = None;
        while net.endpoint(to).received(1, 2, 1).packets < 2_500 {
            let next = net.next_event(true).unwrap().max(net.now() + 1);
            net.step(next, true);
            if first.is_none() && net.endpoint(to).received(1, 2, 1).packets >= 500 {
                first = Some(net.now());
            }
        }
        // Two packets fit into the receiver's buffer.
        assert_eq!(
            net.endpoint(to).received(1, 2, 0).packets,
            if blocked { 2 } else { 0 }
        );
        (net.now() - first.unwrap()) as f64
    };
    let (alone, beside) = (time_of(false), time_of(true));
    assert!(
        (beside / alone - 1.0).abs() < 0.01,
        "{alone} cycles alone, {beside} beside a blocked VL"
    );
}

/// A subnet management packet of 256 bytes.
fn management_packet(dlid: u16) -> Vec<u8> {
    let lrh = lrh::Repr {
        vl: VL15,
        dlid,
        slid: 1,
        ..Default::default()
    };
    let repr = PacketRepr {
        link: Link::InfiniBand { lrh, grh: None },
        bth: bth::Repr {
            opcode: Opcode::UdSendOnly as u8,
            pkey: 0xffff,
            ..Default::default()
        },
        ext: ExtHeaders {
            deth: Some(deth::Repr::default()),
            ..ExtHeaders::default()
        },
        payload: &[1; 256],
    };
    let mut bytes = vec![0; repr.buffer_len().unwrap()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

/// Steps to the next cycle in which anything happens.
fn step(net: &mut Net) {
    let next = net.next_event(true).unwrap().max(net.now() + 1);
    net.step(next, true);
}

/// VL-9: packets of VL 15 pass through a switch while all data VLs behind it are blocked.
#[test]
fn management_passes_when_all_data_vls_are_blocked() {
    let mut net = Net::new();
    let switch = net.add_ib_switch(small_switch("sw0", 2, 8, 70)).unwrap();
    let from = net.add_ib_endpoint(sender(1, [2], 8, 4_000)).unwrap();
    let to = IbEndpointConfig {
        buffer_blocks: 70,
        ..sender(2, [], 0, 0)
    };
    let to = net.add_ib_endpoint(to).unwrap();
    plug_in(&mut net, switch, 1, from);
    plug_in(&mut net, switch, 2, to);
    (0..8).for_each(|vl| net.stall_endpoint(to, vl, u64::MAX));
    settle(&mut net);
    let blocked = net.endpoint(to).received_all().packets;
    let counted = |net: &Net, vl| net.switch(switch).vl_counters(2, vl).unwrap().packets_sent;
    let (data, waiting) = (counted(&net, 0), net.switch(switch).packets());
    assert!(waiting > 8, "{waiting} packets wait in the switch");
    for _ in 0..20 {
        while !net.cables()[0].ready(Dir::AToB, net.now()) {
            step(&mut net);
        }
        let now = net.now();
        net.cables_mut()[0]
            .push_packet(Dir::AToB, now, &management_packet(2))
            .unwrap();
        step(&mut net);
    }
    settle(&mut net);
    assert_eq!((counted(&net, VL15), counted(&net, 0)), (20, data));
    assert_eq!(net.endpoint(to).received_all().packets, blocked);
    assert_eq!(net.counters(switch, 2).unwrap().vl15_dropped, 0);
}

/// Packets that no table knows, and packets back to where they came from, are dropped and counted.
#[test]
fn what_cannot_be_forwarded_is_counted() {
    let mut net = Net::new();
    let switch = net.add_ib_switch(small_switch("sw0", 3, 4, 100)).unwrap();
    let mut ids = Vec::new();
    for lid in [1, 2] {
        let config = IbEndpointConfig {
            data_vls: 4,
            ..sender(lid, [1, 2, 99], 1, 300)
        };
        let end = net.add_ib_endpoint(config).unwrap();
        plug_in(&mut net, switch, lid, end);
        ids.push(end);
    }
    // Port 3 has no cable.
    let tables = net.switch_mut(switch).forwarding_mut();
    tables.set_unicast(99, 3).unwrap();
    assert!(net.run(u64::MAX));
    for (port, id) in [(1u8, ids[0]), (2, ids[1])] {
        let sent = net.endpoint(id).sent();
        let errors = net.counters(switch, port).unwrap().port_rcv_switch_relay_errors;
        assert_eq!(errors, sent[usize::from(port) - 1] + sent[2]);
    }
    check_credits(&mut net);
}

/// A packet larger than the MTU behind a port is dropped there: it might never find room.
#[test]
fn a_packet_larger_than_the_mtu_is_dropped() {
    let mut net = Net::new();
    let switches = [("a", 2048), ("b", 512)].map(|(name, mtu_bytes)| {
        let config = IbSwitchConfig {
            mtu_bytes,
            ..small_switch(name, 2, 1, 40)
        };
        net.add_ib_switch(config).unwrap()
    });
    let from = IbEndpointConfig {
        payload_bytes: (8, 2048),
        ..sender(1, [2], 1, 500)
    };
    let from = net.add_ib_endpoint(from).unwrap();
    let to = net.add_ib_endpoint(sender(2, [], 0, 0)).unwrap();
    for (name, ends) in [
        (
            "c1",
            [LinkEndAt::Endpoint(from), LinkEndAt::Switch(switches[0], 1)],
        ),
        (
            "c2",
            [
                LinkEndAt::Switch(switches[0], 2),
                LinkEndAt::Switch(switches[1], 1),
            ],
        ),
        ("c3", [LinkEndAt::Switch(switches[1], 2), LinkEndAt::Endpoint(to)]),
    ] {
        net.connect(ends, cable(name, "")).unwrap();
    }
    for id in switches {
        net.switch_mut(id).forwarding_mut().set_unicast(2, 2).unwrap();
    }
    assert!(net.run(u64::MAX));
    let dropped = net.counters(switches[0], 2).unwrap().port_xmit_discards;
    let count = net.endpoint(to).received(1, 2, 0);
    assert!(dropped > 100 && count.packets > 50);
    assert_eq!((count.packets + dropped, count.out_of_order), (500, 0));
}

/// VL-8: an SL that has no VL on the way out is dropped there; the others pass.
#[test]
fn an_sl_without_a_vl_gets_no_service() {
    let mut line = line(&LineConfig {
        switches: 1,
        per_switch: 2,
        packets: 3_000,
        data_vls: 2,
        buffer_blocks: 100,
        faults: "",
        stalls: None,
    });
    let id = line.net.switches().next().unwrap();
    let table = std::array::from_fn(|sl| if sl < 2 { sl as u8 } else { 15 });
    line.net.switch_mut(id).set_sl2vl(1, 2, table).unwrap();
    assert!(line.net.run(u64::MAX));
    let to = line.net.endpoint(line.ends[1]);
    assert!((0..2).all(|sl| to.received(1, 2, sl).packets > 0));
    assert!((2..15).all(|sl| to.received(1, 2, sl).packets == 0));
    let sent = line.net.endpoint(line.ends[0]).sent();
    let dropped = line.net.counters(id, 2).unwrap().port_xmit_constraint_errors;
    assert_eq!(dropped, sent[2..].iter().sum::<u64>());
    check_credits(&mut line.net);
}

/// A head of queue that waits for too long is dropped when the switch has been told so, and only then.
#[test]
fn a_lifetime_drops_what_waits_too_long() {
    for life in [None, Some(2_000)] {
        let mut net = Net::new();
        let config = IbSwitchConfig {
            hoq_life_cycles: life,
            ..small_switch("sw0", 2, 1, 70)
        };
        let switch = net.add_ib_switch(config).unwrap();
        let ends = [sender(1, [2], 1, 400), sender(2, [], 1, 0)].map(|end| net.add_ib_endpoint(end).unwrap());
        for (port, end) in [(1, ends[0]), (2, ends[1])] {
            let at = [LinkEndAt::Endpoint(end), LinkEndAt::Switch(switch, port)];
            net.connect(at, cable(&format!("c{port}"), "")).unwrap();
            let tables = net.switch_mut(switch).forwarding_mut();
            tables.set_unicast(port.into(), port).unwrap();
        }
        net.stall_endpoint(ends[1], 0, 200_000);
        assert!(net.run(u64::MAX));
        let discards = net.counters(switch, 2).unwrap().port_xmit_discards;
        let arrived = net.endpoint(ends[1]).received(1, 2, 0).packets;
        assert_eq!(arrived + discards, 400);
        assert_eq!(discards > 50, life.is_some(), "{discards}");
        check_credits(&mut net);
    }
}

/// The same seeds give the same cycles, and at rest a network costs nothing.
#[test]
fn runs_are_equal_and_end() {
    let run = || {
        let line = all_to_all(&LineConfig {
            switches: 2,
            per_switch: 3,
            packets: 3_000,
            data_vls: 8,
            buffer_blocks: 80,
            faults: "loss=0.01,delay_ns=300,fc_loss=0.05",
            stalls: None,
        });
        assert!(!line.net.is_moving());
        assert_eq!(line.net.next_event(false), None);
        let counts: Vec<_> = line
            .ends
            .iter()
            .map(|id| line.net.endpoint(*id).counters())
            .collect();
        (line.net.now(), counts)
    };
    assert_eq!(run(), run());
}
