//! Where the time of work requests goes: tables and files from what [`hca_stages`] has recorded.

use hca_host::PcieParams;
use hca_stages::{Counts, Span, WorkRecord};
use serde::Serialize;
use std::fmt::Write as _;

use crate::samples::Samples;

/// A piece of the way of a work request, over many of them.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// From this stage to that one.
    #[serde(flatten)]
    pub span: Span,
    /// Work requests that went it.
    pub count: u64,
    /// Half took no longer.
    pub p50_cycles: u64,
    /// 99 of 100 took no longer.
    pub p99_cycles: u64,
    /// The longest.
    pub max_cycles: u64,
    /// The same in nanoseconds.
    pub p50_ns: u64,
    /// The same in nanoseconds.
    pub p99_ns: u64,
    /// The same in nanoseconds.
    pub max_ns: u64,
    /// Part of the time of all work requests together.
    pub share: f64,
}

/// The pieces of a set of work requests, in the order in which they go them.
#[derive(Clone, Debug, Serialize)]
pub struct Breakdown {
    /// What was going on meanwhile.
    pub phase: &'static str,
    /// Work requests that succeeded; only they are in the rows.
    pub work_requests: u64,
    /// Others.
    pub failed: u64,
    /// Work requests that there was no room to record.
    pub not_recorded: u64,
    /// Packets made a second time, or more often.
    pub retransmitted_packets: u64,
    /// From doorbell to completion, nanoseconds: mean.
    pub total_mean_ns: f64,
    /// Half took no longer.
    pub total_p50_ns: u64,
    /// 99 of 100 took no longer.
    pub total_p99_ns: u64,
    /// The longest.
    pub total_max_ns: u64,
    /// The pieces.
    pub rows: Vec<Row>,
}

impl Breakdown {
    /// Sums up.
    pub fn new(phase: &'static str, records: &[WorkRecord], not_recorded: u64, pcie: &PcieParams) -> Self {
        let good = || records.iter().filter(|record| record.succeeded());
        let mut spans: Vec<(Span, Vec<u64>)> = Vec::new();
        for (span, cycles) in good().flat_map(WorkRecord::spans) {
            // Most of them have the same pieces in the same order.
            match spans.iter_mut().find(|(known, _)| *known == span) {
                Some((_, all)) => all.push(cycles),
                None => spans.push((span, vec![cycles])),
            }
        }
        spans.sort_by_key(|(span, _)| order(span, records));
        let totals = Samples::from(good().filter_map(WorkRecord::end_to_end).collect::<Vec<_>>());
        let all = totals.sorted_ns().iter().sum::<u64>();
        let mean_ns = pcie.ns(all) as f64 / totals.sorted_ns().len().max(1) as f64;
        let total = |percent| pcie.ns(totals.percentile_ns(percent));
        let retransmitted = records.iter().map(|record| u64::from(record.retransmitted));
        Self {
            phase,
            work_requests: good().count() as u64,
            failed: (records.len() - good().count()) as u64,
            not_recorded,
            retransmitted_packets: retransmitted.sum(),
            total_mean_ns: mean_ns,
            total_p50_ns: total(50),
            total_p99_ns: total(99),
            total_max_ns: total(100),
            rows: spans
                .into_iter()
                .map(|(span, cycles)| row(span, cycles, all.max(1) as f64, pcie))
                .collect(),
        }
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "  {}: {} work requests, {} packets sent again{}\n  {:<30} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}\n",
            self.phase,
            self.work_requests,
            self.retransmitted_packets,
            match (self.failed, self.not_recorded) {
                (0, 0) => String::new(),
                (failed, lost) => format!(", {failed} failed, {lost} not recorded"),
            },
            "from .. to",
            "p50 cyc",
            "p99 cyc",
            "max cyc",
            "p50 ns",
            "p99 ns",
            "max ns",
            "share"
        );
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "  {:<30} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>5.1} %",
                label(&row.span),
                row.p50_cycles,
                row.p99_cycles,
                row.max_cycles,
                row.p50_ns,
                row.p99_ns,
                row.max_ns,
                100.0 * row.share
            );
        }
        let _ = writeln!(
            text,
            "  {:<57} {:>9} {:>9} {:>9} 100.0 %",
            "doorbell .. end", self.total_p50_ns, self.total_p99_ns, self.total_max_ns
        );
        text
    }
}

/// Name of a piece.
pub fn label(span: &Span) -> String {
    format!("{} .. {}", span.from.name(), span.to.name())
}

/// Place of a piece: that of its end in the chains of those work requests that go it.
fn order(span: &Span, records: &[WorkRecord]) -> (usize, usize) {
    let place = |record: &WorkRecord| {
        let at = |stage| record.chain().position(|other| other == stage);
        Some((at(span.to)?, at(span.from)?))
    };
    records.iter().find_map(place).unwrap_or((usize::MAX, 0))
}

fn row(span: Span, cycles: Vec<u64>, all: f64, pcie: &PcieParams) -> Row {
    let sum = cycles.iter().sum::<u64>();
    let samples = Samples::from(cycles);
    let count = samples.sorted_ns().len() as u64;
    let [p50_cycles, p99_cycles, max_cycles] = [50, 99, 100].map(|percent| samples.percentile_ns(percent));
    Row {
        span,
        count,
        p50_cycles,
        p99_cycles,
        max_cycles,
        p50_ns: pcie.ns(p50_cycles),
        p99_ns: pcie.ns(p99_cycles),
        max_ns: pcie.ns(max_cycles),
        share: sum as f64 / all,
    }
}

/// Every work request of a run, for programs: `stages.json` of the demo.
#[derive(Serialize)]
pub struct Listing<'a> {
    /// A cycle.
    pub cycle_ps: u64,
    /// How many there are, and how many are missing here.
    pub counts: Counts,
    /// In the order of their ends.
    pub work_requests: &'a [WorkRecord],
}
