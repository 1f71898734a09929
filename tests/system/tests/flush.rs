//! FLUSH (IBA annex A19): what was written before it is in memory when it completes; it moves nothing, needs a right of
//! its own, and does not promise that anything outlives a loss of power.

mod common;

use common::forge::{self, Forged};
use common::{ALL_MTUS, BOTH_LINKS, CANARY_BYTES, LIMIT_NS, LOCAL_AND_REMOTE, Pair, cap, on_bad_wires, xrc};
use hca_cosim::Design;
use hca_host::PcieParams;
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, path};
use hca_verbs::{
    Access, ConnectOptions, FastMr, Flush, MrOptions, Mtu, Mw, MwType, PageSize, PostError, QpState, RawQp,
    SendFlags, SendOp, SendWr, Service, Sge, WcOpcode, WcStatus, WorkCompletion, WrData, next_rkey,
};
use hca_wire::{ExtHeaders, Opcode, feth, reth};

const ALL_RIGHTS: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::FLUSH_GLOBAL.bits());
const REGION_BYTES: u64 = 64 << 10;
/// A multiple of 8 in memory, though the region is none.
const WORD: u64 = (32 << 10) + 8 - CANARY_BYTES % 8;

fn pair_on(config: &RigConfig, options: &ConnectOptions) -> Pair {
    Pair::new(config, options, REGION_BYTES, [ALL_RIGHTS; 2])
}

/// A host whose memory shows what was written long after the card has handed it over.
fn slow_host(seed: u64, kind: LinkKind, write_latency_ns: u32) -> RigConfig {
    RigConfig {
        other_pcie: Some(PcieParams {
            write_latency_ns,
            read_latency_ns: write_latency_ns * 3 / 2,
            ..PcieParams::default()
        }),
        ..RigConfig::new(seed, kind)
    }
}

fn range(pair: &Pair, node: usize, offset: u64, length: u32) -> Flush {
    let (remote_addr, rkey) = pair.remote(node, offset);
    Flush {
        remote_addr,
        rkey,
        length,
        placement: Flush::GLOBAL,
        whole_region: false,
    }
}

fn region(pair: &Pair, node: usize) -> Flush {
    Flush {
        remote_addr: 7,
        whole_region: true,
        ..range(pair, node, 0, u32::MAX)
    }
}

fn post(pair: &mut Pair, wr_id: u64, flush: Flush) {
    pair.post(0, wr_id, SendOp::Flush(flush), &[]);
}

/// The next completion of node 0, as soon as it is there.
fn first(pair: &mut Pair) -> WorkCompletion {
    let end_ns = pair.rig.now_ns() + LIMIT_NS;
    loop {
        if let Some(wc) = pair.rig.nodes[0].poll_ready().unwrap() {
            return wc;
        }
        pair.rig.run(4);
        assert!(pair.rig.now_ns() < end_ns, "no completion");
    }
}

fn flushed(wc: &WorkCompletion, wr_id: u64) {
    assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id), "{wc:?}");
    assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::Flush, 0));
}

/// What its name says: a WRITE may have completed whose data memory does not show yet, but not when a FLUSH behind it
/// has, of its range, of the region, or of no bytes of it. Also data of an inline WRITE, of a SEND and of atomics.
#[test]
fn what_was_written_is_in_memory() {
    for kind in BOTH_LINKS {
        let mut pair = pair_on(&slow_host(71, kind, 20_000), &path(Mtu::Bytes1024));
        let mut early = 0;
        for (n, len) in [1u32, 63, 4096, 9_000, 300].into_iter().enumerate() {
            let at = 16 * 1024 * (n as u64 % 2) + 3;
            let flush = match n {
                0 | 3 => range(&pair, 1, at, len),
                1 => region(&pair, 1),
                2 => range(&pair, 1, at, 0),
                _ => range(&pair, 1, REGION_BYTES, 0),
            };
            let bytes = pair.expected(0, 128 + n as u64, len);
            let (write, sge) = (pair.write_to(1, at), pair.mrs[0].sge(128 + n as u64, len));
            pair.expect(1, at, &bytes);
            pair.post(0, 1, write, &[sge]);
            post(&mut pair, 2, flush);
            assert_eq!(first(&mut pair).opcode, WcOpcode::RdmaWrite);
            early += u32::from(pair.memory[1].first_difference().is_some());
            flushed(&first(&mut pair), 2);
            pair.check_memory(&format!("{kind:?}, {len} bytes"));
        }
        // A host that is not slow at all would show nothing.
        if Design::chosen() == Design::Rtl {
            assert_eq!(
                early, 5,
                "{kind:?}: WRITEs that completed before memory had their data"
            );
        }
        others_than_writes(&mut pair);
    }
}

