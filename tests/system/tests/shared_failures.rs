//! What goes wrong around a shared receive queue: every slot that was taken comes back, whoever failed, and nobody else
//! is touched.

mod common;

use common::many::Bench;
use common::rooms::ROOM;
use common::{BOTH_LINKS, LIMIT_NS};
use hca_abi::{DOORBELL_PAGE_OFFSET, RqWqeCtrl, SRQ_DOORBELL_OFFSET, SrqDoorbell};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_system_tests::{Node, RigConfig, Rng, path};
use hca_verbs::{
    EventKind, Mtu, QpOptions, QpState, RecvWr, SendFlags, SendOp, SendWr, Service, Sge, WcStatus,
    WorkCompletion, WrData,
};
use hca_wire::{Opcode, reth};

const MTU: usize = 1024;

/// Sends of one QP at once: length of each message.
fn burst(bench: &mut Bench, qp: usize, lens: &[u32]) {
    for len in lens {
        bench.send(qp, 50, 0, *len);
    }
}

/// All completions of node 1 until `count` are there.
fn collect(bench: &Bench, count: usize) -> Vec<WorkCompletion> {
    (0..count).map(|_| bench.wait(1)).collect()
}

/// Takes whatever completions and events are there.
fn forget(bench: &mut Bench) {
    bench.rig.run(40_000);
    for node in &bench.rig.nodes {
        while node.poll_ready().unwrap().is_some() {}
        while node.context.poll_async_event().is_some() {}
    }
}

/// OP-21, SPEC-8: a receive that does not fit, or that has a wrong key, fails its QP in the middle of a burst: it
/// completes with the reason, the slots of what came behind it are flushed, in order, and then LAST_WQE_REACHED comes.
/// Another QP goes on.
#[test]
fn a_receive_at_fault_fails_its_qp_alone() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            for (lens, bad_key) in [
                ([3000u32, 100, 100, 3000, 64], false),
                ([64, 2000, 10, 3000, 1500], false),
                ([3000, 3000, 3000, 64, 0], true),
            ] {
                let mut bench = Bench::on(kind, service, 2, 16);
                // The second receive is at fault.
                let key = bench.mrs[1].lkey();
                let (len, lkey) = if bad_key {
                    (ROOM as u32, key ^ 0x100)
                } else {
                    (8, key)
                };
                let bad = [Sge {
                    addr: bench.mrs[1].addr(),
                    length: len,
                    lkey,
                }];
                bench.post(0);
                bench.srq.post_recv(&[RecvWr { wr_id: 1, sges: &bad }]).unwrap();
                bench.post_all(2..10);
                burst(&mut bench, 0, &lens);
                let mut ends = Vec::new();
                let end_ns = bench.rig.now_ns() + LIMIT_NS;
                let mut last_wqe = false;
                while !last_wqe {
                    ends.extend(bench.rig.nodes[1].poll().unwrap());
                    if let Some(event) = bench.rig.nodes[1].context.poll_async_event() {
                        assert_eq!(
                            (event.kind, event.id),
                            (EventKind::QpLastWqeReached, bench.receivers[0].qp_num())
                        );
                        last_wqe = true;
                    }
                    assert!(bench.rig.now_ns() < end_ns);
                }
                while let Some(wc) = bench.rig.nodes[1].poll_ready().unwrap() {
                    ends.push(wc);
                }
                let reason = if bad_key {
                    WcStatus::LocProtErr
                } else {
                    WcStatus::LocLenErr
                };
                let found: Vec<_> = ends.iter().map(|wc| (wc.wr_id, wc.status)).collect();
                assert_eq!(found[0], (0, WcStatus::Success), "{service:?} {lens:?}");
                assert_eq!(found[1], (1, reason), "{service:?} {lens:?}");
                for (wr_id, end) in (2..).zip(&found[2..]) {
                    assert_eq!(*end, (wr_id, WcStatus::WrFlushErr), "{service:?} {lens:?}");
                }
                forget(&mut bench);
                assert_eq!(bench.state(0), QpState::Err);
                bench.check_slots(1);
            }
        }
    }
}

fn write_imm(bench: &Bench, rkey: u32) -> SendOp {
    SendOp::RdmaWriteWithImm {
        remote_addr: bench.mrs[1].addr(),
        rkey,
        imm_data: 3,
    }
}

