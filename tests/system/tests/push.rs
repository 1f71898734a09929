//! Send WQEs that ride with their doorbell (decision 0024): the card sends them without reading them, whatever the
//! operation, the slot and the link; more queues than slots; a slot with garbage in it; queues that come and go.

mod common;

use common::{BOTH_LINKS, CANARY_BYTES, LOCAL_AND_REMOTE, Pair};
use hca_abi::{
    DOORBELL_PAGE_OFFSET, PUSH_SLOT_BYTES, PUSH_SLOTS, PUSH_SLOTS_OFFSET, SQ_DOORBELL_OFFSET, SqDoorbell,
};
use hca_dev::Device;
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::{Dev, Node, RigConfig, Rng, path};
use hca_verbs::{Mtu, QpCap, QpState, RawQp, RecvWr, SendFlags, SendOp, SendWr, WrData};

const REGION_BYTES: u64 = 1 << 16;

fn pair(config: &RigConfig) -> Pair {
    Pair::new(config, &path(Mtu::Bytes1024), REGION_BYTES, [LOCAL_AND_REMOTE; 2])
}

/// Reads of a card so far.
fn reads(pair: &Pair, node: usize) -> u64 {
    let fabric = pair.rig.sim.fabric();
    fabric.card(pair.rig.cards[node]).pcie().counters().reads
}

/// What a send queue may be asked to do, by number.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    InlineWrite,
    Read,
    Send,
    InlineSend,
}

impl Kind {
    fn is_inline(self) -> bool {
        matches!(self, Self::InlineWrite | Self::InlineSend)
    }
}

const KINDS: [Kind; 5] = [
    Kind::Write,
    Kind::InlineWrite,
    Kind::Read,
    Kind::Send,
    Kind::InlineSend,
];

/// A message of node 0: from where in the source's region, to where in the target's.
struct Message {
    kind: Kind,
    pieces: u32,
    len: u32,
    from: u64,
    to: u64,
}

impl Message {
    fn random(kind: Kind, rng: &mut Rng) -> Self {
        let len = if kind.is_inline() {
            rng.between(0, 220)
        } else {
            rng.between(1, 3000)
        };
        let (from, to) = (rng.below(20_000).into(), 30_000 + u64::from(rng.below(20_000)));
        Self {
            kind,
            pieces: 1,
            len,
            from,
            to,
        }
    }

    /// Sends it, alone on its queue, and checks that the bytes arrive.
    fn pass(&self, pair: &mut Pair, queue: Option<&mut [RawQp<Dev>; 2]>, rng: &mut Rng) {
        let is_read = matches!(self.kind, Kind::Read);
        let part = self.len / self.pieces;
        let sges: Vec<_> = (0..self.pieces)
            .map(|piece| {
                let end = if piece + 1 == self.pieces {
                    self.len
                } else {
                    (piece + 1) * part
                };
                let offset = if is_read { self.to } else { self.from };
                pair.mrs[0].sge(offset + u64::from(piece * part), end - piece * part)
            })
            .collect();
        let op = match self.kind {
            Kind::Write | Kind::InlineWrite => pair.write_to(1, self.to),
            Kind::Read => pair.read_from(1, self.from),
            Kind::Send | Kind::InlineSend => SendOp::Send,
        };
        let is_send = matches!(op, SendOp::Send);
        let inline = rng.bytes(self.len as usize);
        let (bytes, data) = if self.kind.is_inline() {
            (inline.clone(), WrData::Inline(&inline))
        } else {
            (
                pair.expected(usize::from(is_read), self.from, self.len),
                WrData::Sges(&sges),
            )
        };
        let landing = [pair.mrs[1].sge(self.to, self.len)];
        let qps = queue.unwrap_or(&mut pair.qps);
        if is_send {
            let wr = RecvWr {
                wr_id: 8,
                sges: &landing,
            };
            qps[1].post_recv(&[wr]).unwrap();
        }
        let wr = SendWr {
            wr_id: 7,
            op,
            flags: SendFlags::SIGNALED,
            data,
        };
        qps[0].post_send(&[wr]).unwrap();
        pair.expect(usize::from(!is_read), self.to, &bytes);
        pair.wait_ok(0, 7);
        if is_send {
            pair.wait_ok(1, 8);
        }
        pair.check_memory("a message alone");
    }
}

