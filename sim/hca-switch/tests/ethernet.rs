//! Traffic through Ethernet switches: addresses, priorities, pauses, congestion marks, and what is dropped without
//! them.

use hca_link::{CableConfig, LinkKind, Tap};
use hca_switch::*;
use std::process::Command;

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

fn cable(name: &str, gbps: u64) -> CableConfig {
    CableConfig {
        rate_bits_per_s: gbps * 1_000_000_000,
        seed: 5,
        ..CableConfig::new(name, LinkKind::Ethernet)
    }
}

fn pfc(priorities: u8) -> PfcConfig {
    PfcConfig {
        priorities,
        xoff_bytes: 20_000,
        xon_bytes: 10_000,
        headroom_bytes: 16_000,
    }
}

/// An endpoint that sends to each of the others on some priorities.
fn sender(number: u8, others: &[u8], priorities: &[u8], packets: u64, pfc: PfcConfig) -> EthEndpointConfig {
    let flows = others.iter().flat_map(|other| {
        priorities.iter().map(|priority| EthFlow {
            mac: mac(*other),
            priority: *priority,
            share: 1,
        })
    });
    EthEndpointConfig {
        seed: number.into(),
        pfc,
        flows: flows.collect(),
        packets,
        ..EthEndpointConfig::new(&format!("end{number}"), mac(number))
    }
}

struct Star {
    net: Net,
    switch: EthSwitchId,
    ends: Vec<EthEndpointId>,
}

/// A switch with an endpoint at each port, from port 1; MAC 1 is at port 1.
fn star(config: EthSwitchConfig, ends: Vec<(EthEndpointConfig, u64)>) -> Star {
    let mut net = Net::new();
    let switch = net.add_eth_switch(config).unwrap();
    let mut ids = Vec::new();
    for (port, (config, gbps)) in (1..).zip(ends) {
        let (name, address) = (config.name.clone(), config.mac);
        let end = net.add_eth_endpoint(config).unwrap();
        let at = [LinkEndAt::EthEndpoint(end), LinkEndAt::EthSwitch(switch, port)];
        net.connect(at, cable(&name, gbps)).unwrap();
        net.eth_switch_mut(switch).set_address(address, port).unwrap();
        ids.push(end);
    }
    Star {
        net,
        switch,
        ends: ids,
    }
}

fn config(ports: u8, pfc: PfcConfig) -> EthSwitchConfig {
    EthSwitchConfig {
        queue_bytes: 40_000,
        pfc,
        ..EthSwitchConfig::new("sw0", ports)
    }
}

/// Frames that arrived, frames out of order, frames damaged, over all endpoints.
fn totals(star: &Star) -> (u64, u64, u64) {
    let ends = star.ends.iter().map(|id| star.net.eth_endpoint(*id));
    let all: Vec<_> = ends.map(|end| (end.received_all(), end.damaged())).collect();
    (
        all.iter().map(|(count, _)| count.packets).sum(),
        all.iter().map(|(count, _)| count.out_of_order).sum(),
        all.iter().map(|(_, damaged)| damaged).sum(),
    )
}

/// Flow control per priority: whatever receivers do, nothing is lost, and no buffer holds more than threshold and
/// headroom.
#[test]
fn pauses_lose_nothing() {
    const PACKETS: u64 = 5_000;
    let all = [1, 2, 3, 4, 5];
    let ends = all.map(|number| {
        let others: Vec<u8> = all.into_iter().filter(|other| *other != number).collect();
        let mut config = sender(number, &others, &[0, 3, 5, 7], PACKETS, pfc(0xff));
        config.stalls = Some(Stalls {
            per_mille: 3,
            cycles_max: 20_000,
        });
        // Endpoint 5 has a slow cable: everybody's frames to it pile up.
        (config, if number == 5 { 25 } else { 100 })
    });
    let mut star = star(config(5, pfc(0xff)), ends.into());
    assert!(star.net.run(u64::MAX));
    assert_eq!(totals(&star), (5 * PACKETS, 0, 0));
    let switch = star.net.eth_switch(star.switch);
    let mut pauses = 0;
    for port in 1..=5 {
        let counters = switch.counters(port).unwrap();
        assert_eq!(
            (
                counters.port_xmit_discards,
                counters.excessive_buffer_overrun_errors
            ),
            (0, 0)
        );
        pauses += counters.fcp_sent;
        for priority in 0..8 {
            assert!(switch.peak_bytes(port, priority) <= 36_000);
            assert_eq!(switch.held_bytes(port, priority), 0);
        }
        assert_eq!(switch.priority_counters(port, 1).unwrap().packets_sent, 0);
    }
    assert!(pauses > 100, "{pauses}");
    assert_eq!(switch.packets(), 0);
}