fn others_than_writes(pair: &mut Pair) {
    let (bytes, whole) = (pair.expected(0, 512, 777), region(pair, 1));
    pair.recv(1, 9, &[pair.mrs[1].sge(20_001, 777)]);
    pair.expect(1, 20_001, &bytes);
    pair.post(0, 1, SendOp::Send, &[pair.mrs[0].sge(512, 777)]);
    let inline = pair.write_to(1, 30_001);
    pair.expect(1, 30_001, &[5; 50]);
    pair.post_with(0, 2, inline, SendFlags::SIGNALED, WrData::Inline(&[5; 50]));
    post(pair, 3, whole);
    for _ in 0..2 {
        first(pair);
    }
    flushed(&first(pair), 3);
    pair.check_memory("SEND, inline WRITE");
    // The word is under way in the card when the FLUSH comes, whose place is the same, or another one.
    for (round, at) in [WORD, 5].into_iter().enumerate() {
        let (remote_addr, rkey) = pair.remote(1, WORD);
        let word = [0x30 | round as u8; 8];
        pair.expect(1, WORD, &word);
        let store = SendOp::AtomicWrite { remote_addr, rkey };
        pair.post_with(0, 4, store, SendFlags::SIGNALED, WrData::Inline(&word));
        let flush = range(pair, 1, at, 8);
        post(pair, 5, flush);
        first(pair);
        flushed(&first(pair), 5);
        pair.check_memory("ATOMIC WRITE");
    }
    pair.wait_ok(1, 9);
}

/// Many of them between atomics and READs, one at a time or as many as there may be: in order, each a completion.
#[test]
fn in_the_order_of_the_queue() {
    for kind in BOTH_LINKS {
        for (rd_atomic, (mtu, _)) in [1, 2, 16, 16, 3].into_iter().zip(ALL_MTUS) {
            let options = ConnectOptions {
                rd_atomic,
                ..path(mtu)
            };
            let mut pair = pair_on(&slow_host(72, kind, 2_000), &options);
            let mut sum = 0u64;
            pair.expect(1, WORD, &sum.to_le_bytes());
            let word = (CANARY_BYTES + WORD) as usize;
            pair.memory[1].buf().store_u64(word, 0);
            for round in 0..6u64 {
                let (remote_addr, rkey) = pair.remote(1, WORD);
                for wr_id in 0..24u64 {
                    let landing = 4096 + 8 * wr_id;
                    match wr_id % 4 {
                        0 => {
                            let add = SendOp::AtomicFetchAndAdd {
                                remote_addr,
                                rkey,
                                add: 3,
                            };
                            pair.expect(0, landing, &sum.to_le_bytes());
                            sum += 3;
                            // A READ before it may be answered late.
                            let flags = SendFlags {
                                fence: true,
                                ..SendFlags::SIGNALED
                            };
                            let data = [pair.mrs[0].sge(landing, 8)];
                            pair.post_with(0, wr_id, add, flags, WrData::Sges(&data));
                        }
                        1 | 3 => {
                            let flush = range(&pair, 1, WORD, 8);
                            post(&mut pair, wr_id, flush);
                        }
                        _ => {
                            pair.expect(0, landing, &sum.to_le_bytes());
                            let read = pair.read_from(1, WORD);
                            pair.post(0, wr_id, read, &[pair.mrs[0].sge(landing, 8)]);
                        }
                    }
                }
                pair.expect(1, WORD, &sum.to_le_bytes());
                for wr_id in 0..24 {
                    let wc = first(&mut pair);
                    assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, wr_id));
                    assert_eq!(wc.opcode == WcOpcode::Flush, wr_id % 2 == 1);
                }
                pair.check_memory(&format!("{kind:?}, {rd_atomic} at a time, round {round}"));
            }
        }
    }
}

