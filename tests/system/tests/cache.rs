//! More QPs than lines (docs/decisions/0042-qps-share-lines.md): QPs take turns on few lines, nothing is lost or done
//! twice, a QP that rests can be destroyed, and a function resets with QPs that rest.

mod common;

use std::collections::{HashMap, HashSet};

use common::{BASES, BOTH_LINKS, LIMIT_NS, LOCAL_AND_REMOTE, rooms};
use hca_cosim::line_of;
use hca_dev::DmaBuf;
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{Dev, Node, Place, Rig, RigConfig, Rng, connect, path};
use hca_verbs::{
    ConnectOptions, Mr, Mtu, QpCap, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, WcStatus, WrData,
};

/// Of each function; RC has half of them.
const LINES: u32 = 8;
const PART: usize = 1024;
const MOST_PAIRS: usize = 60;

struct Bench {
    rig: Rig,
    bufs: [DmaBuf; 2],
    mrs: [Mr<Dev>; 2],
    pairs: Vec<[RawQp<Dev>; 2]>,
    /// Bytes that must be in each part of node 1's memory.
    expected: HashMap<usize, Vec<u8>>,
    rng: Rng,
    retry_cnt: u8,
}

/// Both links, and both places where QPs rest.
fn everywhere() -> impl Iterator<Item = (LinkKind, bool)> {
    BOTH_LINKS
        .into_iter()
        .flat_map(|link| [(link, true), (link, false)])
}

fn cap() -> QpCap {
    QpCap {
        max_send_wr: 8,
        max_recv_wr: 8,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    }
}

impl Bench {
    /// In `memory` of function 0's, and moved by hardware, or in that of firmware.
    fn new(seed: u64, link: LinkKind, pairs: usize, faults: FaultSpec, memory: bool) -> Self {
        let rig = Rig::new(&RigConfig {
            lines: Some(LINES),
            context_memory: memory,
            faults,
            ..RigConfig::new(seed, link)
        })
        .unwrap();
        let [a, b] = [0, 1].map(|node: usize| {
            let buf = rig.nodes[node].alloc(4 * MOST_PAIRS * PART).unwrap();
            let place = Place::whole(&buf, LOCAL_AND_REMOTE, BASES[node]);
            let mr = rig.nodes[node].register(&buf, place).unwrap();
            (buf, mr)
        });
        let mut rng = Rng::new(seed, "cache");
        for offset in (0..4 * MOST_PAIRS * PART).step_by(8) {
            a.0.write_bytes(offset, &rng.bytes(8));
        }
        let mut bench = Self {
            rig,
            bufs: [a.0, b.0],
            mrs: [a.1, b.1],
            pairs: Vec::new(),
            expected: HashMap::new(),
            rng,
            retry_cnt: 7,
        };
        for _ in 0..pairs {
            bench.add_pair();
        }
        bench
    }

    fn add_pair(&mut self) {
        let nodes = &self.rig.nodes;
        let mut qps = [0, 1].map(|node: usize| nodes[node].create_qp(cap(), false).unwrap());
        let options = ConnectOptions {
            timeout: 10,
            retry_cnt: self.retry_cnt,
            ..path(Mtu::Bytes1024)
        };
        connect(&mut qps, &options).unwrap();
        self.pairs.push(qps);
    }

    /// From part `from` of node 0 to part `to` of node 1.
    fn write(&mut self, pair: usize, from: usize, to: usize) {
        let op = SendOp::RdmaWrite {
            remote_addr: self.mrs[1].addr() + (to * PART) as u64,
            rkey: self.mrs[1].rkey(),
        };
        self.post(pair, from, to, op);
    }

    /// From part `part` of node 1 to that of node 0.
    fn read(&mut self, pair: usize, part: usize) {
        let op = SendOp::RdmaRead {
            remote_addr: self.mrs[1].addr() + (part * PART) as u64,
            rkey: self.mrs[1].rkey(),
        };
        let bytes = self.expected[&part].clone();
        self.post(pair, part, part, op);
        self.expected.insert(part, bytes);
    }

    fn send(&mut self, pair: usize, from: usize, to: usize) {
        let sges = [self.mrs[1].sge((to * PART) as u64, PART as u32)];
        let wr = RecvWr {
            wr_id: to as u64,
            sges: &sges,
        };
        self.pairs[pair][1].post_recv(&[wr]).unwrap();
        self.post(pair, from, to, SendOp::Send);
    }

