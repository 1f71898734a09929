//! ACC-6, EVT-1: every asynchronous event of the card, each provoked by its cause (section 18), and who hears of it:
//! the context whose queue or QP it is about, or every context of the card if it is about a port.
//!
//! PATH_MIG and PATH_MIG_ERR are in `migration.rs`. Not here, for the card has no cause of theirs:
//! QP_LAST_WQE_REACHED, the events of SRQs and WQs, LID_CHANGE, SM_CHANGE, CLIENT_REREGISTER, DEVICE_FATAL.

mod common;

use common::forge::{self, Forged};
use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap, step};
use hca_link::LinkKind;
use hca_system_tests::{Node, RigConfig, path};
use hca_verbs::{
    CqOptions, EventKind, LinkConfig, Mtu, PortState, QpAttr, QpAttrMask, QpState, SendFlags, SendOp, SendWr,
    Service, WorkCompletion, WrData, peer_info,
};
use hca_wire::{ExtHeaders, Opcode};

const PORT: u8 = 1;

/// Two nodes, and a bystander: another function of the second node's card.
struct Scene {
    pair: Pair,
    kind: LinkKind,
    bystander: Node,
}

impl Scene {
    fn new(kind: LinkKind, cqe: u32) -> Self {
        let config = RigConfig {
            functions: 2,
            cqe,
            ..RigConfig::new(71, kind)
        };
        let pair = Pair::new(&config, &path(Mtu::Bytes1024), 64 << 10, [LOCAL_AND_REMOTE; 2]);
        let device = pair.rig.sim.device(pair.rig.cards[1], 1).unwrap();
        let mut scene = Self {
            bystander: Node::open(device, 16).unwrap(),
            pair,
            kind,
        };
        scene.heard();
        scene
    }

    /// Events of the second node and of the bystander since the last call.
    fn heard(&mut self) -> [Vec<(EventKind, u32)>; 2] {
        self.pair.rig.run(5_000);
        [&self.pair.rig.nodes[1], &self.bystander].map(|node| {
            let events = std::iter::from_fn(|| node.context.poll_async_event());
            events.map(|event| (event.kind, event.id)).collect()
        })
    }

    #[track_caller]
    fn owner_alone(&mut self, wanted: &[(EventKind, u32)]) {
        let [owner, bystander] = self.heard();
        assert_eq!(owner, wanted, "{:?}: its owner", self.kind);
        assert_eq!(bystander, [], "{:?}: a bystander", self.kind);
    }

    #[track_caller]
    fn everybody(&mut self, kind: EventKind) {
        let wanted = vec![(kind, PORT.into())];
        assert_eq!(self.heard(), [wanted.clone(), wanted], "{:?}", self.kind);
    }

    /// QPN of the second node's QP.
    fn number(&self) -> u32 {
        self.pair.qps[1].qp_num()
    }
}

#[test]
fn acc_6_communication_established() {
    for kind in BOTH_LINKS {
        for service in [Service::Rc, Service::Uc] {
            let mut scene = Scene::new(kind, 64);
            let options = path(Mtu::Bytes1024);
            let pair = &mut scene.pair;
            let mut qps =
                [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp_of(service, cap(), false).unwrap());
            let infos = [0, 1].map(|node: usize| peer_info(&qps[node], &options, 0).unwrap());
            for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
                step(&mut qps[0], &options, &infos[1], to, 0);
                if to != QpState::Rts {
                    step(&mut qps[1], &options, &infos[0], to, 0);
                }
            }
            pair.qps = qps;
            for _ in 0..2 {
                let (op, source) = (pair.write_to(1, 0), [pair.mrs[0].sge(0, 8)]);
                pair.post(0, 1, op, &source);
            }
            let number = scene.number();
            scene.owner_alone(&[(EventKind::CommEst, number)]);
        }
    }
}

