//! Random messages in both directions at once over a bad cable, between the card and a model of random manners. A seed
//! decides everything.

use super::common::ALL_MTUS;
use super::duel::{CARD_VA, Duel, MODEL_VA, REGION_BYTES};
use hca_link::{FaultSpec, LinkKind};
use hca_model::{Manners, Op, RecvRequest, SendFlags as ModelFlags, SendRequest, Sge as ModelSge};
use hca_system_tests::opposite::OppositeConfig;
use hca_system_tests::{Rng, path};
use hca_verbs::{ConnectOptions, RecvWr, SendFlags, SendOp, SendWr, Service, Sge, WcStatus, WrData, wc_flag};

/// Messages of each direction.
const MESSAGES: u64 = 14;
/// Bytes of the longest message.
const ROOM_BYTES: u32 = 4_100;
/// Simulated time that a seed may take.
const LIMIT_NS: u64 = 200_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
}

/// Offsets and lengths in a region.
type Pieces = Vec<(u64, u32)>;

/// One message, as places in the two regions; `here` is the sender's.
#[derive(Clone, Debug)]
struct Message {
    kind: Kind,
    here: Pieces,
    there: (u64, u32),
    /// Lists of the receive that it takes, if any.
    receive: Option<Pieces>,
    imm: Option<u32>,
    fence: bool,
}

/// Hands out the places of a region.
#[derive(Default)]
struct Places(u64);

impl Places {
    fn take(&mut self, rng: &mut Rng, len: u32) -> (u64, u32) {
        let at = self.0 + u64::from(rng.below(9));
        self.0 = at + u64::from(len);
        assert!(self.0 <= REGION_BYTES, "the region is too small");
        (at, len)
    }

    fn pieces(&mut self, rng: &mut Rng, len: u32) -> Pieces {
        let cut = rng.below(len + 1);
        [cut, len - cut].map(|len| self.take(rng, len)).to_vec()
    }
}

fn draw_message(rng: &mut Rng, service: Service, mtu: u32, places: [&mut Places; 2], index: u64) -> Message {
    let kinds: &[Kind] = if service == Service::Uc {
        &[Kind::Send]
    } else {
        &[Kind::Send, Kind::Write, Kind::Read]
    };
    let kind = rng.pick(kinds);
    let len = match rng.below(3) {
        0 => rng.pick(&[0, 1, mtu - 1, mtu, mtu + 1]),
        1 => rng.below(200),
        _ => rng.below(4 * 1024),
    }
    .min(ROOM_BYTES);
    let [here, there] = places;
    let imm = (service == Service::Uc || (kind != Kind::Read && rng.percent(50))).then_some(index as u32);
    let here = here.pieces(rng, len);
    // Half of the receives are longer than need be.
    let slack = rng.pick(&[0, 33]);
    let (target, receive) = match (kind, imm) {
        // Room for any of them: which one comes into it is the cable's affair.
        _ if service == Service::Uc => ((0, 0), Some(vec![there.take(rng, ROOM_BYTES)])),
        (Kind::Send, _) => ((0, 0), Some(there.pieces(rng, len + slack))),
        (Kind::Write, Some(_)) => (there.take(rng, len), Some(Vec::new())),
        _ => (there.take(rng, len), None),
    };
    Message {
        kind,
        here,
        there: target,
        receive,
        imm,
        fence: rng.percent(20),
    }
}

fn draw_faults(rng: &mut Rng) -> FaultSpec {
    let mut chance = || {
        if rng.percent(50) {
            f64::from(rng.below(40)) / 1000.0
        } else {
            0.0
        }
    };
    FaultSpec {
        loss: chance(),
        dup: chance(),
        reorder: chance(),
        corrupt: chance(),
        ..FaultSpec::default()
    }
}

fn draw_manners(rng: &mut Rng) -> Manners {
    Manners {
        ask_every: rng.pick(&[1, 4, 1000]),
        window: rng.pick(&[1, 4, 64, 256]),
        ack_delay_ns: rng.pick(&[0, 0, 2_000, 20_000]),
        ack_all: rng.percent(30),
        credits: rng.percent(50),
        selective: false,
    }
}

