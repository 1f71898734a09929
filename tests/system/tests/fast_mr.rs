//! Fast registration (MEM-16, OP-11): work requests register and invalidate keys, on RC. Node 1 has the keys.

mod common;

use common::{BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{Dev, RigConfig, Rng, path};
use hca_verbs::{
    Access, FastMr, MAX_FAST_PAGES, MrOptions, Mtu, MwType, PageSize, QpState, RawQp, RecvWr, RegMr,
    SendFlags, SendOp, SendWr, Sge, WcOpcode, WcStatus, WorkCompletion, WrData, next_rkey,
};

const REGION_BYTES: u64 = 64 << 10;
/// First address of what is registered, but for the place in a page.
const BASE: u64 = 0x7700_0000_0000;
/// IBV_WC_WITH_INV.
const WITH_INV: u8 = 1 << 3;
const PAGES: u32 = 20;

type Qps = [RawQp<Dev>; 2];

fn pair_on(config: &RigConfig) -> Pair {
    let access = Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::MW_BIND.bits());
    Pair::new(config, &path(Mtu::Bytes1024), REGION_BYTES, [access; 2])
}

fn pair(seed: u64, link: LinkKind) -> Pair {
    pair_on(&RigConfig::new(seed, link))
}

fn more(pair: &Pair) -> Qps {
    pair.more_qps(cap(), &path(Mtu::Bytes1024))
}

fn wr(wr_id: u64, op: SendOp, sges: &[Sge]) -> SendWr<'_> {
    SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(sges),
    }
}

/// One work request, and how it ends.
fn run(pair: &Pair, node: usize, qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) -> WorkCompletion {
    qp.post_send(&[wr(7, op, sges)]).unwrap();
    pair.wait(node)
}

fn run_ok(pair: &Pair, node: usize, qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) -> WorkCompletion {
    let wc = run(pair, node, qp, op, sges);
    assert_eq!(wc.status, WcStatus::Success, "{op:?}");
    wc
}

fn key_of(pair: &Pair) -> FastMr<Dev> {
    pair.rig.nodes[1].pd.alloc_mr(PAGES).unwrap()
}

/// Operation that registers `len` bytes at `offset` of node 1's memory under the next key.
fn reg(pair: &Pair, mr: &mut FastMr<Dev>, offset: u64, len: u64, access: Access) -> SendOp {
    let buf = pair.memory[1].buf();
    let options = MrOptions {
        page_size: PageSize::KiB4,
        addr: Some(BASE + (buf.iova() + CANARY_BYTES + offset) % 4096),
        offset: (CANARY_BYTES + offset) as usize,
        length: Some(len as usize),
        ..MrOptions::new(access)
    };
    mr.reg_op(next_rkey(mr.key()), buf, &options).unwrap()
}

fn reg_of(op: SendOp) -> RegMr {
    match op {
        SendOp::RegMr(reg) => reg,
        other => panic!("{other:?}"),
    }
}

/// Node 0 writes `len` bytes through the key: they are at `at` of node 1's region, or nowhere.
fn writes(pair: &mut Pair, qp: &mut RawQp<Dev>, mr: &FastMr<Dev>, at: Option<u64>, len: u32, what: &str) {
    let (remote_addr, rkey) = (mr.addr(), mr.key());
    if let Some(at) = at {
        let bytes = pair.expected(0, 500, len);
        pair.expect(1, at, &bytes);
    }
    let wanted = match at {
        Some(_) => WcStatus::Success,
        None => WcStatus::RemAccessErr,
    };
    let sge = [pair.mrs[0].sge(500, len)];
    let wc = run(pair, 0, qp, SendOp::RdmaWrite { remote_addr, rkey }, &sge);
    assert_eq!(wc.status, wanted, "{what}");
    pair.check_memory(what);
}

