//! Datagrams: address handles, QPs of UD, and what arrives.

mod common;

use std::rc::Rc;

use common::*;
use hca_dev::DmaBuf;
use hca_lone::LoneCard;
use hca_verbs::*;

const QKEY: u32 = 0x2222_2222;
const CONTROLLED: u32 = 1 << 31;
const GRH: usize = 40;

fn mask_init() -> QpAttrMask {
    QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY
}

fn attr(qp_state: QpState) -> QpAttr {
    QpAttr {
        qp_state,
        qkey: QKEY,
        sq_psn: 0x77,
        ..QpAttr::default()
    }
}

struct Rig {
    dev: Dev,
    context: Context<Dev>,
    pd: Pd<Dev>,
    buf: DmaBuf,
    mr: Mr<Dev>,
    cq: Cq<Dev>,
    is_ethernet: bool,
}

impl Rig {
    fn new() -> Self {
        Self::of(LoneCard::new(), true)
    }

    fn of(dev: LoneCard, is_ethernet: bool) -> Self {
        let dev = Rc::new(dev);
        let context = Context::open_with(dev.clone(), &OpenOptions::simulated()).unwrap();
        let pd = context.alloc_pd().unwrap();
        let buf = hca_dev::Device::alloc_dma(&*dev, 1 << 16).unwrap();
        let mr = pd.reg_mr(&buf, all_rights()).unwrap();
        let cq = context.create_cq(&CqOptions::new(100)).unwrap();
        Self {
            dev,
            context,
            pd,
            buf,
            mr,
            cq,
            is_ethernet,
        }
    }

    fn qp(&self, cap: QpCap) -> RawQp<Dev> {
        let options = QpOptions {
            cap,
            service: Service::Ud,
            ..QpOptions::new(&self.cq, &self.cq)
        };
        self.pd.create_raw_qp(&options).unwrap()
    }

    /// In RTS.
    fn ready(&self, cap: QpCap) -> RawQp<Dev> {
        let mut qp = self.qp(cap);
        qp.modify(&attr(QpState::Init), mask_init()).unwrap();
        qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE).unwrap();
        let mask = QpAttrMask::STATE | QpAttrMask::SQ_PSN;
        qp.modify(&attr(QpState::Rts), mask).unwrap();
        qp
    }

    /// The way to the card itself.
    fn own(&self) -> AhAttr {
        if self.is_ethernet {
            let dgid = self.context.query_gid(1, 1).unwrap();
            AhAttr {
                dgid,
                sgid_index: 1,
                is_global: true,
                traffic_class: 0x60,
                ..AhAttr::default()
            }
        } else {
            AhAttr {
                dlid: 1,
                sl: 5,
                ..AhAttr::default()
            }
        }
    }

    fn sge(&self, at: u64, length: u32) -> Sge {
        self.mr.sge(at, length)
    }

    fn post_recv(&self, qp: &mut RawQp<Dev>, wr_id: u64, length: u32) {
        let sges = [self.sge(0x8000, length)];
        qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
    }

    fn completions(&self, count: usize) -> Vec<WorkCompletion> {
        let mut wc = vec![WorkCompletion::default(); count];
        let deadline_ns = hca_dev::Device::now_ns(&*self.dev) + 1_000_000;
        self.cq.poll_all(&mut wc, deadline_ns).unwrap();
        wc
    }

    fn assert_no_completion(&self) {
        self.dev.settle();
        assert_eq!(self.cq.poll_cq(&mut [WorkCompletion::default()]).unwrap(), 0);
    }

    fn received(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.buf.read_bytes(0x8000, &mut bytes);
        bytes
    }
}

fn by_wr_id(wc: &[WorkCompletion], wr_id: u64) -> WorkCompletion {
    *wc.iter()
        .find(|wc| wc.wr_id == wr_id)
        .expect("no such completion")
}

fn inline(wr_id: u64, bytes: &[u8]) -> SendWr<'_> {
    SendWr {
        data: WrData::Inline(bytes),
        ..send(wr_id, &[])
    }
}

