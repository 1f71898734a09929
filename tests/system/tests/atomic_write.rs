//! ATOMIC WRITE (IBA annex A19): eight bytes at once, in the order of the queue, once, with the right to write.

mod common;

use common::forge::{self, Forged};
use common::{
    ALL_MTUS, BASES, BOTH_LINKS, CANARY_BYTES, LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap, on_bad_wires,
};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{
    Access, ConnectOptions, Mtu, PostError, QpCap, QpState, SendFlags, SendOp, SendWr, Service, WcOpcode,
    WcStatus, WrData,
};
use hca_wire::{ExtHeaders, Opcode, reth};

const ALL_RIGHTS: Access = Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits());
const REGION_BYTES: u64 = 64 << 10;
/// Where the words are: a multiple of 8 in memory, though the region is none.
const WORDS: u64 = (32 << 10) + 8 - CANARY_BYTES % 8;

fn pair_on(config: &RigConfig, options: &ConnectOptions) -> Pair {
    Pair::new(config, options, REGION_BYTES, [ALL_RIGHTS; 2])
}

fn to(pair: &Pair, node: usize, offset: u64) -> SendOp {
    let (remote_addr, rkey) = pair.remote(node, offset);
    SendOp::AtomicWrite { remote_addr, rkey }
}

fn post(pair: &mut Pair, from: usize, wr_id: u64, at: u64, bytes: &[u8; 8]) {
    let op = to(pair, 1 - from, at);
    pair.post_with(from, wr_id, op, SendFlags::SIGNALED, WrData::Inline(bytes));
}

/// The word of a node's memory as it is, not as it must be.
fn found(pair: &Pair, node: usize, at: u64) -> u64 {
    let lane = CANARY_BYTES + at;
    pair.memory[node].buf().load_u64(lane as usize)
}

/// Bytes stay in their order; what stands beside them stays; alone with its doorbell, and behind others. No room for
/// inline data is needed: it is an operand.
#[test]
fn bytes_and_completions() {
    let cap = QpCap {
        max_inline_data: 0,
        ..cap()
    };
    for kind in BOTH_LINKS {
        for (mtu, _) in ALL_MTUS {
            let config = RigConfig::new(71, kind);
            let mut pair = Pair::with_cap(&config, &path(mtu), REGION_BYTES, [ALL_RIGHTS; 2], cap);
            for n in 0..24u64 {
                let (from, at) = ((n / 2 % 2) as usize, WORDS + 72 * (n / 2));
                let bytes = [1, 2, 3, 4, 5, 6, 7, n as u8];
                pair.expect(1 - from, at, &bytes);
                post(&mut pair, from, n, at, &bytes);
                // In pairs: the second one finds another under way.
                if n % 2 == 1 {
                    for wr_id in [n - 1, n] {
                        let wc = pair.wait_ok(from, wr_id);
                        assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::AtomicWrite, 8));
                    }
                    pair.check_memory(&format!("{kind:?} {mtu:?} {n}"));
                }
            }
            pair.check_traffic("after them");
        }
    }
}

/// OP-13: WRITEs, atomics and ATOMIC WRITEs of one QP at one word happen as they were posted, and a READ behind them
/// sees it; more than `rd_atomic` of them wait; a SEND that has come says that all before it is in memory.
#[test]
fn in_the_order_of_the_queue() {
    for kind in BOTH_LINKS {
        for rd_atomic in [1, 2, 16] {
            let options = ConnectOptions {
                rd_atomic,
                ..path(Mtu::Bytes1024)
            };
            let mut pair = pair_on(&RigConfig::new(72, kind), &options);
            for round in 0..8u64 {
                let at = WORDS + 8 * (round % 3);
                let mut word = [0; 8];
                for wr_id in 0..16u64 {
                    let landing = 4096 + 8 * wr_id;
                    let (remote_addr, rkey) = pair.remote(1, at);
                    match wr_id % 4 {
                        0 => {
                            word = (round << 56 | wr_id << 32 | 0x1234).to_le_bytes();
                            post(&mut pair, 0, wr_id, at, &word);
                        }
                        1 => {
                            pair.expect(0, landing, &word);
                            let swap = SendOp::AtomicCmpAndSwp {
                                remote_addr,
                                rkey,
                                compare: u64::from_le_bytes(word),
                                swap: !wr_id,
                            };
                            word = (!wr_id).to_le_bytes();
                            pair.post(0, wr_id, swap, &[pair.mrs[0].sge(landing, 8)]);
                        }
                        2 => {
                            pair.expect(0, landing, &word);
                            word = (u64::from_le_bytes(word).wrapping_add(7)).to_le_bytes();
                            let add = SendOp::AtomicFetchAndAdd {
                                remote_addr,
                                rkey,
                                add: 7,
                            };
                            pair.post(0, wr_id, add, &[pair.mrs[0].sge(landing, 8)]);
                        }
                        _ => {
                            word.copy_from_slice(&pair.expected(0, 8 * round, 8));
                            let op = pair.write_to(1, at);
                            pair.post(0, wr_id, op, &[pair.mrs[0].sge(8 * round, 8)]);
                            // Over the WRITE, which must not overtake it either.
                            word = [0xa0 | round as u8; 8];
                            post(&mut pair, 0, 100 + wr_id, at, &word);
                        }
                    }
                    pair.expect(1, at, &word);
                }
                pair.expect(0, 8192, &word);
                let op = pair.read_from(1, at);
                pair.post(0, 49, op, &[pair.mrs[0].sge(8192, 8)]);
                pair.recv(1, 99, &[]);
                pair.post(0, 50, SendOp::Send, &[]);
                pair.wait_ok(1, 99);
                assert_eq!(found(&pair, 1, at), u64::from_le_bytes(word), "round {round}");
                for wr_id in 0..16u64 {
                    pair.wait_ok(0, wr_id);
                    if wr_id % 4 == 3 {
                        pair.wait_ok(0, 100 + wr_id);
                    }
                }
                pair.wait_ok(0, 49);
                pair.wait_ok(0, 50);
                pair.check_memory(&format!("{kind:?}, {rd_atomic} at a time, round {round}"));
            }
        }
    }
}

