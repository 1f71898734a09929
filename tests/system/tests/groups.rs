//! Datagrams that several QPs get a copy of: QP1 of each function, and multicast groups.

mod common;

use common::{BOTH_LINKS, LIMIT_NS, cap};
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, Rig, RigConfig};
use hca_verbs::{
    Access, Ah, AhAttr, Datagram, Gid, Mr, QpAttr, QpAttrMask, QpOptions, QpState, RawQp, RecvWr, SendFlags,
    SendOp, SendWr, Service, WcStatus, WorkCompletion, WrData, wc_flag,
};
use hca_wire::{LID_MULTICAST, QKEY_GSI, QPN_GSI, QPN_MULTICAST};

const GRH_BYTES: u32 = 40;
const QKEY: u32 = 0x1111_1111;
/// Bytes of a management datagram.
const MAD_BYTES: u32 = 256;
const SLOT_BYTES: usize = 512;
const SLOTS: usize = 64;

/// A QP of datagrams of a function, with memory for what it gets.
struct Member {
    card: usize,
    node: Node,
    buf: DmaBuf,
    mr: Mr<Dev>,
    qp: RawQp<Dev>,
    posted: usize,
}

fn attr(qp_state: QpState, qkey: u32) -> QpAttr {
    QpAttr {
        qp_state,
        qkey,
        port_num: 1,
        ..QpAttr::default()
    }
}

fn init_mask() -> QpAttrMask {
    QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY
}

fn make_qp(node: &Node, is_gsi: bool) -> RawQp<Dev> {
    let options = QpOptions {
        cap: cap(),
        service: Service::Ud,
        is_gsi,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    node.pd.create_raw_qp(&options).unwrap()
}

fn to_rts(qp: &mut RawQp<Dev>, qkey: u32) {
    qp.modify(&attr(QpState::Init, qkey), init_mask()).unwrap();
    qp.modify(&attr(QpState::Rtr, qkey), QpAttrMask::STATE).unwrap();
    let rts = QpAttrMask::STATE | QpAttrMask::SQ_PSN;
    qp.modify(&attr(QpState::Rts, qkey), rts).unwrap();
}

impl Member {
    fn new(rig: &Rig, card: usize, func: u8, is_gsi: bool) -> Self {
        let node = Node::open(rig.sim.device(rig.cards[card], func).unwrap(), 256).unwrap();
        let buf = node.alloc(SLOT_BYTES * SLOTS).unwrap();
        let mr = node.pd.reg_mr(&buf, Access::LOCAL_WRITE).unwrap();
        let mut qp = make_qp(&node, is_gsi);
        to_rts(&mut qp, if is_gsi { QKEY_GSI } else { QKEY });
        Self {
            card,
            node,
            buf,
            mr,
            qp,
            posted: 0,
        }
    }

    fn recv(&mut self) {
        let slot = self.posted % SLOTS;
        let sges = [self.mr.sge((slot * SLOT_BYTES) as u64, SLOT_BYTES as u32)];
        let wr_id = self.posted as u64;
        self.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
        self.posted += 1;
    }

    fn wait(&self, rig: &Rig) -> WorkCompletion {
        let end_ns = rig.now_ns() + LIMIT_NS;
        loop {
            if let Some(wc) = self.node.poll().unwrap() {
                return wc;
            }
            assert!(rig.now_ns() < end_ns, "no completion within {LIMIT_NS} ns");
        }
    }

    /// The way to another card, or to a group.
    fn way(&self, rig: &Rig, to: usize, group: Option<Gid>) -> Ah<Dev> {
        let port = rig.nodes[to].context.query_port(1).unwrap();
        let is_ethernet = port.lid() == 0;
        let sgid_index = u8::from(is_ethernet);
        let dgid = rig.nodes[to].context.query_gid(1, sgid_index.into()).unwrap();
        let attr = AhAttr {
            is_global: is_ethernet || group.is_some(),
            dgid: group.unwrap_or(dgid),
            sgid_index,
            dlid: group.map_or(port.lid(), |_| LID_MULTICAST + 7),
            // The card finds that of a group itself.
            dmac: group.map_or(port.mac(), |_| [0; 6]),
            ..AhAttr::default()
        };
        self.node.pd.create_ah(&attr).unwrap()
    }

    fn send(&mut self, rig: &Rig, ah: &Ah<Dev>, to: (u32, u32), bytes: &[u8]) {
        let wr = SendWr {
            wr_id: 1 << 32,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Inline(bytes),
        };
        let datagram = Datagram {
            wr,
            to: ah.to(to.0, to.1),
        };
        self.qp.post_send_to([datagram]).unwrap();
        let wc = self.wait(rig);
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, 1 << 32), "{wc:?}");
    }

    /// Gets one copy of a datagram.
    fn expect(&self, rig: &Rig, bytes: &[u8], src_qp: u32, what: &str) -> WorkCompletion {
        let wc = self.wait(rig);
        assert_eq!(wc.status, WcStatus::Success, "{what}: {wc:?}");
        assert_eq!(wc.byte_len, GRH_BYTES + bytes.len() as u32, "{what}");
        assert_eq!((wc.src_qp, wc.qp_num), (src_qp, self.qp.qp_num()), "{what}");
        let at = (wc.wr_id as usize % SLOTS) * SLOT_BYTES + GRH_BYTES as usize;
        let mut found = vec![0; bytes.len()];
        self.buf.read_bytes(at, &mut found);
        assert_eq!(found, bytes, "{what}");
        wc
    }

    fn silent(&self, what: &str) {
        assert_eq!(self.node.poll().unwrap(), None, "{what}: a copy too many");
    }
}

