//! Two models over a bad wire: whatever the wire does, the promises of each service hold.

mod common;

use common::{Faults, Pair, QPNS, Rng, draw_config, draw_link, region};
use hca_model::{
    Atomic, Destination, Mtu, Op, QpConfig, RecvRequest, SendFlags, SendRequest, Service, Sge, WcStatus,
    reply_link,
};
use hca_wire::Link;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MTUS: [Mtu; 3] = [Mtu::Bytes256, Mtu::Bytes512, Mtu::Bytes1024];
const STEPS: usize = 400_000;

/// Memory of a test: each node's region, its key and address, and what must be in it.
struct Places {
    keys: [u32; 2],
    vas: [u64; 2],
    expected: [Vec<u8>; 2],
    used: [u32; 2],
}

impl Places {
    fn new(pair: &mut Pair, len: usize) -> Self {
        let made = [0, 1].map(|node| region(pair, node, len));
        let expected =
            [0, 1].map(|node: usize| pair.models[node].memory().bytes(made[node].0).unwrap().to_vec());
        Self {
            keys: made.map(|(key, _)| key),
            vas: made.map(|(_, va)| va),
            expected,
            used: [0; 2],
        }
    }

    /// A new place of a node.
    fn take(&mut self, node: usize, len: u32) -> Sge {
        let at = self.used[node];
        self.used[node] += len + 8 - len % 8;
        Sge::new(self.keys[node], self.vas[node] + u64::from(at), len)
    }

    fn content(&mut self, node: usize, place: Sge) -> &mut [u8] {
        let at = (place.addr - self.vas[node]) as usize;
        &mut self.expected[node][at..at + place.len as usize]
    }

    fn copies(&mut self, from: (usize, Sge), to: (usize, Sge)) {
        let bytes = self.content(from.0, from.1).to_vec();
        self.content(to.0, to.1).copy_from_slice(&bytes);
    }
}

fn connect(pair: &mut Pair, seed: u64, service: Service) -> Link {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let link = draw_link(&mut rng);
    let mtu = rng.pick(&MTUS);
    let start = [0xff_ffff - rng.below(60), rng.below(1 << 24)];
    let depth = rng.pick(&[1, 2, 16]);
    pair.connect(link, |node, config: &mut QpConfig| {
        draw_config(&mut rng, config, start, node);
        (config.service, config.mtu, config.qkey) = (service, mtu, 7);
        (config.max_rd_atomic, config.max_dest_rd_atomic) = (depth, depth);
    });
    link
}

/// One message of node `from`, with all that must come of it; the peer's receive, if it takes one.
fn message(
    rng: &mut Rng,
    places: &mut Places,
    from: usize,
    wr_id: u64,
) -> (SendRequest, Option<RecvRequest>) {
    let to = 1 - from;
    let len = match rng.below(3) {
        0 => rng.below(3),
        1 => rng.below(5) * 256 + rng.below(2),
        _ => rng.below(4_000),
    };
    let (here, there) = (places.take(from, len), places.take(to, len));
    let (va, rkey, imm) = (there.addr, there.lkey, rng.percent(50).then_some(wr_id as u32));
    let flags = SendFlags {
        signaled: true,
        solicited: rng.percent(20),
        fence: rng.percent(20),
    };
    let kind = rng.below(3);
    let op = match kind {
        0 => Op::Send {
            imm,
            invalidate: None,
        },
        1 => Op::Write { va, rkey, imm },
        _ => Op::Read { va, rkey },
    };
    match kind {
        2 => places.copies((to, there), (from, here)),
        _ => places.copies((from, here), (to, there)),
    }
    let receive = match op {
        Op::Send { .. } => Some(vec![there]),
        Op::Write { imm: Some(_), .. } => Some(Vec::new()),
        _ => None,
    };
    let request = SendRequest {
        flags,
        ..SendRequest::new(wr_id, op, vec![here])
    };
    (request, receive.map(|sges| RecvRequest::new(wr_id, sges)))
}

