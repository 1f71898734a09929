//! Unreliable connections (XPORT-2, REL-17): what they carry, what a loss costs, what nobody is told.

mod common;

use common::forge::{self, Forged};
use common::{ALL_MTUS, BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair, cap};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{RigConfig, Rng, connect, path};
use hca_verbs::{
    ConnectOptions, Mtu, PostError, QpAttr, QpAttrMask, QpState, SendFlags, SendOp, SendWr, Service, Sge,
    WcOpcode, WcStatus, WrData, wc_flag,
};
use hca_wire::{ExtHeaders, Opcode, reth};

const REGION_BYTES: u64 = 256 << 10;
const TARGET: u64 = 128 << 10;
const MTU: u32 = 1024;
const IMM: u32 = 0x1234_5678;

/// A pair whose connection is an unreliable one.
fn pair_on(config: &RigConfig, options: &ConnectOptions) -> Pair {
    let mut pair = Pair::new(config, options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
    pair.qps = pair
        .rig
        .connect_as(Service::Uc, [cap(); 2], [false; 2], options)
        .unwrap();
    pair
}

fn pair(kind: LinkKind) -> Pair {
    pair_on(&RigConfig::new(41, kind), &path(Mtu::Bytes1024))
}

fn state(pair: &Pair, node: usize) -> QpState {
    pair.qps[node].query().unwrap().qp_state
}

/// Nothing was reported, and both QPs live.
#[track_caller]
fn all_quiet(pair: &mut Pair) {
    pair.silent(0, 20_000);
    pair.silent(1, 20_000);
    for node in 0..2 {
        assert_eq!(state(pair, node), QpState::Rts, "node {node}");
        assert_eq!(pair.rig.nodes[node].context.poll_async_event(), None);
    }
}

/// A SEND of node 0 arrives with these bytes.
fn deliver(pair: &mut Pair, wr_id: u64, len: u32) {
    let bytes = pair.expected(0, 0, len);
    pair.recv(1, wr_id, &[pair.mrs[1].sge(TARGET, len)]);
    let source = [pair.mrs[0].sge(0, len)];
    pair.post(0, wr_id, SendOp::Send, &source);
    pair.expect(1, TARGET, &bytes);
    pair.wait_ok(0, wr_id);
    assert_eq!(pair.wait_ok(1, wr_id).byte_len, len);
    pair.check_memory("SEND");
}

/// OP-2, WIRE-10: each operation and MTU on both links, at the edges of packets.
#[test]
fn every_operation_arrives() {
    for kind in BOTH_LINKS {
        for (mtu, bytes) in ALL_MTUS {
            // PSNs wrap on the way.
            let options = ConnectOptions {
                psns: (0xff_fffd, 0xff_fff0),
                ..path(mtu)
            };
            let mut pair = pair_on(&RigConfig::new(42, kind), &options);
            for len in [0, 1, bytes - 1, bytes, bytes + 1, 3 * bytes + 5] {
                one_of_each(&mut pair, len);
            }
            pair.check_memory("every operation");
            all_quiet(&mut pair);
        }
    }
}

fn one_of_each(pair: &mut Pair, len: u32) {
    let (remote_addr, rkey) = pair.remote(1, TARGET);
    let data = pair.expected(0, 0, len);
    let source = [pair.mrs[0].sge(0, len)];
    let landing = TARGET + (64 << 10);
    let write_imm = SendOp::RdmaWriteWithImm {
        remote_addr,
        rkey,
        imm_data: IMM,
    };
    let operations = [
        (SendOp::Send, WcOpcode::Send, Some(WcOpcode::Recv)),
        (
            SendOp::SendWithImm { imm_data: IMM },
            WcOpcode::Send,
            Some(WcOpcode::Recv),
        ),
        (SendOp::RdmaWrite { remote_addr, rkey }, WcOpcode::RdmaWrite, None),
        (write_imm, WcOpcode::RdmaWrite, Some(WcOpcode::RecvRdmaWithImm)),
    ];
    for (op, sent, received) in operations {
        if received.is_some() {
            pair.recv(1, 7, &[pair.mrs[1].sge(landing, len)]);
        }
        pair.post(0, 8, op, &source);
        assert_eq!(pair.wait_ok(0, 8).opcode, sent, "{op:?}");
        let is_send = received == Some(WcOpcode::Recv);
        pair.expect(1, if is_send { landing } else { TARGET }, &data);
        let Some(received) = received else { continue };
        let wc = pair.wait_ok(1, 7);
        assert_eq!((wc.opcode, wc.byte_len), (received, len), "{op:?}");
        let imm = (wc.wc_flags & wc_flag::WITH_IMM != 0).then_some(wc.imm_data);
        let with_imm = matches!(op, SendOp::SendWithImm { .. } | SendOp::RdmaWriteWithImm { .. });
        assert_eq!(imm, with_imm.then_some(IMM), "{op:?}");
        assert_eq!(wc.src_qp, pair.qps[0].qp_num());
    }
    // Where the WRITEs have gone.
    pair.rig.run(3_000);
}

/// V-179: what needs an answer is refused when it is posted.
#[test]
fn reads_are_refused_when_they_are_posted() {
    let mut pair = pair(LinkKind::Ethernet);
    let sges = [pair.mrs[0].sge(0, 8)];
    let op = pair.read_from(1, 0);
    let wr = SendWr {
        wr_id: 1,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    };
    let error = pair.qps[0].post_send(&[wr]).unwrap_err();
    let opcode = op.opcode();
    assert_eq!(
        (error.index, error.error),
        (0, PostError::NotForUnreliable { opcode })
    );
    deliver(&mut pair, 2, 100);
    all_quiet(&mut pair);
}

/// REL-17: a message for which there is no receive is lost, the next one is not; the sender learns nothing.
#[test]
fn without_a_receive_a_message_is_lost() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let long = [pair.mrs[0].sge(0, 3 * MTU)];
        pair.post(0, 1, SendOp::Send, &long);
        pair.wait_ok(0, 1);
        let (remote_addr, rkey) = pair.remote(1, TARGET);
        let op = SendOp::RdmaWriteWithImm {
            remote_addr,
            rkey,
            imm_data: IMM,
        };
        // Its data is there before the packet that needs a receive.
        let data = pair.expected(0, 0, 2 * MTU);
        pair.expect(1, TARGET, &data);
        pair.post(0, 2, op, &long);
        pair.wait_ok(0, 2);
        all_quiet(&mut pair);
        pair.check_memory("WRITE without a receive");
        deliver(&mut pair, 3, 2 * MTU + 1);
        all_quiet(&mut pair);
    }
}

