//! `hca sweep`: the same command with many options, point by point.

mod engine;
mod plan;
mod plot;
mod results;
mod runner;

use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plan::{Plan, Point};
use plot::PlotSpec;
use results::Results;
use runner::Runner;

const EXAMPLES: &str = r#"Examples:
  hca sweep docs/sweeps/write.toml --dry-run
  hca sweep docs/sweeps/write.toml --jobs 2
  hca sweep docs/sweeps/write.toml --plot x=size_bytes,y=goodput_bytes_per_s,series=link+qps,log=x
  hca sweep docs/sweeps/write.toml --slurm job.sh && sbatch job.sh

A file says what is run; docs/sweeps.md has all of it:
  command = "perf"                  perf, qos, demo or soak
  [options]                         the same for all points
  iters = 50
  [grid]                            every combination of these
  size = [64, 4096]
  seed = { from = 1, to = 5 }
  [[zip]]                           these change together
  link = ["eth", "ib"]
  rate = [100, 56]
  [[plot]]                          drawn in the end
  x = "size_bytes"
  y = "goodput_bytes_per_s"
  series = "link"

Results go to DIR/results.jsonl, a line for each point as soon as it has been run; points that are there are not run
again, so that a sweep goes on where it was stopped. A point is known by its command and options: when the file changes,
only points that are new are run.

Exit code: 0 all points ended well; 1 some failed, now or before; 2 the sweep could not run; 130 it was stopped."#;

/// Exit code of a sweep that was stopped.
const EXIT_STOPPED: u8 = 130;

/// Options of `hca sweep`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to run
    file: PathBuf,
    /// Folder of results and plots [default: target/sweep/ and the file's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Points side by side [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// List the points and what is known of each
    #[arg(long, group = "what")]
    dry_run: bool,
    /// With --dry-run: a JSON object per point
    #[arg(long, requires = "dry_run")]
    json: bool,
    /// Run again what has failed
    #[arg(long)]
    retry: bool,
    /// Run again what another build of this program has run
    #[arg(long)]
    rerun: bool,
    /// Plot the results that are there: x=NAME,y=NAME, and perhaps series=NAME+NAME, log=xy, title=TEXT
    #[arg(long, value_name = "SPEC", group = "what")]
    plot: Vec<PlotSpec>,
    /// Run one point, by its number or name, for an engine; its result goes to a file of its own in DIR/parts
    #[arg(long, value_name = "POINT", group = "what")]
    point: Option<String>,
    /// With --point: print the result, and write no file
    #[arg(long, requires = "point")]
    print: bool,
    /// Write a script that runs the points as a job array of Slurm
    #[arg(long, value_name = "SCRIPT", group = "what")]
    slurm: Option<PathBuf>,
    /// Take over the results of --point in a folder
    #[arg(long, value_name = "PARTS", group = "what")]
    merge: Option<PathBuf>,
}

impl Args {
    fn out(&self) -> PathBuf {
        let stem = self.file.file_stem().unwrap_or_default();
        self.out
            .clone()
            .unwrap_or_else(|| Path::new("target/sweep").join(stem))
    }

    /// The point has to be run.
    fn is_due(&self, point: &Point, results: &Results, build: &str) -> bool {
        let Some(known) = results.known().get(&point.id) else {
            return true;
        };
        (self.retry && !known.ok) || (self.rerun && known.build != build)
    }
}

/// Folder with a file for each point that an engine has run.
fn parts(out: &Path) -> PathBuf {
    out.join("parts")
}