/// A WRITE with a wrong R_Key and immediate data, with more behind it: on RC its QP fails and the slots of all are
/// flushed; on UC what was lost has used none, and the next message takes the same ones.
#[test]
fn a_refused_write_uses_no_slot() {
    for kind in BOTH_LINKS {
        for len in [64u32, 3000] {
            for service in [Service::Rc, Service::Uc] {
                let mut bench = Bench::on(kind, service, 2, 8);
                bench.post_all(0..6);
                let rkey = bench.mrs[1].rkey();
                let sges = [bench.mrs[0].sge(0, len)];
                let wr = |op| SendWr {
                    wr_id: 50,
                    op,
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&sges),
                };
                let bad = write_imm(&bench, rkey ^ 0x100);
                let list = [wr(bad), wr(SendOp::Send), wr(SendOp::Send)];
                bench.senders[0].post_send(&list).unwrap();
                bench.rig.run(30_000);
                if service == Service::Rc {
                    while let Some(wc) = bench.rig.nodes[1].poll_ready().unwrap() {
                        assert_eq!(wc.status, WcStatus::WrFlushErr, "{wc:?}");
                    }
                    assert_eq!(
                        bench.event(),
                        (EventKind::QpAccessErr, bench.receivers[0].qp_num())
                    );
                    assert_eq!(
                        bench.event(),
                        (EventKind::QpLastWqeReached, bench.receivers[0].qp_num())
                    );
                } else {
                    // What came while nobody knew is lost, or it was not.
                    while let Some(wc) = bench.rig.nodes[1].poll().unwrap() {
                        assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                    }
                    assert_eq!(bench.rig.nodes[1].context.poll_async_event(), None);
                    assert_eq!(bench.state(0), QpState::Rts);
                    bench.rig.run(600);
                    for _ in 0..2 {
                        bench.send(0, 50, 0, 100);
                        bench.wait_ok(1);
                    }
                }
                forget(&mut bench);
                bench.check_slots(1);
            }
        }
    }
}

/// On UC a message with a hole leaves its slot with its QP: the next one takes it, whatever it is; destroying the QP
/// gives it back.
#[test]
fn a_lost_message_leaves_its_slot_to_the_next() {
    use Opcode::{UcSendFirst as First, UcSendLast as Last, UcSendOnly as Only, UcWriteOnlyImm as WriteImm};
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Uc, 2, 4);
        bench.post_all(0..3);
        bench.put(0, First, 0, &[1; MTU], None);
        bench.put(0, Last, 7, &[1; 9], None);
        bench.rig.run(2_000);
        assert_eq!(bench.rig.nodes[1].poll().unwrap(), None);
        bench.send(1, 50, 0, 20);
        assert_eq!(bench.wait_ok(1).wr_id, 1, "the first one is held");
        bench.put(0, Only, 8, &[2; 30], None);
        let wc = bench.wait_ok(1);
        assert_eq!((wc.wr_id, wc.byte_len), (0, 30));
        // Again, and the next one is a WRITE.
        bench.put(0, First, 9, &[1; MTU], None);
        bench.put(0, First, 20, &[1; MTU], None);
        bench.put(0, Last, 30, &[1; 9], None);
        let reth = Some(reth::Repr {
            va: bench.mrs[1].addr() + 9000,
            rkey: bench.mrs[1].rkey(),
            dma_len: 30,
        });
        bench.put(0, WriteImm, 31, &[2; 30], reth);
        let wc = bench.wait_ok(1);
        assert_eq!((wc.wr_id, wc.byte_len), (2, 30));
        bench.post_all([7]);
        bench.put(0, First, 40, &[1; MTU], None);
        bench.put(0, Last, 45, &[1; 9], None);
        bench.rig.run(2_000);
        assert_eq!(bench.srq.free_slots(), 3);
        bench.receivers[0].destroy().unwrap();
        assert_eq!(bench.srq.free_slots(), 4);
        bench.check_slots(1);
    }
}

/// What an SRQ's memory can be.
#[derive(Clone, Copy, Debug)]
enum Bad {
    /// The list is not mapped any more.
    ListGone,
    /// Nor are the slots.
    SlotsGone,
    /// A number that is no slot's.
    NoSlot,
    /// The slot of another WQE.
    OtherSlot,
    /// More entries than a slot has room for.
    NoWqe,
}

