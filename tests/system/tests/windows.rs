//! Memory windows and invalidation (MEM-13 to MEM-16, OP-11, KEY-30, V-135 to V-139) on RC. Node 1 has the memory and
//! the windows, node 0 uses them.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{Dev, Node, Place, RigConfig, Rng, path};
use hca_verbs::{
    Access, Mr, Mtu, Mw, MwBind, MwType, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode,
    WcStatus, WorkCompletion, WrData, next_rkey,
};

const REGION_BYTES: u64 = 64 << 10;
const BINDABLE: Access = Access::from_bits(
    LOCAL_AND_REMOTE.bits() | Access::REMOTE_ATOMIC.bits() | Access::MW_BIND.bits(),
);
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
        let wc = run_ok(&pair, 1, &mut qps[1], SendOp::LocalInv { invalidate_rkey: first }, &[]);
        assert_eq!(wc.opcode, WcOpcode::LocalInv);
        let how = whole(&mw, &pair.mrs[1]);
        let second = bind(&pair, &mut qps[1], &mut mw, how);
        writes(&mut pair, &mut qps[0], second, true, "bound again");
        // V-137, V-180: invalid before the receive completes.
        let target = [pair.mrs[1].sge(0, 3000)];
        qps[1].post_recv(&[RecvWr { wr_id: 9, sges: &target }]).unwrap();
        let bytes = pair.expected(0, 100, 3000);
        pair.expect(1, 0, &bytes);
        let source = [pair.mrs[0].sge(100, 3000)];
        let op = SendOp::SendWithInv { invalidate_rkey: second };
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
