//! Simulated cycles per second of an idle model: `cargo run --release -p hca-vsim --example bench [probe]`.

use std::time::Instant;

use hca_models as _;
use hca_vsim::{Dut, Model};

fn main() {
    let probe = std::env::args().nth(1).is_some_and(|arg| arg == "probe");
    let mut dut = Dut::new(if probe { Model::Probe } else { Model::Core }, 1).expect("linked above");
    let cycles = 200_000u64;
    let mut start = Instant::now();
    for cycle in 0..cycles + 20 {
        if cycle == 20 {
            start = Instant::now();
        }
        let ports = dut.ports();
        ports.rst_i.set(u8::from(cycle < 10));
        ports.now_i.set(cycle);
        ports.clk_i.set(0);
        dut.eval();
        dut.ports().clk_i.set(1);
        assert!(dut.eval(), "an assertion of the RTL failed");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{cycles} cycles in {seconds:.3} s: {:.0} cycles/s",
        cycles as f64 / seconds
    );
}
