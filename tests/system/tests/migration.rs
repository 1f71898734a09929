//! APM-1 to APM-8: a connection changes to its alternate path when the first one fails, when its peer has, or when it
//! is told to; what is under way is neither lost nor done twice, and who is asked for a path that it has not keeps its
//! own.

mod common;

use std::fs::File;
use std::path::Path;

use common::forge::{self, Forged};
use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_abi::{PathMigState, device_cap, port_cap};
use hca_cosim::Design;
use hca_link::{FaultSpec, LinkKind, erf};
use hca_system_tests::{Dev, RigConfig, SecondCable, path};
use hca_verbs::{
    AhAttr, ConnectOptions, EventKind, Mtu, QpAttr, QpAttrMask, QpState, RawQp, SendOp, Service, WcStatus,
    connect_raw, peer_info,
};
use hca_wire::{ExtHeaders, Framing, Opcode, WholePacket};
use pcap_file::pcap::PcapReader;

const REGION_BYTES: u64 = 256 << 10;
/// The alternate path's own P_Key and timeout.
const PKEY_INDEX: u16 = 3;
const PKEY: u16 = 0x8123;
const TIMEOUT: u8 = 5;

fn ends_soon(kind: LinkKind) -> ConnectOptions {
    ConnectOptions {
        gid_index: (kind == LinkKind::Ethernet).then_some(1),
        timeout: 4,
        retry_cnt: 1,
        ..path(Mtu::Bytes1024)
    }
}

/// Two cards with two ports, and a connection of RC through the first ones.
fn pair_with(kind: LinkKind, faults: FaultSpec) -> Pair {
    pair_of([Design::chosen(); 2], kind, faults)
}

