//! Atomic operations on RC (V-166, OP-10, OP-13, REL-19): results, order, exactly once, rights.

mod common;

use common::forge::{self, Forged};
use common::words::{Storm, Words};
use common::{
    ALL_MTUS, BASES, BOTH_LINKS, CANARY_BYTES, LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap, on_bad_wires,
};
use hca_abi::AtomicCap;
use hca_host::PcieParams;
use hca_link::LinkKind;
use hca_system_tests::{Node, Place, RigConfig, Rng, connect, path};
use hca_verbs::{
    Access, ConnectOptions, Mtu, PostError, QpState, SendFlags, SendOp, SendWr, Service, Sge, WcOpcode,
    WcStatus, WrData,
};
use hca_wire::{ExtHeaders, Opcode, atomic_eth};

const ALL_RIGHTS: Access = Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits());
const REGION_BYTES: u64 = 64 << 10;
/// Where the words are that atomics change: a multiple of 8 in memory, though the region is none.
const WORDS: u64 = (32 << 10) + 8 - CANARY_BYTES % 8;

fn pair_on(config: &RigConfig, options: &ConnectOptions) -> Pair {
    Pair::new(config, options, REGION_BYTES, [ALL_RIGHTS; 2])
}

fn pair(seed: u64, kind: LinkKind) -> Pair {
    pair_on(&RigConfig::new(seed, kind), &path(Mtu::Bytes1024))
}

fn fetch_add(pair: &Pair, node: usize, offset: u64, add: u64) -> SendOp {
    let (remote_addr, rkey) = pair.remote(node, offset);
    SendOp::AtomicFetchAndAdd {
        remote_addr,
        rkey,
        add,
    }
}

fn cmp_swap(pair: &Pair, node: usize, offset: u64, compare: u64, swap: u64) -> SendOp {
    let (remote_addr, rkey) = pair.remote(node, offset);
    SendOp::AtomicCmpAndSwp {
        remote_addr,
        rkey,
        compare,
        swap,
    }
}

/// The word of a node's memory as it must be.
fn word(pair: &Pair, node: usize, offset: u64) -> u64 {
    u64::from_le_bytes(pair.expected(node, offset, 8).try_into().unwrap())
}

/// The words are native ones at both ends; a result goes to any 8 bytes; what an operation does not touch stays.
#[test]
fn results_and_memory() {
    for kind in BOTH_LINKS {
        for (mtu, _) in ALL_MTUS {
            let mut pair = pair_on(&RigConfig::new(51, kind), &path(mtu));
            for (n, result_at) in [0u64, 3, 60, 61, 4089, 8192].into_iter().enumerate() {
                let from = n % 2;
                let at = WORDS + 8 * n as u64 * 9;
                let before = word(&pair, 1 - from, at);
                let (op, after, opcode) = match n % 3 {
                    0 => {
                        let add = 0xffff_ffff_0000_0001;
                        let op = fetch_add(&pair, 1 - from, at, add);
                        (op, before.wrapping_add(add), WcOpcode::FetchAdd)
                    }
                    1 => {
                        let op = cmp_swap(&pair, 1 - from, at, before, 0x0102_0304_0506_0708);
                        (op, 0x0102_0304_0506_0708, WcOpcode::CompSwap)
                    }
                    _ => {
                        let op = cmp_swap(&pair, 1 - from, at, before ^ 1 << 63, 7);
                        (op, before, WcOpcode::CompSwap)
                    }
                };
                let sge = [pair.mrs[from].sge(result_at, 8)];
                pair.expect(1 - from, at, &after.to_le_bytes());
                pair.expect(from, result_at, &before.to_le_bytes());
                pair.post(from, n as u64, op, &sge);
                let wc = pair.wait_ok(from, n as u64);
                assert_eq!((wc.opcode, wc.byte_len), (opcode, 8));
                pair.check_memory(&format!("{kind:?} {mtu:?} {n}"));
            }
            pair.check_traffic("after them");
        }
    }
}

