//! Masked atomics (OP-8, OP-9; decision 0075) between two of our cards: bits and fields, once, beside all others.

mod common;

use common::forge::{self, Forged};
use common::{ALL_MTUS, BOTH_LINKS, CANARY_BYTES, LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap, on_bad_wires};
use hca_abi::AtomicCap;
use hca_link::LinkKind;
use hca_model::Atomic;
use hca_system_tests::{Dev, RigConfig, Rng, path};
use hca_verbs::{
    Access, ConnectOptions, Mtu, PostError, QpCap, QpState, RawQp, SendFlags, SendOp, SendWr, Service,
    WcOpcode, WcStatus, WrData,
};
use hca_wire::{ExtHeaders, Opcode, atomic_eth};

const ALL_RIGHTS: Access = Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits());
const REGION_BYTES: u64 = 64 << 10;
/// Where the words are: a multiple of 8 in memory, though the region is none.
const WORDS: u64 = (32 << 10) + 8 - CANARY_BYTES % 8;
/// Where results go that are read one by one.
const RESULTS: u64 = 8 - CANARY_BYTES % 8;
/// The most significant bit of each byte.
const BYTES: u64 = 0x8080_8080_8080_8080;
const PATTERNS: [u64; 10] = [
    0,
    u64::MAX,
    1,
    1 << 63,
    1 << 31,
    0xff,
    0xffff_0000,
    0x7fff_ffff_ffff_ffff,
    BYTES,
    0x5555_5555_5555_5555,
];

fn pair_on(config: &RigConfig, options: &ConnectOptions) -> Pair {
    Pair::new(config, options, REGION_BYTES, [ALL_RIGHTS; 2])
}

fn pair(seed: u64, kind: LinkKind) -> Pair {
    pair_on(&RigConfig::new(seed, kind), &path(Mtu::Bytes1024))
}

fn op_at(atomic: Atomic, (remote_addr, rkey): (u64, u32)) -> SendOp {
    match atomic {
        Atomic::CompareSwap { compare, swap } => SendOp::AtomicCmpAndSwp {
            remote_addr,
            rkey,
            compare,
            swap,
        },
        Atomic::FetchAdd { add } => SendOp::AtomicFetchAndAdd {
            remote_addr,
            rkey,
            add,
        },
        Atomic::MaskedCompareSwap {
            compare,
            swap,
            compare_mask,
            swap_mask,
        } => SendOp::MaskedAtomicCmpAndSwp {
            remote_addr,
            rkey,
            compare,
            swap,
            compare_mask,
            swap_mask,
        },
        Atomic::MaskedFetchAdd { add, boundaries } => SendOp::MaskedAtomicFetchAndAdd {
            remote_addr,
            rkey,
            add,
            boundaries,
        },
    }
}

fn opcode_of(atomic: Atomic) -> WcOpcode {
    match atomic {
        Atomic::CompareSwap { .. } => WcOpcode::CompSwap,
        Atomic::FetchAdd { .. } => WcOpcode::FetchAdd,
        Atomic::MaskedCompareSwap { .. } => WcOpcode::MaskedCompSwap,
        Atomic::MaskedFetchAdd { .. } => WcOpcode::MaskedFetchAdd,
    }
}

/// The word of a node's memory as it must be.
fn word(pair: &Pair, node: usize, offset: u64) -> u64 {
    u64::from_le_bytes(pair.expected(node, offset, 8).try_into().unwrap())
}

/// Posts one at a word of the peer, and says what must come of it.
fn post(pair: &mut Pair, from: usize, wr_id: u64, atomic: Atomic, at: u64, result: u64) {
    let before = word(pair, 1 - from, at);
    pair.expect(1 - from, at, &atomic.apply(before).to_le_bytes());
    pair.expect(from, result, &before.to_le_bytes());
    let op = op_at(atomic, pair.remote(1 - from, at));
    pair.post(from, wr_id, op, &[pair.mrs[from].sge(result, 8)]);
}

