//! What is kept of a run that fails: `--keep`.

use anyhow::{Context as _, Result};
use hca_meter::Report;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::document::{Document, this_command};
use crate::files;
use crate::place;
use crate::sim::topology::Topology;

/// Cycles of waveform on either side of the failure: a fifth of the run so far, within these bounds.
const MARGIN_MIN: u64 = 5_000;
const MARGIN_MAX: u64 = 50_000;
/// A run in which the cards worked for no more cycles than this is recorded from its start. Time goes on while a timer
/// runs and the programs wait for the machine, so the second run of a short one may be over long before that cycle.
const SHORT: u64 = 200_000;
/// Time limit of the second run, if the first had none: waveforms make it slower.
const AGAIN_MIN: Duration = Duration::from_secs(60);
const AGAIN_FACTOR: u32 = 20;
/// Its folder.
const AGAIN: &str = "again";
/// Options with a value that the second run has otherwise.
const REPLACED: [&str; 5] = ["--keep", "--json", "--pcap", "--trace-dir", "--timeout"];

/// The folder, while the run is under way.
pub struct Keep {
    folder: PathBuf,
    /// It was not there before.
    is_new: bool,
}

impl Keep {
    /// Makes it: what is wrong with its place shows before the run.
    pub fn begin(folder: &Path) -> Result<Self> {
        let is_new = !folder.exists();
        files::make_dir(folder)?;
        let keep = Self {
            folder: folder.to_owned(),
            is_new,
        };
        files::write(&keep.file("command.sh"), keep.command().as_bytes())?;
        Ok(keep)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self) -> String {
        let here = std::env::current_dir().unwrap_or_default();
        let here = super::document::quoted(&[here.into_os_string()]);
        format!("#!/bin/sh\ncd {here} &&\n{}\n", this_command())
    }

    /// The network with its packets captured here, unless they are captured already.
    pub fn capture(&self, topology: &Topology) -> Topology {
        Topology {
            pcap: topology.pcap.clone().or(Some(self.file("link.pcap"))),
            ..topology.clone()
        }
    }

    /// Where the output of a program goes, too.
    pub fn log(&self, name: &str) -> Result<File> {
        let path = self.file(&format!("{name}.log"));
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Nothing failed: nothing stays.
    pub fn discard(self) {
        // What cannot be removed does no harm.
        if self.is_new {
            let _ = fs::remove_dir_all(&self.folder);
            return;
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_capture = name.starts_with("link") && name.ends_with(".pcap");
            if is_capture || ["command.sh", "server.log", "client.log"].contains(&&*name) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes what is known, and runs it once more for the waveforms, unless there are some already.
    pub fn complete(
        &self,
        document: &Document,
        cycle_ns: f64,
        limit: Option<Duration>,
        traced: bool,
    ) -> Result<()> {
        document.write(&self.file("report.json"))?;
        let report = Report {
            sessions: document.sessions.clone(),
        };
        let messages: String = document.messages.iter().map(|line| format!("{line}\n")).collect();
        let text = messages + &report.to_text();
        files::write(&self.file("report.txt"), text.as_bytes())?;
        eprintln!(
            "hca: kept in {}: packets, output, counters, and command.sh, which repeats the run",
            self.folder.display()
        );
        if traced {
            return Ok(());
        }
        let cycle = (document.failed_at_ns() as f64 / cycle_ns) as u64;
        let margin = (cycle / 5).clamp(MARGIN_MIN, MARGIN_MAX);
        let from = match document.evaluated_cycles {
            ..=SHORT => 0,
            _ => cycle.saturating_sub(margin),
        };
        let window = format!("{from}:{}", cycle + margin);
        let default = Duration::from_secs_f64(document.wall_s) * AGAIN_FACTOR;
        self.again(&window, limit.unwrap_or(default.max(AGAIN_MIN)))
    }

    /// The same command once more, with waveforms.
    fn again(&self, window: &str, limit: Duration) -> Result<()> {
        let folder = self.file(AGAIN);
        files::make_dir(&folder)?;
        let limit = humantime::format_duration(limit).to_string().replace(' ', "");
        eprintln!("hca: runs it again for the waveforms of cycles {window}, at most {limit}");
        let path = |name: &str| folder.join(name).into_os_string();
        let options: [OsString; 10] = [
            "--trace".into(),
            window.into(),
            "--trace-dir".into(),
            folder.clone().into_os_string(),
            "--pcap".into(),
            path("link.pcap"),
            "--json".into(),
            path("report.json"),
            "--timeout".into(),
            limit.into(),
        ];
        let log = folder.join("output.log");
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let words: Vec<OsString> = std::env::args_os().collect();
        let status = Command::new(place::program()?)
            .args(once_more(&words[1..], &options))
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("copy a descriptor")?)
            .stderr(output)
            .status()
            .context("cannot run it again")?;
        let how = match status.code() {
            Some(0) => "it did not fail this time".to_owned(),
            Some(code) => format!("it failed again, with exit code {code}"),
            None => "it was killed".to_owned(),
        };
        eprintln!("hca: {}: {how}", folder.display());
        Ok(())
    }
}

/// Arguments with other options in front of the programs.
fn once_more(words: &[OsString], options: &[OsString]) -> Vec<OsString> {
    let programs = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut kept = Vec::new();
    let mut given = words[..programs].iter();
    while let Some(word) = given.next() {
        let text = word.to_string_lossy();
        if REPLACED.contains(&&*text) {
            given.next();
        } else if !REPLACED
            .iter()
            .any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
        {
            kept.push(word.clone());
        }
    }
    kept.extend_from_slice(options);
    kept.extend_from_slice(&words[programs..]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_replaced_and_programs_are_not() {
        let words = "run --pair --keep x --json=y --seed 3 -- a --keep b --- c".split(' ');
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let again = once_more(&words, &["--trace".into(), "1:2".into()]);
        let text: Vec<_> = again.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            text.join(" "),
            "run --pair --seed 3 --trace 1:2 -- a --keep b --- c"
        );
    }
}
