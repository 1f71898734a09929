//! The card of the model beside that of RTL: one program on both does the same, and they understand each other.

mod common;

use std::path::PathBuf;

use common::{BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair};
use hca_cosim::Design;
use hca_link::{CableStats, LinkKind, Tap};
use hca_system_tests::scenario::{Options, Report, run};
use hca_system_tests::{Place, Rig, RigConfig, path};
use hca_verbs::{
    Access, Mtu, QpCap, QpState, RecvWr, SendFlags, SendOp, SendWr, WcOpcode, WcStatus, WorkCompletion,
    WrData,
};

const REGION_BYTES: u64 = 64 << 10;
const TARGET: u64 = 32 << 10;
/// With one pair of cards, each way of making it.
const ALL: [[Design; 2]; 4] = [
    [Design::Rtl, Design::Rtl],
    [Design::Model, Design::Model],
    [Design::Model, Design::Rtl],
    [Design::Rtl, Design::Model],
];

/// What a program is told.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    node: usize,
    wr_id: u64,
    status: WcStatus,
    opcode: WcOpcode,
    byte_len: u32,
    imm_data: u32,
    wc_flags: u8,
    src_qp: u32,
}

fn told(node: usize, wc: &WorkCompletion) -> Told {
    let is_receive = matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
    let is_good = wc.status == WcStatus::Success;
    Told {
        node,
        wr_id: wc.wr_id,
        status: wc.status,
        // Of a failure nothing else is told (V-73).
        opcode: if is_good { wc.opcode } else { WcOpcode::Send },
        byte_len: if is_good && is_receive { wc.byte_len } else { 0 },
        imm_data: if is_good { wc.imm_data } else { 0 },
        wc_flags: wc.wc_flags,
        src_qp: wc.src_qp,
    }
}

fn pair(kind: LinkKind, designs: [Design; 2]) -> Pair {
    let config = RigConfig {
        designs,
        ..RigConfig::new(11, kind)
    };
    Pair::new(
        &config,
        &path(Mtu::Bytes1024),
        REGION_BYTES,
        [LOCAL_AND_REMOTE; 2],
    )
}

/// Every operation of RC in several lengths, then failures of both sides, each on a connection of its own.
fn program(kind: LinkKind, designs: [Design; 2]) -> Vec<Told> {
    let mut all = Vec::new();
    let mut pair = pair(kind, designs);
    for (round, len) in [0, 64, 1025, 5000].into_iter().enumerate() {
        transfers(&mut pair, round as u64 * 100, len, &mut all);
    }
    pair.check_memory("transfers");
    let failed = all.iter().find(|told: &&Told| told.status != WcStatus::Success);
    assert_eq!(failed, None, "{kind:?}, {designs:?}");
    for case in 0..4 {
        failure(kind, designs, case, &mut all);
    }
    all
}

fn transfers(pair: &mut Pair, id: u64, len: u32, all: &mut Vec<Told>) {
    let (remote_addr, rkey) = pair.remote(1, TARGET);
    let data = pair.expected(0, 0, len);
    let source = [pair.mrs[0].sge(0, len)];
    let landing = TARGET + (16 << 10);
    let imm_data = 0x1234_5678;
    let operations = [
        (SendOp::Send, Some(landing)),
        (SendOp::SendWithImm { imm_data }, Some(landing)),
        (SendOp::RdmaWrite { remote_addr, rkey }, None),
        (
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
            Some(landing),
        ),
    ];
    for (step, (op, receive)) in (0..).zip(operations) {
        if let Some(at) = receive {
            let sges = [pair.mrs[1].sge(at, len)];
            pair.recv(1, id + step, &sges);
        }
        pair.post(0, id + 50 + step, op, &source);
        let wc = pair.wait(0);
        all.push(told(0, &wc));
        let is_send = matches!(op, SendOp::Send | SendOp::SendWithImm { .. });
        pair.expect(1, if is_send { landing } else { TARGET }, &data);
        if receive.is_some() {
            let wc = pair.wait(1);
            all.push(told(1, &wc));
        }
    }
    // Back by READ.
    let back = [pair.mrs[0].sge(TARGET, len)];
    pair.post(0, id + 60, SendOp::RdmaRead { remote_addr, rkey }, &back);
    let wc = pair.wait(0);
    all.push(told(0, &wc));
    pair.expect(0, TARGET, &data);
}

