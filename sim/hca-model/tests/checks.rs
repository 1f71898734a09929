//! What a QP of the model lets in, and when it may go on.

mod common;

use common::{Faults, Pair, QPNS, region};
use hca_model::{
    Access, Atomic, EventKind, Frame, Op, QpState, RecvRequest, SendFlags, SendRequest, Sge, WcStatus,
    example_link,
};
use hca_wire::{Framing, Link, Network};

/// A connection with a region on each side, as keys and addresses.
fn pair(pkeys: [u16; 2]) -> (Pair, [(u32, u64); 2]) {
    let mut pair = Pair::new(3, Faults::default());
    pair.connect(example_link(), |node, config| {
        config.pkey = pkeys[node];
        config.retry_cnt = 1;
    });
    let regions = [0, 1].map(|node| region(&mut pair, node, 4_000));
    (pair, regions)
}

fn send(pair: &mut Pair, [(key, va), (there, there_va)]: [(u32, u64); 2]) -> Vec<WcStatus> {
    let receive = RecvRequest::new(1, vec![Sge::new(there, there_va, 100)]);
    pair.models[1].post_recv(QPNS[1], receive).unwrap();
    let request = SendRequest::new(2, Op::SEND, vec![Sge::new(key, va, 100)]);
    pair.models[0].post_send(QPNS[0], request).unwrap();
    pair.run(2_000);
    pair.completions.iter().flatten().map(|wc| wc.status).collect()
}

/// KEY-14, KEY-15, KEY-17: the vector of partitions; what does not match is silence.
#[test]
fn partitions_match_as_in_the_vector() {
    let [a, b, c, d] = [0x8001, 0x0001, 0x0001, 0x8002];
    for (keys, passes) in [
        ([a, b], true),
        ([a, c], true),
        ([b, c], false),
        ([a, d], false),
        ([d, b], false),
    ] {
        let (mut pair, regions) = pair(keys);
        let found = send(&mut pair, regions);
        let wanted = if passes {
            vec![WcStatus::Success; 2]
        } else {
            vec![WcStatus::RetryExcErr]
        };
        assert_eq!(found, wanted, "{keys:x?}");
    }
}

/// REL-3, QPS-13: what is lost is sent again although a work request behind it has no memory any more, and that one has
/// its turn.
#[test]
fn what_is_in_front_of_a_request_at_fault_is_sent_again() {
    for lost in 0..8 {
        let (mut pair, [(key, va), (there, there_va)]) = pair([0xffff; 2]);
        let mut number = 0;
        pair.drop_packet = Some(Box::new(move |from| {
            number += usize::from(from == 0);
            from == 0 && number == lost + 1
        }));
        for (id, key, len) in [(1, key, 4_000), (2, !key, 100)] {
            let op = Op::Write {
                va: there_va,
                rkey: there,
                imm: None,
            };
            let request = SendRequest {
                flags: SendFlags {
                    signaled: true,
                    ..Default::default()
                },
                ..SendRequest::new(id, op, vec![Sge::new(key, va, len)])
            };
            pair.models[0].post_send(QPNS[0], request).unwrap();
        }
        pair.run(2_000);
        let found: Vec<_> = pair.completions[0]
            .iter()
            .map(|wc| (wc.wr_id, wc.status))
            .collect();
        assert_eq!(
            found,
            [(1, WcStatus::Success), (2, WcStatus::LocProtErr)],
            "packet {lost} of the first is lost"
        );
    }
}

/// QPS-17: a packet of the right QPN and PSN from somebody else is nobody's.
#[test]
fn strangers_are_not_heard() {
    let (mut pair, regions) = pair([0xffff; 2]);
    pair.lie = Some(Box::new(|from, bytes| {
        let mut frame = Frame::parse(Framing::Ethernet, bytes).unwrap();
        if let (
            0,
            Link::Ethernet {
                ip: Network::Ipv4(ip),
                ..
            },
        ) = (from, &mut frame.link)
        {
            ip.src_addr = [10, 0, 0, 9];
        }
        *bytes = frame.emit().unwrap();
    }));
    assert_eq!(send(&mut pair, regions), [WcStatus::RetryExcErr]);
}

