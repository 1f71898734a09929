//! Many connections of which one end receives from a shared queue.

use hca_link::LinkKind;
use hca_system_tests::{Arena, Dev, Rig, RigConfig, connect, path};
use hca_verbs::{
    AsyncEvent, ConnectOptions, EventKind, Mr, Mtu, QpOptions, QpState, RawQp, RecvWr, SendFlags, SendOp,
    SendWr, Service, Srq, WcStatus, WorkCompletion, WrData,
};
use hca_wire::{ExtHeaders, Opcode, reth};

use super::forge::{self, Forged};
use super::rooms;
use super::{LIMIT_NS, LOCAL_AND_REMOTE, cap};

/// Node 0 sends on several QPs, node 1 receives on as many from one SRQ.
pub struct Bench {
    pub rig: Rig,
    pub srq: Srq<Dev>,
    pub senders: Vec<RawQp<Dev>>,
    pub receivers: Vec<RawQp<Dev>>,
    pub memory: [Arena; 2],
    pub mrs: [Mr<Dev>; 2],
}

impl Bench {
    pub fn new(
        config: &RigConfig,
        service: Service,
        count: usize,
        max_wr: u32,
        options: &ConnectOptions,
    ) -> Self {
        let rig = Rig::new(config).unwrap();
        let (memory, mrs) = rooms::regions(&rig, config.seed, LOCAL_AND_REMOTE);
        let srq = rig.nodes[1].pd.create_srq(max_wr, 4).unwrap();
        let mut bench = Self {
            rig,
            srq,
            senders: Vec::new(),
            receivers: Vec::new(),
            memory,
            mrs,
        };
        for _ in 0..count {
            bench.add_pair(service, options);
        }
        bench
    }

    pub fn add_pair(&mut self, service: Service, options: &ConnectOptions) {
        let [a, b] = &self.rig.nodes;
        let sender = a.create_qp_of(service, cap(), false).unwrap();
        let receiver = b.pd.create_raw_qp(&QpOptions {
            service,
            srq: Some(&self.srq),
            cap: cap(),
            ..QpOptions::new(&b.cq, &b.cq)
        });
        let mut qps = [sender, receiver.unwrap()];
        connect(&mut qps, options).unwrap();
        let [sender, receiver] = qps;
        self.senders.push(sender);
        self.receivers.push(receiver);
    }

    /// Posts a receive with room for `ROOM` bytes at place `wr_id`.
    pub fn post(&self, wr_id: u64) {
        let sge = rooms::room(&self.mrs, wr_id);
        self.srq.post_recv(&[RecvWr { wr_id, sges: &[sge] }]).unwrap();
    }

    /// Posts receives, and lets the card read the list: what it has not read is not there for UC and UD.
    pub fn post_all(&mut self, wr_ids: impl IntoIterator<Item = u64>) {
        wr_ids.into_iter().for_each(|wr_id| self.post(wr_id));
        self.rig.run(600);
    }

    pub fn send(&mut self, qp: usize, wr_id: u64, offset: u64, len: u32) {
        let sges = [self.mrs[0].sge(offset, len)];
        let wr = SendWr {
            wr_id,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.senders[qp].post_send(&[wr]).unwrap();
    }

    pub fn wait(&self, node: usize) -> WorkCompletion {
        let end_ns = self.rig.now_ns() + LIMIT_NS;
        loop {
            if let Some(wc) = self.rig.nodes[node].poll().unwrap() {
                return wc;
            }
            assert!(self.rig.now_ns() < end_ns, "no completion at node {node}");
        }
    }

    #[track_caller]
    pub fn wait_ok(&self, node: usize) -> WorkCompletion {
        let wc = self.wait(node);
        assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
        wc
    }

    /// From now on a message of `len` bytes from `offset` must be where `wr_id` says.
    pub fn expect(&mut self, wr_id: u64, offset: u64, len: u32) {
        rooms::expect(&mut self.memory, wr_id, offset, len);
    }

    #[track_caller]
    pub fn check_memory(&self) {
        rooms::check(&self.memory);
    }

    /// With default options, MTU 1024.
    pub fn on(kind: LinkKind, service: Service, count: usize, max_wr: u32) -> Self {
        let config = RigConfig::new(71, kind);
        Self::new(&config, service, count, max_wr, &path(Mtu::Bytes1024))
    }

    pub fn kind(&self) -> LinkKind {
        let port = self.rig.nodes[0].context.query_port(1).unwrap();
        match port.link_layer() {
            2 => LinkKind::Ethernet,
            _ => LinkKind::InfiniBand,
        }
    }

    /// A packet by hand from node 0 to a receiver.
    pub fn put(&mut self, qp: usize, opcode: Opcode, psn: u32, payload: &[u8], reth: Option<reth::Repr>) {
        let packet = Forged {
            link: forge::link(0, self.kind()),
            opcode,
            dest_qp: self.receivers[qp].qp_num(),
            psn,
            pkey: 0xffff,
            ext: ExtHeaders {
                reth,
                immdt: (opcode == Opcode::UcWriteOnlyImm).then(Default::default),
                ..ExtHeaders::default()
            },
            payload,
        };
        forge::send(&mut self.rig, 0, &packet);
    }

    pub fn state(&self, qp: usize) -> QpState {
        self.receivers[qp].query().unwrap().qp_state
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

    /// Nothing is told, and nothing completes at node 1.
    #[track_caller]
    pub fn quiet(&mut self) {
        self.rig.run(5_000);
        let node = &self.rig.nodes[1];
        assert_eq!(node.context.poll_async_event(), None);
        assert_eq!(node.poll().unwrap(), None);
    }

    /// Every slot can be had again: those that are posted by messages of QP `qp`, the others by posting.
    pub fn check_slots(&mut self, qp: usize) {
        let entries = self.srq.max_wr();
        let posted = entries - self.srq.free_slots();
        for wr_id in 0..u64::from(self.srq.free_slots()) {
            self.post(1000 + wr_id);
        }
        assert!(self.srq.post_recv(&[RecvWr { wr_id: 0, sges: &[] }]).is_err());
        self.rig.run(600);
        let mut wr_ids = Vec::new();
        for n in 0..u64::from(entries) {
            self.send(qp, n, 0, 8);
            wr_ids.push(self.wait_ok(1).wr_id);
            self.wait_ok(0);
        }
        let again = wr_ids.iter().filter(|wr_id| **wr_id >= 1000).count();
        assert_eq!(again as u32, entries - posted, "{wr_ids:?}");
        wr_ids.sort_unstable();
        wr_ids.dedup();
        assert_eq!(wr_ids.len() as u32, entries, "each once");
        assert_eq!(self.srq.free_slots(), entries);
    }
}
