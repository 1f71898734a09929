//! `hca qos`: how two flows share a wire, measured on the RTL, beside the formula of the QoS paper.

mod arbiter;
mod formula;
mod measure;
mod panels;
mod tally;

use anyhow::{Context as _, Result};
use hca_verbs::Mtu;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use crate::progress::Progress;
use crate::rundir::{self, Headline, Run};
use formula::{Policy, Setting};
use measure::Bench;

/// QOS-13: the MTU at which the paper's constant is 2Q.
const MTU: Mtu = Mtu::Bytes2048;
const MTU_BYTES: u32 = 2048;
/// QOS-6: the limits of the six panels.
const PAPER_LIMITS: [u8; 6] = [2, 4, 6, 8, 10, 14];
/// Weights of the high VL: a curve each.
const PAPER_HIGH: [u8; 5] = [16, 32, 64, 128, 250];
/// Weights of the low VL along the x axis.
const PAPER_LOW: [u8; 24] = [
    1, 2, 3, 4, 6, 8, 11, 15, 16, 20, 24, 31, 32, 40, 47, 48, 56, 63, 64, 80, 96, 128, 160, 250,
];

const EXAMPLES: &str = "Examples:
  hca qos --paper                           720 settings, minutes: the table, and six panels in target/qos/panels.svg
  hca qos --point 2,3,2 --json
  hca qos --point 1,16,4 --point 1,16,5 --policy iba
  hca qos --random 200 --seed 7 --within 1

Two flows of 64 KiB WRITEs saturate the wire between two cards: service level 0 on VL 0, which is in the high-priority
table with weight H, and service level 1 on VL 1, in the low-priority table with weight L. Q is the Limit of High
Priority. InfiniBand 4x EDR (100 Gb/s), MTU 2048, PCIe model on. Counted are the bytes of both VLs on the wire, LRH to
VCRC, between turns of the arbiter from high to low, until a packet more or less of either flow does not matter.

The formula: round-quantum (H / L) max(1, floor(2QL / H)), iba max(1, 2Q).

Exit code: 0 done; 1 further off than --within; 2 a measurement that failed.";

/// Options of `hca qos`.
#[derive(clap::Args, Clone)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub struct Args {
    /// Measure the paper's sweep, print its table and draw its six panels
    #[arg(long, group = "what")]
    paper: bool,
    /// Measure one setting: Limit of High Priority, high weight, low weight; may be given again
    #[arg(long, group = "what", value_name = "Q,H,L", value_parser = point)]
    point: Vec<Setting>,
    /// Measure N settings drawn from --seed
    #[arg(long, group = "what", value_name = "N")]
    random: Option<u16>,
    /// The arbiter's rule
    #[arg(long, value_enum, default_value_t = Policy::RoundQuantum)]
    policy: Policy,
    /// One JSON object per setting on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Exit code 1 when a setting is further from the formula than this
    #[arg(long, value_name = "PERCENT")]
    within: Option<f64>,
    /// Rate of the cable; what fills the rings must be faster, or the high VL runs dry
    #[arg(long, value_name = "GBPS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    rate: u64,
    /// Settings measured side by side [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Decides the cards' initial registers, and --random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for the plot and the table of --paper
    #[arg(long, value_name = "DIR", default_value = "target/qos")]
    out: PathBuf,
    /// Keep the run in a folder for hca report: figures and plot (docs/run-folder.md)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

fn point(text: &str) -> Result<Setting, String> {
    let wrong =
        || "Q,H,L: three numbers; Q 0 to 254 (255 is unlimited: the low VL would starve), H and L 1 to 255";
    let numbers = text.split(',').map(|number| number.trim().parse::<u8>());
    let numbers = numbers.collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
    match numbers[..] {
        [q, h, l] if q != formula::UNLIMITED && h > 0 && l > 0 => Ok(Setting { q, h, l }),
        _ => Err(wrong().to_owned()),
    }
}

