//! Memory windows and invalidation (MEM-13 to MEM-16, OP-11, KEY-30, V-135 to V-139) on RC. Node 1 has the memory and
//! the windows, node 0 uses them.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap, many};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{Dev, Node, Place, RigConfig, Rng, path};
use hca_verbs::{
    Access, Mr, Mtu, Mw, MwBind, MwType, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, Service, Sge,
    WcOpcode, WcStatus, WorkCompletion, WrData, next_rkey,
};

const REGION_BYTES: u64 = 64 << 10;
const BINDABLE: Access =
    Access::from_bits(LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::MW_BIND.bits());
/// Where windows are in the region: a multiple of 8 in memory, though the region is none.
const AT: u64 = (16 << 10) + 8 - common::CANARY_BYTES % 8;
const BYTES: u64 = 5000;
/// IBV_WC_WITH_INV.
const WITH_INV: u8 = 1 << 3;
const TYPES: [MwType; 2] = [MwType::One, MwType::Two];

type Qps = [RawQp<Dev>; 2];

fn pair_on(config: &RigConfig) -> Pair {
    Pair::new(config, &path(Mtu::Bytes1024), REGION_BYTES, [BINDABLE; 2])
}

fn pair(seed: u64, link: LinkKind) -> Pair {
    pair_on(&RigConfig::new(seed, link))
}

fn more(pair: &Pair) -> Qps {
    pair.more_qps(cap(), &path(Mtu::Bytes1024))
}

fn post(qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) {
    let wr = SendWr {
        wr_id: 7,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(sges),
    };
    qp.post_send(&[wr]).unwrap();
}

/// One work request, and how it ends.
fn run(pair: &Pair, node: usize, qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) -> WorkCompletion {
    post(qp, op, sges);
    pair.wait(node)
}

fn run_ok(pair: &Pair, node: usize, qp: &mut RawQp<Dev>, op: SendOp, sges: &[Sge]) -> WorkCompletion {
    let wc = run(pair, node, qp, op, sges);
    assert_eq!(wc.status, WcStatus::Success, "{op:?}");
    wc
}

/// All rights to `BYTES` bytes at `AT`, under the window's next key.
fn whole(mw: &Mw<Dev>, mr: &Mr<Dev>) -> MwBind {
    bind_of(mw.bind_op(next_rkey(mw.rkey()), mr, mr.addr() + AT, BYTES, all()))
}