/// Inline data of a test: as long as fits.
fn pattern(tag: u8) -> Vec<u8> {
    (0..200).map(|i: u8| i.wrapping_mul(7) ^ tag).collect()
}

fn group(kind: LinkKind, last: u8) -> Gid {
    match kind {
        LinkKind::Ethernet => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, last],
        LinkKind::InfiniBand => [0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, last],
    }
}

/// MGMT-4, KEY-23: one copy for QP1 of each function; it comes from QP1. One without a receive, and one that is gone,
/// take nothing from the others; nobody else gets it.
#[test]
fn mgmt_4_a_datagram_for_qp1_reaches_every_functions_qp1() {
    for kind in BOTH_LINKS {
        let mut rig = Rig::new(&RigConfig::new(31, kind)).unwrap();
        let mut sender = Member::new(&rig, 0, 1, true);
        let mut members: Vec<Member> = (1..4).map(|func| Member::new(&rig, 1, func, true)).collect();
        let mut bystander = make_qp(&rig.nodes[1], false);
        to_rts(&mut bystander, QKEY_GSI & 0x7fff_ffff);
        let ah = sender.way(&rig, 1, None);
        assert!(MAD_BYTES as usize <= SLOT_BYTES);
        for round in 0..12 {
            let what = format!("{kind:?} round {round}");
            // Each in turn has no receive.
            let without = round % 4;
            for member in members.iter_mut().enumerate().filter(|(i, _)| *i != without) {
                member.1.recv();
            }
            let bytes = pattern(round as u8);
            sender.send(&rig, &ah, (QPN_GSI, QKEY_GSI), &bytes);
            for (_, member) in members.iter().enumerate().filter(|(i, _)| *i != without) {
                member.expect(&rig, &bytes, QPN_GSI, &what);
            }
            rig.run(3_000);
            members.iter().for_each(|member| member.silent(&what));
            sender.silent(&what);
            assert_eq!(rig.nodes[1].poll().unwrap(), None, "{what}");
        }
        // KEY-23.
        members.iter_mut().for_each(Member::recv);
        let mut stranger = Member::new(&rig, 0, 2, false);
        let way = stranger.way(&rig, 1, None);
        stranger.send(&rig, &way, (QPN_GSI, QKEY), &pattern(99));
        rig.run(3_000);
        members.iter().for_each(|member| member.silent("wrong Q_Key"));
        // The middle one goes: the list closes behind it.
        let mut gone = members.remove(1);
        gone.qp.destroy().unwrap();
        let bytes = pattern(100);
        sender.send(&rig, &ah, (QPN_GSI, QKEY_GSI), &bytes);
        for member in &members {
            member.expect(&rig, &bytes, QPN_GSI, "one is gone");
        }
        // A new one has its place.
        gone.qp = make_qp(&gone.node, true);
        to_rts(&mut gone.qp, QKEY_GSI);
        gone.recv();
        sender.send(&rig, &ah, (QPN_GSI, QKEY_GSI), &bytes);
        gone.expect(&rig, &bytes, QPN_GSI, "a new one");
    }
}

