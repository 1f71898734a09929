//! All operations, in both roles.

use super::common::{ALL_MTUS, BOTH_LINKS, LOCAL_AND_REMOTE};
use super::duel::{CARD_VA, Duel, MODEL_VA, TARGET};
use hca_link::LinkKind;
use hca_model::Op;
use hca_system_tests::opposite::OppositeConfig;
use hca_system_tests::{Place, path};
use hca_verbs::{
    Access, ConnectOptions, MwType, SendFlags, SendOp, SendWr, Service, WcOpcode, WrData, next_rkey, wc_flag,
};

const IMM: u32 = 0x0102_0304;

impl Duel {
    /// One message of each kind from the card.
    fn all_from_card(&mut self, len: u32, reads: bool) {
        let (va, rkey) = (MODEL_VA + TARGET, self.key);
        self.model_recv(1, TARGET + 20_000, len);
        self.post(2, SendOp::SendWithImm { imm_data: IMM }, 3, len);
        self.reaches_model(3, TARGET + 20_000, len);
        self.wait_ok(2);
        let wc = self.model_ok(1);
        assert_eq!((wc.opcode, wc.byte_len, wc.imm), (WcOpcode::Recv, len, Some(IMM)));
        self.post(
            3,
            SendOp::RdmaWrite {
                remote_addr: va,
                rkey,
            },
            5,
            len,
        );
        self.reaches_model(5, TARGET, len);
        self.wait_ok(3);
        self.model_recv(4, 0, 0);
        let op = SendOp::RdmaWriteWithImm {
            remote_addr: va + 30_000,
            rkey,
            imm_data: IMM + 1,
        };
        self.post(5, op, 9, len);
        self.reaches_model(9, TARGET + 30_000, len);
        self.wait_ok(5);
        let wc = self.model_ok(4);
        let found = (wc.opcode, wc.byte_len, wc.imm);
        assert_eq!(found, (WcOpcode::RecvRdmaWithImm, len, Some(IMM + 1)));
        if reads {
            let remote_addr = MODEL_VA + 7;
            self.post(6, SendOp::RdmaRead { remote_addr, rkey }, TARGET + 1, len);
            self.reaches_card(7, TARGET + 1, len);
            assert_eq!(self.wait_ok(6).byte_len, len);
        }
    }

    /// One message of each kind from the model.
    fn all_from_model(&mut self, len: u32, reads: bool) {
        let (va, rkey) = (CARD_VA + TARGET, self.mr.rkey());
        self.recv(1, TARGET + 20_000, len);
        let op = Op::Send {
            imm: Some(IMM),
            invalidate: None,
        };
        self.model_post(2, op, 3, len);
        self.reaches_card(3, TARGET + 20_000, len);
        self.model_ok(2);
        let wc = self.wait_ok(1);
        let found = (
            wc.opcode,
            wc.byte_len,
            wc.wc_flags & wc_flag::WITH_IMM,
            wc.imm_data,
        );
        assert_eq!(found, (WcOpcode::Recv, len, wc_flag::WITH_IMM, IMM));
        let write = |va, imm| Op::Write { va, rkey, imm };
        self.model_post(3, write(va + 10_000, None), 5, len);
        self.reaches_card(5, TARGET + 10_000, len);
        self.model_ok(3);
        self.recv(4, 0, 0);
        self.model_post(5, write(va + 30_000, Some(IMM + 1)), 9, len);
        self.reaches_card(9, TARGET + 30_000, len);
        self.model_ok(5);
        let wc = self.wait_ok(4);
        let found = (wc.opcode, wc.byte_len, wc.imm_data);
        assert_eq!(found, (WcOpcode::RecvRdmaWithImm, len, IMM + 1));
        if reads {
            self.model_post(
                6,
                Op::Read {
                    va: CARD_VA + 7,
                    rkey,
                },
                TARGET + 10_001,
                len,
            );
            self.reaches_model(7, TARGET + 10_001, len);
            assert_eq!(self.model_ok(6).byte_len, len);
        }
    }
}

