//! Shared receive queues (SPEC-4..9, V-100..105): many QPs receive from one list, messages end in any order, limits and
//! last WQEs are told, and no slot is ever lost.

mod common;

use common::many::Bench;
use common::rooms::bad_cable;
use common::{BOTH_LINKS, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, Rng, path};
use hca_verbs::{
    AhAttr, ConnectOptions, Datagram, EventKind, Mtu, QpAttr, QpAttrMask, QpOptions, QpState, RawQp, RecvWr,
    SendFlags, SendOp, SendWr, Service, WcOpcode, WcStatus, WrData,
};
use hca_wire::Opcode;

const MTU: usize = 1024;
const QKEY: u32 = 0x1111_2222;

/// SPEC-4: receives are taken in order by whichever QP needs one.
#[test]
fn many_qps_receive_from_one_queue() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            let mut bench = Bench::on(kind, service, 5, 16);
            bench.post_all(0..16);
            for round in 0..64u64 {
                let qp = (round * 3 % 5) as usize;
                let len = [0, 1, 64, 1000, 1024, 3000][round as usize % 6];
                bench.send(qp, round, 64 * round, len);
                let wc = bench.wait_ok(1);
                assert_eq!((wc.wr_id, wc.byte_len), (round, len), "in the order of the list");
                assert_eq!(wc.qp_num, bench.receivers[qp].qp_num());
                bench.expect(round, 64 * round, len);
                assert_eq!(bench.wait_ok(0).wr_id, round);
                bench.post_all([round + 16]);
            }
            bench.check_memory();
            assert_eq!(bench.srq.free_slots(), 0);
            bench.rig.check_idle(1_000_000).unwrap();
        }
    }
}

/// The same for WRITE with immediate, which takes its receive with the last packet and leaves its buffer alone.
#[test]
fn writes_with_immediate_take_a_receive() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            let mut bench = Bench::on(kind, service, 2, 4);
            bench.post_all([1, 2, 3]);
            let (base, rkey) = (bench.mrs[1].addr(), bench.mrs[1].rkey());
            for (round, len) in [0, 64, 3000].into_iter().enumerate() {
                let sges = [bench.mrs[0].sge(0, len)];
                let op = SendOp::RdmaWriteWithImm {
                    remote_addr: base + (100 << 10),
                    rkey,
                    imm_data: 7,
                };
                let wr = SendWr {
                    wr_id: 9,
                    op,
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&sges),
                };
                bench.senders[round % 2].post_send(&[wr]).unwrap();
                let wc = bench.wait_ok(1);
                assert_eq!((wc.wr_id, wc.byte_len, wc.imm_data), (round as u64 + 1, len, 7));
                assert_eq!(wc.opcode, WcOpcode::RecvRdmaWithImm);
                bench.wait_ok(0);
                bench.expect(25, 0, len);
            }
            bench.check_memory();
            bench.check_slots(0);
        }
    }
}

/// A QP of datagrams in RTS.
fn datagram_qp(bench: &Bench, node: usize) -> RawQp<Dev> {
    let at = &bench.rig.nodes[node];
    let options = QpOptions {
        cap: cap(),
        service: Service::Ud,
        srq: (node == 1).then_some(&bench.srq),
        ..QpOptions::new(&at.cq, &at.cq)
    };
    let mut qp = at.pd.create_raw_qp(&options).unwrap();
    let attr = |qp_state| QpAttr {
        qp_state,
        qkey: QKEY,
        port_num: 1,
        ..QpAttr::default()
    };
    let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
    qp.modify(&attr(QpState::Init), init).unwrap();
    qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE).unwrap();
    qp.modify(&attr(QpState::Rts), QpAttrMask::STATE | QpAttrMask::SQ_PSN)
        .unwrap();
    qp
}

fn send_datagram(bench: &Bench, from: &mut RawQp<Dev>, to: u32, len: u32) {
    let port = bench.rig.nodes[1].context.query_port(1).unwrap();
    let gid = |node: usize| bench.rig.nodes[node].context.query_gid(1, 0).unwrap();
    let attr = AhAttr {
        is_global: true,
        dgid: gid(1),
        dlid: port.lid(),
        dmac: port.mac(),
        ..AhAttr::default()
    };
    let ah = bench.rig.nodes[0].pd.create_ah(&attr).unwrap();
    let sges = [bench.mrs[0].sge(0, len)];
    let wr = SendWr {
        wr_id: 5,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    };
    from.post_send_to([Datagram {
        wr,
        to: ah.to(to, QKEY),
    }])
    .unwrap();
}

