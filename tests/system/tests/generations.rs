//! A line of the card is used again at once, a QPN is not: what was meant for the QP that had the line before, from the
//! wire or from its process, reaches nobody (design.md 9, lines and generations).

mod common;

use std::collections::{HashMap, HashSet};

use common::{BASES, BOTH_LINKS, LIMIT_NS, LOCAL_AND_REMOTE, cap};
use hca_abi::AdminStatus;
use hca_cosim::{Processor, QPN_LINE_BITS, line_of};
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Place, Rig, RigConfig, Rng, connect, path};
use hca_verbs::{ConnectOptions, Mr, Mtu, RawQp, SendFlags, SendOp, SendWr, WcStatus, WrData};

const MESSAGES: usize = 8;
/// So much of a message is under way for longer than firmware natively takes to destroy a QP, and than it takes on the
/// card's own processor.
const NATIVE_BYTES: u32 = 4096;
const CORE_BYTES: u32 = 32 << 10;
const PARTS: usize = 48;
const MARK: u8 = 0xa5;

fn message_bytes() -> u32 {
    match Processor::chosen() {
        Processor::Native => NATIVE_BYTES,
        Processor::Core => CORE_BYTES,
    }
}

/// What one sender may write.
fn part_bytes() -> usize {
    MESSAGES * message_bytes() as usize
}

/// Node 1 has few lines left for QPs; everybody may write all of its memory, so that nothing but the QPN protects it.
struct Bench {
    rig: Rig,
    target: DmaBuf,
    target_mr: Mr<Dev>,
    source_mr: Mr<Dev>,
    /// Of the QPs of node 0, by QPN.
    completed: HashMap<u32, Vec<WcStatus>>,
    _others: Vec<RawQp<Dev>>,
}

/// A QP of node 0 that writes to one of node 1.
struct Flow {
    sender: RawQp<Dev>,
    receiver: RawQp<Dev>,
    part: usize,
}

impl Bench {
    fn new(seed: u64, link: LinkKind, lines: usize) -> Self {
        let rig = Rig::new(&RigConfig::new(seed, link)).unwrap();
        let region = |node: usize, len: usize| {
            let buf = rig.nodes[node].alloc(len).unwrap();
            let place = Place::whole(&buf, LOCAL_AND_REMOTE, BASES[node]);
            let mr = rig.nodes[node].register(&buf, place).unwrap();
            (buf, mr)
        };
        let (_, source_mr) = region(0, part_bytes());
        let (target, target_mr) = region(1, PARTS * part_bytes());
        target.fill(0, PARTS * part_bytes(), MARK);
        let mut others: Vec<_> = std::iter::from_fn(|| rig.nodes[1].create_qp(cap(), false).ok()).collect();
        others.truncate(others.len() - lines);
        Self {
            rig,
            target,
            target_mr,
            source_mr,
            completed: HashMap::new(),
            _others: others,
        }
    }

    /// Everybody begins with the same PSN: a packet for the wrong QP is the one that it expects.
    fn flow(&self, part: usize) -> Flow {
        let nodes = &self.rig.nodes;
        let mut qps = [0, 1].map(|node: usize| nodes[node].create_qp(cap(), false).unwrap());
        let options = ConnectOptions {
            psns: (7, 7),
            ..path(Mtu::Bytes1024)
        };
        connect(&mut qps, &options).unwrap();
        let [sender, receiver] = qps;
        Flow {
            sender,
            receiver,
            part,
        }
    }

    fn post(&self, flow: &mut Flow) {
        for number in 0..MESSAGES {
            let offset = (flow.part * part_bytes() + number * message_bytes() as usize) as u64;
            let wr = SendWr {
                wr_id: number as u64,
                op: SendOp::RdmaWrite {
                    remote_addr: self.target_mr.addr() + offset,
                    rkey: self.target_mr.rkey(),
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[self.source_mr.sge(0, message_bytes())]),
            };
            flow.sender.post_send(&[wr]).unwrap();
        }
    }

    /// What became of the work requests of a QP of node 0.
    fn outcome(&mut self, flow: &Flow) -> Vec<WcStatus> {
        let qp_num = flow.sender.qp_num();
        let limit_ns = self.rig.now_ns() + LIMIT_NS;
        while self.completed.get(&qp_num).map_or(0, Vec::len) < MESSAGES {
            match self.rig.nodes[0].poll().unwrap() {
                Some(wc) => self.completed.entry(wc.qp_num).or_default().push(wc.status),
                None => assert!(
                    self.rig.now_ns() < limit_ns,
                    "QP {qp_num:#x}: not all is completed"
                ),
            }
        }
        self.completed.remove(&qp_num).unwrap()
    }

