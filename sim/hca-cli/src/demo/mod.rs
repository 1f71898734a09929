//! `hca demo`: a file there and back again over two simulated cards.

mod report;
mod transfer;

use anyhow::{Context, Result, bail};
use hca_host::PcieParams;
use hca_link::FaultSpec;
use hca_system_tests::{Rig, RigConfig, Rng};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::files;
use crate::options::{CardOptions, FAULTS_HELP, Link, TimelineArgs, Window, repeat};
use crate::plots;
use crate::rundir;
use crate::stages::{Breakdown, Listing};
use crate::waveforms::{self, TRACE_HELP};
use hca_stages::WorkRecord;
use report::Summary;
use transfer::Transfer;

/// Size of the file that the demo makes itself.
const MADE_BYTES: usize = 16 << 20;
/// Work requests whose stages are kept: more than a file of the largest size is cut into.
const STAGED: usize = 1 << 16;
/// Largest file: three copies of it lie in memory, and each MiB takes some seconds of a real processor.
const FILE_BYTES_MAX: u64 = 1 << 30;

const EXAMPLES: &str = "Examples:
  hca demo
  hca demo --link ib --faults loss=0.01,reorder=0.01 --seed 7
  hca demo --file README.md --trace 60000:65000 --out /tmp/demo
  hca pcap check target/demo/link0.pcap

Artifacts, in target/demo or the folder of --out:
  link0.pcap     every packet as its sender sent it; InfiniBand in ERF records (link type 197), so that
                 Wireshark decodes both kinds of link
  summary.json   every figure, the seed, the faults, and the PCIe model's parameters
  latency.svg    distribution of the time from post to completion
  stages.json    cycle at which each work request reached each stage, at both cards; what the stages are:
                 hca perf --help
  run.json, counters.json    what hca report needs: docs/run-folder.md
  card0.fst, card1.fst   waveforms, with --trace

Exit code: 0 the digests match; 1 they do not, or the transfer failed; 2 the demo could not run.";

/// Options of `hca demo`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// File to send [default: 16 MiB made from the seed]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Personality of both ports
    #[arg(long, value_enum, default_value_t = Link::Eth)]
    link: Link,
    #[arg(long, value_name = "SPEC", default_value = "", hide_default_value = true, help = FAULTS_HELP)]
    faults: FaultSpec,
    /// Decides message sizes, faults and the card's initial registers: the same seed gives the same cycles
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[arg(long, value_name = "FROM:TO", num_args = 0..=1, default_missing_value = ":", help = TRACE_HELP)]
    trace: Option<Window>,
    #[command(flatten)]
    timeline: TimelineArgs,
    #[command(flatten)]
    cards: CardOptions,
    /// Folder for the artifacts
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    out: PathBuf,
}

impl Args {
    /// The command that repeats this run.
    fn command(&self) -> String {
        let file = self
            .file
            .as_ref()
            .map_or(String::new(), |path| format!(" --file {}", path.display()));
        format!("hca demo{file} {}", repeat(self.link, &self.faults, self.seed))
    }
}

/// Runs the demo.
pub fn run(args: &Args) -> Result<ExitCode> {
    let data = data(args.file.as_deref(), args.seed)?;
    args.cards.need_cycles("demo")?;
    args.cards.apply();
    files::make_dir(&args.out)?;
    match crate::simulate(|| transfer_and_report(args, &data)) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => {
            eprintln!("hca: the digests differ; repeat with: {}", args.command());
            Ok(ExitCode::FAILURE)
        }
        Err(error) if error.is::<files::FileError>() => Err(error),
        Err(error) => {
            eprintln!("hca: {error:#}; repeat with: {}", args.command());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn data(file: Option<&Path>, seed: u64) -> Result<Vec<u8>> {
    let Some(path) = file else {
        return Ok(Rng::new(seed, "demo file").bytes(MADE_BYTES));
    };
    let name = path.display();
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
    if !metadata.is_file() {
        bail!("cannot send {name}: it is not a regular file");
    }
    if metadata.len() > FILE_BYTES_MAX {
        bail!(
            "cannot send {name}: it has {} bytes, the limit is {FILE_BYTES_MAX}",
            metadata.len()
        );
    }
    fs::read(path).with_context(|| format!("cannot read {name}"))
}

/// Where the time goes, for each direction of the transfer.
fn breakdowns(records: &[WorkRecord], pcie: &PcieParams) -> Vec<Breakdown> {
    let (reads, others): (Vec<_>, Vec<_>) = records.iter().cloned().partition(WorkRecord::is_read);
    let phases = [("WRITE and SEND", others), ("READ", reads)].into_iter();
    let phases = phases.filter(|(_, records)| !records.is_empty());
    phases
        .map(|(phase, records)| Breakdown::new(phase, &records, 0, pcie))
        .collect()
}

/// True: the digests match.
fn transfer_and_report(args: &Args, data: &[u8]) -> Result<bool> {
    let capture = args.out.join("link0.pcap");
    // Found out here, the reason is clear; inside the simulator it would end the run as a violation.
    files::write(&capture, b"")?;
    let config = RigConfig {
        faults: args.faults,
        switches: 0,
        capture: Some(capture),
        stages: STAGED,
        waveforms: waveforms::config(&args.out, args.trace),
        timeline: args.timeline.wanted(),
        ..RigConfig::new(args.seed, args.link.into())
    };
    let mut rig = Rig::new(&config)?;
    let wall = Instant::now();
    let start_cycle = rig.now_cycles();
    let transfer = Transfer::run(&mut rig, data, args.seed)?;
    let traces = waveforms::end(&mut rig)?;
    rig.close_timeline().map_err(files::FileError::from_display)?;
    let wall_s = wall.elapsed().as_secs_f64();
    rig.close_captures().map_err(files::FileError::from_display)?;
    let cycles = rig.now_cycles() - start_cycle;
    let mut summary = Summary::new(args, &config, &rig, &transfer, cycles, wall_s)?;
    summary.traces = traces;
    let title = format!(
        "Latency from post to completion, {} messages",
        transfer.writes.count + transfer.reads.count
    );
    let series = [
        ("RDMA WRITE", &transfer.writes.latency),
        ("RDMA READ", &transfer.reads.latency),
    ];
    plots::latency(&args.out.join("latency.svg"), &title, &series)?;
    let mut json = serde_json::to_string_pretty(&summary)?;
    json.push('\n');
    files::write(&args.out.join("summary.json"), json.as_bytes())?;
    let mut run = summary.run(&transfer);
    if let Some(log) = &rig.stages {
        let records = log.take();
        let listing = Listing {
            cycle_ps: rig.sim.fabric().card(rig.cards[0]).cycle_ps(),
            counts: log.counts(),
            work_requests: &records,
        };
        let json = serde_json::to_string(&listing)? + "\n";
        files::write(&args.out.join("stages.json"), json.as_bytes())?;
        run.stages = breakdowns(&records, &config.pcie);
    }
    rundir::save(&args.out, &run, Some(&rig))?;
    crate::print(&summary.table(&args.out))?;
    Ok(transfer.matches())
}
