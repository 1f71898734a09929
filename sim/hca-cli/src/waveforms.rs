//! Waveforms of the two cards of a rig: `--trace` of `hca demo` and `hca perf`.

use anyhow::Result;
use hca_system_tests::Rig;
use serde::Serialize;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::options::Window;

/// Text of `--trace`.
pub const TRACE_HELP: &str =
    "Write waveforms, of the whole run or of a window of cycles: tracing is slow and large";

/// A waveform written.
#[derive(Clone, Debug, Serialize)]
pub struct Waveform {
    file: String,
    /// First and last cycle in it. None: the run ended before the window began.
    cycles: Option<(u64, u64)>,
}

impl fmt::Display for Waveform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cycles {
            Some((first, last)) => write!(f, "{}, cycles {first} to {last}", self.file),
            None => write!(f, "{} is empty: the run ended before the window", self.file),
        }
    }
}

/// What [`hca_system_tests::RigConfig`] wants to know.
pub fn config(folder: &Path, window: Option<Window>) -> Option<(PathBuf, Range<u64>)> {
    window.map(|window| (folder.to_owned(), window.from..window.to))
}

/// Ends the waveforms, if there are any. Fails where one had to end early.
pub fn end(rig: &mut Rig) -> Result<Vec<Waveform>> {
    let ended = rig.trace_close()?.into_iter().map(|(path, cycles)| Waveform {
        file: path.display().to_string(),
        cycles: cycles.map(|cycles| (cycles.start, cycles.end - 1)),
    });
    Ok(ended.collect())
}