/// A paused priority slows no other.
#[test]
fn a_paused_priority_holds_back_no_other() {
    let time_of = |blocked: bool| {
        let priorities: &[u8] = if blocked { &[2, 4] } else { &[4] };
        let mut from = sender(1, &[2], priorities, 4_000, pfc(0xff));
        from.payload_bytes = (1024, 1024);
        let to = EthEndpointConfig {
            pfc: pfc(0xff),
            ..EthEndpointConfig::new("end2", mac(2))
        };
        let mut star = star(config(2, pfc(0xff)), vec![(from, 100), (to, 100)]);
        if blocked {
            star.net.stall_eth_endpoint(star.ends[1], 2, u64::MAX);
        }
        let mut first = None;
        let count = |star: &Star| {
            star.net
                .eth_endpoint(star.ends[1])
                .received(mac(1), mac(2), 4)
                .packets
        };
        while count(&star) < 3_500 {
            let next = star.net.next_event(true).unwrap().max(star.net.now() + 1);
            star.net.step(next, true);
            if first.is_none() && count(&star) >= 500 {
                first = Some(star.net.now());
            }
        }
        (star.net.now() - first.unwrap()) as f64
    };
    let (alone, beside) = (time_of(false), time_of(true));
    assert!(
        (beside / alone - 1.0).abs() < 0.01,
        "{alone} alone, {beside} beside a paused priority"
    );
}

/// Without flow control a full queue drops, and what arrives is in order.
#[test]
fn without_pauses_a_full_queue_drops() {
    let ends = [1, 2, 3].map(|number| {
        let packets = if number == 3 { 0 } else { 3_000 };
        (sender(number, &[3], &[1], packets, pfc(0)), 100)
    });
    let mut star = star(config(3, pfc(0)), ends.into());
    assert!(star.net.run(u64::MAX));
    let (arrived, out_of_order, damaged) = totals(&star);
    let counters = star.net.eth_switch(star.switch).counters(3).unwrap();
    assert!(counters.port_xmit_discards > 1_000, "{counters:?}");
    assert_eq!(
        (arrived + counters.port_xmit_discards, out_of_order, damaged),
        (6_000, 0, 0)
    );
    assert_eq!(counters.fcp_sent, 0);
}

/// A neighbour that does not obey pauses loses frames, and the loss has a name.
#[test]
fn who_does_not_pause_overruns_the_headroom() {
    let ends = [(1, pfc(0)), (2, pfc(0)), (3, pfc(0xff))].map(|(number, pfc)| {
        let packets = if number == 3 { 0 } else { 3_000 };
        (sender(number, &[3], &[1], packets, pfc), 100)
    });
    let mut star = star(config(3, pfc(0xff)), ends.into());
    assert!(star.net.run(u64::MAX));
    let switch = star.net.eth_switch(star.switch);
    let overruns: u64 = [1, 2]
        .iter()
        .map(|port| switch.counters(*port).unwrap().excessive_buffer_overrun_errors)
        .sum();
    assert!(overruns > 500);
    assert_eq!(totals(&star), (6_000 - overruns, 0, 0));
    assert!((1..=2).all(|port| switch.peak_bytes(port, 1) <= 36_000));
}