/// OP-10: atomic with all others of the card, whoever they come from: one hot word from many QPs of two functions and
/// from the card itself, and many words in few lines.
#[test]
fn atomic_against_all_others() {
    for kind in BOTH_LINKS {
        for words in [1, 2, 40] {
            let storm = Storm {
                clients: 12,
                atomics: 60,
                words,
                functions: 2,
                loops: true,
            };
            let mut words = Words::new(&RigConfig::new(52, kind), &path(Mtu::Bytes1024), storm);
            words.run();
            words.check();
        }
    }
}

/// REL-19: whatever the wire does, each is done once, and its answer is the one that it had.
#[test]
fn exactly_once() {
    on_bad_wires(60, |config, options, _| {
        let storm = Storm {
            clients: 6,
            atomics: 80,
            words: 5,
            functions: 2,
            loops: false,
        };
        let mut words = Words::new(&config, &options, storm);
        words.run();
        words.check();
    });
}

/// What is written, swapped and added at a word by one QP happens in the order in which it was posted, without a fence;
/// a SEND's receive completes when all before it is in memory, and a READ sees it.
#[test]
fn in_the_order_of_the_queue() {
    for kind in BOTH_LINKS {
        for pcie in hosts() {
            let config = RigConfig {
                pcie,
                ..RigConfig::new(53, kind)
            };
            let mut pair = pair_on(&config, &path(Mtu::Bytes1024));
            let mut rng = Rng::new(53, "order");
            for round in 0..12 {
                one_round(&mut pair, &mut rng, round);
            }
            pair.check_memory(&format!("{kind:?}"));
        }
    }
}

/// Slow to answer, slow to take, and one that stands still now and then.
fn hosts() -> [PcieParams; 4] {
    let stalled = PcieParams {
        stall_ns: 20_000,
        stall_every_ns: 50_000,
        ..PcieParams::default()
    };
    let of = |bandwidth_mbps, read_latency_ns| PcieParams {
        bandwidth_mbps,
        read_latency_ns,
        ..PcieParams::default()
    };
    [PcieParams::default(), of(16_000, 4_000), of(400, 1_000), stalled]
}

fn one_round(pair: &mut Pair, rng: &mut Rng, round: u64) {
    let at = WORDS + 8 * u64::from(rng.below(3));
    let results = 8 * 1024;
    let mut posted = Vec::new();
    for wr_id in 0..10u64 {
        let landing = results + 8 * wr_id;
        let before = word(pair, 1, at);
        let (op, sge) = match rng.below(3) {
            0 => {
                let source = 256 * wr_id + 8 * round;
                let bytes = pair.expected(0, source, 8);
                pair.expect(1, at, &bytes);
                (pair.write_to(1, at), pair.mrs[0].sge(source, 8))
            }
            1 => {
                pair.expect(1, at, &before.wrapping_add(wr_id << 20).to_le_bytes());
                pair.expect(0, landing, &before.to_le_bytes());
                (fetch_add(pair, 1, at, wr_id << 20), pair.mrs[0].sge(landing, 8))
            }
            _ => {
                let hits = rng.below(2) == 1;
                if hits {
                    pair.expect(1, at, &(before ^ wr_id << 50).to_le_bytes());
                }
                pair.expect(0, landing, &before.to_le_bytes());
                let compare = if hits { before } else { !before };
                let op = cmp_swap(pair, 1, at, compare, before ^ wr_id << 50);
                (op, pair.mrs[0].sge(landing, 8))
            }
        };
        pair.post(0, wr_id, op, &[sge]);
        posted.push(wr_id);
    }
    let (landing, source) = ([pair.mrs[1].sge(0, 8)], [pair.mrs[0].sge(0, 8)]);
    let bytes = pair.expected(0, 0, 8);
    pair.expect(1, 0, &bytes);
    let now = word(pair, 1, at);
    pair.expect(0, 16 * 1024, &now.to_le_bytes());
    pair.recv(1, 99, &landing);
    pair.post(0, 10, pair.read_from(1, at), &[pair.mrs[0].sge(16 * 1024, 8)]);
    pair.post(0, 11, SendOp::Send, &source);
    pair.wait_ok(1, 99);
    // The card of the responder has written it all when its program hears of the SEND.
    assert!(pair.memory[1].holds(CANARY_BYTES + at, 8), "round {round}");
    for wr_id in posted.into_iter().chain([10, 11]) {
        pair.wait_ok(0, wr_id);
    }
}