/// A wrong R_Key; a message longer than its receive; a local buffer that is none; an address out of bounds.
fn failure(kind: LinkKind, designs: [Design; 2], case: u32, all: &mut Vec<Told>) {
    let mut pair = pair(kind, designs);
    let (remote_addr, rkey) = pair.remote(1, TARGET);
    let mut source = pair.mrs[0].sge(0, 100);
    let mut op = SendOp::Send;
    pair.recv(1, 1, &[pair.mrs[1].sge(TARGET, 64)]);
    match case {
        0 => {
            op = SendOp::RdmaWrite {
                remote_addr,
                rkey: rkey ^ 1,
            };
        }
        1 => {}
        2 => source.lkey ^= 1,
        _ => {
            let (remote_addr, rkey) = pair.remote(1, REGION_BYTES - 99);
            op = SendOp::RdmaRead { remote_addr, rkey };
        }
    }
    pair.post(0, 2, op, &[source]);
    pair.post_with(
        0,
        3,
        SendOp::Send,
        SendFlags::SIGNALED,
        WrData::Inline(b"flushed"),
    );
    for _ in 0..2 {
        let wc = pair.wait(0);
        all.push(told(0, &wc));
    }
    pair.rig.run(20_000);
    while let Some(wc) = pair.rig.nodes[1].poll_ready().unwrap() {
        all.push(told(1, &wc));
    }
    let states = [0, 1].map(|node| pair.qps[node].query().unwrap().qp_state);
    assert_eq!(states[0], QpState::Err, "case {case}, {designs:?}");
    // What a failed receive leaves of a message is open; nothing else may have changed.
    if case != 1 {
        pair.check_memory(&format!("case {case}, {designs:?}"));
    }
}

#[test]
fn one_program_is_told_the_same() {
    for kind in BOTH_LINKS {
        let [rtl, others @ ..] = ALL.map(|designs| program(kind, designs));
        assert!(rtl.len() > 40, "{} completions", rtl.len());
        for (designs, other) in ALL[1..].iter().zip(&others) {
            let differs = rtl.iter().zip(other).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{kind:?}, {designs:?}");
            assert_eq!(rtl.len(), other.len(), "{kind:?}, {designs:?}");
        }
    }
}

/// Between two fast cards a packet of a connection becomes bytes only where somebody looks at it, or the cable changes
/// it. What a program is told, and when, is the same with a capture that looks at all of them.
#[test]
fn who_looks_at_packets_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for faults in ["", "loss=0.02,dup=0.02,reorder=0.02,corrupt=0.02"] {
        let run = |capture: Option<PathBuf>| {
            let config = RigConfig {
                designs: [Design::Model; 2],
                faults: faults.parse().unwrap(),
                capture,
                ..RigConfig::new(11, LinkKind::Ethernet)
            };
            let options = path(Mtu::Bytes1024);
            let mut pair = Pair::new(&config, &options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
            let mut all = Vec::new();
            for (round, len) in (0..).zip([0, 64, 1025, 9000]) {
                transfers(&mut pair, round * 100, len, &mut all);
            }
            pair.check_memory(faults);
            (all, pair.rig.now_cycles(), pair.rig.cable_stats())
        };
        let unseen = run(None);
        assert!(unseen.0.iter().all(|told| told.status == WcStatus::Success));
        assert_eq!(run(Some(folder.path().join("all.pcap"))), unseen, "{faults}");
    }
}

