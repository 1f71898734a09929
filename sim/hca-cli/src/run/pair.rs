//! `hca run --pair`: a simulator and both ends in one command.

use anyhow::{Context as _, Result, anyhow};
use hca_meter::Meters;
use hca_topology::Topology as Plan;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tempfile::TempDir;

use super::document::{self, Document};
use super::end::{End, Output, adopt_orphans};
use super::hang::{self, Hung};
use super::keep::Keep;
use super::library::Before;
use super::namespace::{self, Isolation};
use super::outcome::{Outcome, finish};
use super::simulator::Simulator;
use super::wait::{Cause, Wait};
use super::{MANAGER_VARIABLE, SHARE_VARIABLE, command};
use crate::files::FileError;
use crate::sim::topology::Topology;

/// What the ends shall find beside their cards, and what shall be said of them.
pub struct Options {
    /// What is not the machine's.
    pub isolation: Isolation,
    /// The cards are in /sys and /dev, too.
    pub sysfs: bool,
    /// Sockets are rsockets.
    pub sockets: bool,
    /// Programs take function 0 of their card.
    pub manager: bool,
    /// Registered memory is shared with the simulator.
    pub share_memory: bool,
    /// What the cards saw is printed.
    pub report: bool,
    /// Where the document goes.
    pub json: Option<PathBuf>,
    /// Both are killed then.
    pub timeout: Option<Duration>,
    /// Where what can explain a failure goes.
    pub keep: Option<PathBuf>,
}

/// The two, in the order of their cards.
pub const NAMES: [&str; 2] = ["server", "client"];

/// A pair before its programs are started.
struct Pair<'a> {
    options: &'a Options,
    words: [&'a [OsString]; 2],
    topology: Topology,
    plan: Plan,
    /// Folder of the simulator's sockets.
    home: TempDir,
    /// /sys and /dev can show the cards.
    sysfs: bool,
    keep: Option<Keep>,
    meters: Meters,
    /// Number of the signal that has come.
    stopped: Arc<AtomicUsize>,
}

/// Runs both ends.
pub fn run(topology: &Topology, options: &Options, words: [&[OsString]; 2]) -> Result<ExitCode> {
    let mut pair = Pair::new(topology, options, words)?;
    // Before the simulator is built: a missing C library shows at once.
    let home = pair.home.path();
    let before = Before {
        sockets: options.sockets,
        asks_kernel: options.sysfs,
    };
    let mut commands = [
        command(words[0], home, Some(0), &before)?,
        command(words[1], home, Some(1), &before)?,
    ];
    let variables = [
        (options.manager, MANAGER_VARIABLE),
        (options.share_memory, SHARE_VARIABLE),
    ];
    for (_, variable) in variables.iter().filter(|(is_set, _)| *is_set) {
        for command in &mut commands {
            command.env(variable, "1");
        }
    }
    pair.keep = options.keep.as_deref().map(Keep::begin).transpose()?;
    if let Some(keep) = &pair.keep {
        pair.topology = keep.capture(topology);
    }
    let simulator = Simulator::start(pair.topology.clone(), home, pair.meters.clone())?;
    let mut wait = Wait::new(&simulator, options.timeout, &pair.stopped);
    let mut ends = Vec::new();
    let cause = pair.run_ends(&mut wait, commands, &mut ends);
    let messages = match (&cause, options.timeout) {
        (Ok(Cause::TimedOut), Some(limit)) => {
            let report = pair.meters.report(None);
            hang::describe(limit, wait.idle(), &pair.hung(&ends), simulator.status(), &report)
        }
        _ => Vec::new(),
    };
    let wall = wait.elapsed();
    let ended = finish(&mut ends, words);
    let status = simulator.status_handle();
    let totals = simulator.stop();
    let (cause, ended) = (cause?, ended?);
    if let Err(error) = &totals
        && error.is::<FileError>()
    {
        return totals.map(|_| ExitCode::FAILURE);
    }
    let outcome = Outcome::judge(cause, &ended, totals.as_ref().err(), messages);
    let document = Document {
        version: env!("CARGO_PKG_VERSION"),
        verdict: outcome.verdict,
        exit_code: outcome.exit_code,
        messages: outcome.messages,
        repeat: document::this_command(),
        seed: pair.topology.seed.or(pair.plan.seed).unwrap_or(1),
        faults: pair.topology.faults.to_string(),
        wall_s: wall.as_secs_f64(),
        simulated_ns: status.now_ns(),
        evaluated_cycles: status.evaluated_cycles(),
        packets: status.packets(),
        memory_faults: status.faults(),
        programs: ended.into_iter().map(|ended| ended.report).collect(),
        totals: totals.unwrap_or_default(),
        sessions: pair.meters.report(None).sessions,
    };
    pair.tell(&document)?;
    Ok(ExitCode::from(document.exit_code))
}