/// Packets by hand, from node 0 to the second QP of a pair.
struct Hand<'a> {
    pair: &'a mut Pair,
    kind: LinkKind,
}

impl Hand<'_> {
    fn put(&mut self, opcode: Opcode, psn: u32, payload: &[u8], reth: Option<reth::Repr>) {
        let ext = ExtHeaders {
            reth,
            ..ExtHeaders::default()
        };
        let packet = Forged {
            link: forge::link(0, self.kind),
            opcode,
            dest_qp: self.pair.qps[1].qp_num(),
            psn,
            pkey: 0xffff,
            ext,
            payload,
        };
        forge::send(&mut self.pair.rig, 0, &packet);
    }

    /// The next receive completes with this many bytes of `fill` each.
    fn arrives(&mut self, wr_id: u64, pieces: &[(u8, u32)]) {
        let wc = self.pair.wait_ok(1, wr_id);
        let bytes: Vec<u8> = pieces
            .iter()
            .flat_map(|(fill, len)| vec![*fill; *len as usize])
            .collect();
        assert_eq!(wc.byte_len as usize, bytes.len());
        self.pair.expect(1, TARGET, &bytes);
    }
}

fn full(fill: u8) -> [u8; MTU as usize] {
    [fill; MTU as usize]
}

/// REL-17: what is lost, out of order or malformed costs its message; FIRST or ONLY begins anew behind any gap.
#[test]
fn a_message_with_a_hole_is_dropped_whole() {
    use Opcode::{
        UcSendFirst as First, UcSendLast as Last, UcSendMiddle as Middle, UcSendOnly as Only, UcWriteLast,
    };
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        for wr_id in 0..8 {
            pair.recv(1, wr_id, &[pair.mrs[1].sge(TARGET, 3 * MTU)]);
        }
        let mut hand = Hand {
            pair: &mut pair,
            kind,
        };
        let put =
            |hand: &mut Hand<'_>, op, psn, fill: u8, len: usize| hand.put(op, psn, &full(fill)[..len], None);
        let whole = MTU as usize;
        // The middle one is missing; then LAST and MIDDLE of nothing.
        put(&mut hand, First, 0, 1, whole);
        put(&mut hand, Last, 2, 2, 8);
        put(&mut hand, Last, 3, 2, 8);
        put(&mut hand, Middle, 4, 2, whole);
        // A new one in place of the rest of another.
        put(&mut hand, First, 5, 3, whole);
        put(&mut hand, First, 6, 4, whole);
        put(&mut hand, Last, 7, 5, 16);
        hand.arrives(0, &[(4, MTU), (5, 16)]);
        // Again, and late ones: nothing.
        put(&mut hand, Last, 7, 6, 16);
        put(&mut hand, First, 6, 6, whole);
        put(&mut hand, Only, 5, 6, 16);
        put(&mut hand, Only, 0xff_ffff, 6, 16);
        // Behind a gap, and behind the largest one.
        put(&mut hand, Only, 100, 7, 16);
        hand.arrives(1, &[(7, 16)]);
        put(&mut hand, Only, 0x80_0000, 8, 16);
        hand.arrives(2, &[(8, 16)]);
        put(&mut hand, Only, 0xf0_0000, 9, 16);
        hand.arrives(3, &[(9, 16)]);
        // Lengths that no sender makes, another operation's end, operations of RC alone.
        put(&mut hand, First, 0xf0_0001, 10, 16);
        put(&mut hand, Last, 0xf0_0002, 10, 16);
        put(&mut hand, First, 0xf0_0003, 10, whole);
        put(&mut hand, UcWriteLast, 0xf0_0004, 10, 16);
        put(&mut hand, Last, 0xf0_0005, 10, 16);
        put(&mut hand, Opcode::RcSendOnly, 0xf0_0006, 10, 16);
        put(&mut hand, Only, 0xf0_0007, 11, 24);
        hand.arrives(4, &[(11, 24)]);
        // PSNs wrap inside a message.
        put(&mut hand, First, 0xff_ffff, 12, whole);
        put(&mut hand, Middle, 0, 13, whole);
        put(&mut hand, Last, 1, 14, 4);
        hand.arrives(5, &[(12, MTU), (13, MTU), (14, 4)]);
        all_quiet(&mut pair);
        pair.check_memory("by hand");
    }
}

