//! Progress on stderr: a bar on a terminal, else a plain line now and then.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Plain lines for the whole work.
const PLAIN_LINES: u64 = 4;

/// Work of a known number of bytes, or of things.
pub struct Progress {
    what: String,
    unit: &'static str,
    total_bytes: u64,
    done_bytes: u64,
    next_line: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Starts work that counts bytes. A quiet one prints nothing.
    pub fn new(what: &str, total_bytes: u64, quiet: bool) -> Self {
        let template = "{msg:12} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Self::start(what, "bytes", template, total_bytes, quiet)
    }

    /// Starts work that counts `what`.
    pub fn of_things(what: &'static str, total: u64, quiet: bool) -> Self {
        Self::start(what, what, "{msg:12} {bar:40} {pos}/{len} {eta}", total, quiet)
    }

    fn start(what: &str, unit: &'static str, template: &str, total_bytes: u64, quiet: bool) -> Self {
        let bar = (std::io::stderr().is_terminal() && !quiet).then(|| {
            let style = ProgressStyle::with_template(template);
            let bar = ProgressBar::new(total_bytes);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.with_message(what.to_owned())
        });
        let next_line = if quiet { u64::MAX } else { 1 };
        Self {
            what: what.to_owned(),
            unit,
            total_bytes,
            done_bytes: 0,
            next_line,
            bar,
        }
    }

    /// Prints above the bar, where there is one.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// More is done.
    pub fn add(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done_bytes);
            return;
        }
        let reached = (self.done_bytes * PLAIN_LINES)
            .checked_div(self.total_bytes)
            .unwrap_or(PLAIN_LINES);
        if reached >= self.next_line {
            let percent = (self.done_bytes * 100)
                .checked_div(self.total_bytes)
                .unwrap_or(100);
            eprintln!("{}: {percent} % of {} {}", self.what, self.total_bytes, self.unit);
            self.next_line = reached + 1;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
