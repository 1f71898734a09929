//! Datagrams between the card and the model, in both roles.

use super::common::{BOTH_LINKS, LOCAL_AND_REMOTE, cap};
use hca_link::LinkKind;
use hca_model::{Access, Destination, Op, QpConfig, RecvRequest, SendRequest, Sge as ModelSge};
use hca_system_tests::opposite::{Opposite, OppositeConfig, link_between};
use hca_system_tests::{Arena, Dev, Place, Rng, identity};
use hca_verbs::{
    AhAttr, Datagram, Mr, QpAttr, QpAttrMask, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr,
    Service, WcOpcode, WcStatus, WrData, wc_flag,
};

const QKEY: u32 = 0x2222_2222;
const QPN: u32 = 0x77;
const GRH_BYTES: u32 = 40;
const MTU: u32 = 4096;
const REGION_BYTES: u64 = 32 << 10;
const TARGET: u64 = 16 << 10;
const MODEL_VA: u64 = 0x9000;
const IMM: u32 = 0x0a0b_0c0d;

struct Post {
    opposite: Opposite,
    qp: RawQp<Dev>,
    arena: Arena,
    mr: Mr<Dev>,
    key: u32,
    link: LinkKind,
}

fn datagram_qp(opposite: &Opposite) -> RawQp<Dev> {
    let node = &opposite.node;
    let options = QpOptions {
        cap: cap(),
        service: Service::Ud,
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let mut qp = node.pd.create_raw_qp(&options).unwrap();
    let attr = |qp_state| QpAttr {
        qp_state,
        qkey: QKEY,
        port_num: 1,
        ..QpAttr::default()
    };
    let init = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY;
    qp.modify(&attr(QpState::Init), init).unwrap();
    qp.modify(&attr(QpState::Rtr), QpAttrMask::STATE).unwrap();
    let rts = QpAttrMask::STATE | QpAttrMask::SQ_PSN;
    qp.modify(&attr(QpState::Rts), rts).unwrap();
    qp
}

impl Post {
    fn new(link: LinkKind) -> Self {
        let opposite = Opposite::new(&OppositeConfig::new(31, link)).unwrap();
        let qp = datagram_qp(&opposite);
        let buf = opposite.node.alloc(REGION_BYTES as usize).unwrap();
        let mut rng = Rng::new(31, "memory");
        let arena = Arena::new(buf, &mut rng);
        let mr = opposite
            .node
            .register(
                arena.buf(),
                Place::whole(arena.buf(), LOCAL_AND_REMOTE, 0x1000_0000_0000),
            )
            .unwrap();
        let bytes = rng.bytes(REGION_BYTES as usize);
        let key = opposite.model.with(|model| {
            let mut config = QpConfig::ud(QPN, QKEY, opposite.link_to_card(Some(0)));
            config.mtu = hca_model::Mtu::Bytes4096;
            model.create_qp(config).unwrap();
            model.register(0, MODEL_VA, bytes, Access::LOCAL)
        });
        Self {
            opposite,
            qp,
            arena,
            mr,
            key,
            link,
        }
    }

    fn model_bytes(&self, offset: u64, len: u32) -> Vec<u8> {
        let key = self.key;
        self.opposite.model.with(|model| {
            let region = model.memory().bytes(key).unwrap();
            region[offset as usize..][..len as usize].to_vec()
        })
    }

    /// A datagram of the card to a QP and a Q_Key.
    fn send(&mut self, gid_index: Option<u8>, to: (u32, u32), len: u32, op: SendOp) {
        let there = identity(1, self.link);
        let attr = AhAttr {
            is_global: gid_index.is_some(),
            dgid: gid_index.map_or([0; 16], |index| self.opposite.model_gid(index)),
            sgid_index: gid_index.unwrap_or(0),
            dlid: there.lid,
            dmac: there.mac,
            ..AhAttr::default()
        };
        let ah = self.opposite.node.pd.create_ah(&attr).unwrap();
        let sges = [self.mr.sge(3, len)];
        let wr = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.qp
            .post_send_to([Datagram {
                wr,
                to: ah.to(to.0, to.1),
            }])
            .unwrap();
        self.opposite.run(5_000);
        let wc = self.opposite.node.poll_ready().unwrap().unwrap();
        assert_eq!(
            (wc.wr_id, wc.status, wc.opcode),
            (1, WcStatus::Success, WcOpcode::Send)
        );
    }

    fn model_recv(&self, wr_id: u64, len: u32) {
        let sges = vec![ModelSge::new(self.key, MODEL_VA + TARGET, len)];
        self.opposite.model.post_recv(QPN, RecvRequest::new(wr_id, sges));
    }

    /// WIRE-9, WIRE-12: the first bytes of a receive say where the datagram is from: a GID, or an IPv4 address.
    fn names_sender(&self, header: &[u8], from: u8, gid_index: Option<u8>) -> bool {
        let ipv4 = identity(from, self.link).ipv4;
        match link_between(from, self.link, gid_index) {
            hca_wire::Link::InfiniBand { grh, .. } => grh.is_none_or(|grh| header[8..24] == grh.sgid),
            hca_wire::Link::Ethernet {
                ip: hca_wire::Network::Ipv6(ip),
                ..
            } => header[8..24] == ip.src_addr,
            hca_wire::Link::Ethernet { .. } => header[20] == 0x45 && header[32..36] == ipv4,
        }
    }
}

/// What can be told apart of a network: GIDs, IPv4, LIDs alone.
fn ways(link: LinkKind) -> [Option<u8>; 2] {
    match link {
        LinkKind::Ethernet => [Some(0), Some(1)],
        LinkKind::InfiniBand => [None, Some(0)],
    }
}

/// OP-22, WIRE-12, KEY-23, XPORT-4: from the card to the model.
#[test]
fn datagrams_from_the_card() {
    for (link, len) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| [0, 1, 1500, MTU].map(|len| (link, len)))
    {
        let mut post = Post::new(link);
        for gid_index in ways(link) {
            post.model_recv(5, GRH_BYTES + len);
            post.send(gid_index, (QPN, QKEY), len, SendOp::SendWithImm { imm_data: IMM });
            let wc = post.opposite.model.poll().unwrap();
            let found = (wc.wr_id, wc.status, wc.byte_len, wc.imm, wc.src_qp);
            let own = post.qp.qp_num();
            assert_eq!(
                found,
                (5, WcStatus::Success, GRH_BYTES + len, Some(IMM), own),
                "{link:?} {gid_index:?}"
            );
            let landed = post.model_bytes(TARGET, GRH_BYTES + len);
            assert_eq!(
                &landed[40..],
                post.arena.expected(3, len),
                "{link:?} {gid_index:?} {len}"
            );
            assert!(
                post.names_sender(&landed, 0, gid_index),
                "{link:?} {gid_index:?}: {:x?}",
                &landed[..40]
            );
        }
        // Another Q_Key, another QP: nobody.
        post.model_recv(6, GRH_BYTES + len);
        post.send(ways(link)[0], (QPN, QKEY + 1), len, SendOp::Send);
        post.send(ways(link)[0], (QPN + 1, QKEY), len, SendOp::Send);
        assert_eq!(post.opposite.model.poll(), None);
    }
}

