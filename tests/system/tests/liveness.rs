//! Nobody waits for what others do: doorbells while nothing can go out, functions beside a long flush, reads that the
//! host never answers.

mod common;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair, cap};
use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminDoorbell, CQ_DOORBELL_OFFSET, CqDoorbell, DOORBELL_PAGE_OFFSET,
    EQ_DOORBELL_OFFSET, EqDoorbell, RQ_DOORBELL_OFFSET, SQ_DOORBELL_OFFSET, SqDoorbell,
};
use hca_cosim::{CardId, NUM_EQS};
use hca_dev::Device as _;
use hca_host::PcieParams;
use hca_link::LinkKind;
use hca_regs::{FUNC_ADMIN_SQ_BASE_LO, FUNC_ADMIN_STATUS};
use hca_system_tests::{Dev, Node, Rig, RigConfig, connect, path};
use hca_verbs::{
    ConnectOptions, Mtu, QpAttr, QpAttrMask, QpCap, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr,
    WcStatus, WrData,
};

/// Design 9.9: cycles that a register write may wait for those before it.
const WRITE_CYCLES: u64 = 8;

/// What has begun is over by then: acknowledges, timers, what firmware does after commands.
const SETTLE_CYCLES: u64 = 200_000;
const REST_CYCLES: u64 = 1_000_000;

/// A card with nothing to do is not evaluated: nothing in it turns then, or takes the time down (decision 0018).
/// Whoever waits for a timer would wait for the simulator.
#[test]
fn a_card_at_rest_sleeps() {
    for kind in BOTH_LINKS {
        let options = path(Mtu::Bytes1024);
        let mut pair = Pair::new(
            &RigConfig::new(1, kind),
            &options,
            64 << 10,
            [LOCAL_AND_REMOTE; 2],
        );
        pair.check_traffic("before the rest");
        pair.rig.run(SETTLE_CYCLES);
        let evaluated = |rig: &Rig| {
            rig.cards
                .map(|card| rig.sim.fabric().card(card).counters().evaluated_cycles)
        };
        let before = evaluated(&pair.rig);
        pair.rig.run(REST_CYCLES);
        let after = evaluated(&pair.rig);
        assert_eq!(
            after, before,
            "{kind:?}: cycles evaluated of {REST_CYCLES} at rest"
        );
    }
}

/// Every doorbell of a function that is at rest, and a register of one that nobody uses: writes that change nothing.
struct Doorbells {
    dev: Dev,
    unused: Dev,
    words: Vec<(u32, u64)>,
}

impl Doorbells {
    fn new(rig: &Rig, card: CardId, bystander: &Node, qp: &RawQp<Dev>) -> Self {
        let mut qp_word = SqDoorbell::new();
        qp_word.set_qpn(qp.qp_num());
        let mut cq_word = CqDoorbell::new();
        cq_word.set_cqn(bystander.cq.cqn());
        cq_word.set_arm(1);
        let mut admin = AdminDoorbell::new();
        admin.set_producer_index(bystander.dev.mmio_read32(FUNC_ADMIN_STATUS) as u16);
        let mut words = vec![
            (SQ_DOORBELL_OFFSET, qp_word.to_word()),
            (RQ_DOORBELL_OFFSET, qp_word.to_word()),
            (CQ_DOORBELL_OFFSET, cq_word.to_word()),
            (ADMIN_DOORBELL_OFFSET, admin.to_word()),
        ];
        words.extend((0..NUM_EQS as u8).map(|eqn| {
            let mut word = EqDoorbell::new();
            word.set_eqn(eqn);
            (EQ_DOORBELL_OFFSET, word.to_word())
        }));
        Self {
            dev: bystander.dev.clone(),
            unused: rig.sim.device(card, 2).unwrap().into(),
            words,
        }
    }

    /// Writes all of them; how many.
    fn ring(&self) -> u64 {
        for (offset, word) in &self.words {
            self.dev.mmio_write64(DOORBELL_PAGE_OFFSET + offset, *word);
        }
        self.unused.mmio_write32(FUNC_ADMIN_SQ_BASE_LO, 0);
        self.words.len() as u64 + 1
    }
}

/// What waits at node 1 while its host takes nothing.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// The peer's data.
    Payload,
    /// Completions alone, of WRITEs with immediate and without data.
    Cqes,
}

impl Waiting {
    const MESSAGES: u64 = 30;