/// A WRITE's packets must be what its RETH says, or nothing more of it is placed.
#[test]
fn a_write_by_hand_keeps_to_its_reth() {
    use Opcode::{UcWriteFirst as First, UcWriteLast as Last, UcWriteOnly as Only};
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let (va, rkey) = pair.remote(1, TARGET);
        let reth = |dma_len| Some(reth::Repr { va, rkey, dma_len });
        let mut hand = Hand {
            pair: &mut pair,
            kind,
        };
        hand.put(Only, 0, &[1; 64], reth(65));
        hand.put(First, 1, &full(2), reth(MTU));
        hand.put(
            Only,
            2,
            &[3; 64],
            Some(reth::Repr {
                va,
                rkey: rkey ^ 1,
                dma_len: 64,
            }),
        );
        hand.pair.rig.run(3_000);
        let outside = va + REGION_BYTES - TARGET - 63;
        hand.put(
            Only,
            3,
            &[4; 64],
            Some(reth::Repr {
                va: outside,
                rkey,
                dma_len: 64,
            }),
        );
        hand.pair.rig.run(3_000);
        hand.put(First, 4, &full(5), reth(2 * MTU));
        hand.put(Last, 5, &[6; 8], None);
        hand.pair.expect(1, TARGET, &full(5));
        hand.put(Only, 6, &[7; 64], reth(64));
        hand.pair.expect(1, TARGET, &[7; 64]);
        all_quiet(&mut pair);
        pair.check_memory("WRITEs by hand");
    }
}

/// A WRITE by a wrong key is lost, with what came while that was not known; receives stay, and nobody is told.
#[test]
fn a_wrong_r_key_costs_the_message() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let (remote_addr, rkey) = pair.remote(1, TARGET);
        for round in 0..3 {
            let long = [pair.mrs[0].sge(0, 3 * MTU)];
            let op = SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey: rkey ^ 0x100,
                imm_data: IMM,
            };
            pair.post(0, 1, op, &long);
            pair.wait_ok(0, 1);
            all_quiet(&mut pair);
            deliver(&mut pair, 2 + round, 700);
        }
        pair.check_memory("wrong keys");
    }
}

