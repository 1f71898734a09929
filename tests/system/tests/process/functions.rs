//! As many processes as a card has functions, each with memory of its own, at work at the same time.

use crate::simulator::{Client, Simulator, transfers};
use hca_cosim::NUM_FUNCS;
use hca_link::LinkKind;

const BYTES: u32 = 60_000;
const TARGET: u32 = 256 << 10;

/// D15: all WRITE at once, and every function's bytes are its own; one is killed in the midst of a flood, and the
/// others go on as if it had never been. Its function serves the next.
#[test]
fn every_function_has_a_process() {
    let simulator = Simulator::start_of(LinkKind::Ethernet, NUM_FUNCS, |_| ());
    let mut pairs: Vec<[Client; 2]> = (0..NUM_FUNCS)
        .map(|func| {
            simulator.pair(
                [0, 1]
                    .map(|card| format!("card{card}.{func}"))
                    .each_ref()
                    .map(String::as_str),
            )
        })
        .collect();
    for (seed, [source, _]) in pairs.iter_mut().enumerate() {
        source.expect(&format!("fill 0 {BYTES} {seed}"), "filled");
    }
    all_write(&mut pairs);
    let victim = usize::from(NUM_FUNCS / 2 - 1);
    let [mut dying, peer] = pairs.remove(victim);
    dying.tell("flood write");
    assert_eq!(dying.answer(), "flooding");
    for pair in &mut pairs {
        pair[0].tell(&format!("write 0 {TARGET} {BYTES}"));
    }
    dying.kill();
    for pair in &mut pairs {
        assert_eq!(pair[0].answer(), format!("RdmaWrite Success {BYTES}"));
    }
    peer.kill();
    all_write(&mut pairs);
    for pair in &mut pairs {
        transfers(pair, 5000);
    }
    let mut next = simulator.pair(
        [0, 1]
            .map(|card| format!("card{card}.{victim}"))
            .each_ref()
            .map(String::as_str),
    );
    transfers(&mut next, 5000);
    pairs.into_iter().flatten().chain(next).for_each(Client::end);
    simulator.finish();
}

/// Each to its peer, before any of them has an answer.
fn all_write(pairs: &mut [[Client; 2]]) {
    for pair in &mut *pairs {
        pair[0].tell(&format!("write 0 {TARGET} {BYTES}"));
    }
    let mut digests = std::collections::BTreeSet::new();
    for pair in &mut *pairs {
        assert_eq!(pair[0].answer(), format!("RdmaWrite Success {BYTES}"));
    }
    for [source, target] in &mut *pairs {
        let digest = source.ask(&format!("digest 0 {BYTES}"));
        target.expect(&format!("digest {TARGET} {BYTES}"), &digest);
        digests.insert(digest);
    }
    assert_eq!(digests.len(), pairs.len(), "each has bytes of its own");
}
