//! Process mode: clients in processes of their own, one for each function (D15). They come and go, also by SIGKILL.

mod functions;
mod fuzz;
mod hostile;
mod leftovers;
mod parity;
mod simulator;

use hca_cosim::{CardConfig, Fabric, Server, SimError};
use hca_link::LinkKind;
use hca_system_tests::raw::RawClient;
use hca_system_tests::{Rng, identity};
use hca_vfio_user::Command as Message;
use simulator::{Client, Simulator, transfers, transfers_behind_a_receive};
use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// SYS-3, OP-1, OP-3, OP-5: what works in-process works between processes, on both links.
#[test]
fn basic_transfers() {
    for link in [LinkKind::Ethernet, LinkKind::InfiniBand] {
        let simulator = Simulator::start(link);
        let mut pair = simulator.pair(["card0.0", "card1.0"]);
        for len in [0, 1, 1023, 1024, 1025, 4096, 200_001] {
            transfers(&mut pair, len);
        }
        pair.into_iter().for_each(Client::end);
        simulator.finish();
    }
}

/// Clients that give the simulator no memory: every access of the card is a message to them, for rings and data alike.
#[test]
fn transfers_by_messages() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.couriers(["card0.0", "card1.0"]);
    for len in [1, 1025, 20_001] {
        transfers_behind_a_receive(&mut pair, len);
    }
    // One end dies: its function is reset, or has found before that nobody answers.
    let [mut requester, responder] = pair;
    requester.tell("flood read");
    assert_eq!(requester.answer(), "flooding");
    responder.kill();
    let answer = requester.answer();
    let known = ["RetryExcErr flushed 15", "RemOpErr flushed 15"];
    assert!(known.contains(&answer.as_str()), "{answer}");
    requester.end();
    simulator.wait_clients(0);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    transfers(&mut pair, 5000);
    pair.into_iter().for_each(Client::end);
    simulator.finish();
}

/// SYS-7: the killed client's objects and memory go, its peer ends in retry-exceeded, its function serves the next.
#[test]
fn a_client_killed_in_mid_transfer() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    for operation in ["write", "read"] {
        // The responder is killed.
        let [mut requester, responder] = simulator.pair(["card0.0", "card1.0"]);
        requester.tell(&format!("flood {operation}"));
        assert_eq!(requester.answer(), "flooding");
        responder.kill();
        assert_eq!(requester.answer(), "RetryExcErr flushed 15", "{operation}");
        simulator.wait_clients(1);
        requester.end();
        simulator.wait_clients(0);

        // The requester is killed.
        let [responder, mut requester] = simulator.pair(["card0.0", "card1.0"]);
        requester.tell(&format!("flood {operation}"));
        assert_eq!(requester.answer(), "flooding");
        requester.kill();
        simulator.wait_clients(1);
        responder.end();
        simulator.wait_clients(0);
    }
    // Nothing of theirs is left: one client can have every QP of the card, and when it is killed, so can others.
    let mut greedy = simulator.client("card1.0");
    let qps = greedy.ask("qps");
    let numbers: Vec<u32> = qps.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{qps}");
    greedy.kill();
    simulator.wait_clients(0);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    transfers(&mut pair, 5000);
    pair.into_iter().for_each(Client::end);
    simulator.finish();
}

/// D15, KEY-31: processes on two functions of each card work side by side, and cannot reach each other's memory.
#[test]
fn two_clients_on_one_card() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pairs = [["card0.0", "card1.0"], ["card0.1", "card1.1"]].map(|names| simulator.pair(names));
    let mut digests = Vec::new();
    for (seed, [a, b]) in pairs.iter_mut().enumerate() {
        a.expect(&format!("fill 0 65536 {seed}"), "filled");
        b.expect("fill 0 65536 77", "filled");
        digests.push(a.ask("digest 0 65536"));
    }
    assert_ne!(digests[0], digests[1]);
    pairs.iter_mut().for_each(|[a, _]| a.tell("burst 100"));
    for ([a, b], digest) in pairs.iter_mut().zip(&digests) {
        assert_eq!(a.answer(), "burst done");
        b.expect("digest 0 65536", digest);
    }

    // A connection between the third functions, with address and key of the first one's memory.
    let victim = &mut pairs[0][1];
    let stolen: Vec<&str> = victim.info.split(' ').skip(4).collect();
    let [mut thief, mut friend] = [simulator.client("card0.2"), simulator.client("card1.2")];
    let connection: Vec<&str> = friend.info.split(' ').take(4).collect();
    let connect = format!("connect {} {}", connection.join(" "), stolen.join(" "));
    thief.expect(&connect, "connected");
    let info = thief.info.clone();
    friend.expect(&format!("connect {info}"), "connected");
    let refusal = thief.ask("write 0 0 64");
    assert!(refusal.contains("RemAccessErr"), "{refusal}");
    victim.expect("digest 0 65536", &digests[0]);
    for client in pairs.into_iter().flatten().chain([thief, friend]) {
        client.end();
    }
    simulator.finish();
}

/// SYS-7: what comes in through a socket is not trusted, before the greeting and after it: many commands on each
/// connection, the last of them cut off anywhere.
#[test]
fn garbage_on_a_socket_harms_nobody() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    let mut rng = Rng::new(1, "garbage");
    for name in ["card0.0", "card0.1"] {
        let mut noise = UnixStream::connect(simulator.socket(name)).unwrap();
        // The simulator hangs up when it has seen enough of it.
        let _ = noise.write_all(&rng.bytes(10_000));
    }
    for round in 0..40 {
        let mut client = RawClient::greeted(&simulator.socket("card0.1")).unwrap();
        // Known commands with payloads that mean nothing: refused or, where chance gave them a meaning, done; but each
        // is answered, under its own id.
        for id in 0..50 {
            let command = Message::from_wire(rng.below(15) as u16).unwrap_or(Message::DmaMap);
            let payload_bytes = rng.below(64) as usize;
            let payload = rng.bytes(payload_bytes);
            let connection = &mut client.connection;
            connection.send_command(id, command, &payload, &[], true).unwrap();
            let reply = connection.receive().unwrap().header;
            assert!(reply.is_reply() && reply.id == id, "round {round}: {command:?}");
        }
        let _ = client.stream.write_all(&rng.bytes(round));
        drop(client);
        simulator.wait_clients(2);
    }
    transfers(&mut pair, 3000);
    let late = simulator.client("card0.1");
    pair.into_iter().for_each(Client::end);
    late.end();
    simulator.finish();
}

fn serve_at(path: &Path) -> Result<Server, SimError> {
    let mut fabric = Fabric::new(1);
    let card = fabric.add_card(CardConfig::core("card0", identity(0, LinkKind::Ethernet)))?;
    let mut server = Server::new(fabric);
    server.serve(card, 0, path)?;
    Ok(server)
}

/// A socket in use is left alone and named; one that a killed simulator has left is taken over.
#[test]
fn occupied_and_stale_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card0.0");
    let refusal = |path: &Path| serve_at(path).err().unwrap().to_string();

    let first = serve_at(&path).unwrap();
    let error = refusal(&path);
    assert!(
        error.contains("card0.0") && error.contains("another simulator"),
        "{error}"
    );
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());

    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "what a killed simulator leaves");
    drop(serve_at(&path).unwrap());

    std::fs::write(&path, "precious").unwrap();
    let error = refusal(&path);
    assert!(
        error.contains("card0.0") && error.contains("no socket"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");

    let error = refusal(&folder.path().join("missing/card0.0"));
    assert!(error.contains("missing/card0.0"), "{error}");
}
