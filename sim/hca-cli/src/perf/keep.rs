//! What stays of a measurement: plots, and the folder of `--keep`.

use anyhow::Result;
use std::path::Path;

use super::before::Before;
use super::measure::Bench;
use super::{Args, Figures};
use crate::options::Link;
use crate::plots::{self, engineering};
use crate::rundir::{self, Headline, Run};
use crate::sizes::human;
use crate::stages;

/// Writes what hca report reads.
pub fn keep(folder: &Path, args: &Args, all: &[Figures], bench: Option<&Bench>) -> Result<()> {
    let links = args.link.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut run = Run {
        link: links.join(" and "),
        faults: args.faults.to_string(),
        ..Run::new("perf", rundir::this_command(), args.seed)
    };
    for figures in all {
        run.figures.push(serde_json::to_value(figures)?);
    }
    if let [first, ..] = all {
        let best = |get: fn(&Figures) -> f64| all.iter().map(get).fold(0.0, f64::max);
        let p50 = all
            .iter()
            .map(|f| f.latency_p50_ns)
            .min()
            .unwrap_or(first.latency_p50_ns);
        run.headline = vec![
            Headline::new(
                "goodput, best",
                engineering(best(|f| f.goodput_bytes_per_s)),
                "B/s",
            ),
            Headline::new(
                "message rate, best",
                engineering(best(|f| f.messages_per_s)),
                "/s",
            ),
            Headline::new("latency, least median", p50.to_string(), "ns"),
            Headline::new(
                "of the wire, best",
                format!("{:.1}", best(Figures::wire_percent)),
                "%",
            ),
        ];
    }
    if let Some(bench) = bench {
        (run.simulated_ns, run.wall_s) = bench.times();
    }
    rundir::save(folder, &run, bench.map(Bench::rig))?;
    eprintln!(
        "kept: {}; a page of it: hca report {}",
        folder.display(),
        folder.display()
    );
    Ok(())
}

/// Share of each piece, a bar for each size and phase.
pub fn plot_stages(args: &Args, link: Link, all: &[Figures]) -> Result<()> {
    let mut bars = Vec::new();
    for figures in all {
        for breakdown in figures.stages.iter().flatten() {
            let rows = breakdown.rows.iter();
            let pieces = rows
                .map(|row| (stages::label(&row.span), 100.0 * row.share))
                .collect();
            let (size, us) = (human(figures.size_bytes.into()), breakdown.total_mean_ns / 1000.0);
            bars.push((format!("{size} {}, {us:.2} us", breakdown.phase), pieces));
        }
    }
    let title = format!("Where the time goes: {:?}, {} QPs, {link}", args.op, args.qps);
    let unit = "% of the mean time from doorbell to completion";
    plots::stacked(&args.plot.join("stages.svg"), &title, unit, &bars)
}

/// Figures against the size, those of an earlier run beside them.
pub fn plot(args: &Args, all: &[Figures], before: Option<&Before>) -> Result<()> {
    let lines = |what: &str, get: fn(&Figures) -> f64| {
        let line = |link: &Link| {
            let name = link.to_string();
            let points = all.iter().filter(|f| f.link == name);
            let points = points.map(|f| (f.size_bytes, get(f))).collect::<Vec<_>>();
            (format!("{name}{what}"), points)
        };
        args.link.iter().map(line).collect::<Vec<_>>()
    };
    let title = |what| {
        let op = format!("{:?}", args.op).to_lowercase();
        format!("{what}: {op}, {} QPs, MTU {}, simulated", args.qps, args.mtu)
    };
    let path = |file| args.plot.join(file);
    let earlier = |figure| before.map_or(Vec::new(), |before| before.series(args, figure));
    let mut goodput = lines("", |f| f.goodput_bytes_per_s);
    goodput.extend(earlier("goodput_bytes_per_s"));
    plots::against_size(&path("bandwidth.svg"), &title("Goodput"), "bytes/s", &goodput)?;
    let mut rate = lines("", |f| f.messages_per_s);
    rate.extend(earlier("messages_per_s"));
    plots::against_size(
        &path("message_rate.svg"),
        &title("Message rate"),
        "messages/s",
        &rate,
    )?;
    let mut latency = lines(" p50", |f| f.latency_p50_ns as f64);
    latency.extend(lines(" p99", |f| f.latency_p99_ns as f64));
    latency.extend(earlier("latency_p50_ns"));
    plots::against_size(
        &path("latency.svg"),
        &title("Latency, one message in flight"),
        "ns",
        &latency,
    )?;
    eprintln!(
        "plots: {}/bandwidth.svg, message_rate.svg, latency.svg",
        args.plot.display()
    );
    Ok(())
}