/// REL-19: whatever the wire does: what its completion says holds, again and again at the same place.
#[test]
fn on_a_bad_wire() {
    on_bad_wires(73, |config, options, what| {
        let config = RigConfig {
            faults: config.faults,
            ..slow_host(config.seed, config.link, 3_000)
        };
        let options = ConnectOptions {
            selective_repeat: config.seed.is_multiple_of(2),
            ..options
        };
        let mut pair = pair_on(&config, &options);
        for n in 0..40u64 {
            let len = 40 + 97 * (n as u32 % 9);
            let bytes = pair.expected(0, n, len);
            let (write, sge) = (pair.write_to(1, 11), pair.mrs[0].sge(n, len));
            pair.expect(1, 11, &bytes);
            pair.post_with(0, n, write, SendFlags::default(), WrData::Sges(&[sge]));
            let flush = if n % 3 == 0 {
                region(&pair, 1)
            } else {
                range(&pair, 1, 11, len)
            };
            post(&mut pair, n, flush);
            flushed(&first(&mut pair), n);
            pair.check_memory(&format!("{what} {n}"));
        }
    });
}

/// KEY-31, MEM-7, REL-13: what it is refused for, and by what status; the peer's QP fails.
#[test]
fn refused() {
    for kind in BOTH_LINKS {
        for case in [
            "key",
            "behind the end",
            "of no bytes behind the end",
            "before the start",
            "longer than the region",
            "right of the region",
            "right of the QP",
            "right of the region, all of it",
            "a key that is gone",
            "a key that is gone, all of it",
            "another domain",
            "another domain, all of it",
            "persistence",
            "persistence, too",
        ] {
            refuse(kind, case);
        }
    }
}

fn refuse(kind: LinkKind, case: &str) {
    let without = LOCAL_AND_REMOTE | Access::REMOTE_ATOMIC;
    let unless = |name: &str| {
        if case.starts_with(name) {
            without
        } else {
            ALL_RIGHTS
        }
    };
    let options = ConnectOptions {
        access: unless("right of the QP"),
        ..path(Mtu::Bytes1024)
    };
    let rights = [ALL_RIGHTS, unless("right of the region")];
    let mut pair = Pair::new(&RigConfig::new(78, kind), &options, REGION_BYTES, rights);
    let mut flush = range(&pair, 1, 128, 8);
    flush.whole_region = case.ends_with("all of it");
    match case.split(',').next().unwrap() {
        "key" => flush.rkey ^= 1,
        "behind the end" => flush.remote_addr += REGION_BYTES - 135,
        "of no bytes behind the end" => {
            flush.remote_addr += REGION_BYTES - 127;
            flush.length = 0;
        }
        "before the start" => flush.remote_addr -= 129,
        "longer than the region" => flush.length = u32::MAX,
        "a key that is gone" => pair.mrs[1].destroy().unwrap(),
        "another domain" => {
            let pd = pair.rig.nodes[1].context.alloc_pd().unwrap();
            pair.mrs[1].modify(&pd, ALL_RIGHTS).unwrap();
            std::mem::forget(pd);
        }
        "persistence" => {
            let both = Flush::GLOBAL | Flush::PERSISTENT;
            flush.placement = if case.ends_with("too") {
                both
            } else {
                Flush::PERSISTENT
            };
        }
        _ => {}
    }
    post(&mut pair, 1, flush);
    let wc = pair.wait(0);
    assert_eq!(
        (wc.wr_id, wc.status),
        (1, WcStatus::RemAccessErr),
        "{kind:?} {case}"
    );
    pair.rig.run(20_000);
    pair.check_memory(case);
    assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Err, "{case}");
}