    fn post(&mut self, pair: usize, from: usize, to: usize, op: SendOp) {
        let sges = [self.mrs[0].sge((from * PART) as u64, PART as u32)];
        let wr = SendWr {
            wr_id: to as u64,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        };
        self.pairs[pair][0].post_send(&[wr]).unwrap();
        let mut bytes = vec![0; PART];
        self.bufs[0].read_bytes(from * PART, &mut bytes);
        self.expected.insert(to, bytes);
    }

    /// So many completions at a node, each once, all successful.
    fn completions(&mut self, node: usize, count: usize) {
        let end_ns = self.rig.now_ns() + 20 * LIMIT_NS;
        let mut seen: HashMap<(u32, u64), usize> = HashMap::new();
        for done in 0..count {
            let wc = loop {
                if let Some(wc) = self.rig.nodes[node].poll().unwrap() {
                    break wc;
                }
                assert!(
                    self.rig.now_ns() < end_ns,
                    "node {node}: {done} of {count} completions"
                );
            };
            assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
            *seen.entry((wc.qp_num, wc.wr_id)).or_default() += 1;
        }
        assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    }

    fn check_memory(&self, node: usize) {
        for (part, bytes) in &self.expected {
            let mut found = vec![0; PART];
            self.bufs[node].read_bytes(part * PART, &mut found);
            assert!(found == *bytes, "part {part}");
        }
    }

    /// Every QP one WRITE and one SEND, in any order, all at once.
    fn round(&mut self, number: usize) {
        let pairs = self.pairs.len();
        let mut order: Vec<_> = (0..pairs).collect();
        for at in (1..pairs).rev() {
            order.swap(at, self.rng.below(at as u32 + 1) as usize);
        }
        for pair in order {
            let from = self.rng.below(4 * pairs as u32) as usize;
            self.write(pair, from, 4 * pair + 2 * (number % 2));
            self.send(pair, (from + 1) % (4 * pairs), 4 * pair + 2 * (number % 2) + 1);
        }
        self.completions(0, 2 * pairs);
        self.completions(1, pairs);
        self.check_memory(1);
    }
}

/// Sixteen QPs of each card on four lines.
#[test]
fn qps_take_turns_on_few_lines() {
    for (link, memory) in everywhere() {
        let mut bench = Bench::new(1, link, 16, FaultSpec::default(), memory);
        (0..2).for_each(|number| bench.round(number));
    }
}

/// Bursts of all QPs at once: the packets that miss cost each QP one retry of its two, however many they are.
#[test]
fn bursts_take_turns() {
    const PAIRS: usize = 12;
    for link in BOTH_LINKS {
        let mut bench = Bench::new(7, link, 0, FaultSpec::default(), true);
        bench.retry_cnt = 2;
        (0..PAIRS).for_each(|_| bench.add_pair());
        for pair in 0..PAIRS {
            (0..4).for_each(|part| bench.write(pair, part, 4 * pair + part));
        }
        bench.completions(0, 4 * PAIRS);
        bench.check_memory(1);
        for pair in 0..PAIRS {
            (0..4).for_each(|part| bench.read(pair, 4 * pair + part));
        }
        bench.completions(0, 4 * PAIRS);
        bench.check_memory(0);
    }
}

/// WRITEs of QPs that have not their lines wait in the receive buffer until they have: nothing is sent again, so that
/// not even a QP without a retry fails (decision 0084).
#[test]
fn cold_packets_wait() {
    const PAIRS: usize = 14;
    const ROUNDS: usize = 6;
    for link in BOTH_LINKS {
        let mut bench = Bench::new(9, link, 0, FaultSpec::default(), true);
        bench.retry_cnt = 0;
        (0..PAIRS).for_each(|_| bench.add_pair());
        for number in 0..ROUNDS {
            for pair in 0..PAIRS {
                let from = bench.rng.below(4 * PAIRS as u32) as usize;
                bench.write(pair, from, 4 * pair + number % 4);
            }
            bench.completions(0, PAIRS);
            bench.check_memory(1);
        }
    }
}

