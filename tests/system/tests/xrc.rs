//! Extended reliable connections (SPEC-3, XPORT-6; IBA annex A14): one pair of QPs reaches every SRQ of a domain, with
//! all that a reliable connection can do.

mod common;

use std::collections::VecDeque;

use common::rooms::{ROOM, bad_cable};
use common::xrc::Bench;
use common::{BASES, BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE};
use hca_system_tests::{Dev, Place, RigConfig, Rng, path};
use hca_verbs::{
    Access, ConnectOptions, Error, EventKind, Flush, Mtu, MwBind, MwType, QpState, RawQp, RecvWr, SendFlags,
    SendOp, SendWr, Service, WcOpcode, WcStatus, WorkCompletion, WrData,
};

/// Regions begin so many bytes before a multiple of 8.
const TO_WORD: u64 = 8 - CANARY_BYTES % 8;

/// SPEC-3: each message goes to the SRQ that it names, and completes in that SRQ's CQ.
#[test]
fn one_connection_reaches_every_srq() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 1, 3);
        for round in 0..60u64 {
            let srq = (round * 7 % 3) as usize;
            let len = [0, 1, 64, 1000, 1024, 3000][round as usize % 6];
            bench.post(srq, round);
            bench.rig.run(600);
            bench.send(0, srq, 100 + round, 64 * round, len);
            let wc = bench.wait_recv(srq);
            assert_eq!(
                (wc.status, wc.wr_id, wc.byte_len),
                (WcStatus::Success, round, len)
            );
            assert_eq!(
                (wc.opcode, wc.qp_num),
                (WcOpcode::Recv, bench.targets[0].qp_num())
            );
            bench.expect(round, 64 * round, len);
            assert_eq!(bench.wait_sent().wr_id, 100 + round);
        }
        bench.check_memory();
        bench.rig.check_idle(1_000_000).unwrap();
    }
}

/// XPORT-6: all operations of RC; what takes a receive takes it from the SRQ that it names.
#[test]
fn every_operation() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 1, 2);
        let (base, rkey) = (bench.mrs[1].addr(), bench.mrs[1].rkey());
        for (round, len) in [0u32, 1, 1000, 1024, 5000].into_iter().enumerate() {
            let (srq, at) = (round % 2, 8192 * round as u64);
            let number = bench.number(srq);
            let remote_addr = base + at;
            bench.send_to(0, number, 1, SendOp::RdmaWrite { remote_addr, rkey }, at, len);
            bench.wait_sent_ok(1);
            bench.expect(at / ROOM, at, len);
            // What node 1 has there comes back to another place.
            let back = (300 << 10) + at;
            bench.send_to(0, number, 2, SendOp::RdmaRead { remote_addr, rkey }, back, len);
            let wc = bench.wait_sent_ok(2);
            assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::RdmaRead, len));
            let bytes = bench.memory[1].expected(CANARY_BYTES + at, len).to_vec();
            bench.memory[0].expect(CANARY_BYTES + back, &bytes);
            let imm_data = 0x1234_0000 + len;
            for (op, opcode, place) in [
                (
                    SendOp::SendWithImm { imm_data },
                    WcOpcode::Recv,
                    60 + round as u64,
                ),
                (
                    SendOp::RdmaWriteWithImm {
                        remote_addr: base + 70 * ROOM,
                        rkey,
                        imm_data,
                    },
                    WcOpcode::RecvRdmaWithImm,
                    70,
                ),
            ] {
                let len = len.min(ROOM as u32);
                bench.post(srq, 60 + round as u64);
                bench.rig.run(600);
                bench.send_to(0, number, 3, op, at, len);
                let wc = bench.wait_recv(srq);
                assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, 60 + round as u64));
                assert_eq!((wc.opcode, wc.byte_len, wc.imm_data), (opcode, len, imm_data));
                bench.wait_sent_ok(3);
                bench.expect(place, at, len);
            }
        }
        atomics(&mut bench, base + 90 * ROOM + TO_WORD, rkey);
        bench.check_memory();
        bench.quiet();
    }
}