/// What a work request of node 1 makes good.
enum Made {
    Window(Mw<Dev>),
    Fast(FastMr<Dev>),
}

/// Bytes that it is of.
const MADE_BYTES: u32 = 5000;

impl Made {
    /// A window of type 2B, or a region for fast registration, which ask for these rights; made good through `qp`.
    fn of(pair: &Pair, qp: &mut RawQp<Dev>, is_fast: bool, access: Access) -> Self {
        let (pd, mr) = (&pair.rig.nodes[1].pd, &pair.mrs[1]);
        let (made, op) = if is_fast {
            let (mut fast, buf) = (pd.alloc_mr(4).unwrap(), pair.memory[1].buf());
            let options = MrOptions {
                page_size: PageSize::KiB4,
                addr: Some(0x7700_0000_0000 + (buf.iova() + CANARY_BYTES) % 4096),
                offset: CANARY_BYTES as usize,
                length: Some(MADE_BYTES as usize),
                ..MrOptions::new(access | Access::LOCAL_WRITE)
            };
            let op = fast.reg_op(next_rkey(fast.key()), buf, &options).unwrap();
            (Self::Fast(fast), op)
        } else {
            let mut mw = pd.alloc_mw(MwType::Two).unwrap();
            let key = next_rkey(mw.rkey());
            let op = mw.bind_op(key, mr, mr.addr(), MADE_BYTES.into(), access);
            mw.set_rkey(key);
            (Self::Window(mw), op)
        };
        assert_eq!(run(pair, 1, qp, op, &[]), WcStatus::Success);
        made
    }

    /// First address, and the key.
    fn place(&self, pair: &Pair) -> (u64, u32) {
        match self {
            Self::Window(mw) => (pair.mrs[1].addr(), mw.rkey()),
            Self::Fast(fast) => (fast.addr(), fast.key()),
        }
    }
}

/// One work request of a QP, and how it ends.
fn run(pair: &Pair, node: usize, qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) -> WcStatus {
    common::post(qp, 7, op, sges);
    pair.wait(node).status
}

/// MEM-14, MEM-16: a work request has no bit for the right to FLUSH, so neither a window nor a region for fast
/// registration has it, whoever asks for it, and whatever the region below a window has (decision 0074); of a
/// range and of all, and of both placements. The key is good otherwise.
#[test]
fn keys_of_work_requests_do_not_give_it() {
    let without = LOCAL_AND_REMOTE | Access::MW_BIND;
    for kind in BOTH_LINKS {
        for below in [without, without | Access::FLUSH_GLOBAL] {
            let (config, options) = (RigConfig::new(83, kind), path(Mtu::Bytes1024));
            let mut pair = Pair::new(&config, &options, REGION_BYTES, [ALL_RIGHTS, below]);
            for bits in 0..16 {
                let [is_fast, is_asked, persists, whole_region] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
                let asked = match is_asked {
                    true => Access::REMOTE_WRITE | Access::FLUSH_GLOBAL,
                    false => Access::REMOTE_WRITE,
                };
                let placement = if persists {
                    Flush::PERSISTENT
                } else {
                    Flush::GLOBAL
                };
                let how = (placement, whole_region);
                let what = format!("{kind:?}, {below:?}, fast {is_fast}, {asked:?}, {how:?}");
                refuse_by(&mut pair, is_fast, asked, how, &what);
            }
            // The region's own key.
            let flush = range(&pair, 1, 0, 8);
            post(&mut pair, 1, flush);
            let wanted = if below == without {
                WcStatus::RemAccessErr
            } else {
                WcStatus::Success
            };
            assert_eq!(pair.wait(0).status, wanted, "{kind:?}, {below:?}");
        }
    }
}

