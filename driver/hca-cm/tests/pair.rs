//! Two engines over a wire that loses, repeats, reorders and delays: every connection ends in one way on both sides.

use hca_cm::message::{Rep, Req, SidrRep, SidrReq};
use hca_cm::{CommunicationId, Config, Engine, Event, Mad, Message};

const SERVICE: u64 = 0x0106_1c06;
const MS: u64 = 1_000_000;

/// A random number generator that is its own: seeds must mean the same for ever.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn engine(side: u8) -> Engine<u8> {
    Engine::new(Config {
        ca_guid: 0xaa00 + u64::from(side),
        id_prefix: 0x40 + side,
        seed: 77 * u64::from(side) + 1,
        max_connections: 64,
    })
}

fn req(qpn: u32) -> Req {
    Req {
        service_id: SERVICE,
        local_qpn: qpn,
        remote_cm_response_timeout: 12,
        local_cm_response_timeout: 12,
        max_cm_retries: 15,
        primary_local_ack_timeout: 14,
        private_data: vec![7; 92],
        ..Req::default()
    }
}

/// What a side was told of its connections.
#[derive(Default, Debug, Clone, PartialEq)]
struct Told {
    requests: u32,
    established: u32,
    rejected: u32,
    unreachable: u32,
    disconnected: u32,
    exits: u32,
}

struct Wire {
    now: u64,
    rng: Rng,
    loss: u64,
    /// (time, to, datagram).
    flying: Vec<(u64, usize, Mad)>,
    engines: [Engine<u8>; 2],
    told: [Told; 2],
    ids: [Vec<CommunicationId>; 2],
    rejects: bool,
    hangs_up: usize,
}

impl Wire {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let loss = [0, 10, 40][rng.below(3) as usize];
        let mut engines = [engine(0), engine(1)];
        engines[1].listen(SERVICE).unwrap();
        Self {
            now: 0,
            loss,
            flying: Vec::new(),
            engines,
            told: Default::default(),
            ids: Default::default(),
            rejects: rng.percent(20),
            hangs_up: rng.below(2) as usize,
            rng,
        }
    }

    fn fly(&mut self) {
        for side in 0..2 {
            while let Some(transmit) = self.engines[side].poll_transmit() {
                let copies = if self.rng.percent(self.loss) {
                    0
                } else {
                    1 + u64::from(self.rng.percent(self.loss / 2))
                };
                for _ in 0..copies {
                    let delay = 1 + self.rng.below(3 * MS);
                    self.flying.push((self.now + delay, 1 - side, transmit.mad));
                }
            }
        }
    }

    fn act(&mut self, side: usize, event: Event<u8>) {
        let (engine, told) = (&mut self.engines[side], &mut self.told[side]);
        match event {
            Event::Request { id, req, .. } => {
                assert_eq!(req.private_data, vec![7; 92]);
                told.requests += 1;
                self.ids[side].push(id);
                if self.rejects {
                    engine.reject(self.now, id, 28, &[1]).unwrap();
                } else {
                    engine
                        .accept(
                            self.now,
                            id,
                            Rep {
                                local_qpn: 9,
                                ..Rep::default()
                            },
                        )
                        .unwrap();
                }
            }
            Event::Reply { id, rep } => {
                assert_eq!(rep.local_qpn, 9);
                told.established += 1;
                engine.establish(id, &[]).unwrap();
            }
            Event::Established { .. } => told.established += 1,
            Event::Rejected { reason, .. } => {
                assert!([28, 4].contains(&reason), "reason {reason}");
                told.rejected += 1;
            }
            Event::Unreachable { .. } => told.unreachable += 1,
            Event::Disconnected { .. } => told.disconnected += 1,
            Event::TimewaitExit { .. } => told.exits += 1,
            other => panic!("{other:?}"),
        }
    }

    /// Until nothing more happens.
    fn run(&mut self) {
        for _ in 0..100_000 {
            for side in 0..2 {
                while let Some(event) = self.engines[side].poll_event() {
                    self.act(side, event);
                }
            }
            self.fly();
            let arrival = self.flying.iter().map(|(at, ..)| *at).min();
            let timeout = self.engines.iter().filter_map(Engine::next_timeout).min();
            let Some(next) = arrival.into_iter().chain(timeout).min() else {
                return;
            };
            self.now = self.now.max(next);
            if let Some(at) = self.flying.iter().position(|(at, ..)| *at <= self.now) {
                let (_, to, mad) = self.flying.swap_remove(at);
                self.engines[to].receive(self.now, &mad, 0);
            }
            self.engines
                .iter_mut()
                .for_each(|engine| engine.handle_timeout(self.now));
        }
        panic!("it never ends");
    }
}