/// The same of some cards.
fn pair_of(designs: [Design; 2], kind: LinkKind, faults: FaultSpec) -> Pair {
    let config = RigConfig {
        designs,
        switches: 0,
        second: Some(SecondCable {
            faults,
            ..SecondCable::new(kind)
        }),
        ..RigConfig::new(170, kind)
    };
    let pair = Pair::new(&config, &ends_soon(kind), REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
    for node in &pair.rig.nodes {
        for port in [1, 2] {
            node.context.set_pkey(port, PKEY_INDEX, PKEY).unwrap();
        }
    }
    pair
}

fn pair(kind: LinkKind) -> Pair {
    pair_with(kind, FaultSpec::default())
}

/// A connection of a service in the place of the one that there was.
fn connect_of(pair: &mut Pair, service: Service, kind: LinkKind) {
    let options = ends_soon(kind);
    let mut qps = [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp_of(service, cap(), false).unwrap());
    let infos = [0, 1].map(|node: usize| peer_info(&qps[node], &options, 0).unwrap());
    connect_raw(&mut qps[0], &options, 0, &infos[1]).unwrap();
    connect_raw(&mut qps[1], &options, 0, &infos[0]).unwrap();
    pair.qps = qps;
}

/// The path of a node's QP to the other through a port.
fn way(pair: &Pair, node: usize, port: u8) -> AhAttr {
    let peer = &pair.rig.nodes[1 - node].context;
    let attr = peer.query_port(port).unwrap();
    let is_global = attr.link_layer() == 2;
    AhAttr {
        dgid: if is_global {
            peer.query_gid(port, 1).unwrap()
        } else {
            [0; 16]
        },
        sgid_index: u8::from(is_global),
        is_global,
        dlid: attr.lid(),
        dmac: if is_global { attr.mac() } else { [0; 6] },
        port_num: port,
        ..AhAttr::default()
    }
}

fn alternate(pair: &Pair, node: usize, port: u8) -> QpAttr {
    QpAttr {
        alt_ah_attr: way(pair, node, port),
        alt_pkey_index: PKEY_INDEX,
        alt_port_num: port,
        alt_timeout: TIMEOUT,
        path_mig_state: PathMigState::Rearm,
        ..QpAttr::default()
    }
}

const LOAD: QpAttrMask =
    QpAttrMask::from_bits(QpAttrMask::ALT_PATH.bits() | QpAttrMask::PATH_MIG_STATE.bits());

fn set_state(qp: &mut RawQp<Dev>, path_mig_state: PathMigState) -> hca_verbs::Result<()> {
    let attr = QpAttr {
        path_mig_state,
        ..QpAttr::default()
    };
    qp.modify(&attr, QpAttrMask::PATH_MIG_STATE)
}

fn states(pair: &Pair) -> [PathMigState; 2] {
    [0, 1].map(|node: usize| pair.qps[node].query().unwrap().path_mig_state)
}

/// A SEND in each direction.
fn exchange(pair: &mut Pair, what: &str) {
    for from in [0, 1] {
        let bytes = pair.expected(from, 0, 3000);
        pair.expect(1 - from, 8192, &bytes);
        let (source, target) = (pair.mrs[from].sge(0, 3000), pair.mrs[1 - from].sge(8192, 3000));
        pair.recv(1 - from, 50, &[target]);
        pair.post(from, 51, SendOp::Send, &[source]);
        pair.wait_ok(from, 51);
        pair.wait_ok(1 - from, 50);
    }
    pair.check_memory(what);
}

/// Both ends have the other port as their alternate path, and know it of each other.
fn arm(pair: &mut Pair, port: u8) {
    for node in 0..2 {
        let attr = alternate(pair, node, port);
        pair.qps[node].modify(&attr, LOAD).unwrap();
    }
    exchange(pair, "the other path is loaded");
    exchange(pair, "and known of");
    assert_eq!(states(pair), [PathMigState::Armed; 2], "APM-3");
}

/// What both ends have been told of their QPs since the last call.
fn told(pair: &mut Pair) -> [Vec<EventKind>; 2] {
    pair.rig.run(5_000);
    [0, 1].map(|node: usize| {
        let context = &pair.rig.nodes[node].context;
        let events = std::iter::from_fn(|| context.poll_async_event());
        let of_port = [
            EventKind::PortErr,
            EventKind::PortActive,
            EventKind::PkeyChange,
            EventKind::CommEst,
        ];
        events
            .map(|event| event.kind)
            .filter(|kind| !of_port.contains(kind))
            .collect()
    })
}

/// APM-5, APM-7: the alternate path is the primary one.
#[track_caller]
fn has_migrated(pair: &Pair, node: usize, port: u8) {
    let now = pair.qps[node].query().unwrap();
    assert_eq!(now.path_mig_state, PathMigState::Migrated, "node {node}");
    assert_eq!((now.port_num, now.pkey_index), (port, PKEY_INDEX), "node {node}");
    assert_eq!(now.ah_attr, way(pair, node, port), "node {node}");
    if pair.qps[node].service() == Service::Rc {
        assert_eq!(now.timeout, TIMEOUT, "node {node}");
    }
}

fn pull(pair: &mut Pair) {
    let cable = pair.rig.cable;
    pair.rig.sim.fabric().cable_mut(cable).plug(false);
}

fn pull_second(pair: &mut Pair) {
    let cable = pair.rig.second.unwrap();
    pair.rig.sim.fabric().cable_mut(cable).plug(false);
}

/// APM-2.
#[test]
fn apm_2_the_card_says_that_it_can() {
    for kind in BOTH_LINKS {
        let pair = pair(kind);
        let context = &pair.rig.nodes[0].context;
        assert!(context.query_device().unwrap().device_cap_flags() & device_cap::AUTO_PATH_MIG != 0);
        assert!(context.query_port(1).unwrap().port_cap_flags() & port_cap::AUTO_MIGR != 0);
    }
}

/// APM-4, QPS-18: what is no path is refused, and nothing changes; a state that there is no way to, too.
#[test]
fn apm_4_what_is_no_path_is_refused() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let right = alternate(&pair, 0, 2);
        let before = pair.qps[0].query().unwrap();
        let mut wrong = vec![
            QpAttr {
                alt_port_num: 3,
                ..right
            },
            QpAttr {
                alt_port_num: 1,
                ..right
            },
            QpAttr {
                alt_pkey_index: 999,
                ..right
            },
            QpAttr {
                alt_timeout: 32,
                ..right
            },
            QpAttr {
                path_mig_state: PathMigState::Armed,
                ..right
            },
        ];
        let other = |change: fn(&mut AhAttr)| {
            let mut attr = right;
            change(&mut attr.alt_ah_attr);
            attr
        };
        wrong.push(other(|ah| ah.sgid_index = 99));
        wrong.push(other(|ah| ah.static_rate = 99));
        wrong.push(match kind {
            LinkKind::Ethernet => other(|ah| ah.is_global = false),
            LinkKind::InfiniBand => other(|ah| ah.dlid = 0),
        });
        for (index, attr) in wrong.iter().enumerate() {
            assert!(pair.qps[0].modify(attr, LOAD).is_err(), "{kind:?}: {index}");
            assert_eq!(pair.qps[0].query().unwrap(), before, "{kind:?}: {index}");
        }
        set_state(&mut pair.qps[0], PathMigState::Rearm).unwrap_err();
        set_state(&mut pair.qps[0], PathMigState::Armed).unwrap_err();
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        pair.qps[0].modify(&right, LOAD).unwrap();
        let now = pair.qps[0].query().unwrap();
        assert_eq!(now.alt_ah_attr, right.alt_ah_attr);
        assert_eq!(
            (now.alt_port_num, now.alt_pkey_index, now.alt_timeout),
            (2, PKEY_INDEX, TIMEOUT)
        );
        assert_eq!(now.path_mig_state, PathMigState::Rearm);
        // APM-3: who takes it back stays on its path.
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        assert_eq!(pair.qps[0].query().unwrap().ah_attr, before.ah_attr);
        exchange(&mut pair, "as before");
        assert_eq!(told(&mut pair), [vec![], vec![]]);
    }
}