fn atomics(bench: &mut Bench, remote_addr: u64, rkey: u32) {
    let (place, back) = (CANARY_BYTES + 90 * ROOM + TO_WORD, 500 << 10);
    let before = u64::from_le_bytes(bench.memory[1].expected(place, 8).try_into().unwrap());
    let (add, swap) = (0x1_0000_0001, 77);
    let sum = before.wrapping_add(add);
    for (op, opcode, found, then) in [
        (
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
            },
            WcOpcode::FetchAdd,
            before,
            sum,
        ),
        (
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: before,
                swap: 1,
            },
            WcOpcode::CompSwap,
            sum,
            sum,
        ),
        (
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: sum,
                swap,
            },
            WcOpcode::CompSwap,
            sum,
            swap,
        ),
        // OP-9: what runs over in the lowest byte does not reach the next. OP-8: the rest of the word differs.
        (
            SendOp::MaskedAtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 0x02ff,
                boundaries: 0x80,
            },
            WcOpcode::MaskedFetchAdd,
            swap,
            swap - 1 + 0x200,
        ),
        (
            SendOp::MaskedAtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare: !0xff | (swap - 1),
                swap: 0x5555_5555,
                compare_mask: 0xff,
                swap_mask: 0xf_0000,
            },
            WcOpcode::MaskedCompSwap,
            swap - 1 + 0x200,
            swap - 1 + 0x200 + 0x5_0000,
        ),
    ] {
        let number = bench.number(1);
        bench.send_to(0, number, 4, op, back, 8);
        assert_eq!(bench.wait_sent_ok(4).opcode, opcode);
        bench.memory[0].expect(CANARY_BYTES + back, &found.to_le_bytes());
        bench.memory[1].expect(place, &then.to_le_bytes());
        bench.check_memory();
    }
    let (number, op) = (bench.number(1), SendOp::AtomicWrite { remote_addr, rkey });
    let bytes = bench.memory[0].expected(CANARY_BYTES, 8).to_vec();
    bench.send_to(0, number, 5, op, 0, 8);
    assert_eq!(bench.wait_sent_ok(5).opcode, WcOpcode::AtomicWrite);
    bench.memory[1].expect(place, &bytes);
    bench.check_memory();
}

fn operations(bench: &Bench) -> [SendOp; 6] {
    let (remote_addr, rkey) = (bench.mrs[1].addr(), bench.mrs[1].rkey());
    [
        SendOp::Send,
        SendOp::RdmaWrite { remote_addr, rkey },
        SendOp::RdmaRead { remote_addr, rkey },
        SendOp::AtomicFetchAndAdd {
            remote_addr,
            rkey,
            add: 1,
        },
        SendOp::AtomicWrite { remote_addr, rkey },
        SendOp::Flush(Flush {
            remote_addr,
            rkey,
            length: 8,
            placement: Flush::GLOBAL,
            whole_region: false,
        }),
    ]
}

/// Every kind of request in the name of an SRQ that the target does not have ends the connection, and nothing else.
fn refused(kind: hca_link::LinkKind, event: EventKind, name: impl Fn(&mut Bench) -> u32) {
    for which in 0..6 {
        let mut bench = Bench::on(kind, 2, 1);
        let op = operations(&bench)[which];
        let number = name(&mut bench);
        bench.post(0, 0);
        bench.rig.run(600);
        bench.send_to(0, number, 9, op, 0, 8);
        let wc = bench.wait_sent();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::RemInvRdReqErr, 9), "{op:?}");
        assert_eq!(bench.event(), (event, bench.targets[0].qp_num()));
        assert_eq!(bench.state(0), QpState::Err);
        bench.check_memory();
        bench.quiet();
        // The other connection goes on, with the receive that nobody has taken.
        bench.send(1, 0, 3, 0, 100);
        assert_eq!(bench.wait_recv(0).wr_id, 0);
        bench.wait_sent_ok(3);
    }
}