fn refuse_by(pair: &mut Pair, is_fast: bool, asked: Access, (placement, whole): (u8, bool), what: &str) {
    let mut qps = pair.more_qps(cap(), &path(Mtu::Bytes1024));
    let made = Made::of(pair, &mut qps[1], is_fast, asked);
    let (remote_addr, rkey) = made.place(pair);
    let bytes = pair.expected(0, 77, 300);
    pair.expect(1, 0, &bytes);
    let sges = [pair.mrs[0].sge(77, 300)];
    let write = SendOp::RdmaWrite { remote_addr, rkey };
    assert_eq!(
        run(pair, 0, &mut qps[0], write, &sges),
        WcStatus::Success,
        "{what}"
    );
    let flush = Flush {
        remote_addr,
        rkey,
        length: 300,
        placement,
        whole_region: whole,
    };
    let status = run(pair, 0, &mut qps[0], SendOp::Flush(flush), &[]);
    assert_eq!(status, WcStatus::RemAccessErr, "{what}");
    pair.rig.run(5_000);
    assert_eq!(qps[1].query().unwrap().qp_state, QpState::Err, "{what}");
    pair.check_memory(what);
}

/// The last byte, no byte at the end, and all: what is just not refused. A region whose only right it is: it needs none
/// to write or to read.
#[test]
fn at_the_ends_of_a_region() {
    for kind in BOTH_LINKS {
        let rights = [ALL_RIGHTS, Access::FLUSH_GLOBAL];
        let mut pair = Pair::new(
            &RigConfig::new(79, kind),
            &path(Mtu::Bytes1024),
            REGION_BYTES,
            rights,
        );
        for (wr_id, flush) in [
            range(&pair, 1, 0, REGION_BYTES as u32),
            range(&pair, 1, REGION_BYTES - 1, 1),
            range(&pair, 1, REGION_BYTES, 0),
            range(&pair, 1, 0, 0),
            region(&pair, 1),
        ]
        .into_iter()
        .enumerate()
        {
            post(&mut pair, wr_id as u64, flush);
            flushed(&first(&mut pair), wr_id as u64);
        }
        let attr = pair.qps[1].query().unwrap();
        assert_eq!(attr.qp_access_flags.bits() & ALL_RIGHTS.bits(), ALL_RIGHTS.bits());
        let write = pair.write_to(1, 0);
        pair.post(0, 9, write, &[pair.mrs[0].sge(0, 8)]);
        assert_eq!(pair.wait(0).status, WcStatus::RemAccessErr);
        pair.check_memory("no right to write");
    }
}

/// XPORT-12: what no card need see.
#[test]
fn refused_when_posted() {
    let mut pair = pair_on(&RigConfig::new(80, LinkKind::Ethernet), &path(Mtu::Bytes1024));
    let good = range(&pair, 1, 0, 8);
    let opcode = SendOp::Flush(good).opcode();
    let wr = |flush, data| SendWr {
        wr_id: 1,
        op: SendOp::Flush(flush),
        flags: SendFlags::SIGNALED,
        data,
    };
    for placement in [0, 4, 5, 0x80] {
        let flush = Flush { placement, ..good };
        let error = pair.qps[0]
            .post_send(&[wr(flush, WrData::Sges(&[]))])
            .unwrap_err()
            .error;
        assert_eq!(error, PostError::BadPlacement { placement });
    }
    let sges = [pair.mrs[0].sge(0, 8)];
    let error = pair.qps[0]
        .post_send(&[wr(good, WrData::Sges(&sges))])
        .unwrap_err()
        .error;
    assert_eq!(error, PostError::DataNotAllowed { opcode });
    let error = pair.qps[0]
        .post_send(&[wr(good, WrData::Inline(&[0; 8]))])
        .unwrap_err()
        .error;
    assert_eq!(error, PostError::InlineNotAllowed);
    let [mut uc, _peer] = pair
        .rig
        .connect_as(Service::Uc, [cap(); 2], [false; 2], &path(Mtu::Bytes1024))
        .unwrap();
    let error = uc.post_send(&[wr(good, WrData::Sges(&[]))]).unwrap_err().error;
    assert_eq!(error, PostError::NotForUnreliable { opcode });
    pair.check_traffic("after refusals");
}