/// OP-22, E-8, E-9: a message lands at byte 40, behind the header of the network, and the completion says who sent it.
#[test]
fn a_datagram_arrives_behind_its_grh() {
    for (dev, is_ethernet) in [(LoneCard::new(), true), (LoneCard::infiniband(), false)] {
        let rig = Rig::of(dev, is_ethernet);
        let (mut one, mut two) = (rig.ready(QpCap::default()), rig.ready(QpCap::default()));
        let ah = rig.pd.create_ah(&rig.own()).unwrap();
        rig.post_recv(&mut two, 7, 1024);
        rig.buf.write_bytes(0, b"datagram");
        let sges = [rig.sge(0, 8)];
        let wr = SendWr {
            op: SendOp::SendWithImm {
                imm_data: 0x1234_5678,
            },
            ..send(3, &sges)
        };
        let to = ah.to(two.qp_num(), QKEY);
        one.post_send_to([Datagram { wr, to }]).unwrap();
        let wc = rig.completions(2);
        let sent = by_wr_id(&wc, 3);
        assert_eq!(
            (sent.status, sent.opcode, sent.qp_num),
            (WcStatus::Success, WcOpcode::Send, one.qp_num())
        );
        let got = by_wr_id(&wc, 7);
        assert_eq!(
            (got.status, got.opcode, got.qp_num),
            (WcStatus::Success, WcOpcode::Recv, two.qp_num())
        );
        assert_eq!(
            (got.byte_len, got.imm_data, got.src_qp),
            (48, 0x1234_5678, one.qp_num())
        );
        assert_eq!(&rig.received(48)[GRH..], b"datagram");
        if is_ethernet {
            assert_eq!((got.wc_flags, got.sl), (wc_flag::GRH | wc_flag::WITH_IMM, 10));
            let header = &rig.received(GRH)[20..];
            assert_eq!((header[0], header[1], header[8]), (0x45, 0x60, 64));
            assert_eq!(header[12..], [10, 0, 0, 1, 10, 0, 0, 1]);
        } else {
            assert_eq!((got.wc_flags, got.slid, got.sl), (wc_flag::WITH_IMM, 1, 5));
        }
        rig.dev.assert_no_violations();
    }
}

/// XPORT-4, REL-17: to nobody, with a wrong Q_Key, to a full or silent QP: lost, and the sender does not know.
#[test]
fn what_nobody_takes_is_lost() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.ready(QpCap::default()), rig.ready(QpCap::default()));
    let mut init = rig.qp(QpCap::default());
    init.modify(&attr(QpState::Init), mask_init()).unwrap();
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    let neighbour = AhAttr {
        dgid: LoneCard::neighbour().gids()[1],
        ..rig.own()
    };
    let away = rig.pd.create_ah(&neighbour).unwrap();
    let quiet = |qp: &mut RawQp<Dev>, to: Destination<'_>| {
        qp.post_send_to([Datagram {
            wr: inline(1, b"x"),
            to,
        }])
        .unwrap();
        assert!(rig.completions(1)[0].is_ok());
        rig.assert_no_completion();
    };
    quiet(&mut one, ah.to(two.qp_num(), QKEY));
    for qp in [&mut two, &mut init] {
        rig.post_recv(qp, 7, 64);
    }
    quiet(&mut one, ah.to(two.qp_num(), QKEY + 1));
    quiet(&mut one, ah.to(two.qp_num() + 0x1000, QKEY));
    quiet(&mut one, ah.to(init.qp_num(), QKEY));
    quiet(&mut one, away.to(two.qp_num(), QKEY));
    one.post_send_to([Datagram {
        wr: inline(1, b"x"),
        to: ah.to(two.qp_num(), QKEY),
    }])
    .unwrap();
    assert_eq!(by_wr_id(&rig.completions(2), 7).byte_len, 41);
    rig.dev.assert_no_violations();
}

/// KEY-24: bit 31 of a work request's Q_Key stands for that of the QP.
#[test]
fn the_qps_own_qkey() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.ready(QpCap::default()), rig.ready(QpCap::default()));
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    rig.post_recv(&mut two, 7, 64);
    let to = ah.to(two.qp_num(), CONTROLLED | 5);
    one.post_send_to([Datagram {
        wr: inline(1, b"x"),
        to,
    }])
    .unwrap();
    assert!(by_wr_id(&rig.completions(2), 7).is_ok());
    // Function 0 may have a controlled one.
    let controlled = QpAttr {
        qkey: CONTROLLED,
        ..QpAttr::default()
    };
    two.modify(&controlled, QpAttrMask::QKEY).unwrap();
    assert_eq!(two.query().unwrap().qkey, CONTROLLED);
    let other = Context::open_with(Rc::new(rig.dev.function(1)), &OpenOptions::simulated()).unwrap();
    let cq = other.create_cq(&CqOptions::new(4)).unwrap();
    let options = QpOptions {
        service: Service::Ud,
        ..QpOptions::new(&cq, &cq)
    };
    let mut qp = other.alloc_pd().unwrap().create_raw_qp(&options).unwrap();
    let controlled = QpAttr {
        qkey: CONTROLLED,
        ..attr(QpState::Init)
    };
    assert_eq!(qp.modify(&controlled, mask_init()).unwrap_err().errno(), 1);
}

