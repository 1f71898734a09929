//! Rings against a card that finishes work whenever the test says: nothing is lost, doubled, reordered or
//! overwritten, whatever the interleaving of posting, finishing and polling.

use std::collections::VecDeque;
use std::rc::Rc;

use hca_abi::{
    AhAttr, CqArm, CreateCqCmd, CreateEqCmd, CreateQpCmd, ModifyQpCmd, QpAttr, QpState, WQE_INDEX_BITS,
    WcStatus, qp_attr, wqe_index,
};
use hca_dev::Device;
use hca_driver::*;
use hca_lone::LoneCard;
use proptest::prelude::*;

type Dev = Rc<LoneCard>;

/// One QP of the test, and what must come of what was posted to it.
struct Qp {
    qpn: u32,
    send: SendRing,
    recv: RecvRing,
    /// (wr_id, signaled, is a SEND) of every send that has not been retired, oldest first.
    sends: VecDeque<(u64, bool, bool)>,
    recvs: VecDeque<u64>,
}

/// Two QPs connected to each other, with one CQ.
struct Rig {
    dev: Dev,
    _function: Function<Dev>,
    doorbells: Doorbells<Dev>,
    cq: CqRing,
    qps: Vec<Qp>,
    next_wr_id: u64,
    completions: u64,
}

impl Rig {
    fn new(log_size: u8, cqe: u32) -> Self {
        let dev = Rc::new(LoneCard::new());
        let mut function = Function::open(dev.clone(), &OpenOptions::simulated()).unwrap();
        let doorbells = Doorbells::new(dev.clone());
        let mut eq = CreateEqCmd::new();
        eq.set_base(dev.alloc_dma(EqRing::ring_bytes(4)).unwrap().iova());
        eq.set_log_size(4);
        let eqn = function.create_eq(&eq).unwrap();
        let cq_log_size = CqRing::log_size_for(cqe).unwrap();
        let memory = dev.alloc_dma(CqRing::ring_bytes(cq_log_size)).unwrap();
        let mut cmd = CreateCqCmd::new();
        cmd.set_base(memory.iova());
        cmd.set_log_size(cq_log_size);
        cmd.set_eqn(eqn);
        let cqn = function.create_cq(&cmd).unwrap();
        let mut cq = CqRing::new(
            memory,
            cqn,
            cq_log_size,
            function.query_device().unwrap().qpn_line_bits(),
        );
        let pd = function.alloc_pd().unwrap();
        let mut qps: Vec<Qp> = (0..2)
            .map(|_| make_qp(&dev, &mut function, log_size, (pd, cqn, eqn)))
            .collect();
        for i in 0..2 {
            let send = qps[i].send.shadow().clone();
            let recv = RecvShadow::Own(qps[i].recv.shadow().clone());
            cq.attach(qps[i].qpn, QpShadow { send, recv });
            connect(&mut function, qps[i].qpn, qps[1 - i].qpn);
        }
        qps.sort_by_key(|qp| qp.qpn);
        dev.with_card(|card| card.auto = false);
        Self {
            dev,
            _function: function,
            doorbells,
            cq,
            qps,
            next_wr_id: 0,
            completions: 0,
        }
    }

    /// Posts sends; a full ring must refuse exactly then.
    fn post_sends(&mut self, i: usize, kinds: &[(bool, bool)]) {
        let qp = &mut self.qps[i];
        let entries = qp.send.shadow().entries() as usize;
        for (signaled, is_send) in kinds {
            let op = if *is_send {
                SendOp::Send
            } else {
                SendOp::RdmaWrite {
                    remote_addr: 0,
                    rkey: 0,
                }
            };
            let flags = SendFlags {
                signaled: *signaled,
                ..SendFlags::default()
            };
            let wr_id = self.next_wr_id;
            let pushed = qp.send.push(&SendWr {
                wr_id,
                op,
                flags,
                data: WrData::Sges(&[]),
            });
            if qp.sends.len() == entries {
                assert_eq!(
                    pushed,
                    Err(PostError::RingFull {
                        entries: entries as u32
                    })
                );
            } else {
                pushed.unwrap();
                qp.sends.push_back((wr_id, *signaled, *is_send));
                self.next_wr_id += 1;
            }
        }
        qp.send.ring_doorbell(&self.doorbells, qp.qpn);
    }

    fn post_recvs(&mut self, i: usize, count: usize) {
        let qp = &mut self.qps[i];
        let entries = qp.recv.shadow().entries() as usize;
        for _ in 0..count {
            let wr_id = self.next_wr_id | 1 << 63;
            let pushed = qp.recv.push(&RecvWr { wr_id, sges: &[] });
            if qp.recvs.len() == entries {
                assert_eq!(
                    pushed,
                    Err(PostError::RingFull {
                        entries: entries as u32
                    })
                );
            } else {
                pushed.unwrap();
                qp.recvs.push_back(wr_id);
                self.next_wr_id += 1;
            }
        }
        qp.recv.ring_doorbell(&self.doorbells, qp.qpn);
    }

