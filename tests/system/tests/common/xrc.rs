//! Initiators of XRC at node 0, targets and SRQs at node 1.

use hca_link::LinkKind;
use hca_system_tests::{Arena, Dev, Rig, RigConfig, path};
use hca_verbs::{
    AsyncEvent, ConnectOptions, Cq, CqOptions, EventKind, Mr, Mtu, QpState, RawQp, RecvWr, SendFlags, SendOp,
    SendWr, Service, Srq, WcStatus, WorkCompletion, WrData, XrcTarget, Xrcd, connect_xrc,
};

use hca_wire::{ExtHeader, ExtHeaders, Opcode, feth, xrceth};

use super::forge::{self, Forged};
use super::rooms;
use super::{CANARY_BYTES, LIMIT_NS, LOCAL_AND_REMOTE, cap};

const MAX_WR: u32 = 16;

pub struct Bench {
    pub rig: Rig,
    pub xrcd: Xrcd<Dev>,
    /// Each with a CQ of its own.
    pub srqs: Vec<(Srq<Dev>, Cq<Dev>)>,
    pub initiators: Vec<RawQp<Dev>>,
    pub targets: Vec<XrcTarget<Dev>>,
    /// SRQs that are in nobody's way.
    pub others: Vec<Srq<Dev>>,
    /// Receives of each SRQ that have completed: the test's own count.
    pub taken: Vec<u64>,
    pub memory: [Arena; 2],
    pub mrs: [Mr<Dev>; 2],
}

impl Bench {
    pub fn new(config: &RigConfig, pairs: usize, srqs: usize, options: &ConnectOptions) -> Self {
        let rig = Rig::new(config).unwrap();
        let (memory, mrs) = rooms::regions(
            &rig,
            config.seed,
            LOCAL_AND_REMOTE
                | hca_verbs::Access::REMOTE_ATOMIC
                | hca_verbs::Access::FLUSH_GLOBAL
                | hca_verbs::Access::MW_BIND,
        );
        let xrcd = rig.nodes[1].context.alloc_xrcd().unwrap();
        let mut bench = Self {
            rig,
            xrcd,
            srqs: Vec::new(),
            initiators: Vec::new(),
            targets: Vec::new(),
            others: Vec::new(),
            taken: vec![0; srqs],
            memory,
            mrs,
        };
        for _ in 0..srqs {
            bench.add_srq();
        }
        for _ in 0..pairs {
            bench.add_pair(options);
        }
        bench
    }

    /// With default options, MTU 1024.
    pub fn on(kind: LinkKind, pairs: usize, srqs: usize) -> Self {
        Self::new(&RigConfig::new(73, kind), pairs, srqs, &path(Mtu::Bytes1024))
    }

    pub fn add_srq(&mut self) {
        let node = &self.rig.nodes[1];
        let cq = node.context.create_cq(&CqOptions::new(256)).unwrap();
        let srq = node.pd.create_xrc_srq(&self.xrcd, &cq, MAX_WR, 4).unwrap();
        self.srqs.push((srq, cq));
    }

    pub fn add_pair(&mut self, options: &ConnectOptions) {
        let mut initiator = self.rig.nodes[0]
            .create_qp_of(Service::Xrc, cap(), false)
            .unwrap();
        let mut target = self.xrcd.create_target().unwrap();
        connect_xrc(&mut initiator, &mut target, options).unwrap();
        self.initiators.push(initiator);
        self.targets.push(target);
    }

    /// What peers name an SRQ.
    pub fn number(&self, srq: usize) -> u32 {
        self.srqs[srq].0.number().unwrap()
    }

    /// Posts a receive with room for `ROOM` bytes at place `wr_id`.
    pub fn post(&self, srq: usize, wr_id: u64) {
        let sge = rooms::room(&self.mrs, wr_id);
        self.srqs[srq]
            .0
            .post_recv(&[RecvWr { wr_id, sges: &[sge] }])
            .unwrap();
    }

    pub fn send(&mut self, pair: usize, srq: usize, wr_id: u64, offset: u64, len: u32) {
        let number = self.number(srq);
        self.send_to(pair, number, wr_id, SendOp::Send, offset, len);
    }

