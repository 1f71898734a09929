//! Stages of work requests: each one has all of its own, in order, whatever the cable does to it.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_cosim::{Stamp, StampKind};
use hca_link::LinkKind;
use hca_stages::{Counts, Stage, StageError, StageLog, WorkRecord};
use hca_system_tests::scenario::{Options, run, run_watched};
use hca_system_tests::{RigConfig, connect, path};
use hca_verbs::{CqOptions, Mtu, QpState, SendFlags, SendOp, SendWr, WcStatus, WrData};

/// Pairs of which the first, where both were reached, is never later than the second.
const ORDERED: [(Stage, Stage); 15] = [
    (Stage::Doorbell, Stage::WqeAsked),
    (Stage::WqeAsked, Stage::WqeArrived),
    (Stage::WqeArrived, Stage::EmitFirst),
    (Stage::EmitFirst, Stage::EmitLast),
    (Stage::EmitFirst, Stage::TxFirst),
    (Stage::EmitLast, Stage::TxLast),
    (Stage::TxFirst, Stage::TxLast),
    (Stage::TxFirst, Stage::PeerRxFirst),
    (Stage::PeerRxFirst, Stage::PeerRxLast),
    (Stage::TxLast, Stage::PeerRxLast),
    (Stage::ReplyTxFirst, Stage::ReplyTxLast),
    (Stage::ReplyTxLast, Stage::ReplyRx),
    (Stage::ReplyRx, Stage::Retired),
    (Stage::ReplyRx, Stage::Cqe),
    (Stage::Cqe, Stage::Msix),
];

/// What must hold of the record of a work request that succeeded.
fn check(record: &WorkRecord, what: &str) {
    let what = format!("{what}: {record:?}");
    assert!(record.succeeded(), "{what}");
    assert_eq!(record.missing(), [], "{what}");
    for (before, after) in ORDERED {
        if let (Some(from), Some(to)) = (record.at(before), record.at(after)) {
            assert!(
                from <= to,
                "{} at {from}, {} at {to}; {what}",
                before.name(),
                after.name()
            );
        }
    }
    let mut last = 0;
    for stage in record.chain() {
        let cycle = record.at(stage).unwrap();
        assert!(last <= cycle, "{} too early; {what}", stage.name());
        last = cycle;
    }
    let sum = record.spans().iter().map(|(_, cycles)| cycles).sum::<u64>();
    assert_eq!(Some(sum), record.end_to_end(), "{what}");
}

/// What must hold of a scenario: every work request is recorded, once, whole. Returns packets sent again.
fn check_scenario(seed: u64, options: Options) -> u64 {
    let options = Options {
        stages: 10_000,
        ..options
    };
    let (mut records, mut counts) = (Vec::new(), Counts::default());
    let report = run_watched(seed, &options, |rig| {
        let log = rig.stages.as_ref().unwrap();
        (records, counts) = (log.take(), log.counts());
    })
    .unwrap();
    let wanted = Counts {
        recorded: report.messages,
        ..Counts::default()
    };
    assert_eq!(counts, wanted, "seed {seed}");
    for record in &records {
        check(record, &format!("seed {seed}"));
        assert!(!record.looped);
    }
    let mut names: Vec<_> = records.iter().map(|r| (r.card, r.qpn, r.wqe_index)).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), records.len(), "seed {seed}: a work request twice");
    let bytes = records.iter().map(|r| u64::from(r.bytes)).sum::<u64>();
    assert_eq!(bytes, report.bytes, "seed {seed}");
    records.iter().map(|r| u64::from(r.retransmitted)).sum()
}

/// Several queue pairs, both directions, all faults at once, RoCEv2 between two cards and InfiniBand through a switch:
/// nothing is missing, nothing out of order, nothing twice.
#[test]
fn every_work_request_has_all_its_stages() {
    let all = "loss=0.02,dup=0.02,reorder=0.03,corrupt=0.02,pause=0.01,delay_ns=300,pause_ns=200";
    for (seed, link, switches) in [(3, LinkKind::Ethernet, 0), (4, LinkKind::InfiniBand, 1)] {
        let options = Options {
            link: Some(link),
            faults: Some(all.parse().unwrap()),
            switches: Some(switches),
            upheavals: false,
            services: false,
            ..Options::default()
        };
        let again = check_scenario(seed, options);
        assert!(again > 10, "seed {seed}: {again} packets sent again");
    }
}

