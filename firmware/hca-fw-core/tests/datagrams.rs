//! QPs of datagrams: what they can be asked for, what the card is told, and how they fail.

use std::rc::Rc;

use hca_abi::{
    AdminStatus, CreateCqCmd, CreateEqCmd, CreateQpCmd, CtxTable, GidRow, HwEventKind, HwEventWho,
    ModifyPortCmd, ModifyQpCmd, QpAttr, QpState, Qpc, Service, SetGidCmd, WcStatus, port_attr, qp_attr,
};
use hca_dev::{Device, DmaBuf};
use hca_driver::{AdminError, DriverError, Function, OpenOptions};
use hca_fw_core::NUM_GIDS;
use hca_lone::LoneCard;

use qp_attr::{CUR_STATE, EN_SQD_ASYNC_NOTIFY, PKEY_INDEX, PORT, QKEY, SQ_PSN, STATE};

const CONTROLLED: u32 = 0x8001_0000;

struct Rig {
    dev: LoneCard,
    function: Function<Rc<LoneCard>>,
    ring: DmaBuf,
    numbers: (u32, u32, u8),
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
        let ring = dev.alloc_dma(1 << 16).unwrap();
        let mut eq = CreateEqCmd::new();
        eq.set_base(ring.iova());
        eq.set_log_size(4);
        let eqn = function.create_eq(&eq).unwrap();
        let mut cq = CreateCqCmd::new();
        cq.set_base(ring.iova() + 4096);
        cq.set_log_size(4);
        cq.set_eqn(eqn);
        let cqn = function.create_cq(&cq).unwrap();
        let pd = function.alloc_pd().unwrap();
        Self {
            dev,
            function,
            ring,
            numbers: (pd, cqn, eqn),
        }
    }

    fn qp_cmd(&self, service: Service) -> CreateQpCmd {
        let (pd, cqn, eqn) = self.numbers;
        let mut cmd = CreateQpCmd::new();
        cmd.set_service(service.into());
        cmd.set_pd(pd);
        cmd.set_send_cqn(cqn);
        cmd.set_recv_cqn(cqn);
        cmd.set_async_eqn(eqn);
        cmd.set_sq_base(self.ring.iova() + 8192);
        cmd.set_rq_base(self.ring.iova() + 16384);
        cmd.set_sq_log_size(3);
        cmd.set_sq_log_stride(1);
        cmd.set_rq_log_size(3);
        cmd
    }

    fn create(&mut self) -> u32 {
        let cmd = self.qp_cmd(Service::Ud);
        self.function.create_qp(&cmd).unwrap()
    }

    fn modify(&mut self, qpn: u32, state: QpState, mask: u32, qkey: u32) -> Result<(), DriverError> {
        let mut attr = QpAttr::new();
        attr.set_qp_state(state.into());
        attr.set_cur_qp_state(QpState::Sqe.into());
        attr.set_port_num(1);
        attr.set_qkey(qkey);
        attr.set_sq_psn(0x12_3456);
        let mut cmd = ModifyQpCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_attr_mask(mask);
        cmd.set_attr(attr.0);
        self.function.modify_qp(&cmd)
    }

    fn ready(&mut self) -> u32 {
        let qpn = self.create();
        for (state, mask) in [
            (QpState::Init, STATE | PKEY_INDEX | PORT | QKEY),
            (QpState::Rtr, STATE),
            (QpState::Rts, STATE | SQ_PSN),
        ] {
            self.modify(qpn, state, mask, 7).unwrap();
        }
        qpn
    }

    fn qpc(&self, qpn: u32) -> Qpc {
        self.dev.with_card(|card| card.qpc(qpn))
    }

    fn state(&mut self, qpn: u32) -> QpState {
        let attr = QpAttr(self.function.query_qp(qpn).unwrap().attr());
        let state = QpState::try_from(attr.qp_state()).unwrap();
        assert_eq!(self.qpc(qpn).state(), attr.qp_state(), "the card has another one");
        state
    }

    /// What hardware reports of a failure.
    fn fail(&mut self, qpn: u32, who: HwEventWho) {
        let cause = u32::from(u8::from(WcStatus::LocProtErr)) | (who as u32) << 16;
        self.dev
            .with_card(|card| card.raise(HwEventKind::QpError, hca_fw_core::line_of(qpn), cause));
        self.dev.settle();
    }

    /// Bytes of its event queue.
    fn events(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        self.ring.read_bytes(0, &mut bytes);
        bytes
    }
}

