//! Random transfers under random faults (REL-1: in order, once, without error; WIRE-17, REL-16, REL-19).

use hca_system_tests::scenario::{Options, run};

/// Runs seeds; stops at the first failure, whose text says how to repeat it.
fn soak(seeds: impl Iterator<Item = u64>) {
    let options = Options::default();
    let (mut count, mut bytes) = (0, 0);
    for seed in seeds {
        match run(seed, &options) {
            Ok(report) => bytes += report.bytes,
            Err(failure) => panic!("{failure}"),
        }
        count += 1;
    }
    println!("{count} seeds, {bytes} bytes, all right");
}

/// The same seeds in every run, in four parts that may run side by side.
#[test]
fn fixed_seeds_1_to_25() {
    soak(1..=25);
}

#[test]
fn fixed_seeds_26_to_50() {
    soak(26..=50);
}

#[test]
fn fixed_seeds_51_to_75() {
    soak(51..=75);
}

#[test]
fn fixed_seeds_76_to_100() {
    soak(76..=100);
}

/// `make soak SEEDS=1000`; START moves on to seeds not yet seen.
#[test]
#[ignore = "takes as long as SEEDS asks for"]
fn soak_many_seeds() {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is '{text}', it must be a whole number")),
        Err(_) => default,
    };
    let start = number("START", 1000);
    soak(start..start + number("SEEDS", 1000));
}
