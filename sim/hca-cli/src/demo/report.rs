//! What the demo shows: a table for people, `summary.json` for programs.

use anyhow::Result;
use hca_host::PcieParams;
use hca_link::{CableStats, Dir, FaultCounts};
use hca_system_tests::{Rig, RigConfig};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

use super::Args;
use super::transfer::{Phase, Transfer};
use crate::plots::engineering;
use crate::rundir::{Headline, Run};
use crate::samples::Percentiles;
use crate::waveforms::Waveform;

#[derive(Serialize)]
struct PhaseReport {
    messages: u64,
    bytes: u64,
    simulated_ns: u64,
    goodput_bits_per_s: f64,
    share_of_wire: f64,
    latency: Percentiles,
}

#[derive(Serialize)]
struct CardReport {
    tx_packets: u64,
    rx_packets: u64,
    rx_crc_errors: u64,
    rx_drops: u64,
    rx_buffer_drops: u64,
    out_of_sequence: u64,
    duplicate_requests: u64,
    naks_sent: u64,
    rnr_naks_sent: u64,
    ack_timeouts: u64,
    retransmitted_packets: u64,
}

/// Every figure of a run.
#[derive(Serialize)]
pub struct Summary {
    command: String,
    seed: u64,
    link: String,
    faults: String,
    file: Option<String>,
    file_bytes: usize,
    digests_match: bool,
    sha256: String,
    write: PhaseReport,
    read: PhaseReport,
    cards: [CardReport; 2],
    cable: CableStats,
    line_rate_bits_per_s: u64,
    pcie: PcieParams,
    simulated_cycles: u64,
    wall_s: f64,
    cycles_per_wall_s: f64,
    /// Waveforms written.
    pub traces: Vec<Waveform>,
}

fn phase(phase: &Phase, line_rate: u64) -> PhaseReport {
    let goodput = phase.goodput_bits_per_s();
    PhaseReport {
        messages: phase.count,
        bytes: phase.bytes,
        simulated_ns: phase.ns,
        goodput_bits_per_s: goodput,
        share_of_wire: goodput / line_rate as f64,
        latency: phase.latency.percentiles(),
    }
}

impl Summary {
    /// Collects everything.
    pub fn new(
        args: &Args,
        config: &RigConfig,
        rig: &Rig,
        transfer: &Transfer,
        cycles: u64,
        wall_s: f64,
    ) -> Result<Self> {
        let line_rate = rig.sim.fabric().cable(rig.cable).config().rate_bits_per_s;
        Ok(Self {
            command: args.command(),
            seed: args.seed,
            link: args.link.to_string(),
            faults: args.faults.to_string(),
            file: args.file.as_ref().map(|path| path.display().to_string()),
            file_bytes: transfer.writes.bytes as usize,
            digests_match: transfer.matches(),
            sha256: transfer.digests[0]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            write: phase(&transfer.writes, line_rate),
            read: phase(&transfer.reads, line_rate),
            cable: rig.cable_stats(),
            cards: [card(rig, 0)?, card(rig, 1)?],
            line_rate_bits_per_s: line_rate,
            pcie: config.pcie.clone(),
            simulated_cycles: cycles,
            wall_s,
            cycles_per_wall_s: if wall_s > 0.0 { cycles as f64 / wall_s } else { 0.0 },
            traces: Vec::new(),
        })
    }

    /// The same for the folder of the run.
    pub fn run(&self, transfer: &Transfer) -> Run {
        let rate = |phase: &PhaseReport| engineering(phase.goodput_bits_per_s);
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
        let retransmitted: u64 = self.cards.iter().map(|card| card.retransmitted_packets).sum();
        let figures = [("RDMA WRITE", &self.write), ("RDMA READ", &self.read)].map(|(name, phase)| {
            let mut figures = serde_json::to_value(phase).unwrap_or_default();
            figures["operation"] = name.into();
            figures
        });
        let mut run = Run::new("demo", self.command.clone(), self.seed);
        if !transfer.matches() {
            run.ok = false;
            run.messages.push("the digests differ".to_owned());
        }
        Run {
            link: self.link.clone(),
            faults: self.faults.clone(),
            simulated_ns: self.pcie.ns(self.simulated_cycles),
            wall_s: self.wall_s,
            headline: vec![
                Headline::new("WRITE goodput", rate(&self.write), "bit/s"),
                Headline::new("READ goodput", rate(&self.read), "bit/s"),
                Headline::new("WRITE latency, median", us(self.write.latency.p50_ns), "us"),
                Headline::new("packets sent again", retransmitted.to_string(), ""),
            ],
            figures: figures.to_vec(),
            ..run
        }
    }

