//! QP0 and the agents of the ports: a subnet manager's datagrams from a program on one card to the firmware of another.

mod common;

use common::{LIMIT_NS, cap};
use hca_cosim::PortView;
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, Rig, RigConfig, SecondCable};
use hca_verbs::{
    Access, Ah, AhAttr, Datagram, ModifyPortCmd, Mr, PortState, QpAttr, QpAttrMask, QpOptions, QpState,
    RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, WcStatus, WrData, port_attr,
};
use hca_wire::{LID_PERMISSIVE, QPN_SMI};

const GRH_BYTES: usize = 40;
const MAD_BYTES: usize = 256;
const SLOT_BYTES: usize = 512;
/// The slot that is sent from; those before are for receives.
const SEND_SLOT: usize = 8;
/// No answer comes after this time.
const SILENCE_NS: u64 = 40_000;

type Mad = [u8; MAD_BYTES];

/// QP0 of the first function of a card.
struct Smi {
    buf: DmaBuf,
    mr: Mr<Dev>,
    qp: RawQp<Dev>,
    /// To whoever is at the other end.
    far: Ah<Dev>,
    next_slot: usize,
}

fn attr(qp_state: QpState, port_num: u8) -> QpAttr {
    QpAttr {
        qp_state,
        port_num,
        ..QpAttr::default()
    }
}