/// Whoever watches changes nothing.
#[test]
fn a_watched_run_takes_the_same_cycles() {
    let options = Options {
        hash: true,
        ..Options::default()
    };
    let watched = Options {
        stages: 10,
        ..options.clone()
    };
    assert_eq!(run(2, &options).unwrap(), run(2, &watched).unwrap());
}

fn pair(link: LinkKind, stages: usize) -> Pair {
    let config = RigConfig {
        stages,
        ..RigConfig::new(1, link)
    };
    Pair::new(&config, &path(Mtu::Bytes1024), 64 << 10, [LOCAL_AND_REMOTE; 2])
}

/// The records since the last look, once nothing is under way.
fn records(pair: &mut Pair) -> Vec<WorkRecord> {
    pair.rig.check_idle(40_000_000).unwrap();
    let log = pair.rig.stages.as_ref().unwrap();
    assert_eq!(log.counts().open, 0);
    log.take()
}

/// What both cards' ports have seen of one work request, by the older record of port events that knows no packets.
struct Ports([Vec<Stamp>; 2]);

impl Ports {
    fn first(&self, card: usize, from: u64, is: impl Fn(&StampKind) -> bool) -> Option<u64> {
        let mut stamps = self.0[card].iter();
        stamps
            .find(|stamp| stamp.cycle >= from && is(&stamp.kind))
            .map(|stamp| stamp.cycle)
    }

    fn last(&self, card: usize, is: impl Fn(&StampKind) -> bool) -> Option<u64> {
        let mut stamps = self.0[card].iter().rev();
        stamps.find(|stamp| is(&stamp.kind)).map(|stamp| stamp.cycle)
    }
}

fn is_doorbell(kind: &StampKind) -> bool {
    matches!(kind, StampKind::MmioWrite { addr: 0x1000, .. })
}

fn is_write(kind: &StampKind) -> bool {
    matches!(kind, StampKind::WriteLast { .. })
}

/// One message on idle cards: each stage is the cycle at which the ports saw it.
#[test]
fn stages_are_what_the_ports_saw() {
    for link in BOTH_LINKS {
        let mut pair = pair(link, 10);
        for (wr_id, len) in [(1, 64), (2, 1024), (3, 5000)] {
            // A WQE with seven entries does not ride with its doorbell.
            for (is_read, pieces) in [(false, 1), (true, 1), (false, 7), (true, 7)] {
                let op = if is_read {
                    pair.read_from(1, 32 << 10)
                } else {
                    pair.write_to(1, 0)
                };
                let local = if is_read { 16 << 10 } else { 0 };
                let sges: Vec<_> = (0..pieces)
                    .map(|piece| {
                        let (at, end) = (len / pieces * piece, len / pieces * (piece + 1));
                        let end = if piece + 1 == pieces { len } else { end };
                        pair.mrs[0].sge(local + u64::from(at), end - at)
                    })
                    .collect();
                for card in pair.rig.cards {
                    pair.rig.sim.fabric().card_mut(card).record_stamps(10_000);
                }
                pair.post(0, wr_id, op, &sges);
                pair.wait_ok(0, wr_id);
                let records = records(&mut pair);
                let [record] = &records[..] else {
                    panic!("{records:?}")
                };
                check(record, &format!("{link:?} {len}"));
                assert_eq!(record.pushed, pieces == 1);
                let cards = pair.rig.cards;
                let ports = Ports(cards.map(|card| pair.rig.sim.fabric().card_mut(card).take_stamps()));
                compare(record, &ports, is_read);
                assert_eq!(
                    (record.packets, record.retransmitted),
                    (if is_read { 1 } else { len.div_ceil(1024) }, 0)
                );
            }
        }
    }
}