#[test]
fn acc_6_send_queue_drained() {
    for kind in BOTH_LINKS {
        let mut scene = Scene::new(kind, 64);
        let attr = QpAttr {
            qp_state: QpState::Sqd,
            en_sqd_async_notify: true,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::STATE | QpAttrMask::EN_SQD_ASYNC_NOTIFY;
        scene.pair.qps[1].modify(&attr, mask).unwrap();
        let number = scene.number();
        scene.owner_alone(&[(EventKind::SqDrained, number)]);
    }
}

/// QP_REQ_ERR: an opcode out of order; QP_ACCESS_ERR: a wrong R_Key.
#[test]
fn acc_6_errors_of_the_responder() {
    for kind in BOTH_LINKS {
        let mut scene = Scene::new(kind, 64);
        let packet = Forged {
            link: forge::link(0, kind),
            opcode: Opcode::RcSendMiddle,
            dest_qp: scene.number(),
            psn: 0,
            pkey: 0xffff,
            ext: ExtHeaders::default(),
            payload: &[0; 1024],
        };
        forge::send(&mut scene.pair.rig, 0, &packet);
        let number = scene.number();
        scene.owner_alone(&[(EventKind::QpReqErr, number)]);

        let mut scene = Scene::new(kind, 64);
        let (remote_addr, rkey) = scene.pair.remote(1, 0);
        let rkey = rkey ^ 1;
        let source = [scene.pair.mrs[0].sge(0, 8)];
        scene
            .pair
            .post(0, 1, SendOp::RdmaWrite { remote_addr, rkey }, &source);
        let seen = scene.heard();
        let established = (EventKind::CommEst, scene.number());
        let errors: Vec<_> = seen[0].iter().filter(|event| **event != established).collect();
        assert_eq!(errors, [&(EventKind::QpAccessErr, scene.number())]);
        assert_eq!(seen[1], []);
    }
}

/// CQ_ERR: a CQ that nobody reads, with QP_FATAL of the QP on it.
#[test]
fn acc_6_overrun() {
    for kind in BOTH_LINKS {
        let mut scene = Scene::new(kind, 4);
        let source = [scene.pair.mrs[1].sge(0, 8)];
        let wr = SendWr {
            wr_id: 1,
            op: scene.pair.write_to(0, 64),
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&source),
        };
        scene.pair.qps[1].post_send(&[wr; 30]).unwrap();
        let cqn = scene.pair.rig.nodes[1].cq.cqn();
        let number = scene.number();
        scene.owner_alone(&[(EventKind::CqErr, cqn), (EventKind::QpFatal, number)]);
    }
}

/// KEY-20, and MGMT-14 as far as there is no kernel: every client of the card that takes events hears what is of a
/// port, whoever has changed it.
#[test]
fn acc_6_port_and_tables() {
    for kind in BOTH_LINKS {
        let mut scene = Scene::new(kind, 64);
        let manager = scene.pair.rig.nodes[1].context.clone();
        let go = |state| {
            manager
                .link_config(PORT, &LinkConfig::new().state(state))
                .unwrap()
        };
        go(PortState::Down);
        scene.everybody(EventKind::PortErr);
        go(PortState::Init);
        // The cable is found again.
        assert_eq!(scene.heard(), [[], []]);
        go(PortState::Armed);
        go(PortState::Active);
        scene.everybody(EventKind::PortActive);
        manager.set_pkey(PORT, 3, 0x8003).unwrap();
        scene.everybody(EventKind::PkeyChange);
        manager.set_gid(PORT, 5, [9; 16]).unwrap();
        scene.everybody(EventKind::GidChange);
    }
}

/// V-64, ibv_modify_cq: the event of an armed CQ comes with the fourth completion, or 20 us after the first one; at
/// once when moderation is off.
#[test]
fn moderated_completions() {
    const PERIOD_US: u16 = 20;
    const PERIOD_CYCLES: u64 = 250 * PERIOD_US as u64;
    // A walk over all timers that has begun and one more, and the way of the event.
    const SLACK_CYCLES: u64 = 4_000;
    let mut pair = Pair::new(
        &RigConfig::new(64, LinkKind::Ethernet),
        &path(Mtu::Bytes1024),
        4096,
        [LOCAL_AND_REMOTE; 2],
    );
    let node = &pair.rig.nodes[0];
    let channel = node.context.create_comp_channel();
    let cq = node
        .context
        .create_cq(&CqOptions::with_channel(64, &channel))
        .unwrap();
    pair.connect_into(&cq, &path(Mtu::Bytes1024));
    // Cycles from the last completion to the event for which so many are needed.
    let mut cycles_to_event = |writes: usize, count: u16, period_us: u16| {
        cq.moderate(count, period_us).unwrap();
        cq.req_notify(false).unwrap();
        for _ in 0..writes {
            pair.post(0, 1, pair.write_to(1, 0), &[pair.mrs[0].sge(0, 8)]);
        }
        let end = pair.rig.now_cycles() + 4 * PERIOD_CYCLES;
        while channel.poll_event().is_none() {
            assert!(pair.rig.now_cycles() < end, "no event");
            pair.rig.run(50);
        }
        let at = pair.rig.now_cycles();
        let mut found = [WorkCompletion::default(); 8];
        assert_eq!(cq.poll_ready(&mut found).unwrap(), writes);
        at - found[writes - 1].timestamp
    };
    for _ in 0..2 {
        let alone = cycles_to_event(1, 4, PERIOD_US);
        assert!(
            (PERIOD_CYCLES..PERIOD_CYCLES + SLACK_CYCLES).contains(&alone),
            "{alone} cycles"
        );
        let with_others = cycles_to_event(4, 4, PERIOD_US);
        assert!(with_others < 1_000, "{with_others} cycles");
        for (count, period_us) in [(0, 0), (1, PERIOD_US), (4, 0), (0, PERIOD_US)] {
            let off = cycles_to_event(1, count, period_us);
            assert!(off < 1_000, "{off} cycles");
        }
    }
    pair.rig.check_idle(1_000_000).unwrap();
}