/// Runs what is asked for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (plan, out) = (Plan::read(&args.file)?, args.out());
    if let Some(point) = &args.point {
        return one(args, &plan, &out, point);
    }
    let mut results = Results::open(&out.join("results.jsonl"))?;
    if args.dry_run {
        return list(args, &plan, &results);
    }
    if let Some(folder) = &args.merge {
        let new = engine::merge(folder, &plan, &mut results)?;
        crate::print(&format!("{new} new results\n"))?;
        return finish(&plan, &results, &out);
    }
    if !args.plot.is_empty() {
        for spec in &args.plot {
            draw(spec, &plan, &results, &out)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let runner = Runner::new(plan.command, &out)?;
    let due = plan
        .points
        .iter()
        .filter(|point| args.is_due(point, &results, runner.build()));
    let due: Vec<&Point> = due.collect();
    eprint!("{}", introduction(&plan, &results, &due, runner.build()));
    if let Some(script) = &args.slurm {
        if due.is_empty() {
            bail!("all points have been run: there is nothing to be done by Slurm");
        }
        engine::slurm(script, &args.file, &out, &due)?;
        crate::print(&format!("job array: sbatch {}\n", script.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, usize::from);
    let (_, stopped) = runner.run_all(&due, jobs, &mut results)?;
    if stopped {
        eprintln!("hca: stopped; the same command goes on");
        return Ok(ExitCode::from(EXIT_STOPPED));
    }
    finish(&plan, &results, &out)
}

/// What there is, and what a change of the file or of the program means for it.
fn introduction(plan: &Plan, results: &Results, due: &[&Point], build: &str) -> String {
    let ids: BTreeSet<&str> = plan.points.iter().map(|point| point.id.as_str()).collect();
    let (mut there, mut failed, mut gone, mut other) = (0, 0, 0, 0);
    for known in results.known().values() {
        if !ids.contains(known.id.as_str()) {
            gone += 1;
            continue;
        }
        there += 1;
        failed += usize::from(!known.ok);
        other += usize::from(known.build != build);
    }
    // Writing to a String cannot fail.
    let mut text = String::new();
    let _ = writeln!(
        text,
        "hca: {} points, {there} have results, {} to be run",
        plan.points.len(),
        due.len()
    );
    if gone > 0 {
        let _ = writeln!(
            text,
            "hca: the file has changed: {gone} results are of points that it has no more"
        );
    }
    if failed > 0 {
        let _ = writeln!(
            text,
            "hca: {failed} of the results are failures; --retry runs them again"
        );
    }
    if other > 0 {
        let _ = writeln!(
            text,
            "hca: {other} results are another build's; --rerun runs them again"
        );
    }
    text
}

fn list(args: &Args, plan: &Plan, results: &Results) -> Result<ExitCode> {
    let mut text = String::new();
    for point in &plan.points {
        let known = results.known().get(&point.id);
        let state = known.map_or("due", |known| if known.ok { "done" } else { "failed" });
        let command = format!("hca {} {}", plan.command.word(), point.words().join(" "));
        let (index, id) = (point.index, &point.id);
        // Writing to a String cannot fail.
        let _ = if args.json {
            let line = serde_json::json!({ "index": index, "id": id, "state": state, "command": command });
            writeln!(text, "{line}")
        } else {
            writeln!(text, "{index:>6} {id} {state:<6} {command}")
        };
    }
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one point for an engine.
fn one(args: &Args, plan: &Plan, out: &Path, name: &str) -> Result<ExitCode> {
    let by_index = name
        .parse::<usize>()
        .ok()
        .and_then(|index| plan.points.get(index));
    let point = by_index.or_else(|| plan.points.iter().find(|point| point.id == name));
    let Some(point) = point else {
        bail!(
            "no point '{name}': there are 0 to {} (--dry-run lists them)",
            plan.points.len() - 1
        );
    };
    let Some(outcome) = Runner::new(plan.command, out)?.run(point)? else {
        return Ok(ExitCode::from(EXIT_STOPPED));
    };
    let ok = outcome.ok;
    if args.print {
        crate::print(&(serde_json::to_string(&outcome)? + "\n"))?;
    } else {
        Results::open(&parts(out).join(format!("{}.jsonl", point.id)))?.add(outcome)?;
    }
    Ok(ExitCode::from(u8::from(!ok)))
}

/// Plots, and a line about what failed.
fn finish(plan: &Plan, results: &Results, out: &Path) -> Result<ExitCode> {
    let of_plan = plan
        .points
        .iter()
        .filter_map(|point| results.known().get(&point.id));
    let failed = of_plan.clone().filter(|outcome| !outcome.ok).count();
    let there = of_plan.count();
    crate::print(&format!(
        "{there} of {} points have results, {failed} of them failed: {}\n",
        plan.points.len(),
        out.join("results.jsonl").display()
    ))?;
    if there > failed {
        for spec in &plan.plots {
            draw(spec, plan, results, out)?;
        }
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn draw(spec: &PlotSpec, plan: &Plan, results: &Results, out: &Path) -> Result<()> {
    let outcomes = plan
        .points
        .iter()
        .filter_map(|point| results.known().get(&point.id));
    let path = plot::draw(spec, outcomes, out)?;
    crate::print(&format!("plot: {}\n", path.display()))?;
    Ok(())
}