/// REL-1, REL-19, XPORT-1: exactly once, in order, without error.
fn reliable(seed: u64, count: u64) {
    let mut rng = Rng::new(seed);
    let mut pair = Pair::new(seed, Faults::draw(&mut rng));
    connect(&mut pair, seed, Service::Rc);
    let mut places = Places::new(&mut pair, 1 << 18);
    let mut receives: [Vec<RecvRequest>; 2] = Default::default();
    for node in 0..2 {
        for wr_id in 0..count {
            let (request, receive) = message(&mut rng, &mut places, node, wr_id);
            receives[1 - node].extend(receive);
            pair.models[node].post_send(QPNS[node], request).unwrap();
        }
    }
    let due: [Vec<u64>; 2] = [0, 1].map(|node: usize| receives[node].iter().map(|one| one.wr_id).collect());
    // Some are there from the start, the others come late (REL-8).
    for (node, receives) in receives.into_iter().enumerate() {
        for receive in receives {
            if rng.percent(20) {
                pair.run(12);
            }
            pair.models[node].post_recv(QPNS[node], receive).unwrap();
        }
    }
    pair.run(STEPS);
    if let Some(violation) = &pair.violation {
        panic!("{violation}");
    }
    for (node, due) in due.iter().enumerate() {
        let all = &pair.completions[node];
        assert!(all.iter().all(|wc| wc.status == WcStatus::Success), "{all:?}");
        let is_recv = |wc: &&hca_model::Completion| wc.opcode as u8 & 128 != 0;
        let sends: Vec<u64> = all.iter().filter(|wc| !is_recv(wc)).map(|wc| wc.wr_id).collect();
        let recvs: Vec<u64> = all.iter().filter(is_recv).map(|wc| wc.wr_id).collect();
        assert_eq!(
            sends,
            (0..count).collect::<Vec<_>>(),
            "node {node}: {:?}",
            pair.faults
        );
        assert_eq!(&recvs, due, "node {node}");
        assert!(
            all.iter()
                .filter(is_recv)
                .all(|wc| wc.imm.is_none_or(|imm| u64::from(imm) == wc.wr_id))
        );
        let found = pair.models[node].memory().bytes(places.keys[node]).unwrap();
        assert!(
            found == &places.expected[node][..],
            "node {node}: memory is wrong"
        );
    }
}