/// OP-21: a receive that is too small fails its QP; the sender learns nothing.
#[test]
fn a_receive_too_small_fails_the_receiver() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let target = [pair.mrs[1].sge(TARGET, MTU + 7)];
        (0..3).for_each(|wr_id| pair.recv(1, wr_id, &target));
        let source = [pair.mrs[0].sge(0, MTU + 8)];
        pair.post(0, 9, SendOp::Send, &source);
        pair.wait_ok(0, 9);
        let statuses = [WcStatus::LocLenErr, WcStatus::WrFlushErr, WcStatus::WrFlushErr];
        for (wr_id, status) in (0..).zip(statuses) {
            let wc = pair.wait(1);
            assert_eq!((wc.wr_id, wc.status), (wr_id, status));
        }
        assert_eq!((state(&pair, 0), state(&pair, 1)), (QpState::Rts, QpState::Err));
        pair.silent(0, 50_000);
    }
}

/// QPS-12: a send that fails stops the send queue alone; receives go on, and from RTS it does, too.
#[test]
fn a_failed_send_stops_one_side() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        for round in 0..3 {
            let good = pair.mrs[0].sge(0, 3 * MTU);
            let lkey = good.lkey ^ 0x100;
            let bad = Sge { lkey, ..good };
            let (remote_addr, rkey) = pair.remote(1, TARGET);
            let list = [[good], [good], [bad], [good], [good]];
            let list: Vec<SendWr<'_>> = (1..)
                .zip(&list)
                .map(|(wr_id, sges)| SendWr {
                    wr_id,
                    op: SendOp::RdmaWrite { remote_addr, rkey },
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(sges),
                })
                .collect();
            let data = pair.expected(0, 0, 3 * MTU);
            pair.expect(1, TARGET, &data);
            pair.qps[0].post_send(&list).unwrap();
            let statuses = [
                WcStatus::Success,
                WcStatus::Success,
                WcStatus::LocProtErr,
                WcStatus::WrFlushErr,
                WcStatus::WrFlushErr,
            ];
            for (wr_id, status) in (1..).zip(statuses) {
                let wc = pair.wait(0);
                assert_eq!((wc.wr_id, wc.status), (wr_id, status), "round {round}");
            }
            assert_eq!(state(&pair, 0), QpState::Sqe);
            assert_eq!(pair.rig.nodes[0].context.poll_async_event(), None);
            // The other way, and on again.
            let bytes = pair.expected(1, 0, 99);
            pair.recv(0, 30, &[pair.mrs[0].sge(TARGET, 99)]);
            let back = [pair.mrs[1].sge(0, 99)];
            pair.post(1, 31, SendOp::Send, &back);
            pair.expect(0, TARGET, &bytes);
            pair.wait_ok(1, 31);
            pair.wait_ok(0, 30);
            let rts = QpAttr {
                qp_state: QpState::Rts,
                ..QpAttr::default()
            };
            pair.qps[0].modify(&rts, QpAttrMask::STATE).unwrap();
            deliver(&mut pair, 40 + round, 2 * MTU);
        }
        all_quiet(&mut pair);
    }
}

/// QPS-10: SQD waits until everything has left.
#[test]
fn a_send_queue_drains() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        let source = [pair.mrs[0].sge(0, 64 << 10)];
        let data = pair.expected(0, 0, 64 << 10);
        pair.expect(1, TARGET, &data);
        let op = pair.write_to(1, TARGET);
        (0..4).for_each(|wr_id| pair.post(0, wr_id, op, &source));
        pair.qps[0].modify_state(QpState::Sqd).unwrap();
        let end_ns = pair.rig.now_ns() + 1_000_000;
        while pair.qps[0].query().unwrap().sq_draining {
            assert!(pair.rig.now_ns() < end_ns, "{kind:?}: it does not drain");
        }
        pair.rig.run(5_000);
        let mut done = 0;
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            assert!(wc.is_ok() && wc.wr_id == done, "{wc:?}");
            done += 1;
        }
        pair.silent(0, 20_000);
        pair.qps[0].modify_state(QpState::Rts).unwrap();
        (done..4).for_each(|wr_id| {
            pair.wait_ok(0, wr_id);
        });
        pair.rig.run(20_000);
        pair.check_memory("drained");
    }
}

