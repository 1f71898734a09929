//! Counters that run over: PSNs past 2^24, ring indices past 2^17, many passes of a CQ.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{ConnectOptions, Mtu, QpCap, RecvWr, SendFlags, SendOp, SendWr, WcStatus, WrData};

/// WIRE-21, REL-2: 256 packets of each kind across PSN 2^24, without faults and with packets lost on either side of it.
#[test]
fn psn_crosses_2_to_the_24() {
    const LEN: u32 = 64 << 10;
    for link in BOTH_LINKS {
        for faults in ["", "loss=0.03,reorder=0.02,dup=0.02"] {
            let config = RigConfig {
                faults: faults.parse().unwrap(),
                ..RigConfig::new(24, link)
            };
            let options = ConnectOptions {
                psns: (0xff_fff0, 0xff_ff80),
                ..path(Mtu::Bytes256)
            };
            let mut pair = Pair::new(&config, &options, 4 * u64::from(LEN), [LOCAL_AND_REMOTE; 2]);
            for node in 0..2 {
                let (peer, len) = (1 - node, u64::from(LEN));
                let sent = pair.expected(node, 0, LEN);
                pair.expect(peer, len, &sent);
                pair.expect(peer, 2 * len, &sent);
                let there = pair.expected(peer, 0, LEN);
                pair.expect(node, 3 * len, &there);
                let (source, target) = ([pair.mrs[node].sge(0, LEN)], [pair.mrs[peer].sge(2 * len, LEN)]);
                let landing = [pair.mrs[node].sge(3 * len, LEN)];
                pair.recv(peer, 9, &target);
                pair.post(node, 1, pair.write_to(peer, len), &source);
                pair.post(node, 2, pair.read_from(peer, 0), &landing);
                pair.post(node, 3, SendOp::Send, &source);
                for wr_id in 1..=3 {
                    pair.wait_ok(node, wr_id);
                }
                pair.wait_ok(peer, 9);
            }
            pair.check_memory(&format!("{link:?} {faults}"));
        }
    }
}

/// Rings of 64 entries and a CQ of 256, used for 140,000 messages: every 17-bit index runs over, the CQ's phase toggles
/// hundreds of times, and each completion comes once and in order (OP-18).
#[test]
fn ring_indices_run_over() {
    const MESSAGES: u64 = 140_000;
    const DEPTH: u64 = 64;
    const LEN: u32 = 8;
    let config = RigConfig {
        cqe: 192,
        ..RigConfig::new(16, LinkKind::Ethernet)
    };
    let cap = QpCap {
        max_send_wr: DEPTH as u32,
        max_recv_wr: DEPTH as u32,
        ..QpCap::default()
    };
    let mut pair = Pair::with_cap(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2], cap);
    let (source, target) = ([pair.mrs[0].sge(0, LEN)], [pair.mrs[1].sge(64, LEN)]);
    let bytes = pair.expected(0, 0, LEN);
    pair.expect(1, 64, &bytes);
    let (mut posted, mut sent, mut ready, mut received) = (0, 0, 0, 0);
    let limit_ns = pair.rig.now_ns() + 400_000_000;
    while received < MESSAGES || sent < MESSAGES {
        let recvs = (DEPTH - (ready - received)).min(MESSAGES - ready);
        if recvs >= DEPTH / 2 || (recvs > 0 && ready + recvs == MESSAGES) {
            let wrs = (ready..ready + recvs)
                .map(|wr_id| RecvWr { wr_id, sges: &target })
                .collect::<Vec<_>>();
            pair.qps[1].post_recv(&wrs).unwrap();
            ready += recvs;
        }
        let sends = (DEPTH - (posted - sent)).min(ready.min(MESSAGES) - posted);
        if sends > 0 {
            let flags = SendFlags::SIGNALED;
            let wr = |wr_id| SendWr {
                wr_id,
                op: SendOp::Send,
                flags,
                data: WrData::Sges(&source),
            };
            pair.qps[0]
                .post_send(&(posted..posted + sends).map(wr).collect::<Vec<_>>())
                .unwrap();
            posted += sends;
        }
        for (node, done) in [(0, &mut sent), (1, &mut received)] {
            while let Some(wc) = pair.rig.nodes[node].poll().unwrap() {
                assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, *done), "node {node}");
                *done += 1;
            }
        }
        assert!(
            pair.rig.now_ns() < limit_ns,
            "stuck: {sent} sent, {received} received of {MESSAGES}"
        );
    }
    pair.check_memory("140,000 messages");
    pair.rig.check_idle(1_000_000).unwrap();
}

/// READs to answer lie in a pool of places (17,408 with 1,024 lines), which are given out again when all have been
/// used: 40,000 READs on four QPs at once, each as deep as it may be, in order and with the right bytes.
#[test]
fn places_of_reads_to_answer_are_taken_again() {
    const READS: u64 = 10_000;
    const DEPTH: u64 = 32;
    const LEN: u32 = 8;
    let config = RigConfig {
        cqe: 4 * DEPTH as u32,
        ..RigConfig::new(17, LinkKind::Ethernet)
    };
    let cap = QpCap {
        max_send_wr: DEPTH as u32,
        ..QpCap::default()
    };
    let options = path(Mtu::Bytes1024);
    let mut pair = Pair::new(&config, &options, 4096, [LOCAL_AND_REMOTE; 2]);
    let mut connections = [(); 4].map(|()| pair.more_qps(cap, &options));
    let places = [0, 1, 2, 3].map(|at| (64 * at, 1024 + 64 * at));
    for (from, to) in places {
        let bytes = pair.expected(1, from, LEN);
        pair.expect(0, to, &bytes);
    }
    let (mut posted, mut done) = ([0; 4], [0; 4]);
    let limit_ns = pair.rig.now_ns() + 20_000_000;
    while done != [READS; 4] {
        for (at, [qp, _]) in connections.iter_mut().enumerate() {
            let room = (DEPTH - (posted[at] - done[at])).min(READS - posted[at]);
            let sges = [pair.mrs[0].sge(places[at].1, LEN)];
            let wr = |n| SendWr {
                wr_id: (at as u64) << 32 | n,
                op: pair.read_from(1, places[at].0),
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&sges),
            };
            let wrs: Vec<_> = (posted[at]..posted[at] + room).map(wr).collect();
            qp.post_send(&wrs).unwrap();
            posted[at] += room;
        }
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            let at = (wc.wr_id >> 32) as usize;
            assert_eq!(
                (wc.status, wc.wr_id & 0xffff_ffff),
                (WcStatus::Success, done[at]),
                "QP {at}"
            );
            done[at] += 1;
        }
        assert!(pair.rig.now_ns() < limit_ns, "stuck: {done:?} of {READS} each");
    }
    pair.check_memory("40,000 READs");
    pair.rig.check_idle(1_000_000).unwrap();
}
