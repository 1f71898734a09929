//! Two connected QPs with memory on both sides, and small steps to use them.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod forge;
pub mod many;
pub mod rooms;
pub mod words;
pub mod xrc;

use hca_link::LinkKind;
use hca_system_tests::{Arena, Dev, Place, Rig, RigConfig, Rng, connect, path};
use hca_verbs::{
    Access, AhAttr, ConnectOptions, Cq, Mr, Mtu, PeerInfo, QpAttr, QpAttrMask, QpCap, QpOptions, QpState,
    RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, Sge, WcStatus, WorkCompletion, WrData,
};

/// Posts one signaled send from memory to any QP.
pub fn post(qp: &mut RawQp<Dev>, wr_id: u64, op: SendOp, sges: &[Sge]) {
    let wr = SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(sges),
    };
    qp.post_send(&[wr]).unwrap();
}

/// Virtual addresses of the two nodes' memory.
pub const BASES: [u64; 2] = [0x1000_0000_0000, 0x2000_0000_0000];
/// Bytes in front of and behind each region: nobody may touch them.
pub const CANARY_BYTES: u64 = 4096 + 77;
/// A completion that takes longer is missing.
pub const LIMIT_NS: u64 = 50_000_000;

pub const ALL_MTUS: [(Mtu, u32); 5] = [
    (Mtu::Bytes256, 256),
    (Mtu::Bytes512, 512),
    (Mtu::Bytes1024, 1024),
    (Mtu::Bytes2048, 2048),
    (Mtu::Bytes4096, 4096),
];
pub const BOTH_LINKS: [LinkKind; 2] = [LinkKind::Ethernet, LinkKind::InfiniBand];

pub const LOCAL_AND_REMOTE: Access =
    Access::from_bits(Access::LOCAL_WRITE.bits() | Access::REMOTE_WRITE.bits() | Access::REMOTE_READ.bits());

/// REL-19: runs on wires of both links that lose, double, delay and spoil packets, with PSNs that run over and various
/// numbers of READs and atomics at a time. Seeds follow on one another.
pub fn on_bad_wires(first_seed: u64, mut run: impl FnMut(RigConfig, ConnectOptions, &str)) {
    let wires = [
        "loss=0.05",
        "dup=0.3",
        "reorder=0.2",
        "loss=0.1,dup=0.1,reorder=0.1,corrupt=0.02",
        "loss=0.03,dup=0.05,delay_ns=3000",
    ];
    for kind in BOTH_LINKS {
        for (seed, faults) in (first_seed..).zip(wires) {
            let config = RigConfig {
                faults: faults.parse().unwrap(),
                ..RigConfig::new(seed, kind)
            };
            let options = ConnectOptions {
                psns: (0xff_fff0, 0xff_fff8),
                rd_atomic: [1, 3, 16][seed as usize % 3],
                ..path(Mtu::Bytes256)
            };
            run(config, options, &format!("{kind:?} {faults}"));
        }
    }
}

/// Two nodes with one connection and one region each.
pub struct Pair {
    pub rig: Rig,
    pub qps: [RawQp<Dev>; 2],
    pub mrs: [Mr<Dev>; 2],
    pub memory: [Arena; 2],
}

/// What most tests use: 16 entries everywhere.
pub fn cap() -> QpCap {
    QpCap {
        max_send_wr: 32,
        max_recv_wr: 32,
        max_send_sge: 16,
        max_recv_sge: 16,
        max_inline_data: 220,
    }
}

impl Pair {
    /// Regions of `len` bytes with the given rights, surrounded by canaries.
    pub fn new(config: &RigConfig, options: &ConnectOptions, len: u64, access: [Access; 2]) -> Self {
        Self::with_cap(config, options, len, access, cap())
    }

    pub fn with_cap(
        config: &RigConfig,
        options: &ConnectOptions,
        len: u64,
        access: [Access; 2],
        cap: QpCap,
    ) -> Self {
        let rig = Rig::new(config).unwrap();
        let qps = rig.connect([cap; 2], [false; 2], options).unwrap();
        let mut rng = Rng::new(config.seed, "memory");
        let memory = [0, 1].map(|node: usize| {
            let buf = rig.nodes[node].alloc((len + 2 * CANARY_BYTES) as usize).unwrap();
            Arena::new(buf, &mut rng)
        });
        let mrs = [0, 1].map(|node: usize| {
            let place = Place {
                offset: CANARY_BYTES,
                len,
                ..Place::whole(memory[node].buf(), access[node], BASES[node])
            };
            rig.nodes[node].register(memory[node].buf(), place).unwrap()
        });
        Self {
            rig,
            qps,
            mrs,
            memory,
        }
    }

    /// The next completion of a node.
    pub fn wait(&self, node: usize) -> WorkCompletion {
        let end_ns = self.rig.now_ns() + LIMIT_NS;
        loop {
            if let Some(wc) = self.rig.nodes[node].poll().unwrap() {
                return wc;
            }
            assert!(
                self.rig.now_ns() < end_ns,
                "no completion at node {node} within {LIMIT_NS} ns"
            );
        }
    }

    /// The next completion of a node is a success of this work request.
    pub fn wait_ok(&self, node: usize, wr_id: u64) -> WorkCompletion {
        let wc = self.wait(node);
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
        wc
    }

    /// No completion comes at a node while `cycles` pass.
    pub fn silent(&mut self, node: usize, cycles: u64) {
        self.rig.run(cycles);
        assert_eq!(
            self.rig.nodes[node].poll().unwrap(),
            None,
            "a completion too many"
        );
    }