/// APM-3: one end alone stays in REARM, and the other end notices nothing.
#[test]
fn apm_3_both_ends_arm_or_none() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            let mut pair = pair(kind);
            connect_of(&mut pair, service, kind);
            let attr = alternate(&pair, 0, 2);
            pair.qps[0].modify(&attr, LOAD).unwrap();
            exchange(&mut pair, "one end");
            assert_eq!(states(&pair), [PathMigState::Rearm, PathMigState::Migrated]);
            arm(&mut pair, 2);
            assert_eq!(told(&mut pair), [vec![], vec![]]);
        }
    }
}

/// APM-5, APM-6, APM-7, APM-8: told to, both ends come to the other path; with another one loaded they come back.
#[test]
fn apm_6_a_migration_is_forced() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            let mut pair = pair(kind);
            connect_of(&mut pair, service, kind);
            for (from, port) in [(0, 2), (1, 1)] {
                arm(&mut pair, port);
                set_state(&mut pair.qps[from], PathMigState::Migrated).unwrap();
                has_migrated(&pair, from, port);
                if service == Service::Uc {
                    // What asks for the path is lost: nobody sends it again.
                    let source = pair.mrs[from].sge(0, 8);
                    pair.post(from, 70, SendOp::Send, &[source]);
                    pair.wait_ok(from, 70);
                    pair.rig.run(20_000);
                }
                exchange(&mut pair, "along the other path");
                has_migrated(&pair, 1 - from, port);
                assert_eq!(
                    told(&mut pair),
                    [vec![EventKind::PathMig], vec![EventKind::PathMig]]
                );
                // APM-5: the path is used up.
                set_state(&mut pair.qps[from], PathMigState::Rearm).unwrap_err();
            }
        }
    }
}

/// APM-7, APM-8: another partition of the same port is another path.
#[test]
fn apm_8_a_partition_is_a_path() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        arm(&mut pair, 1);
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        exchange(&mut pair, "in the other partition");
        for node in 0..2 {
            has_migrated(&pair, node, 1);
            // Of the primary path's partition nobody is any more.
            pair.rig.nodes[node].context.set_pkey(1, 0, 0).unwrap();
        }
        exchange(&mut pair, "in it alone");
        assert_eq!(
            told(&mut pair),
            [vec![EventKind::PathMig], vec![EventKind::PathMig]]
        );
    }
}

/// WRITEs, SENDs and READs in both directions, posted at once.
fn post_all(pair: &mut Pair, messages: u64) {
    for message in 0..messages {
        for from in [0, 1] {
            let to = 1 - from;
            let (len, slot) = (4000, message * 4096);
            let bytes = pair.expected(from, slot, len);
            let target = (64 << 10) + slot;
            let source = [pair.mrs[from].sge(slot, len)];
            match message % 3 {
                0 => {
                    pair.expect(to, target, &bytes);
                    let op = pair.write_to(to, target);
                    pair.post(from, message, op, &source);
                }
                1 => {
                    pair.expect(to, target, &bytes);
                    let sges = [pair.mrs[to].sge(target, len)];
                    pair.recv(to, 1000 + message, &sges);
                    pair.post(from, message, SendOp::Send, &source);
                }
                _ => {
                    let bytes = pair.expected(to, slot, len);
                    let target = (128 << 10) + slot;
                    pair.expect(from, target, &bytes);
                    let op = pair.read_from(to, slot);
                    let sges = [pair.mrs[from].sge(target, len)];
                    pair.post(from, message, op, &sges);
                }
            }
        }
    }
}