/// One that finds what it looks for, or looks for something else; with masks, or ordinary, at random.
fn draw(rng: &mut Rng, found: u64) -> Atomic {
    let any = |rng: &mut Rng| rng.below_u64(u64::MAX);
    let mask = |rng: &mut Rng| match rng.below(3) {
        0 => any(rng),
        _ => rng.pick(&PATTERNS),
    };
    let (compare_mask, swap_mask) = (mask(rng), mask(rng));
    match rng.below(8) {
        0 => Atomic::FetchAdd { add: any(rng) },
        1 => Atomic::CompareSwap {
            compare: found,
            swap: any(rng),
        },
        2..5 => Atomic::MaskedFetchAdd {
            add: mask(rng),
            boundaries: mask(rng),
        },
        5 => Atomic::MaskedCompareSwap {
            compare: any(rng),
            swap: any(rng),
            compare_mask,
            swap_mask,
        },
        _ => Atomic::MaskedCompareSwap {
            compare: found ^ any(rng) & !compare_mask,
            swap: any(rng),
            compare_mask,
            swap_mask,
        },
    }
}

/// OP-8, OP-9, E-7: every pattern as every mask: what is compared, what is swapped, where carries end; the original
/// comes back whole; what stands beside the word stays. The oracle adds bit by bit.
#[test]
fn every_pattern() {
    for kind in BOTH_LINKS {
        let mut pair = pair(101, kind);
        let mut wr_id = 0;
        for (first, second) in PATTERNS
            .into_iter()
            .flat_map(|first| PATTERNS.map(|second| (first, second)))
        {
            let at = WORDS + 8 * (wr_id % 5);
            let found = word(&pair, 1, at);
            let add = Atomic::MaskedFetchAdd {
                add: first,
                boundaries: second,
            };
            let now = add.apply(found);
            let cas = |compare| Atomic::MaskedCompareSwap {
                compare,
                swap: !now,
                compare_mask: first,
                swap_mask: second,
            };
            // Right where it counts and wrong in all else; then wrong in one bit that counts.
            let hits = cas(now ^ !first);
            let misses = cas(hits.apply(now) ^ (first & first.wrapping_neg()));
            for (n, atomic) in [add, hits, misses].into_iter().enumerate() {
                post(&mut pair, 0, wr_id, atomic, at, 16 * (3 * (wr_id % 9) + n as u64));
                wr_id += 1;
            }
            for (n, atomic) in [add, hits, misses].into_iter().enumerate() {
                let wc = pair.wait_ok(0, wr_id - 3 + n as u64);
                assert_eq!((wc.opcode, wc.byte_len), (opcode_of(atomic), 8), "{atomic:x?}");
            }
            pair.check_memory(&format!("{kind:?} {first:#x} {second:#x}"));
        }
        pair.check_traffic("after them");
    }
}

/// OP-8, OP-9, OP-13: with and without masks, both ways, many at a time, in the order of the queue: what each finds is
/// what all before it have left.
#[test]
fn in_the_order_of_the_queue() {
    for kind in BOTH_LINKS {
        for (n, (mtu, _)) in ALL_MTUS.into_iter().enumerate() {
            let options = ConnectOptions {
                rd_atomic: [1, 2, 4, 16, 16][n],
                ..path(mtu)
            };
            let mut pair = pair_on(&RigConfig::new(102, kind), &options);
            random_batches(&mut pair, 6, &format!("{kind:?} {mtu:?}"));
        }
    }
}

fn random_batches(pair: &mut Pair, batches: u64, what: &str) {
    const EACH: u64 = 16;
    let mut rng = Rng::new(102, what);
    for batch in 0..batches {
        let mut posted = [Vec::new(), Vec::new()];
        for wr_id in 0..EACH {
            for (from, posted) in posted.iter_mut().enumerate() {
                let at = WORDS + 8 * u64::from(rng.below(3));
                let atomic = draw(&mut rng, word(pair, 1 - from, at));
                post(pair, from, wr_id, atomic, at, 64 * wr_id + 8 * batch);
                posted.push(opcode_of(atomic));
            }
        }
        for (from, opcodes) in posted.into_iter().enumerate() {
            for (wr_id, opcode) in opcodes.into_iter().enumerate() {
                assert_eq!(pair.wait_ok(from, wr_id as u64).opcode, opcode, "{what}");
            }
        }
        pair.check_memory(what);
    }
}

/// REL-19: each once, and answered as it was, whatever the wire does, and wherever PSNs run over.
#[test]
fn exactly_once() {
    on_bad_wires(103, |config, options, what| {
        let mut pair = pair_on(&config, &options);
        random_batches(&mut pair, 4, what);
    });
}