    /// Place of a region's byte in the peer's eyes.
    pub fn remote(&self, node: usize, offset: u64) -> (u64, u32) {
        (self.mrs[node].addr() + offset, self.mrs[node].rkey())
    }

    pub fn write_to(&self, node: usize, offset: u64) -> SendOp {
        let (remote_addr, rkey) = self.remote(node, offset);
        SendOp::RdmaWrite { remote_addr, rkey }
    }

    pub fn read_from(&self, node: usize, offset: u64) -> SendOp {
        let (remote_addr, rkey) = self.remote(node, offset);
        SendOp::RdmaRead { remote_addr, rkey }
    }

    /// Posts one signaled send from memory.
    pub fn post(&mut self, node: usize, wr_id: u64, op: SendOp, sges: &[Sge]) {
        self.post_with(node, wr_id, op, SendFlags::SIGNALED, WrData::Sges(sges));
    }

    pub fn post_with(&mut self, node: usize, wr_id: u64, op: SendOp, flags: SendFlags, data: WrData<'_>) {
        self.qps[node]
            .post_send(&[SendWr {
                wr_id,
                op,
                flags,
                data,
            }])
            .unwrap();
    }

    pub fn recv(&mut self, node: usize, wr_id: u64, sges: &[Sge]) {
        self.qps[node].post_recv(&[RecvWr { wr_id, sges }]).unwrap();
    }

    /// Bytes of a node's region as they must be.
    pub fn expected(&self, node: usize, offset: u64, len: u32) -> Vec<u8> {
        self.memory[node].expected(CANARY_BYTES + offset, len).to_vec()
    }

    /// From now on these bytes must be in a node's region.
    pub fn expect(&mut self, node: usize, offset: u64, bytes: &[u8]) {
        self.memory[node].expect(CANARY_BYTES + offset, bytes);
    }

    /// Every byte of both nodes' memory is what it must be.
    #[track_caller]
    pub fn check_memory(&self, what: &str) {
        for node in 0..2 {
            if let Some((at, found, wanted)) = self.memory[node].first_difference() {
                let at = at as i64 - CANARY_BYTES as i64;
                panic!("{what}: node {node}, byte {at} of its region: {found:#04x} instead of {wanted:#04x}");
            }
        }
    }

    /// A second connection between the nodes.
    pub fn more_qps(&self, cap: QpCap, options: &ConnectOptions) -> [RawQp<Dev>; 2] {
        let mut qps = [0, 1].map(|node: usize| self.rig.nodes[node].create_qp(cap, false).unwrap());
        connect(&mut qps, options).unwrap();
        qps
    }

    /// A new connection in the place of the one that there was: node 0 completes into a CQ of the test's.
    pub fn connect_into(&mut self, cq: &Cq<Dev>, options: &ConnectOptions) {
        let [node, peer] = [0, 1].map(|node: usize| &self.rig.nodes[node]);
        let with_cq = QpOptions {
            cap: cap(),
            ..QpOptions::new(cq, cq)
        };
        self.qps = [
            node.pd.create_raw_qp(&with_cq).unwrap(),
            peer.create_qp(cap(), false).unwrap(),
        ];
        connect(&mut self.qps, options).unwrap();
    }

    /// A small WRITE and a SEND pass, and the bytes arrive.
    pub fn check_traffic(&mut self, what: &str) {
        let bytes = self.expected(0, 0, 200);
        let sges = [self.mrs[0].sge(0, 200)];
        let (op, target) = (self.write_to(1, 300), [self.mrs[1].sge(600, 200)]);
        self.expect(1, 300, &bytes);
        self.expect(1, 600, &bytes);
        self.recv(1, 902, &target);
        self.post(0, 900, op, &sges);
        self.post(0, 901, SendOp::Send, &sges);
        self.wait_ok(0, 900);
        self.wait_ok(0, 901);
        self.wait_ok(1, 902);
        self.check_memory(what);
    }
}

/// One step towards `to`, by the masks of QPS-T-RC, QPS-T-UC and QPS-T-UD.
pub fn step(qp: &mut RawQp<Dev>, options: &ConnectOptions, peer: &PeerInfo, to: QpState, qkey: u32) {
    use QpAttrMask as M;
    let connected = qp.service() != Service::Ud;
    let acked = qp.service() == Service::Rc;
    let mut mask = M::STATE;
    match to {
        QpState::Init => {
            mask = mask | M::PKEY_INDEX | M::PORT;
            mask = mask | if connected { M::ACCESS_FLAGS } else { M::QKEY };
        }
        QpState::Rtr if connected => {
            mask = mask | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
            if acked {
                mask = mask | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
            }
        }
        QpState::Rts => {
            mask = mask | M::SQ_PSN;
            if acked {
                mask = mask | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
            }
        }
        _ => {}
    }
    let ah_attr = AhAttr {
        dgid: peer.gid.unwrap_or_default(),
        sgid_index: options.gid_index.unwrap_or(0),
        is_global: peer.gid.is_some(),
        dlid: peer.lid,
        dmac: peer.mac,
        ..AhAttr::default()
    };
    let attr = QpAttr {
        qp_state: to,
        port_num: 1,
        qkey,
        qp_access_flags: options.access,
        ah_attr,
        path_mtu: options.mtu,
        dest_qp_num: peer.qp_num,
        timeout: options.timeout,
        retry_cnt: options.retry_cnt,
        ..QpAttr::default()
    };
    qp.modify(&attr, mask).unwrap();
}
