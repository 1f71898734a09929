//! Clients that harm, and neighbours that must not notice (D15, SYS-7).

use crate::simulator::{Client, PATIENCE, Simulator, transfers};
use hca_dev::{RING_IOVA_BASE, SharedMem};
use hca_link::LinkKind;
use hca_system_tests::raw::{RawClient, read_config, read_of};
use hca_vfio_user::{Command, DmaMap, SetIrqs, eventfd, irq, irq_data, region};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A client whose eventfds are full and block whoever writes to them is interrupted all the same.
#[test]
fn full_eventfds_hold_nobody() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    let [mut deaf, friend] = simulator.pair(["card0.1", "card1.1"]);
    deaf.expect("deaf", "deaf");
    deaf.expect("write 0 0 64", "RdmaWrite Success 64");
    transfers(&mut pair, 5000);
    for client in pair.into_iter().chain([deaf, friend]) {
        client.end();
    }
    simulator.finish();
}

/// A client that asks and never reads the answers is not answered any more; nobody waits for it.
#[test]
fn who_never_reads_holds_nobody() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    let mut lazy = RawClient::greeted(&simulator.socket("card0.1")).unwrap();
    lazy.stuff(Command::RegionRead, &read_config(), true).unwrap();
    transfers(&mut pair, 5000);
    assert!(!lazy.is_hung_up(), "the others waited for it");
    drop(lazy);
    pair.into_iter().for_each(Client::end);
    simulator.finish();
}

/// A client whose registered memory never comes: the card's accesses to it wait, those of others do not. After a while
/// it is hung up; its function is free again when nobody is in its memory any more.
#[test]
fn memory_that_never_comes_holds_nobody() {
    for name in ["write", "read"] {
        let simulator = Simulator::start_with(LinkKind::Ethernet, |server| {
            server.set_patience(Duration::from_secs(2));
        });
        let mut pair = simulator.pair(["card0.0", "card1.0"]);
        let [mut absent, friend] = simulator.pair(["card0.1", "card1.1"]);
        let answer = absent.ask(&format!("absent {name}"));
        if answer.starts_with("impossible") {
            eprintln!("skipped: memory that never comes is {answer}");
            return;
        }
        for _ in 0..3 {
            transfers(&mut pair, 5000);
        }
        simulator.wait_clients(3);
        transfers(&mut pair, 5000);
        let busy = RawClient::greeted(&simulator.socket("card0.1"));
        assert_eq!(busy.err().unwrap().raw_os_error(), Some(libc::EBUSY), "{name}");
        absent.kill();
        RawClient::greeted(&simulator.socket("card0.1")).unwrap();
        pair.into_iter().chain([friend]).for_each(Client::end);
        simulator.finish();
    }
}

/// A client that does not read for too long is hung up, and so is a caller that does not greet.
#[test]
fn who_never_reads_or_greets_is_hung_up() {
    let simulator = Simulator::start_with(LinkKind::Ethernet, |server| {
        server.set_patience(Duration::from_millis(20));
    });
    // On a busy machine a greeting may take longer than there is patience with it, too.
    let greeted = || {
        let start = Instant::now();
        loop {
            match RawClient::greeted(&simulator.socket("card0.1")) {
                Ok(client) => return client,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
        }
    };
    let mut lazy = greeted();
    let silent = RawClient::silent(&simulator.socket("card0.2")).unwrap();
    lazy.stuff(Command::RegionRead, &read_config(), true).unwrap();
    assert!(lazy.wait_hung_up(PATIENCE) && silent.wait_hung_up(PATIENCE));
    simulator.wait_clients(0);
    // Of what it had sent nothing is left over for the next.
    let mut next = greeted();
    let reply = next.ask(Command::DeviceGetInfo, &[], &[]).unwrap();
    assert_eq!(reply.header.errno(), 0);
    drop(next);
    simulator.finish();
}

/// Callers that say nothing: only so many are there at a time, and who greets gets through.
#[test]
fn silent_callers_are_bounded() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let silent: Vec<_> = (0..100)
        .map(|_| RawClient::silent(&simulator.socket("card0.1")).unwrap())
        .collect();
    let client = RawClient::greeted(&simulator.socket("card0.1")).unwrap();
    assert!(silent[..80].iter().all(|caller| caller.wait_hung_up(PATIENCE)));
    let left = silent.iter().filter(|caller| !caller.is_hung_up()).count();
    assert!((1..=16).contains(&left), "{left} of 100");
    drop((client, silent));
    simulator.finish();
}