/// REL-19: whatever the wire does, and wherever PSNs run over: a word that one writer counts up never goes back, and is
/// never one of two numbers in part.
#[test]
fn once_and_never_torn() {
    on_bad_wires(73, |config, options, what| {
        count_up(pair_on(&config, &options), what)
    });
}

fn count_up(mut pair: Pair, what: &str) {
    const LAST: u64 = 120;
    const EVERY_BYTE: u64 = 0x0101_0101_0101_0101;
    let (mut posted, mut done, mut seen) = (0, 0, 0);
    pair.memory[1].buf().store_u64((CANARY_BYTES + WORDS) as usize, 0);
    let mut end_ns = pair.rig.now_ns() + LIMIT_NS;
    while done < LAST {
        while posted < LAST && posted - done < 24 {
            posted += 1;
            post(&mut pair, 0, posted, WORDS, &(posted * EVERY_BYTE).to_le_bytes());
        }
        pair.rig.run(40);
        let now = found(&pair, 1, WORDS);
        assert_eq!(now % EVERY_BYTE, 0, "{what}: {now:#x} is in part another one");
        assert!(now / EVERY_BYTE >= seen, "{what}: {now:#x} after {seen}");
        seen = now / EVERY_BYTE;
        while let Some(wc) = pair.rig.nodes[0].poll_ready().unwrap() {
            done += 1;
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, done), "{what}");
            assert!(
                seen >= done,
                "{what}: {done} has completed, and memory has {seen}"
            );
            end_ns = pair.rig.now_ns() + LIMIT_NS;
        }
        assert!(pair.rig.now_ns() < end_ns, "{what}: no completion");
    }
    pair.expect(1, WORDS, &(LAST * EVERY_BYTE).to_le_bytes());
    pair.check_memory(what);
}

/// KEY-31, MEM-7, REL-13: what it is refused for, by what status; memory stays, and the peer's QP fails. The right is
/// that of a WRITE: who may only do atomics may not write.
#[test]
fn refused() {
    use WcStatus::{RemAccessErr, RemInvReqErr};
    for kind in BOTH_LINKS {
        for (case, status) in [
            ("key", RemAccessErr),
            ("behind the end", RemAccessErr),
            ("before the start", RemAccessErr),
            ("misaligned", RemInvReqErr),
            ("right of the region", RemAccessErr),
            ("right of the QP", RemAccessErr),
            ("a key that is gone", RemAccessErr),
            ("another domain", RemAccessErr),
        ] {
            refuse(kind, case, status);
        }
    }
}

fn refuse(kind: LinkKind, case: &str, status: WcStatus) {
    let without = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let unless = |name: &str| if case == name { without } else { ALL_RIGHTS };
    let options = ConnectOptions {
        access: unless("right of the QP"),
        ..path(Mtu::Bytes1024)
    };
    let rights = [ALL_RIGHTS, unless("right of the region")];
    let mut pair = Pair::new(&RigConfig::new(78, kind), &options, REGION_BYTES, rights);
    let (mut remote_addr, mut rkey) = pair.remote(1, WORDS);
    match case {
        "key" => rkey ^= 1,
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
    let op = SendOp::AtomicWrite { remote_addr, rkey };
    pair.post_with(0, 1, op, SendFlags::SIGNALED, WrData::Inline(&[9; 8]));
    let wc = pair.wait(0);
    assert_eq!((wc.wr_id, wc.status), (1, status), "{kind:?} {case}");
    pair.rig.run(20_000);
    pair.check_memory(case);
    assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Err, "{case}");
}