/// Each message completes once, in its order.
fn wait_all(pair: &mut Pair, messages: u64) {
    let receives = (0..messages).filter(|message| message % 3 == 1);
    let receives: Vec<u64> = receives.map(|message| 1000 + message).collect();
    for node in [0, 1] {
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for _ in 0..messages as usize + receives.len() {
            let wc = pair.wait(node);
            assert_eq!(wc.status, WcStatus::Success, "node {node}: {wc:?}");
            let list = if wc.wr_id < 1000 { &mut sent } else { &mut received };
            list.push(wc.wr_id);
        }
        assert_eq!(sent, (0..messages).collect::<Vec<_>>(), "node {node}");
        assert_eq!(received, receives, "node {node}");
        assert_eq!(pair.rig.nodes[node].poll().unwrap(), None, "node {node}");
    }
}

/// APM-1, APM-5: the cable is pulled in mid-traffic, and nothing is lost or done twice; nor on a new path that loses
/// packets.
#[test]
fn apm_1_a_cable_is_pulled() {
    for (kind, at) in BOTH_LINKS.into_iter().zip([200, 700]) {
        for (loss, retry_cnt, cycles) in [(0.0, 1, at), (0.02, 5, 900)] {
            let mut pair = pair_with(
                kind,
                FaultSpec {
                    loss,
                    fc_loss: Some(0.0),
                    ..FaultSpec::default()
                },
            );
            let options = ConnectOptions {
                retry_cnt,
                ..ends_soon(kind)
            };
            pair.qps = pair.more_qps(cap(), &options);
            arm(&mut pair, 2);
            post_all(&mut pair, 15);
            pair.rig.run(cycles);
            pull(&mut pair);
            wait_all(&mut pair, 15);
            pair.check_memory("behind the pulled cable");
            for node in 0..2 {
                has_migrated(&pair, node, 2);
            }
            let wanted = [vec![EventKind::PathMig], vec![EventKind::PathMig]];
            assert_eq!(told(&mut pair), wanted, "{kind:?}, {loss}, {cycles}");
        }
    }
}

/// APM-1, APM-3, APM-6: a card and the model's understand each other: whoever loses its path or is told to goes, and
/// the other follows.
#[test]
fn apm_1_cards_of_both_designs_follow_each_other() {
    for designs in [[Design::Rtl, Design::Model], [Design::Model, Design::Rtl]] {
        for kind in BOTH_LINKS {
            let mut pair = pair_of(designs, kind, FaultSpec::default());
            arm(&mut pair, 2);
            set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
            exchange(&mut pair, "behind a migration");
            arm(&mut pair, 1);
            post_all(&mut pair, 9);
            pair.rig.run(300);
            pull_second(&mut pair);
            wait_all(&mut pair, 9);
            pair.check_memory("behind the pulled cable");
            for node in 0..2 {
                has_migrated(&pair, node, 1);
            }
            let both = vec![EventKind::PathMig; 2];
            assert_eq!(told(&mut pair), [both.clone(), both], "{designs:?}, {kind:?}");
        }
    }
}

/// APM-6: an end whose alternate path is another one keeps its own and says so, once; the end that has gone fails.
#[test]
fn apm_6_the_ends_disagree() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        arm(&mut pair, 2);
        let wrong = QpAttr {
            alt_pkey_index: 0,
            ..alternate(&pair, 1, 2)
        };
        pair.qps[1].modify(&wrong, QpAttrMask::ALT_PATH).unwrap();
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        let source = pair.mrs[0].sge(0, 100);
        let op = pair.write_to(1, 9000);
        pair.post(0, 5, op, &[source]);
        assert_eq!(pair.wait(0).status, WcStatus::RetryExcErr);
        assert_eq!(pair.qps[1].query().unwrap().path_mig_state, PathMigState::Armed);
        assert_eq!(pair.qps[1].query().unwrap().port_num, 1);
        assert_eq!(
            told(&mut pair),
            [vec![EventKind::PathMig], vec![EventKind::PathMigErr]]
        );
        pair.check_memory("nothing has been written");
    }
}

/// APM-6, APM-8: a packet with MigReq 1 along the path that there is, or in another partition of it, moves nobody.
#[test]
fn apm_6_strangers_move_nobody() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let dest_qp = pair.qps[1].qp_num();
        let forged = |pair: &Pair, pkey| Forged {
            link: forge::link(0, kind),
            opcode: Opcode::RcSendOnly,
            dest_qp,
            psn: pair.qps[1].query().unwrap().rq_psn + 100,
            pkey,
            ext: ExtHeaders::default(),
            payload: &[],
        };
        arm(&mut pair, 2);
        for pkey in [0xffff, PKEY] {
            let packet = forged(&pair, pkey);
            forge::send_with(&mut pair.rig, 0, true, &packet);
        }
        assert_eq!(told(&mut pair), [vec![], vec![EventKind::PathMigErr]]);
        assert_eq!(states(&pair), [PathMigState::Armed; 2]);
        exchange(&mut pair, "as before");
        // The event stands for all of them, and the path can still be changed.
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        exchange(&mut pair, "along the other path");
        has_migrated(&pair, 1, 2);
        assert_eq!(
            told(&mut pair),
            [vec![EventKind::PathMig], vec![EventKind::PathMig]]
        );
    }
}

