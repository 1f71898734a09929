//! `hca incast`: many cards write to one through a switch, or one reads from many; what congestion control does about
//! it.

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use hca_system_tests::incast::{Incast, Seen, quick_dcqcn, quick_delay};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use crate::curves::{self, Axes, Curve, Spread};

const NS_PER_CYCLE: f64 = 4.0;
/// Looks at the queue that make a point of the plot.
const LOOKS: usize = 25;
const EXAMPLES: &str = "Examples:
  hca incast                                     8 senders, each algorithm: a table, and target/incast/queue.svg
  hca incast --senders 3 --control dcqcn --json
  hca incast --reads                             one card reads from 8

One switch, WRITEs or READs of 4 KiB, 32 of each sender under way. The switch marks from 8 kB on, and pauses a
sender of which it holds 64 kB. Nothing is counted before --settle cycles (of 4 ns); the plot has them, too.";

fn cycles() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000_000)
}

/// Who decides on rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Control {
    /// Nobody: windows and pauses alone
    Off,
    /// Marks, as in DCQCN
    Dcqcn,
    /// Round trips
    Delay,
}

/// Options of `hca incast`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Cards whose data goes to one more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=16))]
    senders: u8,
    /// That one reads it; else they write
    #[arg(long)]
    reads: bool,
    /// Rate of the cables
    #[arg(long, value_name = "GBPS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,
    /// Algorithms; each is run by itself
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Control::Off, Control::Dcqcn, Control::Delay])]
    control: Vec<Control>,
    /// Cycles before anything is counted
    #[arg(long, value_name = "CYCLES", default_value_t = 150_000, value_parser = cycles())]
    settle: u64,
    /// Cycles that count
    #[arg(long, value_name = "CYCLES", default_value_t = 150_000, value_parser = cycles())]
    look: u64,
    /// Decides which packets are marked
    #[arg(long, value_name = "N", default_value_t = 5)]
    seed: u64,
    /// One JSON object per algorithm on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Write a capture of the receiver's cable; of one algorithm only
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Folder for the plot
    #[arg(long, value_name = "DIR", default_value = "target/incast")]
    out: PathBuf,
}

/// Figures of an algorithm.
#[derive(Serialize)]
struct Row {
    control: Control,
    goodput_gbps: f64,
    fairness: f64,
    queue_mean_bytes: f64,
    queue_p99_bytes: u64,
    pauses: u64,
    paused_percent: f64,
    cnps: u64,
}

impl Row {
    fn of(control: Control, seen: &Seen) -> Self {
        Self {
            control,
            goodput_gbps: seen.goodput() * 8.0 / NS_PER_CYCLE,
            fairness: seen.fairness(),
            queue_mean_bytes: seen.queue_mean(),
            queue_p99_bytes: seen.queue_percentile(99),
            pauses: seen.pauses,
            paused_percent: 100.0 * seen.paused,
            cnps: seen.cnps,
        }
    }

    fn line(&self) -> String {
        let control = self.control.to_possible_value();
        format!(
            "{:<8} {:>12.1} {:>9.3} {:>14.0} {:>14} {:>8} {:>9.1} {:>7}\n",
            control.as_ref().map_or("", |value| value.get_name()),
            self.goodput_gbps,
            self.fairness,
            self.queue_mean_bytes,
            self.queue_p99_bytes,
            self.pauses,
            self.paused_percent,
            self.cnps
        )
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    crate::options::CardOptions::default().need_cycles("incast")?;
    if args.pcap.is_some() && args.control.len() != 1 {
        bail!("--pcap is for one algorithm: say which with --control");
    }
    crate::files::make_dir(&args.out)?;
    let found = crate::simulate(|| measure(args))?;
    if !args.json {
        crate::print(&format!(
            "{:<8} {:>12} {:>9} {:>14} {:>14} {:>8} {:>9} {:>7}\n",
            "control",
            "goodput Gb/s",
            "fairness",
            "queue mean B",
            "queue 99 % B",
            "pauses",
            "paused %",
            "CNPs"
        ))?;
    }
    for (control, seen) in &found {
        let row = Row::of(*control, seen);
        let line = if args.json {
            serde_json::to_string(&row)? + "\n"
        } else {
            row.line()
        };
        crate::print(&line)?;
    }
    let plot = args.out.join("queue.svg");
    draw(args, &plot, &found)?;
    eprintln!("plot: {}", plot.display());
    Ok(ExitCode::SUCCESS)
}

/// All algorithms, side by side.
fn measure(args: &Args) -> Result<Vec<(Control, Seen)>> {
    let one = |control: Control| -> Result<(Control, Seen)> {
        let congestion = match control {
            Control::Off => None,
            Control::Dcqcn => Some(quick_dcqcn()),
            Control::Delay => Some(quick_delay()),
        };
        let incast = Incast {
            senders: args.senders,
            reads: args.reads,
            rate_gbps: args.rate,
            congestion,
            settle_cycles: args.settle,
            look_cycles: args.look,
            seed: args.seed,
            capture: args.pcap.clone(),
        };
        Ok((control, incast.run()?))
    };
    thread::scope(|scope| {
        let one = &one;
        let runs = args
            .control
            .iter()
            .map(|control| scope.spawn(move || one(*control)));
        let runs: Vec<_> = runs.collect();
        let ended = runs.into_iter().map(|run| match run.join() {
            Ok(found) => found,
            Err(payload) => std::panic::resume_unwind(payload),
        });
        ended.collect()
    })
}

/// The queue over time, a curve for each algorithm: mean, least and most of a few looks.
fn draw(args: &Args, path: &std::path::Path, found: &[(Control, Seen)]) -> Result<()> {
    let curve = |(control, seen): &(Control, Seen)| -> Result<Curve> {
        let end_us = (args.settle + args.look) as f64 * NS_PER_CYCLE / 1000.0;
        let looks = seen.queue.len().max(1) as f64;
        let points = seen.queue.chunks(LOOKS).enumerate();
        let value = control
            .to_possible_value()
            .ok_or_else(|| anyhow!("an algorithm without a name"))?;
        Ok(Curve {
            name: value.get_name().to_owned(),
            points: points
                .map(|(index, bytes)| {
                    let kilobytes: Vec<f64> = bytes.iter().map(|bytes| *bytes as f64 / 1000.0).collect();
                    ((index * LOOKS) as f64 / looks * end_us, Spread::of(&kilobytes))
                })
                .collect(),
        })
    };
    let curves = found.iter().map(curve).collect::<Result<Vec<_>>>()?;
    let axes = Axes {
        title: format!("{} cards write to one through a switch", args.senders),
        x: "time, microseconds".to_owned(),
        y: "bytes in the switch, kB".to_owned(),
        log_x: false,
        log_y: false,
        labels: Vec::new(),
        sizes: false,
    };
    curves::draw(path, &axes, &curves)
}
