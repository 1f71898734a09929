//! Datagrams on RTL: every way an address can be made, where they land, and who does not get them.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, Rng, path};
use hca_verbs::{
    Ah, AhAttr, Datagram, Gid, Mtu, QpAttr, QpAttrMask, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp,
    SendWr, Service, Sge, WcOpcode, WcStatus, WorkCompletion, WrData, wc_flag,
};

const REGION_BYTES: u64 = 64 << 10;
/// What precedes the data of a datagram (OP-22).
const GRH_BYTES: u32 = 40;
const QKEY: u32 = 0x2222_2222;
/// Where receives of tests that look at one datagram land.
const TARGET: u64 = 16 << 10;

/// Two nodes with a QP of datagrams each; the pair's connection is there, too.
struct Post {
    pair: Pair,
    kind: LinkKind,
    qps: [RawQp<Dev>; 2],
}

fn datagram_qp(pair: &Pair, node: usize, qkey: u32) -> RawQp<Dev> {
    let node = &pair.rig.nodes[node];
    let options = QpOptions {
        cap: cap(),
        service: Service::Ud,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let mut qp = node.pd.create_raw_qp(&options).unwrap();
    to_rts(&mut qp, qkey);
    qp
}

fn to_rts(qp: &mut RawQp<Dev>, qkey: u32) {
    let attr = |qp_state| QpAttr {
        qp_state,
        qkey,
        port_num: 1,
        ..QpAttr::default()
    };
    let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
    qp.modify(&attr(QpState::Init), init).unwrap();
    qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE).unwrap();
    qp.modify(&attr(QpState::Rts), QpAttrMask::STATE | QpAttrMask::SQ_PSN)
        .unwrap();
}

impl Post {
    fn new(kind: LinkKind) -> Self {
        Self::on(&RigConfig::new(23, kind))
    }