    /// Node 0 sends, and node 1 has nothing to read for it.
    fn post(self, pair: &mut Pair) {
        let bytes = pair.expected(0, 0, 1_500);
        for wr_id in 0..Self::MESSAGES {
            let place = (wr_id + 1) * 5_000;
            match self {
                Self::Payload => {
                    pair.expect(1, place, &bytes);
                    let op = pair.write_to(1, place);
                    let source = [pair.mrs[0].sge(0, 1_500)];
                    pair.post(0, wr_id, op, &source);
                }
                Self::Cqes => {
                    let (remote_addr, rkey) = pair.remote(1, place);
                    let op = SendOp::RdmaWriteWithImm {
                        remote_addr,
                        rkey,
                        imm_data: 7,
                    };
                    pair.post(0, wr_id, op, &[]);
                }
            }
        }
    }
}

fn posted_writes(link: LinkKind, waiting: Waiting) {
    let host = PcieParams {
        bandwidth_mbps: 4_000,
        stall_ns: 1_000_000,
        stall_every_ns: 2_000_000,
        host_buffer_bytes: 512,
        ..PcieParams::default()
    };
    let config = RigConfig {
        other_pcie: Some(host.clone()),
        ..RigConfig::new(9, link)
    };
    let mut pair = Pair::new(&config, &path_of(14), 200_000, [LOCAL_AND_REMOTE; 2]);
    pair.check_traffic("before");
    let card = pair.rig.cards[1];
    let bystander = Node::open(pair.rig.sim.device(card, 1).unwrap(), 64).unwrap();
    let mut qps = [
        pair.rig.nodes[0].create_qp(cap(), false).unwrap(),
        bystander.create_qp(cap(), false).unwrap(),
    ];
    connect(&mut qps, &path_of(14)).unwrap();
    let doorbells = Doorbells::new(&pair.rig, card, &bystander, &qps[1]);
    let [stall, every] = [host.stall_ns, host.stall_every_ns].map(|ns| host.cycles(ns.into()));
    for wr_id in 0..Waiting::MESSAGES {
        pair.recv(1, wr_id, &[]);
    }
    // What is posted at the end of a period meets the stall.
    let start = pair.rig.now_cycles();
    pair.rig.run(every - 100 - start % every);
    waiting.post(&mut pair);
    while pair.rig.now_cycles() % every > stall {
        pair.rig.run(10);
    }
    pair.rig.run(20_000);
    for round in 0..5 {
        let now = pair.rig.now_cycles();
        assert!(now % every < stall - 20_000);
        assert!(!pair.rig.sim.fabric().card(card).pcie().write_ready(now));
        let written = doorbells.ring();
        pair.rig
            .run(host.cycles(host.mmio_latency_ns.into()) + written * WRITE_CYCLES);
        let fabric = pair.rig.sim.fabric();
        let left = [1, 2].map(|func| fabric.card(card).pcie().mmio_pending(func));
        assert_eq!(
            left,
            [0, 0],
            "{link:?}, {waiting:?}, round {round}: writes that wait"
        );
        assert!(!fabric.card(card).pcie().write_ready(now));
    }
    for number in 0..Waiting::MESSAGES {
        pair.wait_ok(0, number);
        if matches!(waiting, Waiting::Cqes) {
            pair.wait_ok(1, number);
        }
    }
    pair.check_memory("after a stall");
    drop(qps);
    pair.rig.check_idle(2_000_000).unwrap();
}

#[test]
fn posted_writes_are_taken_while_nothing_can_go_out() {
    for link in BOTH_LINKS {
        posted_writes(link, Waiting::Payload);
        posted_writes(link, Waiting::Cqes);
    }
}

/// Longer than what the host may take for a read.
fn path_of(timeout: u8) -> ConnectOptions {
    ConnectOptions {
        timeout,
        ..path(Mtu::Bytes4096)
    }
}

/// WQEs of the longest queue.
const LONGEST: u32 = 65_536;

/// A receive queue of the greatest length, full, in ERR: its flush has begun.
fn flush_the_longest(neighbour: &Node, count: usize) -> Vec<RawQp<Dev>> {
    let cap = QpCap {
        max_recv_wr: LONGEST,
        max_recv_sge: 1,
        ..cap()
    };
    let mut qps: Vec<_> = (0..count)
        .map(|_| neighbour.create_qp(cap, false).unwrap())
        .collect();
    for qp in &mut qps {
        let attr = QpAttr {
            qp_state: QpState::Init,
            port_num: 1,
            ..QpAttr::default()
        };
        let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
        qp.modify(&attr, mask).unwrap();
        let entries: Vec<_> = (0..u64::from(LONGEST))
            .map(|wr_id| RecvWr { wr_id, sges: &[] })
            .collect();
        qp.post_recv(&entries).unwrap();
    }
    for qp in &mut qps {
        qp.modify_state(QpState::Err).unwrap();
    }
    qps
}

