//! The JSON document about a run, and where it goes.

use anyhow::{Context as _, Result};
use hca_meter::SessionReport;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::simulator::Totals;
use crate::files;

/// File name that stands for standard output.
const STDOUT: &str = "-";

/// The document goes to standard output, where the programs' output would disturb it.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Passed,
    Failed,
    TimedOut,
    SimulatorFailed,
    Interrupted,
}

/// One program of two.
#[derive(Debug, Serialize)]
pub struct ProgramReport {
    /// `server` or `client`.
    pub name: &'static str,
    pub command: Vec<String>,
    /// The number of its card.
    pub card: u32,
    /// As a shell tells it: 128 + N for signal N.
    pub exit_code: u8,
    /// hca ended it, because of the other one or of a time limit.
    pub killed: bool,
    pub wall_s: f64,
}

/// All of a run.
#[derive(Serialize)]
pub struct Document {
    /// Of the program and of the card.
    pub version: &'static str,
    pub verdict: Verdict,
    pub exit_code: u8,
    /// What went wrong, for people. Nothing if nothing did.
    pub messages: Vec<String>,
    /// The command that repeats it.
    pub repeat: String,
    pub seed: u64,
    /// Of the cables, as --faults takes them.
    pub faults: String,
    pub wall_s: f64,
    pub simulated_ns: u64,
    /// Of all cards together; in the others they had nothing to do.
    pub evaluated_cycles: u64,
    /// Data packets on all cables.
    pub packets: u64,
    /// Accesses of the cards to memory that was not mapped for them.
    pub memory_faults: u64,
    pub programs: Vec<ProgramReport>,
    #[serde(flatten)]
    pub totals: Totals,
    /// What each process did on its card.
    pub sessions: Vec<SessionReport>,
}

impl Document {
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        if is_stdout(path) {
            crate::print(&text).context("standard output")
        } else {
            files::write(path, text.as_bytes())
        }
    }

    /// When it went wrong: the first error of a work request, or else what was last done.
    pub fn failed_at_ns(&self) -> u64 {
        let qps = || self.sessions.iter().flat_map(|session| &session.qps);
        let error = qps().filter_map(|qp| qp.first_error_ns).min();
        let last = qps().flat_map(|qp| [qp.last_completion_ns, qp.last_packet_ns]);
        error
            .or_else(|| last.flatten().max())
            .unwrap_or(self.simulated_ns)
    }
}

/// Words as a shell reads them.
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a OsString>) -> String {
    let words = words.into_iter().map(|word| {
        let text = word.to_string_lossy();
        let quoted = shlex::try_quote(&text).map(|quoted| quoted.into_owned());
        // Only NUL has no form; and no argument has NUL.
        quoted.unwrap_or_else(|_| text.into_owned())
    });
    words.collect::<Vec<_>>().join(" ")
}

/// This command, as it was given.
pub fn this_command() -> String {
    quoted(&std::env::args_os().collect::<Vec<_>>())
}

/// Words as text.
pub fn texts(words: &[OsString]) -> Vec<String> {
    let text = |word: &OsString| OsStr::to_string_lossy(word).into_owned();
    words.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["hca", "a b", "it's", "--faults=loss=0.1", ""].map(OsString::from);
        let read = shlex::split(&quoted(&words)).unwrap();
        assert_eq!(read, words.map(|word| word.into_string().unwrap()));
    }
}