/// OP-13: a fenced SEND carries the result that an atomic before it has brought.
#[test]
fn a_fence_waits_for_the_result() {
    for kind in BOTH_LINKS {
        let mut pair = pair(54, kind);
        for n in 0..20 {
            let before = word(&pair, 1, WORDS);
            pair.expect(1, WORDS, &before.wrapping_add(3).to_le_bytes());
            pair.expect(0, 64, &before.to_le_bytes());
            pair.expect(1, 128, &before.to_le_bytes());
            let result = [pair.mrs[0].sge(64, 8)];
            pair.recv(1, 2, &[pair.mrs[1].sge(128, 8)]);
            pair.post(0, 1, fetch_add(&pair, 1, WORDS, 3), &result);
            let flags = SendFlags {
                fence: true,
                ..SendFlags::SIGNALED
            };
            pair.post_with(0, 2, SendOp::Send, flags, WrData::Sges(&result));
            pair.wait_ok(0, 1);
            pair.wait_ok(0, 2);
            pair.wait_ok(1, 2);
            pair.check_memory(&format!("{kind:?} {n}"));
        }
    }
}

/// KEY-31, MEM-7, REL-13, ACC-4: what an atomic is refused for, by what status; memory stays, and the peer's QP fails.
#[test]
fn refused() {
    use WcStatus::{RemAccessErr, RemInvReqErr};
    for kind in BOTH_LINKS {
        let cases: [(&str, WcStatus); 8] = [
            ("key", RemAccessErr),
            ("behind the end", RemAccessErr),
            ("before the start", RemAccessErr),
            ("misaligned", RemInvReqErr),
            ("right of the region", RemAccessErr),
            ("right of the QP", RemAccessErr),
            ("a key that is gone", RemAccessErr),
            ("another domain", RemAccessErr),
        ];
        for (case, status) in cases {
            for swaps in [false, true] {
                refuse(kind, case, status, swaps);
            }
        }
    }
}

fn refuse(kind: LinkKind, case: &str, status: WcStatus, swaps: bool) {
    let without = LOCAL_AND_REMOTE;
    let access = if case == "right of the region" {
        without
    } else {
        ALL_RIGHTS
    };
    let options = ConnectOptions {
        access: if case == "right of the QP" {
            without
        } else {
            ALL_RIGHTS
        },
        ..path(Mtu::Bytes1024)
    };
    let mut pair = Pair::new(
        &RigConfig::new(55, kind),
        &options,
        REGION_BYTES,
        [ALL_RIGHTS, access],
    );
    let (mut remote_addr, mut rkey) = pair.remote(1, WORDS);
    match case {
        "key" => rkey ^= 1,
        // Multiples of 8 in the peer's eyes: the region begins and ends in the midst of one.
        "behind the end" => remote_addr = (pair.mrs[1].addr() + REGION_BYTES) & !7,
        "before the start" => remote_addr = pair.mrs[1].addr() & !7,
        "misaligned" => remote_addr += 4,
        "a key that is gone" => pair.mrs[1].destroy().unwrap(),
        "another domain" => {
            let pd = pair.rig.nodes[1].context.alloc_pd().unwrap();
            pair.mrs[1].modify(&pd, ALL_RIGHTS).unwrap();
            std::mem::forget(pd);
        }
        _ => {}
    }
    let op = if swaps {
        SendOp::AtomicCmpAndSwp {
            remote_addr,
            rkey,
            compare: word(&pair, 1, WORDS),
            swap: 1,
        }
    } else {
        SendOp::AtomicFetchAndAdd {
            remote_addr,
            rkey,
            add: 1,
        }
    };
    let result = [pair.mrs[0].sge(0, 8)];
    pair.post(0, 1, op, &result);
    let wc = pair.wait(0);
    assert_eq!((wc.wr_id, wc.status), (1, status), "{kind:?} {case}");
    pair.rig.run(20_000);
    pair.check_memory(case);
    assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Err, "{case}");
}