    fn on(config: &RigConfig) -> Self {
        let pair = Pair::new(config, &path(Mtu::Bytes1024), REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        let qps = [0, 1].map(|node| datagram_qp(&pair, node, QKEY));
        Self {
            pair,
            kind: config.link,
            qps,
        }
    }

    fn gid(&self, node: usize, index: u8) -> Gid {
        let context = &self.pair.rig.nodes[node].context;
        context.query_gid(1, index.into()).unwrap()
    }

    /// The way from one node to another, by the GIDs of an index or, on InfiniBand, by LIDs alone.
    fn way(&self, from: usize, to: usize, gid_index: Option<u8>) -> (Ah<Dev>, AhAttr) {
        let port = self.pair.rig.nodes[to].context.query_port(1).unwrap();
        let attr = AhAttr {
            is_global: gid_index.is_some(),
            dgid: gid_index.map_or([0; 16], |index| self.gid(to, index)),
            sgid_index: gid_index.unwrap_or(0),
            dlid: port.lid(),
            dmac: port.mac(),
            traffic_class: 0x20,
            flow_label: 0x1_2345,
            sl: 1,
            ..AhAttr::default()
        };
        let ah = self.pair.rig.nodes[from].pd.create_ah(&attr).unwrap();
        (ah, attr)
    }

    fn send(&mut self, from: usize, ah: &Ah<Dev>, to: (u32, u32), wr: SendWr<'_>) {
        let datagram = Datagram {
            wr,
            to: ah.to(to.0, to.1),
        };
        self.qps[from].post_send_to([datagram]).unwrap();
    }

    fn recv(&mut self, node: usize, wr_id: u64, sges: &[Sge]) {
        self.qps[node].post_recv(&[RecvWr { wr_id, sges }]).unwrap();
    }

    /// What the 40 bytes before the data become.
    fn expect_header(&mut self, node: usize, at: u64, attr: &AhAttr, from: usize, len: u32, imm_bytes: u32) {
        let (sgid, dgid) = (self.gid(from, attr.sgid_index), attr.dgid);
        let sum_bytes = 12 + 8 + imm_bytes + len.next_multiple_of(4) + 4;
        if !attr.is_global {
            return;
        }
        let is_ipv4 = sgid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let class = u32::from(attr.traffic_class);
        if self.kind == LinkKind::Ethernet && is_ipv4 {
            let mut header = vec![0x45, class as u8];
            header.extend((20 + 8 + sum_bytes as u16).to_be_bytes());
            header.extend([0, 0, 0x40, 0, attr.hop_limit, 17, 0, 0]);
            header.extend(&sgid[12..]);
            header.extend(&dgid[12..]);
            let sum: u32 = header
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum();
            let check = !((sum & 0xffff) + (sum >> 16)) as u16;
            header[10..12].copy_from_slice(&check.to_be_bytes());
            self.pair.expect(node, at + 20, &header);
            return;
        }
        let mut header = (6 << 28 | class << 20 | attr.flow_label).to_be_bytes().to_vec();
        let udp_bytes = if self.kind == LinkKind::Ethernet { 8 } else { 0 };
        header.extend(((sum_bytes + udp_bytes) as u16).to_be_bytes());
        header.push(if self.kind == LinkKind::Ethernet { 17 } else { 0x1b });
        header.push(attr.hop_limit);
        header.extend(sgid);
        header.extend(dgid);
        self.pair.expect(node, at, &header);
    }

    /// One datagram of `len` bytes from memory arrives, as it must.
    fn deliver(&mut self, from: usize, to: usize, gid_index: Option<u8>, len: u32, imm: Option<u32>) {
        let what = format!(
            "{:?} {from}->{to} GID {gid_index:?} {len} bytes imm {imm:?}",
            self.kind
        );
        let (ah, attr) = self.way(from, to, gid_index);
        let source = u64::from(len % 61);
        let target = self.pair.mrs[to].sge(TARGET + u64::from(len % 3), GRH_BYTES + len);
        self.recv(to, 11, &[target]);
        let data = self.pair.expected(from, source, len);
        let sges = [self.pair.mrs[from].sge(source, len)];
        let op = imm.map_or(SendOp::Send, |imm_data| SendOp::SendWithImm { imm_data });
        let wr = SendWr {
            wr_id: 10,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        let at = TARGET + u64::from(len % 3);
        self.expect_header(to, at, &attr, from, len, if imm.is_some() { 4 } else { 0 });
        self.pair.expect(to, at + u64::from(GRH_BYTES), &data);
        let number = self.qps[to].qp_num();
        self.send(from, &ah, (number, QKEY), wr);
        let mut found = vec![self.pair.wait(from), self.pair.wait(to)];
        found.sort_by_key(|wc| wc.wr_id);
        assert!(found.iter().all(WorkCompletion::is_ok), "{what}: {found:?}");
        assert_eq!((found[0].wr_id, found[0].opcode), (10, WcOpcode::Send), "{what}");
        let wc = &found[1];
        assert_eq!((wc.wr_id, wc.opcode), (11, WcOpcode::Recv), "{what}");
        assert_eq!(wc.byte_len, GRH_BYTES + len, "OP-22 {what}");
        assert_eq!(
            (wc.qp_num, wc.src_qp),
            (number, self.qps[from].qp_num()),
            "E-9 {what}"
        );
        let grh = if gid_index.is_some() { wc_flag::GRH } else { 0 };
        let with_imm = if imm.is_some() { wc_flag::WITH_IMM } else { 0 };
        assert_eq!(wc.wc_flags, grh | with_imm, "E-8 {what}");
        assert_eq!(wc.imm_data, imm.unwrap_or(0), "{what}");
        if self.kind == LinkKind::InfiniBand {
            let lid = self.pair.rig.nodes[from].context.query_port(1).unwrap().lid();
            assert_eq!((wc.slid, wc.sl), (lid, 1), "{what}");
        } else {
            let is_ipv4 = attr.dgid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            assert_eq!(wc.sl, if is_ipv4 { 10 } else { 9 }, "A17.4.5.1 {what}");
        }
        self.pair.check_memory(&what);
    }

    /// A datagram that nobody gets: its sender does not know.
    #[track_caller]
    fn lost(&mut self, to: (u32, u32), what: &str) {
        let gid_index = Some(if self.kind == LinkKind::Ethernet { 1 } else { 0 });
        let (ah, _) = self.way(0, 1, gid_index);
        let sges = [self.pair.mrs[0].sge(0, 64)];
        let wr = SendWr {
            wr_id: 77,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.send(0, &ah, to, wr);
        self.pair.wait_ok(0, 77);
        self.pair.silent(1, 3_000);
        self.pair.check_memory(what);
    }
}

/// Indices of the GIDs that both ports have; on InfiniBand the way without a GRH, too.
fn gid_indices(post: &Post) -> Vec<Option<u8>> {
    let filled = (0..16).filter(|index| post.gid(0, *index) != [0; 16]).map(Some);
    let bare = (post.kind == LinkKind::InfiniBand).then_some(None);
    filled.chain(bare).collect()
}

/// XPORT-4, OP-22, WIRE-9, WIRE-12: every source GID, every kind of header, both directions and a card's own port.
#[test]
fn datagrams_arrive_behind_their_header() {
    for kind in BOTH_LINKS {
        let mut post = Post::new(kind);
        let ways = gid_indices(&post);
        assert!(ways.len() >= 2, "{ways:?}");
        for way in ways {
            for (from, to) in [(0, 1), (1, 0)] {
                for (len, imm) in [
                    (0, None),
                    (1, Some(7)),
                    (64, None),
                    (1023, Some(0x0102_0304)),
                    (4096, None),
                ] {
                    post.deliver(from, to, way, len, imm);
                }
            }
        }
    }
}

/// Scatter lists that end inside, at and behind the header; inline data; a WQE that rides with its doorbell.
#[test]
fn scatter_lists_and_inline_data() {
    for kind in BOTH_LINKS {
        let mut post = Post::new(kind);
        let mut rng = Rng::new(5, "lists");
        let way = Some(if kind == LinkKind::Ethernet { 1 } else { 0 });
        let (ah, attr) = post.way(0, 1, way);
        for round in 0..60 {
            let len = rng.below(200);
            let data = rng.bytes(len as usize);
            // Cut the target into pieces with gaps of a byte; what is written is contiguous in the message.
            let (mut pieces, mut left, mut at) = (Vec::new(), GRH_BYTES + len, TARGET);
            let first = [20, 39, 40, 41, 0, 64][round % 6].min(left);
            let mut take = first;
            while left > 0 && pieces.len() < 15 {
                pieces.push((at, take));
                at += u64::from(take) + 1;
                left -= take;
                take = (1 + rng.below(90)).min(left);
            }
            pieces.push((at, left));
            let sges: Vec<Sge> = pieces
                .iter()
                .map(|(at, len)| post.pair.mrs[1].sge(*at, *len))
                .collect();
            post.recv(1, 11, &sges);
            let wr = SendWr {
                wr_id: 10,
                op: SendOp::Send,
                flags: SendFlags::SIGNALED,
                data: WrData::Inline(&data),
            };
            // The message as one piece behind everything, then cut.
            let whole = TARGET + 8192;
            let untouched = post.pair.expected(1, whole, GRH_BYTES);
            post.expect_header(1, whole, &attr, 0, len, 0);
            let mut message = post.pair.expected(1, whole, GRH_BYTES);
            message.extend(&data);
            // An IPv4 header takes the last 20 of the 40 bytes; the others stay as they are.
            let mut untouched_bytes = if kind == LinkKind::Ethernet { 20 } else { 0 };
            for (at, len) in &pieces {
                let rest = message.split_off(*len as usize);
                let skip = untouched_bytes.min(message.len());
                post.pair.expect(1, *at + skip as u64, &message[skip..]);
                untouched_bytes -= skip;
                message = rest;
            }
            // Nothing is written there.
            post.pair.expect(1, whole, &untouched);
            let number = post.qps[1].qp_num();
            post.send(0, &ah, (number, QKEY), wr);
            post.pair.wait_ok(0, 10);
            assert_eq!(post.pair.wait_ok(1, 11).byte_len, GRH_BYTES + len);
            post.pair
                .check_memory(&format!("{kind:?} round {round}, {len} bytes, {pieces:?}"));
        }
    }
}

/// KEY-23, KEY-24: another Q_Key is dropped and counted; with bit 31 set the QP's own goes out.
#[test]
fn qkeys() {
    for kind in BOTH_LINKS {
        let mut post = Post::new(kind);
        let number = post.qps[1].qp_num();
        post.recv(1, 11, &[post.pair.mrs[1].sge(TARGET, 200)]);
        let count = |post: &Post| {
            post.pair.rig.nodes[1]
                .context
                .query_counters(1)
                .unwrap()
                .qkey_violations()
        };
        for (at, wrong) in [QKEY ^ 1, QKEY ^ 0x4000_0000, 0].into_iter().enumerate() {
            post.lost((number, wrong), "wrong Q_Key");
            assert_eq!(count(&post), at as u64 + 1);
        }
        post.lost((number ^ 0x80_0000, QKEY), "another generation of the line");
        post.lost((post.pair.qps[1].qp_num(), QKEY), "a connection's QPN");
        assert_eq!(count(&post), 3);
        // The first receive is still there, and takes one with the context's key.
        let gid_index = Some(if kind == LinkKind::Ethernet { 1 } else { 0 });
        let (ah, attr) = post.way(0, 1, gid_index);
        let data = [0x5a; 48];
        post.expect_header(1, TARGET, &attr, 0, 48, 0);
        post.pair.expect(1, TARGET + u64::from(GRH_BYTES), &data);
        let wr = SendWr {
            wr_id: 10,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Inline(&data),
        };
        post.send(0, &ah, (number, 0x8000_0000), wr);
        post.pair.wait_ok(0, 10);
        post.pair.wait_ok(1, 11);
        post.pair.check_memory("controlled Q_Key");
        // No receive: dropped without a word (XPORT-4).
        post.lost((number, QKEY), "no receive");
        post.pair.check_traffic("the connection beside");
    }
}

fn flushed(post: &Post, node: usize, wr_ids: &[u64]) {
    for wr_id in wr_ids {
        let wc = post.pair.wait(node);
        assert_eq!((wc.wr_id, wc.status), (*wr_id, WcStatus::WrFlushErr));
    }
}

/// QPS-12: a send that fails stops the send queue alone; it goes on from RTS. OP-21: a receive that is too small fails
/// the QP.
#[test]
fn errors_stop_one_side() {
    for kind in BOTH_LINKS {
        let mut post = Post::new(kind);
        let gid_index = Some(if kind == LinkKind::Ethernet { 1 } else { 0 });
        for round in 0..3 {
            let (ah, _) = post.way(0, 1, gid_index);
            let number = post.qps[1].qp_num();
            let good = [post.pair.mrs[0].sge(0, 64)];
            let bad = [Sge {
                lkey: good[0].lkey ^ 0x100,
                ..good[0]
            }];
            let wr = |wr_id, sges| SendWr {
                wr_id,
                op: SendOp::Send,
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(sges),
            };
            let list = [(1, &good), (2, &good), (3, &bad), (4, &good), (5, &good)];
            let list = list.map(|(wr_id, sges)| Datagram {
                wr: wr(wr_id, &sges[..]),
                to: ah.to(number, QKEY),
            });
            post.qps[0].post_send_to(list).unwrap();
            post.pair.wait_ok(0, 1);
            post.pair.wait_ok(0, 2);
            let wc = post.pair.wait(0);
            assert_eq!((wc.wr_id, wc.status), (3, WcStatus::LocProtErr), "round {round}");
            flushed(&post, 0, &[4, 5]);
            assert_eq!(post.qps[0].query().unwrap().qp_state, QpState::Sqe);
            assert_eq!(post.pair.rig.nodes[0].context.poll_async_event(), None);
            // What is posted now is flushed, too; receives go on.
            post.send(0, &ah, (number, QKEY), wr(6, &good));
            flushed(&post, 0, &[6]);
            post.deliver(1, 0, gid_index, 77, Some(1));
            let attr = QpAttr {
                qp_state: QpState::Rts,
                ..QpAttr::default()
            };
            post.qps[0].modify(&attr, QpAttrMask::STATE).unwrap();
            post.deliver(0, 1, gid_index, 100 + round, None);
        }
        let target = post.pair.mrs[1].sge(TARGET, GRH_BYTES + 63);
        post.recv(1, 21, &[target]);
        post.recv(1, 22, &[target]);
        let (ah, attr) = post.way(0, 1, gid_index);
        let sges = [post.pair.mrs[0].sge(0, 64)];
        let number = post.qps[1].qp_num();
        let wr = SendWr {
            wr_id: 20,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        post.send(0, &ah, (number, QKEY), wr);
        post.pair.wait_ok(0, 20);
        let wc = post.pair.wait(1);
        assert_eq!((wc.wr_id, wc.status), (21, WcStatus::LocLenErr), "{attr:?}");
        flushed(&post, 1, &[22]);
        assert_eq!(post.qps[1].query().unwrap().qp_state, QpState::Err);
    }
}

/// More datagrams than the header stage has slots for; all complete and arrive in order, for nothing is lost here.
#[test]
fn more_datagrams_than_slots() {
    for kind in BOTH_LINKS {
        let mut post = Post::new(kind);
        let way = Some(if kind == LinkKind::Ethernet { 1 } else { 0 });
        let (ah, _) = post.way(0, 1, way);
        let number = post.qps[1].qp_num();
        let sges = [post.pair.mrs[0].sge(0, 2048)];
        let target = [post.pair.mrs[1].sge(TARGET, 4096)];
        let (mut sent, mut received, mut posted) = (0u64, 0u64, 0u64);
        const ALL: u64 = 400;
        for wr_id in 0..32 {
            post.recv(1, 1000 + wr_id, &target);
        }
        while sent < ALL || received < ALL {
            while posted < ALL && posted < received + 32 && posted < sent + 32 {
                let wr = SendWr {
                    wr_id: posted,
                    op: SendOp::Send,
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&sges),
                };
                post.send(0, &ah, (number, QKEY), wr);
                posted += 1;
            }
            if let Some(wc) = post.pair.rig.nodes[0].poll().unwrap() {
                assert!(wc.is_ok() && wc.wr_id == sent, "{wc:?}");
                sent += 1;
            }
            while let Some(wc) = post.pair.rig.nodes[1].poll_ready().unwrap() {
                assert!(
                    wc.is_ok() && wc.wr_id == 1000 + received && wc.byte_len == 2088,
                    "{wc:?}"
                );
                post.recv(1, 1032 + received, &target);
                received += 1;
            }
        }
        post.pair.rig.check_idle(1_000_000).unwrap();
    }
}
