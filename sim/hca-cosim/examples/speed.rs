//! Simulated cycles per second of a pair of cards that are kept awake: `cargo run --release -p hca-cosim
//! --example speed`.

use std::time::Instant;

use hca_cosim::{CardConfig, Fabric, Identity, OpVls};
use hca_link::{CableConfig, LinkKind};
use hca_models as _;

fn main() {
    let probe = std::env::args().nth(1).is_some_and(|arg| arg == "probe");
    let mut fabric = Fabric::new(1);
    let cards = [1u8, 2].map(|n| {
        let name = format!("card{n}");
        let identity = Identity {
            guid: [0, 0, 0, 0xff, 0xfe, 0, 0, n],
            mac: [0x02, 0, 0, 0, 0, n],
            ipv4: [10, 0, 0, n],
            ipv6: [0; 16],
            lid: u16::from(n),
            infiniband: false,
            self_active: true,
            peer_vls: OpVls::Fifteen,
            rate_mbps: 100_000,
        };
        let config = if probe {
            CardConfig::probe(&name)
        } else {
            CardConfig::core(&name, identity)
        };
        fabric.add_card(config).expect("default parameters are legal")
    });
    fabric
        .connect(cards[0], cards[1], CableConfig::new("cable0", LinkKind::Ethernet))
        .expect("both ports are free");
    fabric.run(20_000);
    let evaluated = |fabric: &Fabric| {
        cards
            .iter()
            .map(|c| fabric.card(*c).counters().evaluated_cycles)
            .sum::<u64>()
    };
    let (before, start) = (evaluated(&fabric), Instant::now());
    for _ in 0..400 {
        // One register write keeps a card awake for a while.
        for card in cards {
            fabric.mmio_write(card, 0, 0xff8, 0, 0xff);
        }
        fabric.run(500);
    }
    let seconds = start.elapsed().as_secs_f64();
    let cycles = evaluated(&fabric) - before;
    println!(
        "{cycles} card cycles in {seconds:.3} s: {:.0} per second",
        cycles as f64 / seconds
    );
}
