//! Decision D6: the same seed gives the same cycles.

use std::collections::BTreeSet;

use hca_system_tests::scenario::{Options, run};

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
