//! Queues of as many work requests as there may be, 65,536 (V-30, V-111): all of them posted at once, completed,
//! flushed and forgotten, over and over the 17-bit indices of the card.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, connect, path};
use hca_verbs::{
    BadWr, EventKind, Mtu, PostError, QpCap, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr,
    WcStatus, WrData,
};

const ENTRIES: u64 = 1 << 16;
const LEN: u32 = 8;
/// What a node receives goes there.
const TARGET: u64 = 64;
/// One send of so many is signaled.
const SIGNALED: u64 = 64;

const FULL: Result<(), BadWr> = Err(BadWr {
    index: 0,
    error: PostError::RingFull {
        entries: ENTRIES as u32,
    },
});

fn longest(max_wr: u64) -> QpCap {
    QpCap {
        max_send_wr: max_wr as u32,
        max_recv_wr: max_wr as u32,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    }
}

/// QPs of so many entries on both sides.
fn pair(link: LinkKind, max_wr: u64) -> Pair {
    let config = RigConfig {
        cqe: 2 * ENTRIES as u32,
        ..RigConfig::new(65, link)
    };
    let access = [LOCAL_AND_REMOTE; 2];
    Pair::with_cap(&config, &path(Mtu::Bytes1024), 4096, access, longest(max_wr))
}

fn post_recvs(pair: &mut Pair, node: usize, count: u64) {
    let sges = [pair.mrs[node].sge(TARGET, LEN)];
    let wrs: Vec<_> = (0..count).map(|wr_id| RecvWr { wr_id, sges: &sges }).collect();
    pair.qps[node].post_recv(&wrs).unwrap();
}

/// All with one doorbell; one of `SIGNALED`, and the last one, is signaled.
fn post_sends(qp: &mut RawQp<Dev>, op: SendOp, data: WrData<'_>, count: u64) {
    let wr = |wr_id| SendWr {
        wr_id,
        op,
        flags: SendFlags {
            signaled: (wr_id + 1) % SIGNALED == 0 || wr_id + 1 == count,
            ..SendFlags::default()
        },
        data,
    };
    qp.post_send(&(0..count).map(wr).collect::<Vec<_>>()).unwrap();
}

/// Everything that a node posted completes with this status, in order.
fn wait_all(pair: &Pair, node: usize, wr_ids: impl IntoIterator<Item = u64>, status: WcStatus) {
    for wr_id in wr_ids {
        let wc = pair.wait(node);
        assert_eq!((wc.wr_id, wc.status), (wr_id, status), "node {node}");
    }
}

fn signaled() -> impl Iterator<Item = u64> {
    (SIGNALED - 1..ENTRIES).step_by(SIGNALED as usize)
}

/// Both queues of a QP are full, three times: the producer is a whole ring before the consumer with both values of the
/// highest bit, and at the wrap. One more does not fit.
fn fill_three_times(link: LinkKind) {
    let mut pair = pair(link, ENTRIES);
    let device = pair.rig.nodes[0].context.query_device().unwrap();
    assert_eq!(
        (device.max_qp_wr(), device.max_srq_wr()),
        (ENTRIES as u32, ENTRIES as u32)
    );
    assert!(u64::from(device.max_cqe()) >= ENTRIES);
    let source = [pair.mrs[0].sge(0, LEN)];
    let bytes = pair.expected(0, 0, LEN);
    pair.expect(1, TARGET, &bytes);
    let (remote_addr, rkey) = pair.remote(1, TARGET);
    let with_imm = SendOp::RdmaWriteWithImm {
        remote_addr,
        rkey,
        imm_data: 7,
    };
    for op in [SendOp::Send, with_imm, SendOp::Send] {
        post_recvs(&mut pair, 1, ENTRIES);
        assert_eq!(pair.qps[1].post_recv(&[RecvWr { wr_id: 0, sges: &[] }]), FULL);
        post_sends(&mut pair.qps[0], op, WrData::Sges(&source), ENTRIES);
        let one_more = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&source),
        };
        assert_eq!(pair.qps[0].post_send(&[one_more]), FULL);
        wait_all(&pair, 1, 0..ENTRIES, WcStatus::Success);
        wait_all(&pair, 0, signaled(), WcStatus::Success);
    }
    pair.check_memory(&format!("{link:?}"));
    pair.rig.check_idle(1_000_000).unwrap();
}

#[test]
fn full_queues_over_ethernet() {
    fill_three_times(LinkKind::Ethernet);
}

#[test]
fn full_queues_over_infiniband() {
    fill_three_times(LinkKind::InfiniBand);
}

/// The rings that there are are as long as the next power of two; 65,537 is too much for either of them.
#[test]
fn boundaries() {
    let pair = pair(LinkKind::Ethernet, 1);
    let node = &pair.rig.nodes[0];
    for (wanted, granted) in [
        (32_768, 32_768),
        (32_769, 65_536),
        (65_535, 65_536),
        (65_536, 65_536),
    ] {
        let qp = node.create_qp(longest(wanted), false).unwrap();
        assert_eq!(
            (qp.cap().max_send_wr, qp.cap().max_recv_wr),
            (granted, granted),
            "{wanted}"
        );
        assert_eq!(node.pd.create_srq(wanted as u32, 1).unwrap().max_wr(), granted);
    }
    let sends = QpCap {
        max_send_wr: 65_537,
        ..cap()
    };
    let receives = QpCap {
        max_recv_wr: 65_537,
        ..cap()
    };
    assert!(node.create_qp(sends, false).is_err() && node.create_qp(receives, false).is_err());
    assert!(node.pd.create_srq(65_537, 1).is_err());
}