    fn bytes_of(&self, part: usize) -> Vec<u8> {
        let mut bytes = vec![0; part_bytes()];
        self.target.read_bytes(part * part_bytes(), &mut bytes);
        bytes
    }

    fn is_marked(&self, part: usize) -> bool {
        self.bytes_of(part).iter().all(|byte| *byte == MARK)
    }
}

fn next_owner(link: LinkKind) {
    let mut bench = Bench::new(1, link, 1);
    let mut old = bench.flow(0);
    let old_qpn = old.receiver.qp_num();
    old.receiver.destroy().unwrap();
    let mut new = bench.flow(1);
    let new_qpn = new.receiver.qp_num();
    assert_eq!(line_of(new_qpn), line_of(old_qpn), "there is no other line");
    assert_ne!(new_qpn, old_qpn);
    // From the wire.
    bench.post(&mut old);
    let outcome = bench.outcome(&old);
    assert_eq!(outcome[0], WcStatus::RetryExcErr, "nobody has answered");
    assert!(
        bench.is_marked(0),
        "{link:?}: the new QP took what was sent to the old one"
    );
    // From its process.
    let context = &bench.rig.nodes[1].context;
    for number in [old_qpn, old_qpn + (7 << QPN_LINE_BITS)] {
        let refused = context.function().query_qp(number).unwrap_err();
        let said = format!("{:?}", AdminStatus::BadHandle);
        assert!(format!("{refused:?}").contains(&said), "{refused:?}");
    }
    context.function().query_qp(new_qpn).unwrap();
    // And the new one works.
    bench.post(&mut new);
    let outcome = bench.outcome(&new);
    assert_eq!(outcome, [WcStatus::Success; MESSAGES]);
    assert!(bench.bytes_of(1).iter().all(|byte| *byte == 0));
    bench.rig.check_idle(2_000_000).unwrap();
}

#[test]
fn the_next_owner_of_a_line_has_another_qpn() {
    for link in BOTH_LINKS {
        next_owner(link);
    }
}

/// QPs come and go under traffic on three lines. Some receivers go in the middle of it: their senders go on with a QPN
/// whose line has another QP by then.
fn swarm(seed: u64, link: LinkKind) {
    let mut bench = Bench::new(seed, link, 3);
    let mut rng = Rng::new(seed, "generations");
    // With the messages that had arrived when the receiver went.
    let mut orphans: Vec<(Flow, usize)> = Vec::new();
    let mut qpns = HashSet::new();
    for part in 0..PARTS {
        let mut flow = bench.flow(part);
        assert!(qpns.insert(flow.receiver.qp_num()), "a QPN came back at once");
        // Senders whose receiver has gone send again after 262 us: then this one has its line.
        bench.rig.run(rng.below(150_000).into());
        bench.post(&mut flow);
        if rng.percent(50) {
            bench.rig.run(rng.between(50, 600).into());
            flow.receiver.destroy().unwrap();
            let bytes = bench.bytes_of(part);
            let messages = bytes.chunks(message_bytes() as usize);
            let arrived = messages.filter(|message| message.iter().all(|byte| *byte == 0));
            orphans.push((flow, arrived.count()));
            bench.target.fill(part * part_bytes(), part_bytes(), MARK);
        } else {
            let outcome = bench.outcome(&flow);
            assert_eq!(outcome, [WcStatus::Success; MESSAGES], "part {part}");
            assert!(bench.bytes_of(part).iter().all(|byte| *byte == 0));
        }
    }
    let lines: HashSet<u32> = qpns.iter().map(|qpn| line_of(*qpn)).collect();
    assert_eq!((lines.len(), qpns.len()), (3, PARTS));
    let mut given_up = 0;
    for (flow, arrived) in &orphans {
        let outcome = bench.outcome(flow);
        given_up += usize::from(outcome.contains(&WcStatus::RetryExcErr));
        let told = outcome.iter().filter(|status| **status == WcStatus::Success);
        let told = told.count();
        assert!(
            told <= *arrived,
            "seed {seed}: somebody else acknowledged: {told} of {arrived} in part {}",
            flow.part
        );
        let is_marked = bench.is_marked(flow.part);
        assert!(is_marked, "seed {seed}: part {} was written", flow.part);
    }
    assert!(given_up > 0, "no receiver went in the middle of it");
    bench.rig.check_idle(2_000_000).unwrap();
}

#[test]
fn qps_come_and_go_on_few_lines() {
    for (seed, link) in BOTH_LINKS.into_iter().enumerate() {
        swarm(seed as u64, link);
    }
}