/// QPS-6, QPS-13: a QP whose path has failed can be reset, or end: before it changes, while it waits, and behind that.
#[test]
fn apm_1_a_qp_ends_while_it_waits() {
    for (kind, to) in BOTH_LINKS.into_iter().zip([QpState::Reset, QpState::Err]) {
        for cycles in [8_000, 40_000, 60_000] {
            let mut pair = pair(kind);
            arm(&mut pair, 2);
            pull(&mut pair);
            let source = pair.mrs[0].sge(0, 100);
            let op = pair.write_to(1, 9000);
            pair.post(0, 5, op, &[source]);
            pair.rig.run(cycles);
            assert_eq!(
                pair.rig.nodes[0].poll().unwrap(),
                None,
                "{kind:?}: it has not arrived yet"
            );
            pair.qps[0].modify_state(to).unwrap();
            pair.rig.run(20_000);
            let status = pair.rig.nodes[0].poll().unwrap().map(|wc| wc.status);
            let flushed = (to == QpState::Err).then_some(WcStatus::WrFlushErr);
            assert_eq!(status, flushed, "{kind:?}, {cycles}");
            let now = pair.qps[0].query().unwrap();
            assert_eq!(now.qp_state, to);
            if to == QpState::Reset {
                assert_eq!(
                    (now.path_mig_state, now.alt_port_num),
                    (PathMigState::Migrated, 0)
                );
            }
            // It can be connected again, along the path that is left.
            let options = ConnectOptions {
                port_num: 2,
                ..ends_soon(kind)
            };
            pair.qps = pair.more_qps(cap(), &options);
            exchange(&mut pair, "another connection");
        }
    }
}

/// REL-3: both cables are gone. The QP migrates, and its retries end there.
#[test]
fn apm_1_no_path_is_left() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        arm(&mut pair, 2);
        pull(&mut pair);
        let second = pair.rig.second.unwrap();
        pair.rig.sim.fabric().cable_mut(second).plug(false);
        let source = pair.mrs[0].sge(0, 100);
        let op = pair.write_to(1, 9000);
        pair.post(0, 5, op, &[source]);
        assert_eq!(pair.wait(0).status, WcStatus::RetryExcErr);
        let [near, far] = told(&mut pair);
        assert_eq!((near[0], far.len()), (EventKind::PathMig, 0), "{near:?}");
    }
}

/// MigReq of every packet of a cable, from both ends, in its order.
fn mig_reqs(capture: &Path, kind: LinkKind) -> Vec<bool> {
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next_packet() {
        let record = record.unwrap();
        let packet = match kind {
            LinkKind::Ethernet => WholePacket::parse(Framing::Ethernet, &record.data),
            LinkKind::InfiniBand if erf::unwrap_link(&record.data).is_some() => continue,
            LinkKind::InfiniBand => {
                WholePacket::parse(Framing::InfiniBand, erf::unwrap(&record.data).unwrap())
            }
        };
        found.push(packet.unwrap().bth().mig_req);
    }
    found
}

/// APM-3, X-7: MigReq is 1 before the other path is loaded and behind the change, and 0 between.
#[test]
fn apm_3_packets_say_where_a_qp_is() {
    for kind in BOTH_LINKS {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("first.pcap");
        let config = RigConfig {
            switches: 0,
            capture: Some(capture.clone()),
            ..RigConfig::new(171, kind)
        };
        let mut pair = Pair::new(&config, &ends_soon(kind), REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        for node in &pair.rig.nodes {
            node.context.set_pkey(1, PKEY_INDEX, PKEY).unwrap();
        }
        exchange(&mut pair, "as without");
        arm(&mut pair, 1);
        set_state(&mut pair.qps[0], PathMigState::Migrated).unwrap();
        exchange(&mut pair, "in the other partition");
        pair.rig.close_captures().unwrap();
        let found = mig_reqs(&capture, kind);
        let changes = found.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(found[0] && found[found.len() - 1], "{kind:?}: {found:?}");
        assert!(found.iter().any(|mig_req| !mig_req), "{kind:?}: {found:?}");
        // Two ends change one after the other, each time.
        assert!((2..=12).contains(&changes), "{kind:?}: {found:?}");
    }
}