fn make(node: &Node) -> hca_verbs::Result<RawQp<Dev>> {
    let options = QpOptions {
        cap: cap(),
        service: Service::Ud,
        is_smi: true,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    node.pd.create_raw_qp(&options)
}

fn to_rts(qp: &mut RawQp<Dev>, port_num: u8) -> hca_verbs::Result<()> {
    let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
    qp.modify(&attr(QpState::Init, port_num), init)?;
    qp.modify(&attr(QpState::Rtr, port_num), QpAttrMask::STATE)?;
    qp.modify(
        &attr(QpState::Rts, port_num),
        QpAttrMask::STATE | QpAttrMask::SQ_PSN,
    )
}

fn way(node: &Node, port_num: u8, dlid: u16) -> Ah<Dev> {
    let attr = AhAttr {
        dlid,
        port_num,
        ..AhAttr::default()
    };
    node.pd.create_ah(&attr).unwrap()
}

impl Smi {
    fn new(node: &Node, port_num: u8) -> Self {
        let buf = node.alloc(SLOT_BYTES * (SEND_SLOT + 1)).unwrap();
        let mr = node.pd.reg_mr(&buf, Access::LOCAL_WRITE).unwrap();
        let mut qp = make(node).unwrap();
        to_rts(&mut qp, port_num).unwrap();
        let far = way(node, port_num, LID_PERMISSIVE);
        let mut smi = Self {
            buf,
            mr,
            qp,
            far,
            next_slot: 0,
        };
        for _ in 0..SEND_SLOT {
            smi.post();
        }
        smi
    }

    fn post(&mut self) {
        let slot = self.next_slot % SEND_SLOT;
        let sges = [self.mr.sge((slot * SLOT_BYTES) as u64, SLOT_BYTES as u32)];
        let wr_id = slot as u64;
        self.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
        self.next_slot += 1;
    }

    fn send(&mut self, ah: Option<&Ah<Dev>>, mad: &Mad) {
        self.buf.write_bytes(SEND_SLOT * SLOT_BYTES, mad);
        let sges = [self.mr.sge((SEND_SLOT * SLOT_BYTES) as u64, MAD_BYTES as u32)];
        let wr = SendWr {
            wr_id: SEND_SLOT as u64,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        let to = ah.unwrap_or(&self.far).to(QPN_SMI, 0);
        self.qp.post_send_to([Datagram { wr, to }]).unwrap();
    }

    /// What comes within a time.
    fn receive(&mut self, rig: &Rig, node: usize, limit_ns: u64) -> Option<Mad> {
        let end_ns = rig.now_ns() + limit_ns;
        while rig.now_ns() < end_ns {
            let Some(wc) = rig.nodes[node].poll().unwrap() else {
                continue;
            };
            assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
            if wc.wr_id == SEND_SLOT as u64 {
                continue;
            }
            assert_eq!(
                (wc.byte_len as usize, wc.src_qp),
                (GRH_BYTES + MAD_BYTES, 0),
                "{wc:?}"
            );
            let mut mad = [0; MAD_BYTES];
            self.buf
                .read_bytes(wc.wr_id as usize * SLOT_BYTES + GRH_BYTES, &mut mad);
            self.post();
            return Some(mad);
        }
        None
    }

    fn ask(&mut self, rig: &Rig, node: usize, mad: &Mad) -> Mad {
        self.send(None, mad);
        self.receive(rig, node, LIMIT_NS).expect("no answer")
    }
}

/// A request along a directed route of `hops` hops, the first one through port 1.
fn directed(method: u8, attribute: u16, modifier: u32, hops: u8) -> Mad {
    let mut mad = [0; MAD_BYTES];
    mad[..4].copy_from_slice(&[1, 0x81, 1, method]);
    (mad[6], mad[7]) = (hops, hops);
    mad[8..16].copy_from_slice(&0x1122_3344_5566_7788u64.to_be_bytes());
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&modifier.to_be_bytes());
    mad[32..36].fill(0xff);
    mad[129] = 1;
    mad
}

const GET: u8 = 1;
const SET: u8 = 2;
const NODE_INFO: u16 = 0x11;
const PORT_INFO: u16 = 0x15;
const PKEY_TABLE: u16 = 0x16;

fn managed() -> Rig {
    let config = RigConfig {
        managed: true,
        ..RigConfig::new(41, LinkKind::InfiniBand)
    };
    Rig::new(&config).unwrap()
}

fn state(rig: &Rig, node: usize) -> u8 {
    rig.nodes[node].context.query_port(1).unwrap().state()
}

/// What a subnet manager makes of a port: PortInfo with a LID and a state.
fn set_up(smi: &mut Smi, rig: &Rig, hops: u8, lid: u16, state: u8) -> u16 {
    let own = rig.nodes[0].context.query_port(1).unwrap().lid();
    let home = (hops == 0).then(|| way(&rig.nodes[0], 1, own));
    let mut ask = |mad: &Mad| {
        smi.send(home.as_ref(), mad);
        smi.receive(rig, 0, LIMIT_NS).expect("no answer")
    };
    let mut mad = ask(&directed(GET, PORT_INFO, 0, hops));
    mad[3..6].copy_from_slice(&[SET, 0, 0]);
    mad[64 + 16..64 + 18].copy_from_slice(&lid.to_be_bytes());
    mad[64 + 18..64 + 20].copy_from_slice(&1u16.to_be_bytes());
    mad[64 + 32] = mad[64 + 32] & 0xf0 | state;
    mad[64 + 33] = 0;
    // NeighborMTU 4096, VLs as many as there are.
    mad[64 + 36] = 5 << 4;
    mad[64 + 43] = mad[64 + 37];
    let answer = ask(&mad);
    assert_shown(rig, usize::from(hops));
    u16::from_be_bytes([answer[4], answer[5]]) & 0x7fff
}

/// What firmware has told its board of a port is what it tells a driver.
fn assert_shown(rig: &Rig, node: usize) {
    let told = rig.nodes[node].context.query_port(1).unwrap();
    let shown = rig.sim.fabric().card(rig.cards[node]).port_view(1);
    let mut wanted = PortView::new();
    wanted.set_port_num(1);
    wanted.set_state(told.state());
    wanted.set_phys_state(told.phys_state());
    wanted.set_lid(told.lid());
    wanted.set_lmc(told.lmc());
    wanted.set_sm_lid(told.sm_lid());
    wanted.set_sm_sl(told.sm_sl());
    wanted.set_cap_flags(told.port_cap_flags());
    assert_eq!(shown, Some(wanted));
}

/// MGMT-2, VL-9: a port that nobody has set up answers a directed route; QP0 is not for every function.
#[test]
fn mgmt_2_the_agent_of_a_port_answers() {
    let rig = managed();
    assert_eq!(state(&rig, 0), u8::from(PortState::Init));
    let mut smi = Smi::new(&rig.nodes[0], 1);
    let asked = directed(GET, NODE_INFO, 0, 1);
    let answer = smi.ask(&rig, 0, &asked);
    assert_eq!(
        answer[3..6],
        [0x81, 0x80, 0],
        "GetResp, on the way back, no error"
    );
    assert_eq!((&answer[8..18], answer[6]), (&asked[8..18], 1));
    assert_eq!(answer[193], 1, "the return path");
    // Base and class version, a channel adapter, with one port.
    assert_eq!(answer[64..68], [1, 1, 1, 1]);
    let port_guid = rig.nodes[1].context.query_gid(1, 0).unwrap();
    assert_eq!(answer[64 + 20..64 + 28], port_guid[8..]);
    assert_eq!(answer[64 + 36], 1, "port number");
    let other = Node::open(rig.sim.device(rig.cards[0], 1).unwrap(), 16).unwrap();
    assert!(make(&other).is_err(), "QP0 of another function");
}

/// MGMT-1, MGMT-5, VL-14, ADDR-5: a program sets up both ports, its own by a route without hops; LIDs are what it says
/// while they are armed and active, and agents answer by LID then.
#[test]
fn mgmt_5_a_program_sets_up_both_ports() {
    let rig = managed();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    for (hops, lid) in [(0, 7), (1, 9)] {
        assert_eq!(set_up(&mut smi, &rig, hops, lid, 0), 0);
        let port = rig.nodes[usize::from(hops)].context.query_port(1).unwrap();
        assert_eq!((port.lid(), port.sm_lid()), (lid, 1));
        assert_eq!(port.state(), u8::from(PortState::Init));
    }
    for (state_asked, now) in [(3, PortState::Armed), (4, PortState::Active)] {
        for hops in [1, 0] {
            let lid = [7, 9][usize::from(hops)];
            assert_eq!(set_up(&mut smi, &rig, hops, lid, state_asked), 0);
            let port = rig.nodes[usize::from(hops)].context.query_port(1).unwrap();
            assert_eq!((port.state(), port.lid(), port.lmc()), (u8::from(now), lid, 0));
        }
    }
    // By LID now, and the port's own LID reaches itself.
    for (lid, node) in [(9, 1), (7, 0)] {
        let mut mad = directed(GET, NODE_INFO, 0, 0);
        mad[1] = 1;
        let ah = way(&rig.nodes[0], 1, lid);
        smi.send(Some(&ah), &mad);
        let answer = smi.receive(&rig, 0, LIMIT_NS).expect("no answer");
        let guid = rig.nodes[node].context.query_gid(1, 0).unwrap();
        assert_eq!(answer[64 + 20..64 + 28], guid[8..], "LID {lid}");
    }
}

/// MGMT-2: each port has an agent of its own, and its own QP0; an Ethernet port has none.
#[test]
fn mgmt_2_each_port_has_its_agent() {
    for second in [LinkKind::InfiniBand, LinkKind::Ethernet] {
        let config = RigConfig {
            managed: true,
            second: Some(SecondCable::new(second)),
            ..RigConfig::new(43, LinkKind::InfiniBand)
        };
        let rig = Rig::new(&config).unwrap();
        if second == LinkKind::Ethernet {
            let mut qp = make(&rig.nodes[0]).unwrap();
            assert!(to_rts(&mut qp, 2).is_err());
            continue;
        }
        let mut ports = [1, 2].map(|port| (port, Smi::new(&rig.nodes[0], port)));
        for (port, smi) in &mut ports {
            let mut mad = directed(GET, NODE_INFO, 0, 1);
            mad[129] = *port;
            let answer = smi.ask(&rig, 0, &mad);
            let guid = rig.nodes[1].context.query_gid(*port, 0).unwrap();
            assert_eq!(
                (answer[67], answer[193], answer[64 + 36]),
                (2, *port, *port),
                "port {port}"
            );
            assert_eq!(answer[64 + 20..64 + 28], guid[8..], "port {port}");
        }
    }
}

/// KEY-2, KEY-3: a locked port does nothing for who has not the key, and says so by its counter.
#[test]
fn key_3_a_locked_port_serves_the_holder_alone() {
    let rig = managed();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    let mut lock = smi.ask(&rig, 0, &directed(GET, PORT_INFO, 0, 1));
    lock[3..6].copy_from_slice(&[SET, 0, 0]);
    lock[64..72].copy_from_slice(&0x5eed_u64.to_be_bytes());
    lock[64 + 16..64 + 20].copy_from_slice(&[0, 9, 0, 1]);
    (lock[64 + 32], lock[64 + 33], lock[64 + 34]) = (lock[64 + 32] & 0xf0, 0, 2 << 6);
    assert_eq!(smi.ask(&rig, 0, &lock)[4..6], [0x80, 0]);
    for mkey in [0u64, 0x5eee] {
        for method in [GET, SET] {
            let mut mad = lock;
            mad[3] = method;
            mad[24..32].copy_from_slice(&mkey.to_be_bytes());
            mad[64 + 17] = 11;
            smi.send(None, &mad);
            assert_eq!(
                smi.receive(&rig, 0, SILENCE_NS),
                None,
                "method {method} with key {mkey:#x}"
            );
        }
    }
    assert_eq!(rig.nodes[1].context.query_port(1).unwrap().lid(), 9);
    let mut get = directed(GET, PORT_INFO, 0, 1);
    get[24..32].copy_from_slice(&0x5eed_u64.to_be_bytes());
    let answer = smi.ask(&rig, 0, &get);
    assert_eq!(
        (answer[64 + 45], &answer[64..72]),
        (4, &0x5eed_u64.to_be_bytes()[..])
    );
}

/// MGMT-2: thousands of datagrams of any content, on VL15 and as fast as they go: some are lost, none does harm, and
/// the agent answers behind them.
#[test]
fn mgmt_2_a_flood_of_anything_is_survived() {
    let rig = managed();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    let mut seed = 7u64;
    for round in 0..2_000 {
        let mut mad = [0; MAD_BYTES];
        for chunk in mad.chunks_mut(8) {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            chunk.copy_from_slice(&seed.to_be_bytes());
        }
        // Nobody locks the port.
        mad[64..72].fill(0);
        if round % 2 == 0 {
            mad[..64].copy_from_slice(
                &directed(1 + round as u8 % 3, 0x10 + round as u16 % 12, round / 7, 1)[..64],
            );
        }
        smi.send(None, &mad);
        while smi.receive(&rig, 0, 200).is_some() {}
    }
    while smi.receive(&rig, 0, SILENCE_NS).is_some() {}
    assert_eq!(smi.ask(&rig, 0, &directed(GET, NODE_INFO, 0, 1))[3], 0x81);
}

/// KEY-24: who is not the subnet manager cannot play it: packets to QP 0 from other QPs reach nobody.
#[test]
fn key_24_only_qp0_reaches_agents() {
    let rig = Rig::new(&RigConfig::new(42, LinkKind::InfiniBand)).unwrap();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    let mut forger = {
        let node = &rig.nodes[1];
        let options = QpOptions {
            cap: cap(),
            service: Service::Ud,
            ..QpOptions::new(&node.cq, &node.cq)
        };
        node.pd.create_raw_qp(&options).unwrap()
    };
    to_rts(&mut forger, 1).unwrap();
    let mad = directed(GET, NODE_INFO, 0, 1);
    let ah = way(&rig.nodes[1], 1, 1);
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        flags: SendFlags::SIGNALED,
        data: WrData::Inline(&mad[..200]),
    };
    for qpn in [QPN_SMI, 5] {
        let to = ah.to(qpn, 0);
        forger.post_send_to([Datagram { wr, to }]).unwrap();
    }
    assert_eq!(smi.receive(&rig, 0, SILENCE_NS), None);
    // And what is no request of ours gets nothing: another hop count, an answer, an unknown method.
    for (at, byte) in [(6, 0), (7, 2), (3, 0x81), (3, 5), (1, 0x10)] {
        let mut mad = directed(GET, NODE_INFO, 0, 1);
        mad[at] = byte;
        smi.send(None, &mad);
        assert_eq!(smi.receive(&rig, 0, SILENCE_NS), None, "byte {at} {byte}");
    }
    assert_eq!(smi.ask(&rig, 0, &directed(GET, NODE_INFO, 0, 1))[3], 0x81);
}