/// CM-36, CM-42, CM-70: a connection comes about on both sides or on none; it ends once on either; nothing stays.
#[test]
fn connections_end_in_one_way() {
    let (mut up, mut refused, mut lost) = (0, 0, 0);
    for seed in 1..3000 {
        let mut wire = Wire::new(seed);
        let id = wire.engines[0].connect(0, 0, req(5)).unwrap();
        wire.run();
        let [active, passive] = wire.told.clone();
        let what = format!("seed {seed}, loss {}: {active:?} {passive:?}", wire.loss);
        assert!(passive.requests <= 1, "{what}");
        assert_eq!(
            active.established + active.rejected + active.unreachable,
            1,
            "{what}"
        );
        if active.established == 1 && passive.established == 1 {
            up += 1;
            let side = wire.hangs_up;
            let own = if side == 0 { id } else { wire.ids[1][0] };
            wire.engines[side].disconnect(wire.now, own).unwrap();
            wire.run();
            for told in &wire.told {
                assert_eq!((told.disconnected, told.exits), (1, 1), "{what} {told:?}");
            }
        } else if active.rejected == 1 {
            refused += 1;
            assert!(wire.rejects, "{what}");
        } else {
            lost += 1;
            assert!(wire.loss > 0, "{what}");
            wire.engines[0].forget(wire.now, id);
            wire.run();
        }
        for engine in &wire.engines {
            assert_eq!(engine.connections(), 0, "{what}");
        }
    }
    assert!(up > 1000 && refused > 300, "{up} {refused} {lost}");
}

/// A side that is gone: the other one gives up after its retries.
#[test]
fn nobody_answers() {
    let mut one = engine(0);
    let id = one.connect(0, 0, req(5)).unwrap();
    let mut sent = 0;
    while let Some(now) = one.next_timeout() {
        sent += std::iter::from_fn(|| one.poll_transmit()).count();
        one.handle_timeout(now);
    }
    assert_eq!(sent, 16);
    assert_eq!(one.poll_event(), Some(Event::Unreachable { id }));
    let last = std::iter::from_fn(|| one.poll_transmit()).last().unwrap();
    assert!(matches!(Message::parse(&last.mad), Some((_, Message::Rej(rej))) if rej.reason == 4));
}

/// 12.9.8.3.1: a QP that begins anew ends the connection that it had.
#[test]
fn stale_connections() {
    let mut wire = Wire::new(3);
    (wire.loss, wire.rejects) = (0, false);
    wire.engines[0].connect(0, 0, req(5)).unwrap();
    wire.run();
    assert_eq!(wire.told[1].established, 1);
    // The same card has forgotten it all.
    let mut reborn = Engine::new(Config {
        ca_guid: 0xaa00,
        id_prefix: 0x50,
        seed: 5,
        max_connections: 4,
    });
    reborn.connect(wire.now, 0, req(5)).unwrap();
    let mad = reborn.poll_transmit().unwrap().mad;
    wire.engines[1].receive(wire.now, &mad, 0);
    let answer = wire.engines[1].poll_transmit().unwrap().mad;
    assert!(matches!(Message::parse(&answer), Some((_, Message::Rej(rej))) if rej.reason == 10));
    assert!(matches!(
        wire.engines[1].poll_event(),
        Some(Event::Disconnected { .. })
    ));
}

/// The other side's manager is gone without a word: who is told so ends the connection, once.
#[test]
fn a_peer_that_has_died() {
    let mut wire = Wire::new(3);
    (wire.loss, wire.rejects) = (0, false);
    let id = wire.engines[0].connect(0, 0, req(5)).unwrap();
    assert_eq!(wire.engines[0].peers().count(), 0, "not established yet");
    wire.run();
    let [(peer, guid, _)] = wire.engines[0].peers().collect::<Vec<_>>()[..] else {
        panic!("one connection")
    };
    assert_eq!((peer, guid), (id, 0xaa01));
    for _ in 0..2 {
        wire.engines[0].peer_gone(wire.now, id);
    }
    let events: Vec<_> = std::iter::from_fn(|| wire.engines[0].poll_event()).collect();
    assert_eq!(events, [Event::Disconnected { id }]);
    assert_eq!(wire.engines[0].peers().count(), 0);
}