/// XPORT-12: what no card need see: other lengths, memory instead of inline data, a service without it.
#[test]
fn refused_when_posted() {
    let mut pair = pair_on(&RigConfig::new(79, LinkKind::Ethernet), &path(Mtu::Bytes1024));
    let op = to(&pair, 1, WORDS);
    let sges = [pair.mrs[0].sge(0, 8)];
    let wr = |data| SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data,
    };
    for data in [
        WrData::Inline(&[0; 7]),
        WrData::Inline(&[0; 9]),
        WrData::Inline(&[]),
        WrData::InlineList(&[&[0; 4], &[0; 5]]),
        WrData::Sges(&sges),
    ] {
        let error = pair.qps[0].post_send(&[wr(data)]).unwrap_err().error;
        assert_eq!(error, PostError::BadAtomicWrite);
    }
    let [mut uc, _peer] = pair
        .rig
        .connect_as(Service::Uc, [cap(); 2], [false; 2], &path(Mtu::Bytes1024))
        .unwrap();
    let opcode = op.opcode();
    assert_eq!(
        uc.post_send(&[wr(WrData::Inline(&[0; 8]))]).unwrap_err().error,
        PostError::NotForUnreliable { opcode }
    );
    // In two pieces it is eight bytes, too.
    pair.expect(1, WORDS, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let pieces: &[&[u8]] = &[&[1, 2, 3], &[4, 5, 6, 7, 8]];
    pair.qps[0].post_send(&[wr(WrData::InlineList(pieces))]).unwrap();
    pair.wait_ok(0, 1);
    pair.check_memory("in pieces");
    pair.check_traffic("after refusals");
}

/// A packet by hand from node 0.
fn by_hand(pair: &mut Pair, kind: LinkKind, psn: u32, dma_len: u32, payload: &[u8]) {
    let (va, rkey) = pair.remote(1, WORDS);
    let packet = Forged {
        link: forge::link(0, kind),
        opcode: Opcode::RcAtomicWrite,
        dest_qp: pair.qps[1].qp_num(),
        psn,
        pkey: 0xffff,
        ext: ExtHeaders {
            reth: Some(reth::Repr { va, rkey, dma_len }),
            ..ExtHeaders::default()
        },
        payload,
    };
    forge::send(&mut pair.rig, 0, &packet);
    pair.rig.run(3_000);
}

/// REL-19: a request that comes again is answered and not carried out: not over what another has written since.
#[test]
fn requests_that_come_again() {
    for kind in BOTH_LINKS {
        let mut pair = pair_on(&RigConfig::new(80, kind), &path(Mtu::Bytes1024));
        for n in 0..20u64 {
            pair.expect(1, WORDS, &n.to_le_bytes());
            post(&mut pair, 0, n, WORDS, &n.to_le_bytes());
            pair.wait_ok(0, n);
        }
        for psn in [0, 3, 4, 19, 10, 19] {
            by_hand(&mut pair, kind, psn, 8, &[0xee; 8]);
        }
        pair.check_memory("again");
        pair.check_traffic("after packets by hand");
    }
}

/// REL-13: another length than eight, in header or payload, is an invalid request.
#[test]
fn other_lengths_by_hand() {
    for kind in BOTH_LINKS {
        for (dma_len, payload) in [
            (4, 8),
            (16, 8),
            (0, 8),
            (u32::MAX, 8),
            (16, 16),
            (8, 12),
            (4, 4),
            (8, 4),
            (8, 0),
        ] {
            let mut pair = pair_on(&RigConfig::new(81, kind), &path(Mtu::Bytes1024));
            by_hand(&mut pair, kind, 0, dma_len, &vec![0xee; payload]);
            let state = pair.qps[1].query().unwrap().qp_state;
            assert_eq!(
                state,
                QpState::Err,
                "{kind:?}: {dma_len} bytes said, {payload} there"
            );
            pair.check_memory("by hand");
        }
    }
}

/// The first and the last whole word of a region that begins and ends in the midst of one.
#[test]
fn words_at_the_ends_of_a_region() {
    for kind in BOTH_LINKS {
        let mut pair = pair_on(&RigConfig::new(82, kind), &path(Mtu::Bytes1024));
        assert_eq!(pair.mrs[1].addr(), BASES[1] + CANARY_BYTES);
        let first = 8 - pair.mrs[1].addr() % 8;
        let last = ((pair.mrs[1].addr() + REGION_BYTES) & !7) - 8 - pair.mrs[1].addr();
        for (n, at) in [first, last].into_iter().enumerate() {
            let bytes = [0x40 | n as u8; 8];
            pair.expect(1, at, &bytes);
            post(&mut pair, 0, n as u64, at, &bytes);
            pair.wait_ok(0, n as u64);
        }
        pair.check_memory("ends");
    }
}