/// A record and what the ports saw, with card 1 as the peer.
fn compare(record: &WorkRecord, ports: &Ports, is_read: bool) {
    let doorbell = ports.first(0, 0, is_doorbell);
    let asked = ports.first(0, doorbell.unwrap(), |kind| {
        matches!(kind, StampKind::ReadRequest { .. })
    });
    let arrived = ports.first(0, asked.unwrap(), |kind| {
        matches!(kind, StampKind::ReadLast { .. })
    });
    let mut wanted = vec![
        (Stage::Doorbell, doorbell),
        (Stage::WqeAsked, asked.filter(|_| !record.pushed)),
        (Stage::WqeArrived, arrived.filter(|_| !record.pushed)),
        (
            Stage::TxFirst,
            ports.first(0, 0, |kind| *kind == StampKind::TxFirst),
        ),
        (
            Stage::PeerRxFirst,
            ports.first(1, 0, |kind| *kind == StampKind::RxFirst),
        ),
        (Stage::ReplyRx, ports.last(0, |kind| *kind == StampKind::RxLast)),
        (Stage::Cqe, ports.last(0, is_write)),
        (Stage::Msix, None),
    ];
    if is_read {
        wanted.push((
            Stage::ReplyTxFirst,
            ports.first(1, 0, |kind| *kind == StampKind::TxFirst),
        ));
        wanted.push((
            Stage::ReplyTxLast,
            ports.last(1, |kind| *kind == StampKind::TxLast),
        ));
    } else {
        wanted.push((Stage::TxLast, ports.last(0, |kind| *kind == StampKind::TxLast)));
        wanted.push((
            Stage::PeerRxLast,
            ports.last(1, |kind| *kind == StampKind::RxLast),
        ));
        wanted.push((Stage::Placed, ports.last(1, is_write)));
    }
    for (stage, cycle) in wanted {
        assert_eq!(
            record.at(stage),
            cycle,
            "{}; {record:?}; {:?}",
            stage.name(),
            ports.0
        );
    }
    // The completion is the last write; the data of a READ the last before it.
    if is_read {
        let before = ports.0[0]
            .iter()
            .rev()
            .filter(|stamp| is_write(&stamp.kind))
            .nth(1);
        assert_eq!(record.at(Stage::Placed), before.map(|stamp| stamp.cycle));
    }
}

/// An interrupt belongs to the completion that it announces.
#[test]
fn an_interrupt_is_a_stage() {
    let mut pair = pair(LinkKind::Ethernet, 100);
    let options = path(Mtu::Bytes1024);
    let node = &pair.rig.nodes[0];
    let channel = node.context.create_comp_channel();
    let cq = node
        .context
        .create_cq(&CqOptions::with_channel(64, &channel))
        .unwrap();
    pair.connect_into(&cq, &options);
    for armed in [false, true] {
        if armed {
            cq.req_notify(false).unwrap();
            pair.rig.run(1_000);
        }
        pair.post(0, 1, pair.write_to(1, 0), &[pair.mrs[0].sge(0, 100)]);
        pair.rig.run(20_000);
        let mut wcs = [Default::default(); 1];
        cq.poll_all(&mut wcs, pair.rig.now_ns()).unwrap();
        let records = records(&mut pair);
        let [record] = &records[..] else {
            panic!("{records:?}")
        };
        check(record, "interrupt");
        assert_eq!(record.at(Stage::Msix).is_some(), armed, "{record:?}");
    }
}

/// Bounded: what does not fit is counted, and what fits is whole.
#[test]
fn capacity_is_kept() {
    let mut pair = pair(LinkKind::Ethernet, 4);
    for wr_id in 0..6 {
        pair.post(0, wr_id, pair.write_to(1, 0), &[pair.mrs[0].sge(0, 100)]);
        pair.wait_ok(0, wr_id);
    }
    let kept = records(&mut pair);
    let indices: Vec<_> = kept.iter().map(|record| record.wqe_index).collect();
    assert_eq!(indices, [2, 3, 4, 5], "the newest");
    let log = pair.rig.stages.as_ref().unwrap();
    assert_eq!((log.counts().recorded, log.counts().overflow), (6, 2));
    // Ten at once: four are recorded while they are under way.
    let sges = [pair.mrs[0].sge(0, 100)];
    let wrs: Vec<_> = (0..10)
        .map(|wr_id| SendWr {
            wr_id,
            op: pair.write_to(1, 0),
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        })
        .collect();
    pair.qps[0].post_send(&wrs).unwrap();
    for wr_id in 0..10 {
        pair.wait_ok(0, wr_id);
    }
    let kept = records(&mut pair);
    assert_eq!(kept.len(), 4);
    kept.iter().for_each(|record| check(record, "one of many"));
    let counts = pair.rig.stages.as_ref().unwrap().counts();
    assert_eq!((counts.recorded, counts.overflow, counts.open), (10, 2 + 6, 0));
}

