//! Nothing of a client that is gone stays mapped, at whatever point it went, while others go on and the cards never
//! rest.

use crate::simulator::{Client, PATIENCE, Simulator};
use hca_dev::SharedMem;
use hca_link::LinkKind;
use hca_system_tests::raw::RawClient;
use hca_vfio_user::{Command as Message, DmaMap};
use std::process::{Command, Stdio};
use std::time::Instant;

const FUNCTIONS: [&str; 2] = ["card0.0", "card1.0"];

fn wait_mapped(simulator: &Simulator, function: &str, is_right: impl Fn(u64) -> bool) {
    let start = Instant::now();
    let count = || simulator.status.mappings(function).unwrap();
    while !is_right(count()) {
        assert!(start.elapsed() < PATIENCE, "{function} has {} mappings", count());
        std::thread::yield_now();
    }
}

/// Nothing of whoever was last there.
fn wait_clean(simulator: &Simulator, point: &str) {
    simulator.wait_clients(2);
    for function in FUNCTIONS {
        let start = Instant::now();
        wait_mapped(simulator, function, |count| count == 0);
        eprintln!("{point}: {function} is clean after {:?}", start.elapsed());
    }
}

#[test]
fn nothing_of_a_killed_client_stays_mapped() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let [mut busy, responder] = simulator.pair(["card0.1", "card1.1"]);
    busy.tell("flood write");
    assert_eq!(busy.answer(), "flooding");

    let memory = SharedMem::new("dead", 1 << 20).unwrap();
    let mut raw = RawClient::greeted(&simulator.socket(FUNCTIONS[0])).unwrap();
    let map = DmaMap {
        flags: DmaMap::READ | DmaMap::WRITE,
        offset: 0,
        address: 0,
        size: 1 << 20,
    };
    let fd = memory.fd().unwrap();
    let reply = raw.ask(Message::DmaMap, &map.encode(), &[fd]).unwrap();
    assert_eq!(reply.header.errno(), 0);
    wait_mapped(&simulator, FUNCTIONS[0], |count| count == 1);
    drop(raw);
    wait_clean(&simulator, "one mapping");

    let mut opening = Command::new(env!("CARGO_BIN_EXE_hca-peer"))
        .arg(simulator.socket(FUNCTIONS[0]))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_mapped(&simulator, FUNCTIONS[0], |count| count > 0);
    opening.kill().unwrap();
    opening.wait().unwrap();
    wait_clean(&simulator, "opening");

    simulator.client(FUNCTIONS[0]).kill();
    wait_clean(&simulator, "ready");
    simulator.pair(FUNCTIONS).into_iter().for_each(Client::kill);
    wait_clean(&simulator, "connected");
    for operation in ["write", "read"] {
        let [mut requester, target] = simulator.pair(FUNCTIONS);
        requester.tell(&format!("flood {operation}"));
        assert_eq!(requester.answer(), "flooding");
        target.kill();
        requester.kill();
        wait_clean(&simulator, operation);
    }

    responder.kill();
    assert_eq!(busy.answer(), "RetryExcErr flushed 15");
    busy.end();
    simulator.finish();
}