/// QPS-14: full queues are flushed, each WQE once and in order; of full queues in RESET nothing completes. Both begin
/// anew, full again.
#[test]
fn full_queues_are_flushed_and_forgotten() {
    for link in BOTH_LINKS {
        let mut pair = pair(link, ENTRIES);
        let options = path(Mtu::Bytes1024);
        let source = [pair.mrs[0].sge(0, LEN)];
        for (turn, state) in [QpState::Err, QpState::Reset, QpState::Err]
            .into_iter()
            .enumerate()
        {
            // Not all from index 0 of the rings.
            let before = 3 + turn as u64;
            post_recvs(&mut pair, 1, before);
            post_sends(&mut pair.qps[0], SendOp::Send, WrData::Sges(&source), before);
            wait_all(&pair, 1, 0..before, WcStatus::Success);
            wait_all(&pair, 0, [before - 1], WcStatus::Success);
            pair.qps[0].modify_state(QpState::Sqd).unwrap();
            post_sends(&mut pair.qps[0], SendOp::Send, WrData::Sges(&source), ENTRIES);
            post_recvs(&mut pair, 0, ENTRIES);
            post_recvs(&mut pair, 1, ENTRIES);
            for qp in &mut pair.qps {
                qp.modify_state(state).unwrap();
            }
            if state == QpState::Err {
                wait_both(&pair);
                wait_all(&pair, 1, 0..ENTRIES, WcStatus::WrFlushErr);
            }
            for node in 0..2 {
                pair.silent(node, 20_000);
                pair.qps[node].modify_state(QpState::Reset).unwrap();
            }
            connect(&mut pair.qps, &options).unwrap();
        }
        let bytes = pair.expected(0, 0, LEN);
        pair.expect(1, TARGET, &bytes);
        pair.check_traffic(&format!("{link:?}"));
    }
}

/// Both queues of node 0, side by side.
fn wait_both(pair: &Pair) {
    let (mut sent, mut received) = (0, 0);
    while sent + received < 2 * ENTRIES {
        let wc = pair.wait(0);
        let done = if u8::from(wc.opcode) & 0x80 != 0 {
            &mut received
        } else {
            &mut sent
        };
        assert_eq!((wc.wr_id, wc.status), (*done, WcStatus::WrFlushErr));
        *done += 1;
    }
    assert_eq!((sent, received), (ENTRIES, ENTRIES));
}

/// SPEC-4, SPEC-6: a shared queue with all of its 65,536 slots posted, twice; with the highest limit that there is the
/// first message is told of.
#[test]
fn a_full_shared_queue() {
    let mut pair = pair(LinkKind::Ethernet, 1);
    let [a, b] = &pair.rig.nodes;
    let srq = b.pd.create_srq(ENTRIES as u32, 1).unwrap();
    let receiver = QpOptions {
        srq: Some(&srq),
        cap: longest(1),
        ..QpOptions::new(&b.cq, &b.cq)
    };
    let mut qps = [
        a.create_qp(longest(ENTRIES), false).unwrap(),
        b.pd.create_raw_qp(&receiver).unwrap(),
    ];
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let (source, target) = ([pair.mrs[0].sge(0, LEN)], [pair.mrs[1].sge(TARGET, LEN)]);
    let bytes = pair.expected(0, 0, LEN);
    pair.expect(1, TARGET, &bytes);
    assert!(srq.arm_limit(ENTRIES as u32 + 1).is_err(), "more than it holds");
    for turn in 0..3 {
        let wrs = (0..ENTRIES).map(|wr_id| RecvWr { wr_id, sges: &target });
        srq.post_recv_iter(wrs).unwrap();
        assert_eq!(srq.post_recv(&[RecvWr { wr_id: 0, sges: &[] }]), FULL);
        srq.arm_limit(ENTRIES as u32).unwrap();
        assert_eq!(srq.query().unwrap().srq_limit, ENTRIES as u32);
        pair.silent(1, 5_000);
        assert_eq!(pair.rig.nodes[1].context.poll_async_event(), None, "turn {turn}");
        post_sends(&mut qps[0], SendOp::Send, WrData::Sges(&source), ENTRIES);
        wait_all(&pair, 1, 0..ENTRIES, WcStatus::Success);
        wait_all(&pair, 0, signaled(), WcStatus::Success);
        let event = pair.rig.nodes[1].context.poll_async_event().unwrap();
        assert_eq!((event.kind, event.id), (EventKind::SrqLimitReached, srq.srqn()));
        assert_eq!(srq.query().unwrap().srq_limit, 0);
        assert_eq!(srq.free_slots(), ENTRIES as u32);
    }
    pair.check_memory("a shared queue");
    pair.rig.check_idle(1_000_000).unwrap();
}
