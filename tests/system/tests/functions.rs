//! All functions of a card (D15): every operation by the last one, all of them at once, and neighbours that end.

mod common;

use common::{BOTH_LINKS, LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap};
use hca_cosim::NUM_FUNCS;
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Node, Rig, RigConfig, connect, path};
use hca_verbs::{
    Access, Mr, Mtu, MwType, QpOptions, RawQp, RecvWr, SendFlags, SendOp, SendWr, WcStatus, WrData, next_rkey,
};

const LAST: u8 = NUM_FUNCS - 1;
const REGION_BYTES: usize = 64 << 10;
const RIGHTS: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::MW_BIND.bits());

/// Nodes at one function of each card, and no other function in use so far.
fn config(link: LinkKind, function: u8) -> RigConfig {
    RigConfig {
        functions: NUM_FUNCS,
        function,
        ..RigConfig::new(150, link)
    }
}

/// A function of both cards with a connection, and memory of its own.
struct Client {
    nodes: [Node; 2],
    memory: [DmaBuf; 2],
    mrs: [Mr<Dev>; 2],
    qps: [RawQp<Dev>; 2],
    func: u8,
}

impl Client {
    fn open(rig: &Rig, func: u8) -> Self {
        let nodes = rig
            .cards
            .map(|card| Node::open(rig.sim.device(card, func).unwrap(), 64).unwrap());
        let memory = nodes.each_ref().map(|node| node.alloc(REGION_BYTES).unwrap());
        let mrs = [0, 1].map(|at: usize| nodes[at].pd.reg_mr(&memory[at], RIGHTS).unwrap());
        let mut qps = nodes.each_ref().map(|node| node.create_qp(cap(), false).unwrap());
        connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
        Self {
            nodes,
            memory,
            mrs,
            qps,
            func,
        }
    }

    /// What the function has at a place of its memory on a card.
    fn bytes(&self, card: usize, at: u64, len: usize) -> Vec<u8> {
        let salt = u64::from(self.func) * 131 + card as u64 * 17;
        (at..)
            .take(len)
            .map(|n| (n * 7 + salt + (n >> 8)) as u8)
            .collect()
    }

    fn fill(&self) {
        for card in [0, 1] {
            self.memory[card].write_bytes(0, &self.bytes(card, 0, REGION_BYTES / 2));
        }
    }

    /// A SEND, a WRITE, a READ and a fetch and add, of which none is waited for.
    fn start(&mut self) {
        let (base, rkey) = (self.mrs[1].addr(), self.mrs[1].rkey());
        self.memory[1].write_bytes(60_000, &[0; 8]);
        let target = [self.mrs[1].sge(40_000, 4000)];
        self.qps[1]
            .post_recv(&[RecvWr {
                wr_id: 9,
                sges: &target,
            }])
            .unwrap();
        let local =
            [(0, 3000), (3000, 9000), (40_000, 9000), (60_000, 8)].map(|(at, len)| self.mrs[0].sge(at, len));
        let ops = [
            SendOp::Send,
            SendOp::RdmaWrite {
                remote_addr: base + 50_000,
                rkey,
            },
            SendOp::RdmaRead {
                remote_addr: base + 1000,
                rkey,
            },
            SendOp::AtomicFetchAndAdd {
                remote_addr: base + 60_000,
                rkey,
                add: 1 + u64::from(self.func),
            },
        ];
        for (wr_id, (op, sge)) in (0..).zip(ops.into_iter().zip(&local)) {
            let data = WrData::Sges(std::slice::from_ref(sge));
            self.qps[0]
                .post_send(&[SendWr {
                    wr_id,
                    op,
                    flags: SendFlags::SIGNALED,
                    data,
                }])
                .unwrap();
        }
    }