/// OP-9, OP-10: eight QPs at one word, a byte of it each: what runs over in one does not reach the next, and each sees
/// its own count alone. OP-8: the same by compare and swap of the own byte, which no other can disturb.
#[test]
fn many_qps_at_one_word() {
    for kind in BOTH_LINKS {
        for faults in ["", "loss=0.03,dup=0.05,reorder=0.05"] {
            let config = RigConfig {
                faults: faults.parse().unwrap(),
                ..RigConfig::new(108, kind)
            };
            let mut pair = pair_on(&config, &path(Mtu::Bytes1024));
            for swaps in [false, true] {
                many_bytes(&mut pair, swaps, &format!("{kind:?} {faults} {swaps}"));
            }
        }
    }
}

struct Counter {
    qp: RawQp<Dev>,
    _peer: RawQp<Dev>,
    posted: u64,
    done: u64,
}

/// Each counts its byte up to this: it runs over once.
const COUNTS: u64 = 300;
const DEPTH: u64 = 8;

fn count_up(pair: &Pair, counter: &mut Counter, number: u64, swaps: bool) {
    let (remote_addr, rkey) = pair.remote(1, WORDS + 8 * u64::from(swaps));
    while counter.posted < COUNTS && counter.posted - counter.done < DEPTH {
        let (shift, byte) = (8 * number, counter.posted & 0xff);
        let atomic = match swaps {
            true => Atomic::MaskedCompareSwap {
                compare: byte << shift,
                swap: ((byte + 1) & 0xff) << shift,
                compare_mask: 0xff << shift,
                swap_mask: 0xff << shift,
            },
            false => Atomic::MaskedFetchAdd {
                add: 1 << shift,
                boundaries: BYTES,
            },
        };
        let slot = number * DEPTH + counter.posted % DEPTH;
        let wr = SendWr {
            wr_id: number << 32 | counter.posted,
            op: op_at(atomic, (remote_addr, rkey)),
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[pair.mrs[0].sge(RESULTS + 8 * slot, 8)]),
        };
        counter.qp.post_send(&[wr]).unwrap();
        counter.posted += 1;
    }
}

fn many_bytes(pair: &mut Pair, swaps: bool, what: &str) {
    let at = WORDS + 8 * u64::from(swaps);
    pair.memory[1].buf().store_u64((CANARY_BYTES + at) as usize, 0);
    let mut counters: Vec<Counter> = (0..8)
        .map(|_| {
            let [qp, peer] = pair.more_qps(cap(), &path(Mtu::Bytes1024));
            Counter {
                qp,
                _peer: peer,
                posted: 0,
                done: 0,
            }
        })
        .collect();
    let mut end_ns = pair.rig.now_ns() + LIMIT_NS;
    while counters.iter().any(|counter| counter.done < COUNTS) {
        for (number, counter) in counters.iter_mut().enumerate() {
            count_up(pair, counter, number as u64, swaps);
        }
        pair.rig.run(100);
        while let Some(wc) = pair.rig.nodes[0].poll_ready().unwrap() {
            let (number, count) = (wc.wr_id >> 32, wc.wr_id & 0xffff_ffff);
            let counter = &mut counters[number as usize];
            assert_eq!((wc.status, count), (WcStatus::Success, counter.done), "{what}");
            let slot = number * DEPTH + count % DEPTH;
            let found = pair.memory[0]
                .buf()
                .load_u64((CANARY_BYTES + RESULTS + 8 * slot) as usize);
            assert_eq!(
                found >> (8 * number) & 0xff,
                count & 0xff,
                "{what}: {found:#x} for {number}"
            );
            counter.done += 1;
            end_ns = pair.rig.now_ns() + LIMIT_NS;
        }
        assert!(pair.rig.now_ns() < end_ns, "{what}: no completion");
    }
    let now = pair.memory[1].buf().load_u64((CANARY_BYTES + at) as usize);
    assert_eq!(now, (COUNTS & 0xff) * 0x0101_0101_0101_0101, "{what}");
}

/// KEY-31, MEM-7, REL-13: what it is refused for, by what status; memory stays, and the peer's QP fails.
#[test]
fn refused() {
    use WcStatus::{RemAccessErr, RemInvReqErr};
    for kind in BOTH_LINKS {
        for (case, status) in [
            ("key", RemAccessErr),
            ("behind the end", RemAccessErr),
            ("misaligned", RemInvReqErr),
            ("right of the region", RemAccessErr),
            ("right of the QP", RemAccessErr),
        ] {
            for swaps in [false, true] {
                refuse(kind, case, status, swaps);
            }
        }
    }
}