/// Marks begin at the lower threshold, become more, and are everywhere above the upper one; header checksum and ICRC of
/// marked frames are right.
#[test]
fn congestion_is_marked_by_the_queue() {
    let marks = |min_bytes, max_bytes, probability| {
        let ends = [1, 2, 3].map(|number| {
            let packets = if number == 3 { 0 } else { 3_000 };
            let mut config = sender(number, &[3], &[1], packets, pfc(2));
            config.payload_bytes = (1000, 1000);
            (config, 100)
        });
        let ecn = Some(EcnConfig {
            min_bytes,
            max_bytes,
            probability,
        });
        let mut star = star(
            EthSwitchConfig {
                ecn,
                ..config(3, pfc(2))
            },
            ends.into(),
        );
        assert!(star.net.run(u64::MAX));
        assert_eq!(totals(&star), (6_000, 0, 0));
        let counted = star.net.eth_switch(star.switch).counters(3).unwrap().ecn_marked;
        assert_eq!(star.net.eth_endpoint(star.ends[2]).marked(), counted);
        counted
    };
    // Two senders at line rate into one port: the queue stays near twice the threshold of the pauses.
    assert_eq!(marks(1 << 20, 1 << 21, 1.0), 0);
    let all = marks(0, 1, 1.0);
    let half = marks(0, 80_000, 1.0);
    let few = marks(0, 80_000, 0.1);
    assert!(all > 5_900, "{all}");
    assert!(few * 5 < half && half < all && few > 50, "{few} {half} {all}");
}

/// Unknown addresses and groups go everywhere but back; where cables form a circle, by the ports of a tree.
#[test]
fn unknown_addresses_are_flooded_once() {
    let mut net = Net::new();
    let switches: Vec<_> = (0..3)
        .map(|index| {
            net.add_eth_switch(EthSwitchConfig::new(&format!("sw{index}"), 4))
                .unwrap()
        })
        .collect();
    for index in 0..3 {
        let at = [
            LinkEndAt::EthSwitch(switches[index], 1),
            LinkEndAt::EthSwitch(switches[(index + 1) % 3], 2),
        ];
        net.connect(at, cable(&format!("ring{index}"), 100)).unwrap();
    }
    let mut ends = Vec::new();
    for (number, switch) in (1..).zip(&switches) {
        let unknown = if number == 1 { 99 } else { 1 };
        let packets = if number == 1 { 200 } else { 0 };
        let end = net
            .add_eth_endpoint(sender(number, &[unknown], &[0], packets, pfc(0)))
            .unwrap();
        let at = [LinkEndAt::EthEndpoint(end), LinkEndAt::EthSwitch(*switch, 3)];
        net.connect(at, cable(&format!("end{number}"), 100)).unwrap();
        ends.push(end);
    }
    // The cable between the last switch and the first is not part of the tree.
    for (index, ports) in [[1, 3].as_slice(), &[1, 2, 3], &[2, 3]].into_iter().enumerate() {
        net.eth_switch_mut(switches[index])
            .set_flood_ports(ports.iter().copied())
            .unwrap();
    }
    assert!(net.run(u64::MAX));
    let counts = [1, 2].map(|index: usize| net.eth_endpoint(ends[index]).received(mac(1), mac(99), 0));
    assert!(
        counts
            .iter()
            .all(|count| (count.packets, count.out_of_order) == (200, 0))
    );
    assert_eq!(net.eth_endpoint(ends[0]).received_all().packets, 0);
}

/// Pauses can wait for each other as credits can: a ring with cyclic routes and flow control comes to a stop, and is
/// named; without flow control it drops instead.
#[test]
fn a_ring_of_pauses_deadlocks_and_is_named() {
    for priorities in [0xff, 0] {
        let mut net = Net::new();
        let switches: Vec<_> = (0..4)
            .map(|index| {
                let config = EthSwitchConfig {
                    name: format!("ring{index}"),
                    ..config(3, pfc(priorities))
                };
                net.add_eth_switch(config).unwrap()
            })
            .collect();
        for index in 0..4u8 {
            let here = switches[usize::from(index)];
            let next = switches[usize::from((index + 1) % 4)];
            let at = [LinkEndAt::EthSwitch(here, 1), LinkEndAt::EthSwitch(next, 2)];
            net.connect(at, cable(&format!("ring{index}"), 100)).unwrap();
            let others: Vec<u8> = (0..4)
                .filter(|other| *other != index)
                .map(|other| other + 1)
                .collect();
            let end = net
                .add_eth_endpoint(sender(index + 1, &others, &[3], 3_000, pfc(priorities)))
                .unwrap();
            let at = [LinkEndAt::EthEndpoint(end), LinkEndAt::EthSwitch(here, 3)];
            net.connect(at, cable(&format!("end{index}"), 100)).unwrap();
            for other in 0..4 {
                let port = if other == index { 3 } else { 1 };
                net.eth_switch_mut(here)
                    .set_address(mac(other + 1), port)
                    .unwrap();
            }
        }
        let ended = net.run(u64::MAX);
        assert_eq!(ended, priorities == 0);
        if let Some(deadlock) = net.deadlock() {
            assert_eq!(deadlock.cycle.len(), 4);
            let text = deadlock.to_string();
            assert!(
                text.contains("switch ring2 port 2 priority 3 is paused at port 1"),
                "{text}"
            );
        }
    }
}