/// SPEC-7: SRQ_ERR, and every QP of it goes to ERR with QP_FATAL, and LAST_WQE_REACHED. Other SRQs and QPs go on.
#[test]
fn a_queue_that_cannot_be_read_fails_with_its_qps() {
    for kind in BOTH_LINKS {
        for bad in [
            Bad::ListGone,
            Bad::SlotsGone,
            Bad::NoSlot,
            Bad::OtherSlot,
            Bad::NoWqe,
        ] {
            let mut bench = Bench::on(kind, Service::Rc, 3, 8);
            // A neighbour: an SRQ of the same node.
            let other = bench.rig.nodes[1].pd.create_srq(8, 4).unwrap();
            let failing = std::mem::replace(&mut bench.srq, other);
            bench.add_pair(Service::Rc, &path(Mtu::Bytes1024));
            let [slots, list] = failing.memory().map(Clone::clone);
            let device = bench.rig.nodes[1].dev.clone();
            let sges = [bench.mrs[1].sge(0, ROOM as u32)];
            let post = || {
                failing.post_recv(&[RecvWr {
                    wr_id: 0,
                    sges: &sges,
                }])
            };
            match bad {
                Bad::ListGone => device.free_dma(list).unwrap(),
                Bad::SlotsGone => device.free_dma(slots).unwrap(),
                _ => {}
            }
            post().unwrap();
            match bad {
                Bad::NoSlot => failing.memory()[1].write_bytes(0, &[0xff, 0xff]),
                Bad::OtherSlot => failing.memory()[1].write_bytes(0, &[1, 0]),
                Bad::NoWqe => {
                    let mut ctrl = RqWqeCtrl::new();
                    ctrl.set_num_sge(200);
                    failing.memory()[0].write_bytes(0, ctrl.as_bytes());
                }
                _ => {}
            }
            bench.rig.run(2_000);
            bench.send(1, 50, 0, 64);
            assert_eq!(bench.event(), (EventKind::SrqErr, failing.srqn()), "{bad:?}");
            let mut told = Vec::new();
            for _ in 0..6 {
                told.push(bench.event());
            }
            for kind in [EventKind::QpFatal, EventKind::QpLastWqeReached] {
                for qp in &bench.receivers[..3] {
                    assert!(told.contains(&(kind, qp.qp_num())), "{bad:?}: {told:?}");
                }
            }
            assert!((0..3).all(|qp| bench.state(qp) == QpState::Err));
            assert_eq!(bench.state(3), QpState::Rts);
            while bench.rig.nodes[1].poll().is_ok_and(|wc| wc.is_some()) {}
            forget_sends(&mut bench);
            bench.check_slots(3);
            // Nobody can join it; it can be destroyed.
            let cq = &bench.rig.nodes[1].cq;
            let options = QpOptions {
                srq: Some(&failing),
                ..QpOptions::new(cq, cq)
            };
            assert!(bench.rig.nodes[1].pd.create_raw_qp(&options).is_err());
            assert!(failing.arm_limit(1).is_err());
            bench.receivers.truncate(0);
            // Its memory is not ours any more in some of the cases.
            let _ = failing.destroy();
        }
    }
}

/// The peers' sends that nobody answers end when their QPs do.
fn forget_sends(bench: &mut Bench) {
    for qp in 0..3 {
        bench.senders[qp].modify_state(QpState::Reset).unwrap();
    }
    while bench.rig.nodes[0].poll_ready().unwrap().is_some() {}
}

fn ring(node: &Node, srqn: u32, producer: u32) {
    let mut word = SrqDoorbell::new();
    word.set_srqn(srqn);
    word.set_producer_index(producer);
    let offset = DOORBELL_PAGE_OFFSET + SRQ_DOORBELL_OFFSET;
    node.dev.mmio_write64(offset, word.to_word());
}