/// A duel of a seed, what it is made of as text, and both sides' messages: 0 is the card's.
fn draw(seed: u64, service: Service) -> (Duel, String, [Vec<Message>; 2]) {
    let mut rng = Rng::new(seed, "duel");
    let link = rng.pick(&[LinkKind::Ethernet, LinkKind::InfiniBand]);
    let (mtu, mtu_bytes) = rng.pick(&ALL_MTUS);
    let (faults, manners) = (draw_faults(&mut rng), draw_manners(&mut rng));
    let options = ConnectOptions {
        psns: (0xff_ffff - rng.below(60), 0xff_ffff - rng.below(60)),
        gid_index: match link {
            LinkKind::Ethernet => Some(rng.below(2) as u8),
            LinkKind::InfiniBand => rng.percent(50).then_some(0),
        },
        rd_atomic: rng.pick(&[1, 2, 16]),
        ..path(mtu)
    };
    let config = OppositeConfig {
        faults,
        ..OppositeConfig::new(seed, link)
    };
    let duel = Duel::with(&config, service, &options, |config| config.manners = manners);
    let text = format!("seed {seed}: {link:?} {service:?} MTU {mtu_bytes}, {faults}, {manners:?}");
    let mut places = [Places::default(), Places::default()];
    let messages = [0, 1].map(|side: usize| {
        let [card, model] = &mut places;
        (0..MESSAGES)
            .map(|index| {
                let order = if side == 0 {
                    [&mut *card, &mut *model]
                } else {
                    [&mut *model, &mut *card]
                };
                draw_message(&mut rng, service, mtu_bytes, order, index)
            })
            .collect()
    });
    (duel, text, messages)
}

/// A place in memory: side, offset, length.
fn bytes_of(duel: &Duel, side: usize, pieces: &[(u64, u32)]) -> Vec<u8> {
    let piece = |(at, len): &(u64, u32)| match side {
        0 => duel.arena.expected(*at, *len).to_vec(),
        _ => duel.model_expected[*at as usize..][..*len as usize].to_vec(),
    };
    pieces.iter().flat_map(piece).collect()
}

/// What is in memory now.
fn found_at(duel: &Duel, side: usize, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if side == 0 {
        duel.arena.buf().read_bytes(offset as usize, &mut bytes);
    } else {
        let key = duel.key;
        duel.opposite.model.with(|model| {
            let region = model.memory().bytes(key).unwrap();
            bytes.copy_from_slice(&region[offset as usize..][..len]);
        });
    }
    bytes
}

fn expect(duel: &mut Duel, side: usize, pieces: &[(u64, u32)], mut bytes: &[u8]) {
    for (at, len) in pieces {
        let (now, rest) = bytes.split_at(bytes.len().min(*len as usize));
        match side {
            0 => duel.arena.expect(*at, now),
            _ => duel.model_expected[*at as usize..][..now.len()].copy_from_slice(now),
        }
        bytes = rest;
    }
}

fn post_receive(duel: &mut Duel, side: usize, wr_id: u64, pieces: &[(u64, u32)]) {
    if side == 0 {
        let sges: Vec<Sge> = pieces.iter().map(|(at, len)| duel.mr.sge(*at, *len)).collect();
        duel.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]).unwrap();
    } else {
        let sges = pieces.iter().map(|(at, len)| duel.model_sge(*at, *len)).collect();
        duel.opposite
            .model
            .post_recv(duel.qpn, RecvRequest::new(wr_id, sges));
    }
}