/// OP-11: SEND with invalidate in both roles. Who receives it has one region less, or one window bound less; the card's
/// peer is told so by the packets alone.
#[test]
fn sends_that_invalidate() {
    for link in BOTH_LINKS {
        for (len, mtu) in [0, 1, 1024, 3000].into_iter().zip([1, 3, 3, 5]) {
            let mtu = ALL_MTUS[mtu - 1].0;
            let mut duel = Duel::new(&OppositeConfig::new(8, link), Service::Rc, &path(mtu));
            let node = &duel.opposite.node;
            let place = Place::whole(duel.arena.buf(), LOCAL_AND_REMOTE | Access::MW_BIND, CARD_VA);
            let region = node.register(duel.arena.buf(), place).unwrap();
            let window = node.pd.alloc_mw(MwType::Two).unwrap();
            let rkey = next_rkey(window.rkey());
            let bind = SendWr {
                wr_id: 1,
                op: window.bind_op(rkey, &region, CARD_VA + TARGET, 4096, Access::REMOTE_WRITE),
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[]),
            };
            duel.qp.post_send(&[bind]).unwrap();
            duel.wait_ok(1);
            // The model writes through it, and takes it away with its next message.
            let write = Op::Write {
                va: CARD_VA + TARGET,
                rkey,
                imm: None,
            };
            duel.model_post(2, write, 3, len);
            duel.reaches_card(3, TARGET, len);
            duel.model_ok(2);
            duel.recv(3, TARGET + 20_000, len);
            let op = Op::Send {
                imm: None,
                invalidate: Some(rkey),
            };
            duel.model_post(4, op, 9, len);
            duel.reaches_card(9, TARGET + 20_000, len);
            duel.model_ok(4);
            let wc = duel.wait_ok(3);
            let found = (wc.byte_len, wc.wc_flags, wc.imm_data);
            assert_eq!(found, (len, wc_flag::WITH_INV, rkey), "{link:?}");
            // The other way round.
            let invalidate_rkey = duel.key + 0x1000;
            duel.model_recv(5, TARGET + 20_000, len);
            duel.post(6, SendOp::SendWithInv { invalidate_rkey }, 3, len);
            duel.reaches_model(3, TARGET + 20_000, len);
            duel.wait_ok(6);
            let wc = duel.model_ok(5);
            assert_eq!((wc.byte_len, wc.invalidated), (len, Some(invalidate_rkey)));
            duel.check_memory(&format!("{link:?}, {len} bytes"));
        }
    }
}

/// WIRE-10, WIRE-13, OP-1 to OP-5: all operations of RC and UC, in both roles, with every MTU, at the edges of packets,
/// over both links, with IPv4 and IPv6, with GRH and without; PSNs wrap on the way (WIRE-21).
#[test]
fn every_operation_in_both_roles() {
    for (link, service) in BOTH_LINKS
        .into_iter()
        .flat_map(|link| [Service::Rc, Service::Uc].map(|s| (link, s)))
    {
        for (index, (mtu, bytes)) in ALL_MTUS.into_iter().enumerate() {
            let gid_index = match (link, index % 2) {
                (LinkKind::Ethernet, even) => Some(1 - even as u8),
                (LinkKind::InfiniBand, 0) => None,
                (LinkKind::InfiniBand, _) => Some(0),
            };
            let options = ConnectOptions {
                gid_index,
                psns: (0xff_fff8, 0xff_fffc),
                ..path(mtu)
            };
            let mut duel = Duel::new(&OppositeConfig::new(7, link), service, &options);
            for len in [0, 1, bytes - 1, bytes, bytes + 1, (2 * bytes + 5).min(9_000)] {
                duel.all_from_card(len, service == Service::Rc);
                duel.all_from_model(len, service == Service::Rc);
                // Where the WRITEs of UC have gone.
                duel.opposite.run(3_000);
                duel.check_memory(&format!("{link:?} {service:?}, MTU {bytes}, {len} bytes"));
            }
        }
    }
}