/// A14: a number that is no SRQ's, one that was, and one of an SRQ that peers cannot name.
#[test]
fn no_such_srq_is_an_invalid_request() {
    for kind in BOTH_LINKS {
        refused(kind, EventKind::QpReqErr, |_| 0xff_ffff);
        refused(kind, EventKind::QpReqErr, |bench| bench.number(0) + 1);
        // Its line is used again, its number is not.
        refused(kind, EventKind::QpReqErr, |bench| {
            bench.add_srq();
            let (old, line) = (bench.number(1), bench.srqs[1].0.srqn());
            bench.srqs.pop().unwrap().0.destroy().unwrap();
            while bench.srqs.last().unwrap().0.srqn() != line {
                bench.add_srq();
            }
            assert_ne!(bench.srqs.pop().unwrap().0.number(), Some(old));
            bench.srqs.truncate(1);
            old
        });
        refused(kind, EventKind::QpReqErr, |bench| {
            let srq = bench.rig.nodes[1].pd.create_srq(4, 1).unwrap();
            let number = srq.srqn();
            bench.others.push(srq);
            number
        });
    }
}

/// SPEC-3: the domain limits which SRQs a message may address.
#[test]
fn an_srq_of_another_domain_is_a_violation() {
    for kind in BOTH_LINKS {
        refused(kind, EventKind::QpAccessErr, |bench| {
            let node = &bench.rig.nodes[1];
            let other = node.context.alloc_xrcd().unwrap();
            let srq = node.pd.create_xrc_srq(&other, &node.cq, 4, 1).unwrap();
            let number = srq.number().unwrap();
            bench.others.push(srq);
            number
        });
    }
}

/// Isolation: an SRQ of another function is no SRQ, whatever its number, and hears nothing of it.
#[test]
fn an_srq_of_another_function_is_out_of_reach() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 1, 1);
        let device = bench.rig.sim.device(bench.rig.cards[1], 1).unwrap();
        let other = hca_system_tests::Node::open(device, 64).unwrap();
        let domain = other.context.alloc_xrcd().unwrap();
        let srq = other.pd.create_xrc_srq(&domain, &other.cq, 4, 1).unwrap();
        srq.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
        bench.rig.run(2_000);
        bench.send_to(0, srq.number().unwrap(), 9, SendOp::Send, 0, 0);
        assert_eq!(bench.wait_sent().status, WcStatus::RemInvRdReqErr);
        assert_eq!(bench.event(), (EventKind::QpReqErr, bench.targets[0].qp_num()));
        bench.quiet();
        assert_eq!(other.poll().unwrap(), None);
        assert_eq!(other.context.poll_async_event(), None);
        assert_eq!(srq.free_slots(), srq.max_wr() - 1);
    }
}

/// A14: targets have no PD. Keys are held against that of the SRQ that the request names.
#[test]
fn keys_are_of_the_srqs_domain() {
    for kind in BOTH_LINKS {
        for which in 1..4 {
            let mut bench = Bench::on(kind, 1, 1);
            let node = &bench.rig.nodes[1];
            let pd = node.context.alloc_pd().unwrap();
            let place = Place {
                offset: CANARY_BYTES,
                len: 8192,
                ..Place::whole(
                    bench.memory[1].buf(),
                    LOCAL_AND_REMOTE | hca_verbs::Access::REMOTE_ATOMIC,
                    BASES[1],
                )
            };
            let mr = node.register_in(&pd, bench.memory[1].buf(), place).unwrap();
            let srq = pd.create_xrc_srq(&bench.xrcd, &node.cq, 4, 1).unwrap();
            let (remote_addr, rkey) = (mr.addr(), mr.rkey());
            let op = match operations(&bench)[which] {
                SendOp::RdmaWrite { .. } => SendOp::RdmaWrite { remote_addr, rkey },
                SendOp::RdmaRead { .. } => SendOp::RdmaRead { remote_addr, rkey },
                _ => SendOp::AtomicFetchAndAdd {
                    remote_addr: remote_addr + TO_WORD,
                    rkey,
                    add: 0,
                },
            };
            bench.send_to(0, srq.number().unwrap(), 1, op, 64, 8);
            bench.wait_sent_ok(1);
            let number = bench.number(0);
            bench.send_to(0, number, 2, op, 64, 8);
            assert_eq!(bench.wait_sent().status, WcStatus::RemAccessErr, "{op:?}");
            assert_eq!(bench.event(), (EventKind::QpAccessErr, bench.targets[0].qp_num()));
        }
    }
}