/// A measured setting.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    #[serde(flatten)]
    setting: Setting,
    policy: Policy,
    ratio: f64,
    formula: f64,
    high_bytes_per_s: f64,
    low_bytes_per_s: f64,
    packets: u64,
    mtu: u32,
}

impl Point {
    fn error_percent(&self) -> f64 {
        (self.ratio / self.formula - 1.0) * 100.0
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    crate::options::CardOptions::default().need_cycles("qos")?;
    if args.paper {
        crate::files::make_dir(&args.out)?;
    }
    let (settings, start) = (settings(args), Instant::now());
    let points = crate::simulate(|| sweep(args, &settings))?;
    if args.paper {
        let plot = args.out.join("panels.svg");
        panels::draw(&plot, &points, args.policy)?;
        let lines = points.iter().map(|p| Ok(serde_json::to_string(p)? + "\n"));
        let lines = lines.collect::<Result<String>>()?;
        let data = args.out.join("points.jsonl");
        crate::files::write(&data, lines.as_bytes())?;
        eprintln!("plot: {}\npoints: {}", plot.display(), data.display());
    }
    if points.len() > 1 {
        let errors = points.iter().map(|point| point.error_percent().abs());
        let (wall_s, worst) = (start.elapsed().as_secs_f64(), errors.fold(0.0, f64::max));
        eprintln!(
            "{} settings in {wall_s:.0} s, at most {worst:.2} % off the formula",
            points.len()
        );
    }
    let off = |point: &&Point| {
        args.within
            .is_some_and(|limit| point.error_percent().abs() > limit)
    };
    let wrong = points.iter().filter(off).count();
    if let Some(folder) = &args.keep {
        keep(folder, args, &points, wrong, start.elapsed().as_secs_f64())?;
    }
    if wrong > 0 {
        eprintln!(
            "hca: {wrong} of {} settings are further from the formula",
            points.len()
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what hca report reads.
fn keep(folder: &Path, args: &Args, points: &[Point], wrong: usize, wall_s: f64) -> Result<()> {
    let mut run = Run {
        ok: wrong == 0,
        link: "ib".to_owned(),
        wall_s,
        ..Run::new("qos", rundir::this_command(), args.seed)
    };
    if wrong > 0 {
        run.messages.push(format!(
            "{wrong} settings are further from the formula than asked for"
        ));
    }
    for point in points {
        run.figures.push(serde_json::to_value(point)?);
    }
    let worst = points.iter().map(|point| point.error_percent().abs());
    let worst = worst.fold(0.0, f64::max);
    run.headline = vec![
        Headline::new("settings", points.len().to_string(), ""),
        Headline::new("furthest from the formula", format!("{worst:.2}"), "%"),
    ];
    if args.paper {
        panels::draw(&folder.join("panels.svg"), points, args.policy)?;
    }
    rundir::save(folder, &run, None)?;
    eprintln!(
        "kept: {}; a page of it: hca report {}",
        folder.display(),
        folder.display()
    );
    Ok(())
}

fn settings(args: &Args) -> Vec<Setting> {
    if let Some(count) = args.random {
        return random(args.seed, usize::from(count));
    }
    if !args.paper {
        return args.point.clone();
    }
    let mut settings = Vec::new();
    for q in PAPER_LIMITS {
        for h in PAPER_HIGH {
            settings.extend(PAPER_LOW.map(|l| Setting { q, h, l }));
        }
    }
    settings
}

/// Settings from a seed (SplitMix64): H and L 1 to 254 alike. Of Q each power of two is as often as the next up to 126,
/// and 127 to 254 seldom: the time that a setting takes grows with it.
fn random(seed: u64, count: usize) -> Vec<Setting> {
    let mut state = seed;
    let mut below = |limit: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit) as u8
    };
    let draw = |_| Setting {
        q: {
            let bits = below(29) / 4;
            (1 << bits) - 1 + below(1 << bits)
        },
        h: 1 + below(254),
        l: 1 + below(254),
    };
    (0..count).map(draw).collect()
}

/// Measures all settings and prints each; every worker has two cards of its own.
fn sweep(args: &Args, settings: &[Setting]) -> Result<Vec<Point>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, usize::from).min(settings.len()).max(1);
    let next = AtomicUsize::new(0);
    let (sender, points) = mpsc::channel();
    let worker = |sender: Sender<(usize, Point)>| -> Result<()> {
        let mut bench = Bench::new(args.seed, MTU, MTU_BYTES, args.rate * 1_000_000_000)?;
        while let Some((index, setting)) = claim(&next, settings) {
            let point = measure(&mut bench, setting, args.policy)
                .with_context(|| format!("Q {} H {} L {}", setting.q, setting.h, setting.l))?;
            if sender.send((index, point)).is_err() {
                break; // The other end has failed, and says why.
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = (0..jobs).map(|_| sender.clone());
        let workers = workers.map(|sender| scope.spawn(|| worker(sender)));
        let workers = workers.collect::<Vec<_>>();
        drop(sender);
        let points = show(args, settings.len(), points);
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(payload) => std::panic::resume_unwind(payload),
            }
        }
        points
    })
}