/// QPs that have something to do at every moment leave their lines to each other: who has one gets no doorbells when
/// another QP waits, so nobody has to be driven out of it by firmware after 200 us (decision 0082).
#[test]
fn busy_qps_take_turns() {
    const PAIRS: usize = 12;
    const EACH: usize = 24;
    for link in BOTH_LINKS {
        let mut bench = Bench::new(8, link, PAIRS, FaultSpec::default(), true);
        let pairs: HashMap<_, _> = bench.pairs.iter().map(|qps| qps[0].qp_num()).zip(0..).collect();
        (0..PAIRS).for_each(|pair| bench.write(pair, pair, 4 * pair));
        let mut left = [EACH - 1; PAIRS];
        let mut newest_ns = [bench.rig.now_ns(); PAIRS];
        let mut longest_ns = 0;
        for done in 0..PAIRS * EACH {
            let wc = loop {
                if let Some(wc) = bench.rig.nodes[0].poll().unwrap() {
                    break wc;
                }
                let now_ns = bench.rig.now_ns();
                assert!(
                    newest_ns.iter().any(|at| now_ns < at + LIMIT_NS),
                    "{done} completions"
                );
            };
            assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
            let pair = pairs[&wc.qp_num];
            longest_ns = longest_ns.max(bench.rig.now_ns() - newest_ns[pair]);
            newest_ns[pair] = bench.rig.now_ns();
            if left[pair] > 0 {
                left[pair] -= 1;
                bench.write(pair, pair, 4 * pair + left[pair] % 4);
            }
        }
        bench.check_memory(1);
        assert!(
            longest_ns < 200_000,
            "{longest_ns} ns between two completions of a QP"
        );
    }
}

/// Sixty QPs of each card, and a cable that loses, damages, doubles and disorders.
#[test]
#[ignore = "long: make soak"]
fn soak_all_take_turns_over_a_bad_cable() {
    for (link, memory) in everywhere() {
        let mut bench = Bench::new(2, link, 60, rooms::bad_cable(), memory);
        (0..4).for_each(|number| bench.round(number));
    }
}

/// A QP that rests, one that waits for its line, and one whose line is being taken can be destroyed; the others go on,
/// and their numbers are given out again.
#[test]
fn resting_qps_are_destroyed() {
    [true, false].into_iter().for_each(destroy_resting_qps);
}

fn destroy_resting_qps(memory: bool) {
    let mut bench = Bench::new(3, LinkKind::Ethernet, 12, FaultSpec::default(), memory);
    for pair in 0..12 {
        bench.write(pair, pair, 4 * pair);
    }
    // Amid the misses of them all.
    for pair in bench.pairs.drain(6..) {
        for mut qp in pair {
            qp.destroy().unwrap();
        }
    }
    (6..12).for_each(|pair| assert!(bench.expected.remove(&(4 * pair)).is_some()));
    let end_ns = bench.rig.now_ns() + LIMIT_NS;
    let living: Vec<_> = bench.pairs.iter().map(|pair| pair[0].qp_num()).collect();
    let mut done = 0;
    while done < living.len() {
        if let Some(wc) = bench.rig.nodes[0].poll().unwrap() {
            assert!(living.contains(&wc.qp_num) == (wc.status == WcStatus::Success) || wc.wr_id >= 24);
            done += usize::from(living.contains(&wc.qp_num));
        }
        assert!(
            bench.rig.now_ns() < end_ns,
            "{done} of {} completions",
            living.len()
        );
    }
    bench.check_memory(1);
    (0..6).for_each(|_| bench.add_pair());
    bench.round(1);
}

/// Function 1 of both cards: QPs of each, and memory that they share.
struct Beside {
    nodes: [Node; 2],
    bufs: [DmaBuf; 2],
    mrs: [Mr<Dev>; 2],
    pairs: Vec<[RawQp<Dev>; 2]>,
}

impl Beside {
    fn new(rig: &Rig, pairs: usize) -> Self {
        let nodes =
            [0, 1].map(|card: usize| Node::open(rig.sim.device(rig.cards[card], 1).unwrap(), 64).unwrap());
        let [a, b] = [0, 1].map(|card: usize| {
            let buf = nodes[card].alloc(pairs * PART).unwrap();
            (0..pairs)
                .for_each(|part| buf.write_bytes(part * PART, &[part as u8 + 1 + 100 * card as u8; PART]));
            let mr = nodes[card]
                .register(&buf, Place::whole(&buf, LOCAL_AND_REMOTE, BASES[card]))
                .unwrap();
            (buf, mr)
        });
        let pairs = (0..pairs).map(|_| {
            let mut qps = [0, 1].map(|card: usize| nodes[card].create_qp(cap(), false).unwrap());
            connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            qps
        });
        let pairs = pairs.collect();
        Self {
            nodes,
            bufs: [a.0, b.0],
            mrs: [a.1, b.1],
            pairs,
        }
    }