fn all() -> Access {
    Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

fn bind_of(op: SendOp) -> MwBind {
    match op {
        SendOp::BindMw(bind) => bind,
        other => panic!("{other:?}"),
    }
}

/// Binds a window through a QP of node 1; its key from then on.
fn bind(pair: &Pair, qp: &mut RawQp<Dev>, mw: &mut Mw<Dev>, bind: MwBind) -> u32 {
    let wc = run_ok(pair, 1, qp, SendOp::BindMw(bind), &[]);
    assert_eq!(wc.opcode, WcOpcode::BindMw);
    mw.set_rkey(bind.rkey);
    bind.rkey
}

fn window(pair: &Pair, kind: MwType) -> Mw<Dev> {
    pair.rig.nodes[1].pd.alloc_mw(kind).unwrap()
}

/// A window of node 1 that is bound through `qp` to all of its place.
fn bound(pair: &Pair, qp: &mut RawQp<Dev>, kind: MwType) -> Mw<Dev> {
    let mut mw = window(pair, kind);
    let how = whole(&mw, &pair.mrs[1]);
    bind(pair, qp, &mut mw, how);
    mw
}

/// A WRITE of 8 bytes of node 0 through a key at `addr`, and how it ends.
fn write8(pair: &Pair, qp: &mut RawQp<Dev>, rkey: u32, remote_addr: u64) -> WcStatus {
    let sge = [pair.mrs[0].sge(0, 8)];
    run(pair, 0, qp, SendOp::RdmaWrite { remote_addr, rkey }, &sge).status
}

/// Node 0 writes 8 bytes to the window's place: they arrive, if the key is good.
fn writes(pair: &mut Pair, qp: &mut RawQp<Dev>, rkey: u32, is_good: bool, what: &str) {
    let bytes = pair.expected(0, 0, 8);
    if is_good {
        pair.expect(1, AT, &bytes);
    }
    let wanted = if is_good {
        WcStatus::Success
    } else {
        WcStatus::RemAccessErr
    };
    assert_eq!(write8(pair, qp, rkey, pair.mrs[1].addr() + AT), wanted, "{what}");
    pair.check_memory(what);
}

fn to_err(qp: &mut RawQp<Dev>) {
    assert_eq!(qp.query().unwrap().qp_state, QpState::Err);
}

/// OP-11, V-135, V-136: bound, used, invalidated; bound again with another key, and invalidated by the peer.
#[test]
fn op_11_bound_used_invalidated() {
    for link in BOTH_LINKS {
        let mut pair = pair(61, link);
        let mut qps = more(&pair);
        let mut mw = bound(&pair, &mut qps[1], MwType::Two);
        let first = mw.rkey();
        writes(&mut pair, &mut qps[0], first, true, "bound");
        let wc = run_ok(
            &pair,
            1,
            &mut qps[1],
            SendOp::LocalInv {
                invalidate_rkey: first,
            },
            &[],
        );
        assert_eq!(wc.opcode, WcOpcode::LocalInv);
        let how = whole(&mw, &pair.mrs[1]);
        let second = bind(&pair, &mut qps[1], &mut mw, how);
        writes(&mut pair, &mut qps[0], second, true, "bound again");
        // V-137, V-180: invalid before the receive completes.
        let target = [pair.mrs[1].sge(0, 3000)];
        qps[1]
            .post_recv(&[RecvWr {
                wr_id: 9,
                sges: &target,
            }])
            .unwrap();
        let bytes = pair.expected(0, 100, 3000);
        pair.expect(1, 0, &bytes);
        let source = [pair.mrs[0].sge(100, 3000)];
        let op = SendOp::SendWithInv {
            invalidate_rkey: second,
        };
        assert_eq!(run_ok(&pair, 0, &mut qps[0], op, &source).opcode, WcOpcode::Send);
        let wc = pair.wait_ok(1, 9);
        assert_eq!((wc.opcode, wc.byte_len), (WcOpcode::Recv, 3000));
        assert_eq!((wc.wc_flags & WITH_INV, wc.imm_data), (WITH_INV, second));
        pair.check_memory("SEND with invalidate");
        writes(&mut pair, &mut qps[0], second, false, "invalidated by the peer");
        to_err(&mut qps[1]);
        pair.check_traffic("others");
    }
}

/// One way to use a window: 8 bytes at its start.
#[derive(Clone, Copy, Debug)]
enum Use {
    Write,
    Read,
    Add,
}

/// MEM-13, MEM-14, V-139: every set of rights, both types, from the region's addresses and from 0: what was granted is
/// done, what was not is not, with a window of pages as well as a direct one.
#[test]
fn mem_13_rights() {
    for link in BOTH_LINKS {
        let mut pair = pair(62, link);
        let mut rng = Rng::new(62, "rights");
        for rights in 0..8u32 {
            let kind = rng.pick(&TYPES);
            let zero_based = rng.percent(50);
            let uses = [Use::Write, Use::Read, Use::Add];
            for (bit, how) in uses.into_iter().enumerate() {
                let mut qps = more(&pair);
                let mut mw = window(&pair, kind);
                let mut to = whole(&mw, &pair.mrs[1]);
                to.access = rights << 1 | if zero_based { Access::ZERO_BASED.bits() } else { 0 };
                let rkey = bind(&pair, &mut qps[1], &mut mw, to);
                let remote_addr = if zero_based { 0 } else { to.addr };
                let sge = [pair.mrs[0].sge(8, 8)];
                let op = match how {
                    Use::Write => SendOp::RdmaWrite { remote_addr, rkey },
                    Use::Read => SendOp::RdmaRead { remote_addr, rkey },
                    Use::Add => SendOp::AtomicFetchAndAdd {
                        remote_addr,
                        rkey,
                        add: 3,
                    },
                };
                let may = rights >> bit & 1 == 1;
                let before = pair.expected(1, AT, 8);
                match (may, how) {
                    (false, _) => {}
                    (true, Use::Write) => {
                        let bytes = pair.expected(0, 8, 8);
                        pair.expect(1, AT, &bytes);
                    }
                    (true, Use::Read) => pair.expect(0, 8, &before),
                    (true, Use::Add) => {
                        let sum = u64::from_le_bytes(before.clone().try_into().unwrap()).wrapping_add(3);
                        pair.expect(0, 8, &before);
                        pair.expect(1, AT, &sum.to_le_bytes());
                    }
                }
                let wanted = if may {
                    WcStatus::Success
                } else {
                    WcStatus::RemAccessErr
                };
                let what = format!("{link:?}, {kind:?}, rights {rights:03b}, {how:?}, from 0: {zero_based}");
                assert_eq!(run(&pair, 0, &mut qps[0], op, &sge).status, wanted, "{what}");
                pair.check_memory(&what);
            }
        }
    }
}

/// Rights end at the first and last byte of the window, in any pages; windows overlap, and outlive each other.
#[test]
fn mem_13_bounds_and_pages() {
    for link in BOTH_LINKS {
        let mut pair = pair(63, link);
        let mut rng = Rng::new(63, "bounds");
        // The same memory once more, by pages: its addresses end as those of the bus.
        let place = Place {
            offset: common::CANARY_BYTES,
            len: REGION_BYTES,
            page_size: hca_verbs::PageSize::KiB4,
            ..Place::whole(
                pair.memory[1].buf(),
                BINDABLE,
                0x5000_0000_0000 + pair.memory[1].buf().iova() % 4096,
            )
        };
        let paged = pair.rig.nodes[1].register(pair.memory[1].buf(), place).unwrap();
        for round in 0..24u32 {
            let is_paged = round % 2 == 1;
            let (addr, lkey) = if is_paged {
                (paged.addr(), paged.lkey())
            } else {
                (pair.mrs[1].addr(), pair.mrs[1].lkey())
            };
            let (offset, length) = (u64::from(rng.below(30_000)), u64::from(1 + rng.below(20_000)));
            let mut qps = more(&pair);
            let mut mw = window(&pair, rng.pick(&TYPES));
            let to = bind_of(mw.bind_to(next_rkey(mw.rkey()), lkey, addr + offset, length, all()));
            let rkey = bind(&pair, &mut qps[1], &mut mw, to);
            let (from, to) = (rng.below(length as u32), rng.below(length as u32));
            let (first, last) = (u64::from(from.min(to)), u64::from(from.max(to)));
            let len = (last - first + 1) as u32;
            let bytes = pair.expected(0, 0, len);
            pair.expect(1, offset + first, &bytes);
            let remote_addr = addr + offset + first;
            let sge = [pair.mrs[0].sge(0, len)];
            run_ok(
                &pair,
                0,
                &mut qps[0],
                SendOp::RdmaWrite { remote_addr, rkey },
                &sge,
            );
            pair.check_memory(&format!("{link:?}, round {round}"));
            // All of it, and a byte more at either end.
            let (early, late) = (u64::from(round % 4 > 1), u64::from(round % 4 <= 1));
            let op = SendOp::RdmaWrite {
                remote_addr: addr + offset - early,
                rkey,
            };
            let sge = [pair.mrs[0].sge(0, (length + early + late) as u32)];
            assert_eq!(
                run(&pair, 0, &mut qps[0], op, &sge).status,
                WcStatus::RemAccessErr,
                "round {round}"
            );
            pair.check_memory(&format!("{link:?}, round {round}, one byte more"));
        }
    }
}

/// What a bind can ask for and must not get (MEM-14, V-136): MW_BIND_ERR, the QP is in error, and what was bound stays so.
#[test]
fn mem_14_refused_binds() {
    for link in BOTH_LINKS {
        let mut pair = pair(64, link);
        let node = &pair.rig.nodes[1];
        let (buf, other_pd) = (pair.memory[1].buf().clone(), node.context.alloc_pd().unwrap());
        let region = |pd: &hca_verbs::Pd<Dev>, access| {
            let place = Place {
                offset: common::CANARY_BYTES,
                len: REGION_BYTES,
                ..Place::whole(&buf, access, common::BASES[1])
            };
            node.register_in(pd, &buf, place).unwrap()
        };
        let closed = region(&node.pd, LOCAL_AND_REMOTE);
        let read_only = region(&node.pd, Access::REMOTE_READ | Access::MW_BIND);
        let foreign = region(&other_pd, BINDABLE);
        let gone = {
            let mr = region(&node.pd, BINDABLE);
            mr.lkey()
        };
        let other_window = other_pd.alloc_mw(MwType::One).unwrap().rkey();
        let end = pair.mrs[1].addr() + REGION_BYTES;
        type Spoil<'a> = &'a dyn Fn(&mut MwBind);
        let cases: [(&str, Spoil<'_>); 15] = [
            ("no MW_BIND right", &|b| b.lkey = closed.lkey()),
            ("WRITE without LOCAL_WRITE", &|b| b.lkey = read_only.lkey()),
            ("a region of another domain", &|b| b.lkey = foreign.lkey()),
            ("a region that is gone", &|b| b.lkey = gone),
            ("a stale key of a region", &|b| b.lkey ^= 1),
            ("a window as region", &|b| b.lkey = b.rkey),
            ("no region", &|b| b.lkey = 0),
            ("a byte before", &|b| b.addr = pair.mrs[1].addr() - 1),
            ("a byte behind", &|b| (b.addr, b.length) = (end - 5, 6)),
            ("past the end of addresses", &|b| b.length = u64::MAX),
            ("a local right", &|b| b.access |= Access::LOCAL_WRITE.bits()),
            ("another right", &|b| b.access |= Access::MW_BIND.bits()),
            ("the other type", &|b| b.is_type_2 = !b.is_type_2),
            ("a window of another domain", &|b| {
                (b.rkey, b.is_type_2) = (other_window, false)
            }),
            ("a region as window", &|b| b.rkey = next_rkey(pair.mrs[1].rkey())),
        ];
        let mut refused = Vec::new();
        for (number, (what, spoil)) in cases.iter().enumerate() {
            let mut qps = more(&pair);
            let mw = window(&pair, TYPES[number % 2]);
            let mut to = whole(&mw, &pair.mrs[1]);
            spoil(&mut to);
            let wc = run(&pair, 1, &mut qps[1], SendOp::BindMw(to), &[]);
            assert_eq!(wc.status, WcStatus::MwBindErr, "{link:?}, {what}");
            to_err(&mut qps[1]);
            refused.push((qps, mw, to.rkey));
        }
        for (mut qps, _mw, rkey) in refused.drain(..4) {
            connect_again(&pair, &mut qps);
            writes(&mut pair, &mut qps[0], rkey, false, "never bound");
        }
        // Type 2 is bound once.
        let mut qps = more(&pair);
        let mw = bound(&pair, &mut qps[1], MwType::Two);
        let mut others = more(&pair);
        let again = whole(&mw, &pair.mrs[1]);
        let wc = run(&pair, 1, &mut others[1], SendOp::BindMw(again), &[]);
        assert_eq!(wc.status, WcStatus::MwBindErr);
        writes(&mut pair, &mut qps[0], mw.rkey(), true, "as it was");
        let wc = run(
            &pair,
            1,
            &mut qps[1],
            SendOp::BindMw(MwBind { length: 0, ..again }),
            &[],
        );
        assert_eq!(wc.status, WcStatus::MwBindErr, "type 2 of no bytes");
        pair.check_traffic("others");
    }
}

/// New lives of two QPs.
fn connect_again(pair: &Pair, qps: &mut Qps) {
    *qps = more(pair);
}

/// V-136, V-137: type 1 is bound over and over by any QP of its domain; the key before is worth nothing; 0 bytes end it.
#[test]
fn v_137_type_1_is_rebound() {
    for link in BOTH_LINKS {
        let mut pair = pair(65, link);
        let mut owners = more(&pair);
        let mut mw = bound(&pair, &mut owners[1], MwType::One);
        for round in 0..6 {
            let mut qps = more(&pair);
            let old = mw.rkey();
            writes(&mut pair, &mut qps[0], old, true, "any QP of the domain");
            let how = whole(&mw, &pair.mrs[1]);
            let new = bind(&pair, &mut qps[1], &mut mw, how);
            assert_ne!(new, old);
            writes(&mut pair, &mut qps[0], new, true, "the new key");
            writes(
                &mut pair,
                &mut qps[0],
                old,
                false,
                &format!("the old key, round {round}"),
            );
        }
        let how = MwBind {
            length: 0,
            lkey: 0,
            ..whole(&mw, &pair.mrs[1])
        };
        let last = bind(&pair, &mut owners[1], &mut mw, how);
        writes(&mut pair, &mut owners[0], last, false, "unbound");
        mw.destroy().unwrap();
        assert!(mw.destroy().is_err());
    }
}

/// KEY-30, type 2B: who may invalidate what. Refused: MW_BIND_ERR here, a NAK for remote access from there; the window
/// stays as it is for the QP that has it.
#[test]
fn key_30_refused_invalidations() {
    for link in BOTH_LINKS {
        let mut pair = pair(66, link);
        let mut owners = more(&pair);
        let mut mw = bound(&pair, &mut owners[1], MwType::Two);
        let type_1 = bound(&pair, &mut owners[1], MwType::One);
        let unbound = window(&pair, MwType::Two);
        let keys = [
            ("another QP's", mw.rkey()),
            ("stale", mw.rkey() ^ 1),
            ("type 1", type_1.rkey()),
            ("unbound", unbound.rkey()),
            ("a region", pair.mrs[1].rkey()),
            ("none", 0),
            ("of no function", u32::MAX),
        ];
        for (what, key) in keys {
            let mut qps = more(&pair);
            let wc = run(
                &pair,
                1,
                &mut qps[1],
                SendOp::LocalInv { invalidate_rkey: key },
                &[],
            );
            assert_eq!(wc.status, WcStatus::MwBindErr, "{link:?}, {what}");
            to_err(&mut qps[1]);
            let mut qps = more(&pair);
            let target = [pair.mrs[1].sge(0, 100)];
            qps[1]
                .post_recv(&[RecvWr {
                    wr_id: 5,
                    sges: &target,
                }])
                .unwrap();
            let source = [pair.mrs[0].sge(0, 100)];
            let wc = run(
                &pair,
                0,
                &mut qps[0],
                SendOp::SendWithInv { invalidate_rkey: key },
                &source,
            );
            assert_eq!(wc.status, WcStatus::RemAccessErr, "{link:?}, {what}");
            let wc = pair.wait(1);
            assert_eq!(
                (wc.status, wc.wr_id),
                (WcStatus::WrFlushErr, 5),
                "{link:?}, {what}"
            );
            // It was placed before the key was looked at.
            let bytes = pair.expected(0, 0, 100);
            pair.expect(1, 0, &bytes);
            pair.check_memory(what);
        }
        // The QP that has it can be used with it, others not.
        let mut strangers = more(&pair);
        writes(
            &mut pair,
            &mut strangers[0],
            mw.rkey(),
            false,
            "type 2B through another QP",
        );
        let mut strangers = more(&pair);
        let (remote_addr, rkey) = (pair.mrs[1].addr() + AT, mw.rkey());
        let sge = [pair.mrs[0].sge(0, 8)];
        let read = SendOp::RdmaRead { remote_addr, rkey };
        assert_eq!(
            run(&pair, 0, &mut strangers[0], read, &sge).status,
            WcStatus::RemAccessErr
        );
        writes(&mut pair, &mut owners[0], rkey, true, "as it was");
        // A window is no key for work requests of its owner.
        let local = [Sge {
            addr: remote_addr,
            length: 8,
            lkey: rkey,
        }];
        let op = pair.write_to(0, 0);
        assert_eq!(
            run(&pair, 1, &mut owners[1], op, &local).status,
            WcStatus::LocProtErr
        );
        mw.destroy().unwrap();
        pair.check_traffic("others");
    }
}

/// MEM-15: a region stays while a window is bound to it, and keeps its rights; then it goes.
#[test]
fn mem_15_dereg_while_bound() {
    for link in BOTH_LINKS {
        let mut pair = pair(67, link);
        let mut qps = more(&pair);
        for kind in TYPES {
            let place = Place::whole(pair.memory[1].buf(), BINDABLE, 0x7000_0000_0000);
            let mut mr = pair.rig.nodes[1].register(pair.memory[1].buf(), place).unwrap();
            let mut mw = window(&pair, kind);
            let addr = mr.addr() + common::CANARY_BYTES + AT;
            let to = bind_of(mw.bind_op(next_rkey(mw.rkey()), &mr, addr, 64, all()));
            let rkey = bind(&pair, &mut qps[1], &mut mw, to);
            let busy = |result: hca_verbs::Result<()>| assert_eq!(result.unwrap_err().errno(), 16);
            busy(mr.destroy());
            let pd = pair.rig.nodes[1].pd.clone();
            busy(mr.modify(&pd, LOCAL_AND_REMOTE));
            let bytes = pair.expected(0, 0, 8);
            pair.expect(1, AT, &bytes);
            assert_eq!(write8(&pair, &mut qps[0], rkey, addr), WcStatus::Success);
            match kind {
                MwType::One => mw.destroy().unwrap(),
                MwType::Two => {
                    run_ok(
                        &pair,
                        1,
                        &mut qps[1],
                        SendOp::LocalInv {
                            invalidate_rkey: rkey,
                        },
                        &[],
                    );
                }
            }
            mr.destroy().unwrap();
            pair.check_memory("region gone");
        }
    }
}

/// OP-11: WRITEs before a SEND with invalidate count, in one list of work requests; READs before it, too. What is behind
/// it on its QP comes through as well, once and in order, while other QPs go on.
#[test]
fn op_11_in_order_on_its_queue() {
    for link in BOTH_LINKS {
        in_order(&RigConfig::new(68, link), 12);
    }
}

/// The same with loss, copies and disorder: a copy of a SEND with invalidate invalidates nothing a second time.
#[test]
fn op_11_in_order_with_faults() {
    for link in BOTH_LINKS {
        for seed in 0..3 {
            let faults = FaultSpec {
                loss: 0.03,
                corrupt: 0.01,
                dup: 0.05,
                reorder: 0.05,
                ..FaultSpec::default()
            };
            let config = RigConfig {
                faults,
                ..RigConfig::new(690 + seed, link)
            };
            in_order(&config, 12);
        }
    }
}

/// Rounds of: bind, and the peer posts WRITE, READ, SEND with invalidate of it and a SEND at once; others in between.
fn in_order(config: &RigConfig, rounds: u32) {
    let is_lossy = config.faults.loss > 0.0;
    let mut pair = pair_on(config);
    let mut rng = Rng::new(config.seed, "order");
    let mut qps = more(&pair);
    let mut others = more(&pair);
    let mut mw = window(&pair, MwType::Two);
    for round in 0..rounds {
        let how = whole(&mw, &pair.mrs[1]);
        let rkey = bind(&pair, &mut qps[1], &mut mw, how);
        let remote_addr = how.addr;
        let (len, sent) = (1 + rng.below(BYTES as u32), rng.below(3000));
        let targets = [pair.mrs[1].sge(30_000, 3000), pair.mrs[1].sge(34_000, 3000)];
        for (number, target) in targets.iter().enumerate() {
            let sges = std::slice::from_ref(target);
            qps[1]
                .post_recv(&[RecvWr {
                    wr_id: 20 + number as u64,
                    sges,
                }])
                .unwrap();
        }
        let bytes = pair.expected(0, 0, len);
        pair.expect(1, AT, &bytes);
        let read = pair.expected(1, AT, len);
        pair.expect(0, 8000, &read);
        let message = pair.expected(0, 40_000, sent);
        pair.expect(1, 30_000, &message);
        pair.expect(1, 34_000, &message);
        let wr = |wr_id, op, sges| SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(sges),
        };
        let (source, back) = ([pair.mrs[0].sge(0, len)], [pair.mrs[0].sge(8000, len)]);
        let text = [pair.mrs[0].sge(40_000, sent)];
        let mut list = [
            wr(1, SendOp::RdmaWrite { remote_addr, rkey }, &source[..]),
            wr(2, SendOp::RdmaRead { remote_addr, rkey }, &back[..]),
            wr(
                3,
                SendOp::SendWithInv {
                    invalidate_rkey: rkey,
                },
                &text[..],
            ),
            wr(4, SendOp::Send, &text[..]),
        ];
        // A READ whose answer is lost comes again when its key is dead: so it is the sender's to wait for it (OP-13).
        list[2].flags.fence = is_lossy;
        let noise = [pair.mrs[0].sge(20_000, 4000)];
        let noise_op = pair.write_to(1, 50_000);
        let noise_bytes = pair.expected(0, 20_000, 4000);
        pair.expect(1, 50_000, &noise_bytes);
        for _ in 0..3 {
            post(&mut others[0], noise_op, &noise);
        }
        qps[0].post_send(&list).unwrap();
        let mut ends: Vec<_> = (0..7).map(|_| pair.wait(0)).collect();
        assert!(
            ends.iter().all(|wc| wc.status == WcStatus::Success),
            "round {round}: {ends:?}"
        );
        ends.retain(|wc| wc.qp_num == qps[0].qp_num());
        assert_eq!(ends.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let first = pair.wait_ok(1, 20);
        assert_eq!(
            (first.byte_len, first.wc_flags, first.imm_data),
            (sent, WITH_INV, rkey)
        );
        let second = pair.wait_ok(1, 21);
        assert_eq!((second.byte_len, second.wc_flags), (sent, 0));
        pair.check_memory(&format!("{config:?}, round {round}"));
    }
    // The one NAK may be lost: the QP that has sent it is in error.
    let status = write8(&pair, &mut qps[0], mw.rkey(), pair.mrs[1].addr() + AT);
    assert!(
        status == WcStatus::RemAccessErr || (is_lossy && status == WcStatus::RetryExcErr),
        "{status:?}"
    );
    pair.check_memory("the last key");
}

/// KEY-30: while a peer hammers a window, the owner invalidates it, locally or by being asked to. Nothing that was written
/// behind the completion is ever seen.
#[test]
fn key_30_nothing_is_in_flight_behind_the_completion() {
    for link in BOTH_LINKS {
        let mut pair = pair(70, link);
        let mut rng = Rng::new(70, "flight");
        for round in 0..8u32 {
            let kind = if round % 2 == 0 { MwType::Two } else { MwType::One };
            let mut owner = more(&pair);
            let mut mw = bound(&pair, &mut owner[1], kind);
            let rkey = mw.rkey();
            let remote_addr = pair.mrs[1].addr() + AT;
            let source = [pair.mrs[0].sge(u64::from(round) * 4000, 4000)];
            for _ in 0..12 {
                post(&mut owner[0], SendOp::RdmaWrite { remote_addr, rkey }, &source);
            }
            pair.rig.run(u64::from(100 + rng.below(3000)));
            let op = match kind {
                MwType::Two => SendOp::LocalInv {
                    invalidate_rkey: rkey,
                },
                MwType::One => SendOp::BindMw(MwBind {
                    length: 0,
                    ..whole(&mw, &pair.mrs[1])
                }),
            };
            // The peer's failures end this QP, too, if they come first.
            let status = run(&pair, 1, &mut owner[1], op, &[]).status;
            if status != WcStatus::Success {
                assert_eq!(status, WcStatus::WrFlushErr);
                mw.destroy().unwrap();
            }
            let at = (common::CANARY_BYTES + AT) as usize;
            let look = |pair: &Pair| {
                let mut bytes = vec![0; 4000];
                pair.memory[1].buf().read_bytes(at, &mut bytes);
                bytes
            };
            let seen = look(&pair);
            pair.rig.run(40_000);
            assert!(
                look(&pair) == seen,
                "round {round}: written behind the completion"
            );
            pair.expect(1, AT, &seen);
            pair.check_memory(&format!("{link:?}, round {round}"));
            let ends: Vec<_> = (0..12).map(|_| pair.wait(0).status).collect();
            let good = ends.iter().take_while(|s| **s == WcStatus::Success).count();
            assert!(
                good == 12 || ends[good] == WcStatus::RemAccessErr,
                "round {round}: {ends:?}"
            );
        }
    }
}

/// D15: another function of the card can neither bind nor invalidate what is not its own, nor reach memory by a row that
/// it has written itself.
#[test]
fn d_15_a_neighbour_binds_and_invalidates_nothing() {
    for link in BOTH_LINKS {
        let mut pair = pair(71, link);
        let mut qps = more(&pair);
        let mw = bound(&pair, &mut qps[1], MwType::Two);
        let open =
            |node: usize| Node::open(pair.rig.sim.device(pair.rig.cards[node], 1).unwrap(), 64).unwrap();
        let (peer, intruder) = (open(0), open(1));
        let own = intruder.alloc(4096).unwrap();
        let mr = intruder.pd.reg_mr(&own, BINDABLE).unwrap();
        let victim = pair.mrs[1].lkey();
        let mut mine = intruder.pd.alloc_mw(MwType::Two).unwrap();
        let good = bind_of(mine.bind_op(next_rkey(mine.rkey()), &mr, mr.addr(), 64, all()));
        let ops = [
            (
                "their window",
                SendOp::LocalInv {
                    invalidate_rkey: mw.rkey(),
                },
            ),
            (
                "their window, bound",
                SendOp::BindMw(MwBind {
                    rkey: next_rkey(mw.rkey()),
                    ..good
                }),
            ),
            (
                "their region",
                SendOp::BindMw(MwBind {
                    lkey: victim,
                    addr: pair.mrs[1].addr(),
                    ..good
                }),
            ),
        ];
        let fresh = || {
            let mut qps = [&peer, &intruder].map(|node| node.create_qp(cap(), false).unwrap());
            hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            qps
        };
        let end_of = |node: &Node| {
            let end_ns = pair.rig.now_ns() + common::LIMIT_NS;
            loop {
                if let Some(wc) = node.poll().unwrap() {
                    return wc.status;
                }
                assert!(pair.rig.now_ns() < end_ns, "no completion");
            }
        };
        for (what, op) in ops {
            let [_peer_qp, mut qp] = fresh();
            post(&mut qp, op, &[]);
            assert_eq!(end_of(&intruder), WcStatus::MwBindErr, "{what}");
        }
        let [mut peer_qp, mut qp] = fresh();
        qp.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
        post(
            &mut peer_qp,
            SendOp::SendWithInv {
                invalidate_rkey: mw.rkey(),
            },
            &[],
        );
        assert_eq!(end_of(&peer), WcStatus::RemAccessErr);
        // Its own works.
        let [_peer_qp, mut qp] = fresh();
        post(&mut qp, SendOp::BindMw(good), &[]);
        // The flushed receive came first.
        assert_eq!(end_of(&intruder), WcStatus::WrFlushErr);
        assert_eq!(end_of(&intruder), WcStatus::Success);
        mine.destroy().unwrap();
        writes(&mut pair, &mut qps[0], mw.rkey(), true, "untouched");
        pair.check_traffic("after the intruder");
    }
}

fn all_ok(pair: &Pair, node: usize, count: u32) {
    for _ in 0..count {
        pair.wait_ok(node, 7);
    }
}

/// A card full of windows that are bound and invalidated by many QPs at once, with traffic beside them: all end well.
#[test]
fn storm_of_binds() {
    for link in BOTH_LINKS {
        let mut pair = pair(72, link);
        let mut rng = Rng::new(72, "storm");
        let mut many: Vec<(Qps, Mw<Dev>)> = (0..16)
            .map(|_| (more(&pair), window(&pair, MwType::Two)))
            .collect();
        let noise = [pair.mrs[0].sge(20_000, 4000)];
        let noise_bytes = pair.expected(0, 20_000, 4000);
        pair.expect(1, 50_000, &noise_bytes);
        for _ in 0..5 {
            let mut noise_left = 0;
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let at = pair.mrs[1].addr() + 64 * number as u64;
                let to = bind_of(mw.bind_op(next_rkey(mw.rkey()), &pair.mrs[1], at, 64, all()));
                post(&mut qps[1], SendOp::BindMw(to), &[]);
                mw.set_rkey(to.rkey);
                if rng.percent(50) {
                    let op = pair.write_to(1, 50_000);
                    pair.post(0, 7, op, &noise);
                    noise_left += 1;
                }
            }
            all_ok(&pair, 1, 16);
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let (remote_addr, rkey) = (pair.mrs[1].addr() + 64 * number as u64, mw.rkey());
                let bytes = pair.expected(0, 128 * number as u64, 64);
                pair.expect(1, 64 * number as u64, &bytes);
                let sge = [pair.mrs[0].sge(128 * number as u64, 64)];
                post(&mut qps[0], SendOp::RdmaWrite { remote_addr, rkey }, &sge);
            }
            all_ok(&pair, 0, 16 + noise_left);
            pair.check_memory("after a round");
            for (number, (qps, mw)) in many.iter_mut().enumerate() {
                let invalidate_rkey = mw.rkey();
                if number % 2 == 0 {
                    post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
                } else {
                    qps[1].post_recv(&[RecvWr { wr_id: 7, sges: &[] }]).unwrap();
                    post(&mut qps[0], SendOp::SendWithInv { invalidate_rkey }, &[]);
                }
            }
            all_ok(&pair, 1, 16);
            all_ok(&pair, 0, 8);
        }
        let (mut qps, mw) = many.remove(3);
        writes(&mut pair, &mut qps[0], mw.rkey(), false, "invalidated");
    }
}

