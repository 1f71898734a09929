//! How a pair ended, and whose exit code tells of it.

use anyhow::{Error, Result};
use std::ffi::OsString;
use std::time::Instant;

use super::code::{SIGNAL, SIMULATOR_FAILED, TIMED_OUT};
use super::document::{ProgramReport, Verdict, texts};
use super::end::{End, end_descendants};
use super::wait::Cause;

/// One end that has ended.
pub struct Ended {
    pub report: ProgramReport,
    at: Instant,
}

/// Ends those that still run, and whatever programs have left behind. One that was never started is left out.
pub fn finish(ends: &mut [End], words: [&[OsString]; 2]) -> Result<Vec<Ended>> {
    // Before the first is waited for: they may wait for each other.
    ends.iter_mut().for_each(End::kill);
    let ended = (0..).zip(ends).zip(words).map(|((card, end), words)| {
        let (exit_code, wall, at, killed) = end.finish()?;
        let report = ProgramReport {
            name: end.name(),
            command: texts(words),
            card,
            exit_code,
            killed,
            wall_s: wall.as_secs_f64(),
        };
        Ok(Ended { report, at })
    });
    let ended = ended.collect();
    end_descendants();
    ended
}

/// What is to be said of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub exit_code: u8,
    /// For people.
    pub messages: Vec<String>,
}

impl Outcome {
    /// The simulator's failure explains all others; of two programs that fail, the first one explains the other.
    pub fn judge(cause: Cause, ended: &[Ended], broken: Option<&Error>, mut messages: Vec<String>) -> Self {
        let (verdict, exit_code) = match (broken, cause) {
            (Some(error), _) => {
                messages.push(format!("{error:#}"));
                (Verdict::SimulatorFailed, SIMULATOR_FAILED)
            }
            (None, Cause::TimedOut) => (Verdict::TimedOut, TIMED_OUT),
            (None, Cause::Signal(signal)) => (Verdict::Interrupted, SIGNAL.saturating_add(signal)),
            (None, Cause::Ended) => match first_failure(ended) {
                None => (Verdict::Passed, 0),
                Some(code) => (Verdict::Failed, code),
            },
        };
        Self {
            verdict,
            exit_code,
            messages,
        }
    }
}

/// The larger code, if both were seen at once. A program that was killed did not fail first.
fn first_failure(ended: &[Ended]) -> Option<u8> {
    let failed = ended.iter().filter(|ended| ended.report.exit_code != 0);
    let of = |ended: &&Ended| (ended.report.killed, ended.at, u8::MAX - ended.report.exit_code);
    failed.min_by_key(of).map(|ended| ended.report.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ended(exit_code: u8, after_ms: u64, killed: bool, begin: Instant) -> Ended {
        let report = ProgramReport {
            name: "server",
            command: Vec::new(),
            card: 0,
            exit_code,
            killed,
            wall_s: 0.0,
        };
        let at = begin + Duration::from_millis(after_ms);
        Ended { report, at }
    }

    #[test]
    fn the_first_failure_counts() {
        let begin = Instant::now();
        let code = |ends: [(u8, u64, bool); 2]| {
            let ends = ends.map(|(code, after_ms, killed)| ended(code, after_ms, killed, begin));
            first_failure(&ends)
        };
        assert_eq!(code([(0, 0, false), (0, 5, false)]), None);
        assert_eq!(code([(7, 9, false), (1, 5, false)]), Some(1));
        assert_eq!(code([(7, 5, false), (1, 5, false)]), Some(7));
        assert_eq!(code([(137, 5, true), (1, 9, false)]), Some(1));
    }

    #[test]
    fn who_explains_whom() {
        let ends = [ended(1, 0, false, Instant::now())];
        let judge = |cause, broken| Outcome::judge(cause, &ends, broken, Vec::new());
        let error = anyhow::anyhow!("card0 broke");
        let outcome = judge(Cause::TimedOut, Some(&error));
        assert_eq!((outcome.exit_code, outcome.messages.len()), (123, 1));
        assert_eq!(judge(Cause::TimedOut, None).exit_code, 124);
        assert_eq!(judge(Cause::Signal(15), None).exit_code, 143);
        assert_eq!(judge(Cause::Ended, None).exit_code, 1);
    }
}
