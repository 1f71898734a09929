//! What one side says no to, or asks time for, and how the other one hears of it: REJ with every reason, MRA, LAP, SIDR
//! with every status; and what is left when there is no more room.

use hca_cm::message::{Lap, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use hca_cm::{Config, Engine, Error, Event, Message, RejectReason};

const SERVICE: u64 = 0x0106_1c06;
/// Exponent of the time between two tries, and that time.
const RESPONSE_TIMEOUT: u8 = 12;
const INTERVAL_NS: u64 = 4096 << RESPONSE_TIMEOUT;
/// Reasons that IBA vol1 12.6.7.2 numbers, and the one of Linux for options of a vendor.
const REASONS: std::ops::RangeInclusive<u16> = 1..=35;

fn engine(side: u8) -> Engine<u8> {
    Engine::new(Config {
        ca_guid: 0xaa00 + u64::from(side),
        id_prefix: 0x40 + side,
        seed: 1,
        max_connections: 4,
    })
}

fn req(qpn: u32) -> Req {
    Req {
        service_id: SERVICE,
        local_qpn: qpn,
        remote_cm_response_timeout: RESPONSE_TIMEOUT,
        local_cm_response_timeout: RESPONSE_TIMEOUT,
        max_cm_retries: 3,
        primary_local_ack_timeout: 14,
        ..Req::default()
    }
}

/// What an engine wants to send.
fn sent(engine: &mut Engine<u8>) -> Vec<Message> {
    let all = std::iter::from_fn(|| engine.poll_transmit());
    all.map(|transmit| Message::parse(&transmit.mad).unwrap().1)
        .collect()
}

/// What one says the other one hears.
fn carry(now: u64, from: &mut Engine<u8>, to: &mut Engine<u8>) {
    while let Some(transmit) = from.poll_transmit() {
        to.receive(now, &transmit.mad, 0);
    }
}

fn asked(two: &mut Engine<u8>) -> u32 {
    match two.poll_event() {
        Some(Event::Request { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

/// Two engines, the second of which has a request of the first.
fn requested() -> (Engine<u8>, Engine<u8>, u32, u32) {
    let (mut one, mut two) = (engine(0), engine(1));
    two.listen(SERVICE).unwrap();
    let active = one.connect(0, 0, req(5)).unwrap();
    carry(0, &mut one, &mut two);
    let passive = asked(&mut two);
    (one, two, active, passive)
}

/// Both established.
fn established() -> (Engine<u8>, Engine<u8>, u32, u32) {
    let (mut one, mut two, active, passive) = requested();
    two.accept(0, passive, Rep::default()).unwrap();
    carry(0, &mut two, &mut one);
    assert!(matches!(one.poll_event(), Some(Event::Reply { .. })));
    one.establish(active, &[7]).unwrap();
    carry(0, &mut one, &mut two);
    assert!(matches!(two.poll_event(), Some(Event::Established { .. })));
    (one, two, active, passive)
}

/// CM-41, event 8: whatever the reason and the private data, the other side is told both; once.
#[test]
fn every_reason_to_reject() {
    for reason in REASONS {
        let (mut one, mut two) = (engine(0), engine(1));
        two.listen(SERVICE).unwrap();
        let active = one.connect(0, 0, req(5)).unwrap();
        let request = one.poll_transmit().unwrap().mad;
        two.receive(0, &request, 0);
        let passive = asked(&mut two);
        let private = [reason as u8; 148];
        two.reject(0, passive, reason, &private).unwrap();
        assert_eq!(
            two.reject(0, passive, reason, &[]),
            Err(Error::WrongState(passive))
        );
        let rej = two.poll_transmit().unwrap().mad;
        one.receive(0, &rej, 0);
        one.receive(0, &rej, 0);
        let told = Event::Rejected {
            id: active,
            reason,
            private_data: private.to_vec(),
        };
        assert_eq!(
            (one.poll_event(), one.poll_event()),
            (Some(told), None),
            "reason {reason}"
        );
        assert_eq!(one.connections(), 0);
        // Who has not heard it and asks again hears the same, and the program nothing more.
        two.receive(0, &request, 0);
        assert_eq!(two.poll_transmit().map(|transmit| transmit.mad), Some(rej));
        assert_eq!(two.poll_event(), None);
    }
}

/// The active side, too, may say no when it has seen the answer; the passive one hears of it.
#[test]
fn an_answer_is_rejected() {
    let (mut one, mut two, active, passive) = requested();
    two.accept(0, passive, Rep::default()).unwrap();
    carry(0, &mut two, &mut one);
    one.reject(0, active, RejectReason::Consumer as u16, &[1, 2])
        .unwrap();
    let said = sent(&mut one);
    let [
        Message::Rej(Rej {
            message_rejected: 1,
            reason: 28,
            ..
        }),
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    let mad = said[0].emit(1);
    two.receive(0, &mad, 0);
    assert!(matches!(two.poll_event(), Some(Event::Rejected { id, reason: 28, .. }) if id == passive));
    assert_eq!(two.connections(), 0);
}

/// REJ of a request by reasons of the engine's own: no service, no such service type, no room.
#[test]
fn reasons_of_its_own() {
    let (mut one, mut two) = (engine(0), engine(1));
    two.listen(SERVICE).unwrap();
    for qpn in 0..4 {
        one.connect(0, 0, req(qpn)).unwrap();
    }
    assert_eq!(one.connect(0, 0, req(9)), Err(Error::TooMany(4)));
    carry(0, &mut one, &mut two);
    // A third card finds no place.
    let mut three = engine(2);
    let late = three.connect(0, 0, req(1)).unwrap();
    carry(0, &mut three, &mut two);
    carry(0, &mut two, &mut three);
    let no_room = RejectReason::NoResources as u16;
    assert!(
        matches!(three.poll_event(), Some(Event::Rejected { id, reason, .. }) if id == late && reason == no_room)
    );
    let ids: Vec<u32> = (0..4).map(|_| asked(&mut two)).collect();
    ids.iter().for_each(|id| two.forget(0, *id));
    let reasons: Vec<u16> = sent(&mut two)
        .iter()
        .map(|message| match message {
            Message::Rej(rej) => rej.reason,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        reasons,
        [RejectReason::Consumer as u16; 4],
        "whose listener is gone"
    );
}

/// 12.9.8.6: a request that comes again while the program thinks is answered by MRA, and the other side waits longer.
#[test]
fn more_time_is_asked_for() {
    let (mut one, mut two, active, _) = requested();
    let first = one.next_timeout().unwrap();
    assert_eq!(first, INTERVAL_NS);
    one.handle_timeout(first);
    carry(first, &mut one, &mut two);
    assert_eq!(two.poll_event(), None, "it is the same request");
    let said = sent(&mut two);
    let [Message::Mra(mra)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((mra.remote_communication_id, mra.message_mraed), (active, 0));
    let service_ns = 4096u64 << mra.service_timeout;
    one.receive(first, &said[0].emit(1), 0);
    assert_eq!(one.next_timeout(), Some(first + service_ns + INTERVAL_NS));
    // All tries are there again; when they have come to nothing it is over.
    let mut tries = 0;
    while let Some(now) = one.next_timeout() {
        one.handle_timeout(now);
        tries += sent(&mut one)
            .iter()
            .filter(|message| matches!(message, Message::Req(_)))
            .count();
    }
    assert_eq!(
        (tries, one.poll_event()),
        (3, Some(Event::Unreachable { id: active }))
    );
    // One about something else changes nothing.
    let (mut one, _, active, _) = requested();
    let before = one.next_timeout();
    let other = Mra {
        remote_communication_id: active,
        message_mraed: 1,
        service_timeout: 20,
        ..Mra::default()
    };
    one.receive(0, &Message::from(other).emit(1), 0);
    assert_eq!(one.next_timeout(), before);
}

/// The passive side repeats its answer, gets time by MRA while the active program thinks, and gives up in the end.
#[test]
fn an_answer_is_repeated() {
    let (mut one, mut two, _, passive) = requested();
    two.accept(0, passive, Rep::default()).unwrap();
    carry(0, &mut two, &mut one);
    let first = two.next_timeout().unwrap();
    two.handle_timeout(first);
    carry(first, &mut two, &mut one);
    let said = sent(&mut one);
    let [Message::Mra(mra)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((mra.remote_communication_id, mra.message_mraed), (passive, 1));
    two.receive(first, &said[0].emit(1), 0);
    assert!(two.next_timeout() > Some(first + INTERVAL_NS));
    while let Some(now) = two.next_timeout() {
        two.handle_timeout(now);
    }
    assert_eq!(two.poll_event(), Some(Event::Unreachable { id: passive }));
    assert!(
        matches!(sent(&mut two).last(), Some(Message::Rej(rej)) if rej.reason == RejectReason::Timeout as u16)
    );
}

/// 12.8: an alternate path is not taken, which is said; of connections that are not established, or not the sender's,
/// nothing is. The connection is as it was.
#[test]
fn alternate_paths_are_refused() {
    let (mut one, mut two, active, passive) = established();
    let lap = |from: u32, to: u32| {
        let lap = Lap {
            local_communication_id: from,
            remote_communication_id: to,
            ..Lap::default()
        };
        Message::from(lap).emit(77)
    };
    two.receive(0, &lap(active, passive), 0);
    let said = sent(&mut two);
    let [Message::Apr(apr)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(
        (apr.remote_communication_id, apr.local_communication_id),
        (active, passive)
    );
    assert_eq!(apr.status, 2, "alternate paths are not supported");
    two.receive(0, &lap(active + 1, passive), 0);
    two.receive(0, &lap(active, passive + 1), 0);
    one.receive(0, &said[0].emit(77), 0);
    assert!(sent(&mut two).is_empty() && sent(&mut one).is_empty());
    assert_eq!((one.poll_event(), two.poll_event()), (None, None));
    let (_, mut two, active, passive) = requested();
    two.receive(0, &lap(active, passive), 0);
    assert!(sent(&mut two).is_empty());
    assert_eq!((one.peers().count(), one.connections()), (1, 1));
}

/// CM-70: numbers rest as long as packets may be under way; who is late hears the same answer, and then no more.
#[test]
fn timewait() {
    let (mut one, mut two, active, passive) = established();
    one.disconnect(0, active).unwrap();
    let dreq = one.poll_transmit().unwrap().mad;
    two.receive(0, &dreq, 0);
    two.receive(0, &dreq, 0);
    let dreps = sent(&mut two);
    assert_eq!((dreps.len(), &dreps[0]), (2, &dreps[1]));
    assert_eq!(two.poll_event(), Some(Event::Disconnected { id: passive }));
    one.receive(0, &dreps[0].emit(1), 0);
    assert_eq!(one.poll_event(), Some(Event::Disconnected { id: active }));
    let rest_ns = 4096u64 << 14;
    for (engine, id) in [(&mut one, active), (&mut two, passive)] {
        assert_eq!(engine.disconnect(0, id), Err(Error::WrongState(id)));
        engine.handle_timeout(rest_ns - 1);
        assert_eq!(
            (engine.poll_event(), engine.connections()),
            (None, 1),
            "numbers rest"
        );
        engine.handle_timeout(rest_ns);
        assert_eq!(engine.poll_event(), Some(Event::TimewaitExit { id }));
        assert_eq!((engine.connections(), engine.next_timeout()), (0, None));
        assert_eq!(engine.disconnect(0, id), Err(Error::NoConnection(id)));
    }
}

/// Event 7: the status of the answer to a lookup, whatever it is, with its private data.
#[test]
fn every_status_of_a_lookup() {
    for status in 0..=5u8 {
        let (mut one, mut two) = (engine(0), engine(1));
        two.listen(SERVICE).unwrap();
        let question = SidrReq {
            service_id: SERVICE,
            ..SidrReq::default()
        };
        let id = one.look_up(0, 0, question, RESPONSE_TIMEOUT, 3);
        carry(0, &mut one, &mut two);
        let Some(Event::Lookup { token, .. }) = two.poll_event() else {
            panic!("a question")
        };
        let answer = SidrRep {
            status,
            private_data: vec![status; 136],
            ..SidrRep::default()
        };
        two.answer_lookup(0, token, answer).unwrap();
        carry(0, &mut two, &mut one);
        let Some(Event::Found { id: found, rep }) = one.poll_event() else {
            panic!("an answer")
        };
        assert_eq!(
            (found, rep.status, rep.private_data),
            (id, status, vec![status; 136])
        );
        assert_eq!((one.poll_event(), one.next_timeout()), (None, None));
    }
}

/// Words from nobody, or out of turn, change nothing.
#[test]
fn out_of_turn() {
    let (mut one, mut two, active, passive) = requested();
    let rtu = Rtu {
        local_communication_id: active,
        remote_communication_id: passive,
        ..Rtu::default()
    };
    two.receive(0, &Message::from(rtu).emit(1), 0);
    let rep = Rep {
        remote_communication_id: active + 1,
        ..Rep::default()
    };
    one.receive(0, &Message::from(rep).emit(1), 0);
    let rej = Rej {
        local_communication_id: active + 1,
        remote_communication_id: passive,
        reason: 28,
        ..Rej::default()
    };
    two.receive(0, &Message::from(rej).emit(1), 0);
    assert_eq!((one.poll_event(), two.poll_event()), (None, None));
    assert!(sent(&mut two).is_empty());
    two.accept(0, passive, Rep::default()).unwrap();
    carry(0, &mut two, &mut one);
    assert!(matches!(one.poll_event(), Some(Event::Reply { id, .. }) if id == active));
}