/// SPEC-4: datagrams and connections receive from the same queue; without a receive a datagram is lost.
#[test]
fn datagrams_receive_from_the_same_queue() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Rc, 1, 8);
        let mut from = datagram_qp(&bench, 0);
        let to: Vec<_> = (0..3).map(|_| datagram_qp(&bench, 1)).collect();
        send_datagram(&bench, &mut from, to[0].qp_num(), 100);
        bench.wait_ok(0);
        bench.quiet();
        for round in 0..4 {
            bench.post_all([2 * round, 2 * round + 1]);
            let target = &to[round as usize % 3];
            send_datagram(&bench, &mut from, target.qp_num(), 100);
            let wc = bench.wait_ok(1);
            assert_eq!((wc.wr_id, wc.byte_len), (2 * round, 140));
            assert_eq!((wc.qp_num, wc.src_qp), (target.qp_num(), from.qp_num()));
            bench.wait_ok(0);
            bench.send(0, 6, 0, 50);
            assert_eq!(bench.wait_ok(1).wr_id, 2 * round + 1);
            bench.wait_ok(0);
        }
        bench.check_slots(0);
        // LAST_WQE_REACHED of a QP of datagrams.
        let mut to = to;
        to[0].modify_state(QpState::Err).unwrap();
        assert_eq!(bench.event(), (EventKind::QpLastWqeReached, to[0].qp_num()));
        bench.quiet();
    }
}

/// An unfinished message holds its own slot and nobody else up: the others' come and go meanwhile.
#[test]
fn messages_end_in_any_order() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Rc, 3, 4);
        bench.post_all(0..4);
        bench.put(2, Opcode::RcSendFirst, 0, &[1; MTU], None);
        bench.put(1, Opcode::RcSendFirst, 0, &[2; MTU], None);
        bench.rig.run(2_000);
        for round in 0..40u64 {
            bench.send(0, round, 0, 100);
            let wc = bench.wait_ok(1);
            let want = if round < 2 { 2 + round } else { 8 + round };
            assert_eq!(wc.wr_id, want);
            bench.wait_ok(0);
            bench.post_all([10 + round]);
        }
        assert_eq!(bench.srq.free_slots(), 0);
        bench.put(1, Opcode::RcSendLast, 1, &[3; 10], None);
        let wc = bench.wait_ok(1);
        assert_eq!((wc.wr_id, wc.byte_len), (1, MTU as u32 + 10));
        bench.put(2, Opcode::RcSendLast, 1, &[4; 20], None);
        let wc = bench.wait_ok(1);
        assert_eq!((wc.wr_id, wc.byte_len), (0, MTU as u32 + 20));
        bench.check_slots(0);
    }
}

/// An empty queue answers RNR NAK; a receive that comes is found. On UC the message is lost.
#[test]
fn an_empty_queue() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Rc, 2, 4);
        for qp in [0, 1] {
            bench.send(qp, 8, 0, 2000);
            bench.rig.run(20_000);
            assert_eq!(bench.rig.nodes[1].poll().unwrap(), None);
            bench.post(3);
            assert_eq!(bench.wait_ok(1).wr_id, 3);
            bench.expect(3, 0, 2000);
            bench.wait_ok(0);
        }
        bench.check_memory();
        bench.check_slots(1);
        let mut bench = Bench::on(kind, Service::Uc, 2, 4);
        bench.send(0, 8, 0, 2000);
        bench.wait_ok(0);
        bench.quiet();
        bench.post_all([3]);
        bench.send(1, 8, 0, 100);
        assert_eq!(bench.wait_ok(1).wr_id, 3);
        bench.wait_ok(0);
        bench.check_slots(0);
    }
}