/// SPEC-6, REL-11: an empty SRQ answers RNR NAK, one with a limit tells it; the others of the connection's SRQs do not
/// matter.
#[test]
fn empty_queues_and_limits() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 2, 2);
        for wr_id in 0..4 {
            bench.post(1, wr_id);
        }
        bench.rig.run(1_000);
        bench.srqs[1].0.arm_limit(3).unwrap();
        bench.send(0, 0, 7, 0, 2000);
        for n in 0..2 {
            bench.send(1, 1, 20 + n, 0, 100);
            assert_eq!(bench.wait_recv(1).wr_id, n);
            bench.wait_sent_ok(20 + n);
        }
        assert_eq!(
            bench.event(),
            (EventKind::SrqLimitReached, bench.srqs[1].0.srqn())
        );
        bench.quiet();
        bench.post(0, 9);
        assert_eq!(bench.wait_recv(0).wr_id, 9);
        bench.wait_sent_ok(7);
        assert_eq!(bench.state(0), QpState::Rts);
    }
}

/// REL-8: a peer that will not wait for a receive ends with RNR_RETRY_EXC; the target lives.
#[test]
fn an_empty_queue_for_too_long() {
    for kind in BOTH_LINKS {
        let options = ConnectOptions {
            rnr_retry: 2,
            ..path(Mtu::Bytes1024)
        };
        let mut bench = Bench::new(&RigConfig::new(74, kind), 1, 1, &options);
        bench.send(0, 0, 7, 0, 10);
        assert_eq!(bench.wait_sent().status, WcStatus::RnrRetryExcErr);
        assert_eq!(bench.state(0), QpState::Rts);
        bench.quiet();
    }
}

/// A message under way holds its receive. When the target leaves, it comes back flushed, in the SRQ's CQ.
#[test]
fn a_message_under_way_gives_its_receive_back() {
    for kind in BOTH_LINKS {
        for leave in 0..3 {
            let mut bench = Bench::on(kind, 1, 2);
            bench.post(1, 5);
            bench.rig.run(600);
            bench.put(0, hca_wire::Opcode::XrcSendFirst, 0, bench.number(1), &[1; 1024]);
            bench.quiet();
            match leave {
                0 => bench.targets[0].modify_state(QpState::Err).unwrap(),
                1 => bench.targets[0].modify_state(QpState::Reset).unwrap(),
                _ => bench.targets[0].destroy().unwrap(),
            }
            let wc = bench.wait_recv(1);
            assert_eq!((wc.status, wc.wr_id), (WcStatus::WrFlushErr, 5), "{leave}");
            assert_eq!(bench.srqs[1].0.free_slots(), bench.srqs[1].0.max_wr());
            bench.quiet();
        }
    }
}

