//! `hca soak`: random transfers under random faults, seed after seed.

use anyhow::Result;
use hca_cosim::Design;
use hca_system_tests::scenario::{self, Options};
use hca_system_tests::{shrink, siege};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const EXAMPLES: &str = "Examples:
  hca soak --seeds 100
  hca soak --seeds 1000 --cards model,model    fast cards: hundreds of seeds in a minute
  hca soak --seeds 1 --start 4711       repeat one seed, cycle by cycle
  hca soak --seeds 1 --start 4711 --shrink     what it fails with, and no more

Each seed draws two cards, a link, up to 8 connections, random WRITE, SEND and READ messages, atomics, and which
troubles there are: faults of the cable, slow and stalled hosts, other PCIe links, slow firmware, queues that grow
and QPs that are modified under way, a program beside that destroys, deregisters, dies or is killed. Three of four
have a program that uses some of all services: RC, UC, UD with multicast, XRC, SRQs with limits, windows, atomics of
many QPs at one word, device memory, moderated CQs, and QPs that go through SQD, ERR, RESET, along another path, or
are destroyed, and regions that are deregistered, in the middle of it. Every byte of both hosts' memory, every
completion and event and the cards' state at the end are checked. With --siege the trouble is another function of
each card that means harm (docs/isolation.md), and the connections must not notice.

Exit code: 0 all seeds passed; 1 a seed failed (the command that repeats it is printed).";

/// Options of `hca soak`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Seeds to run
    #[arg(long, value_name = "N")]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    start: u64,
    /// What both cards are made of: rtl, or model, without gates; for example model,rtl [default: as HCA_CARD says, or
    /// else rtl,rtl]
    #[arg(long, value_name = "A,B", value_parser = designs, conflicts_with = "siege")]
    cards: Option<[Design; 2]>,
    /// Sieges instead of scenarios
    #[arg(long, conflicts_with = "switches")]
    siege: bool,
    /// Switches between the cards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=16))]
    switches: Option<u8>,
    /// Parts of what a seed draws to leave away, as --shrink names them
    #[arg(long, value_name = "PART", value_delimiter = ',', conflicts_with = "siege")]
    without: Vec<String>,
    /// Leave parts of a seed that fails away, as long as it fails (a minute for each)
    #[arg(long, conflicts_with = "siege")]
    shrink: bool,
    /// Seeds side by side
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// One JSON object per seed on stdout, as each ends, instead of a sum
    #[arg(long)]
    json: bool,
}

fn designs(text: &str) -> Result<[Design; 2], String> {
    let found = text
        .split_once(',')
        .and_then(|(first, second)| Some([Design::named(first)?, Design::named(second)?]));
    found.ok_or_else(|| format!("'{text}' names no two cards; write rtl,model or model,model"))
}

impl Args {
    /// Runs a seed: bytes, cycles, and all of its figures.
    fn seed(&self, seed: u64) -> Result<(u64, u64, Value), String> {
        if self.siege {
            let report = siege::run(seed).map_err(|failure| failure.to_string())?;
            let figures = json!({
                "seed": seed, "ok": true, "messages": report.messages, "bytes": report.bytes,
                "cycles": report.cycles, "operations": report.tally.operations,
                "command_cycles_max": report.command_cycles_max, "intrusions": report.intrusions,
            });
            return Ok((report.bytes, report.cycles, figures));
        }
        let usual = Options::default();
        let options = Options {
            designs: self.cards.unwrap_or(usual.designs),
            switches: self.switches,
            without: self.without.clone(),
            ..usual
        };
        let report = scenario::run(seed, &options).map_err(|failure| {
            let failure = if self.shrink {
                shrink(failure, &options)
            } else {
                failure
            };
            failure.to_string()
        })?;
        let figures = json!({
            "seed": seed, "ok": true, "pairs": report.pairs, "messages": report.messages,
            "bytes": report.bytes, "cycles": report.cycles, "cable": report.cable,
        });
        Ok((report.bytes, report.cycles, figures))
    }
}

/// Runs them all, also after a failure.
pub fn run(args: &Args) -> Result<ExitCode> {
    // A failed assertion becomes a failure with a seed; the panic's own message would only be noise.
    std::panic::set_hook(Box::new(|_| {}));
    let wall = Instant::now();
    let next = AtomicU64::new(0);
    let totals = Mutex::new((0u64, 0u64, 0u64));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= args.seeds {
                        return;
                    }
                    let seed = args.start.wrapping_add(index);
                    let result = args.seed(seed);
                    if args.json {
                        let failed = |error: &String| json!({"seed": seed, "ok": false, "error": error});
                        let figures = result
                            .as_ref()
                            .map_or_else(failed, |(.., figures)| figures.clone());
                        // A reader that has seen enough is no error.
                        let _ = crate::print(&format!("{figures}\n"));
                    }
                    let mut totals = totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match result {
                        Ok((bytes, cycles, _)) => {
                            totals.0 += bytes;
                            totals.1 += cycles;
                        }
                        Err(failure) => {
                            totals.2 += 1;
                            eprintln!("hca: {failure}");
                        }
                    }
                }
            });
        }
    });
    let _ = std::panic::take_hook();
    let (bytes, cycles, failed) = totals
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let wall_s = wall.elapsed().as_secs_f64();
    let text = format!(
        "{} seeds, {failed} failed; {bytes} bytes, {cycles} cycles, {wall_s:.1} s\n",
        args.seeds
    );
    if !args.json {
        crate::print(&text)?;
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