/// Sends numbered messages of one byte value each over a faulty cable, and returns the numbers that arrived: whole, and
/// none that was not sent.
fn arrivals(seed: u64, kind: LinkKind, faults: FaultSpec) -> Vec<u8> {
    const MESSAGES: u8 = 100;
    const SLOT_BYTES: u64 = 2048;
    const SLOTS: u64 = 16;
    let config = RigConfig {
        faults,
        ..RigConfig::new(seed, kind)
    };
    let mut pair = pair_on(&config, &path(Mtu::Bytes256));
    let mut rng = Rng::new(seed, "messages");
    let (mut lengths, mut seen) = (vec![0u32], Vec::new());
    let place = |wr_id: u64| TARGET + wr_id % SLOTS * SLOT_BYTES;
    let mut posted = 0;
    let mut post = |pair: &mut Pair| {
        let sge = pair.mrs[1].sge(place(posted), SLOT_BYTES as u32);
        pair.recv(1, posted, &[sge]);
        posted += 1;
    };
    (0..SLOTS).for_each(|_| post(&mut pair));
    for number in 1..=MESSAGES {
        let len = rng.between(1, 1500);
        lengths.push(len);
        let bytes = vec![number; len as usize];
        pair.memory[0].buf().write_bytes(CANARY_BYTES as usize, &bytes);
        let (source, imm_data) = ([pair.mrs[0].sge(0, len)], number.into());
        pair.post(0, number.into(), SendOp::SendWithImm { imm_data }, &source);
        pair.wait_ok(0, number.into());
        let last = number == MESSAGES;
        pair.rig.run(if last {
            50_000
        } else {
            rng.between(0, 2_000).into()
        });
        while let Some(wc) = pair.rig.nodes[1].poll().unwrap() {
            assert!(wc.is_ok(), "seed {seed}: {wc:?}");
            let found = wc.imm_data as u8;
            assert_eq!(
                wc.byte_len,
                lengths[usize::from(found)],
                "seed {seed}: message {found}"
            );
            let mut bytes = vec![0; wc.byte_len as usize];
            let at = CANARY_BYTES + place(wc.wr_id);
            pair.memory[1].buf().read_bytes(at as usize, &mut bytes);
            assert!(
                bytes.iter().all(|byte| *byte == found),
                "seed {seed}: message {found} is torn"
            );
            seen.push(found);
            post(&mut pair);
        }
    }
    for node in 0..2 {
        assert_eq!(state(&pair, node), QpState::Rts, "seed {seed}");
    }
    seen
}

/// XPORT-2: under loss, copies, disorder and damage a message arrives at most once, in order and whole.
#[test]
fn faults_lose_messages_and_nothing_else() {
    let mut lost = 0;
    for seed in 0..6 {
        for kind in BOTH_LINKS {
            let faults = FaultSpec {
                loss: 0.03,
                dup: 0.03,
                reorder: if kind == LinkKind::Ethernet { 0.05 } else { 0.0 },
                corrupt: 0.02,
                ..FaultSpec::default()
            };
            let seen = arrivals(seed, kind, faults);
            assert!(seen.is_sorted_by(|a, b| a < b), "seed {seed}: {seen:?}");
            assert!(seen.len() > 40, "seed {seed}: {} of 100", seen.len());
            lost += 100 - seen.len();
        }
    }
    assert!(
        lost > 50,
        "the faults cost {lost} messages: too few to show anything"
    );
    assert_eq!(arrivals(7, LinkKind::Ethernet, FaultSpec::default()).len(), 100);
}

/// RESET in mid-traffic, and a new life with other PSNs: nothing of the old one is told, nothing lasts.
#[test]
fn a_reset_in_mid_traffic_leaves_nothing() {
    for kind in BOTH_LINKS {
        let mut pair = pair(kind);
        for round in 0..6u32 {
            let source = [pair.mrs[0].sge(0, 16 << 10)];
            let op = pair.write_to(1, TARGET);
            (0..8).for_each(|wr_id| pair.post(0, wr_id, op, &source));
            pair.rig.run(u64::from(round) * 700);
            for qp in &mut pair.qps {
                qp.modify_state(QpState::Reset).unwrap();
            }
            while pair.rig.nodes[0].poll().unwrap().is_some() {}
            let options = ConnectOptions {
                psns: (round * 0x11_1111, 5),
                ..path(Mtu::Bytes1024)
            };
            connect(&mut pair.qps, &options).unwrap();
            pair.silent(0, 10_000);
            let data = pair.expected(0, 0, 16 << 10);
            pair.expect(1, TARGET, &data);
            pair.post(0, 20, op, &source);
            pair.wait_ok(0, 20);
            deliver(&mut pair, 21, 3000);
        }
        all_quiet(&mut pair);
    }
}