/// A QP goes to ERR, and away, in the midst of binds and invalidations; the window is free for others, and the line of the
/// QP for the next one.
#[test]
fn qps_end_amid_operations() {
    for link in BOTH_LINKS {
        let mut pair = pair(73, link);
        let mut rng = Rng::new(73, "ends");
        for round in 0..12u32 {
            let mut qps = more(&pair);
            let mut mw = bound(&pair, &mut qps[1], MwType::Two);
            qps[1].post_recv(&[RecvWr { wr_id: 8, sges: &[] }]).unwrap();
            let invalidate_rkey = mw.rkey();
            match round % 2 {
                0 => post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]),
                _ => post(&mut qps[0], SendOp::SendWithInv { invalidate_rkey }, &[]),
            }
            pair.rig.run(u64::from(rng.below(1500)));
            drop(qps);
            mw.destroy().unwrap();
            pair.rig.run(3000);
            while pair.rig.nodes[1].poll().unwrap().is_some() {}
            while pair.rig.nodes[0].poll().unwrap().is_some() {}
            pair.check_traffic("after the QPs");
        }
    }
}

/// V-136: windows are bound on UC, too; type 2 is invalidated by its owner, and SEND with invalidate is none of its
/// operations.
#[test]
fn v_136_unreliable_connections() {
    for link in BOTH_LINKS {
        let mut pair = pair(74, link);
        for kind in TYPES {
            let mut qps = [0, 1].map(|node: usize| {
                pair.rig.nodes[node]
                    .create_qp_of(Service::Uc, cap(), false)
                    .unwrap()
            });
            hca_system_tests::connect(&mut qps, &path(Mtu::Bytes1024)).unwrap();
            let mut mw = bound(&pair, &mut qps[1], kind);
            let (remote_addr, rkey) = (pair.mrs[1].addr() + AT, mw.rkey());
            let sge = [pair.mrs[0].sge(0, 3000)];
            let bytes = pair.expected(0, 0, 3000);
            pair.expect(1, AT, &bytes);
            let write = SendOp::RdmaWrite { remote_addr, rkey };
            run_ok(&pair, 0, &mut qps[0], write, &sge);
            pair.rig.run(5000);
            pair.check_memory("through the window");
            let end = match kind {
                MwType::One => SendOp::BindMw(MwBind {
                    length: 0,
                    ..whole(&mw, &pair.mrs[1])
                }),
                MwType::Two => SendOp::LocalInv {
                    invalidate_rkey: rkey,
                },
            };
            run_ok(&pair, 1, &mut qps[1], end, &[]);
            let other = [pair.mrs[0].sge(9000, 3000)];
            // Lost without a word.
            run_ok(&pair, 0, &mut qps[0], write, &other);
            pair.rig.run(5000);
            pair.check_memory("through no window");
            let wr = SendWr {
                wr_id: 1,
                op: SendOp::SendWithInv {
                    invalidate_rkey: rkey,
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[]),
            };
            assert!(qps[0].post_send(&[wr]).is_err());
            mw.destroy().unwrap();
        }
    }
}