/// A WQE behind which nothing is outstanding is not read, if its entries fit a slot; the second of two is.
#[test]
fn a_lone_wqe_is_not_read() {
    for link in BOTH_LINKS {
        let mut pair = pair(&RigConfig::new(1, link));
        let mut rng = Rng::new(1, "lone");
        // The keys are read, of both cards, by both that ask for them.
        for kind in [Kind::Write, Kind::Read] {
            let message = Message {
                kind,
                pieces: 1,
                len: 32,
                from: 0,
                to: 30_000,
            };
            message.pass(&mut pair, None, &mut rng);
        }
        // Each piece lies in one block of 512 bytes of bus addresses: a read.
        let from = CANARY_BYTES.next_multiple_of(512) - CANARY_BYTES;
        for (kind, pieces) in [1, 2, 6, 7, 16].iter().flat_map(|n| KINDS.map(|kind| (kind, *n))) {
            let message = Message {
                kind,
                pieces,
                len: if kind.is_inline() { 220 } else { pieces * 32 },
                from,
                to: 30_000,
            };
            let before = reads(&pair, 0);
            message.pass(&mut pair, None, &mut rng);
            // Of payload; of the list of a READ's response.
            let others = if kind.is_inline() || matches!(kind, Kind::Read) {
                1
            } else {
                pieces
            };
            let is_pushed = kind.is_inline() || 32 + 16 * pieces <= PUSH_SLOT_BYTES;
            let expected = u64::from(others) + u64::from(!is_pushed);
            assert_eq!(
                reads(&pair, 0) - before,
                expected,
                "{link:?}, {kind:?}, {pieces} entries"
            );
        }
        let before = reads(&pair, 0);
        let sges = [pair.mrs[0].sge(from, 32)];
        for wr_id in 0..2 {
            let op = pair.write_to(1, 30_000);
            pair.post(0, wr_id, op, &sges);
        }
        for wr_id in 0..2 {
            pair.wait_ok(0, wr_id);
        }
        assert_eq!(
            reads(&pair, 0) - before,
            3,
            "{link:?}: two payloads, the second WQE"
        );
        pair.rig.check_idle(1_000_000).unwrap();
    }
}

/// More queues than slots, each with every operation, in turn; the slots are used and used again.
#[test]
fn more_queues_than_slots() {
    for link in BOTH_LINKS {
        let mut pair = pair(&RigConfig::new(2, link));
        let mut rng = Rng::new(2, "slots");
        let mut queues: Vec<_> = (0..PUSH_SLOTS + 3)
            .map(|_| pair.more_qps(QpCap::default(), &path(Mtu::Bytes1024)))
            .collect();
        for round in 0..2 {
            for (number, qps) in queues.iter_mut().enumerate() {
                let kind = [Kind::Write, Kind::Read, Kind::Send][(number + round) % 3];
                Message::random(kind, &mut rng).pass(&mut pair, Some(qps), &mut rng);
            }
        }
        // Others come and take over the slots of those that go.
        for number in 0..20 {
            let at = number * 3 % queues.len();
            drop(queues.swap_remove(at));
            let mut qps = pair.more_qps(QpCap::default(), &path(Mtu::Bytes1024));
            let kind = [Kind::Write, Kind::Read, Kind::Send][number % 3];
            Message::random(kind, &mut rng).pass(&mut pair, Some(&mut qps), &mut rng);
            queues.push(qps);
        }
        pair.rig.check_idle(1_000_000).unwrap();
    }
}

/// Packets get lost: what was pushed is sent again from the slot or from the ring. RESET, and the first index again.
#[test]
fn lost_packets_and_resets() {
    for link in BOTH_LINKS {
        let config = RigConfig {
            faults: FaultSpec {
                loss: 0.05,
                ..FaultSpec::default()
            },
            ..RigConfig::new(3, link)
        };
        let mut pair = pair(&config);
        let mut rng = Rng::new(3, "lossy");
        for number in 0..60 {
            Message::random(KINDS[number % 5], &mut rng).pass(&mut pair, None, &mut rng);
            if number % 20 == 19 {
                for qp in &mut pair.qps {
                    qp.modify_state(QpState::Reset).unwrap();
                }
                hca_system_tests::connect(&mut pair.qps, &path(Mtu::Bytes1024)).unwrap();
            }
        }
        pair.rig.check_idle(2_000_000).unwrap();
    }
}

/// Another function fills all of its slots, all the time, and names them for a queue of its own: that queue fails at
/// most; the neighbour's pushed WQEs are untouched.
#[test]
fn slots_are_a_functions_own() {
    let mut pair = pair(&RigConfig::new(4, LinkKind::Ethernet));
    let mut rng = Rng::new(4, "hostile");
    let hostile = Node::open(pair.rig.neighbour(0, 1), 64).unwrap();
    let peer = Node::open(pair.rig.neighbour(1, 1), 64).unwrap();
    let mut own = [&hostile, &peer].map(|node| node.create_qp(QpCap::default(), false).unwrap());
    hca_system_tests::connect(&mut own, &path(Mtu::Bytes1024)).unwrap();
    for round in 0..40 {
        for offset in (0..PUSH_SLOTS * PUSH_SLOT_BYTES).step_by(8 * 5) {
            let garbage = u64::from(rng.u32()) << 32 | u64::from(rng.u32());
            hostile.dev.mmio_write64(PUSH_SLOTS_OFFSET + offset, garbage);
        }
        if round % 10 == 5 {
            let mut word = SqDoorbell::new();
            word.set_qpn(own[0].qp_num());
            word.set_producer_index(1);
            word.set_push(true);
            word.set_push_slot((round % 64) as u8);
            hostile
                .dev
                .mmio_write64(DOORBELL_PAGE_OFFSET + SQ_DOORBELL_OFFSET, word.to_word());
        }
        Message::random(KINDS[round % 5], &mut rng).pass(&mut pair, None, &mut rng);
    }
    let status = own[0].query().unwrap().qp_state;
    assert_eq!(status, QpState::Err, "a WQE of garbage was taken");
    assert_eq!(pair.rig.nodes[0].context.poll_async_event(), None);
    pair.check_traffic("beside a function that pushes garbage");
}
