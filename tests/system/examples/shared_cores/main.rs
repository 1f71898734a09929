//! Shared cores: what simulation speed is left when two programs poll for completions in processes of their own,
//! against the same traffic with both drivers inside the simulator's thread.
//!
//! `cargo run --release -p hca-system-tests --example shared_cores [ROUNDS]`
//!
//! The programs call the C library as any verbs program does, on memory of their own; both poll all the time. Figures
//! are evaluated cycles, of both cards together, per second of wall-clock time, the best of some rounds: the machine
//! may have other work. Behind them, per second of processor time of the simulation's thread: what the way through
//! sockets and other processes' memory costs it. Exit code 1: less than half is left for one kind of traffic.

mod client;
mod inside;
mod outside;

use std::process::ExitCode;

/// What the programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// RDMA WRITEs, many in flight; the other end polls for nothing.
    Write,
    /// SENDs, many in flight; the other end takes them.
    Send,
    /// One SEND at a time, there and back: each end waits for the other.
    PingPong,
}

/// Messages in flight, except of PingPong.
pub const DEPTH: u64 = 16;

impl Traffic {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Write, Self::Send, Self::PingPong];

    /// On the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Send => "send",
            Self::PingPong => "pingpong",
        }
    }

    /// Length of a message.
    pub fn message_bytes(self) -> u32 {
        match self {
            Self::Write => 64 << 10,
            Self::Send => 4 << 10,
            Self::PingPong => 64,
        }
    }

    /// About a second of simulation.
    pub fn messages(self) -> u64 {
        match self {
            Self::Write => 150,
            Self::Send => 2000,
            Self::PingPong => 150,
        }
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Evaluated cycles of both cards.
    pub cycles: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// Processor time of the simulation's thread.
    pub processor_seconds: f64,
}

/// Processor time of this thread so far.
pub fn processor_seconds() -> f64 {
    // SAFETY: an all-zero timespec is a valid one, and is written to.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Run {
    fn rate(self) -> f64 {
        self.cycles as f64 / self.seconds
    }

    fn processor_rate(self) -> f64 {
        self.cycles as f64 / self.processor_seconds
    }
}

fn best(runs: impl Iterator<Item = Run>) -> Run {
    runs.max_by(|a, b| a.rate().total_cmp(&b.rate()))
        .expect("a round at least")
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [role, name] = &words[..] {
        let traffic = Traffic::ALL.into_iter().find(|traffic| traffic.name() == name);
        client::run(role == "1", traffic.expect("the parent knows the names"));
        return ExitCode::SUCCESS;
    }
    let rounds: u32 = words
        .first()
        .map_or(3, |word| word.parse().expect("a number of rounds"));
    println!(
        "                              cycles per second        ratio    cycles per processor second    ratio"
    );
    println!("   traffic      bytes  in-process  two processes               in-process  two processes");
    let mut enough = true;
    for traffic in Traffic::ALL {
        let inside = best((0..rounds).map(|_| inside::run(traffic)));
        let outside = best((0..rounds).map(|_| outside::run(traffic)));
        let ratio = outside.rate() / inside.rate();
        enough &= ratio >= 0.5;
        println!(
            "{:>10} {:>10} {:>10.0}k {:>13.0}k {:>8.2} {:>15.0}k {:>13.0}k {:>8.2}",
            traffic.name(),
            traffic.message_bytes(),
            inside.rate() / 1e3,
            outside.rate() / 1e3,
            ratio,
            inside.processor_rate() / 1e3,
            outside.processor_rate() / 1e3,
            outside.processor_rate() / inside.processor_rate()
        );
    }
    ExitCode::from(u8::from(!enough))
}