/// Long WRITEs, READs and SENDs in both directions, with short ones of other connections among them, on two fast cards:
/// every completion of both, with the cycle in which the card wrote it; what the cable has carried; and how often a
/// card had something to do.
fn crowd(capture: Option<PathBuf>, late: bool) -> (Vec<(usize, u64, u64)>, CableStats, u64) {
    const LONG: u32 = 60_000;
    let config = RigConfig {
        designs: [Design::Model; 2],
        capture: capture.clone().filter(|_| !late),
        ..RigConfig::new(12, LinkKind::Ethernet)
    };
    let mut rig = Rig::new(&config).unwrap();
    let memory = [0, 1].map(|node: usize| {
        let buf = rig.nodes[node].alloc(REGION_BYTES as usize).unwrap();
        let place = Place::whole(&buf, LOCAL_AND_REMOTE, (node as u64 + 1) << 40);
        rig.nodes[node].register(&buf, place).unwrap()
    });
    let cap = QpCap {
        max_send_wr: 8,
        max_recv_wr: 64,
        ..QpCap::default()
    };
    let mut qps: Vec<_> = (0..6)
        .map(|_| rig.connect([cap; 2], [false; 2], &path(Mtu::Bytes1024)).unwrap())
        .collect();
    let (mut told, mut due) = (Vec::new(), 0);
    for round in 0..40u64 {
        // Of each connection it is drawn by number who sends, and how much.
        for (at, qp) in (0u64..).zip(&mut qps) {
            let from = (at % 2) as usize;
            let (source, target) = (&memory[from], &memory[1 - from]);
            let write = SendOp::RdmaWrite {
                remote_addr: target.addr(),
                rkey: target.rkey(),
            };
            let read = SendOp::RdmaRead {
                remote_addr: target.addr(),
                rkey: target.rkey(),
            };
            let long = [write, read, SendOp::Send][(round + at) as usize % 3];
            let (op, len) = match at {
                0 | 1 => (long, LONG - (round as u32 * 1_111) % 40_000),
                2 | 3 => (write, 64 + (round as u32 * 997) % 6_000),
                _ => (SendOp::Send, 200),
            };
            due += 1;
            if op == SendOp::Send {
                due += 1;
                let sges = [target.sge(0, len + 56)];
                qp[1 - from]
                    .post_recv(&[RecvWr {
                        wr_id: 900 + at,
                        sges: &sges,
                    }])
                    .unwrap();
            }
            let sges = [source.sge(0, len)];
            let wr = SendWr {
                wr_id: at,
                op,
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&sges),
            };
            qp[from].post_send(&[wr]).unwrap();
            // Some begin when others are under way.
            rig.run(round * at * 7 % 400);
        }
        if late && round == 20 {
            rig.run(40);
            let mut fabric = rig.nodes[0].dev.simulation().fabric();
            let cable = fabric.cables().next().unwrap();
            let file = capture.as_deref().unwrap();
            fabric.capture(cable, Tap::Delivered, file).unwrap();
        }
        while told.len() < due {
            for (node, of) in rig.nodes.iter().enumerate() {
                while let Some(wc) = of.poll().unwrap() {
                    assert!(wc.is_ok(), "{wc:?}");
                    told.push((node, wc.wr_id, wc.timestamp));
                }
            }
        }
    }
    let fabric = rig.nodes[0].dev.simulation().fabric();
    let steps = fabric
        .cards()
        .map(|card| fabric.card(card).counters().evaluated_cycles);
    let steps = steps.sum();
    drop(fabric);
    (told, rig.cable_stats(), steps)
}

/// The same where connections get into each other's way: packets that travel as one where nobody looks take the line no
/// longer, and no turn that is another's.
#[test]
fn who_looks_at_a_crowd_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let unseen = crowd(None, false);
    let long_sends = (0..40).flat_map(|round| [round % 3, (round + 1) % 3]);
    let long_sends = long_sends.filter(|kind| *kind == 2).count();
    assert_eq!(unseen.0.len(), 40 * 8 + long_sends);
    for late in [false, true] {
        let file = folder.path().join(format!("{late}.pcap"));
        let seen = crowd(Some(file.clone()), late);
        let differs = unseen.0.iter().zip(&seen.0).position(|(a, b)| a != b);
        assert_eq!(differs.map(|at| (unseen.0[at], seen.0[at])), None, "late: {late}");
        assert_eq!(seen.1, unseen.1, "late: {late}");
        // Or nothing has travelled as one.
        let (least, most) = (unseen.2, seen.2);
        assert!(least + 300 < most, "late: {late}: {least} and {most} steps");
        assert!(std::fs::metadata(file).unwrap().len() > 1_000_000);
    }
}