    /// Takes one completion and compares it with what was posted; false when there is none.
    fn poll_one(&mut self) -> bool {
        let Some(done) = self.cq.poll(&self.doorbells).unwrap() else {
            return false;
        };
        self.completions += 1;
        let qp = self.qps.iter_mut().find(|qp| qp.qpn == done.cqe.qpn()).unwrap();
        assert_eq!(done.cqe.status(), u8::from(WcStatus::Success));
        if done.cqe.opcode() & 0x80 != 0 {
            assert_eq!(Some(done.wr_id), qp.recvs.pop_front());
            return true;
        }
        // Unsignaled ones before it are retired with it; the first signaled one is it.
        loop {
            let (wr_id, signaled, _) = qp.sends.pop_front().expect("a completion of nothing");
            if signaled {
                assert_eq!(wr_id, done.wr_id);
                return true;
            }
        }
    }

    /// So many packets, or waits for a receive.
    fn run(&mut self, steps: usize) {
        self.dev
            .with_card(|card| (0..steps).take_while(|_| card.step()).count());
    }

    /// All that can be done without another receive.
    fn settle(&mut self) {
        self.dev.with_card(|card| while card.step() {});
    }

    /// Lets everything finish; afterwards nothing that should have completed is missing.
    fn finish(&mut self) {
        loop {
            self.post_recvs(0, 1);
            self.post_recvs(1, 1);
            let moved = self.dev.with_card(|card| card.step());
            while self.poll_one() {}
            if !moved {
                break;
            }
        }
        for qp in &self.qps {
            assert!(
                qp.sends.iter().all(|(_, signaled, _)| !signaled),
                "lost completions: {:?}",
                qp.sends
            );
        }
        self.dev.assert_no_violations();
    }
}

fn make_qp(dev: &Dev, function: &mut Function<Dev>, log_size: u8, (pd, cqn, eqn): (u32, u32, u8)) -> Qp {
    let size = WqSize {
        log_size,
        log_stride: 0,
    };
    let rings = [
        dev.alloc_dma(size.ring_bytes()).unwrap(),
        dev.alloc_dma(size.ring_bytes()).unwrap(),
    ];
    let mut cmd = CreateQpCmd::new();
    cmd.set_sq_log_size(log_size);
    cmd.set_rq_log_size(log_size);
    cmd.set_pd(pd);
    cmd.set_send_cqn(cqn);
    cmd.set_recv_cqn(cqn);
    cmd.set_async_eqn(eqn);
    cmd.set_sq_base(rings[0].iova());
    cmd.set_rq_base(rings[1].iova());
    let qpn = function.create_qp(&cmd).unwrap();
    let [send, recv] = rings;
    let (send, recv) = (
        SendRing::new(send, size).unwrap(),
        RecvRing::new(recv, size).unwrap(),
    );
    Qp {
        qpn,
        send,
        recv,
        sends: VecDeque::new(),
        recvs: VecDeque::new(),
    }
}