/// A function has one QP1 for each port; a QP that is reset leaves it to another one, and its Q_Key is not chosen.
#[test]
fn mgmt_4_one_qp1_for_each_function() {
    let rig = Rig::new(&RigConfig::new(32, LinkKind::Ethernet)).unwrap();
    let mut first = Member::new(&rig, 0, 1, true);
    assert_eq!(first.qp.query().unwrap().qkey, QKEY_GSI);
    let mut second = make_qp(&first.node, true);
    let refused = second.modify(&attr(QpState::Init, 5), init_mask()).unwrap_err();
    assert_eq!(refused.errno(), 16, "{refused}");
    assert_eq!(second.query().unwrap().qp_state, QpState::Reset);
    first.qp.modify_state(QpState::Reset).unwrap();
    to_rts(&mut second, 5);
    assert_eq!(second.query().unwrap().qkey, QKEY_GSI);
    // Another function has its own.
    let other = Member::new(&rig, 0, 2, true);
    assert_eq!(other.qp.state(), QpState::Rts);
    // KEY-24: of a function that is no manager's, QP1 alone has such a Q_Key.
    let mut plain = make_qp(&other.node, false);
    assert_eq!(
        plain
            .modify(&attr(QpState::Init, QKEY_GSI), init_mask())
            .unwrap_err()
            .errno(),
        1
    );
}

/// MC-3, MC-4, MC-5, MC-7: one copy for each member on every card, the sender's own card included, whatever groups have
/// the same hash; none for who has left.
#[test]
fn mc_3_each_member_gets_one_copy() {
    for kind in BOTH_LINKS {
        let mut rig = Rig::new(&RigConfig::new(33, kind)).unwrap();
        let mut members: Vec<Member> = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
            .map(|(card, func)| Member::new(&rig, card, func, false))
            .into();
        // Bits 106 and 112 are the same ones of their six-bit pieces: the hash is that of the first group.
        let mut alike = group(kind, 1);
        alike[13] ^= 1 << 2;
        alike[14] ^= 1;
        let groups = [group(kind, 1), group(kind, 2), alike];
        // Who is in which; some say so twice.
        let is_in = |group: usize, member: usize| [0b11101, 0b01010, 0b10011][group] >> member & 1 == 1;
        for (m, member) in members.iter().enumerate() {
            for (g, mgid) in groups.iter().enumerate().filter(|(g, _)| is_in(*g, m)) {
                member.qp.attach_mcast(*mgid).unwrap();
                if g == 0 {
                    member.qp.attach_mcast(*mgid).unwrap();
                }
            }
        }
        for from in 0..members.len() {
            for (g, mgid) in groups.iter().enumerate() {
                let what = format!("{kind:?} from {from} to group {g}");
                members.iter_mut().for_each(Member::recv);
                let ah = members[from].way(&rig, 0, Some(*mgid));
                let bytes = pattern((from * 3 + g) as u8);
                members[from].send(&rig, &ah, (QPN_MULTICAST, QKEY), &bytes);
                let src_qp = members[from].qp.qp_num();
                for member in members.iter().enumerate().filter(|(m, _)| is_in(g, *m)) {
                    let wc = member.1.expect(&rig, &bytes, src_qp, &what);
                    assert_eq!(wc.wc_flags & wc_flag::GRH, wc_flag::GRH, "MC-2 {what}");
                }
                rig.run(3_000);
                members.iter().for_each(|member| member.silent(&what));
            }
        }
        // MC-8, then nobody is left in the first one on card 1 but the last.
        assert_eq!(members[2].qp.destroy().unwrap_err().errno(), 16, "MC-8");
        members[2].qp.detach_mcast(groups[0]).unwrap();
        assert_eq!(members[2].qp.detach_mcast(groups[0]).unwrap_err().errno(), 22);
        members[3].recv();
        let ah = members[0].way(&rig, 0, Some(groups[0]));
        members[0].send(&rig, &ah, (QPN_MULTICAST, QKEY), &pattern(77));
        for m in [0, 4] {
            let src_qp = members[0].qp.qp_num();
            members[m].expect(&rig, &pattern(77), src_qp, "one has left");
        }
        rig.run(3_000);
        members[2].silent("has left");
        assert_eq!(members[2].card, 1);
        members[2].qp.destroy().unwrap();
    }
}

