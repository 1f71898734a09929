use super::*;

fn mad(class: u8, method: u8, transaction: u64) -> Mad {
    let mut mad = [0; MAD_BYTES];
    mad[..4].copy_from_slice(&[1, class, if class == rmpp::CLASS_SA { 2 } else { 1 }, method]);
    put_u64(&mut mad, 8, transaction);
    mad
}

fn agent(class: u8, methods: u128) -> Agent {
    Agent {
        class,
        version: if class == rmpp::CLASS_SA { 2 } else { 1 },
        methods,
        rmpp: class == rmpp::CLASS_SA,
    }
}

fn answer_to(departure: &Departure) -> Mad {
    let mut mad = departure.mad;
    mad[3] |= 0x80;
    mad
}

/// Two agents with the same number of a transaction: each gets its own answer, with its own number, once.
#[test]
fn answers_find_who_asked() {
    let mut engine = Engine::new(1, 7);
    let ids = [3, 4].map(|handle| engine.register(handle, agent(class::SM_LID, 0)).unwrap());
    for handle in [3, 4] {
        engine
            .send(
                (handle, 0),
                Route::default(),
                &mad(1, 1, 0xaaaa_0000_0005),
                100,
                0,
                0,
            )
            .unwrap();
    }
    assert_eq!(ids, [0, 0]);
    let sent = engine.take_departures();
    assert_ne!(sent[0].mad[8..16], sent[1].mad[8..16]);
    for _ in 0..2 {
        engine.receive(Which::Smi, Route::default(), answer_to(&sent[1]), 1);
    }
    let got = engine.take_arrivals();
    assert_eq!(got.len(), 1, "a copy is nobody's");
    assert_eq!(
        (
            got[0].0,
            got[0].1.status,
            transaction_of(got[0].1.data[..].try_into().unwrap())
        ),
        (4, 0, 0xaaaa_0000_0005)
    );
    engine.receive(Which::Gsi, Route::default(), answer_to(&sent[0]), 1);
    assert!(engine.take_arrivals().is_empty(), "the wrong QP");
    engine.receive(Which::Smi, Route::default(), answer_to(&sent[0]), 1);
    assert_eq!(engine.take_arrivals()[0].0, 3);
}

#[test]
fn requests_are_sent_again_and_given_up() {
    let mut engine = Engine::new(1, 0);
    engine.register(3, agent(class::SM_LID, 0)).unwrap();
    engine
        .send((3, 0), Route::default(), &mad(1, 1, 9), 100, 2, 0)
        .unwrap();
    let first = engine.take_departures().remove(0).mad;
    for (now_ms, sent) in [(99, 0), (100, 1), (199, 0), (200, 1), (299, 0)] {
        engine.expire(now_ms);
        let again = engine.take_departures();
        assert_eq!(again.len(), sent, "{now_ms} ms");
        assert!(again.iter().all(|departure| departure.mad == first));
    }
    assert_eq!(engine.deadline_ms(), Some(300));
    engine.expire(300);
    let (handle, message) = engine.take_arrivals().remove(0);
    assert_eq!(
        (handle, message.status, message.data.len()),
        (3, libc::ETIMEDOUT, 24)
    );
    assert_eq!(message.data[15], 9);
    assert_eq!(engine.deadline_ms(), None);
}

/// Requests go to the agent of their class, version and method.
#[test]
fn requests_find_their_agent() {
    let mut engine = Engine::new(1, 0);
    engine.register(3, agent(class::SM_LID, 1 << 5)).unwrap();
    engine.register(3, agent(class::SM_LID, 1 << 1)).unwrap();
    assert!(engine.register(3, agent(class::SM_LID, 2)).is_err(), "taken");
    for (class, method, taker) in [
        (1, 5, Some(0)),
        (1, 1, Some(1)),
        (1, 2, None),
        (0x81, 1, None),
        (4, 1, None),
    ] {
        let which = which_of(class);
        let mut mad = mad(class, method, 1);
        mad[32..36].fill(0xff);
        engine.receive(which, Route::default(), mad, 0);
        let got = engine.take_arrivals();
        assert_eq!(
            got.first().map(|(_, message)| message.agent),
            taker,
            "{class:#x} {method}"
        );
    }
    engine.unregister((3, 0)).unwrap();
    engine.receive(Which::Smi, Route::default(), mad(1, 5, 1), 0);
    assert!(engine.take_arrivals().is_empty());
}

#[test]
fn directed_routes_leave_through_their_port() {
    let mut engine = Engine::new(2, 0);
    engine.register(3, agent(class::SM_DIRECTED, 0)).unwrap();
    let mut there = mad(class::SM_DIRECTED, 1, 1);
    there[32..36].fill(0xff);
    engine.send((3, 0), Route::default(), &there, 10, 0, 0).unwrap();
    assert!(engine.take_departures()[0].is_local);
    (there[7], there[129]) = (1, 1);
    assert_eq!(
        engine.send((3, 0), Route::default(), &there, 10, 0, 0),
        Err(EINVAL),
        "the other port"
    );
    there[129] = 2;
    engine.send((3, 0), Route::default(), &there, 10, 0, 0).unwrap();
    let sent = engine.take_departures().remove(0);
    assert!(!sent.is_local && sent.mad[6] == 1);
    let mut back = answer_to(&sent);
    back[4] = 0x80;
    engine.receive(Which::Smi, Route::default(), back, 0);
    assert_eq!(engine.take_arrivals()[0].1.data[6], 0);
}