    /// For people.
    pub fn table(&self, out: &Path) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:<22} {value}");
        };
        let verdict = if self.digests_match { "match" } else { "DIFFER" };
        row("digests", format!("{verdict}, SHA-256 {}", self.sha256));
        for (name, phase) in [("RDMA WRITE", &self.write), ("RDMA READ", &self.read)] {
            row(
                name,
                format!("{} bytes in {} messages", phase.bytes, phase.messages),
            );
            let (goodput, share) = (engineering(phase.goodput_bits_per_s), 100.0 * phase.share_of_wire);
            let wire = engineering(self.line_rate_bits_per_s as f64);
            row(
                "  goodput",
                format!("{goodput}bit/s, {share:.1} % of the {wire}bit/s wire"),
            );
            let us = |ns: u64| format!("{:.1}", ns as f64 / 1000.0);
            let p = &phase.latency;
            row(
                "  latency us",
                format!(
                    "p50 {}  p90 {}  p99 {}  max {}",
                    us(p.p50_ns),
                    us(p.p90_ns),
                    us(p.p99_ns),
                    us(p.max_ns)
                ),
            );
        }
        let packets = |dir: Dir| self.cable.dir(dir).sent_packets;
        row(
            "packets",
            format!("{} to card1, {} to card0", packets(Dir::AToB), packets(Dir::BToA)),
        );
        let retransmitted = self
            .cards
            .iter()
            .map(|card| card.retransmitted_packets)
            .sum::<u64>();
        let timeouts = self.cards.iter().map(|card| card.ack_timeouts).sum::<u64>();
        let naks = self.cards.iter().map(|card| card.naks_sent).sum::<u64>();
        row(
            "retransmissions",
            format!("{retransmitted} packets after {naks} NAKs and {timeouts} timeouts"),
        );
        row("faults injected", faults(&self.cable));
        let simulated_us = self.pcie.ns(self.simulated_cycles) as f64 / 1000.0;
        row(
            "simulated time",
            format!("{simulated_us:.1} us, {} cycles", self.simulated_cycles),
        );
        let speed = engineering(self.cycles_per_wall_s);
        row(
            "simulation speed",
            format!("{speed} cycles per second ({:.1} s)", self.wall_s),
        );
        let p = &self.pcie;
        row(
            "PCIe model",
            format!(
                "{} MB/s, read {} ns, write {} ns, register {} ns, MPS {}, MRRS {}, {} tags",
                p.bandwidth_mbps,
                p.read_latency_ns,
                p.write_latency_ns,
                p.mmio_latency_ns,
                p.max_payload_bytes,
                p.max_read_request_bytes,
                p.max_tags
            ),
        );
        row(
            "artifacts",
            format!(
                "{}/link0.pcap, summary.json, stages.json, latency.svg",
                out.display()
            ),
        );
        for trace in &self.traces {
            row("waveform", trace.to_string());
        }
        text
    }
}

fn card(rig: &Rig, index: usize) -> Result<CardReport> {
    let counters = rig.nodes[index].context.query_counters(1)?;
    Ok(CardReport {
        tx_packets: counters.tx_packets(),
        rx_packets: counters.rx_packets(),
        rx_crc_errors: counters.rx_crc_errors(),
        rx_drops: counters.rx_drops(),
        rx_buffer_drops: counters.rx_buffer_drops(),
        out_of_sequence: counters.out_of_sequence(),
        duplicate_requests: counters.duplicate_requests(),
        naks_sent: counters.naks_sent(),
        rnr_naks_sent: counters.rnr_naks_sent(),
        ack_timeouts: counters.ack_timeouts(),
        retransmitted_packets: counters.retransmitted_packets(),
    })
}

fn faults(cable: &CableStats) -> String {
    let sum = |get: fn(&FaultCounts) -> u64| {
        Dir::ALL
            .iter()
            .map(|dir| get(&cable.dir(*dir).faults))
            .sum::<u64>()
    };
    let counts = [
        ("lost", sum(|f| f.lost)),
        ("duplicated", sum(|f| f.duplicated)),
        ("reordered", sum(|f| f.reordered)),
        ("corrupted", sum(|f| f.corrupted)),
        ("delayed", sum(|f| f.delayed)),
        ("pauses", sum(|f| f.paused)),
    ];
    let named = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"));
    let named = named.collect::<Vec<_>>();
    if named.is_empty() {
        "none".to_owned()
    } else {
        named.join(", ")
    }
}