/// MGMT-6, MGMT-9, KEY-3: a wrong M_Key, and a manager that has come, are told of by traps through all layers, again
/// and again until they are repressed. KEY-5: when the lease is over anybody is let in.
#[test]
fn mgmt_6_traps_reach_the_manager() {
    let rig = managed();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    assert_eq!(set_up(&mut smi, &rig, 0, 1, 0), 0);
    assert_eq!(set_up(&mut smi, &rig, 1, 9, 0), 0);
    let mut lock = smi.ask(&rig, 0, &directed(GET, PORT_INFO, 0, 1));
    lock[3..6].copy_from_slice(&[SET, 0, 0]);
    lock[64..72].copy_from_slice(&KEY.to_be_bytes());
    (lock[64 + 26], lock[64 + 27]) = (0, 1);
    (lock[64 + 32], lock[64 + 33], lock[64 + 34]) = (lock[64 + 32] & 0xf0, 0, 2 << 6);
    assert_eq!(smi.ask(&rig, 0, &lock)[4..6], [0x80, 0]);
    smi.send(None, &directed(GET, PORT_INFO, 0, 1));
    let first = smi.receive(&rig, 0, TRAP_NS).expect("no trap");
    assert_eq!((first[1], first[3], trap(&first)), (0x01, 5, (256, 9)));
    assert_eq!(smi.receive(&rig, 0, TRAP_NS), Some(first), "again");
    repress(&rig, &mut smi, &first, KEY);
    assert_eq!(smi.receive(&rig, 0, TRAP_NS), None, "it has been heard");
    // A manager comes to the other port.
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(port_attr::IS_SM);
    cmd.set_is_sm(true);
    rig.nodes[1].context.modify_port(&cmd).unwrap();
    assert_shown(&rig, 1);
    let second = smi.receive(&rig, 0, TRAP_NS).expect("no trap");
    assert_eq!(trap(&second), (144, 9));
    assert_eq!(second[64 + 10 + 9] & 2, 2, "IsSM");
    // A key that is wrong represses nothing, and is one more to be told of.
    repress(&rig, &mut smi, &second, 1);
    let numbers = [0; 2].map(|_| trap(&smi.receive(&rig, 0, TRAP_NS).expect("no trap")).0);
    assert_eq!(numbers.iter().min().zip(numbers.iter().max()), Some((&144, &256)));
    // Nobody renews the lease of a second, which runs since the first wrong key.
    let end_ns = rig.now_ns() + 1_000_000_000;
    while rig.now_ns() < end_ns {
        let _ = smi.receive(&rig, 0, TRAP_NS);
    }
    let mut opened = directed(GET, PORT_INFO, 0, 1);
    opened[8] = 0x77;
    smi.send(None, &opened);
    let is_answer = |mad: &Mad| mad[8] == 0x77 && mad[3] == 0x81;
    let answered = (0..4).find_map(|_| smi.receive(&rig, 0, TRAP_NS).filter(is_answer));
    assert!(answered.is_some(), "the lease is over");
}

