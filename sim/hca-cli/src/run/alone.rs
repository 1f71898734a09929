//! One program whose end is waited for.

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::end::{exit_code, not_started};
use crate::report;

/// Time between two looks at the program.
const PERIOD: Duration = Duration::from_millis(10);

/// Runs it, then prints what the simulator's cards saw of it. The exit code is the program's.
pub fn run(mut command: Command, word: &OsString, folder: &Path) -> Result<ExitCode> {
    let (interrupted, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for (signal, flag) in [(SIGINT, &interrupted), (SIGTERM, &stopped), (SIGHUP, &stopped)] {
        signal_hook::flag::register(signal, flag.clone()).context("cannot wait for signals")?;
    }
    let mut child = command.spawn().map_err(|error| not_started(word, error))?;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for the program")? {
            break status;
        }
        // Ctrl-C reaches the program by itself, and it decides; its report is still worth printing.
        if stopped.swap(false, Ordering::Relaxed) {
            child.kill().context("cannot end the program")?;
        }
        std::thread::sleep(PERIOD);
    };
    crate::print(&report::ask(folder)?.to_text())?;
    Ok(ExitCode::from(exit_code(status)))
}
