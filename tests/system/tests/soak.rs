//! Random transfers under random faults: exactly once and in order for RC and XRC, at most once and never torn for UC
//! and UD, every atomic once (REL-1, REL-17, WIRE-17, REL-16, REL-19, XPORT-1 to XPORT-6), whatever QPs and programs
//! come and go meanwhile (QPS-16).

use hca_cosim::Design;
use hca_system_tests::scenario::{Options, run};

/// Runs seeds; stops at the first failure, whose text says how to repeat it.
fn soak(seeds: impl Iterator<Item = u64>) {
    soak_with(&Options::default(), seeds);
}

fn soak_with(options: &Options, seeds: impl Iterator<Item = u64>) {
    let (mut count, mut bytes) = (0, 0);
    for seed in seeds {
        match run(seed, options) {
            Ok(report) => bytes += report.bytes,
            Err(failure) => panic!("{failure}"),
        }
        count += 1;
    }
    println!("{count} seeds, {bytes} bytes, all right");
}

/// The same seeds in every run, in parts that may run side by side. What they draw a test of the plan says.
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

#[test]
#[ignore = "minutes: part of make soak"]
fn soak_fixed_seeds_101_to_200() {
    soak(101..=200);
}

fn soak_cards(designs: [Design; 2], seeds: impl Iterator<Item = u64>) {
    let options = Options {
        designs,
        ..Options::default()
    };
    soak_with(&options, seeds);
}

/// Cards without gates: all seeds above in seconds, and more.
#[test]
fn model_seeds_1_to_400() {
    soak_cards([Design::Model; 2], 1..=400);
}

/// A card of each: what one takes for right the other must, too.
#[test]
fn model_and_rtl_seeds_1_to_12() {
    soak_cards([Design::Model, Design::Rtl], 1..=12);
}

#[test]
fn rtl_and_model_seeds_13_to_24() {
    soak_cards([Design::Rtl, Design::Model], 13..=24);
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