/// XPORT-4, XPORT-15, MEM-2, V-145: what is no datagram, or has nowhere to go, is refused when it is posted.
#[test]
fn posts_that_are_refused() {
    let rig = Rig::new();
    let mut qp = rig.ready(QpCap::default());
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    let foreign_pd = rig.context.alloc_pd().unwrap();
    let foreign = foreign_pd.create_ah(&rig.own()).unwrap();
    let mut refused = |wr: SendWr<'_>, to: Destination<'_>| {
        let bad = qp.post_send_to([Datagram { wr, to }]).unwrap_err();
        assert_eq!((bad.index, bad.error.errno()), (0, 22));
        bad.error
    };
    let long = [rig.sge(0, 4000), rig.sge(0, 97)];
    let to = ah.to(5, QKEY);
    assert_eq!(
        refused(send(1, &long), to),
        PostError::DatagramTooLong {
            length: 4097,
            mtu_bytes: 4096
        }
    );
    for op in [
        SendOp::RdmaWrite {
            remote_addr: 0,
            rkey: 0,
        },
        SendOp::RdmaRead {
            remote_addr: 0,
            rkey: 0,
        },
        SendOp::SendWithInv { invalidate_rkey: 1 },
        SendOp::AtomicFetchAndAdd {
            remote_addr: 0,
            rkey: 0,
            add: 1,
        },
    ] {
        let error = refused(SendWr { op, ..send(1, &[]) }, to);
        assert_eq!(error, PostError::NotForDatagrams { opcode: op.opcode() });
    }
    assert_eq!(
        refused(send(1, &[]), ah.to(1 << 24, QKEY)),
        PostError::BadRemoteQpn { remote_qpn: 1 << 24 }
    );
    assert_eq!(
        refused(send(1, &[]), foreign.to(5, QKEY)),
        PostError::ForeignAddress {
            pd: foreign_pd.handle(),
            qp_pd: rig.pd.handle()
        }
    );
    assert_eq!(
        qp.post_send(&[send(1, &[])]).unwrap_err().error,
        PostError::NoDestination
    );
    let mut connected = rig.pd.create_raw_qp(&QpOptions::new(&rig.cq, &rig.cq)).unwrap();
    let datagram = Datagram { wr: send(1, &[]), to };
    assert_eq!(
        connected.post_send_to([datagram]).unwrap_err().error,
        PostError::BadState,
        "QPS-5"
    );
    let options = ConnectOptions::default();
    let info = peer_info(&connected, &options, 1).unwrap();
    connect_raw(&mut connected, &options, 1, &info).unwrap();
    assert_eq!(
        connected.post_send_to([datagram]).unwrap_err().error,
        PostError::DestinationOfConnection
    );
    // Those before the bad one are posted; of a section nothing is.
    let to = ah.to(qp.qp_num(), QKEY);
    let list = [(1, b"a".as_slice()), (2, b"b"), (3, &[0; 449])];
    let list = list.map(|(wr_id, bytes)| Datagram {
        wr: inline(wr_id, bytes),
        to,
    });
    assert!(matches!(
        qp.post_send_all_to(list.into_iter()),
        Err(PostError::InlineTooLong { .. })
    ));
    rig.assert_no_completion();
    assert_eq!(qp.post_send_to(list).unwrap_err().index, 2);
    assert_eq!(rig.completions(2).map_ids(), [1, 2]);
    rig.dev.assert_no_violations();
}

trait Ids {
    fn map_ids(&self) -> Vec<u64>;
}

impl Ids for Vec<WorkCompletion> {
    fn map_ids(&self) -> Vec<u64> {
        self.iter().map(|wc| wc.wr_id).collect()
    }
}

