//! Two queue pairs of one card connected to each other: what a port sends to itself never sees the wire.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::LinkKind;
use hca_system_tests::{Dev, RigConfig, connect, path};
use hca_verbs::{ConnectOptions, Mtu, RawQp, SendFlags, SendOp, SendWr, WcOpcode, WrData};

const REGION_BYTES: u64 = 64 << 10;
/// Where targets start; sources start at 0.
const TARGET: u64 = 32 << 10;

fn pair(link: LinkKind, options: &ConnectOptions) -> Pair {
    Pair::new(
        &RigConfig::new(3, link),
        options,
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    )
}

/// Two QPs of node 0, connected to each other.
fn own_qps(pair: &Pair, options: &ConnectOptions) -> [RawQp<Dev>; 2] {
    let node = &pair.rig.nodes[0];
    let mut qps = [0, 1].map(|_| node.create_qp(cap(), false).unwrap());
    connect(&mut qps, options).unwrap();
    qps
}

/// The next completions of node 0, in any order, are successes of these requests.
fn wait_all(pair: &Pair, mut wanted: Vec<(u64, WcOpcode)>) {
    while !wanted.is_empty() {
        let wc = pair.wait(0);
        assert!(wc.is_ok(), "{wc:?}");
        let at = wanted.iter().position(|want| *want == (wc.wr_id, wc.opcode));
        wanted.swap_remove(at.unwrap_or_else(|| panic!("{wc:?} was not expected, {wanted:?} is")));
    }
}

/// WRITE, SEND, WRITE with immediate and READ between the QPs that the pair holds at node 0.
fn all_operations(pair: &mut Pair, len: u32, what: &str) {
    let imm_data = 0x0a0b_0c0d;
    let (from, to) = (u64::from(len % 7), TARGET + u64::from(len % 13));
    let bytes = pair.expected(0, from, len);
    let source = [pair.mrs[0].sge(from, len)];

    pair.expect(0, to, &bytes);
    pair.post(0, 1, pair.write_to(0, to), &source);
    wait_all(pair, vec![(1, WcOpcode::RdmaWrite)]);

    let target = [pair.mrs[0].sge(to + 8192, len)];
    pair.expect(0, to + 8192, &bytes);
    pair.recv(1, 10, &target);
    pair.post(0, 2, SendOp::Send, &source);
    wait_all(pair, vec![(2, WcOpcode::Send), (10, WcOpcode::Recv)]);

    pair.expect(0, to + 16384, &bytes);
    pair.recv(0, 11, &[]);
    let (remote_addr, rkey) = pair.remote(0, to + 16384);
    pair.post(
        1,
        3,
        SendOp::RdmaWriteWithImm {
            remote_addr,
            rkey,
            imm_data,
        },
        &source,
    );
    wait_all(
        pair,
        vec![(3, WcOpcode::RdmaWrite), (11, WcOpcode::RecvRdmaWithImm)],
    );

    let bytes = pair.expected(0, 16384 + from, len);
    pair.expect(0, to + 24576 - 8192, &bytes);
    let landing = [pair.mrs[0].sge(to + 24576 - 8192, len)];
    pair.post(1, 4, pair.read_from(0, 16384 + from), &landing);
    wait_all(pair, vec![(4, WcOpcode::RdmaRead)]);
    pair.check_memory(what);
}

/// ADDR-3 and the self-loopback of both personalities: everything arrives, and the cable carries nothing of it.
#[test]
fn two_qps_of_one_card() {
    for link in BOTH_LINKS {
        for mtu in [Mtu::Bytes256, Mtu::Bytes4096] {
            let options = path(mtu);
            let mut pair = pair(link, &options);
            pair.qps = own_qps(&pair, &options);
            // Flow control goes on, whatever the packets do.
            let on_the_cable = |pair: &Pair| {
                let stats = pair.rig.cable_stats();
                [stats.a_to_b.sent_packets, stats.b_to_a.sent_packets]
            };
            let before = on_the_cable(&pair);
            for len in [0, 1, 64, 255, 4096, 8000] {
                all_operations(
                    &mut pair,
                    len,
                    &format!("{link:?}, {mtu:?}, {len} bytes to itself"),
                );
            }
            pair.rig.check_idle(1_000_000).unwrap();
            assert_eq!(
                on_the_cable(&pair),
                before,
                "{link:?}: packets to itself were on the cable"
            );
        }
    }
}

/// Looped packets and both directions of the wire at once: nothing is lost (a timeout would take longer than all of
/// this), nothing is mixed up.
#[test]
fn loopback_beside_a_busy_wire() {
    const LEN: u32 = 4096;
    const WRITES: u64 = 24;
    for link in BOTH_LINKS {
        let options = path(Mtu::Bytes4096);
        let mut pair = pair(link, &options);
        let mut own = own_qps(&pair, &options);
        let begin_ns = pair.rig.now_ns();
        for round in 0..WRITES {
            let from = (round % 5) * 1000;
            // Node 0 receives from the wire into the first quarter of the targets, from itself into the second.
            let [near, far] = [TARGET + (round % 2) * 4096, TARGET + 8192 + (round % 2) * 4096];
            for (node, peer) in [(0, 1), (1, 0)] {
                let bytes = pair.expected(node, from, LEN);
                pair.expect(peer, near, &bytes);
                let (op, sges) = (pair.write_to(peer, near), [pair.mrs[node].sge(from, LEN)]);
                pair.post(node, round, op, &sges);
            }
            let bytes = pair.expected(0, from + 500, LEN);
            pair.expect(0, far, &bytes);
            let sges = [pair.mrs[0].sge(from + 500, LEN)];
            own[round as usize % 2]
                .post_send(&[SendWr {
                    wr_id: 100 + round,
                    op: pair.write_to(0, far),
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&sges),
                }])
                .unwrap();
            if round % 2 == 1 {
                // The areas are used again: all must have landed.
                let wanted = [round - 1, round, 99 + round, 100 + round];
                wait_all(&pair, wanted.map(|wr_id| (wr_id, WcOpcode::RdmaWrite)).to_vec());
                pair.wait_ok(1, round - 1);
                pair.wait_ok(1, round);
                pair.check_memory(&format!("{link:?}, round {round}"));
            }
        }
        let took_ns = pair.rig.now_ns() - begin_ns;
        assert!(took_ns < 200_000, "{link:?}: {took_ns} ns, packets were lost");
    }
}