/// V-166: what has no data is given none; many binds of one queue, unsignaled ones among them, over the edges of the
/// blocks in which the card keeps them, with messages between.
#[test]
fn binds_among_messages() {
    for link in BOTH_LINKS {
        let mut pair = pair(75, link);
        let mut rng = Rng::new(75, "among");
        let mut qps = more(&pair);
        let mut mw = window(&pair, MwType::One);
        let data = [pair.mrs[1].sge(0, 8)];
        let op = SendOp::BindMw(whole(&mw, &pair.mrs[1]));
        for data in [WrData::Sges(&data), WrData::Inline(&[1])] {
            let wr = SendWr {
                wr_id: 1,
                op,
                flags: SendFlags::SIGNALED,
                data,
            };
            assert!(qps[1].post_send(&[wr]).is_err());
        }
        let bytes = pair.expected(1, 0, 500);
        pair.expect(0, 3000, &bytes);
        let write = pair.write_to(0, 3000);
        let source = [pair.mrs[1].sge(0, 500)];
        for round in 0..10 {
            let mut list = Vec::new();
            for number in 0..13 {
                let is_bind = rng.percent(50);
                if is_bind {
                    let to = whole(&mw, &pair.mrs[1]);
                    mw.set_rkey(to.rkey);
                    list.push((SendOp::BindMw(to), number == 12));
                } else {
                    list.push((write, number == 12));
                }
            }
            let wrs: Vec<_> = (list.iter())
                .map(|(op, is_last)| SendWr {
                    wr_id: 7,
                    op: *op,
                    flags: if *is_last {
                        SendFlags::SIGNALED
                    } else {
                        SendFlags::default()
                    },
                    data: WrData::Sges(if matches!(op, SendOp::BindMw(_)) {
                        &[]
                    } else {
                        &source
                    }),
                })
                .collect();
            qps[1].post_send(&wrs).unwrap();
            pair.wait_ok(1, 7);
            pair.silent(1, 100);
            let rkey = mw.rkey();
            if round % 3 == 0 {
                writes(&mut pair, &mut qps[0], rkey, true, "the newest key");
            }
        }
        pair.check_memory("all of them");
    }
}

