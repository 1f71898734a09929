//! A slow reader, on the real card: a CQ that overruns says so by event and by every later poll, never by silence.

mod common;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{CqOptions, EventKind, Mtu, QpState, WcStatus};

/// V-57, EVT CQ_ERR: the completion that finds no room is an error in the last entry, behind all good ones; later ones
/// are not written; the CQ and the QPs on it are dead.
#[test]
fn a_cq_that_nobody_reads() {
    const WRITES: u64 = 30;
    let config = RigConfig {
        cqe: 4,
        ..RigConfig::new(57, LinkKind::Ethernet)
    };
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2]);
    let (source, op) = ([pair.mrs[0].sge(0, 8)], pair.write_to(1, 64));
    let bytes = pair.expected(0, 0, 8);
    pair.expect(1, 64, &bytes);
    for wr_id in 0..WRITES {
        pair.post(0, wr_id, op, &source);
    }
    pair.rig.run(20_000);
    let mut statuses = Vec::new();
    while let Ok(Some(wc)) = pair.rig.nodes[0].poll() {
        assert_eq!(wc.wr_id, statuses.len() as u64, "in order, none invented");
        statuses.push(wc.status);
    }
    let good = statuses.len() - 1;
    assert!(
        (4..WRITES as usize).contains(&good),
        "{good} completions fitted into the ring"
    );
    assert_eq!(statuses.pop(), Some(WcStatus::GeneralErr));
    assert!(statuses.iter().all(|status| *status == WcStatus::Success));
    for _ in 0..2 {
        assert!(pair.rig.nodes[0].poll().is_err(), "a dead CQ must not look empty");
    }
    let kinds: Vec<EventKind> = std::iter::from_fn(|| pair.rig.nodes[0].context.poll_async_event())
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, [EventKind::CqErr, EventKind::QpFatal]);
    assert_eq!(pair.qps[0].query().unwrap().qp_state, QpState::Err);
    pair.check_memory("overrun");
}

/// V-63: a CQ grows while completions wait in it and while more come, several times round its rings; none is lost,
/// none comes twice, and all are in order.
#[test]
fn a_cq_grows_in_use() {
    let config = RigConfig {
        cqe: 4,
        ..RigConfig::new(63, LinkKind::InfiniBand)
    };
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2]);
    let (source, op) = ([pair.mrs[0].sge(0, 8)], pair.write_to(1, 64));
    let bytes = pair.expected(0, 0, 8);
    pair.expect(1, 64, &bytes);
    let (mut posted, mut read) = (0, 0);
    for cqe in [3, 9, 40, 40, 50, 200] {
        pair.rig.nodes[0].cq.resize(cqe).unwrap();
        let room = u64::from(pair.rig.nodes[0].cq.cqe());
        assert!(room >= u64::from(cqe));
        // Some wait in the ring, some are on the wire, when it grows the next time.
        for round in 0..7 {
            while posted < read + room.min(30) {
                pair.post(0, posted, op, &source);
                posted += 1;
            }
            pair.rig.run(if round == 6 { 400 } else { 20_000 });
            let keep = if round == 6 { room.min(30) } else { round % 3 };
            while read + keep < posted {
                read += u64::from(pair.wait_ok(0, read).is_ok());
            }
        }
        // V-63: never fewer than there are.
        let refused = pair.rig.nodes[0].cq.resize(1).unwrap_err();
        assert!(refused.to_string().contains("wait in the queue"), "{refused}");
    }
    while read < posted {
        read += u64::from(pair.wait_ok(0, read).is_ok());
    }
    pair.silent(0, 20_000);
    assert!(posted > 200, "{posted} completions");
    assert_eq!(pair.rig.nodes[0].context.poll_async_event(), None);
    pair.check_memory("growing CQ");
}

/// V-58: a CQ with IGNORE_OVERRUN has no error, however many completions nobody reads; its QP works on.
#[test]
fn a_cq_that_ignores_overruns() {
    const WRITES: u64 = 30;
    let mut pair = Pair::new(
        &RigConfig::new(58, LinkKind::Ethernet),
        &path(Mtu::Bytes1024),
        4096,
        [LOCAL_AND_REMOTE; 2],
    );
    let node = &pair.rig.nodes[0];
    let options = CqOptions {
        ignore_overrun: true,
        ..CqOptions::new(4)
    };
    let cq = node.context.create_cq(&options).unwrap();
    pair.connect_into(&cq, &path(Mtu::Bytes1024));
    let source = pair.expected(0, 0, 8 * WRITES as u32);
    for wr_id in 0..WRITES {
        let (op, source) = (pair.write_to(1, 8 * wr_id), pair.mrs[0].sge(8 * wr_id, 8));
        pair.post(0, wr_id, op, &[source]);
    }
    pair.expect(1, 0, &source);
    pair.rig.run(20_000);
    assert_eq!(pair.rig.nodes[0].context.poll_async_event(), None);
    assert_eq!(pair.qps[0].query().unwrap().qp_state, QpState::Rts);
    pair.check_memory("more completions than the ring has entries");
}