/// A refused work request and those behind it are over, without the stages that they did not reach.
#[test]
fn failures_end_records_too() {
    let mut pair = pair(LinkKind::Ethernet, 100);
    let (remote_addr, rkey) = pair.remote(1, 0);
    let bad = SendOp::RdmaWrite {
        remote_addr,
        rkey: rkey ^ 1,
    };
    let sges = [pair.mrs[0].sge(0, 100)];
    let good = pair.write_to(1, 0);
    // The bad one is unsignaled: it gets a completion all the same.
    let wrs: Vec<_> = [good, bad, good]
        .into_iter()
        .zip(0..)
        .map(|(op, wr_id)| SendWr {
            wr_id,
            op,
            flags: SendFlags {
                signaled: wr_id != 1,
                ..SendFlags::default()
            },
            data: WrData::Sges(&sges),
        })
        .collect();
    pair.qps[0].post_send(&wrs).unwrap();
    let statuses: Vec<_> = (0..3).map(|_| pair.wait(0).status).collect();
    assert_eq!(
        statuses,
        [WcStatus::Success, WcStatus::RemAccessErr, WcStatus::WrFlushErr]
    );
    let records = records(&mut pair);
    check(&records[0], "before the bad one");
    for (record, status) in records.iter().zip(statuses) {
        assert_eq!(record.status, Some(status as u8));
    }
    assert!(
        !records[1].succeeded() && records[1].missing().contains(&Stage::ReplyRx),
        "{:?}",
        records[1]
    );
    assert_eq!(records[1].at(Stage::Placed), None, "nothing was written");
}

/// A queue that is taken away takes its records with it.
#[test]
fn what_is_given_up_is_counted() {
    let mut pair = pair(LinkKind::Ethernet, 100);
    let sges = [pair.mrs[0].sge(0, 100)];
    pair.qps[1].modify_state(QpState::Reset).unwrap();
    pair.post(0, 1, pair.write_to(1, 0), &sges);
    pair.rig.run(2_000);
    assert_eq!(pair.rig.stages.as_ref().unwrap().counts().open, 1);
    pair.qps[0].modify_state(QpState::Reset).unwrap();
    assert_eq!(records(&mut pair), []);
    assert_eq!(pair.rig.stages.as_ref().unwrap().counts().abandoned, 1);
}

/// Between two queue pairs of one card nothing is on the wire; what is left of the stages is whole, also beside
/// packets with the same numbers that do leave.
#[test]
fn loopback_has_no_wire() {
    for link in BOTH_LINKS {
        let mut pair = pair(link, 1000);
        let node = &pair.rig.nodes[0];
        let mut own = [0, 1].map(|_| node.create_qp(cap(), false).unwrap());
        connect(&mut own, &path(Mtu::Bytes1024)).unwrap();
        for round in 0..6u64 {
            let sges = [pair.mrs[0].sge(0, 3000)];
            let (far, near) = (pair.write_to(1, 8192), pair.read_from(0, 8192));
            pair.post(0, 10 + round, far, &sges);
            let target = [pair.mrs[0].sge(32 << 10, 3000)];
            let looped = if round % 2 == 0 {
                near
            } else {
                pair.write_to(0, 16 << 10)
            };
            own[0]
                .post_send(&[SendWr {
                    wr_id: 20 + round,
                    op: looped,
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(if round % 2 == 0 { &target } else { &sges }),
                }])
                .unwrap();
        }
        for _ in 0..12 {
            assert!(pair.wait(0).is_ok());
        }
        let records = records(&mut pair);
        for record in &records {
            check(record, &format!("{link:?}"));
            assert_eq!(record.looped, record.qpn == own[0].qp_num(), "{record:?}");
        }
        assert_eq!(records.len(), 12);
    }
}

/// Recording has to begin with the cards.
#[test]
fn a_late_start_is_refused() {
    let pair = pair(LinkKind::Ethernet, 0);
    let mut fabric = pair.rig.sim.fabric();
    let now = fabric.now();
    assert_eq!(
        StageLog::attach(&mut fabric, 10).err(),
        Some(StageError::Late(now))
    );
}