fn post_send(duel: &mut Duel, side: usize, wr_id: u64, message: &Message) {
    let (imm, (at, _)) = (message.imm, message.there);
    if side == 0 {
        let (remote_addr, rkey) = (MODEL_VA + at, duel.key);
        let op = match (message.kind, imm) {
            (Kind::Send, None) => SendOp::Send,
            (Kind::Send, Some(imm_data)) => SendOp::SendWithImm { imm_data },
            (Kind::Write, None) => SendOp::RdmaWrite { remote_addr, rkey },
            (Kind::Write, Some(imm_data)) => SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
            (Kind::Read, _) => SendOp::RdmaRead { remote_addr, rkey },
        };
        let sges: Vec<Sge> = message
            .here
            .iter()
            .map(|(at, len)| duel.mr.sge(*at, *len))
            .collect();
        let flags = SendFlags {
            fence: message.fence,
            ..SendFlags::SIGNALED
        };
        let data = WrData::Sges(&sges);
        duel.qp
            .post_send(&[SendWr {
                wr_id,
                op,
                flags,
                data,
            }])
            .unwrap();
    } else {
        let (va, rkey) = (CARD_VA + at, duel.mr.rkey());
        let op = match message.kind {
            Kind::Send => Op::Send {
                imm,
                invalidate: None,
            },
            Kind::Write => Op::Write { va, rkey, imm },
            Kind::Read => Op::Read { va, rkey },
        };
        let sges: Vec<ModelSge> = message
            .here
            .iter()
            .map(|(at, len)| duel.model_sge(*at, *len))
            .collect();
        let flags = ModelFlags {
            fence: message.fence,
            ..ModelFlags::default()
        };
        let request = SendRequest {
            flags,
            ..SendRequest::new(wr_id, op, sges)
        };
        duel.opposite.model.post_send(duel.qpn, request);
    }
}

/// Of a completion: is it a receive, its number, status, immediate data, bytes.
type Done = (bool, u64, WcStatus, Option<u32>, u32);

/// What has completed at a side.
fn poll(duel: &Duel, side: usize) -> Option<Done> {
    if side == 0 {
        let wc = duel.opposite.node.poll_ready().unwrap()?;
        let imm = (wc.wc_flags & wc_flag::WITH_IMM != 0).then_some(wc.imm_data);
        return Some((wc.opcode as u8 & 128 != 0, wc.wr_id, wc.status, imm, wc.byte_len));
    }
    let wc = duel.opposite.model.poll()?;
    Some((
        wc.opcode as u8 & 128 != 0,
        wc.wr_id,
        wc.status,
        wc.imm,
        wc.byte_len,
    ))
}

/// Says what must come of all messages; returns the receives that each side has to post.
fn expect_all(duel: &mut Duel, messages: &[Vec<Message>; 2]) -> [Vec<(u64, Pieces)>; 2] {
    let mut receives: [Vec<(u64, Pieces)>; 2] = Default::default();
    for (side, messages) in messages.iter().enumerate() {
        for (wr_id, message) in (0..).zip(messages) {
            let there = match (message.kind, &message.receive) {
                (Kind::Send, Some(list)) => list.as_slice(),
                _ => std::slice::from_ref(&message.there),
            };
            if message.kind == Kind::Read {
                let bytes = bytes_of(duel, 1 - side, there);
                expect(duel, side, &message.here, &bytes);
            } else {
                let bytes = bytes_of(duel, side, &message.here);
                expect(duel, 1 - side, there, &bytes);
            }
            receives[1 - side].extend(message.receive.clone().map(|list| (wr_id, list)));
        }
    }
    receives
}