/// Cycles from a small WRITE's doorbell to its completion.
fn write_cycles(pair: &mut Pair, wr_id: u64) -> u64 {
    let bytes = pair.expected(0, 0, 64);
    pair.expect(1, 64, &bytes);
    let (source, op) = ([pair.mrs[0].sge(0, 64)], pair.write_to(1, 64));
    let start = pair.rig.now_cycles();
    pair.post(0, wr_id, op, &source);
    pair.wait_ok(0, wr_id);
    pair.rig.now_cycles() - start
}

/// Cycles in which the peer's WRITEs of 4 KiB come in, 16 at a time.
fn receive_cycles(pair: &mut Pair) -> u64 {
    const WRITES: u64 = 16;
    let bytes = pair.expected(1, 0, 4096);
    pair.expect(0, 8192, &bytes);
    let (source, op) = ([pair.mrs[1].sge(0, 4096)], pair.write_to(0, 8192));
    let start = pair.rig.now_cycles();
    for wr_id in 0..WRITES {
        pair.post(1, wr_id, op, &source);
    }
    for wr_id in 0..WRITES {
        pair.wait_ok(1, wr_id);
    }
    pair.rig.now_cycles() - start
}

/// Design 9.4: two QPs of a function flush 65,536 receive WQEs each and go on ringing; another function's messages are
/// delayed by less than a microsecond, and it receives at more than half of its rate.
#[test]
fn a_long_flush_delays_nobody() {
    const MICROSECOND: u64 = 250;
    let mut pair = Pair::new(
        &RigConfig::new(9, LinkKind::Ethernet),
        &path_of(15),
        16_384,
        [LOCAL_AND_REMOTE; 2],
    );
    let alone = (0..5).map(|wr_id| write_cycles(&mut pair, wr_id)).max().unwrap();
    let received_alone = receive_cycles(&mut pair);
    let card = pair.rig.cards[0];
    let neighbour = Node::open(pair.rig.sim.device(card, 1).unwrap(), 1 << 17).unwrap();
    let flushed = flush_the_longest(&neighbour, 2);
    let mut longest = 0;
    for wr_id in 0..20 {
        // A doorbell of a QP in ERR asks for a flush of its own.
        for qp in &flushed {
            let mut word = SqDoorbell::new();
            word.set_qpn(qp.qp_num());
            word.set_producer_index(LONGEST);
            neighbour
                .dev
                .mmio_write64(DOORBELL_PAGE_OFFSET + RQ_DOORBELL_OFFSET, word.to_word());
        }
        longest = longest.max(write_cycles(&mut pair, wr_id));
    }
    let received = receive_cycles(&mut pair);
    let mut done = 0;
    while neighbour.poll_ready().unwrap().is_some() {
        done += 1;
    }
    assert!((1_000..120_000).contains(&done), "{done} flushed: not beside it");
    println!("64-byte WRITE: {alone} cycles alone, {longest} beside a flush");
    println!("16 WRITEs of 4 KiB in: {received_alone} cycles alone, {received} beside a flush");
    assert!(
        longest < alone + MICROSECOND,
        "{alone} cycles alone, {longest} beside a flush"
    );
    assert!(
        received < 2 * received_alone,
        "{received_alone} cycles alone, {received} beside a flush"
    );
    pair.check_traffic("after a flush");
    while done < 2 * LONGEST {
        if let Some(wc) = neighbour.poll().unwrap() {
            assert_eq!(wc.status, WcStatus::WrFlushErr);
            done += 1;
        }
    }
    drop(flushed);
}

/// Which card's host loses reads, and what the QPs do meanwhile.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// WQEs and payload.
    Writes,
    /// Lists of receive WQEs.
    Receives,
    /// What READs ask for.
    Responses,
}

/// QPs that carry messages from the start of one region to a place of each in the other.
struct Flows {
    loss: Loss,
    ends: Vec<[RawQp<Dev>; 2]>,
}

impl Flows {
    /// All messages fit into a receive buffer that nobody empties.
    const LEN: u32 = 1024;
    const MESSAGES: u64 = 8;

    fn new(pair: &Pair, loss: Loss) -> Self {
        let ends = (0..6).map(|_| pair.more_qps(cap(), &path_of(14))).collect();
        Self { loss, ends }
    }

    fn loser(&self) -> usize {
        match self.loss {
            Loss::Writes => 0,
            Loss::Receives | Loss::Responses => 1,
        }
    }

    /// A list is one read, a message two.
    fn one_in(&self) -> u32 {
        match self.loss {
            Loss::Receives => 12,
            Loss::Writes | Loss::Responses => 60,
        }
    }

    fn place(index: usize) -> u64 {
        8192 * (index as u64 + 1)
    }

