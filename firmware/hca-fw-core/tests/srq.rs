//! Shared receive queues: what they can be asked for, what the card is told, how they fail, and what their QPs owe.

use std::rc::Rc;

use hca_abi::{
    AdminOpcode, AdminStatus, CreateCqCmd, CreateEqCmd, CreateQpCmd, CreateSrqCmd, CtxTable, Eqe, EventKind,
    HwEventKind, HwEventWho, ModifyQpCmd, QpAttr, QpState, Service, Srqc, WcStatus, qp_attr,
};
use hca_dev::{Device, DmaBuf};
use hca_driver::{AdminError, Doorbells, DriverError, Function, OpenOptions};
use hca_fw_core::{NUM_SRQS, SHARING_FUNCS, line_of};
use hca_lone::LoneCard;

const EQ_LOG_SIZE: u8 = 7;

struct Rig {
    dev: LoneCard,
    function: Function<Rc<LoneCard>>,
    ring: DmaBuf,
    numbers: (u32, u32, u8),
    /// Events read so far.
    events: usize,
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> AdminError {
    match result {
        Err(DriverError::Admin(e)) => e,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

impl Rig {
    fn new() -> Self {
        Self::of(&LoneCard::new(), 0)
    }

    fn of(card: &LoneCard, func: u8) -> Self {
        let dev = card.function(func);
        let mut function = Function::open(Rc::new(card.function(func)), &OpenOptions::simulated()).unwrap();
        let ring = dev.alloc_dma(1 << 17).unwrap();
        let mut eq = CreateEqCmd::new();
        eq.set_base(ring.iova());
        eq.set_log_size(EQ_LOG_SIZE);
        let eqn = function.create_eq(&eq).unwrap();
        let mut cq = CreateCqCmd::new();
        cq.set_base(ring.iova() + (16 << 10));
        cq.set_log_size(4);
        cq.set_eqn(eqn);
        let cqn = function.create_cq(&cq).unwrap();
        let pd = function.alloc_pd().unwrap();
        Self {
            dev,
            function,
            ring,
            numbers: (pd, cqn, eqn),
            events: 0,
        }
    }

    fn srq_cmd(&self) -> CreateSrqCmd {
        let mut cmd = CreateSrqCmd::new();
        cmd.set_pd(self.numbers.0);
        cmd.set_base(self.ring.iova() + (32 << 10));
        cmd.set_log_size(4);
        cmd.set_log_stride(1);
        cmd.set_async_eqn(self.numbers.2);
        cmd.set_list_base(self.ring.iova() + (64 << 10));
        cmd
    }

    fn qp_cmd(&self, srqn: u32) -> CreateQpCmd {
        let (pd, cqn, eqn) = self.numbers;
        let mut cmd = CreateQpCmd::new();
        cmd.set_service(Service::Rc.into());
        cmd.set_pd(pd);
        cmd.set_send_cqn(cqn);
        cmd.set_recv_cqn(cqn);
        cmd.set_async_eqn(eqn);
        cmd.set_sq_base(self.ring.iova() + (96 << 10));
        cmd.set_sq_log_size(3);
        cmd.set_has_srq(true);
        cmd.set_srqn(srqn);
        cmd
    }

    fn srq(&mut self) -> u32 {
        let cmd = self.srq_cmd();
        self.function.create_srq(&cmd).unwrap().0
    }

    fn qp(&mut self, srqn: u32) -> u32 {
        let cmd = self.qp_cmd(srqn);
        self.function.create_qp(&cmd).unwrap()
    }

    fn modify(&mut self, qpn: u32, state: QpState, more: u32) {
        let mut attr = QpAttr::new();
        attr.set_qp_state(state.into());
        attr.set_port_num(1);
        attr.set_path_mtu(3);
        let mut ah = hca_abi::AhAttr::new();
        ah.set_port_num(1);
        ah.set_is_global(true);
        ah.set_dmac([2, 0, 0, 0, 0, 1]);
        ah.set_dgid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        attr.set_ah_attr(ah.0);
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(qp_attr::STATE | more);
        cmd.set_attr(attr.0);
        self.function.modify_qp(&cmd).unwrap();
    }

    /// INIT and RTR.
    fn receiving(&mut self, srqn: u32) -> u32 {
        let qpn = self.qp(srqn);
        self.modify(
            qpn,
            QpState::Init,
            qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS,
        );
        let path = qp_attr::AV | qp_attr::PATH_MTU | qp_attr::DEST_QPN | qp_attr::RQ_PSN;
        self.modify(
            qpn,
            QpState::Rtr,
            path | qp_attr::MAX_DEST_RD_ATOMIC | qp_attr::MIN_RNR_TIMER,
        );
        qpn
    }

    fn srqc(&self, srqn: u32) -> Srqc {
        self.dev
            .with_card(|card| Srqc::read_from(&card.row(CtxTable::Srqc, srqn)).unwrap())
    }

    fn raise(&self, kind: HwEventKind, id: u32, cause: u32) {
        self.dev.with_card(|card| card.raise(kind, id, cause));
        self.dev.settle();
    }

    /// Events that came since the last look.
    fn new_events(&mut self) -> Vec<(EventKind, u32)> {
        self.dev.settle();
        let mut found = Vec::new();
        loop {
            let (entry, round) = (self.events % (1 << EQ_LOG_SIZE), self.events >> EQ_LOG_SIZE);
            let mut eqe = Eqe::new();
            self.ring.read_bytes(entry * Eqe::BYTES, &mut eqe.0);
            if eqe.phase() != (round % 2 == 0) {
                let doorbells = Doorbells::new(Rc::new(self.dev.function(0)));
                doorbells.eq(self.numbers.2, self.events as u16);
                return found;
            }
            self.events += 1;
            found.push((EventKind::try_from(eqe.kind()).unwrap(), eqe.id()));
        }
    }
}

/// V-100, V-102, V-103: sizes, limits and places; what the card and a query say of them.
#[test]
fn what_an_srq_can_be() {
    let mut rig = Rig::new();
    let srqn = rig.srq();
    let context = rig.srqc(srqn);
    assert!(context.valid() && !context.keep());
    assert_eq!((context.func(), context.log_size(), context.limit()), (0, 5, 0));
    assert_eq!(context.base(), rig.srq_cmd().list_base());
    let found = rig.function.query_srq(srqn).unwrap();
    assert_eq!((found.max_wr(), found.max_sge(), found.limit()), (16, 7, 0));
    type Change = fn(&mut CreateSrqCmd);
    let refused: [(Change, AdminStatus); 8] = [
        (|c| c.set_log_size(17), AdminStatus::BadLength),
        (|c| c.set_log_stride(4), AdminStatus::BadLength),
        (|c| c.set_pd(77), AdminStatus::BadHandle),
        (|c| c.set_async_eqn(31), AdminStatus::BadHandle),
        (|c| c.set_base(c.base() + 64), AdminStatus::BadParam),
        (|c| c.set_list_base(c.list_base() + 2), AdminStatus::BadParam),
        (|c| c.set_list_base(1 << 50), AdminStatus::DmaError),
        (|c| c.set_is_xrc(true), AdminStatus::BadHandle),
    ];
    for (change, status) in refused {
        let mut cmd = rig.srq_cmd();
        change(&mut cmd);
        assert_eq!(refusal(rig.function.create_srq(&cmd)).status, status, "{cmd:?}");
    }
    let over = refusal(rig.function.modify_srq(srqn, 17));
    assert_eq!((over.status, over.detail), (AdminStatus::BadParam, 17));
    assert_eq!(
        refusal(rig.function.modify_srq(srqn + 1, 1)).status,
        AdminStatus::BadHandle
    );
    // V-76: it uses its PD.
    let pd = rig.numbers.0;
    assert_eq!(refusal(rig.function.dealloc_pd(pd)).status, AdminStatus::InUse);
    rig.function.destroy_srq(srqn).unwrap();
    assert!(!rig.srqc(srqn).valid());
    assert_eq!(
        refusal(rig.function.query_srq(srqn)).status,
        AdminStatus::BadHandle
    );
    rig.function.dealloc_pd(pd).unwrap();
    rig.dev.assert_no_violations();
}

/// V-30: a function has its share of them, and gets no more; a reset gives all back.
#[test]
fn shares_and_resets() {
    let card = LoneCard::new();
    let (mut rig, mut other) = (Rig::of(&card, 0), Rig::of(&card, 1));
    let limit = rig.function.query_device().unwrap().max_srq();
    assert_eq!(limit as usize, NUM_SRQS / usize::from(SHARING_FUNCS));
    for round in 0..2 {
        let made: Vec<u32> = (0..limit).map(|_| rig.srq()).collect();
        let cmd = rig.srq_cmd();
        let refused = refusal(rig.function.create_srq(&cmd));
        assert_eq!(
            (refused.status, refused.detail),
            (AdminStatus::NoResources, limit)
        );
        rig.qp(made[0]);
        // Another function has its own, and reaches none of these.
        let own = other.srq();
        for srqn in [made[0], made[limit as usize - 1]] {
            for refused in [
                refusal(other.function.query_srq(srqn)),
                refusal(other.function.modify_srq(srqn, 1)),
                refusal(other.function.destroy_srq(srqn)),
            ] {
                assert_eq!(refused.status, AdminStatus::BadHandle);
            }
            let cmd = other.qp_cmd(srqn);
            assert_eq!(
                refusal(other.function.create_qp(&cmd)).status,
                AdminStatus::BadHandle
            );
        }
        other.function.destroy_srq(own).unwrap();
        if round == 0 {
            rig.function.reset_func().unwrap();
            assert!(made.iter().all(|srqn| !rig.srqc(*srqn).valid()));
            drop(rig);
            rig = Rig::of(&card, 0);
        }
    }
    card.assert_no_violations();
}

/// SPEC-9, MEM-1, V-104: a QP has the SRQ's slots in place of its ring, must be of its PD, and keeps it.
#[test]
fn qps_of_an_srq() {
    let mut rig = Rig::new();
    let srqn = rig.srq();
    let mut cmd = rig.qp_cmd(srqn);
    cmd.set_pd(rig.function.alloc_pd().unwrap());
    assert_eq!(
        refusal(rig.function.create_qp(&cmd)).status,
        AdminStatus::BadParam
    );
    // Sizes of its own receive queue do not count.
    let mut cmd = rig.qp_cmd(srqn);
    cmd.set_rq_log_size(200);
    cmd.set_rq_log_stride(9);
    cmd.set_rq_base(3);
    let qpn = rig.function.create_qp(&cmd).unwrap();
    let (qpc, srq) = (rig.dev.with_card(|card| card.qpc(qpn)), rig.srq_cmd());
    assert!(qpc.has_srq() && qpc.srqn() == srqn);
    assert_eq!(
        (qpc.rq_base(), qpc.rq_log_size(), qpc.rq_log_stride()),
        (srq.base(), 4, 1)
    );
    let found = rig.function.query_qp(qpn).unwrap();
    assert!(found.has_srq() && found.srqn() == srqn);
    assert_eq!(refusal(rig.function.destroy_srq(srqn)).status, AdminStatus::InUse);
    assert!(rig.srqc(srqn).valid(), "nothing has changed");
    rig.function.destroy_qp(qpn).unwrap();
    rig.function.destroy_srq(srqn).unwrap();
    rig.dev.assert_no_violations();
}

/// SPEC-6: a limit is told once and is 0 then; what is told of an old one is not told of the next, not even over a
/// whole turn of tags.
#[test]
fn limits() {
    let mut rig = Rig::new();
    let srqn = rig.srq();
    // Nothing is posted: it is reached at once.
    rig.function.modify_srq(srqn, 3).unwrap();
    assert_eq!(rig.new_events(), [(EventKind::SrqLimitReached, srqn)]);
    assert_eq!(rig.function.query_srq(srqn).unwrap().limit(), 0);
    rig.raise(HwEventKind::SrqLimit, srqn, rig.srqc(srqn).limit_tag().into());
    assert_eq!(rig.new_events(), [], "twice");
    rig.dev.with_card(|card| card.auto = false);
    for _ in 0..600 {
        let before = rig.srqc(srqn).limit_tag();
        rig.function.modify_srq(srqn, 5).unwrap();
        let context = rig.srqc(srqn);
        assert!(context.keep() && context.limit() == 5 && context.limit_tag() != before);
        assert_eq!(rig.new_events(), [(EventKind::SrqLimitReached, srqn)]);
        rig.raise(HwEventKind::SrqLimit, srqn, before.into());
        assert_eq!(rig.new_events(), []);
    }
    // What comes late for one that is gone, or for its successor.
    let tag = rig.srqc(srqn).limit_tag();
    rig.function.destroy_srq(srqn).unwrap();
    rig.raise(HwEventKind::SrqLimit, srqn, tag.into());
    rig.raise(HwEventKind::SrqLimit, 0xffff_ffff, 0);
    rig.raise(HwEventKind::SrqError, NUM_SRQS as u32, 0);
    assert_eq!(rig.new_events(), []);
    rig.dev.assert_no_violations();
}

/// SPEC-7: its own event, then ERR and QP_FATAL for each QP, and LAST_WQE_REACHED for each.
#[test]
fn a_failed_srq_takes_its_qps_along() {
    for by_wqe in [false, true] {
        let mut rig = Rig::new();
        let (srqn, other) = (rig.srq(), rig.srq());
        let qps: Vec<u32> = (0..3).map(|_| rig.receiving(srqn)).collect();
        let spared = rig.receiving(other);
        if by_wqe {
            // A slot that holds no WQE.
            let cause = u32::from(u8::from(WcStatus::LocQpOpErr)) | (HwEventWho::Responder as u32) << 16;
            rig.raise(HwEventKind::QpError, line_of(qps[1]), cause);
        } else {
            rig.raise(HwEventKind::SrqError, srqn, 0);
        }
        let events = rig.new_events();
        assert_eq!(events[0], (EventKind::SrqErr, srqn));
        for kind in [EventKind::QpFatal, EventKind::QpLastWqeReached] {
            let mut told: Vec<u32> = events.iter().filter(|e| e.0 == kind).map(|e| e.1).collect();
            told.sort_unstable();
            assert_eq!(told, qps, "{kind:?}");
        }
        assert_eq!(events.len(), 7);
        let state = |rig: &mut Rig, qpn| QpAttr(rig.function.query_qp(qpn).unwrap().attr()).qp_state();
        assert_eq!(state(&mut rig, spared), u8::from(QpState::Rtr));
        assert!(
            qps.iter()
                .all(|qpn| state(&mut rig, *qpn) == u8::from(QpState::Err))
        );
        // Once; and nobody joins it.
        rig.raise(HwEventKind::SrqError, srqn, 0);
        assert_eq!(rig.new_events(), []);
        let cmd = rig.qp_cmd(srqn);
        assert_eq!(
            refusal(rig.function.create_qp(&cmd)).status,
            AdminStatus::BadState
        );
        assert_eq!(
            refusal(rig.function.modify_srq(srqn, 1)).status,
            AdminStatus::BadState
        );
        for qpn in qps {
            rig.function.destroy_qp(qpn).unwrap();
        }
        rig.function.destroy_srq(srqn).unwrap();
        rig.dev.assert_no_violations();
    }
}

/// SPEC-8: LAST_WQE_REACHED after every way into ERR, once, and not for QPs with a receive queue of their own.
#[test]
fn last_wqe_reached() {
    let mut rig = Rig::new();
    let srqn = rig.srq();
    let by_hand = rig.receiving(srqn);
    rig.modify(by_hand, QpState::Err, 0);
    assert_eq!(rig.new_events(), [(EventKind::QpLastWqeReached, by_hand)]);
    rig.modify(by_hand, QpState::Err, 0);
    assert_eq!(rig.new_events(), [], "it was in ERR");
    // By an error.
    let failed = rig.receiving(srqn);
    let cause = u32::from(u8::from(WcStatus::LocLenErr)) | (HwEventWho::Responder as u32) << 16;
    rig.raise(HwEventKind::QpError, line_of(failed), cause);
    assert_eq!(rig.new_events(), [(EventKind::QpLastWqeReached, failed)]);
    // From INIT, where nothing was taken yet.
    let early = rig.qp(srqn);
    rig.modify(
        early,
        QpState::Init,
        qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS,
    );
    rig.modify(early, QpState::Err, 0);
    assert_eq!(rig.new_events(), [(EventKind::QpLastWqeReached, early)]);
    // Again in a new life.
    rig.modify(by_hand, QpState::Reset, 0);
    rig.modify(
        by_hand,
        QpState::Init,
        qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS,
    );
    rig.modify(by_hand, QpState::Err, 0);
    assert_eq!(rig.new_events(), [(EventKind::QpLastWqeReached, by_hand)]);
    // A QP with a receive queue of its own.
    let mut cmd = rig.qp_cmd(srqn);
    cmd.set_has_srq(false);
    cmd.set_rq_base(rig.ring.iova() + (112 << 10));
    let own = rig.function.create_qp(&cmd).unwrap();
    rig.modify(
        own,
        QpState::Init,
        qp_attr::PKEY_INDEX | qp_attr::PORT | qp_attr::ACCESS_FLAGS,
    );
    rig.modify(own, QpState::Err, 0);
    assert_eq!(rig.new_events(), []);
    // Who is destroyed meanwhile is told of no more, and who takes its line neither.
    for qpn in (0..20).map(|_| rig.qp(srqn)).collect::<Vec<_>>() {
        rig.modify(qpn, QpState::Err, 0);
        rig.function.destroy_qp(qpn).unwrap();
    }
    let told = rig.new_events();
    assert!(told.iter().all(|event| event.0 == EventKind::QpLastWqeReached));
    rig.dev.assert_no_violations();
}

/// Any bytes as a command: an answer, and no panic.
#[test]
fn garbage_is_answered() {
    let mut rig = Rig::new();
    let srqn = rig.srq();
    let mut bytes = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..2000u32 {
        let opcodes = [
            AdminOpcode::CreateSrq,
            AdminOpcode::ModifySrq,
            AdminOpcode::QuerySrq,
            AdminOpcode::DestroySrq,
        ];
        let body: Vec<u8> = (0..48)
            .map(|i| {
                bytes = bytes.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
                (bytes >> 40) as u8
            })
            .collect();
        rig.function
            .issue_raw(opcodes[round as usize % 4].into(), &body)
            .unwrap();
    }
    assert_eq!(rig.function.query_srq(srqn).unwrap().max_wr(), 16);
}

/// SPEC-3, V-83, V-84: XRC domains are a function's own; SRQs and targets hold them, and their CQ.
#[test]
fn xrc_domains_and_what_is_in_them() {
    let card = LoneCard::new();
    let (mut rig, mut other) = (Rig::of(&card, 0), Rig::of(&card, 1));
    let xrcd = rig.function.alloc_xrcd().unwrap();
    let foreign = other.function.alloc_xrcd().unwrap();
    let mut cmd = rig.srq_cmd();
    cmd.set_is_xrc(true);
    cmd.set_cqn(rig.numbers.1);
    cmd.set_xrcd(foreign);
    let refused = refusal(rig.function.create_srq(&cmd));
    assert_eq!(
        (refused.status, refused.detail),
        (AdminStatus::BadHandle, foreign)
    );
    cmd.set_xrcd(xrcd);
    cmd.set_cqn(other.numbers.1);
    assert_eq!(
        refusal(rig.function.create_srq(&cmd)).status,
        AdminStatus::BadHandle
    );
    cmd.set_cqn(rig.numbers.1);
    let (srqn, number) = rig.function.create_srq(&cmd).unwrap();
    let row = rig.srqc(srqn);
    assert!(row.is_xrc() && (row.xrcd(), row.pd(), row.cqn()) == (xrcd, rig.numbers.0, rig.numbers.1));
    assert_eq!(
        (row.number(), row.slots(), row.slots_log_size()),
        (number, cmd.base(), 4)
    );
    let cqn = rig.numbers.1;
    assert_eq!(refusal(rig.function.destroy_cq(cqn)).status, AdminStatus::InUse);
    // A QP of RC cannot receive from it.
    let qp = rig.qp_cmd(srqn);
    assert_eq!(refusal(rig.function.create_qp(&qp)).status, AdminStatus::BadParam);
    let mut target = CreateQpCmd::new();
    target.set_service(Service::Xrc.into());
    target.set_is_target(true);
    target.set_async_eqn(rig.numbers.2);
    target.set_xrcd(foreign);
    assert_eq!(
        refusal(rig.function.create_qp(&target)).status,
        AdminStatus::BadHandle
    );
    target.set_xrcd(xrcd);
    // Whatever it names of what it does not have.
    target.set_pd(0xff_ffff);
    target.set_send_cqn(other.numbers.1);
    target.set_sq_base(1 << 50);
    let qpn = rig.function.create_qp(&target).unwrap();
    for handle in [xrcd, foreign] {
        let status = if handle == xrcd {
            AdminStatus::InUse
        } else {
            AdminStatus::BadHandle
        };
        assert_eq!(refusal(rig.function.dealloc_xrcd(handle)).status, status);
    }
    // The next SRQ in the line has another number.
    rig.function.destroy_srq(srqn).unwrap();
    let mut numbers = std::collections::BTreeSet::from([number]);
    for _ in 0..3 * NUM_SRQS / usize::from(SHARING_FUNCS) {
        let (srqn, number) = rig.function.create_srq(&cmd).unwrap();
        assert!(numbers.insert(number) && number as usize % NUM_SRQS == srqn as usize);
        rig.function.destroy_srq(srqn).unwrap();
    }
    rig.function.destroy_qp(qpn).unwrap();
    rig.function.dealloc_xrcd(xrcd).unwrap();
    // A reset gives everything back.
    let xrcd = rig.function.alloc_xrcd().unwrap();
    cmd.set_xrcd(xrcd);
    target.set_xrcd(xrcd);
    rig.function.create_srq(&cmd).unwrap();
    rig.function.create_qp(&target).unwrap();
    rig.function.reset_func().unwrap();
    assert_eq!(
        refusal(rig.function.dealloc_xrcd(xrcd)).status,
        AdminStatus::BadHandle
    );
    card.assert_no_violations();
}

/// SPEC-7: an SRQ of XRC that has failed, or whose CQ has, is told, and peers that name it learn that it is not there.
#[test]
fn a_failed_srq_of_xrc_is_not_there() {
    for kind in [HwEventKind::SrqError, HwEventKind::CqError] {
        let mut rig = Rig::new();
        let mut cmd = rig.srq_cmd();
        cmd.set_is_xrc(true);
        cmd.set_cqn(rig.numbers.1);
        cmd.set_xrcd(rig.function.alloc_xrcd().unwrap());
        let (srqn, _) = rig.function.create_srq(&cmd).unwrap();
        let id = if kind == HwEventKind::SrqError {
            srqn
        } else {
            rig.numbers.1
        };
        rig.raise(kind, id, 0);
        assert!(rig.new_events().contains(&(EventKind::SrqErr, srqn)));
        let row = rig.srqc(srqn);
        assert!(row.valid() && row.keep() && !row.is_xrc());
        rig.function.destroy_srq(srqn).unwrap();
    }
}
