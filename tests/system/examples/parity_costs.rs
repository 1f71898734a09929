//! What `hca-parity --cost` measures, on two cards simulated in this process: the same lines.

use std::error::Error;
use std::rc::Rc;

use hca_link::LinkKind;
use hca_parity::{Dev, costs};
use hca_system_tests::{Rig, RigConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let Rig {
        sim, cards, nodes, ..
    } = Rig::new(&RigConfig::new(7, LinkKind::Ethernet))?;
    drop(nodes); // their functions are opened here
    for card in cards {
        let dev: Dev = Rc::new(sim.device(card, 0)?);
        for cost in costs(&dev)? {
            println!("{}: {}: {} ns", dev.info().name, cost.step, cost.mean.as_nanos());
        }
    }
    Ok(())
}