/// OP-13: a fenced SEND of what a READ brings carries what it has brought.
#[test]
fn a_fence_waits_for_the_data() {
    let (mut pair, [(here, va), (there, there_va)]) = pair([0xffff; 2]);
    let landing = vec![Sge::new(here, va, 2_000)];
    let receive = RecvRequest::new(1, vec![Sge::new(there, there_va + 2_000, 2_000)]);
    pair.models[1].post_recv(QPNS[1], receive).unwrap();
    let op = Op::Read {
        va: there_va,
        rkey: there,
    };
    pair.models[0]
        .post_send(QPNS[0], SendRequest::new(2, op, landing.clone()))
        .unwrap();
    let flags = SendFlags {
        fence: true,
        ..SendFlags::default()
    };
    let request = SendRequest {
        flags,
        ..SendRequest::new(3, Op::SEND, landing)
    };
    pair.models[0].post_send(QPNS[0], request).unwrap();
    pair.run(2_000);
    assert_eq!(pair.completions[1].len(), 1);
    let bytes = pair.models[1].memory().bytes(there).unwrap();
    assert_eq!(bytes[..2_000], bytes[2_000..]);
}

/// REL-13: an atomic that is not aligned is refused, with its event; everything is flushed (QPS-14).
#[test]
fn an_atomic_must_be_aligned() {
    let (mut pair, [(here, va), (there, _)]) = pair([0xffff; 2]);
    let op = Op::Atomic {
        va: 0x2004,
        rkey: there,
        atomic: Atomic::FetchAdd { add: 1 },
    };
    for wr_id in 0..3 {
        let request = SendRequest::new(wr_id, op, vec![Sge::new(here, va, 8)]);
        pair.models[0].post_send(QPNS[0], request).unwrap();
    }
    pair.models[1]
        .post_recv(QPNS[1], RecvRequest::new(9, Vec::new()))
        .unwrap();
    pair.run(2_000);
    let statuses: Vec<WcStatus> = pair.completions[0].iter().map(|wc| wc.status).collect();
    assert_eq!(
        statuses,
        [WcStatus::RemInvReqErr, WcStatus::WrFlushErr, WcStatus::WrFlushErr]
    );
    assert_eq!(pair.completions[1][0].status, WcStatus::WrFlushErr);
    assert_eq!(pair.models[1].poll_event().unwrap().kind, EventKind::QpAccessErr);
    assert_eq!(
        [0, 1].map(|node: usize| pair.models[node].state(QPNS[node])),
        [Ok(QpState::Err); 2]
    );
}

/// OP-11: a SEND takes a key away before its receive completes; SPEC-4: QPs share a receive queue.
#[test]
fn keys_are_invalidated_and_receives_shared() {
    let mut pair = Pair::new(4, Faults::default());
    pair.connect(example_link(), |_, config| config.receive_queue = 7);
    let target = pair.models[1].register(0, 0, vec![0; 10], Access::ALL);
    let source = pair.models[0].register(0, 0, vec![5; 10], Access::ALL);
    let victim = pair.models[1].register(0, 0, vec![0; 10], Access::ALL);
    for wr_id in [1, 2] {
        let receive = RecvRequest::new(wr_id, vec![Sge::new(target, 0, 10)]);
        pair.models[1].post_recv(QPNS[1], receive).unwrap();
    }
    let op = Op::Send {
        imm: None,
        invalidate: Some(victim),
    };
    let request = SendRequest::new(3, op, vec![Sge::new(source, 0, 10)]);
    pair.models[0].post_send(QPNS[0], request).unwrap();
    pair.run(1_000);
    let wc = pair.completions[1][0];
    assert_eq!(
        (wc.wr_id, wc.status, wc.invalidated),
        (1, WcStatus::Success, Some(victim))
    );
    assert_eq!(pair.models[1].memory().bytes(victim), None);
    // SPEC-8: a QP in ERR leaves what others may take, and says that it is through.
    pair.models[1].fail_qp(QPNS[1]).unwrap();
    assert_eq!(pair.models[1].poll_completion(), None);
    assert_eq!(
        pair.models[1].poll_event().unwrap().kind,
        EventKind::QpLastWqeReached
    );
}