/// MEM-8, V-166, V-179: what no card need see.
#[test]
fn refused_when_posted_or_registered() {
    let mut pair = pair(56, LinkKind::Ethernet);
    let op = fetch_add(&pair, 1, WORDS, 1);
    let good = pair.mrs[0].sge(0, 8);
    let short = Sge { length: 4, ..good };
    let long = Sge { length: 16, ..good };
    let lists: [&[Sge]; 4] = [&[short], &[long], &[], &[good, good]];
    let post = |pair: &mut Pair, data| {
        let wr = SendWr {
            wr_id: 1,
            op,
            flags: SendFlags::SIGNALED,
            data,
        };
        pair.qps[0].post_send(&[wr]).map_err(|bad| bad.error)
    };
    for list in lists {
        assert_eq!(post(&mut pair, WrData::Sges(list)), Err(PostError::BadAtomic));
    }
    assert_eq!(
        post(&mut pair, WrData::Inline(&[0; 8])),
        Err(PostError::InlineNotAllowed)
    );
    let options = path(Mtu::Bytes1024);
    let [mut uc, _peer] = pair
        .rig
        .connect_as(Service::Uc, [cap(); 2], [false; 2], &options)
        .unwrap();
    let wr = SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[good]),
    };
    let opcode = op.opcode();
    assert_eq!(
        uc.post_send(&[wr]).unwrap_err().error,
        PostError::NotForUnreliable { opcode }
    );
    let node = &pair.rig.nodes[0];
    let buf = node.alloc(64).unwrap();
    for access in [Access::REMOTE_ATOMIC, Access::REMOTE_ATOMIC | Access::REMOTE_READ] {
        assert!(node.register(&buf, Place::whole(&buf, access, BASES[0])).is_err());
    }
    assert_eq!(
        node.context.query_device().unwrap().atomic_cap(),
        AtomicCap::Hca as u8
    );
    pair.check_traffic("after refusals");
}

/// KEY-31: a key of another function, and one of its own that lets nobody in, change no word.
#[test]
fn a_neighbour_reaches_nothing() {
    for kind in BOTH_LINKS {
        let mut pair = pair(57, kind);
        let node = |pair: &Pair, card: usize| {
            Node::open(pair.rig.sim.device(pair.rig.cards[card], 1).unwrap(), 64).unwrap()
        };
        let hostile = [0, 1].map(|card| node(&pair, card));
        let (remote_addr, rkey) = pair.remote(1, WORDS);
        let buf = hostile[0].alloc(64).unwrap();
        let mr = hostile[0]
            .register(&buf, Place::whole(&buf, ALL_RIGHTS, BASES[0]))
            .unwrap();
        for rkey in [rkey, rkey ^ 1 << 28, rkey & 0xff | 1 << 28] {
            let mut qps = [0, 1].map(|at: usize| hostile[at].create_qp(cap(), false).unwrap());
            connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            let wr = SendWr {
                wr_id: 1,
                op: SendOp::AtomicFetchAndAdd {
                    remote_addr,
                    rkey,
                    add: 1,
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[mr.sge(0, 8)]),
            };
            qps[0].post_send(&[wr]).unwrap();
            let end_ns = pair.rig.now_ns() + LIMIT_NS;
            let wc = loop {
                if let Some(wc) = hostile[0].poll().unwrap() {
                    break wc;
                }
                assert!(pair.rig.now_ns() < end_ns);
            };
            assert_eq!(wc.status, WcStatus::RemAccessErr, "{rkey:#x}");
        }
        pair.check_memory("a neighbour");
        pair.check_traffic("beside a neighbour");
    }
}

