//! Rings of switches: cyclic routes on one VL come to a stop, which is found and named; with two VLs or without the
//! cycle they do not.

mod common;

use common::*;
use hca_switch::*;

/// Port of each switch that leads to the next in the ring, and to the one before.
const NEXT: u8 = 1;
const BEFORE: u8 = 2;
/// Port of its endpoint.
const HOME: u8 = 3;

#[derive(Clone, Copy, PartialEq)]
enum Routes {
    /// Everything goes round the ring in one direction.
    Cyclic,
    /// Nobody goes over the cable between the last switch and the first: up and down a tree.
    UpDown,
    /// Cyclic, but a packet that has gone over that cable is on VL 1.
    Dateline,
}

/// A ring of switches with small buffers and an endpoint each. Endpoint at switch i has LID i + 1 and sends to all
/// others, on SL 1 if the way leads over the cable between the last switch and the first.
fn ring(count: u8, routes: Routes, life: Option<u64>) -> Net {
    let data_vls = if routes == Routes::Dateline { 2 } else { 1 };
    let mut net = Net::new();
    let mut ids = Vec::new();
    for index in 0..count {
        let config = IbSwitchConfig {
            hoq_life_cycles: life,
            ..small_switch(&format!("ring{index}"), 3, data_vls, 40)
        };
        let id = net.add_ib_switch(config).unwrap();
        let mut config = sender(u16::from(index) + 1, [], 0, 4_000);
        config.data_vls = data_vls;
        config.buffer_blocks = 100;
        config.payload_bytes = (2000, 2048);
        let others = (0..count).filter(|other| *other != index);
        config.flows = others
            .map(|other| Flow {
                dlid: u16::from(other) + 1,
                sl: u8::from(other < index && routes == Routes::Dateline),
                share: 1,
            })
            .collect();
        let end = net.add_ib_endpoint(config).unwrap();
        let at = [LinkEndAt::Endpoint(end), LinkEndAt::Switch(id, HOME)];
        net.connect(at, cable(&format!("home{index}"), "")).unwrap();
        for other in 0..count {
            let port = match (routes, other.cmp(&index)) {
                (_, std::cmp::Ordering::Equal) => HOME,
                (Routes::UpDown, std::cmp::Ordering::Less) => BEFORE,
                _ => NEXT,
            };
            let tables = net.switch_mut(id).forwarding_mut();
            tables.set_unicast(u16::from(other) + 1, port).unwrap();
        }
        ids.push(id);
    }
    for index in 0..count {
        let next = (index + 1) % count;
        let at = [
            LinkEndAt::Switch(ids[usize::from(index)], NEXT),
            LinkEndAt::Switch(ids[usize::from(next)], BEFORE),
        ];
        net.connect(at, cable(&format!("ring{index}"), "")).unwrap();
    }
    if routes == Routes::Dateline {
        dateline(&mut net, &ids);
    }
    net
}

/// SL 1 is on VL 1 from the last switch on; no way is longer than the ring, so at every other switch a packet that
/// passes through has either certainly been over the dateline or certainly not.
fn dateline(net: &mut Net, ids: &[SwitchId]) {
    let count = ids.len();
    for (index, id) in ids.iter().enumerate() {
        let table = |sl1: u8| std::array::from_fn(|sl| if sl == 1 { sl1 } else { 0 });
        let last = index == count - 1;
        // Who comes in from the ring at switch 1 of 4 with SL 1 has passed the dateline at switch 3, and so on.
        let passed = last || index < count / 2;
        let switch = net.switch_mut(*id);
        switch.set_sl2vl(BEFORE, NEXT, table(u8::from(passed))).unwrap();
        switch.set_sl2vl(HOME, NEXT, table(u8::from(last))).unwrap();
        for input in [BEFORE, HOME] {
            switch.set_sl2vl(input, HOME, table(1)).unwrap();
        }
    }
}

/// Requirement of the fabric: the deadlock is reported with the cycle of waiting buffers.
#[test]
fn cyclic_routes_on_one_vl_deadlock() {
    for count in [3, 4] {
        let mut net = ring(count, Routes::Cyclic, None);
        assert!(!net.run(u64::MAX));
        let deadlock = net.deadlock().unwrap().clone();
        assert_eq!(deadlock.cycle.len(), usize::from(count));
        for (index, buffer) in deadlock.cycle.iter().enumerate() {
            let next = &deadlock.cycle[(index + 1) % usize::from(count)];
            let (here, there): (u8, u8) = (
                buffer.switch[4..].parse().unwrap(),
                next.switch[4..].parse().unwrap(),
            );
            assert_eq!(there, (here + 1) % count);
            assert_eq!((buffer.port, buffer.vl, buffer.output), (BEFORE, 0, NEXT));
            let Lacks::Room {
                needs_blocks,
                free_blocks,
            } = buffer.lacks
            else {
                panic!("{buffer:?}");
            };
            assert!(free_blocks < needs_blocks.into());
        }
        let text = deadlock.to_string();
        assert!(text.contains("switch ring2 port 2 VL 0 needs"), "{text}");
        // It is one: whatever time passes, no packet of the ring moves any more.
        let inside = |net: &Net| net.switches().map(|id| net.switch(id).packets()).sum::<usize>();
        let (before, at) = (inside(&net), net.now());
        settle(&mut net);
        assert!(net.now() > at && before > 0);
        assert_eq!(inside(&net), before);
        assert!(!net.is_moving() || net.endpoints().any(|id| net.endpoint(id).has_work()));
    }
}

#[test]
fn two_vls_or_trees_do_not() {
    for count in [3, 4] {
        for routes in [Routes::UpDown, Routes::Dateline] {
            let mut net = ring(count, routes, None);
            assert!(net.run(u64::MAX), "{:?}", net.deadlock());
            check_delivery(&net);
            check_no_drops(&net);
            check_credits(&mut net);
        }
    }
}

/// With a lifetime the ring frees itself, at the price of packets, and there is nothing to report.
#[test]
fn a_lifetime_resolves_it() {
    let mut net = ring(4, Routes::Cyclic, Some(5_000));
    assert!(net.run(u64::MAX));
    let discards: u64 = net
        .switches()
        .flat_map(|id| (1..=3).map(move |port| (id, port)))
        .map(|(id, port)| net.counters(id, port).unwrap().port_xmit_discards)
        .sum();
    let arrived: u64 = net
        .endpoints()
        .map(|id| net.endpoint(id).received_all().packets)
        .sum();
    assert!(discards > 0);
    assert_eq!(arrived + discards, 16_000);
}

/// A receiver that stands still for long fills everything up to the sender, but that is no deadlock.
#[test]
fn congestion_is_no_deadlock() {
    let mut line = line(&LineConfig {
        switches: 3,
        per_switch: 2,
        packets: 3_000,
        data_vls: 1,
        buffer_blocks: 40,
        faults: "",
        stalls: None,
    });
    line.net.stall_endpoint(line.ends[5], 0, 2_000_000);
    assert!(line.net.run(u64::MAX), "{:?}", line.net.deadlock());
    assert!(line.net.now() > 2_000_000);
    check_delivery(&line.net);
    check_no_drops(&line.net);
}
