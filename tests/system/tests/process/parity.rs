//! The parity list ([`hca_parity`]) over the sockets of a simulator.

use std::rc::Rc;

use hca_link::LinkKind;
use hca_parity::{Dev, Ends, TESTS};
use hca_vfio_user::VfioUserDevice;

use crate::simulator::{PATIENCE, Simulator};

#[test]
fn over_sockets() {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let open = |name| -> Dev { Rc::new(VfioUserDevice::connect(&simulator.socket(name)).unwrap()) };
    let ends = Ends::new(["card0.0", "card1.0"].map(open), PATIENCE.as_nanos() as u64);
    for test in TESTS {
        if let Err(failure) = test.run(&ends) {
            panic!("{}: {failure}", test.name);
        }
    }
    drop(ends);
    simulator.finish();
}
