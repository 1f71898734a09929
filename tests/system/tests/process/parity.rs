//! The parity list ([`hca_parity`]) over the sockets of a simulator.

use std::rc::Rc;

use hca_link::LinkKind;
use hca_parity::{Dev, Ends, TESTS};
use hca_vfio_user::VfioUserDevice;

use crate::simulator::{PATIENCE, Simulator};

#[test]
fn over_sockets() {
    over_sockets_that_share_memory(false);
}

#[test]
fn over_sockets_with_shared_memory() {
    over_sockets_that_share_memory(true);
}

fn over_sockets_that_share_memory(shares: bool) {
    let simulator = Simulator::start(LinkKind::Ethernet);
    let open = |name| -> Dev {
        let mut device = VfioUserDevice::connect(&simulator.socket(name)).unwrap();
        device.share_memory(shares);
        Rc::new(device)
    };
    let ends = Ends::new(["card0.0", "card1.0"].map(open), PATIENCE.as_nanos() as u64);
    for test in TESTS {
        if let Err(failure) = test.run(&ends) {
            panic!("{}: {failure}", test.name);
        }
    }
    drop(ends);
    simulator.finish();
}
