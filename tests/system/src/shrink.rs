//! A failing scenario made smaller: what it drew is left away piece by piece, as long as it fails.

use hca_host::PcieParams;

use crate::plan::Plan;
use crate::scenario::{Failure, Options, run};

impl Plan {
    /// Names of what the plan could do without.
    pub(crate) fn parts(&self) -> Vec<String> {
        let is_drawn = [
            ("upheaval", self.swarm.upheaval.is_some()),
            ("services", self.services.is_some()),
            ("hosts", !self.swarm.has_fast_hosts()),
            ("jitter", self.read_jitter_ns != 0),
            ("congestion", self.congestion.is_some()),
            ("changes", self.swarm.changes_every.is_some()),
            ("firmware", self.swarm.think_cycles != [4; 2]),
            ("loss", self.faults.loss > 0.0),
            ("dup", self.faults.dup > 0.0),
            ("reorder", self.faults.reorder > 0.0),
            ("corrupt", self.faults.corrupt > 0.0),
            ("pause", self.faults.pause > 0.0),
            ("delay", self.faults.delay_ns > 0),
        ];
        let drawn = is_drawn.into_iter().filter(|(_, is)| *is);
        let pairs = (0..self.pairs.len()).map(|index| format!("pair{index}"));
        let services = self
            .services
            .as_ref()
            .map_or(Vec::new(), |services| services.parts());
        drawn
            .map(|(name, _)| name.to_owned())
            .chain(pairs)
            .chain(services)
            .collect()
    }

    /// Leaves parts away; names of what was not drawn mean nothing.
    pub(crate) fn leave_away(&mut self, parts: &[String]) {
        for part in parts {
            match part.as_str() {
                "upheaval" => self.swarm.upheaval = None,
                "services" => self.services = None,
                "hosts" => self.swarm.hosts = [(); 2].map(|()| PcieParams::default()),
                "jitter" => self.read_jitter_ns = 0,
                "congestion" => self.congestion = None,
                "changes" => self.swarm.changes_every = None,
                "firmware" => self.swarm.think_cycles = [4; 2],
                "loss" => self.faults.loss = 0.0,
                "dup" => self.faults.dup = 0.0,
                "reorder" => self.faults.reorder = 0.0,
                "corrupt" => self.faults.corrupt = 0.0,
                "pause" => self.faults.pause = 0.0,
                "delay" => self.faults.delay_ns = 0,
                _ => {}
            }
            if let Some(services) = &mut self.services {
                services.leave_away(part);
            }
        }
        // The highest first: the numbers of the others stay.
        for index in (0..self.pairs.len()).rev() {
            if parts.contains(&format!("pair{index}")) {
                self.pairs.remove(index);
            }
        }
    }
}

/// Runs a seed that fails again and again, each time without one part more. The smallest that still fails says how to
/// repeat it; any failure counts.
pub fn shrink(failure: Failure, options: &Options) -> Failure {
    let (mut smallest, mut options) = (failure, options.clone());
    let mut plan = Plan::draw(smallest.seed, &options);
    plan.leave_away(&options.without);
    for part in plan.parts() {
        let mut smaller = options.clone();
        smaller.without.push(part);
        if let Err(failure) = run(smallest.seed, &smaller) {
            (smallest, options) = (failure, smaller);
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is drawn has a name, and is gone when it is named.
    #[test]
    fn nothing_is_left_without_all_parts() {
        for seed in 1..=50 {
            let mut plan = Plan::draw(seed, &Options::default());
            let parts = plan.parts();
            plan.leave_away(&parts);
            assert_eq!(plan.parts(), Vec::<String>::new(), "seed {seed}");
            assert!(plan.faults.is_clean(), "seed {seed}: {}", plan.faults);
        }
    }

    /// One part less, and the others are as they were.
    #[test]
    fn a_part_is_left_away_alone() {
        let all = Plan::draw(3, &Options::default());
        for part in all.parts() {
            let mut plan = all.clone();
            plan.leave_away(std::slice::from_ref(&part));
            let left = plan.parts().len();
            let is_whole = part == "services";
            assert!(
                left < all.parts().len() && (is_whole || left + 1 == all.parts().len()),
                "{part}"
            );
        }
    }
}