/// MC-1, MC-6: who may not, and how many may.
#[test]
fn mc_1_mc_6_refusals() {
    let rig = Rig::new(&RigConfig::new(34, LinkKind::Ethernet)).unwrap();
    let mgid = group(LinkKind::Ethernet, 1);
    let member = Member::new(&rig, 1, 1, false);
    let errno = |result: hca_verbs::Result<()>| result.map_err(|error| error.errno());
    let connection = rig.nodes[1].create_qp(cap(), false).unwrap();
    assert_eq!(errno(connection.attach_mcast(mgid)), Err(22), "RC");
    assert_eq!(
        errno(make_qp(&member.node, false).attach_mcast(mgid)),
        Err(22),
        "no port yet"
    );
    assert_eq!(
        errno(Member::new(&rig, 1, 2, true).qp.attach_mcast(mgid)),
        Err(22),
        "QP1"
    );
    let unicast = rig.nodes[1].context.query_gid(1, 1).unwrap();
    for no_group in [unicast, [0; 16], [0xfe; 16]] {
        assert_eq!(errno(member.qp.attach_mcast(no_group)), Err(22), "{no_group:?}");
    }
    let device = member.node.context.query_device().unwrap();
    let (each, all) = (device.max_mcast_qp_attach(), device.max_total_mcast_qp_attach());
    let mut qps: Vec<RawQp<Dev>> = (0..each).map(|_| make_qp(&member.node, false)).collect();
    for (count, qp) in qps.iter_mut().enumerate() {
        qp.modify(&attr(QpState::Init, QKEY), init_mask()).unwrap();
        assert_eq!(errno(qp.attach_mcast(mgid)), Ok(()), "{count}");
    }
    assert_eq!(errno(member.qp.attach_mcast(mgid)), Err(12), "the group is full");
    let mut attached = each;
    let more = (0..=all).find(|i| {
        let mut other = group(LinkKind::Ethernet, *i as u8);
        other[14] = 77;
        let result = errno(member.qp.attach_mcast(other));
        attached += u32::from(result.is_ok());
        result == Err(12)
    });
    assert!(more.is_some());
    assert_eq!(attached, all, "MC-6");
    // What one function has taken another one does not miss.
    let other = Member::new(&rig, 1, 3, false);
    assert_eq!(errno(other.qp.attach_mcast(mgid)), Ok(()));
    // A function that is reset leaves its groups.
    drop((member, qps));
    let again = Member::new(&rig, 1, 1, false);
    assert_eq!(errno(again.qp.attach_mcast(mgid)), Ok(()));
}

/// KEY-14, KEY-16, KEY-21: QP1 is of every partition of its port: what is sent has the P_Key that the way says, and who
/// gets it is told which of his own let it in. Without one nobody gets it, and it is counted; so is what finds no room
/// (STAT: QP1Dropped).
#[test]
fn key_21_qp1_speaks_in_every_partition() {
    let mut rig = Rig::new(&RigConfig::new(33, LinkKind::InfiniBand)).unwrap();
    for (card, index, pkey) in [
        (0, 5, 0x8123),
        (0, 6, 0x0456),
        (0, 7, 0x8777),
        (1, 9, 0x0123),
        (1, 31, 0x8456),
    ] {
        rig.nodes[card].context.set_pkey(1, index, pkey).unwrap();
    }
    let mut sender = Member::new(&rig, 0, 1, true);
    let mut member = Member::new(&rig, 1, 1, true);
    let way = |rig: &Rig, sender: &Member, index| sender.way(rig, 1, None).in_partition(index);
    for (round, (index, found)) in [(0, 0), (5, 9), (6, 31), (0, 0)].into_iter().enumerate() {
        member.recv();
        let bytes = pattern(round as u8);
        let ah = way(&rig, &sender, index).unwrap();
        sender.send(&rig, &ah, (QPN_GSI, QKEY_GSI), &bytes);
        let wc = member.expect(&rig, &bytes, QPN_GSI, &format!("index {index}"));
        assert_eq!(wc.pkey_index, found, "index {index}");
    }
    assert!(way(&rig, &sender, 32).is_err(), "the port has 32");
    let counted = |rig: &Rig| rig.nodes[1].context.query_counters(1).unwrap();
    assert_eq!(
        (counted(&rig).pkey_violations(), counted(&rig).qp1_drops()),
        (0, 0)
    );
    member.recv();
    let stranger = way(&rig, &sender, 7).unwrap();
    sender.send(&rig, &stranger, (QPN_GSI, QKEY_GSI), &pattern(9));
    rig.run(3_000);
    member.silent("another partition");
    assert_eq!(
        (counted(&rig).pkey_violations(), counted(&rig).qp1_drops()),
        (1, 0)
    );
    let ah = way(&rig, &sender, 5).unwrap();
    for round in 0..4 {
        sender.send(&rig, &ah, (QPN_GSI, QKEY_GSI), &pattern(round));
    }
    rig.run(3_000);
    assert_eq!(member.expect(&rig, &pattern(0), QPN_GSI, "the one").pkey_index, 9);
    member.silent("no receive");
    assert_eq!(
        (counted(&rig).pkey_violations(), counted(&rig).qp1_drops()),
        (1, 3)
    );
    // A QP of its own partition stays in it, whatever the way says.
    let mut plain = Member::new(&rig, 0, 2, false);
    let mut other = Member::new(&rig, 1, 2, false);
    other.recv();
    let ah = way(&rig, &plain, 5).unwrap();
    plain.send(&rig, &ah, (other.qp.qp_num(), QKEY), &pattern(1));
    let wc = other.expect(&rig, &pattern(1), plain.qp.qp_num(), "UD");
    assert_eq!(wc.pkey_index, 0);
}