    /// Every QP of card 0 a WRITE, all at once.
    fn post(&mut self) {
        for (part, pair) in self.pairs.iter_mut().enumerate() {
            let sges = [self.mrs[0].sge((part * PART) as u64, PART as u32)];
            let op = SendOp::RdmaWrite {
                remote_addr: self.mrs[1].addr() + (part * PART) as u64,
                rkey: self.mrs[1].rkey(),
            };
            let wr = SendWr {
                wr_id: part as u64,
                op,
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&sges),
            };
            pair[0].post_send(&[wr]).unwrap();
        }
    }

    fn wait(&self, rig: &Rig) {
        let end_ns = rig.now_ns() + LIMIT_NS;
        let mut parts = HashSet::new();
        while parts.len() < self.pairs.len() {
            if let Some(wc) = self.nodes[0].poll().unwrap() {
                assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
                assert!(parts.insert(wc.wr_id), "{wc:?} came twice");
            }
            assert!(rig.now_ns() < end_ns, "{} of {}", parts.len(), self.pairs.len());
        }
        for part in 0..self.pairs.len() {
            let mut found = [0; PART];
            self.bufs[1].read_bytes(part * PART, &mut found);
            assert!(found == [part as u8 + 1; PART], "part {part}");
        }
    }
}

/// The processes at both ends die amid the misses of their QPs, and leave their functions as they were: the next ones
/// find all lines and all numbers free, and QPs of another function never notice (design.md 9.2, quotas).
#[test]
fn a_function_is_reset_amid_misses() {
    const PAIRS: usize = 12;
    for (link, memory) in everywhere() {
        let mut bench = Bench::new(5, link, 6, FaultSpec::default(), memory);
        let mut turn = 0;
        for run_cycles in [3_000, 20_000] {
            let mut dies = Beside::new(&bench.rig, PAIRS);
            dies.post();
            bench.rig.run(run_cycles);
            // Nobody takes anything back: the next one to open the function resets it.
            std::mem::forget(dies);
            bench.round(turn);
            turn += 1;
            let mut next = Beside::new(&bench.rig, PAIRS);
            next.post();
            bench.round(turn);
            turn += 1;
            next.wait(&bench.rig);
        }
    }
}

/// A function has no more QPs than it says, and the last of them works as the first.
#[test]
fn the_limit_is_the_truth() {
    let rig = Rig::new(&RigConfig {
        lines: Some(LINES),
        ..RigConfig::new(4, LinkKind::Ethernet)
    })
    .unwrap();
    let node = &rig.nodes[0];
    let max_qp = node.context.function().query_device().unwrap().max_qp();
    let made: Vec<_> = std::iter::from_fn(|| node.create_qp(cap(), false).ok()).collect();
    let own = LINES / 2 - 2;
    assert_eq!(made.len() as u32, max_qp - own, "all but those that may not rest");
    let numbers: HashSet<_> = made.iter().map(RawQp::qp_num).collect();
    assert_eq!(numbers.len(), made.len());
    let lines: HashSet<_> = numbers.iter().map(|qpn| line_of(*qpn)).collect();
    assert_eq!(lines.len() as u32, LINES / 2, "{lines:?}");
}

/// Function 0 of one card is opened anew, and its memory is gone with what rested there: QPs of function 1 that have
/// their lines go on, the others are in ERR and can be destroyed, and new ones work, kept by firmware (decision 0082).
#[test]
fn what_rests_is_lost_with_function_0() {
    const PAIRS: usize = 12;
    let rig = Rig::new(&RigConfig {
        lines: Some(LINES),
        ..RigConfig::new(6, LinkKind::Ethernet)
    })
    .unwrap();
    let mut beside = Beside::new(&rig, PAIRS);
    beside.post();
    beside.wait(&rig);
    let _again = Node::open(rig.sim.device(rig.cards[0], 0).unwrap(), 64).unwrap();
    let mut alive = 0;
    for pair in &mut beside.pairs {
        let state = pair[0].query().unwrap().qp_state;
        assert!(matches!(state, QpState::Rts | QpState::Err), "{state:?}");
        alive += usize::from(state == QpState::Rts);
    }
    assert_eq!(alive, LINES as usize / 2, "a QP in each line");
    for pair in beside.pairs.drain(..) {
        for mut qp in pair {
            qp.destroy().unwrap();
        }
    }
    for _ in 0..PAIRS {
        let mut qps = [0, 1].map(|card: usize| beside.nodes[card].create_qp(cap(), false).unwrap());
        connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
        beside.pairs.push(qps);
    }
    beside.post();
    beside.wait(&rig);
}