/// KEY-15, KEY-23, KEY-25, MGMT-9: a datagram with a wrong Q_Key is told of by trap 258, one of another partition by
/// trap 257: from which LID it came and for which QP it was; both are counted.
#[test]
fn key_23_wrong_keys_are_told_of() {
    let rig = managed();
    let mut smi = Smi::new(&rig.nodes[0], 1);
    assert_eq!(set_up(&mut smi, &rig, 0, 1, 0), 0);
    assert_eq!(set_up(&mut smi, &rig, 1, 9, 0), 0);
    for (hops, lid, state) in [(1, 9, 3), (0, 1, 3), (1, 9, 4), (0, 1, 4)] {
        assert_eq!(set_up(&mut smi, &rig, hops, lid, state), 0);
    }
    let datagrams = |node: &Node| {
        let options = QpOptions {
            cap: cap(),
            service: Service::Ud,
            ..QpOptions::new(&node.cq, &node.cq)
        };
        let mut qp = node.pd.create_raw_qp(&options).unwrap();
        to_rts(&mut qp, 1).unwrap();
        qp
    };
    let victim = datagrams(&rig.nodes[1]);
    let mut forger = datagrams(&rig.nodes[0]);
    let ah = way(&rig.nodes[0], 1, 9);
    let mut send = |qkey: u32| {
        let wr = SendWr {
            wr_id: 1,
            op: SendOp::Send,
            flags: SendFlags::default(),
            data: WrData::Inline(&[7; 16]),
        };
        forger
            .post_send_to([Datagram {
                wr,
                to: ah.to(victim.qp_num(), qkey),
            }])
            .unwrap();
    };
    send(0x77);
    let told = smi.receive(&rig, 0, TRAP_NS).expect("no trap");
    assert_eq!(trap(&told), (258, 9));
    let word = |mad: &Mad, at: usize| u16::from_be_bytes([mad[74 + at], mad[75 + at]]);
    assert_eq!((word(&told, 2), word(&told, 4)), (1, 9));
    assert_eq!(told[74 + 15..74 + 18], victim.qp_num().to_be_bytes()[1..]);
    repress(&rig, &mut smi, &told, 0);
    assert_eq!(smi.receive(&rig, 0, TRAP_NS), None, "it has been heard");
    let counted = |card: usize| {
        let port = rig.nodes[card].context.query_port(1).unwrap();
        (port.bad_pkey_cntr(), port.qkey_viol_cntr())
    };
    assert_eq!((counted(0), counted(1)), ((0, 0), (0, 1)), "V-35");
    // Another partition there.
    let mut keys = directed(SET, PKEY_TABLE, 0, 1);
    keys[64..66].copy_from_slice(&0x8001_u16.to_be_bytes());
    assert_eq!(smi.ask(&rig, 0, &keys)[4..6], [0x80, 0]);
    send(0);
    let told = smi.receive(&rig, 0, TRAP_NS).expect("no trap");
    assert_eq!(trap(&told), (257, 9));
    assert_eq!((word(&told, 2), word(&told, 4)), (1, 9));
    let counted = rig.nodes[1].context.query_counters(1).unwrap();
    assert_eq!((counted.qkey_violations(), counted.pkey_violations()), (1, 1));
}

const KEY: u64 = 0x5eed;
/// Longer than between two traps, shorter than two such times.
const TRAP_NS: u64 = 15_000_000;

/// Number and issuer of a trap.
fn trap(mad: &Mad) -> (u16, u16) {
    let word = |at: usize| u16::from_be_bytes([mad[at], mad[at + 1]]);
    (word(64 + 4), word(64 + 6))
}

fn repress(rig: &Rig, smi: &mut Smi, of: &Mad, mkey: u64) {
    let mut mad = *of;
    mad[3] = 7;
    mad[24..32].copy_from_slice(&mkey.to_be_bytes());
    let ah = way(&rig.nodes[0], 1, 9);
    smi.send(Some(&ah), &mad);
}