/// Prints points in the order of their settings, each as soon as those before it are there.
fn show(args: &Args, settings: usize, measured: Receiver<(usize, Point)>) -> Result<Vec<Point>> {
    let mut progress = Progress::of_things("settings", settings as u64, settings < 4);
    let mut early = BTreeMap::new();
    let mut points = Vec::new();
    if !args.json {
        progress.above(|| crate::print(&header()))?;
    }
    for (index, point) in measured {
        early.insert(index, point);
        while let Some(point) = early.remove(&points.len()) {
            let line = if args.json {
                serde_json::to_string(&point)? + "\n"
            } else {
                row(&point)
            };
            progress.above(|| crate::print(&line))?;
            points.push(point);
        }
        progress.add(1);
    }
    Ok(points)
}

fn claim(next: &AtomicUsize, settings: &[Setting]) -> Option<(usize, Setting)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    settings.get(index).map(|setting| (index, *setting))
}

fn measure(bench: &mut Bench, setting: Setting, policy: Policy) -> Result<Point> {
    let window = bench.measure(setting, policy)?;
    let (ratio, total) = (window.ratio(), window.total_bytes_per_s());
    Ok(Point {
        setting,
        policy,
        ratio,
        formula: setting.ratio(policy, bench.mtu_bytes()),
        high_bytes_per_s: total * ratio / (1.0 + ratio),
        low_bytes_per_s: total / (1.0 + ratio),
        packets: window.packets,
        mtu: bench.mtu_bytes(),
    })
}

fn header() -> String {
    format!(
        "{:>4} {:>4} {:>4} {:>10} {:>10} {:>8} {:>11} {:>11} {:>11}\n",
        "Q", "H", "L", "ratio", "formula", "off %", "high GB/s", "low GB/s", "sum GB/s"
    )
}

fn row(point: &Point) -> String {
    let Setting { q, h, l } = point.setting;
    let (high, low) = (point.high_bytes_per_s / 1e9, point.low_bytes_per_s / 1e9);
    format!(
        "{q:>4} {h:>4} {l:>4} {:>10.3} {:>10.3} {:>8.2} {high:>11.3} {low:>11.3} {:>11.3}\n",
        point.ratio,
        point.formula,
        point.error_percent(),
        high + low,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_three_numbers_in_range() {
        assert_eq!(point("2,3,2"), Ok(Setting { q: 2, h: 3, l: 2 }));
        for bad in [
            "", "1,2", "1,2,3,4", "255,1,1", "1,0,1", "1,1,0", "256,1,1", "a,b,c",
        ] {
            assert!(point(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn random_settings_are_in_range_and_repeat() {
        let settings = random(7, 1000);
        assert_eq!(settings, random(7, 1000));
        assert!(
            settings
                .iter()
                .all(|s| s.q < 255 && (1..255).contains(&s.h) && (1..255).contains(&s.l))
        );
        assert!(
            settings.iter().any(|s| s.q > 200)
                && settings.iter().any(|s| s.h > 200)
                && settings.iter().any(|s| s.l < 20)
        );
    }
}