/// V-36: the MTU of the port bounds a message; the longest one arrives whole. V-110: cap says what there really is.
#[test]
fn sizes_of_datagrams() {
    let rig = Rig::new();
    for (sges, bytes, wanted) in [
        (0, 0, (4, 64)),
        (4, 64, (4, 64)),
        (5, 0, (12, 192)),
        (1, 448, (16, 448)),
    ] {
        let cap = QpCap {
            max_send_sge: sges,
            max_inline_data: bytes,
            ..QpCap::default()
        };
        let cap = rig.qp(cap).cap();
        assert_eq!((cap.max_send_sge, cap.max_inline_data), wanted);
    }
    let too_large = QpCap {
        max_inline_data: 449,
        ..QpCap::default()
    };
    let options = QpOptions {
        cap: too_large,
        service: Service::Ud,
        ..QpOptions::new(&rig.cq, &rig.cq)
    };
    assert_eq!(rig.pd.create_raw_qp(&options).unwrap_err().errno(), 22);
    let mut cmd = ModifyPortCmd::new();
    cmd.set_port_num(1);
    cmd.set_attr_mask(port_attr::MTU);
    cmd.set_mtu(Mtu::Bytes512.into());
    rig.context.modify_port(&cmd).unwrap();
    let mut qp = rig.ready(QpCap {
        max_send_sge: 16,
        ..QpCap::default()
    });
    assert_eq!(qp.query().unwrap().path_mtu, Mtu::Bytes512);
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    let data: Vec<u8> = (0..512).map(|i| i as u8).collect();
    rig.buf.write_bytes(0, &data);
    rig.post_recv(&mut qp, 7, 552);
    let sges: Vec<Sge> = (0..16).map(|i| rig.sge(32 * i, 32)).collect();
    let to = ah.to(qp.qp_num(), QKEY);
    qp.post_send_to([Datagram {
        wr: send(1, &sges),
        to,
    }])
    .unwrap();
    assert_eq!(by_wr_id(&rig.completions(2), 7).byte_len, 552);
    assert_eq!(rig.received(552)[GRH..], data);
    let longer = [rig.sge(0, 513)];
    let bad = qp.post_send_to([Datagram {
        wr: send(1, &longer),
        to,
    }]);
    assert!(matches!(
        bad.unwrap_err().error,
        PostError::DatagramTooLong { .. }
    ));
    // OP-22: a receive without room for the header is too short, which is the receiver's own trouble (QPS-13).
    rig.post_recv(&mut qp, 8, 40);
    let wr = inline(2, b"x");
    qp.post_send_to([Datagram { wr, to }]).unwrap();
    let wc = rig.completions(2);
    assert_eq!(by_wr_id(&wc, 8).status, WcStatus::LocLenErr);
    assert!(by_wr_id(&wc, 2).is_ok());
    rig.dev.settle();
    assert_eq!(qp.query().unwrap().qp_state, QpState::Err);
    rig.dev.assert_no_violations();
}

/// QPS-12: a send that fails stops sends; receives go on; RTS again by modify, and sends go on behind the flushed ones.
#[test]
fn a_failed_send_leads_to_sqe() {
    let rig = Rig::new();
    let (mut one, mut two) = (rig.ready(QpCap::default()), rig.ready(QpCap::default()));
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    let to = ah.to(two.qp_num(), QKEY);
    let no_key = [Sge {
        addr: 0,
        length: 8,
        lkey: 0x7700,
    }];
    rig.dev.with_card(|card| card.auto = false);
    let list = [send(1, &no_key), inline(2, b"flushed")].map(|wr| Datagram { wr, to });
    one.post_send_to(list).unwrap();
    rig.dev.with_card(|card| card.auto = true);
    let wc = rig.completions(2);
    assert_eq!(wc.map_ids(), [1, 2]);
    assert_eq!(
        [wc[0].status, wc[1].status],
        [WcStatus::LocProtErr, WcStatus::WrFlushErr]
    );
    assert_eq!(one.query().unwrap().qp_state, QpState::Sqe);
    one.post_send_to([Datagram {
        wr: inline(3, b"too"),
        to,
    }])
    .unwrap();
    assert_eq!(rig.completions(1)[0].status, WcStatus::WrFlushErr);
    rig.post_recv(&mut one, 7, 64);
    let back = ah.to(one.qp_num(), QKEY);
    two.post_send_to([Datagram {
        wr: inline(4, b"alive"),
        to: back,
    }])
    .unwrap();
    assert!(by_wr_id(&rig.completions(2), 7).is_ok());
    assert!(rig.context.poll_async_event().is_none());
    let mask = QpAttrMask::STATE | QpAttrMask::CUR_STATE;
    let rts = QpAttr {
        cur_qp_state: QpState::Sqe,
        ..attr(QpState::Rts)
    };
    one.modify(&rts, mask).unwrap();
    rig.post_recv(&mut two, 8, 64);
    one.post_send_to([Datagram {
        wr: inline(5, b"again"),
        to,
    }])
    .unwrap();
    let wc = rig.completions(2);
    assert!(by_wr_id(&wc, 5).is_ok() && by_wr_id(&wc, 8).is_ok());
    rig.dev.assert_no_violations();
}