/// A target of XRC says its QP where others say an EE context; other extended types are refused.
#[test]
fn extended_connections() {
    let (mut one, mut two) = (engine(0), engine(1));
    let xrc = Req {
        transport_service_type: Req::EXTENDED,
        extended_transport_type: Req::XRC,
        ..req(5)
    };
    two.listen(SERVICE).unwrap();
    let id = one.connect(0, 1, xrc.clone()).unwrap();
    two.receive(0, &one.poll_transmit().unwrap().mad, 0);
    let Some(Event::Request {
        id: asked, req: got, ..
    }) = two.poll_event()
    else {
        panic!("a request")
    };
    assert!(got.is_xrc() && got.local_qpn == 5);
    let rep = Rep {
        local_eecn: 9,
        srq: true,
        ..Rep::default()
    };
    two.accept(0, asked, rep).unwrap();
    one.receive(0, &two.poll_transmit().unwrap().mad, 1);
    one.establish(id, &[]).unwrap();
    two.receive(0, &one.poll_transmit().unwrap().mad, 0);
    one.disconnect(0, id).unwrap();
    let dreq = one.poll_transmit().unwrap().mad;
    assert!(matches!(Message::parse(&dreq), Some((_, Message::Dreq(dreq))) if dreq.remote_qpn == 9));
    for (service, extended) in [(2, 0), (3, 0), (3, 2)] {
        let other = Req {
            transport_service_type: service,
            extended_transport_type: extended,
            ..req(6)
        };
        one.connect(0, 1, other).unwrap();
        two.receive(0, &one.poll_transmit().unwrap().mad, 0);
        while two.poll_event().is_some() {}
        let answer = std::iter::from_fn(|| two.poll_transmit()).last().unwrap().mad;
        assert!(
            matches!(Message::parse(&answer), Some((_, Message::Rej(rej))) if rej.reason == 9),
            "{service}"
        );
    }
}

/// Engines share a port: each takes what is its own, and a request that nobody serves is refused by who is told to.
/// ADDR-11: the target finds the QP by the service ID.
#[test]
fn others_on_the_port() {
    let (mut one, mut two, mut three) = (engine(0), engine(1), engine(2));
    three.listen(SERVICE).unwrap();
    one.connect(0, 0, req(5)).unwrap();
    let mad = one.poll_transmit().unwrap().mad;
    two.receive(0, &mad, 1);
    three.receive(0, &mad, 1);
    assert!(matches!(three.poll_event(), Some(Event::Request { .. })));
    let Some(Event::Unserved {
        transaction_id,
        req,
        from,
    }) = two.poll_event()
    else {
        panic!()
    };
    assert_eq!(two.poll_transmit(), None);
    two.refuse(transaction_id, &req, from);
    let rej = two.poll_transmit().unwrap().mad;
    // It means the first one alone.
    three.receive(0, &rej, 0);
    assert_eq!(three.poll_event(), None);
    one.receive(0, &rej, 0);
    assert!(matches!(
        one.poll_event(),
        Some(Event::Rejected { reason: 8, .. })
    ));
}

/// SIDR: found, refused, never answered; a question that comes again is one question.
#[test]
fn lookups() {
    let (mut one, mut two) = (engine(0), engine(1));
    two.listen(SERVICE).unwrap();
    let question = |service_id| SidrReq {
        service_id,
        private_data: vec![3; 216],
        ..SidrReq::default()
    };
    let id = one.look_up(0, 0, question(SERVICE), 12, 3);
    let mad = one.poll_transmit().unwrap().mad;
    two.receive(0, &mad, 1);
    two.receive(0, &mad, 1);
    let Some(Event::Lookup { token, req, .. }) = two.poll_event() else {
        panic!()
    };
    assert_eq!((req.private_data, two.poll_event()), (vec![3; 216], None));
    let answer = SidrRep {
        qpn: 33,
        qkey: 44,
        ..SidrRep::default()
    };
    two.answer_lookup(0, token, answer.clone()).unwrap();
    assert!(two.answer_lookup(0, token, answer).is_err());
    two.receive(0, &mad, 1);
    let answers: Vec<_> = std::iter::from_fn(|| two.poll_transmit()).collect();
    assert_eq!((answers.len(), &answers[0]), (2, &answers[1]));
    one.receive(0, &answers[0].mad, 0);
    one.receive(0, &answers[0].mad, 0);
    let Some(Event::Found { id: found, rep }) = one.poll_event() else {
        panic!()
    };
    assert_eq!((found, rep.qpn, rep.qkey, rep.service_id), (id, 33, 44, SERVICE));
    assert_eq!(one.poll_event(), None);
    // Nobody serves this one.
    one.look_up(0, 0, question(9), 12, 3);
    two.receive(0, &one.poll_transmit().unwrap().mad, 1);
    let Some(Event::UnservedLookup {
        transaction_id,
        req,
        from,
    }) = two.poll_event()
    else {
        panic!()
    };
    two.refuse_lookup(transaction_id, &req, from);
    one.receive(0, &two.poll_transmit().unwrap().mad, 0);
    assert!(matches!(one.poll_event(), Some(Event::Found { rep, .. }) if rep.status == 1));
    // And here is nobody at all.
    let id = one.look_up(0, 0, question(SERVICE), 12, 3);
    let mut tries = 0;
    while let Some(now) = one.next_timeout() {
        tries += std::iter::from_fn(|| one.poll_transmit()).count();
        one.handle_timeout(now);
    }
    assert_eq!((tries, one.poll_event()), (4, Some(Event::NotFound { id })));
}