/// SPEC-6, V-102, DEFECT-4: armed by a modify, strictly below, once, and 0 then; at once where fewer are posted.
#[test]
fn limits_are_told_once() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Rc, 2, 8);
        bench.post_all(0..6);
        bench.srq.arm_limit(5).unwrap();
        assert_eq!(bench.srq.query().unwrap().srq_limit, 5);
        bench.send(0, 1, 0, 10);
        bench.wait_ok(1);
        bench.wait_ok(0);
        bench.quiet();
        assert_eq!(bench.srq.query().unwrap().srq_limit, 5, "5 are not below 5");
        bench.send(1, 1, 0, 10);
        assert_eq!(bench.event(), (EventKind::SrqLimitReached, bench.srq.srqn()));
        assert_eq!(bench.srq.query().unwrap().srq_limit, 0);
        bench.wait_ok(1);
        bench.wait_ok(0);
        bench.send(0, 1, 0, 10);
        bench.wait_ok(1);
        bench.wait_ok(0);
        bench.quiet();
        // 3 are posted.
        bench.srq.arm_limit(3).unwrap();
        bench.quiet();
        for limit in [4, 8] {
            bench.srq.arm_limit(limit).unwrap();
            assert_eq!(bench.event(), (EventKind::SrqLimitReached, bench.srq.srqn()));
        }
        bench.srq.arm_limit(3).unwrap();
        bench.srq.arm_limit(0).unwrap();
        assert!(bench.srq.arm_limit(9).is_err(), "more than it holds");
        bench.send(0, 1, 0, 10);
        bench.wait_ok(1);
        bench.wait_ok(0);
        bench.quiet();
        bench.check_slots(0);
        // V-104: with an armed limit, and with receives.
        bench.srq.arm_limit(0).unwrap();
        bench.post_all([1, 2]);
        bench.srq.arm_limit(1).unwrap();
        assert!(bench.srq.destroy().is_err(), "QPs use it");
        bench.receivers.clear();
        bench.srq.destroy().unwrap();
        bench.rig.check_idle(1_000_000).unwrap();
    }
}

/// SPEC-8: by hand or by itself, a QP that goes to ERR completes the slot that it holds, then LAST_WQE_REACHED says
/// that nothing more comes; what is posted stays for the others.
#[test]
fn last_wqe_reached_comes_last() {
    for kind in BOTH_LINKS {
        for (service, first, by_hand) in [
            (Service::Rc, Opcode::RcSendFirst, true),
            (Service::Rc, Opcode::RcSendFirst, false),
            (Service::Uc, Opcode::UcSendFirst, true),
        ] {
            let mut bench = Bench::on(kind, service, 3, 8);
            bench.post_all(0..6);
            bench.put(0, first, 0, &[1; MTU], None);
            bench.rig.run(2_000);
            if by_hand {
                bench.receivers[0].modify_state(QpState::Err).unwrap();
            } else {
                // Out of order: the peer has gone mad.
                bench.put(0, Opcode::RcWriteMiddle, 1, &[1; MTU], None);
                assert_eq!(bench.event(), (EventKind::QpReqErr, bench.receivers[0].qp_num()));
            }
            assert_eq!(
                bench.event(),
                (EventKind::QpLastWqeReached, bench.receivers[0].qp_num())
            );
            let wc = bench.rig.nodes[1]
                .poll_ready()
                .unwrap()
                .expect("it is there by then");
            assert_eq!((wc.wr_id, wc.status), (0, WcStatus::WrFlushErr));
            assert_eq!(wc.qp_num, bench.receivers[0].qp_num());
            bench.quiet();
            assert_eq!(bench.state(0), QpState::Err);
            // A QP that holds nothing.
            bench.receivers[1].modify_state(QpState::Err).unwrap();
            assert_eq!(
                bench.event(),
                (EventKind::QpLastWqeReached, bench.receivers[1].qp_num())
            );
            bench.quiet();
            assert_eq!(bench.srq.free_slots(), 3);
            bench.check_slots(2);
        }
    }
}

/// QPS-6, QPS-16: RESET and destroy with a message in progress, in every state; the slot is there again, and no
/// completion is.
#[test]
fn reset_and_destroy_give_the_slot_back() {
    for kind in BOTH_LINKS {
        for (service, first) in [
            (Service::Rc, Opcode::RcSendFirst),
            (Service::Uc, Opcode::UcSendFirst),
        ] {
            for (destroys, errs) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut bench = Bench::on(kind, service, 3, 4);
                bench.post_all(0..3);
                for qp in [0, 1] {
                    bench.put(qp, first, 0, &[1; MTU], None);
                }
                bench.rig.run(2_000);
                assert_eq!(bench.srq.free_slots(), 1);
                for qp in [1, 0] {
                    if errs {
                        bench.receivers[qp].modify_state(QpState::Err).unwrap();
                    }
                    if destroys {
                        bench.receivers[qp].destroy().unwrap();
                    } else {
                        bench.receivers[qp].modify_state(QpState::Reset).unwrap();
                    }
                }
                assert_eq!(bench.srq.free_slots(), 3);
                assert_eq!(bench.rig.nodes[1].poll_ready().unwrap(), None);
                while bench.rig.nodes[1].context.poll_async_event().is_some() {}
                bench.quiet();
                bench.check_slots(2);
                bench.rig.check_idle(1_000_000).unwrap();
            }
        }
    }
}

