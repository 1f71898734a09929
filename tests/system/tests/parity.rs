//! The parity list ([`hca_parity`]) on two cards simulated in this process.

use std::rc::Rc;

use hca_link::LinkKind;
use hca_parity::{Ends, TESTS};
use hca_system_tests::{Rig, RigConfig};

/// Of simulated time.
const PATIENCE_NS: u64 = 100_000_000;

#[test]
fn in_process() {
    for test in TESTS {
        let rig = Rig::new(&RigConfig::new(7, LinkKind::Ethernet)).unwrap();
        // The nodes' functions are closed first: the tests open them themselves.
        let Rig {
            sim, cards, nodes, ..
        } = rig;
        drop(nodes);
        let devices = cards.map(|card| Rc::new(sim.device(card, 0).unwrap()) as hca_parity::Dev);
        if let Err(failure) = test.run(&Ends::new(devices, PATIENCE_NS)) {
            panic!("{}: {failure}", test.name);
        }
    }
}