/// OP-11: into a receive queue that several QPs share, whose slots come back all the same when the key is refused.
#[test]
fn op_11_shared_receive_queues() {
    for kind in BOTH_LINKS {
        let mut bench = many::Bench::on(kind, Service::Rc, 3, 8);
        bench.post_all(0..8);
        let pd = &bench.rig.nodes[1].pd;
        let region = pd.reg_mr(bench.memory[1].buf(), BINDABLE).unwrap();
        let windows: Vec<_> = (0..2).map(|_| pd.alloc_mw(MwType::Two).unwrap()).collect();
        for (mw, qp) in windows.iter().zip(&mut bench.receivers) {
            let op = mw.bind_op(next_rkey(mw.rkey()), &region, region.addr(), 64, all());
            post(qp, op, &[]);
            while bench.rig.nodes[1].poll().unwrap().is_none() {}
        }
        for (qp, key, status) in [
            (0, next_rkey(windows[0].rkey()), WcStatus::Success),
            (2, next_rkey(windows[1].rkey()), WcStatus::RemAccessErr),
            (1, next_rkey(windows[1].rkey()), WcStatus::Success),
        ] {
            let source = [bench.mrs[0].sge(0, 0)];
            post(
                &mut bench.senders[qp],
                SendOp::SendWithInv { invalidate_rkey: key },
                &source,
            );
            let wc = bench.wait(0);
            assert_eq!(wc.status, status, "{kind:?}, QP {qp}");
            let wc = bench.wait(1);
            if status == WcStatus::Success {
                assert_eq!((wc.status, wc.wc_flags, wc.imm_data), (status, WITH_INV, key));
            } else {
                assert_eq!(wc.status, WcStatus::WrFlushErr);
            }
        }
        assert_eq!(bench.srq.free_slots(), 3);
    }
}