/// Programs that meet by TCP and by the connection manager at one address find both there. Addresses of both families:
/// getaddrinfo(3) says nothing of a family of which no device has one.
fn name_the_cards(plan: &Plan) {
    let ports = plan.cards.iter().flat_map(|card| &card.ports);
    for address in ports.flat_map(|port| [IpAddr::from(port.ipv4), IpAddr::from(port.ipv6)]) {
        if let Err(error) = namespace::loopback_address(address) {
            eprintln!("hca: TCP does not reach the other end at {address}, only at localhost: {error:#}");
        }
    }
}

impl<'a> Pair<'a> {
    fn new(topology: &Topology, options: &'a Options, words: [&'a [OsString]; 2]) -> Result<Self> {
        let plan = topology.plan(2)?;
        match options.isolation.enter() {
            Ok(()) if options.isolation.network => name_the_cards(&plan),
            Ok(()) => {}
            Err(error) => eprintln!(
                "hca: the programs use the machine's network ({error:#}): give those of a second pair at the same \
                 time other TCP ports, or they meet these"
            ),
        }
        adopt_orphans()?;
        let sysfs = options.sysfs && super::may_show();
        let stopped = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let kept = signal_hook::flag::register_usize(signal, stopped.clone(), signal as usize);
            kept.context("cannot wait for signals")?;
        }
        let home = tempfile::Builder::new().prefix("hca-pair-").tempdir();
        let home = home.context("cannot make a folder for the simulator's sockets")?;
        Ok(Self {
            options,
            words,
            topology: topology.clone(),
            plan,
            home,
            sysfs,
            keep: None,
            meters: Meters::default(),
            stopped,
        })
    }

    fn run_ends(&self, wait: &mut Wait<'_>, commands: [Command; 2], ends: &mut Vec<End>) -> Result<Cause> {
        let [server, client] = commands;
        let mut server = self.start(0, server)?;
        let listens = wait.until_it_listens(&mut server);
        ends.push(server);
        listens?;
        ends.push(self.start(1, client)?);
        wait.until_they_end(ends)
    }

    /// Starts an end; with its card in /sys, where that is possible. Mounts are a thread's: each end has a thread of
    /// its own to be started by.
    fn start(&self, card: u32, mut command: Command) -> Result<End> {
        let at = card as usize;
        if self.options.sysfs && !self.sysfs {
            super::lead(&mut command, self.home.path(), Some(card));
        }
        let end = || {
            let log = self.keep.as_ref().map(|keep| keep.log(NAMES[at])).transpose()?;
            let to_stderr = self.options.json.as_deref().is_some_and(document::is_stdout);
            End::start(NAMES[at], command, &self.words[at][0], Output { to_stderr, log })
        };
        if !self.sysfs {
            return end();
        }
        let shown = || {
            match namespace::separate_mounts() {
                Ok(()) => super::show(self.home.path(), Some(card)),
                error => super::warn_of_view(&error),
            }
            end()
        };
        std::thread::scope(|scope| scope.spawn(shown).join())
            .unwrap_or_else(|_| Err(anyhow!("the thread that starts a program has panicked")))
    }

    /// Those that still run.
    fn hung(&self, ends: &[End]) -> Vec<Hung<'_>> {
        let cards = ends.iter().zip(&self.plan.cards);
        let running = cards.filter(|(end, _)| !end.has_ended());
        let hung = running.map(|(end, card)| Hung {
            name: end.name(),
            card: &card.name,
        });
        hung.collect()
    }

    /// Says how it went, wherever somebody wants to know.
    fn tell(self, document: &Document) -> Result<()> {
        for message in &document.messages {
            eprintln!("hca: {message}");
        }
        if self.options.report {
            let text = self.meters.report(None).to_text();
            match self.options.json.as_deref().is_some_and(document::is_stdout) {
                true => eprint!("{text}"),
                false => crate::print(&text)?,
            }
        }
        if let Some(path) = &self.options.json {
            document.write(path)?;
        }
        match self.keep {
            Some(keep) if document.exit_code == 0 => keep.discard(),
            Some(keep) => {
                let clock_mhz = self.plan.cards.first().map_or(1, |card| card.pcie.clock_mhz);
                let cycle_ns = 1e3 / f64::from(clock_mhz);
                let traced = self.topology.trace.is_some();
                keep.complete(document, cycle_ns, self.options.timeout, traced)?;
            }
            None => {}
        }
        Ok(())
    }
}