/// A judge that is not ours: pause frames are what they should be, marked packets keep a good header checksum.
#[test]
fn tshark_reads_pauses_and_marks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.pcap");
    let ends = [1, 2, 3].map(|number| {
        let packets = if number == 3 { 0 } else { 400 };
        (sender(number, &[3], &[5], packets, pfc(0x20)), 100)
    });
    let ecn = Some(EcnConfig {
        min_bytes: 0,
        max_bytes: 20_000,
        probability: 1.0,
    });
    let mut star = star(
        EthSwitchConfig {
            ecn,
            ..config(3, pfc(0x20))
        },
        ends.into(),
    );
    star.net.stall_eth_endpoint(star.ends[2], 5, 30_000);
    star.net.cables_mut()[2].capture(Tap::Sent, &file).unwrap();
    assert!(star.net.run(u64::MAX));
    star.net.cables_mut()[2].close().unwrap();
    let fields = [
        "macc.opcode",
        "macc.cbfc.enbv",
        "ip.dsfield.ecn",
        "ip.checksum.status",
        "_ws.malformed",
    ];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .args(["-o", "ip.check_checksum:TRUE", "-T", "fields"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split('\t').collect()).collect();
    assert!(rows.iter().all(|row| row[4].is_empty()));
    let pauses = rows
        .iter()
        .filter(|row| row[0] == "0x0101" && row[1] == "0x0020")
        .count();
    let marked = rows.iter().filter(|row| row[2] == "3" && row[3] == "1").count();
    let plain = rows.iter().filter(|row| row[2] == "2" && row[3] == "1").count();
    assert!(pauses >= 2 && marked > 50, "{pauses} pauses, {marked} marked");
    assert_eq!(pauses + marked + plain, rows.len());
    assert_eq!(marked + plain, 800);
}

/// IEEE 802.1AB: bridges tell each other who they are, keep what they hear, and pass none of it on.
#[test]
fn lldp_ends_at_the_next_switch() {
    let mut net = Net::new();
    let speaks = |name: &str| EthSwitchConfig {
        lldp: true,
        ..EthSwitchConfig::new(name, 2)
    };
    let ends = [
        net.add_eth_switch(speaks("leaf")),
        net.add_eth_switch(speaks("spine")),
    ]
    .map(Result::unwrap);
    let silent = net.add_eth_switch(EthSwitchConfig::new("silent", 2)).unwrap();
    let at = |switch, port| LinkEndAt::EthSwitch(switch, port);
    net.connect([at(ends[0], 1), at(ends[1], 1)], cable("a", 100))
        .unwrap();
    net.connect([at(ends[1], 2), at(silent, 1)], cable("b", 100))
        .unwrap();
    const SECOND: u64 = 250_000_000;
    while let Some(at) = net.next_event(true).filter(|at| *at <= 5 * SECOND) {
        net.step(at.max(net.now() + 1), true);
    }
    let now = net.now();
    let name = |net: &mut Net, switch, port| {
        let tlvs = net.eth_switch_mut(switch).neighbour(port, now).to_vec();
        let name = hca_wire::lldp::Tlvs::of(&tlvs)
            .flatten()
            .find(|tlv| tlv.kind == hca_wire::lldp::SYSTEM_NAME);
        name.map(|tlv| String::from_utf8(tlv.value.to_vec()).unwrap())
    };
    assert_eq!(name(&mut net, ends[0], 1).as_deref(), Some("spine"));
    assert_eq!(name(&mut net, ends[1], 1).as_deref(), Some("leaf"));
    assert_eq!(
        name(&mut net, silent, 1).as_deref(),
        Some("spine"),
        "who says nothing hears"
    );
    assert_eq!(name(&mut net, ends[1], 2), None);
    let sent = |net: &Net, switch, port| net.eth_switch(switch).counters(port).unwrap().port_xmit_pkts;
    assert_eq!(
        [
            sent(&net, ends[0], 1),
            sent(&net, ends[1], 2),
            sent(&net, silent, 1)
        ],
        [5, 4, 0]
    );
}