    /// All of it has been done, and in this function's memory alone.
    fn finish(&self, rig: &Rig) {
        for (card, wanted) in [(1, 9..10), (0, 0..4)] {
            for wr_id in wanted {
                let wc = wait(rig, &self.nodes[card]);
                assert_eq!(
                    (wc.0, wc.1),
                    (WcStatus::Success, wr_id),
                    "function {}, card {card}",
                    self.func
                );
            }
        }
        let found = |card: usize, at: usize, len: usize| {
            let mut bytes = vec![0; len];
            self.memory[card].read_bytes(at, &mut bytes);
            bytes
        };
        assert_eq!(
            found(1, 40_000, 3000),
            self.bytes(0, 0, 3000),
            "SEND of function {}",
            self.func
        );
        assert_eq!(
            found(1, 50_000, 9000),
            self.bytes(0, 3000, 9000),
            "WRITE of function {}",
            self.func
        );
        assert_eq!(
            found(0, 40_000, 9000),
            self.bytes(1, 1000, 9000),
            "READ of function {}",
            self.func
        );
        assert_eq!(
            found(1, 60_000, 8),
            (1 + u64::from(self.func)).to_le_bytes(),
            "atomic of function {}",
            self.func
        );
    }
}

/// Status and wr_id of the next completion.
fn wait(rig: &Rig, node: &Node) -> (WcStatus, u64) {
    let end_ns = rig.now_ns() + LIMIT_NS;
    loop {
        if let Some(wc) = node.poll().unwrap() {
            return (wc.status, wc.wr_id);
        }
        assert!(rig.now_ns() < end_ns, "no completion");
    }
}

/// All functions at once, on both links; then one ends in the midst of its transfers, and the others never notice.
#[test]
fn all_functions_at_once() {
    for link in BOTH_LINKS {
        let mut rig = Rig::new(&config(link, 0)).unwrap();
        let mut clients: Vec<_> = (1..NUM_FUNCS).map(|func| Client::open(&rig, func)).collect();
        clients.iter().for_each(Client::fill);
        clients.iter_mut().for_each(Client::start);
        clients.iter().for_each(|client| client.finish(&rig));
        clients.iter_mut().for_each(Client::start);
        // Its driver resets the function, while its work requests are under way.
        let dying = clients.remove(usize::from(NUM_FUNCS / 2) - 1);
        let func = dying.func;
        drop(dying);
        clients.iter().for_each(|client| client.finish(&rig));
        clients.push(Client::open(&rig, func));
        clients.iter().for_each(Client::fill);
        clients.iter_mut().for_each(Client::start);
        clients.iter().for_each(|client| client.finish(&rig));
        drop(clients);
        rig.check_idle(1_000_000).unwrap();
    }
}

/// KEY-28: with keys and addresses of each other function, nobody reaches a byte.
#[test]
fn keys_of_any_function_are_its_own() {
    let rig = Rig::new(&config(LinkKind::Ethernet, 0)).unwrap();
    let mut funcs = vec![1, 7 % NUM_FUNCS, LAST];
    funcs.dedup();
    let mut clients: Vec<_> = funcs.iter().map(|func| Client::open(&rig, *func)).collect();
    clients.iter().for_each(Client::fill);
    let remote: Vec<_> = clients
        .iter()
        .map(|client| (client.mrs[1].addr(), client.mrs[1].rkey()))
        .collect();
    let n = clients.len();
    for (thief, victim) in (0..n).flat_map(|thief| (0..n).map(move |victim| (thief, victim))) {
        if thief == victim {
            continue;
        }
        let (remote_addr, rkey) = remote[victim];
        let client = &mut clients[thief];
        let mut qps = client
            .nodes
            .each_ref()
            .map(|node| node.create_qp(cap(), false).unwrap());
        connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
        let op = SendOp::RdmaWrite { remote_addr, rkey };
        let data = WrData::Inline(b"stolen");
        qps[0]
            .post_send(&[SendWr {
                wr_id: 1,
                op,
                flags: SendFlags::SIGNALED,
                data,
            }])
            .unwrap();
        let status = wait(&rig, &client.nodes[0]).0;
        assert_eq!(
            status,
            WcStatus::RemAccessErr,
            "function {} with a key of {}",
            funcs[thief],
            funcs[victim]
        );
    }
    for client in &clients {
        let mut found = vec![0; 64];
        client.memory[1].read_bytes(0, &mut found);
        assert_eq!(found, client.bytes(1, 0, 64));
    }
}