/// Datagrams and connections of all kinds are served, nothing else.
#[test]
fn services_of_the_card() {
    let mut rig = Rig::new();
    for service in 0..=255 {
        let mut cmd = rig.qp_cmd(Service::Rc);
        cmd.set_service(service);
        let made = rig.function.create_qp(&cmd);
        if Service::try_from(service).is_ok() {
            let qpn = made.unwrap();
            assert_eq!(rig.function.query_qp(qpn).unwrap().service(), service);
        } else {
            assert_eq!(refusal(made).status, AdminStatus::Unsupported, "{service}");
        }
    }
    rig.dev.assert_no_violations();
}

/// QPS-T-UD: the way to RTS, and what the context has then. V-36: the MTU is that of the port.
#[test]
fn the_context_of_datagrams() {
    let mut rig = Rig::new();
    let qpn = rig.create();
    let init = STATE | PKEY_INDEX | PORT | QKEY;
    for missing in [PKEY_INDEX, PORT, QKEY] {
        let refused = refusal(rig.modify(qpn, QpState::Init, init & !missing, 7));
        assert_eq!((refused.status, refused.detail), (AdminStatus::BadParam, missing));
    }
    let foreign = init | qp_attr::ACCESS_FLAGS;
    assert_eq!(
        refusal(rig.modify(qpn, QpState::Init, foreign, 7)).detail,
        qp_attr::ACCESS_FLAGS
    );
    rig.modify(qpn, QpState::Init, init, 7).unwrap();
    for mask in [qp_attr::AV, qp_attr::PATH_MTU, qp_attr::DEST_QPN] {
        assert_eq!(
            refusal(rig.modify(qpn, QpState::Rtr, STATE | mask, 7)).detail,
            mask
        );
    }
    rig.modify(qpn, QpState::Rtr, STATE | QKEY, 9).unwrap();
    rig.modify(qpn, QpState::Rts, STATE | SQ_PSN, 7).unwrap();
    let qpc = rig.qpc(qpn);
    assert_eq!(qpc.service(), u8::from(Service::Ud));
    assert_eq!((qpc.port(), qpc.pkey_index(), qpc.qkey()), (1, 0, 9));
    assert_eq!((qpc.path_mtu(), qpc.sq_psn(), qpc.qpn()), (5, 0x12_3456, qpn));
    assert_eq!((qpc.timeout(), qpc.retry_cnt(), qpc.rnr_retry()), (0, 0, 0));
    assert_eq!((qpc.dgid(), qpc.sgid(), qpc.dmac()), ([0; 16], [0; 16], [0; 6]));
    assert_eq!((qpc.dlid(), qpc.udp_src_port(), qpc.rate_group()), (0, 0, 0));
    // Another MTU of the port holds from the next modify on, and a query tells.
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(port_attr::MTU);
    cmd.set_mtu(3);
    rig.function.modify_port(&cmd).unwrap();
    rig.modify(qpn, QpState::Rts, QKEY, 11).unwrap();
    assert_eq!((rig.qpc(qpn).path_mtu(), rig.qpc(qpn).qkey()), (3, 11));
    let attr = QpAttr(rig.function.query_qp(qpn).unwrap().attr());
    assert_eq!((attr.path_mtu(), attr.qkey()), (3, 11));
    rig.modify(qpn, QpState::Reset, STATE, 0).unwrap();
    let attr = QpAttr(rig.function.query_qp(qpn).unwrap().attr());
    assert_eq!((attr.qkey(), attr.port_num()), (0, 0), "QPS-6");
    rig.dev.assert_no_violations();
}

/// KEY-24: a controlled Q_Key is the manager's to give.
#[test]
fn controlled_qkeys_are_for_function_0() {
    let card = LoneCard::new();
    let init = STATE | PKEY_INDEX | PORT | QKEY;
    let mut manager = Rig::of(&card, 0);
    let qpn = manager.create();
    manager.modify(qpn, QpState::Init, init, CONTROLLED).unwrap();
    assert_eq!(manager.qpc(qpn).qkey(), CONTROLLED);
    for func in 1..4 {
        let mut other = Rig::of(&card, func);
        let qpn = other.create();
        let refused = refusal(other.modify(qpn, QpState::Init, init, CONTROLLED));
        assert_eq!(
            (refused.status, refused.detail),
            (AdminStatus::NotPermitted, func.into())
        );
        assert!(refused.to_string().contains("Q_Key"), "{refused}");
        assert_eq!(other.state(qpn), QpState::Reset);
        other.modify(qpn, QpState::Init, init, !CONTROLLED).unwrap();
        // Where the mask does not name it, it is nothing.
        other.modify(qpn, QpState::Rtr, STATE, CONTROLLED).unwrap();
        assert_eq!(other.qpc(qpn).qkey(), !CONTROLLED);
    }
}