/// A long message for whose end there is no place: what both programs are told, which kilobytes of its place are as
/// they were, and how often a card had something to do.
fn broken(case: u32, capture: Option<PathBuf>) -> (Vec<Told>, Vec<u64>, u64) {
    const LEN: u32 = 30_000;
    let config = RigConfig {
        designs: [Design::Model; 2],
        capture,
        ..RigConfig::new(13, LinkKind::Ethernet)
    };
    let options = path(Mtu::Bytes1024);
    let mut pair = Pair::new(&config, &options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
    let (remote_addr, rkey) = pair.remote(1, 0);
    let read = SendOp::RdmaRead { remote_addr, rkey };
    // Of memory that may be read alone nobody finds out before the packet that is to be placed there.
    let node = usize::from(case < 2);
    let buf = pair.rig.nodes[node].alloc(10_000).unwrap();
    let place = Place::whole(&buf, Access::REMOTE_READ, 1 << 50);
    let closed = pair.rig.nodes[node].register(&buf, place).unwrap();
    let halves = [pair.mrs[node].sge(TARGET, 20_000), closed.sge(0, 10_000)];
    let source = [pair.mrs[0].sge(0, LEN)];
    match case {
        // The receive is too short.
        0 => pair.recv(1, 1, &halves[..1]),
        1 => pair.recv(1, 1, &halves),
        _ => {}
    }
    match case {
        0 | 1 => pair.post(0, 2, SendOp::Send, &source),
        _ => pair.post(0, 2, read, &halves),
    }
    let mut all = vec![told(0, &pair.wait(0))];
    pair.rig.run(20_000);
    while let Some(wc) = pair.rig.nodes[1].poll_ready().unwrap() {
        all.push(told(1, &wc));
    }
    let untouched = (0..u64::from(LEN) / 1024).filter(|page| {
        let at = TARGET + page * 1024;
        pair.memory[node].holds(CANARY_BYTES + at, 1024)
    });
    let untouched = untouched.collect();
    let fabric = pair.rig.nodes[0].dev.simulation().fabric();
    let steps = fabric
        .cards()
        .map(|card| fabric.card(card).counters().evaluated_cycles)
        .sum();
    drop(fabric);
    (all, untouched, steps)
}

/// Packets that travel as one fail each for itself.
#[test]
fn who_looks_at_a_broken_message_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for case in 0..3 {
        let unseen = broken(case, None);
        let seen = broken(case, Some(folder.path().join(format!("{case}.pcap"))));
        assert_ne!(unseen.0[0].status, WcStatus::Success, "case {case}");
        assert!(
            !unseen.1.is_empty() && unseen.1[0] >= 19,
            "case {case}: {:?}",
            unseen.1
        );
        assert_eq!((&unseen.0, &unseen.1), (&seen.0, &seen.1), "case {case}");
        assert!(unseen.2 < seen.2, "case {case}: nothing has travelled as one");
    }
}

/// What a seed draws, without the time it takes and the packets that are lost.
fn essence(report: &Report) -> (usize, u64, u64) {
    (report.pairs, report.messages, report.bytes)
}

/// Random programs with faults, by seed: the model carries out what the RTL does, and the rules of the transport find
/// nothing wrong with its packets.
#[test]
fn random_programs_do_the_same() {
    let options = Options::default();
    let rtl = [1, 2].map(|seed| run(seed, &options).unwrap_or_else(|failure| panic!("{failure}")));
    Design::Model.choose();
    for (seed, rtl) in (1..).zip(&rtl) {
        let model = run(seed, &options).unwrap_or_else(|failure| panic!("model: {failure}"));
        assert_eq!(essence(&model), essence(rtl), "seed {seed}");
        assert!(model.judged > 50, "seed {seed}: {} packets judged", model.judged);
    }
}

/// Where no packet is lost the same programs take the same time and send the same packets, whether these travel as one
/// or each for itself because somebody looks.
#[test]
fn who_looks_at_random_programs_changes_nothing() {
    Design::Model.choose();
    let options = Options {
        link: Some(LinkKind::Ethernet),
        switches: Some(0),
        faults: Some("".parse().unwrap()),
        ..Options::default()
    };
    let (mut looks, mut packets) = (0, 0);
    for seed in 200..280 {
        let run = |judged| {
            let options = Options {
                judged,
                ..options.clone()
            };
            run(seed, &options).unwrap_or_else(|failure| panic!("judged {judged}: {failure}"))
        };
        let (seen, unseen) = (run(true), run(false));
        looks += seen.judged;
        packets += unseen.cable.a_to_b.sent_packets;
        assert_eq!(unseen, Report { judged: 0, ..seen }, "seed {seed}");
    }
    assert!(
        looks > 10_000 && packets > 10_000,
        "{looks} looks, {packets} packets"
    );
}

#[test]
fn many_random_programs_on_the_model() {
    Design::Model.choose();
    // The program that uses every service waits for completions that no card owes it, when its QPs fall: those of
    // unsignaled requests, which this one carries out before it hears of the fall.
    let options = Options {
        services: false,
        ..Options::default()
    };
    for seed in 100..140 {
        run(seed, &options).unwrap_or_else(|failure| panic!("model: {failure}"));
    }
}
