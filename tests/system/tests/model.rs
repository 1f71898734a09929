//! The card and the reference model at the two ends of a cable: two readings of the specification that must agree, in
//! both roles, packet by packet.

mod common;

use common::{ALL_MTUS, BOTH_LINKS, LIMIT_NS, LOCAL_AND_REMOTE, cap};
use hca_link::LinkKind;
use hca_model::{Completion, Op, RecvRequest, SendRequest, Sge as ModelSge};
use hca_system_tests::opposite::{Opposite, OppositeConfig};
use hca_system_tests::{Arena, Dev, Place, Rng, path};
use hca_verbs::{
    ConnectOptions, Mr, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, WcOpcode, WcStatus,
    WorkCompletion, WrData, wc_flag,
};

const REGION_BYTES: u64 = 128 << 10;
/// Where targets begin, in both regions; sources are below.
const TARGET: u64 = 64 << 10;
const CARD_VA: u64 = 0x1000_0000_0000;
const MODEL_VA: u64 = 0x2000_0000_0000;
const IMM: u32 = 0x0102_0304;

/// A connection between a QP of the card and one of the model, with a region each.
struct Duel {
    opposite: Opposite,
    qp: RawQp<Dev>,
    qpn: u32,
    arena: Arena,
    mr: Mr<Dev>,
    key: u32,
    /// What the model's region must hold.
    model_expected: Vec<u8>,
}

impl Duel {
    fn new(config: &OppositeConfig, service: Service, options: &ConnectOptions) -> Self {
        let mut opposite = Opposite::new(config).unwrap();
        let (qp, qpn) = opposite.connect(service, cap(), options, |_| ()).unwrap();
        let mut rng = Rng::new(config.seed, "memory");
        let buf = opposite.node.alloc(REGION_BYTES as usize).unwrap();
        let arena = Arena::new(buf, &mut rng);
        let place = Place::whole(arena.buf(), LOCAL_AND_REMOTE, CARD_VA);
        let mr = opposite.node.register(arena.buf(), place).unwrap();
        let model_expected = rng.bytes(REGION_BYTES as usize);
        let bytes = model_expected.clone();
        let key = opposite
            .model
            .with(|model| model.register(0, MODEL_VA, bytes, hca_model::Access::ALL));
        Self {
            opposite,
            qp,
            qpn,
            arena,
            mr,
            key,
            model_expected,
        }
    }

    /// The next completion of the card.
    #[track_caller]
    fn wait(&self) -> WorkCompletion {
        let end_ns = self.opposite.now_ns() + LIMIT_NS;
        loop {
            if let Some(wc) = self.opposite.node.poll().unwrap() {
                return wc;
            }
            assert!(self.opposite.now_ns() < end_ns, "no completion at the card");
        }
    }

    /// The next completion of the model.
    #[track_caller]
    fn model_wait(&self) -> Completion {
        let end_ns = self.opposite.now_ns() + LIMIT_NS;
        loop {
            if let Some(wc) = self.opposite.model.poll() {
                return wc;
            }
            self.opposite.run(16);
            assert!(self.opposite.now_ns() < end_ns, "no completion at the model");
        }
    }

    #[track_caller]
    fn wait_ok(&self, wr_id: u64) -> WorkCompletion {
        let wc = self.wait();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    #[track_caller]
    fn model_ok(&self, wr_id: u64) -> Completion {
        let wc = self.model_wait();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    fn post(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32) {
        let sges = [self.mr.sge(offset, len)];
        let flags = SendFlags::SIGNALED;
        let data = WrData::Sges(&sges);
        self.qp
            .post_send(&[SendWr {
                wr_id,
                op,
                flags,
                data,
            }])
            .unwrap();
    }

    fn recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let sges = [self.mr.sge(offset, len)];
        self.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
        // The doorbell is there before anything of the model's: on UC it would come too late.
        self.opposite.run(500);
    }

    fn model_sge(&self, offset: u64, len: u32) -> ModelSge {
        ModelSge::new(self.key, MODEL_VA + offset, len)
    }

    fn model_post(&self, wr_id: u64, op: Op, offset: u64, len: u32) {
        let request = SendRequest::new(wr_id, op, vec![self.model_sge(offset, len)]);
        self.opposite.model.post_send(self.qpn, request);
    }

    fn model_recv(&self, wr_id: u64, offset: u64, len: u32) {
        let request = RecvRequest::new(wr_id, vec![self.model_sge(offset, len)]);
        self.opposite.model.post_recv(self.qpn, request);
    }

    /// The model's bytes will be in the card's memory.
    fn to_card(&mut self, from: u64, to: u64, len: u32) {
        let bytes = self.model_expected[from as usize..][..len as usize].to_vec();
        self.arena.expect(to, &bytes);
    }

    /// The card's bytes will be in the model's memory.
    fn to_model(&mut self, from: u64, to: u64, len: u32) {
        let bytes = self.arena.expected(from, len).to_vec();
        self.model_expected[to as usize..][..len as usize].copy_from_slice(&bytes);
    }

    #[track_caller]
    fn check_memory(&self, what: &str) {
        assert_eq!(self.arena.first_difference(), None, "{what}: the card's memory");
        let key = self.key;
        let same = self
            .opposite
            .model
            .with(|model| model.memory().bytes(key).unwrap() == &self.model_expected[..]);
        assert!(same, "{what}: the model's memory");
    }

    /// One message of each kind from the card.
    fn all_from_card(&mut self, len: u32, reads: bool) {
        let (va, rkey) = (MODEL_VA + TARGET, self.key);
        self.model_recv(1, TARGET + 20_000, len);
        self.post(2, SendOp::SendWithImm { imm_data: IMM }, 3, len);
        self.to_model(3, TARGET + 20_000, len);
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
        self.to_model(5, TARGET, len);
        self.wait_ok(3);
        self.model_recv(4, 0, 0);
        let op = SendOp::RdmaWriteWithImm {
            remote_addr: va + 30_000,
            rkey,
            imm_data: IMM + 1,
        };
        self.post(5, op, 9, len);
        self.to_model(9, TARGET + 30_000, len);
        self.wait_ok(5);
        let wc = self.model_ok(4);
        let found = (wc.opcode, wc.byte_len, wc.imm);
        assert_eq!(found, (WcOpcode::RecvRdmaWithImm, len, Some(IMM + 1)));
        if reads {
            let remote_addr = MODEL_VA + 7;
            self.post(6, SendOp::RdmaRead { remote_addr, rkey }, TARGET + 1, len);
            self.to_card(7, TARGET + 1, len);
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
        self.to_card(3, TARGET + 20_000, len);
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
        self.to_card(5, TARGET + 10_000, len);
        self.model_ok(3);
        self.recv(4, 0, 0);
        self.model_post(5, write(va + 30_000, Some(IMM + 1)), 9, len);
        self.to_card(9, TARGET + 30_000, len);
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
            self.to_model(7, TARGET + 10_001, len);
            assert_eq!(self.model_ok(6).byte_len, len);
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