/// REL-17, WIRE-17: what arrives is whole, in order, and comes once. `copies`: datagrams have no PSN that anybody
/// looks at, so that a copy on the wire is a second datagram.
fn unreliable(seed: u64, service: Service, count: u32) -> usize {
    let mut rng = Rng::new(seed);
    let faults = Faults::draw(&mut rng);
    let copies = service == Service::Ud && rng.percent(50);
    let copy = if service == Service::Ud && !copies {
        0
    } else {
        faults.copy
    };
    let mut pair = Pair::new(seed, Faults { copy, ..faults });
    let link = connect(&mut pair, seed, service);
    let mut places = Places::new(&mut pair, 1 << 18);
    let extra = if service == Service::Ud { 40 } else { 0 };
    let longest = if service == Service::Ud { 256 } else { 3_000 };
    let mut sources = Vec::new();
    let mut targets = Vec::new();
    for index in 0..count {
        let source = places.take(0, rng.below(longest + 1));
        let target = places.take(1, longest + extra);
        targets.push(target);
        let op = Op::Send {
            imm: Some(index),
            invalidate: None,
        };
        let destination = Destination {
            link,
            qpn: QPNS[1],
            qkey: 7,
        };
        let request = SendRequest {
            destination: (service == Service::Ud).then_some(destination),
            ..SendRequest::new(index.into(), op, vec![source])
        };
        sources.push(source);
        pair.models[1]
            .post_recv(QPNS[1], RecvRequest::new(index.into(), vec![target]))
            .unwrap();
        pair.models[0].post_send(QPNS[0], request).unwrap();
    }
    pair.run(STEPS);
    assert_eq!(
        pair.completions[0].len(),
        count as usize,
        "OP-19: what was sent has completed"
    );
    let found = pair.models[1].memory().bytes(places.keys[1]).unwrap().to_vec();
    let mut seen = Vec::new();
    for (wc, target) in pair.completions[1].iter().zip(&targets) {
        assert_eq!(wc.status, WcStatus::Success);
        let index = wc.imm.unwrap();
        seen.push(index);
        let bytes = places.content(0, sources[index as usize]).to_vec();
        let at = (target.addr - places.vas[1]) as usize + extra as usize;
        assert_eq!(wc.byte_len as usize, bytes.len() + extra as usize);
        assert!(
            found[at..at + bytes.len()] == bytes,
            "message {index} is torn: {:?}",
            pair.faults
        );
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert!(
        copies || once.len() == seen.len(),
        "something came twice: {seen:?}"
    );
    assert!(
        service == Service::Ud || seen.is_sorted(),
        "out of order: {seen:?}"
    );
    seen.len()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// REL-1, REL-19, ACC-5.
    #[test]
    fn rc_delivers_exactly_once_and_in_order(seed: u64) {
        reliable(seed, 12);
    }

    /// REL-17, ACC-5.
    #[test]
    fn uc_delivers_at_most_once_and_never_torn(seed: u64) {
        unreliable(seed, Service::Uc, 12);
    }

    /// XPORT-4.
    #[test]
    fn ud_is_never_torn(seed: u64) {
        unreliable(seed, Service::Ud, 12);
    }
}

/// The unreliable ones deliver everything where nothing is lost, so that the tests above do not pass by silence.
#[test]
fn a_good_wire_loses_nothing() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let faults = Faults::draw(&mut rng);
        let quiet = faults.loss + faults.copy + faults.delay + faults.damage == 0;
        for service in [Service::Uc, Service::Ud] {
            let arrived = unreliable(seed, service, 8);
            assert!(!quiet || arrived == 8, "seed {seed}: {arrived} of 8");
        }
    }
}

/// OP-6, OP-7, REL-19: atomics are carried out once, however often they are asked for.
#[test]
fn atomics_happen_once() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(seed, Faults::draw(&mut rng));
        connect(&mut pair, seed, Service::Rc);
        let word = pair.models[1].register(0, 0x8000, 5_u64.to_le_bytes().to_vec(), hca_model::Access::ALL);
        let results = pair.models[0].register(0, 0, vec![0; 8 * 21], hca_model::Access::ALL);
        for wr_id in 0..21_u64 {
            let atomic = match wr_id {
                20 => Atomic::CompareSwap {
                    compare: 5 + 190,
                    swap: 77,
                },
                _ => Atomic::FetchAdd { add: wr_id },
            };
            let op = Op::Atomic {
                va: 0x8000,
                rkey: word,
                atomic,
            };
            let request = SendRequest::new(wr_id, op, vec![Sge::new(results, 8 * wr_id, 8)]);
            pair.models[0].post_send(QPNS[0], request).unwrap();
        }
        pair.run(STEPS);
        assert_eq!(pair.violation, None, "seed {seed}");
        assert_eq!(pair.completions[0].len(), 21, "seed {seed}");
        assert_eq!(
            pair.models[1].memory().bytes(word).unwrap(),
            77_u64.to_le_bytes(),
            "seed {seed}"
        );
        let found = pair.models[0].memory().bytes(results).unwrap();
        let mut sum = 5_u64;
        for (add, bytes) in (0..20_u64).zip(found.chunks(8)) {
            assert_eq!(bytes, sum.to_le_bytes(), "seed {seed}: what was there before");
            sum += add;
        }
    }
}

/// The wire's way back leads to the sender on every kind of network.
#[test]
fn replies_lead_back() {
    for seed in 0..9 {
        let link = draw_link(&mut Rng::new(seed));
        assert!(hca_model::same_sender(&reply_link(&link), &link));
        assert!(!hca_model::same_sender(&link, &link));
    }
}