/// A table of 1,000 bytes from one engine to another.
#[test]
fn messages_of_several_datagrams() {
    let (mut server, mut client) = (Engine::new(1, 0), Engine::new(1, 100));
    server.register(3, agent(rmpp::CLASS_SA, 1 << 0x12)).unwrap();
    client.register(4, agent(rmpp::CLASS_SA, 0)).unwrap();
    client
        .send(
            (4, 0),
            Route::default(),
            &mad(rmpp::CLASS_SA, 0x12, 5),
            1000,
            0,
            0,
        )
        .unwrap();
    let asked = client.take_departures().remove(0).mad;
    server.receive(Which::Gsi, Route::default(), asked, 0);
    let mut table = server.take_arrivals().remove(0).1.data;
    table.resize(56, 0);
    table.extend((0..1000u32).map(|i| i as u8));
    (table[3], table[24], table[25], table[26]) = (0x92, 1, 1, 1);
    server.send((3, 0), Route::default(), &table, 0, 0, 0).unwrap();
    for _ in 0..40 {
        for departure in server.take_departures() {
            client.receive(Which::Gsi, Route::default(), departure.mad, 0);
        }
        for departure in client.take_departures() {
            server.receive(Which::Gsi, Route::default(), departure.mad, 0);
        }
    }
    let got = client.take_arrivals().remove(0).1;
    assert_eq!((got.data.len(), &got.data[56..]), (1056, &table[56..]));
    assert_eq!(got.data[15], 5);
    assert!(server.open.is_empty() && client.open.is_empty());
}

#[test]
fn strange_datagrams_are_dropped() {
    let mut engine = Engine::new(1, 0);
    engine.register(3, agent(rmpp::CLASS_SA, u128::MAX)).unwrap();
    let mut seed = 1u64;
    for _ in 0..100_000 {
        let mut mad = [0; MAD_BYTES];
        for chunk in mad[..40].chunks_mut(8) {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            chunk.copy_from_slice(&seed.to_be_bytes());
        }
        (mad[0], mad[1]) = (1, [3, 1, 0x81, 7][seed as usize % 4]);
        for which in [Which::Smi, Which::Gsi] {
            engine.receive(which, Route::default(), mad, 0);
        }
        engine.take_arrivals();
    }
    assert!(engine.take_departures().is_empty());
}

/// MGMT-3: answers of several datagrams whose headers contradict themselves, acknowledges of what was never sent, and
/// any other bytes, by seed: nothing panics, nobody gets what is not his, and what is kept stays small.
#[test]
fn hostile_messages_are_survived() {
    const ROUNDS: u64 = 3_000;
    let mut seed = 1u64;
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let (mut engine, mut answered, mut now_ms) = (Engine::new(1, 7), 0, 0);
    engine.register(3, agent(rmpp::CLASS_SA, 0)).unwrap();
    for round in 0..ROUNDS {
        now_ms += 1;
        let mut question = vec![0; 300 + (next() % 2_000) as usize];
        question[..MAD_BYTES].copy_from_slice(&mad(
            rmpp::CLASS_SA,
            if round % 2 == 0 { 0x12 } else { 0x01 },
            round,
        ));
        if round % 4 == 0 {
            (question[24], question[25], question[26]) = (1, rmpp::kind::DATA, 1);
        } else {
            question.truncate(MAD_BYTES);
        }
        engine
            .send((3, 0), Route::default(), &question, 20, 1, now_ms)
            .unwrap();
        let sent = engine.take_departures();
        for _ in 0..8 {
            let mut hostile = answer_to(&sent[(next() % sent.len() as u64) as usize]);
            for at in [24, 25, 26, 27] {
                hostile[at] = (next() % 8) as u8;
            }
            for byte in &mut hostile[28..36] {
                *byte = if next() % 2 == 0 { 0 } else { next() as u8 };
            }
            hostile[31] = (next() % 4) as u8;
            if next() % 8 == 0 {
                hostile[(next() % 256) as usize] ^= next() as u8;
            }
            engine.receive(Which::Gsi, Route::default(), hostile, now_ms);
        }
        for (handle, message) in engine.take_arrivals() {
            assert_eq!((handle, message.agent), (3, 0));
            assert!(
                message.data.len() <= 64 * MAD_BYTES,
                "{} bytes",
                message.data.len()
            );
            answered += u64::from(message.status == 0);
        }
        engine.take_departures();
        engine.expire(now_ms);
        assert!(engine.open.len() < 64, "{} questions are open", engine.open.len());
    }
    assert!(answered > ROUNDS / 10, "{answered} answers");
}