/// Packets that no initiator sends: the SRQ changes inside a message, an SRQ that has gone meanwhile, requests to an
/// initiator, answers to a target.
#[test]
fn packets_by_hand() {
    use hca_wire::Opcode::{XrcAcknowledge, XrcSendFirst, XrcSendLast, XrcSendOnly, XrcWriteOnly};
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 4, 2);
        (0..4).for_each(|n| bench.post(n % 2, n as u64));
        bench.rig.run(1_000);
        let (first, other) = (bench.number(0), bench.number(1));
        bench.put(0, XrcSendFirst, 0, first, &[1; 1024]);
        bench.put(0, XrcSendLast, 1, other, &[2; 10]);
        assert_eq!(bench.event(), (EventKind::QpReqErr, bench.targets[0].qp_num()));
        let wc = bench.wait_recv(0);
        assert_eq!((wc.status, wc.wr_id), (WcStatus::WrFlushErr, 0));
        bench.quiet();
        // Answers are not for targets, requests are not for initiators, and neither is for a QP of another service.
        bench.put(1, XrcAcknowledge, 0, 0, &[]);
        let initiator = bench.initiators[1].qp_num();
        bench.put_to(1, initiator, XrcSendOnly, 0, first, &[3; 8]);
        bench.put_to(1, initiator, XrcWriteOnly, 0, first, &[]);
        bench.quiet();
        bench.send(1, 1, 3, 0, 100);
        assert_eq!(bench.wait_recv(1).wr_id, 1);
        bench.wait_sent_ok(3);
        // The SRQ goes in the middle of a message: what is left of it in the card is nobody's.
        bench.put(2, XrcSendFirst, 0, other, &[1; 1024]);
        bench.rig.run(2_000);
        let (srq, cq) = bench.srqs.pop().unwrap();
        srq.destroy().unwrap();
        bench.put(2, XrcSendLast, 1, other, &[2; 10]);
        assert_eq!(bench.event(), (EventKind::QpReqErr, bench.targets[2].qp_num()));
        let mut wc = [WorkCompletion::default()];
        bench.rig.run(5_000);
        assert_eq!(cq.poll_cq(&mut wc).unwrap(), 0);
        cq.destroy().unwrap();
        bench.quiet();
    }
}

/// V-84 and the like: what is in use stays, and comes free in any legal order.
#[test]
fn objects_in_use() {
    let mut bench = Bench::on(BOTH_LINKS[0], 1, 1);
    let busy = |result: hca_verbs::Result<()>| match result {
        Err(Error::Driver(error)) => assert_eq!(error.errno(), 16),
        other => panic!("{other:?}"),
    };
    busy(bench.xrcd.close());
    busy(bench.srqs[0].1.destroy());
    bench.targets[0].destroy().unwrap();
    busy(bench.xrcd.close());
    // Targets do not hold SRQs: a domain's SRQs come and go while its connections live.
    bench.srqs[0].0.destroy().unwrap();
    bench.srqs[0].1.destroy().unwrap();
    bench.xrcd.close().unwrap();
    assert!(matches!(bench.xrcd.close(), Err(Error::Destroyed { .. })));
    assert!(matches!(bench.xrcd.create_target(), Err(Error::Destroyed { .. })));
}

/// V-164: what a QP of XRC cannot do is found before the card hears of it.
#[test]
fn wrong_posts() {
    let mut bench = Bench::on(BOTH_LINKS[0], 1, 1);
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[]),
    };
    let number = bench.number(0);
    assert!(bench.initiators[0].post_send(&[wr]).is_err(), "no SRQ");
    assert!(
        bench.initiators[0].post_send_xrc([(wr, 1 << 24)]).is_err(),
        "25 bits"
    );
    assert!(
        bench.initiators[0]
            .post_recv(&[RecvWr { wr_id: 1, sges: &[] }])
            .is_err()
    );
    let node = &bench.rig.nodes[0];
    let mut rc = node.create_qp_of(Service::Rc, common::cap(), false).unwrap();
    assert!(rc.post_send_xrc([(wr, number)]).is_err(), "RC");
    bench.post(0, 1);
    bench.initiators[0].post_send_xrc([(wr, number)]).unwrap();
    assert_eq!(bench.wait_recv(0).wr_id, 1);
    bench.wait_sent_ok(1);
    // A target's doorbells are nobody's, in whatever state: it has no queues.
    let (qpn, dev) = (bench.targets[0].qp_num(), bench.rig.nodes[1].dev.clone());
    for offset in [hca_abi::SQ_DOORBELL_OFFSET, hca_abi::RQ_DOORBELL_OFFSET] {
        let mut word = hca_abi::SqDoorbell::new();
        word.set_qpn(qpn);
        word.set_producer_index(7);
        let page = hca_abi::DOORBELL_PAGE_OFFSET + offset;
        hca_dev::Device::mmio_write64(&*dev, page, word.to_word());
    }
    bench.quiet();
    bench.targets[0].modify_state(QpState::Err).unwrap();
    bench.quiet();
    assert_eq!(bench.rig.nodes[1].poll().unwrap(), None);
}

