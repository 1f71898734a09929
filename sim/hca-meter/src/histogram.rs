//! Times in buckets that are at most 1/64 of their value wide: any number of samples in bounded memory.

use crate::report::Latency;

/// Buckets of each power of two.
const STEPS_LOG2: u32 = 6;
const STEPS: u64 = 1 << STEPS_LOG2;

/// Samples of a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Grows to the largest sample's bucket; 64-bit times have fewer than 4000.
    counts: Vec<u64>,
    samples: u64,
    min_ns: u64,
    max_ns: u64,
}

fn bucket_of(ns: u64) -> usize {
    if ns < 2 * STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS_LOG2;
    ((u64::from(shift) << STEPS_LOG2) + (ns >> shift)) as usize
}

/// The largest value in a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = (bucket >> STEPS_LOG2) - 1;
    let step = bucket - (shift << STEPS_LOG2);
    (step << shift) | ((1 << shift) - 1)
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.min_ns = if self.samples == 0 {
            ns
        } else {
            self.min_ns.min(ns)
        };
        self.max_ns = self.max_ns.max(ns);
        self.samples += 1;
    }

    /// A value that so many thousandths of the samples do not exceed.
    fn per_mille(&self, per_mille: u64) -> u64 {
        let rank = (self.samples * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let bound = bucket.map_or(0, upper_bound);
        bound.clamp(self.min_ns, self.max_ns)
    }

    /// None without samples.
    pub fn latency(&self) -> Option<Latency> {
        (self.samples > 0).then(|| Latency {
            samples: self.samples,
            min_ns: self.min_ns,
            p50_ns: self.per_mille(500),
            p90_ns: self.per_mille(900),
            p99_ns: self.per_mille(990),
            p999_ns: self.per_mille(999),
            max_ns: self.max_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_narrow_and_holds_its_values(ns in any::<u64>()) {
            let bound = upper_bound(bucket_of(ns));
            prop_assert!(bound >= ns);
            prop_assert!(bound - ns <= ns / STEPS);
            prop_assert_eq!(bucket_of(bound), bucket_of(ns));
            prop_assert!(bound == u64::MAX || bucket_of(bound + 1) == bucket_of(ns) + 1);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_samples() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.latency(), None);
        (1..=1000).for_each(|i| histogram.add(i * 100));
        let found = histogram.latency().unwrap();
        assert_eq!((found.samples, found.min_ns, found.max_ns), (1000, 100, 100_000));
        for (value, exact) in [
            (found.p50_ns, 50_000),
            (found.p90_ns, 90_000),
            (found.p99_ns, 99_000),
            (found.p999_ns, 99_900),
        ] {
            assert!(
                (exact..=exact + exact / 64).contains(&value),
                "{value} for {exact}"
            );
        }
    }
}