/// MEM-16: free, registered, used by both ends in both directions, invalidated by its owner; registered again of other
/// memory, and invalidated by the peer.
#[test]
fn mem_16_registered_used_invalidated() {
    for link in BOTH_LINKS {
        let mut pair = pair(81, link);
        let mut mr = key_of(&pair);
        let mut qps = more(&pair);
        writes(&mut pair, &mut qps[0], &mr, None, 8, "free");
        qps = more(&pair);
        let op = reg(&pair, &mut mr, 5000, 30_000, LOCAL_AND_REMOTE);
        assert_eq!(run_ok(&pair, 1, &mut qps[1], op, &[]).opcode, WcOpcode::RegMr);
        let mut others = more(&pair);
        // A stale key.
        let (remote_addr, rkey) = (mr.addr(), mr.key() ^ 1);
        let sge = [pair.mrs[0].sge(0, 8)];
        let wc = run(
            &pair,
            0,
            &mut others[0],
            SendOp::RdmaWrite { remote_addr, rkey },
            &sge,
        );
        assert_eq!(wc.status, WcStatus::RemAccessErr);
        writes(&mut pair, &mut qps[0], &mr, Some(5000), 29_000, "registered");
        // READ of the peer, SEND from it, and a receive into it.
        let bytes = pair.expected(1, 5000 + 777, 20_000);
        pair.expect(0, 40_000, &bytes);
        let (remote_addr, rkey) = (mr.addr() + 777, mr.key());
        let sge = [pair.mrs[0].sge(40_000, 20_000)];
        run_ok(
            &pair,
            0,
            &mut qps[0],
            SendOp::RdmaRead { remote_addr, rkey },
            &sge,
        );
        let (into, from) = ([pair.mrs[0].sge(0, 9000)], [mr.sge(1, 9000)]);
        qps[0]
            .post_recv(&[RecvWr {
                wr_id: 1,
                sges: &into,
            }])
            .unwrap();
        let bytes = pair.expected(1, 5001, 9000);
        pair.expect(0, 0, &bytes);
        run_ok(&pair, 1, &mut qps[1], SendOp::Send, &from);
        pair.wait_ok(0, 1);
        pair.check_memory("both directions");
        assert_eq!(
            run_ok(&pair, 1, &mut qps[1], mr.inv_op(), &[]).opcode,
            WcOpcode::LocalInv
        );
        writes(&mut pair, &mut qps[0], &mr, None, 8, "invalidated");
        qps = more(&pair);
        let op = reg(&pair, &mut mr, 100, 50_000, LOCAL_AND_REMOTE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        writes(&mut pair, &mut qps[0], &mr, Some(100), 50_000, "other memory");
        qps[1].post_recv(&[RecvWr { wr_id: 2, sges: &[] }]).unwrap();
        let invalidate_rkey = mr.key();
        run_ok(
            &pair,
            0,
            &mut qps[0],
            SendOp::SendWithInv { invalidate_rkey },
            &[],
        );
        let wc = pair.wait_ok(1, 2);
        assert_eq!((wc.wc_flags & WITH_INV, wc.imm_data), (WITH_INV, invalidate_rkey));
        writes(&mut pair, &mut qps[0], &mr, None, 8, "invalidated by the peer");
        pair.check_traffic("others");
        mr.destroy().unwrap();
    }
}

/// OP-11: in one list of a queue: registered, used by what is behind it, invalidated when that is done, and registered
/// of other memory. MEM-16: a READ into it, too: the transfer first, then the invalidation.
#[test]
fn op_11_in_order_on_its_queue() {
    for (seed, loss) in [(82, 0.0), (83, 0.03)] {
        for link in BOTH_LINKS {
            let faults = FaultSpec {
                loss,
                dup: loss,
                reorder: loss,
                ..FaultSpec::default()
            };
            let config = RigConfig {
                faults,
                ..RigConfig::new(seed, link)
            };
            in_order(&config);
        }
    }
}

fn in_order(config: &RigConfig) {
    let mut pair = pair_on(config);
    let mut rng = Rng::new(config.seed, "order");
    let (mut mr, mut qps) = (key_of(&pair), more(&pair));
    for round in 0..12 {
        let (at, len) = (u64::from(rng.below(10_000)), 1 + rng.below(20_000));
        let first = reg(&pair, &mut mr, at, len.into(), LOCAL_AND_REMOTE);
        let (sent, free) = ([mr.sge(0, len)], mr.inv_op());
        let bytes = pair.expected(1, at, len);
        pair.expect(0, 0, &bytes);
        let (at, len) = (30_000 + u64::from(rng.below(10_000)), 1 + rng.below(20_000));
        let second = reg(&pair, &mut mr, at, len.into(), LOCAL_AND_REMOTE);
        let fetched = [mr.sge(0, len)];
        let bytes = pair.expected(0, 40_000, len);
        pair.expect(1, at, &bytes);
        let list = [
            wr(1, first, &[]),
            wr(2, pair.write_to(0, 0), &sent),
            wr(3, free, &[]),
            wr(4, second, &[]),
            wr(5, pair.read_from(0, 40_000), &fetched),
            wr(6, mr.inv_op(), &[]),
        ];
        qps[1].post_send(&list).unwrap();
        let ends: Vec<_> = (0..6).map(|_| pair.wait(1)).collect();
        let ended: Vec<_> = ends.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        let wanted: Vec<_> = (1..7).map(|wr_id| (wr_id, WcStatus::Success)).collect();
        assert_eq!(ended, wanted, "round {round}");
        pair.check_memory(&format!("{config:?}, round {round}"));
    }
    let wc = run(&pair, 1, &mut qps[1], SendOp::Send, &[mr.sge(0, 1)]);
    assert_eq!(wc.status, WcStatus::LocProtErr, "the key is free");
}

/// Keys that are registered of other memory again and again, with other traffic: each use meets the memory of its time.
fn turns(seed: u64, link: LinkKind, count: u32) {
    const KEYS: usize = 8;
    const LEN: u32 = 4096;
    let mut pair = pair(seed, link);
    let mut rng = Rng::new(seed, "turns");
    let mut keys: Vec<_> = (0..KEYS).map(|_| (more(&pair), key_of(&pair))).collect();
    let mut noise = more(&pair);
    let rights = Access::from_bits(LOCAL_AND_REMOTE.bits());
    for round in 0..count / KEYS as u32 {
        let mut places = Vec::new();
        for (number, (qps, mr)) in keys.iter_mut().enumerate() {
            // Parts of its own of both memories; the region begins anywhere in its part.
            let part = 8192 * number as u64;
            let (at, len) = (part + u64::from(rng.below(4096)), 1 + rng.below(LEN));
            let op = reg(&pair, mr, at, len.into(), rights);
            let bytes = pair.expected(1, at, len);
            pair.expect(0, part + 4096, &bytes);
            let sges = [mr.sge(0, len)];
            let unsignaled = SendWr {
                flags: SendFlags::default(),
                ..wr(0, op, &[])
            };
            let write = wr(7, pair.write_to(0, part + 4096), &sges);
            qps[1].post_send(&[unsignaled, write]).unwrap();
            places.push((part, at, len));
        }
        for _ in 0..KEYS {
            pair.wait_ok(1, 7);
        }
        let source = [pair.mrs[0].sge(0, 2000)];
        let noise_op = pair.write_to(1, 65_536 - 2100);
        let bytes = pair.expected(0, 0, 2000);
        // Behind the last key's part.
        if places[KEYS - 1].1 + u64::from(places[KEYS - 1].2) <= 65_536 - 2100 {
            pair.expect(1, 65_536 - 2100, &bytes);
            noise[0].post_send(&[wr(7, noise_op, &source)]).unwrap();
            pair.wait_ok(0, 7);
        }
        for ((qps, mr), (part, at, len)) in keys.iter_mut().zip(&places) {
            let bytes = pair.expected(0, part + u64::from(round % 8), *len);
            pair.expect(1, *at, &bytes);
            let sges = [pair.mrs[0].sge(part + u64::from(round % 8), *len)];
            let (remote_addr, rkey) = (mr.addr(), mr.key());
            qps[1].post_recv(&[RecvWr { wr_id: 8, sges: &[] }]).unwrap();
            let write = wr(7, SendOp::RdmaWrite { remote_addr, rkey }, &sges);
            let last = match (round + (*part / 8192) as u32) % 2 {
                0 => SendOp::SendWithInv {
                    invalidate_rkey: rkey,
                },
                _ => SendOp::Send,
            };
            qps[0].post_send(&[write, wr(7, last, &[])]).unwrap();
        }
        for _ in 0..KEYS {
            pair.wait_ok(0, 7);
            pair.wait_ok(0, 7);
            pair.wait_ok(1, 8);
        }
        for ((qps, mr), (part, ..)) in keys.iter_mut().zip(&places) {
            if (round + (part / 8192) as u32) % 2 == 1 {
                qps[1].post_send(&[wr(7, mr.inv_op(), &[])]).unwrap();
                pair.wait_ok(1, 7);
            }
        }
        pair.check_memory(&format!("{link:?}, round {round}"));
    }
    let (mut qps, mr) = keys.remove(0);
    writes(&mut pair, &mut qps[0], &mr, None, 8, "the last key");
}

/// MEM-16, KEY-30.
#[test]
fn mem_16_two_thousand_turns() {
    for link in BOTH_LINKS {
        turns(83, link, 1000);
    }
}

/// The same, 10,000 turns, half of them on each link.
#[test]
#[ignore = "minutes: part of make soak"]
fn soak_of_mem_16_ten_thousand_turns() {
    for link in BOTH_LINKS {
        turns(84, link, 5000);
    }
}

/// MEM-16: what registers nothing: MW_BIND_ERR, the QP is in error, and the key is as it was.
#[test]
fn mem_16_refused_registrations() {
    for link in BOTH_LINKS {
        let mut pair = pair(85, link);
        let other_pd = pair.rig.nodes[1].context.alloc_pd().unwrap();
        let foreign = other_pd.alloc_mr(PAGES).unwrap();
        let window = pair.rig.nodes[1].pd.alloc_mw(MwType::Two).unwrap();
        let gone = key_of(&pair).key();
        let mut busy = key_of(&pair);
        let mut qps = more(&pair);
        let op = reg(&pair, &mut busy, 0, 64, LOCAL_AND_REMOTE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        let plain = pair.mrs[1].lkey();
        type Spoil<'a> = &'a dyn Fn(&mut RegMr);
        let cases: [(&str, Spoil<'_>); 20] = [
            ("a key that is registered", &|r| r.key = busy.key()),
            ("by another key", &|r| r.key = next_rkey(busy.key())),
            ("a region of a command", &|r| r.key = plain),
            ("a window", &|r| r.key = window.rkey()),
            ("another domain", &|r| r.key = foreign.key()),
            ("a key that is gone", &|r| r.key = gone),
            ("row 0", &|r| r.key = 1),
            ("a row behind the table", &|r| r.key |= 0x0fff_0000),
            ("a key of another function", &|r| r.key ^= 1 << 28),
            ("no bytes", &|r| r.length = 0),
            ("a page too many", &|r| r.length = u64::from(PAGES) * 4096 + 1),
            ("more than there is", &|r| r.length = u64::MAX),
            ("pages that would count as few", &|r| r.length = 1 << 48 | 1),
            ("over the end of addresses", &|r| r.addr = u64::MAX - 100),
            ("pages too small", &|r| r.page_shift = 11),
            ("pages too large", &|r| r.page_shift = 31),
            ("one range", &|r| r.page_shift = 63),
            ("a list that is not aligned", &|r| r.page_list_addr += 8),
            ("windows on it", &|r| r.access |= Access::MW_BIND.bits()),
            ("WRITEs without LOCAL_WRITE", &|r| {
                r.access &= !Access::LOCAL_WRITE.bits()
            }),
        ];
        let mut mr = key_of(&pair);
        for (what, spoil) in cases {
            let mut qps = more(&pair);
            let mut how = reg_of(reg(&pair, &mut mr, 3000, 5000, LOCAL_AND_REMOTE));
            spoil(&mut how);
            let wc = run(&pair, 1, &mut qps[1], SendOp::RegMr(how), &[]);
            assert_eq!(wc.status, WcStatus::MwBindErr, "{link:?}: {what}");
            assert_eq!(qps[1].query().unwrap().qp_state, QpState::Err, "{what}");
        }
        // Nothing has changed: it is free, and can be had; and what was registered works.
        let op = reg(&pair, &mut mr, 3000, 5000, LOCAL_AND_REMOTE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        writes(&mut pair, &mut qps[0], &mr, Some(3000), 5000, "not refused");
        writes(
            &mut pair,
            &mut qps[0],
            &busy,
            Some(0),
            64,
            "registered all the time",
        );
        pair.check_traffic("others");
    }
}

/// MEM-16, KEY-30: keys that nobody invalidates by a work request: free ones, stale ones, those of commands and of
/// other domains; and by a SEND none that gives its peer no right.
#[test]
fn mem_16_refused_invalidations() {
    for link in BOTH_LINKS {
        let mut pair = pair(86, link);
        let other_pd = pair.rig.nodes[1].context.alloc_pd().unwrap();
        let foreign = other_pd.alloc_mr(PAGES).unwrap();
        let (mut mr, mut local, free) = (key_of(&pair), key_of(&pair), key_of(&pair));
        let mut qps = more(&pair);
        let op = reg(&pair, &mut mr, 0, 64, LOCAL_AND_REMOTE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        let op = reg(&pair, &mut local, 64, 64, Access::LOCAL_WRITE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        let cases = [
            ("free", free.key()),
            ("stale", mr.key() ^ 1),
            ("of a command", pair.mrs[1].lkey()),
            ("of another domain", foreign.key()),
            ("none", 0),
        ];
        for (what, invalidate_rkey) in cases {
            let mut qps = more(&pair);
            let wc = run(&pair, 1, &mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
            assert_eq!(wc.status, WcStatus::MwBindErr, "{what}");
        }
        for (what, invalidate_rkey) in cases.into_iter().chain([("without rights", local.key())]) {
            let mut qps = more(&pair);
            qps[1].post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
            let wc = run(
                &pair,
                0,
                &mut qps[0],
                SendOp::SendWithInv { invalidate_rkey },
                &[],
            );
            assert_eq!(wc.status, WcStatus::RemAccessErr, "{what}");
            assert_eq!(pair.wait(1).status, WcStatus::WrFlushErr, "{what}");
        }
        writes(&mut pair, &mut qps[0], &mr, Some(0), 64, "as it was");
        // Any queue of the domain, and one that has not registered it.
        let mut other = more(&pair);
        run_ok(&pair, 1, &mut other[1], local.inv_op(), &[]);
        run_ok(&pair, 1, &mut other[1], mr.inv_op(), &[]);
        writes(&mut pair, &mut qps[0], &mr, None, 64, "invalidated");
    }
}

/// What the driver says at once: too many pages, another row's key, a page list that is in use.
#[test]
fn what_the_driver_refuses() {
    let pair = pair(87, LinkKind::Ethernet);
    let pd = &pair.rig.nodes[1].pd;
    for pages in [0, MAX_FAST_PAGES + 1] {
        let error = pd.alloc_mr(pages).unwrap_err().to_string();
        assert!(
            error.contains(&pages.to_string()) && error.contains("65536"),
            "{error}"
        );
    }
    let (mut mr, mut qps) = (pd.alloc_mr(2).unwrap(), more(&pair));
    let buf = pair.memory[1].buf();
    let options = |len| MrOptions {
        addr: Some(BASE + buf.iova() % 4096),
        length: Some(len),
        ..MrOptions::new(LOCAL_AND_REMOTE)
    };
    let error = mr.reg_op(mr.key(), buf, &options(8193)).unwrap_err().to_string();
    assert!(error.contains("3 pages") && error.contains("1 to 2"), "{error}");
    let error = mr
        .reg_op(mr.key() ^ 256, buf, &options(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("low byte"), "{error}");
    let op = mr.reg_op(next_rkey(mr.key()), buf, &options(8192)).unwrap();
    run_ok(&pair, 1, &mut qps[1], op, &[]);
    let key = mr.key();
    mr.reg_op(next_rkey(key), buf, &options(1)).unwrap();
    let error = mr
        .reg_op(next_rkey(key), buf, &options(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("until it has been invalidated"), "{error}");
    run_ok(
        &pair,
        1,
        &mut qps[1],
        SendOp::LocalInv { invalidate_rkey: key },
        &[],
    );
    mr.reg_op(next_rkey(key), buf, &options(1)).unwrap();
    mr.destroy().unwrap();
    assert!(mr.destroy().is_err() && mr.reg_op(key, buf, &options(1)).is_err());
}

/// KEY-31: a key goes while it is registered, and while work requests of it are under way; its row serves others, and
/// the table grows under those that are there.
#[test]
fn keys_end_and_outlive_a_table() {
    for link in BOTH_LINKS {
        let mut pair = pair(88, link);
        let mut rng = Rng::new(88, "ends");
        let (mut kept, mut qps) = (key_of(&pair), more(&pair));
        let op = reg(&pair, &mut kept, 9000, 9000, LOCAL_AND_REMOTE);
        run_ok(&pair, 1, &mut qps[1], op, &[]);
        for _ in 0..12u32 {
            let (mut mr, mut qps) = (key_of(&pair), more(&pair));
            let op = reg(&pair, &mut mr, 0, 9000, LOCAL_AND_REMOTE);
            qps[1].post_send(&[wr(7, op, &[])]).unwrap();
            pair.rig.run(u64::from(rng.below(1500)));
            mr.destroy().unwrap();
            while pair.rig.nodes[1].poll().unwrap().is_none() {}
            let mut qps = more(&pair);
            writes(&mut pair, &mut qps[0], &mr, None, 8, "gone");
        }
        let mut many = Vec::new();
        for _ in 0..1100 {
            many.push(pair.rig.nodes[1].pd.alloc_mr(1).unwrap());
        }
        writes(
            &mut pair,
            &mut qps[0],
            &kept,
            Some(9000),
            9000,
            "in the new table",
        );
        run_ok(&pair, 1, &mut qps[1], kept.inv_op(), &[]);
        writes(&mut pair, &mut qps[0], &kept, None, 8, "invalidated there");
    }
}

/// What an operation costs on an idle card, from the post to its completion.
/// `cargo test ... what_operations_cost -- --nocapture` prints it.
#[test]
fn what_operations_cost() {
    for link in BOTH_LINKS {
        let pair = pair(89, link);
        let (mut mr, mut qps) = (key_of(&pair), more(&pair));
        let mut costs = Vec::new();
        for _ in 0..3 {
            let op = reg(&pair, &mut mr, 0, 60_000, LOCAL_AND_REMOTE);
            let start_ns = pair.rig.now_ns();
            run_ok(&pair, 1, &mut qps[1], op, &[]);
            let middle_ns = pair.rig.now_ns();
            run_ok(&pair, 1, &mut qps[1], mr.inv_op(), &[]);
            costs.push((middle_ns - start_ns, pair.rig.now_ns() - middle_ns));
        }
        println!("{link:?}: register, invalidate {costs:?} ns");
        assert!(
            costs
                .iter()
                .all(|(register, invalidate)| register.max(invalidate) < &20_000)
        );
    }
}