/// V-145, QPS-21, SYS-5, ADDR-4, ADDR-8, RATE-5: what an address handle must have.
#[test]
fn address_handles() {
    let rig = Rig::new();
    let own = rig.own();
    let errno = |attr: AhAttr| rig.pd.create_ah(&attr).unwrap_err().errno();
    let change = |f: fn(&mut AhAttr)| {
        let mut attr = own;
        f(&mut attr);
        attr
    };
    for wrong in [
        change(|a| a.port_num = 0),
        change(|a| a.port_num = 2),
        change(|a| a.sgid_index = 16),
        change(|a| a.sgid_index = 9),
        change(|a| a.sgid_index = 0),
        change(|a| a.is_global = false),
        change(|a| a.flow_label = 1 << 20),
        change(|a| a.static_rate = 1),
        change(|a| a.sl = 16),
    ] {
        assert_eq!(errno(wrong), 22, "{wrong:?}");
    }
    let slow = rig.pd.create_ah(&change(|a| a.static_rate = 3)).unwrap_err();
    assert_eq!(slow.errno(), 95);
    assert!(slow.to_string().contains("slower than the port"), "{slow}");
    assert_eq!(errno(change(|a| a.dgid = gid_of_ipv4([10, 9, 9, 9]))), 113);
    for fine in [
        own,
        change(|a| a.static_rate = StaticRate::Gbps100.into()),
        change(|a| a.static_rate = StaticRate::Gbps400.into()),
    ] {
        let ah = rig.pd.create_ah(&fine).unwrap();
        let wanted = AhAttr {
            dmac: LoneCard::identity().mac,
            ..fine
        };
        assert_eq!((ah.attr(), ah.pd_handle()), (wanted, rig.pd.handle()));
    }
    let neighbour = change(|a| a.dgid = LoneCard::neighbour().gids()[1]);
    let ah = rig.pd.create_ah(&neighbour).unwrap();
    assert_eq!(ah.attr().dmac, LoneCard::neighbour().mac);
    let given = change(|a| a.dmac = [2, 3, 4, 5, 6, 7]);
    assert_eq!(rig.pd.create_ah(&given).unwrap().attr().dmac, given.dmac);

    let rig = Rig::of(LoneCard::infiniband(), false);
    let own = rig.own();
    for (wrong, errno) in [
        (AhAttr { dlid: 0, ..own }, 22),
        (
            AhAttr {
                src_path_bits: 1,
                ..own
            },
            22,
        ),
        (
            AhAttr {
                is_global: true,
                sgid_index: 9,
                ..own
            },
            22,
        ),
        (
            AhAttr {
                static_rate: 2,
                ..own
            },
            95,
        ),
    ] {
        assert_eq!(rig.pd.create_ah(&wrong).unwrap_err().errno(), errno, "{wrong:?}");
    }
    let ah = rig
        .pd
        .create_ah(&AhAttr {
            is_global: true,
            ..own
        })
        .unwrap();
    assert_eq!(ah.attr().dmac, [0; 6]);
}

/// V-145: a domain with address handles is in use.
#[test]
fn address_handles_keep_their_domain() {
    let rig = Rig::new();
    let pd = rig.context.alloc_pd().unwrap();
    let ahs = [(); 2].map(|()| pd.create_ah(&rig.own()).unwrap());
    let error = pd.destroy().unwrap_err();
    assert_eq!(error.errno(), 16);
    assert!(error.to_string().contains("2 address handles"), "{error}");
    drop(ahs);
    pd.destroy().unwrap();
    assert_eq!(pd.create_ah(&rig.own()).unwrap_err().errno(), 22);
}

/// A datagram that is posted alone rides with its doorbell: the card finds in the slot what the ring has.
#[test]
fn datagrams_ride_with_their_doorbell() {
    let rig = Rig::new();
    let mut qp = rig.ready(QpCap::default());
    let ah = rig.pd.create_ah(&rig.own()).unwrap();
    let to = ah.to(qp.qp_num(), QKEY);
    for turn in 0..100u32 {
        rig.buf.write_bytes(0, &turn.to_le_bytes());
        let sges = vec![rig.sge(0, 1); 1 + turn as usize % 4];
        let data = if turn % 8 < 4 {
            WrData::Sges(&sges)
        } else {
            WrData::Inline(&[9; 64][..turn as usize % 65])
        };
        rig.post_recv(&mut qp, 7, 128);
        let wr = SendWr { data, ..send(1, &[]) };
        qp.post_send_to([Datagram { wr, to }]).unwrap();
        assert!(
            rig.completions(2).iter().all(WorkCompletion::is_ok),
            "turn {turn}"
        );
    }
    rig.dev.assert_no_violations();
}