/// A work request of the initiator for which no packet goes out.
fn local(bench: &mut Bench, op: SendOp) -> WorkCompletion {
    let wr = SendWr {
        wr_id: 5,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[]),
    };
    bench.initiators[0].post_send(&[wr]).unwrap();
    bench.wait_sent()
}

/// Node 1 writes 8 bytes to node 0 by this key, as how it ends.
fn write_back(bench: &mut Bench, rc: &mut RawQp<Dev>, rkey: u32) -> WcStatus {
    let remote_addr = bench.mrs[0].addr();
    let wr = SendWr {
        wr_id: 6,
        op: SendOp::RdmaWrite { remote_addr, rkey },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[bench.mrs[1].sge(0, 8)]),
    };
    rc.post_send(&[wr]).unwrap();
    loop {
        if let Some(wc) = bench.rig.nodes[1].poll().unwrap() {
            return wc.status;
        }
    }
}

/// XPORT-12: an initiator binds windows and takes them back as any connection; what is bound through it is nobody
/// else's (KEY-30).
#[test]
fn xport_12_windows() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 1, 1);
        let mut rc = bench
            .rig
            .connect([common::cap(); 2], [false; 2], &path(Mtu::Bytes1024))
            .unwrap();
        let pd = bench.rig.nodes[0].pd.clone();
        let (mr_addr, rights) = (bench.mrs[0].addr(), Access::REMOTE_WRITE);
        let mut one = pd.alloc_mw(MwType::One).unwrap();
        let bind = one.bind_op(0, &bench.mrs[0], mr_addr, 64, rights);
        let SendOp::BindMw(MwBind { rkey, .. }) = bind else {
            unreachable!("{bind:?}")
        };
        let wc = local(&mut bench, bind);
        assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::BindMw));
        one.set_rkey(rkey);
        assert_eq!(write_back(&mut bench, &mut rc[1], rkey), WcStatus::Success);
        let bytes = bench.memory[1].expected(CANARY_BYTES, 8).to_vec();
        bench.memory[0].expect(CANARY_BYTES, &bytes);
        let two = pd.alloc_mw(MwType::Two).unwrap();
        let bind = two.bind_op(two.rkey(), &bench.mrs[0], mr_addr, 64, rights);
        assert_eq!(local(&mut bench, bind).status, WcStatus::Success);
        assert_eq!(
            write_back(&mut bench, &mut rc[1], two.rkey()),
            WcStatus::RemAccessErr,
            "another QP's window"
        );
        let invalidate_rkey = two.rkey();
        let wc = local(&mut bench, SendOp::LocalInv { invalidate_rkey });
        assert_eq!((wc.status, wc.opcode), (WcStatus::Success, WcOpcode::LocalInv));
        let wc = local(&mut bench, SendOp::LocalInv { invalidate_rkey });
        assert_eq!(wc.status, WcStatus::MwBindErr, "it is invalid already");
        bench.check_memory();
    }
}

