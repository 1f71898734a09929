//! Waits for both ends of a pair.

use anyhow::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::end::End;
use super::simulator::Simulator;

/// Time between two looks at the programs.
const PERIOD: Duration = Duration::from_millis(10);
/// A server that does not listen after this time perhaps never does: the client starts all the same.
const LISTEN_LIMIT: Duration = Duration::from_secs(10);
/// Time that an end has to end after the other one or the simulator has failed.
const ALONE_LIMIT: Duration = Duration::from_secs(10);

/// Why the wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Both have ended; perhaps one was killed because the other had failed.
    Ended,
    TimedOut,
    /// A signal to us.
    Signal(u8),
}

/// What is waited for, and how long.
pub struct Wait<'a> {
    pub simulator: &'a Simulator,
    pub timeout: Option<Duration>,
    /// Number of the signal that has come, or 0.
    pub stopped: &'a AtomicUsize,
    begin: Instant,
    packets: u64,
    last_packet: Instant,
}

impl<'a> Wait<'a> {
    pub fn new(simulator: &'a Simulator, timeout: Option<Duration>, stopped: &'a AtomicUsize) -> Self {
        Self {
            simulator,
            timeout,
            stopped,
            begin: Instant::now(),
            packets: 0,
            last_packet: Instant::now(),
        }
    }

    /// Since the wait began.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Since a packet went out, or since the wait began.
    pub fn idle(&self) -> Duration {
        self.last_packet.elapsed()
    }

    /// Something other than the ends themselves is a reason to stop.
    fn is_over(&self) -> Option<Cause> {
        match self.stopped.load(Ordering::Relaxed) {
            0 => {}
            signal => return Some(Cause::Signal(signal as u8)),
        }
        let is_late = self.timeout.is_some_and(|limit| self.begin.elapsed() >= limit);
        is_late.then_some(Cause::TimedOut)
    }

    fn pause(&mut self) {
        let packets = self.simulator.status().packets();
        if packets != self.packets {
            (self.packets, self.last_packet) = (packets, Instant::now());
        }
        std::thread::sleep(PERIOD);
    }

    /// Until the server listens, or there is no use in waiting for that.
    pub fn until_it_listens(&mut self, server: &mut End) -> Result<()> {
        while server.exit_code(Instant::now())?.is_none()
            && !server.listens()
            && self.begin.elapsed() < LISTEN_LIMIT
            && self.is_over().is_none()
        {
            self.pause();
        }
        Ok(())
    }

    /// Until both have ended. When the limit is over they still run.
    pub fn until_they_end(&mut self, ends: &mut [End]) -> Result<Cause> {
        let mut failed_at = None;
        loop {
            let now = Instant::now();
            let codes: Vec<_> = ends
                .iter_mut()
                .map(|end| end.exit_code(now))
                .collect::<Result<_>>()?;
            if codes.iter().all(Option::is_some) {
                return Ok(Cause::Ended);
            }
            if let Some(cause) = self.is_over() {
                return Ok(cause);
            }
            let has_failed = codes.iter().flatten().any(|code| *code != 0);
            if failed_at.is_none() && (has_failed || self.simulator.has_failed()) {
                failed_at = Some(now);
            }
            if failed_at.is_some_and(|at| at.elapsed() > ALONE_LIMIT) {
                for end in ends.iter_mut().filter(|end| !end.has_ended()) {
                    let limit_s = ALONE_LIMIT.as_secs();
                    let name = end.name();
                    eprintln!(
                        "hca: the other end failed, and the {name} has not ended {limit_s} s later: killed"
                    );
                    end.kill();
                }
                failed_at = Some(now);
            }
            self.pause();
        }
    }
}