/// A packet by hand from node 0.
fn by_hand(pair: &mut Pair, kind: LinkKind, psn: u32, (plt, sel): (u8, u8), payload: &[u8]) {
    let (va, rkey) = pair.remote(1, 0);
    let packet = Forged {
        link: forge::link(0, kind),
        opcode: Opcode::RcFlush,
        dest_qp: pair.qps[1].qp_num(),
        psn,
        pkey: 0xffff,
        ext: ExtHeaders {
            feth: Some(feth::Repr { resv26: 0, sel, plt }),
            reth: Some(reth::Repr { va, rkey, dma_len: 8 }),
            ..ExtHeaders::default()
        },
        payload,
    };
    forge::send(&mut pair.rig, 0, &packet);
    pair.rig.run(3_000);
}

/// Types and levels that there are not, and data, are invalid requests; so is a FLUSH in the midst of a message.
#[test]
fn malformed_by_hand() {
    for kind in BOTH_LINKS {
        for (how, payload) in [
            ((0, 0), 0),
            ((4, 0), 0),
            ((5, 0), 0),
            ((8, 1), 0),
            ((1, 2), 0),
            ((1, 3), 0),
            ((1, 0), 4),
            ((1, 1), 256),
        ] {
            let mut pair = pair_on(&RigConfig::new(81, kind), &path(Mtu::Bytes1024));
            by_hand(&mut pair, kind, 0, how, &vec![0xee; payload]);
            let state = pair.qps[1].query().unwrap().qp_state;
            // To the model, what may not have data and has some is no packet.
            let is_none = payload != 0 && Design::chosen() == Design::Model;
            let wanted = if is_none { QpState::Rts } else { QpState::Err };
            assert_eq!(state, wanted, "{kind:?}: {how:?}, {payload} bytes");
            pair.check_memory("by hand");
        }
        // And one that is right, and the next one.
        let mut pair = pair_on(&RigConfig::new(81, kind), &path(Mtu::Bytes1024));
        by_hand(&mut pair, kind, 0, (1, 1), &[]);
        assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Rts);
        by_hand(&mut pair, kind, 1, (1, 0), &[]);
        assert_eq!(pair.qps[1].query().unwrap().qp_state, QpState::Rts);
    }
}

/// REL-19: one that comes again is answered again, with what stands in the queue behind it untouched.
#[test]
fn requests_that_come_again() {
    for kind in BOTH_LINKS {
        let mut pair = pair_on(&RigConfig::new(82, kind), &path(Mtu::Bytes1024));
        for n in 0..20u64 {
            let flush = range(&pair, 1, 8 * n, 8);
            post(&mut pair, n, flush);
            flushed(&first(&mut pair), n);
        }
        for psn in [0, 3, 4, 19, 10, 19] {
            by_hand(&mut pair, kind, psn, (1, 0), &[]);
        }
        pair.check_memory("again");
        pair.check_traffic("after packets by hand");
    }
}

/// On XRC, too; the SRQ that it names must be there.
#[test]
fn on_xrc() {
    for kind in BOTH_LINKS {
        let mut bench = xrc::Bench::on(kind, 1, 1);
        let number = bench.number(0);
        let (remote_addr, rkey) = (bench.mrs[1].addr(), bench.mrs[1].rkey());
        let flush = SendOp::Flush(Flush {
            remote_addr,
            rkey,
            length: 100,
            placement: Flush::GLOBAL,
            whole_region: false,
        });
        bench.send_to(0, number, 1, flush, 0, 0);
        flushed(&bench.wait_sent_ok(1), 1);
        bench.send_to(0, number ^ 0x10, 2, flush, 0, 0);
        let wc = bench.wait_sent();
        assert_eq!((wc.wr_id, wc.status), (2, WcStatus::RemInvRdReqErr), "{kind:?}");
    }
}