fn refuse(kind: LinkKind, case: &str, status: WcStatus, swaps: bool) {
    let unless = |name: &str| {
        if case == name {
            LOCAL_AND_REMOTE
        } else {
            ALL_RIGHTS
        }
    };
    let options = ConnectOptions {
        access: unless("right of the QP"),
        ..path(Mtu::Bytes1024)
    };
    let rights = [ALL_RIGHTS, unless("right of the region")];
    let mut pair = Pair::new(&RigConfig::new(109, kind), &options, REGION_BYTES, rights);
    let (mut remote_addr, mut rkey) = pair.remote(1, WORDS);
    match case {
        "key" => rkey ^= 1,
        "behind the end" => remote_addr = (pair.mrs[1].addr() + REGION_BYTES) & !7,
        "misaligned" => remote_addr += 4,
        _ => {}
    }
    let atomic = match swaps {
        true => Atomic::MaskedCompareSwap {
            compare: 0,
            swap: u64::MAX,
            compare_mask: 0,
            swap_mask: u64::MAX,
        },
        false => Atomic::MaskedFetchAdd {
            add: u64::MAX,
            boundaries: 1 << 7,
        },
    };
    pair.post(0, 1, op_at(atomic, (remote_addr, rkey)), &[pair.mrs[0].sge(0, 8)]);
    let wc = pair.wait(0);
    assert_eq!((wc.wr_id, wc.status), (1, status), "{kind:?} {case}");
    pair.rig.run(20_000);
    pair.check_memory(case);
    assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Err, "{case}");
}

/// E-4, MEM-8, XPORT-12: what is there is said; what no card need see: other lengths, inline data, a service without
/// it, WQEs without room for masks.
#[test]
fn refused_when_posted() {
    let cap = QpCap {
        max_send_sge: 2,
        max_inline_data: 0,
        ..cap()
    };
    let options = path(Mtu::Bytes1024);
    let config = RigConfig::new(110, LinkKind::Ethernet);
    let mut pair = Pair::with_cap(&config, &options, REGION_BYTES, [ALL_RIGHTS; 2], cap);
    let device = pair.rig.nodes[0].context.query_device().unwrap();
    assert_eq!(device.masked_atomic_cap(), AtomicCap::Hca as u8);
    let add = Atomic::MaskedFetchAdd {
        add: 1,
        boundaries: BYTES,
    };
    let swap = Atomic::MaskedCompareSwap {
        compare: 0,
        swap: 1,
        compare_mask: 0,
        swap_mask: 1,
    };
    let at = pair.remote(1, WORDS);
    let good = pair.mrs[0].sge(0, 8);
    let short = hca_verbs::Sge { length: 4, ..good };
    let (one, short) = ([good], [short]);
    let wr = |atomic, data| SendWr {
        wr_id: 1,
        op: op_at(atomic, at),
        flags: SendFlags::SIGNALED,
        data,
    };
    for (wr, error) in [
        (wr(add, WrData::Sges(&short)), PostError::BadAtomic),
        (wr(add, WrData::Sges(&[])), PostError::BadAtomic),
        (wr(add, WrData::Inline(&[0; 8])), PostError::InlineNotAllowed),
        (wr(swap, WrData::Sges(&one)), PostError::NoRoomForMasks),
    ] {
        assert_eq!(pair.qps[0].post_send(&[wr]).unwrap_err().error, error);
    }
    let [mut uc, _peer] = pair
        .rig
        .connect_as(Service::Uc, [cap; 2], [false; 2], &options)
        .unwrap();
    for atomic in [add, swap] {
        let opcode = op_at(atomic, at).opcode();
        assert_eq!(
            uc.post_send(&[wr(atomic, WrData::Sges(&one))]).unwrap_err().error,
            PostError::NotForUnreliable { opcode }
        );
    }
    // The smallest WQE has room for the fields of a fetch and add, and the remedy that the error names is one.
    post(&mut pair, 0, 1, add, WORDS, 0);
    pair.wait_ok(0, 1);
    for remedy in [
        QpCap {
            max_send_sge: 3,
            ..cap
        },
        QpCap {
            max_inline_data: 33,
            ..cap
        },
    ] {
        [pair.qps[0], pair.qps[1]] = pair.more_qps(remedy, &options);
        post(&mut pair, 0, 1, swap, WORDS, 0);
        pair.wait_ok(0, 1);
    }
    pair.check_memory("after refusals");
}