fn gid_rows(dev: &LoneCard) -> Vec<[u8; 16]> {
    dev.with_card(|card| {
        (0..NUM_GIDS as u32)
            .map(|row| GidRow::read_from(&card.row(CtxTable::Gid, row)).unwrap().gid())
            .collect()
    })
}

/// ADDR-13: the card has the GID table, from the start and after each change.
#[test]
fn the_card_has_the_gid_table() {
    let mut rig = Rig::new();
    let mut gids = vec![[0; 16]; NUM_GIDS];
    gids[..3].copy_from_slice(&LoneCard::identity().gids());
    assert_eq!(gid_rows(&rig.dev), gids);
    for (index, gid) in [(15u16, [0x20; 16]), (1, [0; 16]), (0, [0xfd; 16])] {
        let mut cmd = SetGidCmd::new();
        cmd.set_port_num(1);
        cmd.set_index(index);
        cmd.set_gid(gid);
        rig.function.set_gid(&cmd).unwrap();
        gids[usize::from(index)] = gid;
        assert_eq!(gid_rows(&rig.dev), gids);
    }
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(port_attr::LINK_LAYER);
    cmd.set_link_layer(1);
    rig.function.modify_port(&cmd).unwrap();
    assert_eq!(gid_rows(&rig.dev), gids);
    rig.dev.assert_no_violations();
}

/// QPS-12: a send that failed stops sends, and no event tells; RTS again by modify.
#[test]
fn failed_sends_lead_to_sqe() {
    let mut rig = Rig::new();
    let qpn = rig.ready();
    rig.fail(qpn, HwEventWho::Requester);
    assert_eq!(rig.state(qpn), QpState::Sqe);
    rig.fail(qpn, HwEventWho::Requester);
    assert_eq!(rig.state(qpn), QpState::Sqe, "a second report");
    assert_eq!(rig.events(), [0; 64]);
    for state in [QpState::Init, QpState::Rtr, QpState::Sqd] {
        let refused = refusal(rig.modify(qpn, state, STATE, 0));
        assert_eq!(refused.status, AdminStatus::BadState, "{state:?}");
    }
    let mask = STATE | CUR_STATE | QKEY;
    rig.modify(qpn, QpState::Rts, mask, 8).unwrap();
    assert_eq!((rig.state(qpn), rig.qpc(qpn).qkey()), (QpState::Rts, 8));
    // While it drains, too.
    rig.dev.with_card(|card| card.auto = false);
    rig.modify(qpn, QpState::Sqd, STATE | EN_SQD_ASYNC_NOTIFY, 0)
        .unwrap();
    rig.fail(qpn, HwEventWho::Requester);
    assert_eq!(rig.state(qpn), QpState::Sqe);
    for state in [QpState::Err, QpState::Reset] {
        rig.modify(qpn, state, STATE, 0).unwrap();
        assert_eq!(rig.state(qpn), state);
    }
    rig.dev.assert_no_violations();
}

/// QPS-13: whatever fails at the receiver is an error of the whole QP, also from SQE.
#[test]
fn failed_receives_lead_to_err() {
    let mut rig = Rig::new();
    let (one, other) = (rig.ready(), rig.ready());
    rig.fail(one, HwEventWho::Responder);
    assert_eq!(rig.state(one), QpState::Err);
    rig.fail(one, HwEventWho::Requester);
    assert_eq!(rig.state(one), QpState::Err, "there is no way back to SQE");
    rig.fail(other, HwEventWho::Requester);
    rig.fail(other, HwEventWho::Responder);
    assert_eq!(rig.state(other), QpState::Err);
    assert_eq!(rig.events(), [0; 64]);
    rig.dev.assert_no_violations();
}

/// UD_AV_PORT_ENFORCE: the source of a datagram is looked up at the QP's own port.
#[test]
fn the_device_says_that_it_has_datagrams() {
    let device = Rig::new().function.query_device().unwrap();
    let caps = device.device_cap_flags();
    assert_ne!(caps & hca_abi::device_cap::UD_AV_PORT_ENFORCE, 0);
    assert_eq!(device.max_ah(), i32::MAX as u32);
}