/// Indices of 17 bits wrap: 132,000 messages over a list of one line (one of many lines: `largest.rs`), and the places
/// in a list of several, again and again.
#[test]
fn the_list_wraps() {
    for (kind, entries, messages) in [
        (LinkKind::Ethernet, 32u32, 132_000),
        (LinkKind::InfiniBand, 256, 10_000),
    ] {
        let mut bench = Bench::on(kind, Service::Rc, 2, entries);
        bench.post_all(0..u64::from(entries));
        let (mut sent, mut received) = ([0u32; 2], 0u64);
        let mut list = vec![
            SendWr {
                wr_id: 0,
                op: SendOp::Send,
                flags: SendFlags::default(),
                data: WrData::Inline(&[]),
            };
            8
        ];
        list[7].flags = SendFlags::SIGNALED;
        let mut under_way = [0u32; 2];
        while received < messages {
            for qp in 0..2 {
                while under_way[qp] < 3 {
                    bench.senders[qp].post_send(&list).unwrap();
                    (sent[qp], under_way[qp]) = (sent[qp] + 8, under_way[qp] + 1);
                }
            }
            let mut again = Vec::new();
            while let Some(wc) = bench.rig.nodes[1].poll().unwrap() {
                assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, received), "in order");
                received += 1;
                again.push(RecvWr {
                    wr_id: received + u64::from(entries) - 1,
                    sges: &[],
                });
            }
            bench.srq.post_recv(&again).unwrap();
            while let Some(wc) = bench.rig.nodes[0].poll_ready().unwrap() {
                assert_eq!(wc.status, WcStatus::Success);
                let qp = bench.senders.iter().position(|qp| qp.qp_num() == wc.qp_num);
                under_way[qp.unwrap()] -= 1;
            }
        }
        assert_eq!(bench.srq.free_slots(), 0);
    }
}

/// Loss, corruption, copies and reorder: every message of every QP arrives once, in its QP's order and in one piece,
/// and the simulator may leave parts alone or not.
#[test]
fn faults_by_seed() {
    for seed in 0..6 {
        let kind = BOTH_LINKS[seed as usize % 2];
        let config = RigConfig {
            faults: bad_cable(),
            ..RigConfig::new(100 + seed, kind)
        };
        let options = ConnectOptions {
            retry_cnt: 7,
            timeout: 6,
            ..path(Mtu::Bytes1024)
        };
        let mut bench = Bench::new(&config, Service::Rc, 6, 8, &options);
        bench.rig.set_jumps(seed < 4);
        let mut rng = Rng::new(seed, "messages");
        (0..8).for_each(|wr_id| bench.post(wr_id));
        let mut places: std::collections::VecDeque<u64> = (8..100).collect();
        let mut sent = vec![std::collections::VecDeque::new(); 6];
        let (mut begun, mut done, mut acked) = (0, 0, 0);
        while done < 150 || acked < begun {
            let qp = rng.below(6) as usize;
            if begun < 150 && sent[qp].len() < 4 {
                let (offset, len) = (u64::from(rng.below(1000)), rng.below(4000));
                bench.send(qp, begun, offset, len);
                sent[qp].push_back((offset, len));
                begun += 1;
            }
            while let Some(wc) = bench.rig.nodes[1].poll().unwrap() {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                let qp = bench.receivers.iter().position(|qp| qp.qp_num() == wc.qp_num);
                let (offset, len) = sent[qp.unwrap()].pop_front().expect("one too many");
                assert_eq!(wc.byte_len, len);
                bench.expect(wc.wr_id, offset, len);
                done += 1;
                places.push_back(wc.wr_id);
                let place = places.pop_front().unwrap();
                bench.post(place);
            }
            while let Some(wc) = bench.rig.nodes[0].poll_ready().unwrap() {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                acked += 1;
            }
        }
        bench.check_memory();
        assert_eq!(bench.srq.free_slots(), 0);
    }
}