    fn post(&mut self, pair: &mut Pair, index: usize, number: u64) {
        let place = Self::place(index);
        let (op, offset) = match self.loss {
            Loss::Writes => (pair.write_to(1, place), 0),
            Loss::Responses => (pair.read_from(1, 0), place),
            Loss::Receives => {
                let sges = [pair.mrs[1].sge(place, Self::LEN)];
                self.ends[index][1]
                    .post_recv(&[RecvWr {
                        wr_id: 0,
                        sges: &sges,
                    }])
                    .unwrap();
                (SendOp::Send, 0)
            }
        };
        let wr = SendWr {
            wr_id: index as u64 * Self::MESSAGES + number,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[pair.mrs[0].sge(offset, Self::LEN)]),
        };
        self.ends[index][0].post_send(&[wr]).unwrap();
    }

    /// Statuses of everything posted, by flow.
    fn outcome(&self, pair: &Pair) -> Vec<Vec<WcStatus>> {
        let mut statuses = vec![Vec::new(); self.ends.len()];
        let limit_ns = pair.rig.now_ns() + 1_000_000_000;
        for _ in 0..self.ends.len() as u64 * Self::MESSAGES {
            let wc = loop {
                if let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
                    break wc;
                }
                assert!(
                    pair.rig.now_ns() < limit_ns,
                    "{:?}: a completion is missing",
                    self.loss
                );
            };
            statuses[(wc.wr_id / Self::MESSAGES) as usize].push(wc.status);
        }
        statuses
    }

    /// Connects a flow again; it carries a message.
    fn again(&mut self, pair: &mut Pair, index: usize) {
        for qp in &mut self.ends[index] {
            qp.modify_state(QpState::Reset).unwrap();
        }
        connect(&mut self.ends[index], &path_of(14)).unwrap();
        self.post(pair, index, 0);
        pair.wait_ok(0, index as u64 * Self::MESSAGES);
    }
}

/// A read that the host never answers is an error of the QP for which it was, after the card's time-out; the others
/// complete, and the QP itself works when it has been reset.
fn reads_without_an_answer(loss: Loss, seed: u64) -> usize {
    let config = RigConfig::new(seed, BOTH_LINKS[seed as usize % 2]);
    let mut pair = Pair::new(&config, &path_of(14), 1 << 17, [LOCAL_AND_REMOTE; 2]);
    let mut flows = Flows::new(&pair, loss);
    let card = pair.rig.cards[flows.loser()];
    let lose = |pair: &Pair, one_in| pair.rig.sim.fabric().card_mut(card).lose_reads(one_in);
    let start_ns = pair.rig.now_ns();
    lose(&pair, flows.one_in());
    for number in 0..Flows::MESSAGES {
        for index in 0..flows.ends.len() {
            flows.post(&mut pair, index, number);
        }
    }
    let statuses = flows.outcome(&pair);
    lose(&pair, 0);
    let took_ns = pair.rig.now_ns() - start_ns;
    let lost = pair.rig.sim.fabric().card(card).pcie().counters().lost_reads as usize;
    let is_dead = |all: &Vec<WcStatus>| all.iter().any(|status| *status != WcStatus::Success);
    let dead = statuses.iter().filter(|all| is_dead(all)).count();
    println!("{loss:?}, seed {seed}: {lost} reads lost, {dead} of 6 QPs in error after {took_ns} ns");
    assert!(dead <= lost, "{loss:?}, seed {seed}: {lost} lost, {dead} dead");
    assert!(
        lost == 0 || took_ns > 16_700_000,
        "{took_ns} ns: no time-out can have been over"
    );
    for (index, all) in statuses.iter().enumerate() {
        let good = all.iter().take_while(|status| **status == WcStatus::Success);
        let mut bad = all[good.count()..].iter();
        let first = bad.next().copied();
        assert_ne!(
            first,
            Some(WcStatus::WrFlushErr),
            "{loss:?}, seed {seed}: {all:?}"
        );
        assert!(bad.all(|status| *status == WcStatus::WrFlushErr), "{all:?}");
        if first.is_some() {
            flows.again(&mut pair, index);
        }
        let [from, to] = if matches!(loss, Loss::Responses) {
            [1, 0]
        } else {
            [0, 1]
        };
        let bytes = pair.expected(from, 0, Flows::LEN);
        pair.expect(to, Flows::place(index), &bytes);
    }
    // Receives, and the flushed ones.
    while pair.rig.nodes[1].poll().unwrap().is_some() {}
    pair.check_traffic("after lost reads");
    drop(flows);
    // Their tags have rested, too.
    pair.rig.check_idle(30_000_000).unwrap();
    dead
}

#[test]
fn a_read_without_an_answer_ends_one_qp() {
    for loss in [Loss::Writes, Loss::Receives, Loss::Responses] {
        let dead: usize = (0..3).map(|seed| reads_without_an_answer(loss, seed)).sum();
        assert!((2..15).contains(&dead), "{loss:?}: {dead} of 18 QPs");
    }
}