/// KEY-27, V-135: the key table grows while windows are bound, some of them just then: what they are is what they were.
#[test]
fn v_135_windows_outlive_a_key_table() {
    for link in BOTH_LINKS {
        let mut pair = pair(77, link);
        let mut owners: Vec<Qps> = (0..4).map(|_| more(&pair)).collect();
        let mut windows: Vec<_> = owners
            .iter_mut()
            .map(|qps| bound(&pair, &mut qps[1], MwType::Two))
            .collect();
        let mut regions = Vec::new();
        let options = |number: usize| hca_verbs::MrOptions {
            offset: number,
            length: Some(1),
            ..hca_verbs::MrOptions::new(LOCAL_AND_REMOTE)
        };
        for number in 0..1100 {
            // The table has 1,024 rows, then 2,048.
            if number == 1000 || number == 1015 {
                let (qps, mw) = (&mut owners[number % 2], &mut windows[number % 2]);
                let invalidate_rkey = mw.rkey();
                post(&mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
                let to = whole(mw, &pair.mrs[1]);
                mw.set_rkey(to.rkey);
                post(&mut qps[1], SendOp::BindMw(to), &[]);
            }
            let buf = pair.memory[1].buf();
            regions.push(pair.rig.nodes[1].pd.reg_mr_with(buf, &options(number)).unwrap());
        }
        all_ok(&pair, 1, 4);
        for (qps, mw) in owners.iter_mut().zip(&windows) {
            writes(&mut pair, &mut qps[0], mw.rkey(), true, "as before");
            let invalidate_rkey = mw.rkey();
            run_ok(&pair, 1, &mut qps[1], SendOp::LocalInv { invalidate_rkey }, &[]);
            writes(
                &mut pair,
                &mut qps[0],
                invalidate_rkey,
                false,
                "invalidated in the new table",
            );
        }
    }
}

fn timed(pair: &Pair, run: &mut dyn FnMut()) -> u64 {
    let start_ns = pair.rig.now_ns();
    run();
    pair.rig.now_ns() - start_ns
}

/// What an operation costs on an idle card, from the post to its completion, and how many a card does in a second.
/// `cargo test ... what_operations_cost -- --nocapture` prints it.
#[test]
fn what_operations_cost() {
    for link in BOTH_LINKS {
        let mut pair = pair(76, link);
        let mut qps = more(&pair);
        let mut mw = window(&pair, MwType::Two);
        let how = whole(&mw, &pair.mrs[1]);
        let bind_ns = timed(&pair, &mut || {
            bind(&pair, &mut qps[1], &mut mw, how);
        });
        let op = SendOp::LocalInv {
            invalidate_rkey: mw.rkey(),
        };
        let local_ns = timed(&pair, &mut || {
            run_ok(&pair, 1, &mut qps[1], op, &[]);
        });
        let how = whole(&mw, &pair.mrs[1]);
        let invalidate_rkey = bind(&pair, &mut qps[1], &mut mw, how);
        let mut send_ns = [0; 2];
        for (op, ns) in [SendOp::Send, SendOp::SendWithInv { invalidate_rkey }]
            .into_iter()
            .zip(&mut send_ns)
        {
            qps[1].post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
            pair.rig.run(2000);
            *ns = timed(&pair, &mut || {
                run_ok(&pair, 0, &mut qps[0], op, &[]);
            });
            pair.wait_ok(1, 1);
        }
        let mut many: Vec<_> = (0..32)
            .map(|_| (more(&pair), window(&pair, MwType::One)))
            .collect();
        let all_ns = timed(&pair, &mut || {
            for (qps, mw) in &mut many {
                let how = whole(mw, &pair.mrs[1]);
                post(&mut qps[1], SendOp::BindMw(how), &[]);
            }
            all_ok(&pair, 1, 32);
        });
        println!(
            "{link:?}: bind {bind_ns} ns, invalidate {local_ns} ns, SEND {} ns, with invalidate {} ns; \
             32 QPs: {} ns per bind",
            send_ns[0],
            send_ns[1],
            all_ns / 32
        );
        assert!(bind_ns.max(local_ns).max(send_ns[1]) < 20_000);
    }
}
