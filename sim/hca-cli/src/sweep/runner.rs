//! Runs points: each is a process of its own.

use anyhow::{Context as _, Result};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use super::plan::{Command, Point, Setting};
use super::results::{Outcome, Results};
use crate::progress::Progress;

/// Characters kept of what a failed run said.
const ERROR_CHARS: usize = 2000;

/// How points are run.
pub struct Runner {
    command: Command,
    program: PathBuf,
    build: String,
    /// Folder with a folder for each point's files.
    points: PathBuf,
    stopped: Arc<AtomicBool>,
}

impl Runner {
    /// Runs points with the program that this is.
    pub fn new(command: Command, out: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's file")?;
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, stopped.clone()).context("cannot wait for signals")?;
        }
        Ok(Self {
            command,
            build: fingerprint(&program)?,
            program,
            points: out.join("points"),
            stopped,
        })
    }

    /// Fingerprint of the program.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// Runs a point. None: it was stopped.
    pub fn run(&self, point: &Point) -> Result<Option<Outcome>> {
        let folder = self.points.join(&point.id);
        let words = self.words(point, &folder);
        let start = Instant::now();
        let output = Process::new(&self.program)
            .args(&words)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let wall_s = start.elapsed().as_secs_f64();
        // Ctrl-C reaches it, too.
        if self.stopped.load(Ordering::Relaxed) && !output.status.success() {
            return Ok(None);
        }
        let results = self.figures(&output, &folder);
        let ok = output.status.success() && results.is_ok();
        let error = match &results {
            _ if ok => None,
            Err(error) if output.status.success() => Some(error.to_string()),
            _ => Some(last(&String::from_utf8_lossy(&output.stderr))),
        };
        let mut command = vec!["hca".to_owned(), self.command.word().to_owned()];
        command.extend(point.words());
        Ok(Some(Outcome {
            id: point.id.clone(),
            index: point.index,
            command: command.join(" "),
            options: options(point),
            ok,
            exit_code: output.status.code(),
            error,
            wall_s,
            build: self.build.clone(),
            results: results.unwrap_or_default(),
        }))
    }

    fn words(&self, point: &Point, folder: &Path) -> Vec<String> {
        let mut words = vec![self.command.word().to_owned()];
        words.extend(point.words());
        let folder = folder.display();
        words.extend(match self.command {
            Command::Perf => vec!["--json".to_owned(), format!("--plot={folder}")],
            Command::Qos => vec!["--json".to_owned(), "--jobs=1".to_owned()],
            Command::Demo => vec![format!("--out={folder}")],
            Command::Soak => vec!["--json".to_owned(), "--jobs=1".to_owned()],
        });
        words
    }

    /// What a run measured.
    fn figures(&self, output: &Output, folder: &Path) -> Result<Vec<Value>> {
        if self.command == Command::Demo {
            let path = folder.join("summary.json");
            let text = std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
            return Ok(vec![serde_json::from_str(&text)?]);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let values = lines.map(serde_json::from_str).collect::<Result<Vec<_>, _>>();
        values.context("what it printed is not JSON")
    }

    /// Runs all points, `jobs` side by side, and keeps each result as soon as it is there: how many there were that
    /// failed, and whether it was stopped.
    pub fn run_all(&self, points: &[&Point], jobs: usize, results: &mut Results) -> Result<(usize, bool)> {
        let mut progress = Progress::of_things("points", points.len() as u64, false);
        let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, outcomes) = mpsc::channel();
        let worker = |sender: mpsc::Sender<Result<Option<Outcome>>>| {
            while !self.stopped.load(Ordering::Relaxed) && !given_up.load(Ordering::Relaxed) {
                let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    return;
                };
                if sender.send(self.run(point)).is_err() {
                    return;
                }
            }
        };
        let mut failed = 0;
        std::thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, points.len().max(1)) {
                let sender = sender.clone();
                scope.spawn(|| worker(sender));
            }
            drop(sender);
            for outcome in outcomes {
                let kept = outcome.and_then(|outcome| keep(outcome, results, &progress));
                match kept {
                    Ok(is_bad) => failed += usize::from(is_bad),
                    Err(error) => {
                        given_up.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
                progress.add(1);
            }
            Ok(())
        })?;
        Ok((failed, self.stopped.load(Ordering::Relaxed)))
    }
}

/// Keeps a result; true: of a run that failed.
fn keep(outcome: Option<Outcome>, results: &mut Results, progress: &Progress) -> Result<bool> {
    let Some(outcome) = outcome else {
        return Ok(false);
    };
    let failed = !outcome.ok;
    if failed {
        let error = outcome.error.as_deref().unwrap_or_default();
        let error = error.lines().last().unwrap_or("it said nothing");
        progress.above(|| {
            eprintln!(
                "hca: point {} failed: {} ({error})",
                outcome.index, outcome.command
            )
        });
    }
    results.add(outcome)?;
    Ok(failed)
}

fn json(setting: &Setting) -> Value {
    match setting {
        Setting::Flag(is_set) => Value::Bool(*is_set),
        Setting::Word(word) => match word.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => word.clone().into(),
        },
    }
}

/// The last characters of a text.
fn last(text: &str) -> String {
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(ERROR_CHARS);
    text.chars().skip(skip).collect()
}

/// Tells one build from another.
fn fingerprint(program: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file =
        std::fs::File::open(program).with_context(|| format!("cannot read {}", program.display()))?;
    io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {}", program.display()))?;
    let digest = hash.finalize();
    Ok(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Options as they are in results.
fn options(point: &Point) -> BTreeMap<String, Value> {
    point
        .options
        .iter()
        .map(|(name, value)| (name.clone(), json(value)))
        .collect()
}