/// REL-1, REL-19, ACC-5.
fn reliable(seed: u64) {
    let (mut duel, text, messages) = draw(seed, Service::Rc);
    let mut rng = Rng::new(seed, "receives");
    let receives = expect_all(&mut duel, &messages);
    for (side, messages) in messages.iter().enumerate() {
        for (wr_id, message) in (0..).zip(messages) {
            post_send(&mut duel, side, wr_id, message);
        }
    }
    let due = receives
        .clone()
        .map(|list| list.into_iter().map(|(wr_id, _)| wr_id).collect::<Vec<_>>());
    let mut done: [[Vec<u64>; 2]; 2] = Default::default();
    let mut receives = receives.map(Vec::into_iter);
    let end_ns = duel.opposite.now_ns() + LIMIT_NS;
    let all_done = |done: &[[Vec<u64>; 2]; 2]| {
        (0..2).all(|side| done[side][0].len() as u64 == MESSAGES && done[side][1].len() == due[side].len())
    };
    while !all_done(&done) {
        for side in 0..2 {
            if rng.percent(30)
                && let Some((wr_id, list)) = receives[side].next()
            {
                post_receive(&mut duel, side, wr_id, &list);
            }
            while let Some((is_recv, wr_id, status, imm, _)) = poll(&duel, side) {
                assert_eq!(
                    status,
                    WcStatus::Success,
                    "{text}: side {side}, work request {wr_id}"
                );
                assert!(
                    !is_recv || imm == messages[1 - side][wr_id as usize].imm,
                    "{text}: immediate"
                );
                done[side][usize::from(is_recv)].push(wr_id);
            }
        }
        duel.opposite.run(64);
        judge(&duel, &text);
        assert!(duel.opposite.now_ns() < end_ns, "{text}: {done:?} of {due:?}");
    }
    for side in 0..2 {
        assert_eq!(
            done[side][0],
            (0..MESSAGES).collect::<Vec<_>>(),
            "{text}: side {side}"
        );
        assert_eq!(done[side][1], due[side], "{text}: side {side}");
    }
    duel.opposite.run(20_000);
    assert!(
        (0..2).all(|side| poll(&duel, side).is_none()),
        "{text}: a completion too many"
    );
    duel.check_memory(&text);
}

/// Both ends have kept to the rules so far.
fn judge(duel: &Duel, text: &str) {
    if let Err(error) = duel.opposite.judge.verdict() {
        panic!("{text}: {error}");
    }
}

/// REL-17, WIRE-17, ACC-5. Returns how many messages have arrived.
fn unreliable(seed: u64) -> usize {
    let (mut duel, text, messages) = draw(seed, Service::Uc);
    for side in 0..2 {
        for (wr_id, message) in (0..).zip(&messages[1 - side]) {
            post_receive(
                &mut duel,
                side,
                wr_id,
                message.receive.as_deref().unwrap_or_default(),
            );
        }
    }
    duel.opposite.run(1_000);
    for (side, messages) in messages.iter().enumerate() {
        for (wr_id, message) in (0..).zip(messages) {
            post_send(&mut duel, side, wr_id, message);
        }
    }
    let mut sent = [0, 0];
    let mut arrived: [Vec<Done>; 2] = Default::default();
    for _ in 0..2_000 {
        for side in 0..2 {
            while let Some(done) = poll(&duel, side) {
                if done.0 {
                    arrived[side].push(done)
                } else {
                    sent[side] += 1
                }
            }
        }
        duel.opposite.run(64);
    }
    judge(&duel, &text);
    assert_eq!(sent, [MESSAGES; 2], "{text}: OP-19, what has been sent is done");
    for (side, arrived) in arrived.iter().enumerate() {
        let mut last = None;
        for (at, (_, wr_id, status, imm, len)) in arrived.iter().enumerate() {
            assert_eq!((*status, *wr_id), (WcStatus::Success, at as u64), "{text}");
            let index = imm.unwrap() as usize;
            assert!(
                last.is_none_or(|last| last < index),
                "{text}: {index} after {last:?}"
            );
            last = Some(index);
            let wanted = bytes_of(&duel, 1 - side, &messages[1 - side][index].here);
            let (offset, _) = messages[1 - side][at].receive.as_ref().unwrap()[0];
            let found = found_at(&duel, side, offset, *len as usize);
            assert!(found == wanted, "{text}: message {index} is torn");
        }
    }
    arrived.iter().map(Vec::len).sum()
}

#[test]
fn random_messages_over_a_bad_cable_rc_1() {
    (1..=30).for_each(reliable);
}

#[test]
fn random_messages_over_a_bad_cable_rc_2() {
    (31..=60).for_each(reliable);
}

#[test]
fn random_messages_over_a_bad_cable_uc() {
    let arrived: usize = (1..=30).map(unreliable).sum();
    assert!(
        arrived > 30 * MESSAGES as usize / 2,
        "{arrived} messages are not enough to say anything"
    );
}