/// Both ends at one card: what a port sends to itself.
#[test]
fn looped_back() {
    for kind in BOTH_LINKS {
        let pair = pair(58, kind);
        let node = &pair.rig.nodes[0];
        let mut qps = [0, 1].map(|_| node.create_qp(cap(), false).unwrap());
        connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
        let mut pair = pair;
        std::mem::swap(&mut pair.qps, &mut qps);
        for n in 0..10u64 {
            let at = WORDS + 8 * n;
            let before = word(&pair, 0, at);
            pair.expect(0, at, &n.to_le_bytes());
            pair.expect(0, 64 + 8 * n, &before.to_le_bytes());
            let op = cmp_swap(&pair, 0, at, before, n);
            pair.post(0, n, op, &[pair.mrs[0].sge(64 + 8 * n, 8)]);
            pair.wait_ok(0, n);
        }
        pair.check_memory("looped back");
    }
}

/// REL-19: a request that comes again, from whoever: what was done stays done, and is answered as before, as long as it
/// may be asked for; what is older is nobody's.
#[test]
fn requests_that_come_again() {
    for kind in BOTH_LINKS {
        let mut pair = pair(59, kind);
        let (va, rkey) = pair.remote(1, WORDS);
        let start = word(&pair, 1, WORDS);
        for n in 0..20u64 {
            pair.expect(1, WORDS, &(start + n + 1).to_le_bytes());
            pair.expect(0, 0, &(start + n).to_le_bytes());
            pair.post(0, n, fetch_add(&pair, 1, WORDS, 1), &[pair.mrs[0].sge(0, 8)]);
            pair.wait_ok(0, n);
        }
        let dest_qp = pair.qps[1].qp_num();
        let mut again = |opcode, psn: u32, swap_add| {
            let ext = ExtHeaders {
                atomic_eth: Some(atomic_eth::Repr {
                    va,
                    rkey,
                    swap_add,
                    compare: start + 20,
                }),
                ..ExtHeaders::default()
            };
            let packet = Forged {
                link: forge::link(0, kind),
                opcode,
                dest_qp,
                psn,
                pkey: 0xffff,
                ext,
                payload: &[],
            };
            forge::send(&mut pair.rig, 0, &packet);
            pair.rig.run(3_000);
        };
        // The oldest ones, the newest ones, with other words in them, too: they are not looked at.
        for psn in [0, 3, 4, 19, 10, 19] {
            again(Opcode::RcFetchAdd, psn, 1);
            again(Opcode::RcCmpSwap, psn, 77);
        }
        pair.check_memory("again");
        pair.check_traffic("after packets by hand");
    }
}

/// Decision D6: the same cycles with every part of the cards evaluated in every cycle, and whatever stood in registers
/// before reset.
#[test]
fn the_same_seed_gives_the_same_cycles() {
    let run = |jumps: bool, registers: u64| {
        let config = RigConfig {
            faults: "loss=0.02,dup=0.02".parse().unwrap(),
            registers,
            ..RigConfig::new(66, LinkKind::Ethernet)
        };
        let storm = Storm {
            clients: 6,
            atomics: 30,
            words: 4,
            functions: 2,
            loops: true,
        };
        let mut words = Words::new(&config, &path(Mtu::Bytes1024), storm);
        words.rig.hash_traces();
        words.rig.set_jumps(jumps);
        words.run();
        words.check();
        (words.rig.trace_hash(), words.rig.now_cycles())
    };
    let usual = run(true, 0);
    assert_ne!(usual.0, 0);
    assert_eq!(usual, run(false, 0));
    assert_eq!(usual, run(true, 1));
}
