//! Commands and events of the link through the admin ring of a lone card: what the hardware gets, and what is refused
//! without a trace.

use std::rc::Rc;

use hca_abi::{
    AdminStatus, LinkCtrl, LinkPolicy, ModifyPortCmd, OpVls, PortState, SetLinkCmd, VL_ARB_ENTRIES,
    link_attr, port_attr,
};
use hca_driver::{AdminError, DriverError, Function, OpenOptions, VlWeight};
use hca_fw_core::Identity;
use hca_lone::{Hardware, LoneCard};

/// Longer than the hardware waits for a cable that was taken out: 2^20 cycles of 4 ns.
const LINK_WAIT_NS: u64 = 5_000_000;

struct Rig {
    dev: Rc<LoneCard>,
    function: Function<Rc<LoneCard>>,
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, DriverError>) -> AdminError {
    match result {
        Err(DriverError::Admin(e)) => e,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn set(attr_mask: u32, fill: impl FnOnce(&mut SetLinkCmd)) -> SetLinkCmd {
    let mut cmd = SetLinkCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(attr_mask);
    fill(&mut cmd);
    cmd
}

fn state(to: PortState) -> SetLinkCmd {
    set(link_attr::STATE, |cmd| cmd.set_state(to.into()))
}

fn port(attr_mask: u32, fill: impl FnOnce(&mut ModifyPortCmd)) -> ModifyPortCmd {
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(attr_mask);
    fill(&mut cmd);
    cmd
}

const fn weight(vl: u8, weight: u8) -> VlWeight {
    VlWeight { vl, weight }
}

/// Every VL below `vls`, equally.
fn equal(vls: u8) -> Vec<(u8, u8)> {
    (0..vls).map(|vl| (vl, 64)).collect()
}

impl Rig {
    fn of(identity: Identity, prepare: impl FnOnce(&mut Hardware)) -> Self {
        let dev = Rc::new(LoneCard::with(identity, prepare));
        let function = Function::open(dev.clone(), &OpenOptions::simulated()).unwrap();
        Self { dev, function }
    }

    fn infiniband() -> Self {
        Self::of(ib(true), |_| ())
    }

    fn ctrl(&self) -> LinkCtrl {
        self.dev.with_card(|card| card.link_ctrl())
    }

    fn op_vls(&self) -> Option<OpVls> {
        OpVls::try_from(self.ctrl().op_vls()).ok()
    }

    fn low(&self) -> Vec<(u8, u8)> {
        self.dev.with_card(|card| card.link_arbitration(false))
    }

    fn high(&self) -> Vec<(u8, u8)> {
        self.dev.with_card(|card| card.link_arbitration(true))
    }

    fn sl2vl(&self) -> [u8; 16] {
        self.dev.with_card(|card| card.link_sl2vl())
    }

    fn state(&self) -> PortState {
        self.dev.with_card(|card| card.link_state())
    }

    /// Everything that the hardware was told.
    fn rows(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        (self.ctrl(), self.sl2vl(), self.low(), self.high(), self.state())
    }
}

fn ib(self_active: bool) -> Identity {
    Identity {
        infiniband: true,
        self_active,
        ..LoneCard::identity()
    }
}

/// VL-8, VL-12: what a card does before anybody configures it.
#[test]
fn defaults_at_start() {
    for infiniband in [true, false] {
        let identity = Identity {
            infiniband,
            ..LoneCard::identity()
        };
        let mut rig = Rig::of(identity, |_| ());
        let ctrl = rig.ctrl();
        assert_eq!(rig.op_vls(), Some(OpVls::Eight));
        assert_eq!(
            (ctrl.policy(), ctrl.limit(), ctrl.mtu(), ctrl.hoq_life()),
            (0, 255, 5, 31)
        );
        assert_eq!((rig.low(), rig.high()), (equal(8), vec![]));
        assert_eq!(rig.sl2vl(), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(rig.state(), PortState::Active);
        assert!(rig.function.link_up());
        let port = rig.function.query_port(1).unwrap();
        assert_eq!((port.state(), port.max_vl_num(), port.phys_state()), (4, 4, 5));
        rig.dev.assert_no_violations();
    }
}

/// VL-2: each number of VLs a card can be built with.
#[test]
fn every_number_of_built_vls() {
    for code in OpVls::ALL {
        let vls = code.count();
        let mut rig = Rig::of(ib(true), |card| card.set_data_vls(vls.into()));
        assert_eq!(rig.op_vls(), Some(*code));
        assert_eq!(rig.low(), equal(vls));
        let spread: [u8; 16] = std::array::from_fn(|sl| sl as u8 % vls);
        assert_eq!(rig.sl2vl(), spread);
        assert_eq!(rig.function.query_port(1).unwrap().max_vl_num(), u8::from(*code));
        // One more VL than there is: refused, in every place that names one.
        for wrong in [vls, 15, 16, 255] {
            let e = refusal(
                rig.function
                    .set_vl_arb(1, true, &[weight(0, 1), weight(wrong, 1)]),
            );
            assert_eq!((e.status, e.detail), (AdminStatus::BadParam, 1));
        }
        let mut map = spread;
        map[9] = vls;
        if vls < 15 {
            let e = refusal(rig.function.set_sl2vl(1, &map));
            assert_eq!((e.status, e.detail), (AdminStatus::BadParam, 9));
            let more = OpVls::try_from(u8::from(*code) + 1).unwrap();
            let e = refusal(
                rig.function
                    .set_link(&set(link_attr::OP_VLS, |cmd| cmd.set_op_vls(more.into()))),
            );
            assert_eq!((e.status, e.detail), (AdminStatus::BadParam, link_attr::OP_VLS));
        }
        rig.dev.assert_no_violations();
    }
}

/// VL-4: the larger end drops to the smaller end's number; with one VL every SL maps to it, whatever was asked.
#[test]
fn both_ends_agree_on_the_smaller_number() {
    let mut rig = Rig::infiniband();
    let reversed: [u8; 16] = std::array::from_fn(|sl| 7 - sl as u8 % 8);
    for (peer, vls) in [
        (OpVls::Fifteen, 8),
        (OpVls::Two, 2),
        (OpVls::One, 1),
        (OpVls::Four, 4),
        (OpVls::Eight, 8),
    ] {
        rig.function
            .set_link(&set(link_attr::PEER_VLS, |cmd| cmd.set_peer_vls(peer.into())))
            .unwrap();
        assert_eq!(rig.op_vls().map(OpVls::count), Some(vls));
        assert_eq!(rig.low(), equal(vls));
        assert_eq!(rig.sl2vl(), std::array::from_fn(|sl| sl as u8 % vls));
    }
    rig.function.set_sl2vl(1, &reversed).unwrap();
    assert_eq!(rig.sl2vl(), reversed);
    rig.function
        .set_link(&set(link_attr::PEER_VLS, |cmd| {
            cmd.set_peer_vls(OpVls::One.into())
        }))
        .unwrap();
    assert_eq!(rig.sl2vl(), [0; 16]);
    let link = rig.function.query_link(1).unwrap();
    assert_eq!(
        (
            link.built_vls(),
            link.wanted_vls(),
            link.peer_vls(),
            link.op_vls()
        ),
        (4, 4, 1, 1)
    );
    rig.dev.assert_no_violations();
}

/// VL-8, VL-12: tables as given, replaced whole; what is queried is what was set.
#[test]
fn tables_go_to_the_hardware() {
    let mut rig = Rig::infiniband();
    let full: Vec<_> = (0..64).map(|n| weight(n % 8, n * 4)).collect();
    let counting: Vec<_> = full.iter().skip(1).map(|e| (e.vl, e.weight)).collect();
    rig.function.set_vl_arb(1, true, &full).unwrap();
    assert_eq!(rig.high(), counting);
    assert_eq!(rig.function.query_vl_arb(1, true).unwrap(), full);
    let short = [weight(7, 255), weight(3, 0), weight(0, 1)];
    rig.function.set_vl_arb(1, true, &short).unwrap();
    assert_eq!(rig.high(), [(7, 255), (0, 1)]);
    assert_eq!(rig.function.query_vl_arb(1, true).unwrap(), short);
    rig.function.set_vl_arb(1, true, &[]).unwrap();
    assert_eq!(rig.high(), []);
    assert_eq!(rig.low(), equal(8), "the other table stays");
    let mut map = [1; 16];
    map[7] = 15;
    rig.function.set_sl2vl(1, &map).unwrap();
    assert_eq!(rig.sl2vl(), map);
    rig.function
        .set_link(&set(
            link_attr::POLICY | link_attr::LIMIT | link_attr::HOQ_LIFE | link_attr::PFC_ENABLE,
            |cmd| {
                cmd.set_policy(LinkPolicy::RoundQuantum.into());
                cmd.set_limit(8);
                cmd.set_hoq_life(10);
                cmd.set_pfc_enable(0x88);
            },
        ))
        .unwrap();
    let ctrl = rig.ctrl();
    assert_eq!(
        (ctrl.policy(), ctrl.limit(), ctrl.hoq_life(), ctrl.pfc_enable()),
        (1, 8, 10, 0x88)
    );
    assert_eq!(rig.state(), PortState::Active);
    rig.dev.assert_no_violations();
}

/// A refused command changes nothing, also not the fields that were right.
#[test]
fn all_or_nothing() {
    let mut rig = Rig::infiniband();
    let before = rig.rows();
    // Of an InfiniBand port; the rest is Ethernet's.
    let all = link_attr::STATE
        | link_attr::OP_VLS
        | link_attr::PEER_VLS
        | link_attr::POLICY
        | link_attr::LIMIT
        | link_attr::HOQ_LIFE
        | link_attr::PFC_ENABLE;
    let good = |cmd: &mut SetLinkCmd| {
        cmd.set_state(PortState::Down.into());
        cmd.set_op_vls(1);
        cmd.set_peer_vls(2);
        cmd.set_policy(1);
        cmd.set_limit(3);
        cmd.set_hoq_life(4);
        cmd.set_pfc_enable(5);
    };
    type Spoil = fn(&mut SetLinkCmd);
    let wrong: [(u32, Spoil); 10] = [
        (link_attr::STATE, |cmd| cmd.set_state(0)),
        (link_attr::STATE, |cmd| cmd.set_state(5)),
        (link_attr::STATE, |cmd| cmd.set_state(6)),
        (link_attr::OP_VLS, |cmd| cmd.set_op_vls(0)),
        (link_attr::OP_VLS, |cmd| cmd.set_op_vls(5)),
        (link_attr::PEER_VLS, |cmd| cmd.set_peer_vls(0)),
        (link_attr::PEER_VLS, |cmd| cmd.set_peer_vls(6)),
        (link_attr::POLICY, |cmd| cmd.set_policy(2)),
        (link_attr::HOQ_LIFE, |cmd| cmd.set_hoq_life(32)),
        (link_attr::HOQ_LIFE, |cmd| cmd.set_hoq_life(255)),
    ];
    for (attr, spoil) in wrong {
        let cmd = set(all, |cmd| {
            good(cmd);
            spoil(cmd);
        });
        let e = refusal(rig.function.set_link(&cmd));
        assert_eq!((e.status, e.detail), (AdminStatus::BadParam, attr));
    }
    let beyond = link_attr::ALL + 1;
    let e = refusal(rig.function.set_link(&set(beyond, good)));
    assert_eq!((e.status, e.detail), (AdminStatus::BadParam, beyond));
    for port_num in [0, 2, 255] {
        let e = refusal(rig.function.set_link(&set(all, |cmd| {
            good(cmd);
            cmd.set_port_num(port_num);
        })));
        assert_eq!((e.status, e.detail), (AdminStatus::BadParam, port_num.into()));
        assert_eq!(
            refusal(rig.function.query_link(port_num)).status,
            AdminStatus::BadParam
        );
        assert_eq!(
            refusal(rig.function.set_vl_arb(port_num, true, &[])).status,
            AdminStatus::BadParam
        );
        assert_eq!(
            refusal(rig.function.query_vl_arb(port_num, true)).status,
            AdminStatus::BadParam
        );
        assert_eq!(
            refusal(rig.function.set_sl2vl(port_num, &[0; 16])).status,
            AdminStatus::BadParam
        );
        assert_eq!(
            refusal(rig.function.query_vl_counters(port_num)).status,
            AdminStatus::BadParam
        );
        assert_eq!(
            refusal(rig.function.query_link_errors(port_num)).status,
            AdminStatus::BadParam
        );
    }
    assert_eq!(rig.rows(), before);
    rig.function.set_link(&set(all, good)).unwrap();
    assert_eq!(rig.state(), PortState::Down);
}

/// Counts and first VLs that no driver of ours sends.
#[test]
fn raw_bytes_are_checked() {
    let mut rig = Rig::infiniband();
    for count in [65, 128, 255] {
        let cpl = rig.function.issue_raw(31, &[1, 1, count]).unwrap();
        assert_eq!((cpl.status(), cpl.detail()), (8, VL_ARB_ENTRIES));
    }
    for first_vl in [1, 7, 9, 16, 248] {
        let cpl = rig.function.issue_raw(34, &[1, first_vl]).unwrap();
        assert_eq!((cpl.status(), cpl.detail()), (2, first_vl.into()));
    }
    rig.dev.assert_no_violations();
}

/// VL-14, VL-3: with a subnet manager the port waits in INIT on VL0, and every step is the manager's.
#[test]
fn a_subnet_manager_brings_the_port_up() {
    use PortState::{Active, Armed, Down, Init};
    let mut rig = Rig::of(ib(false), |_| ());
    assert_eq!((rig.state(), rig.op_vls()), (Init, Some(OpVls::One)));
    assert!(!rig.function.link_up());
    let e = refusal(rig.function.set_link(&state(Active)));
    assert_eq!((e.status, e.detail), (AdminStatus::BadState, link_attr::STATE));
    let cmd = set(
        link_attr::STATE | link_attr::OP_VLS | link_attr::PEER_VLS,
        |cmd| {
            cmd.set_state(Armed.into());
            cmd.set_op_vls(OpVls::Eight.into());
            cmd.set_peer_vls(OpVls::Four.into());
        },
    );
    rig.function.set_link(&cmd).unwrap();
    assert_eq!((rig.state(), rig.op_vls()), (Armed, Some(OpVls::Four)));
    assert_eq!(
        refusal(rig.function.set_link(&state(Init))).status,
        AdminStatus::BadState
    );
    assert!(!rig.function.link_up());
    rig.function.set_link(&state(Active)).unwrap();
    assert_eq!(rig.function.query_port(1).unwrap().state(), u8::from(Active));
    assert!(rig.function.link_up());
    for to in [Init, Armed] {
        assert_eq!(
            refusal(rig.function.set_link(&state(to))).status,
            AdminStatus::BadState
        );
    }
    rig.function.set_link(&state(Down)).unwrap();
    assert!(!rig.function.link_up());
    for to in [Armed, Active] {
        assert_eq!(
            refusal(rig.function.set_link(&state(to))).status,
            AdminStatus::BadState
        );
    }
    rig.function.set_link(&state(Init)).unwrap();
    assert_eq!(rig.state(), Init);
    rig.dev.assert_no_violations();
}

/// VL-14: the first data packet received makes an ARMED port ACTIVE; packets from before do not, nor does VL15.
#[test]
fn data_activates_an_armed_port() {
    let mut rig = Rig::of(ib(false), |card| card.set_link_word(96, 5));
    rig.function.set_link(&state(PortState::Armed)).unwrap();
    assert_eq!(rig.function.query_port(1).unwrap().state(), 3);
    rig.dev.with_card(|card| card.set_link_word(96 + 15, 1));
    assert_eq!(rig.function.query_link(1).unwrap().state(), 3);
    rig.dev.with_card(|card| card.set_link_word(96 + 2, 1));
    assert_eq!(rig.function.query_port(1).unwrap().state(), 4);
    assert_eq!(rig.state(), PortState::Active);
    assert!(rig.function.link_up());
}

/// VL-14: while the cable is out the port is logically active; tables can change meanwhile; it comes back by itself
/// from DEFER and, without a subnet manager, from DOWN.
#[test]
fn the_cable_comes_and_goes() {
    let mut rig = Rig::infiniband();
    rig.dev.with_card(|card| card.set_phy_up(false));
    rig.dev.settle();
    let port = rig.function.query_port(1).unwrap();
    assert_eq!((port.state(), port.phys_state()), (5, 2));
    assert!(rig.function.link_up());
    rig.function
        .set_link(&set(link_attr::LIMIT, |cmd| cmd.set_limit(9)))
        .unwrap();
    assert_eq!((rig.state(), rig.ctrl().limit()), (PortState::ActiveDefer, 9));
    rig.dev.with_card(|card| card.set_phy_up(true));
    rig.dev.settle();
    assert_eq!(rig.state(), PortState::Active);

    rig.dev.with_card(|card| card.set_phy_up(false));
    rig.dev.with_card(|card| card.pass_ns(LINK_WAIT_NS));
    rig.dev.settle();
    assert_eq!(rig.state(), PortState::Down);
    assert!(!rig.function.link_up());
    let e = refusal(rig.function.set_link(&state(PortState::Init)));
    assert_eq!((e.status, e.detail), (AdminStatus::BadState, link_attr::STATE));
    rig.dev.with_card(|card| card.set_phy_up(true));
    rig.dev.settle();
    assert_eq!(rig.state(), PortState::Active);
    assert!(rig.function.link_up());

    // Somebody wants it down: it stays so.
    rig.function.set_link(&state(PortState::Down)).unwrap();
    rig.dev.with_card(|card| card.set_phy_up(false));
    rig.dev.with_card(|card| card.set_phy_up(true));
    rig.dev.settle();
    assert_eq!(rig.state(), PortState::Down);
    rig.dev.assert_no_violations();
}

/// A cable that is plugged in after power on; with a subnet manager a lost link begins at INIT again.
#[test]
fn a_late_cable() {
    for (self_active, first) in [(true, PortState::Active), (false, PortState::Init)] {
        let rig = Rig::of(ib(self_active), |card| card.set_phy_up(false));
        assert_eq!(rig.state(), PortState::Down);
        rig.dev.with_card(|card| card.set_phy_up(true));
        rig.dev.settle();
        assert_eq!(rig.state(), first);
        rig.dev.assert_no_violations();
    }
    let mut rig = Rig::of(ib(false), |_| ());
    rig.function.set_link(&state(PortState::Armed)).unwrap();
    rig.dev.with_card(|card| card.set_phy_up(false));
    rig.dev.with_card(|card| card.set_phy_up(true));
    rig.dev.settle();
    assert_eq!(rig.state(), PortState::Init);
}

/// MGMT-5, ADDR-2, ADDR-3: LID, LMC and MTU; a port that is switched off takes no state but DOWN.
#[test]
fn port_attributes() {
    let mut rig = Rig::infiniband();
    let lid_lmc = |lid: u16, lmc: u8| {
        port(port_attr::LID | port_attr::LMC, |cmd| {
            cmd.set_lid(lid);
            cmd.set_lmc(lmc);
        })
    };
    for (lid, lmc) in [(0, 0), (0xc000, 0), (0xffff, 0), (1, 1), (0x1240, 7), (2, 2)] {
        let e = refusal(rig.function.modify_port(&lid_lmc(lid, lmc)));
        assert_eq!(e.status, AdminStatus::BadParam, "LID {lid:#x}, LMC {lmc}");
    }
    for (lid, lmc) in [(1, 0), (2, 1), (0x1280, 7), (0xbf80, 7), (0xbfff, 0)] {
        rig.function.modify_port(&lid_lmc(lid, lmc)).unwrap();
        let link = rig.function.query_link(1).unwrap();
        assert_eq!((link.lid(), link.lmc()), (lid, lmc));
    }
    // LID 0xbfff has no room for an LMC.
    let e = refusal(
        rig.function
            .modify_port(&port(port_attr::LMC, |cmd| cmd.set_lmc(1))),
    );
    assert_eq!((e.status, e.detail), (AdminStatus::BadParam, port_attr::LMC));

    rig.function
        .modify_port(&port(port_attr::MTU, |cmd| cmd.set_mtu(4)))
        .unwrap();
    assert_eq!((rig.ctrl().mtu(), rig.state()), (4, PortState::Active));
    rig.function
        .modify_port(&port(port_attr::ENABLE, |cmd| cmd.set_enable(false)))
        .unwrap();
    assert_eq!(rig.state(), PortState::Down);
    assert_eq!(
        refusal(rig.function.set_link(&state(PortState::Init))).status,
        AdminStatus::BadState
    );
    rig.function
        .modify_port(&port(port_attr::ENABLE, |cmd| cmd.set_enable(true)))
        .unwrap();
    assert_eq!(rig.state(), PortState::Active);
    rig.dev.assert_no_violations();
}

/// SYS-3: on Ethernet a VL is a priority, whatever the InfiniBand end of the settings says.
#[test]
fn ethernet_has_its_priorities() {
    let mut rig = Rig::of(LoneCard::identity(), |_| ());
    let cmd = set(link_attr::OP_VLS | link_attr::PEER_VLS, |cmd| {
        cmd.set_op_vls(OpVls::One.into());
        cmd.set_peer_vls(OpVls::Two.into());
    });
    rig.function.set_link(&cmd).unwrap();
    rig.function.set_sl2vl(1, &[3; 16]).unwrap();
    let priorities: [u8; 16] = std::array::from_fn(|sl| sl as u8 % 8);
    assert_eq!((rig.op_vls(), rig.sl2vl()), (Some(OpVls::Eight), priorities));
    rig.function
        .modify_port(&port(port_attr::LINK_LAYER, |cmd| cmd.set_link_layer(1)))
        .unwrap();
    assert_eq!((rig.op_vls(), rig.sl2vl()), (Some(OpVls::One), [0; 16]));
    rig.function
        .set_link(&set(link_attr::OP_VLS | link_attr::PEER_VLS, |cmd| {
            cmd.set_op_vls(OpVls::Four.into());
            cmd.set_peer_vls(OpVls::Eight.into());
        }))
        .unwrap();
    assert_eq!((rig.op_vls(), rig.sl2vl()), (Some(OpVls::Four), [3; 16]));
    rig.dev.assert_no_violations();
}

/// Status words, each in its place.
#[test]
fn counters_come_from_the_status_words() {
    let mut rig = Rig::infiniband();
    rig.dev.with_card(|card| {
        for word in 0..256 {
            card.set_link_word(word, 0x0100_0000 + word);
        }
    });
    for (vl, c) in rig.function.query_vl_counters(1).unwrap().iter().enumerate() {
        let got = [
            c.tx_credits(),
            c.tx_fill(),
            c.rx_fill(),
            c.tx_packets(),
            c.tx_blocks(),
            c.rx_packets(),
            c.tx_wait(),
        ];
        let wanted = [16, 32, 48, 64, 80, 96, 112].map(|first| 0x0100_0000 + first + vl as u32);
        assert_eq!(got, wanted, "VL{vl}");
    }
    let e = rig.function.query_link_errors(1).unwrap();
    let got = [
        e.symbol_error(),
        e.link_error_recovery(),
        e.link_downed(),
        e.port_rcv_errors(),
        e.port_rcv_remote_phys_errors(),
        e.port_rcv_switch_relay_errors(),
        e.port_xmit_discards(),
        e.port_xmit_constraint_errors(),
        e.port_rcv_constraint_errors(),
        e.local_link_integrity_errors(),
        e.excessive_buffer_overrun_errors(),
        e.vl15_dropped(),
        e.fcp_sent(),
        e.fcp_received(),
        e.lpcrc_errors(),
        e.vl_mismatch(),
    ];
    assert_eq!(got, std::array::from_fn(|n| 0x0100_0080 + n as u32));
    let link = rig.function.query_link(1).unwrap();
    assert_eq!((link.tx_ring(), link.rx_ring()), (0x0100_0001, 0x0100_0002));
}

/// What Ethernet alone has is refused on an InfiniBand port, by its name, and leaves no trace.
#[test]
fn priorities_are_of_ethernet() {
    let mut rig = Rig::infiniband();
    let before = (rig.sl2vl(), rig.low(), rig.high());
    for attr in [link_attr::TRUST, link_attr::DSCP, link_attr::ETS] {
        let cmd = set(attr | link_attr::HOQ_LIFE, |cmd| {
            cmd.set_tc_percent([100, 0, 0, 0, 0, 0, 0, 0]);
            cmd.set_hoq_life(7);
        });
        let e = refusal(rig.function.set_link(&cmd));
        assert_eq!((e.status, e.detail), (AdminStatus::Unsupported, attr));
    }
    let e = refusal(rig.function.query_pfc_counters(1));
    assert_eq!(e.status, AdminStatus::Unsupported);
    assert_eq!((rig.sl2vl(), rig.low(), rig.high()), before);
    rig.dev.assert_no_violations();
}

/// ETS gives each priority its class and the classes their shares; tables that InfiniBand has stay for InfiniBand.
#[test]
fn ets_gives_classes_and_shares() {
    let mut rig = Rig::of(LoneCard::identity(), |_| ());
    rig.function.set_sl2vl(1, &[3; 16]).unwrap();
    let cmd = set(link_attr::ETS, |cmd| {
        cmd.set_prio_tc(0x2211_0000);
        cmd.set_tc_percent([50, 30, 20, 0, 0, 0, 0, 0]);
    });
    rig.function.set_link(&cmd).unwrap();
    let classes: [u8; 16] = std::array::from_fn(|sl| [0, 0, 0, 0, 1, 1, 2, 2][sl % 8]);
    assert_eq!(rig.sl2vl(), classes);
    assert_eq!(
        (rig.low(), rig.high()),
        (vec![(0, 250), (1, 150), (2, 100)], vec![])
    );
    rig.dev.assert_no_violations();
}