/// SEND, WRITE, READ, with immediate, atomics, a window, a shared receive queue, of the last function; its neighbours
/// take all the QPs that they can have first.
#[test]
fn every_operation_by_the_last_function() {
    for link in BOTH_LINKS {
        let mut pair = Pair::new(
            &config(link, LAST),
            &path(Mtu::Bytes1024),
            REGION_BYTES as u64,
            [RIGHTS; 2],
        );
        let greedy = Node::open(pair.rig.neighbour(1, 1), 4096).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| greedy.create_qp(cap(), false).ok()).collect();
        assert_eq!(all.len() as u32, greedy.context.query_device().unwrap().max_qp());
        pair.check_traffic("SEND and WRITE");
        let bytes = pair.expected(1, 8000, 5000);
        pair.expect(0, 20_000, &bytes);
        let (op, sges) = (pair.read_from(1, 8000), [pair.mrs[0].sge(20_000, 5000)]);
        pair.post(0, 1, op, &sges);
        pair.wait_ok(0, 1);
        let word = 40_008 - common::CANARY_BYTES % 8;
        let before = pair.expected(1, word, 8);
        let (remote_addr, rkey) = pair.remote(1, word);
        let value = u64::from_le_bytes(before.clone().try_into().unwrap());
        let sge = [pair.mrs[0].sge(30_000, 8)];
        pair.post(
            0,
            2,
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: 5,
            },
            &sge,
        );
        pair.wait_ok(0, 2);
        let (compare, swap) = (value.wrapping_add(5), 77);
        pair.post(
            0,
            3,
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare,
                swap,
            },
            &sge,
        );
        pair.wait_ok(0, 3);
        pair.expect(0, 30_000, &compare.to_le_bytes());
        pair.expect(1, word, &swap.to_le_bytes());
        pair.check_memory("READ and atomics");
        bind_and_write(&mut pair);
        receive_from_shared(&mut pair);
        drop(all);
    }
}

/// A window of type 2 at the peer, and a WRITE by its key.
fn bind_and_write(pair: &mut Pair) {
    let mw = pair.rig.nodes[1].pd.alloc_mw(MwType::Two).unwrap();
    let rights = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let start = pair.mrs[1].addr() + 50_000;
    let key = next_rkey(mw.rkey());
    let op = mw.bind_op(key, &pair.mrs[1], start, 4000, rights);
    pair.post(1, 4, op, &[]);
    pair.wait_ok(1, 4);
    let bytes = pair.expected(0, 0, 4000);
    pair.expect(1, 50_000, &bytes);
    let (op, sges) = (
        SendOp::RdmaWrite {
            remote_addr: start,
            rkey: key,
        },
        [pair.mrs[0].sge(0, 4000)],
    );
    pair.post(0, 5, op, &sges);
    pair.wait_ok(0, 5);
    pair.check_memory("a window");
}

/// A SEND with immediate to a QP whose receives are a shared queue's.
fn receive_from_shared(pair: &mut Pair) {
    let node = &pair.rig.nodes[1];
    let srq = node.pd.create_srq(8, 1).unwrap();
    let options = QpOptions {
        srq: Some(&srq),
        cap: cap(),
        ..QpOptions::new(&node.cq, &node.cq)
    };
    let receiver = node.pd.create_raw_qp(&options).unwrap();
    let sender = pair.rig.nodes[0].create_qp(cap(), false).unwrap();
    let mut qps = [sender, receiver];
    connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
    let target = [pair.mrs[1].sge(56_000, 3000)];
    srq.post_recv(&[RecvWr {
        wr_id: 6,
        sges: &target,
    }])
    .unwrap();
    let bytes = pair.expected(0, 100, 2500);
    let sges = [pair.mrs[0].sge(100, 2500)];
    let wr = SendWr {
        wr_id: 7,
        op: SendOp::SendWithImm { imm_data: 1 },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    };
    qps[0].post_send(&[wr]).unwrap();
    assert_eq!(wait(&pair.rig, &pair.rig.nodes[1]), (WcStatus::Success, 6));
    assert_eq!(wait(&pair.rig, &pair.rig.nodes[0]), (WcStatus::Success, 7));
    pair.expect(1, 56_000, &bytes);
    pair.check_memory("a shared receive queue");
}