fn connect(function: &mut Function<Dev>, qpn: u32, peer: u32) {
    let mut ah = AhAttr::new();
    ah.set_is_global(true);
    ah.set_port_num(1);
    ah.set_dmac(LoneCard::identity().mac);
    ah.set_dgid(LoneCard::identity().gids()[0]);
    let mut attr = QpAttr::new();
    attr.set_port_num(1);
    attr.set_ah_attr(ah.0);
    attr.set_path_mtu(3);
    attr.set_dest_qp_num(peer);
    // A SEND waits for its receive as long as it takes.
    attr.set_rnr_retry(7);
    attr.set_min_rnr_timer(1);
    attr.set_timeout(14);
    attr.set_retry_cnt(7);
    use qp_attr::*;
    for (state, mask) in [
        (QpState::Init, PKEY_INDEX | PORT | ACCESS_FLAGS),
        (
            QpState::Rtr,
            AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
        ),
        (
            QpState::Rts,
            SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC,
        ),
    ] {
        attr.set_qp_state(state.into());
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(STATE | mask);
        cmd.set_attr(attr.0);
        function.modify_qp(&cmd).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Sends(usize, Vec<(bool, bool)>),
    Recvs(usize, usize),
    Run(usize),
    Poll(usize),
    Arm,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0usize..2, prop::collection::vec(any::<(bool, bool)>(), 0..12))
            .prop_map(|(i, kinds)| Op::Sends(i, kinds)),
        (0usize..2, 0usize..8).prop_map(|(i, n)| Op::Recvs(i, n)),
        (0usize..12).prop_map(Op::Run),
        (0usize..12).prop_map(Op::Poll),
        Just(Op::Arm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_every_completion(
        log_size in 0u8..5,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        // Both queues of both QPs may complete into the CQ.
        let mut rig = Rig::new(log_size, 4 << log_size);
        for op in ops {
            match op {
                Op::Sends(i, kinds) => rig.post_sends(i, &kinds),
                Op::Recvs(i, n) => rig.post_recvs(i, n),
                Op::Run(n) => rig.run(n),
                Op::Poll(n) => drop((0..n).take_while(|_| rig.poll_one()).count()),
                Op::Arm => rig.cq.arm(&rig.doorbells, CqArm::Next),
            }
        }
        rig.finish();
    }

    /// QPS-6: a purge removes one QP's completions, keeps the others' order, and the ring goes on.
    #[test]
    fn purge_removes_one_qp_only(
        before in 0usize..40,
        kinds in prop::collection::vec(any::<bool>(), 1..16),
        after in 1usize..40,
    ) {
        let mut rig = Rig::new(4, 32);
        let write = (true, false);
        for _ in 0..before {
            rig.post_sends(0, &[write]);
            rig.settle();
            prop_assert!(rig.poll_one());
        }
        for second in kinds {
            rig.post_sends(usize::from(second), &[write]);
            rig.settle();
        }
        let (victim, survivor) = (rig.qps[0].qpn, rig.qps[1].qpn);
        rig.cq.purge(&rig.doorbells, victim);
        rig.qps[0].sends.clear();
        while let Some(done) = rig.cq.poll(&rig.doorbells).unwrap() {
            prop_assert_eq!(done.cqe.qpn(), survivor);
            prop_assert_eq!(Some((done.wr_id, true, false)), rig.qps[1].sends.pop_front());
        }
        prop_assert!(rig.qps[1].sends.is_empty());
        for _ in 0..after {
            rig.post_sends(1, &[write]);
            rig.settle();
            prop_assert!(rig.poll_one());
        }
        rig.dev.assert_no_violations();
    }
}

/// The card's 17-bit indices of both queues wrap, and the phase bit of the CQ with each pass.
#[test]
fn indices_wrap() {
    let mut rig = Rig::new(3, 32);
    let turns = (1 << WQE_INDEX_BITS) / 8 + 100;
    for turn in 0..turns {
        rig.post_recvs(1, 4);
        let send = |i: usize| (i == 7 || turn % 3 == 0, i & 1 == 0);
        rig.post_sends(0, &[0, 1, 2, 3, 4, 5, 6, 7].map(send));
        rig.settle();
        while rig.poll_one() {}
        assert!(
            rig.qps[0].sends.is_empty() && rig.qps[1].recvs.is_empty(),
            "turn {turn}"
        );
    }
    assert!(wqe_index(rig.qps[0].send.shadow().posted()) < 8 * 101);
    assert!(rig.completions > turns as u64 * 5);
    rig.dev.assert_no_violations();
}

/// Queues of 65,536 entries, all posted with one doorbell each, three times over: full is not empty, one more does not
/// fit, and a single completion retires all sends.
#[test]
fn the_largest_rings_are_full() {
    const ENTRIES: usize = 1 << 16;
    let mut rig = Rig::new(16, 2 * ENTRIES as u32);
    for turn in 0..3 {
        rig.post_recvs(1, ENTRIES + 1);
        let mut sends = vec![(false, true); ENTRIES + 1];
        sends[ENTRIES - 1].0 = true;
        rig.post_sends(0, &sends);
        assert_eq!(rig.qps[0].sends.len(), ENTRIES, "turn {turn}");
        rig.settle();
        while rig.poll_one() {}
        assert!(
            rig.qps[0].sends.is_empty() && rig.qps[1].recvs.is_empty(),
            "turn {turn}"
        );
    }
    rig.dev.assert_no_violations();
}

/// Completions that match nothing outstanding are reported, not delivered: the card is broken then.
#[test]
fn wrong_completions_are_reported() {
    let mut rig = Rig::new(3, 32);
    let (qpn, cqn) = (rig.qps[0].qpn, 0);
    let mut cqe = hca_abi::Cqe::new();
    cqe.set_qpn(qpn);
    for (opcode, index) in [(0u8, 0u16), (0x80, 0), (0, 0xffff), (0, 0x8000)] {
        cqe.set_opcode(opcode);
        cqe.set_wqe_index(index);
        rig.dev.with_card(|card| card.write_cqe(cqn, cqe));
        let error = rig.cq.poll(&rig.doorbells).unwrap_err();
        assert_eq!((error.cqn, error.qpn, error.wqe_index), (cqn, qpn, index));
    }
    // One for a QP nobody knows is left over from a destroyed one.
    cqe.set_qpn(0x77_7777);
    rig.dev.with_card(|card| card.write_cqe(cqn, cqe));
    assert!(rig.cq.poll(&rig.doorbells).unwrap().is_none());
    assert_eq!(rig.cq.strays(), 1);
    // Twice the same: the second one is not delivered.
    rig.post_sends(0, &[(true, false)]);
    rig.settle();
    assert!(rig.poll_one());
    cqe.set_qpn(qpn);
    cqe.set_opcode(0);
    cqe.set_wqe_index(0);
    rig.dev.with_card(|card| card.write_cqe(cqn, cqe));
    assert!(rig.cq.poll(&rig.doorbells).is_err());
}
