//! Memory windows and invalidation (MEM-13 to MEM-16, OP-11, KEY-30, V-135 to V-139) on RC. Node 1 has the memory and
//! the windows, node 0 uses them.

#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod order;

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
    common::post(qp, 7, op, sges);
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

/// What a bind can ask for and must not get (MEM-14, V-136): MW_BIND_ERR, the QP is in error, and what was bound
/// stays so.
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

/// V-136, V-137: type 1 is bound over and over by any QP of its domain; the key before is worth nothing; 0 bytes
/// end it.
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
