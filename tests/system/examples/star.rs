//! Four cards behind a switch, all of them busy, with so many threads: cycles and seconds as a JSON line,
//! and how many of the cards a simulated cycle has to work on: so many threads can work side by side.
//! `make bench-sim` runs it.
//!
//! `cargo run --release -p hca-system-tests --example star -- THREADS`

use std::error::Error;

use hca_link::LinkKind;
use hca_system_tests::star::Star;

fn main() -> Result<(), Box<dyn Error>> {
    let threads = std::env::args().nth(1).ok_or("usage: star THREADS")?.parse()?;
    let star = Star {
        cards: 4,
        link: LinkKind::Ethernet,
        threads,
        bytes: 65536,
        messages: 100,
    };
    let carried = star.carry()?;
    println!(
        r#"{{"cards": {}, "threads": {threads}, "simulated_cycles": {}, "cards_per_cycle": {:.2}, "wall_s": {:.4}}}"#,
        star.cards,
        carried.cycles,
        carried.evaluated_cycles as f64 / carried.cycles as f64,
        carried.wall.as_secs_f64(),
    );
    Ok(())
}
