//! Decision D6: the same seed gives the same cycles.

use std::collections::BTreeSet;

use hca_link::LinkKind;
use hca_system_tests::scenario::{Options, run};
use hca_system_tests::star::Star;

/// Every register write, DMA request, completion, packet and interrupt in the same cycle, twice; and another seed
/// gives another run.
#[test]
fn the_same_seed_gives_the_same_trace() {
    let options = Options {
        hash: true,
        ..Options::default()
    };
    let mut hashes = BTreeSet::new();
    for seed in [3, 4, 5] {
        let first = run(seed, &options).unwrap();
        let second = run(seed, &options).unwrap();
        assert_eq!(first, second, "seed {seed}");
        assert_ne!(first.trace_hash, 0);
        assert!(
            hashes.insert(first.trace_hash),
            "seed {seed}: the trace of another seed"
        );
    }
}

/// The same results with every card evaluated in every cycle, and with more threads: traces, counters of the cables,
/// cycles. Without jumps it is also a violation if a card changes in a cycle that would have been left out.
fn neither_jumps_nor_threads_matter(seeds: impl Iterator<Item = u64>) {
    let usual = Options {
        hash: true,
        ..Options::default()
    };
    let others = [(false, 1), (true, 2), (false, 4)].map(|(jumps, threads)| Options {
        jumps,
        threads,
        ..usual.clone()
    });
    for seed in seeds {
        let report = run(seed, &usual).unwrap();
        for options in &others {
            assert_eq!(report, run(seed, options).unwrap(), "seed {seed}, {options:?}");
        }
    }
}

#[test]
fn neither_jumps_nor_threads_matter_in_some_seeds() {
    neither_jumps_nor_threads_matter(1..=2);
}

/// Nothing depends on what registers and RAMs hold before reset: traces, counters, cycles.
fn registers_before_reset_do_not_matter(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let [one, other] = [1, 2].map(|registers| {
            let options = Options {
                hash: true,
                registers,
                ..Options::default()
            };
            run(seed, &options).unwrap()
        });
        assert_eq!(one, other, "seed {seed}");
    }
}

#[test]
fn registers_before_reset_do_not_matter_in_some_seeds() {
    registers_before_reset_do_not_matter(11..=14);
}

#[test]
#[ignore = "minutes: part of make soak"]
fn soak_of_registers_before_reset_in_hundreds_of_seeds() {
    registers_before_reset_do_not_matter(1..=300);
}

/// Four busy cards behind a switch: fewer threads than cards, as many, and more.
#[test]
fn four_cards_behind_a_switch_do_not_show_the_threads() {
    for link in [LinkKind::Ethernet, LinkKind::InfiniBand] {
        let carry = |threads| {
            let star = Star {
                cards: 4,
                link,
                threads,
                bytes: 20_000,
                messages: 8,
            };
            let carried = star.carry().unwrap();
            (carried.trace_hash, carried.cycles)
        };
        let alone = carry(1);
        for threads in [2, 3, 4, 6] {
            assert_eq!(alone, carry(threads), "{link:?}, {threads} threads");
        }
    }
}

#[test]
#[ignore = "minutes: part of make soak"]
fn soak_of_jumps_and_threads_in_a_hundred_seeds() {
    neither_jumps_nor_threads_matter(1..=100);
}