/// SYS-20: another function rings for an SRQ that is not its own, and for numbers that are none: nothing comes of it.
/// An owner that rings nonsense harms itself.
#[test]
fn strangers_doorbells_change_nothing() {
    for kind in BOTH_LINKS {
        let mut bench = Bench::on(kind, Service::Rc, 2, 8);
        let card = bench.rig.cards[1];
        let hostile = Node::open(bench.rig.sim.device(card, 1).unwrap(), 64).unwrap();
        let srqn = bench.srq.srqn();
        bench.post_all([0, 1]);
        let mut rng = Rng::new(7, "doorbells");
        for round in 0..60u64 {
            for _ in 0..20 {
                let number = [srqn, rng.below(200), rng.below(1 << 24)][rng.below(3) as usize];
                ring(&hostile, number, rng.below(1 << 17));
            }
            bench.send(round as usize % 2, 1, 0, 64);
            assert_eq!(bench.wait_ok(1).wr_id, round);
            bench.wait_ok(0);
            bench.post_all([round + 2]);
        }
        // Its own, from a hostile list: its QPs may fail, the neighbour's do not.
        let own = hostile.pd.create_srq(32, 1).unwrap();
        let mut garbage = vec![0; own.memory()[1].len_bytes()];
        rng.fill(&mut garbage);
        own.memory()[1].write_bytes(0, &garbage);
        for _ in 0..50 {
            ring(&hostile, own.srqn(), rng.below(1 << 17));
            bench.rig.run(rng.below(300).into());
        }
        own.destroy().unwrap();
        bench.check_slots(0);
        bench.rig.check_idle(1_000_000).unwrap();
    }
}

/// QPs come and go in the middle of traffic, by every door; in the end all slots are there.
#[test]
fn qps_come_and_go_in_traffic() {
    for seed in 0..4 {
        let kind = BOTH_LINKS[seed as usize % 2];
        let service = [Service::Rc, Service::Uc][seed as usize / 2 % 2];
        let mut bench = Bench::new(
            &RigConfig::new(200 + seed, kind),
            service,
            4,
            16,
            &path(Mtu::Bytes1024),
        );
        let mut rng = Rng::new(seed, "doors");
        let mut next = 0;
        for _ in 0..30 {
            while bench.srq.free_slots() > 0 {
                bench.post(next);
                next += 1;
            }
            for _ in 0..6 {
                let qp = rng.below(4) as usize;
                let len = [0, 8, 1000, 3000][rng.below(4) as usize];
                bench.send(qp, 50, 0, len);
            }
            bench.rig.run(rng.below(2500).into());
            let qp = rng.below(4) as usize;
            match rng.below(4) {
                0 => bench.receivers[qp].modify_state(QpState::Err).unwrap(),
                1 => bench.receivers[qp].modify_state(QpState::Reset).unwrap(),
                2 => bench.receivers[qp].destroy().unwrap(),
                _ => {
                    while let Some(wc) = bench.rig.nodes[1].poll_ready().unwrap() {
                        assert!(matches!(wc.status, WcStatus::Success | WcStatus::WrFlushErr));
                    }
                    continue;
                }
            }
            // A new pair in their place.
            drop((bench.senders.swap_remove(qp), bench.receivers.swap_remove(qp)));
            bench.add_pair(service, &path(Mtu::Bytes1024));
            while bench.rig.nodes[0].poll_ready().unwrap().is_some() {}
        }
        for _ in 0..4 {
            drop((bench.senders.pop(), bench.receivers.pop()));
        }
        forget(&mut bench);
        bench.add_pair(service, &path(Mtu::Bytes1024));
        bench.rig.run(600);
        bench.check_slots(0);
        bench.rig.check_idle(1_000_000).unwrap();
    }
}

/// A destroy waits for what is read of its list: its memory is nobody's then, and a successor begins at 0.
#[test]
fn a_destroyed_queue_reads_nothing() {
    let mut bench = Bench::on(LinkKind::Ethernet, Service::Rc, 1, 8);
    let mut rng = Rng::new(3, "lives");
    for life in 0..40u64 {
        let srq = bench.rig.nodes[1].pd.create_srq(64, 1).unwrap();
        let sges = [bench.mrs[1].sge(0, 64)];
        for wr_id in 0..u64::from(rng.below(64)) {
            srq.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
        }
        bench.rig.run(rng.below(200).into());
        srq.destroy().unwrap();
        assert!(
            srq.post_recv(&[RecvWr {
                wr_id: 0,
                sges: &sges
            }])
            .is_err(),
            "{life}"
        );
    }
    assert_eq!(collect(&bench, 0), []);
    bench.check_slots(0);
    // Nobody has touched memory that was not there.
    bench.rig.check_idle(1_000_000).unwrap();
}
