//! The transport through switches: the same transfers as over a cable, with faults on every cable.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_cosim::{BuiltSwitch, Fabric, Simulation};
use hca_link::{Dir, FaultSpec, LinkKind, Tap};
use hca_system_tests::scenario::{Options, run};
use hca_system_tests::{Node, RigConfig, path};
use hca_topology::Topology;
use hca_verbs::{Mtu, OpVls, SendOp};

/// Random transfers under random faults, the draws of the soak test.
fn seeds(link: LinkKind, switches: u8, seeds: impl Iterator<Item = u64>) {
    let options = Options {
        link: Some(link),
        switches: Some(switches),
        ..Options::default()
    };
    for seed in seeds {
        if let Err(failure) = run(seed, &options) {
            panic!("{failure}");
        }
    }
}

#[test]
fn infiniband_through_one_switch() {
    seeds(LinkKind::InfiniBand, 1, 1..=2);
}

#[test]
fn infiniband_through_two_switches() {
    seeds(LinkKind::InfiniBand, 2, 4..=5);
}

/// Not drawn but all of them at once, on each of the three cables; flow control packets are hit, too.
#[test]
fn infiniband_through_two_switches_with_every_fault() {
    let faults = FaultSpec {
        loss: 0.01,
        dup: 0.01,
        reorder: 0.01,
        corrupt: 0.005,
        pause: 0.002,
        delay_ns: 400,
        fc_loss: Some(0.05),
        fc_corrupt: Some(0.05),
        ..FaultSpec::default()
    };
    let options = Options {
        link: Some(LinkKind::InfiniBand),
        faults: Some(faults),
        switches: Some(2),
        ..Options::default()
    };
    let mut hit = 0;
    for seed in 30..33 {
        match run(seed, &options) {
            Ok(report) => {
                hit += Dir::ALL
                    .iter()
                    .map(|dir| report.cable.dir(*dir).faults.lost)
                    .sum::<u64>()
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(hit > 0, "the cable has lost nothing");
}

#[test]
fn ethernet_through_one_switch() {
    seeds(LinkKind::Ethernet, 1, 7..=8);
}

#[test]
fn ethernet_through_two_switches() {
    seeds(LinkKind::Ethernet, 2, 10..=11);
}

fn pair(link: LinkKind, switches: u8) -> Pair {
    let config = RigConfig {
        switches,
        ..RigConfig::new(1, link)
    };
    Pair::new(&config, &path(Mtu::Bytes2048), 1 << 18, [LOCAL_AND_REMOTE; 2])
}

/// WRITE, SEND and READ of many packets both ways at once; every packet arrives, no switch drops any.
fn both_ways(pair: &mut Pair) {
    const LEN: u32 = 60_000;
    for node in [0usize, 1] {
        let peer = 1 - node;
        let bytes = pair.expected(node, 0, LEN);
        let there = pair.expected(peer, 0, LEN);
        pair.expect(peer, 1 << 16, &bytes);
        pair.expect(peer, 2 << 16, &bytes);
        pair.expect(node, 3 << 16, &there);
    }
    for node in [0usize, 1] {
        let target = [pair.mrs[node].sge(2 << 16, LEN)];
        pair.recv(node, 9, &target);
        let source = [pair.mrs[node].sge(0, LEN)];
        let landing = [pair.mrs[node].sge(3 << 16, LEN)];
        let (write, read) = (pair.write_to(1 - node, 1 << 16), pair.read_from(1 - node, 0));
        pair.post(node, 1, write, &source);
        pair.post(node, 2, SendOp::Send, &source);
        pair.post(node, 3, read, &landing);
    }
    for node in [0, 1] {
        let mut seen: Vec<_> = (0..4).map(|_| pair.wait(node)).collect();
        seen.sort_by_key(|wc| wc.wr_id);
        assert!(seen.iter().all(|wc| wc.is_ok()), "{seen:?}");
        assert_eq!(seen.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1, 2, 3, 9]);
    }
    pair.check_memory("both ways");
}

/// VL-6: what each cable has carried is what the cards have sent, and the switches' counters say the same.
#[test]
fn every_cable_on_the_way_carries_every_packet() {
    for link in BOTH_LINKS {
        let mut pair = pair(link, 2);
        both_ways(&mut pair);
        pair.rig.check_idle(1_000_000).unwrap();
        let fabric = pair.rig.sim.fabric();
        for dir in Dir::ALL {
            let stats = pair
                .rig
                .cables
                .iter()
                .map(|id| *fabric.cable(*id).stats().dir(dir));
            let counts: Vec<_> = stats
                .flat_map(|stats| [stats.sent_packets, stats.delivered_packets])
                .collect();
            assert!(
                counts[0] > 90 && counts.iter().all(|count| *count == counts[0]),
                "{counts:?}"
            );
        }
        for switch in &pair.rig.switches {
            for port in [1, 2] {
                let counters = match switch {
                    BuiltSwitch::InfiniBand(id) => fabric.net().switch(*id).counters(port),
                    BuiltSwitch::Ethernet(id) => fabric.net().eth_switch(*id).counters(port),
                };
                let counters = counters.unwrap();
                let dropped = [
                    counters.port_rcv_errors,
                    counters.port_rcv_switch_relay_errors,
                    counters.port_xmit_discards,
                ];
                assert_eq!(dropped, [0; 3]);
                assert!((91..400).contains(&counters.port_xmit_pkts), "{counters:?}");
            }
        }
    }
}

/// WIRE-17 and the like: packets that a switch has passed on keep a good ICRC and VCRC, as the cards accept them; and a
/// judge that is not ours finds nothing malformed, flow control included.
#[test]
fn tshark_finds_nothing_malformed_behind_a_switch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("second.pcap");
    let mut pair = pair(LinkKind::InfiniBand, 1);
    {
        let mut fabric = pair.rig.sim.fabric();
        let cable = pair.rig.cables[1];
        fabric.capture(cable, Tap::Sent, &file).unwrap();
    }
    both_ways(&mut pair);
    pair.rig
        .sim
        .fabric()
        .cable_mut(pair.rig.cables[1])
        .close()
        .unwrap();
    let output = std::process::Command::new("tshark")
        .arg("-r")
        .arg(&file)
        .args(["-T", "fields", "-e", "erf.types.type", "-e", "_ws.malformed"])
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let data = text.lines().filter(|line| *line == "21\t").count();
    let link = text.lines().filter(|line| *line == "25\t").count();
    assert!(
        data > 180 && link > 10,
        "{data} data packets, {link} link packets"
    );
    assert_eq!(data + link, text.lines().count(), "something is malformed");
}

/// VL-4: a card uses no more data VLs than the switch port it is plugged into has, and maps every SL to one of them.
#[test]
fn a_card_has_as_many_vls_as_its_switch() {
    let card_vls = OpVls::at_most(hca_cosim::DATA_VLS.into()).unwrap();
    for vls in [1, 2, 15] {
        let file = format!(
            r#"
            [defaults]
            kind = "infiniband"
            [[card]]
            [[card]]
            [[switch]]
            vls = {vls}
            [[link]]
            ends = ["card0", "switch0:1"]
            [[link]]
            ends = ["switch0:2", "card1"]
            "#
        );
        let built = Fabric::from_topology(&Topology::parse("vls.toml", &file).unwrap(), 1).unwrap();
        let sim = Simulation::new(built.fabric);
        for card in built.cards {
            let node = Node::open(sim.device(card, 0).unwrap(), 16).unwrap();
            let status = node.context.link_status(1).unwrap();
            assert_eq!(status.built_vls, card_vls);
            assert_eq!(status.op_vls, card_vls.min(OpVls::at_most(vls).unwrap()));
            assert!(status.sl2vl.iter().all(|vl| *vl < status.op_vls.count()));
        }
    }
}