/// The same from the model to the card.
#[test]
fn datagrams_from_the_model() {
    for (link, len) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| [0, 1, 1500, MTU].map(|len| (link, len)))
    {
        let mut post = Post::new(link);
        let own = post.qp.qp_num();
        let send = |post: &mut Post, gid_index, to: (u32, u32)| {
            let sges = [post.mr.sge(TARGET, GRH_BYTES + len)];
            post.qp
                .post_recv(&[RecvWr {
                    wr_id: 5,
                    sges: &sges,
                }])
                .unwrap();
            post.opposite.run(500);
            let op = Op::Send {
                imm: Some(IMM),
                invalidate: None,
            };
            let request = SendRequest {
                destination: Some(Destination {
                    link: post.opposite.link_to_card(gid_index),
                    qpn: to.0,
                    qkey: to.1,
                }),
                ..SendRequest::new(9, op, vec![ModelSge::new(post.key, MODEL_VA + 7, len)])
            };
            post.opposite.model.post_send(QPN, request);
            post.opposite.run(5_000);
            assert_eq!(post.opposite.model.poll().unwrap().status, WcStatus::Success);
        };
        for gid_index in ways(link) {
            send(&mut post, gid_index, (own, QKEY));
            let wc = post.opposite.node.poll_ready().unwrap().unwrap();
            let found = (wc.wr_id, wc.status, wc.byte_len, wc.imm_data, wc.src_qp);
            assert_eq!(
                found,
                (5, WcStatus::Success, GRH_BYTES + len, IMM, QPN),
                "{link:?} {gid_index:?}"
            );
            assert_ne!(wc.wc_flags & wc_flag::WITH_IMM, 0);
            let mut landed = vec![0; (GRH_BYTES + len) as usize];
            post.arena.buf().read_bytes(TARGET as usize, &mut landed);
            assert_eq!(
                landed[40..],
                post.model_bytes(7, len),
                "{link:?} {gid_index:?} {len}"
            );
            assert!(
                post.names_sender(&landed, 1, gid_index),
                "{link:?} {gid_index:?}: {:x?}",
                &landed[..40]
            );
        }
        send(&mut post, ways(link)[0], (own, QKEY + 1));
        send(&mut post, ways(link)[0], (own + 1, QKEY));
        assert_eq!(post.opposite.node.poll_ready().unwrap(), None);
    }
}
