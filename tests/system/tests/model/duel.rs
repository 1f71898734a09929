//! A connection between a QP of the card and one of the model, with a region each, and small steps to use it.

use super::common::{LIMIT_NS, LOCAL_AND_REMOTE, cap};
use hca_link::LinkKind;
use hca_model::{Access, Completion, Op, QpConfig, RecvRequest, SendRequest, Sge as ModelSge};
use hca_system_tests::opposite::{Opposite, OppositeConfig};
use hca_system_tests::{Arena, Dev, Place, Rng};
use hca_verbs::{
    ConnectOptions, Mr, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, WcStatus, WorkCompletion, WrData,
};

pub const REGION_BYTES: u64 = 128 << 10;
/// Where targets begin, in both regions; sources are below.
pub const TARGET: u64 = 64 << 10;
pub const CARD_VA: u64 = 0x1000_0000_0000;
pub const MODEL_VA: u64 = 0x2000_0000_0000;

/// A connection between a QP of the card and one of the model, with a region each.
pub struct Duel {
    pub opposite: Opposite,
    pub qp: RawQp<Dev>,
    pub qpn: u32,
    pub arena: Arena,
    pub mr: Mr<Dev>,
    pub key: u32,
    /// What the model's region must hold.
    pub model_expected: Vec<u8>,
}

impl Duel {
    pub fn new(config: &OppositeConfig, service: Service, options: &ConnectOptions) -> Self {
        Self::with(config, service, options, |_| ())
    }

    /// The same with what `change` makes of the model's QP.
    pub fn with(
        config: &OppositeConfig,
        service: Service,
        options: &ConnectOptions,
        change: impl FnOnce(&mut QpConfig),
    ) -> Self {
        // On InfiniBand index 1 is nobody's.
        let gid_index = options
            .gid_index
            .filter(|index| config.link == LinkKind::Ethernet || *index == 0);
        let options = &ConnectOptions {
            gid_index,
            ..*options
        };
        let mut opposite = Opposite::new(config).unwrap();
        let (qp, qpn) = opposite.connect(service, cap(), options, change).unwrap();
        let mut rng = Rng::new(config.seed, "memory");
        let buf = opposite.node.alloc(REGION_BYTES as usize).unwrap();
        let arena = Arena::new(buf, &mut rng);
        let place = Place::whole(arena.buf(), LOCAL_AND_REMOTE, CARD_VA);
        let mr = opposite.node.register(arena.buf(), place).unwrap();
        let model_expected = rng.bytes(REGION_BYTES as usize);
        let bytes = model_expected.clone();
        let key = opposite
            .model
            .with(|model| model.register(0, MODEL_VA, bytes, Access::ALL));
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
    pub fn wait(&self) -> WorkCompletion {
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
    pub fn model_wait(&self) -> Completion {
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
    pub fn wait_ok(&self, wr_id: u64) -> WorkCompletion {
        let wc = self.wait();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    #[track_caller]
    pub fn model_ok(&self, wr_id: u64) -> Completion {
        let wc = self.model_wait();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    pub fn post(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32) {
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

    pub fn recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let sges = [self.mr.sge(offset, len)];
        self.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
        // The doorbell is there before anything of the model's: on UC it would come too late.
        self.opposite.run(500);
    }

    pub fn model_sge(&self, offset: u64, len: u32) -> ModelSge {
        ModelSge::new(self.key, MODEL_VA + offset, len)
    }

    pub fn model_post(&self, wr_id: u64, op: Op, offset: u64, len: u32) {
        let request = SendRequest::new(wr_id, op, vec![self.model_sge(offset, len)]);
        self.opposite.model.post_send(self.qpn, request);
    }

    pub fn model_recv(&self, wr_id: u64, offset: u64, len: u32) {
        let request = RecvRequest::new(wr_id, vec![self.model_sge(offset, len)]);
        self.opposite.model.post_recv(self.qpn, request);
    }

    /// The model's bytes will be in the card's memory.
    pub fn reaches_card(&mut self, from: u64, to: u64, len: u32) {
        let bytes = self.model_expected[from as usize..][..len as usize].to_vec();
        self.arena.expect(to, &bytes);
    }

    /// The card's bytes will be in the model's memory.
    pub fn reaches_model(&mut self, from: u64, to: u64, len: u32) {
        let bytes = self.arena.expected(from, len).to_vec();
        self.model_expected[to as usize..][..len as usize].copy_from_slice(&bytes);
    }

    #[track_caller]
    pub fn check_memory(&self, what: &str) {
        assert_eq!(self.arena.first_difference(), None, "{what}: the card's memory");
        let key = self.key;
        let same = self
            .opposite
            .model
            .with(|model| model.memory().bytes(key).unwrap() == &self.model_expected[..]);
        assert!(same, "{what}: the model's memory");
    }
}
