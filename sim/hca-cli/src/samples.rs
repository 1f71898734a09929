//! Latencies and their percentiles.

use serde::Serialize;

/// Times of single operations, in nanoseconds of simulated time.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sorted_ns: Vec<u64>,
}

impl From<Vec<u64>> for Samples {
    fn from(mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        Self { sorted_ns: ns }
    }
}

/// Figures of a set of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Shortest.
    pub min_ns: u64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 90 of 100 are not longer.
    pub p90_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

impl Samples {
    /// All samples, shortest first.
    pub fn sorted_ns(&self) -> &[u64] {
        &self.sorted_ns
    }

    /// The smallest sample that at least `percent` of all do not exceed (nearest rank); 0 without samples.
    pub fn percentile_ns(&self, percent: u64) -> u64 {
        let count = self.sorted_ns.len() as u64;
        let rank = (count * percent).div_ceil(100).max(1);
        self.sorted_ns.get(rank as usize - 1).copied().unwrap_or(0)
    }

    /// The usual ones.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            min_ns: self.percentile_ns(0),
            p50_ns: self.percentile_ns(50),
            p90_ns: self.percentile_ns(90),
            p99_ns: self.percentile_ns(99),
            max_ns: self.percentile_ns(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let samples = Samples::from((1..=100).rev().collect::<Vec<_>>());
        let p = samples.percentiles();
        assert_eq!(
            (p.min_ns, p.p50_ns, p.p90_ns, p.p99_ns, p.max_ns),
            (1, 50, 90, 99, 100)
        );
        assert_eq!(Samples::default().percentiles(), Percentiles::default());
        assert_eq!(Samples::from(vec![7]).percentile_ns(99), 7);
    }
}