/// XPORT-12, OP-11: a SEND with invalidate goes out; a key that the peer must not take back ends the connection, and
/// the receive comes back in the CQ of its SRQ.
#[test]
fn xport_12_send_with_invalidate() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, 2, 2);
        let (number, invalidate_rkey) = (bench.number(1), bench.mrs[1].rkey());
        bench.post(1, 5);
        bench.rig.run(600);
        bench.send_to(0, number, 7, SendOp::SendWithInv { invalidate_rkey }, 0, 100);
        let wc = bench.wait_sent();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::RemAccessErr, 7));
        let wc = bench.wait_recv(1);
        assert_eq!((wc.status, wc.wr_id), (WcStatus::WrFlushErr, 5));
        assert_eq!(bench.state(0), QpState::Err);
        assert_eq!(bench.event(), (EventKind::QpAccessErr, bench.targets[0].qp_num()));
        // What arrived with it is in the receive, which nobody promises. The other connection goes on.
        bench.expect(5, 0, 100);
        bench.post(1, 6);
        bench.rig.run(600);
        bench.send(1, 1, 8, 200, 100);
        assert_eq!(bench.wait_recv(1).wr_id, 6);
        bench.wait_sent_ok(8);
        bench.expect(6, 200, 100);
        bench.check_memory();
        bench.quiet();
    }
}

/// REL: loss, damage, copies and disorder: each message once, those of a connection in order, whatever SRQs they go to.
#[test]
fn faults() {
    for (seed, kind) in (0..6).map(|seed| (seed, BOTH_LINKS[seed as usize % 2])) {
        let config = RigConfig {
            faults: bad_cable(),
            ..RigConfig::new(200 + seed, kind)
        };
        let options = ConnectOptions {
            timeout: 6,
            ..path(Mtu::Bytes1024)
        };
        let mut bench = Bench::new(&config, 3, 3, &options);
        let mut rng = Rng::new(seed, "messages");
        // wr_ids of receives are counted by SRQ: place = 40 * SRQ + 0..40.
        let mut posted = [0u64; 3];
        // By connection and SRQ; and when the messages of a connection completed, by their numbers.
        let mut sent = vec![vec![VecDeque::<(u64, u64, u32)>::new(); 3]; 3];
        let mut times = vec![std::collections::BTreeMap::new(); 3];
        let (mut begun, mut done, mut acked) = (0u64, 0, 0);
        while done < 120 || acked < begun {
            let (pair, srq) = (rng.below(3) as usize, rng.below(3) as usize);
            if posted[srq] < (bench.taken[srq] + 16).min(40) && rng.below(3) == 0 {
                bench.post(srq, 40 * srq as u64 + posted[srq]);
                posted[srq] += 1;
            }
            if begun < 120 && sent[pair].iter().map(VecDeque::len).sum::<usize>() < 4 {
                let to = (0..3).map(|n| (n + srq) % 3).find(|srq| {
                    let going: usize = sent.iter().map(|of| of[*srq].len()).sum();
                    bench.taken[*srq] + (going as u64) < 40
                });
                if let Some(srq) = to {
                    let (offset, len) = (u64::from(rng.below(1000)), rng.below(4000));
                    bench.send(pair, srq, begun, offset, len);
                    sent[pair][srq].push_back((begun, offset, len));
                    begun += 1;
                }
            }
            while let Some((srq, wc)) = (0..3).find_map(|srq| Some((srq, bench.poll_recv(srq)?))) {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                let pair = bench
                    .targets
                    .iter()
                    .position(|qp| qp.qp_num() == wc.qp_num)
                    .unwrap();
                let (number, offset, len) = sent[pair][srq].pop_front().expect("a message too many");
                assert_eq!(len, wc.byte_len, "in order");
                times[pair].insert(number, wc.timestamp);
                bench.expect(wc.wr_id, offset, len);
                bench.taken[srq] += 1;
                done += 1;
            }
            while let Some(wc) = bench.rig.nodes[0].poll().unwrap() {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                acked += 1;
            }
        }
        // Whatever CQs they completed in.
        for times in times {
            assert!(times.values().is_sorted(), "in the order in which they were sent");
        }
        bench.check_memory();
    }
}
