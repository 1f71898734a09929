//! The status line of a running simulator, on a terminal only.

use hca_cosim::ServerStatus;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Cables that the line has room for.
const LINKS_SHOWN: usize = 6;
/// Back to the start of the line, and clear it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// Shows the line until it is dropped.
pub struct StatusLine {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StatusLine {
    /// Starts to show it; without a terminal only what must not go unseen.
    pub fn start(status: Arc<ServerStatus>) -> Self {
        let terminal = io::stderr().is_terminal();
        let (stop, stopped) = channel();
        Self {
            stop: Some(stop),
            thread: Some(std::thread::spawn(move || show(&status, &stopped, terminal))),
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only prints: there is nothing of it to lose.
            let _ = thread.join();
        }
    }
}

fn show(status: &ServerStatus, stopped: &Receiver<()>, terminal: bool) {
    let (mut told, mut told_broken) = (false, false);
    let mut shown = String::new();
    let (mut cycles, mut since) = (status.evaluated_cycles(), Instant::now());
    loop {
        let now = status.evaluated_cycles();
        let rate = (now - cycles) as f64 / since.elapsed().as_secs_f64().max(1e-3);
        (cycles, since) = (now, Instant::now());
        let line = line(status, rate);
        if let Some(deadlock) = status.deadlock()
            && !std::mem::replace(&mut told, true)
        {
            eprintln!("{}hca: {deadlock}", if terminal { CLEAR_LINE } else { "" });
        }
        if let Some(what) = status.broken()
            && !std::mem::replace(&mut told_broken, true)
        {
            let clear = if terminal { CLEAR_LINE } else { "" };
            eprintln!("{clear}hca: {what}; programs on this card are ended, other cards go on");
        }
        tell_faults(status, terminal);
        if terminal && line != shown {
            let mut text = String::from(CLEAR_LINE);
            let _ = write!(text, "{line}");
            // A terminal that is gone needs no status.
            let _ = io::stderr().write_all(text.as_bytes());
            shown = line;
        }
        if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            tell_faults(status, terminal);
            if terminal {
                let _ = io::stderr().write_all(CLEAR_LINE.as_bytes());
            }
            return;
        }
    }
}

/// A line for each access that the IOMMU has refused.
fn tell_faults(status: &ServerStatus, terminal: bool) {
    for text in status.take_fault_texts() {
        eprintln!("{}hca: {text}", if terminal { CLEAR_LINE } else { "" });
    }
}

fn line(status: &ServerStatus, cycles_per_s: f64) -> String {
    let mut line = format!(
        "simulated {:.3} ms | {:.0} k cycles/s | {} packets | {} clients",
        status.now_ns() as f64 / 1e6,
        cycles_per_s / 1e3,
        status.packets(),
        status.clients()
    );
    for wire in status.outsides() {
        let counts = wire.stats().counts();
        let there = if wire.stats().is_connected() {
            ""
        } else {
            " (nobody there)"
        };
        let dropped = counts.dropped_in + counts.dropped_out;
        let _ = write!(
            line,
            " | wire {} out {} in{there}",
            counts.frames_out, counts.frames_in
        );
        if dropped > 0 {
            let _ = write!(line, " {dropped} dropped");
        }
    }
    if status.links().len() > 1 {
        for link in status.links().iter().take(LINKS_SHOWN) {
            let [a, b] = link.packets();
            let _ = write!(line, " | {} {a}+{b}", link.name());
        }
        if status.links().len() > LINKS_SHOWN {
            line += " | ..";
        }
    }
    line
}