/// Only what is sealed against shrinking is mapped, and only eventfds are interrupts; the refusal says so.
#[test]
fn descriptors_of_the_wrong_kind_are_refused() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut client = RawClient::greeted(&simulator.socket("card0.1")).unwrap();
    let map = DmaMap {
        flags: 3,
        offset: 0,
        address: RING_IOVA_BASE + 0x10_0000,
        size: 4096,
    };
    let sealed = SharedMem::new("sealed", 4096).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    let eventfd = eventfd().unwrap();
    let wrong = [
        reader.as_fd(),
        writer.as_fd(),
        file.as_fd(),
        client.stream.as_fd(),
    ];
    let owned = wrong.map(|fd| fd.try_clone_to_owned().unwrap());
    let set = SetIrqs {
        flags: irq_data::EVENTFD | irq_data::TRIGGER,
        index: irq::MSIX,
        start: 0,
        count: 1,
    };
    let mut errno = |command, payload: &[u8], fds: &[BorrowedFd<'_>]| {
        client.ask(command, payload, fds).unwrap().header.errno() as i32
    };
    for fd in owned.iter().map(AsFd::as_fd) {
        assert_eq!(errno(Command::DmaMap, &map.encode(), &[fd]), libc::EINVAL);
        assert_eq!(errno(Command::DeviceSetIrqs, &set.encode(), &[fd]), libc::EINVAL);
    }
    let memory = sealed.fd().unwrap();
    assert_eq!(
        errno(Command::DmaMap, &map.encode(), &[memory, memory]),
        libc::EINVAL
    );
    assert_eq!(
        errno(Command::DmaMap, &map.encode(), &[eventfd.as_fd()]),
        libc::EINVAL
    );
    assert_eq!(errno(Command::DmaMap, &map.encode(), &[memory]), 0);
    assert_eq!(errno(Command::DmaMap, &map.encode(), &[memory]), libc::EEXIST);
    assert_eq!(
        errno(Command::DeviceSetIrqs, &set.encode(), &[eventfd.as_fd()]),
        0
    );
    // One of them is the client's own end of the connection.
    drop((client, owned));
    simulator.finish();
}

/// Register reads that nobody wants answered, as fast as they can be sent.
#[test]
fn a_flood_of_register_reads_is_held_back() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let mut pair = simulator.pair(["card0.0", "card1.0"]);
    let mut flood = RawClient::greeted(&simulator.socket("card0.1")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let read = read_of(region::BAR0, 0, 4);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = flood.stuff(Command::RegionRead, &read, false);
            }
        });
        transfers(&mut pair, 5000);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(flood);
    pair.into_iter().for_each(Client::end);
    simulator.finish();
}

/// Who comes when the last client has just gone gets the function, at once.
#[test]
fn a_function_just_left_is_given_to_the_next() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    for round in 0..200 {
        let client = RawClient::greeted(&simulator.socket("card0.1"));
        assert!(client.is_ok(), "round {round}: {:?}", client.err());
    }
    simulator.wait_clients(0);
    let first = RawClient::greeted(&simulator.socket("card0.1"));
    let second = RawClient::greeted(&simulator.socket("card0.1"));
    assert_eq!(second.err().unwrap().raw_os_error(), Some(libc::EBUSY));
    drop(first);
    simulator.finish();
}