    /// Any operation, in the name of any SRQ.
    pub fn send_to(&mut self, pair: usize, srqn: u32, wr_id: u64, op: SendOp, offset: u64, len: u32) {
        let sges = [self.mrs[0].sge(offset, len)];
        let bytes = self.memory[0].expected(CANARY_BYTES + offset, len);
        let wr = SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            data: match op {
                SendOp::AtomicWrite { .. } => WrData::Inline(bytes),
                SendOp::Flush(_) => WrData::Sges(&[]),
                _ => WrData::Sges(&sges),
            },
        };
        self.initiators[pair].post_send_xrc([(wr, srqn)]).unwrap();
    }

    #[track_caller]
    fn wait(&self, cq: &Cq<Dev>) -> WorkCompletion {
        let end_ns = self.rig.now_ns() + LIMIT_NS;
        let mut wc = [WorkCompletion::default()];
        while cq.poll_cq(&mut wc).unwrap() == 0 {
            assert!(self.rig.now_ns() < end_ns, "no completion");
        }
        wc[0]
    }

    pub fn poll_recv(&self, srq: usize) -> Option<WorkCompletion> {
        let mut wc = [WorkCompletion::default()];
        (self.srqs[srq].1.poll_ready(&mut wc).unwrap() == 1).then_some(wc[0])
    }

    /// A packet by hand from node 0 to a target.
    pub fn put(&mut self, pair: usize, opcode: Opcode, psn: u32, srqn: u32, payload: &[u8]) {
        let dest_qp = self.targets[pair].qp_num();
        self.put_to(0, dest_qp, opcode, psn, srqn, payload);
    }

    /// The same to any QP of either node, from the other one.
    pub fn put_to(&mut self, from: usize, dest_qp: u32, opcode: Opcode, psn: u32, srqn: u32, payload: &[u8]) {
        let port = self.rig.nodes[0].context.query_port(1).unwrap();
        let kind = match port.link_layer() {
            2 => LinkKind::Ethernet,
            _ => LinkKind::InfiniBand,
        };
        let has = |header| opcode.has(header);
        let packet = Forged {
            link: forge::link(from, kind),
            opcode,
            dest_qp,
            psn,
            pkey: 0xffff,
            ext: ExtHeaders {
                xrceth: has(ExtHeader::Xrceth).then_some(xrceth::Repr {
                    resv8: 0,
                    xrcsrq: srqn,
                }),
                feth: has(ExtHeader::Feth).then_some(feth::Repr {
                    plt: 1,
                    ..feth::Repr::default()
                }),
                reth: has(ExtHeader::Reth).then(Default::default),
                aeth: has(ExtHeader::Aeth).then(Default::default),
                ieth: has(ExtHeader::Ieth).then(Default::default),
                ..ExtHeaders::default()
            },
            payload,
        };
        forge::send(&mut self.rig, from, &packet);
    }

    #[track_caller]
    pub fn wait_recv(&self, srq: usize) -> WorkCompletion {
        self.wait(&self.srqs[srq].1)
    }

    #[track_caller]
    pub fn wait_sent(&self) -> WorkCompletion {
        self.wait(&self.rig.nodes[0].cq)
    }

    #[track_caller]
    pub fn wait_sent_ok(&self, wr_id: u64) -> WorkCompletion {
        let wc = self.wait_sent();
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    /// Nothing has completed in any SRQ's CQ, and nothing is told.
    #[track_caller]
    pub fn quiet(&mut self) {
        self.rig.run(5_000);
        let mut wc = [WorkCompletion::default()];
        for (_, cq) in &self.srqs {
            assert_eq!(cq.poll_ready(&mut wc).unwrap(), 0, "{wc:?}");
        }
        assert_eq!(self.rig.nodes[1].context.poll_async_event(), None);
    }

    /// The next asynchronous event of node 1.
    #[track_caller]
    pub fn event(&mut self) -> (EventKind, u32) {
        let end_ns = self.rig.now_ns() + LIMIT_NS;
        loop {
            if let Some(AsyncEvent { kind, id, .. }) = self.rig.nodes[1].context.poll_async_event() {
                return (kind, id);
            }
            assert!(self.rig.now_ns() < end_ns, "no event");
            self.rig.run(200);
        }
    }

    pub fn state(&self, pair: usize) -> QpState {
        self.targets[pair].query().unwrap().qp_state
    }

    /// From now on a message of `len` bytes from `offset` must be where `wr_id` says.
    pub fn expect(&mut self, wr_id: u64, offset: u64, len: u32) {
        rooms::expect(&mut self.memory, wr_id, offset, len);
    }

    #[track_caller]
    pub fn check_memory(&self) {
        rooms::check(&self.memory);
    }
}