/// A packet by hand from node 0.
fn by_hand(pair: &mut Pair, kind: LinkKind, opcode: Opcode, psn: u32, payload: &[u8]) {
    let (va, rkey) = pair.remote(1, WORDS);
    let packet = Forged {
        link: forge::link(0, kind),
        opcode,
        dest_qp: pair.qps[1].qp_num(),
        psn,
        pkey: 0xffff,
        ext: ExtHeaders {
            atomic_eth: Some(atomic_eth::Repr {
                va,
                rkey,
                swap_add: 0xeeee,
                // An ordinary compare and swap would hit.
                compare: word(pair, 1, WORDS),
            }),
            ..ExtHeaders::default()
        },
        payload,
    };
    forge::send(&mut pair.rig, 0, &packet);
    pair.rig.run(3_000);
}

/// REL-19: a request that comes again is answered and not carried out, whatever it says by then.
#[test]
fn requests_that_come_again() {
    for kind in BOTH_LINKS {
        let mut pair = pair(111, kind);
        let mut rng = Rng::new(111, "again");
        for n in 0..20u64 {
            let atomic = draw(&mut rng, word(&pair, 1, WORDS));
            post(&mut pair, 0, n, atomic, WORDS, 0);
            pair.wait_ok(0, n);
        }
        let all = [0u64, u64::MAX].map(u64::to_le_bytes).concat();
        for psn in [0, 3, 4, 19, 10, 19] {
            by_hand(&mut pair, kind, Opcode::RcMaskedCmpSwap, psn, &all);
            by_hand(&mut pair, kind, Opcode::RcMaskedFetchAdd, psn, &[]);
        }
        pair.check_memory("again");
        pair.check_traffic("after packets by hand");
    }
}

/// REL-13: masks that are not 16 bytes are an invalid request.
#[test]
fn other_lengths_by_hand() {
    use Opcode::{RcMaskedCmpSwap, RcMaskedFetchAdd};
    for kind in BOTH_LINKS {
        for (opcode, payload, is_good) in [
            (RcMaskedCmpSwap, 16, true),
            (RcMaskedFetchAdd, 0, true),
            (RcMaskedCmpSwap, 0, false),
            (RcMaskedCmpSwap, 8, false),
            (RcMaskedCmpSwap, 12, false),
            (RcMaskedCmpSwap, 15, false),
            (RcMaskedCmpSwap, 17, false),
            (RcMaskedCmpSwap, 24, false),
            (RcMaskedCmpSwap, 1024, false),
        ] {
            let mut pair = pair(112, kind);
            let found = word(&pair, 1, WORDS);
            // Nothing to compare, all bits to swap.
            let mut bytes = vec![0; payload];
            bytes.iter_mut().skip(8).take(8).for_each(|byte| *byte = 0xff);
            by_hand(&mut pair, kind, opcode, 0, &bytes);
            let state = pair.qps[1].query().unwrap().qp_state;
            let wanted = if is_good { QpState::Rts } else { QpState::Err };
            assert_eq!(state, wanted, "{kind:?} {opcode}: {payload} bytes");
            match opcode {
                RcMaskedCmpSwap if is_good => pair.expect(1, WORDS, &0xeeee_u64.to_le_bytes()),
                RcMaskedFetchAdd if is_good => {
                    let (add, boundaries) = (0xeeee, found);
                    let left = Atomic::MaskedFetchAdd { add, boundaries }.apply(found);
                    pair.expect(1, WORDS, &left.to_le_bytes());
                }
                _ => {}
            }
            pair.check_memory("by hand");
        }
        // Bytes where no payload may be: refused, or not even a packet (WIRE-16, as the fast card takes it).
        for (opcode, payload) in [
            (RcMaskedFetchAdd, 8),
            (RcMaskedFetchAdd, 16),
            (Opcode::RcCmpSwap, 16),
        ] {
            let mut pair = pair(112, kind);
            by_hand(&mut pair, kind, opcode, 0, &vec![0; payload]);
            pair.check_memory("by hand");
        }
    }
}
