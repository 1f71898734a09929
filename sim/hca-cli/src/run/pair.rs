//! `hca run --pair`: a simulator and both ends in one command.

use anyhow::{Context as _, Result, anyhow, bail};
use hca_cosim::StopHandle;
use hca_meter::Meters;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::command;
use super::end::End;
use super::namespace::{self, Isolation};
use crate::sim::folder::Folder;
use crate::sim::topology::{Network, Topology};

/// Time between two looks at the programs.
const PERIOD: Duration = Duration::from_millis(10);
/// A server that does not listen after this time perhaps never does: the client starts all the same.
const LISTEN_LIMIT: Duration = Duration::from_secs(10);
/// Time that one end has to end after the other has failed.
const ALONE_LIMIT: Duration = Duration::from_secs(10);

/// What the ends shall find beside their cards.
pub struct Options {
    /// What is not the machine's.
    pub isolation: Isolation,
    /// The cards are in /sys and /dev, too.
    pub sysfs: bool,
    /// What the cards saw is printed.
    pub report: bool,
}

/// Runs both ends. The exit code is the larger of theirs.
pub fn run(
    topology: &Topology,
    options: &Options,
    server: &[OsString],
    client: &[OsString],
) -> Result<ExitCode> {
    if let Err(error) = options.isolation.enter() {
        eprintln!(
            "hca: the programs use the machine's network ({error:#}): give those of a second pair at the same time \
             other TCP ports, or they meet these"
        );
    }
    let sysfs = options.sysfs && super::may_show();
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stopped.clone()).context("cannot wait for signals")?;
    }
    let home = tempfile::Builder::new().prefix("hca-pair-").tempdir();
    let home = home.context("cannot make a folder for the simulator's sockets")?;
    // Before the simulator is built: a missing C library shows at once.
    let commands = (
        command(server, home.path(), Some(0))?,
        command(client, home.path(), Some(1))?,
    );
    let meters = options.report.then(Meters::default);
    let simulator = Simulator::start(topology.clone(), home.path(), meters.clone())?;
    let view = sysfs.then_some(home.path());
    let codes = run_ends(
        &stopped,
        || start(view, 0, || End::start("server", commands.0, &server[0])),
        || start(view, 1, || End::start("client", commands.1, &client[0])),
    );
    simulator.stop()?;
    let code = codes?;
    if let Some(meters) = meters {
        crate::print(&meters.report(None).to_text())?;
    }
    Ok(ExitCode::from(code))
}

/// Starts an end; with the simulator's folder, as one that finds its card in /sys. Mounts are a thread's: each end has
/// a thread of its own to be started by.
fn start(view: Option<&Path>, card: u32, end: impl FnOnce() -> Result<End> + Send) -> Result<End> {
    let Some(folder) = view else {
        return end();
    };
    let shown = || {
        match namespace::separate_mounts() {
            Ok(()) => super::show(folder, Some(card)),
            error => super::warn_of_view(&error),
        }
        end()
    };
    std::thread::scope(|scope| scope.spawn(shown).join())
        .unwrap_or_else(|_| Err(anyhow!("the thread that starts a program has panicked")))
}

fn run_ends(
    stopped: &AtomicBool,
    server: impl FnOnce() -> Result<End>,
    client: impl FnOnce() -> Result<End>,
) -> Result<u8> {
    let mut ends = vec![server()?];
    let start = Instant::now();
    while ends[0].exit_code()?.is_none()
        && !ends[0].listens()
        && start.elapsed() < LISTEN_LIMIT
        && !stopped.load(Ordering::Relaxed)
    {
        std::thread::sleep(PERIOD);
    }
    ends.push(client()?);
    let mut failed_at = None;
    loop {
        let codes = [ends[0].exit_code()?, ends[1].exit_code()?];
        if let [Some(server), Some(client)] = codes {
            return Ok(server.max(client));
        }
        if failed_at.is_none() && codes.iter().flatten().any(|code| *code != 0) {
            failed_at = Some(Instant::now());
        }
        let alone = failed_at.is_some_and(|at| at.elapsed() > ALONE_LIMIT);
        if alone || stopped.load(Ordering::Relaxed) {
            if alone {
                let which = if codes[0].is_none() { "server" } else { "client" };
                let limit_s = ALONE_LIMIT.as_secs();
                eprintln!(
                    "hca: the other end failed, and the {which} has not ended {limit_s} s later: killed"
                );
                failed_at = Some(Instant::now());
            }
            ends.iter_mut().for_each(End::kill);
        }
        std::thread::sleep(PERIOD);
    }
}

/// A simulator of two cards, in a thread.
struct Simulator {
    stop: StopHandle,
    thread: JoinHandle<Result<()>>,
}

impl Simulator {
    fn start(topology: Topology, home: &Path, meters: Option<Meters>) -> Result<Self> {
        let folder = Folder::find(Some(home))?;
        let (started, start) = channel();
        let thread = std::thread::spawn(move || {
            let start = || simulate(&topology, &folder, meters.as_ref(), &started);
            crate::simulate(start)
        });
        match start.recv() {
            Ok(stop) => Ok(Self { stop, thread }),
            // It ended before it began, and says why.
            Err(_) => Err(join(thread)
                .err()
                .unwrap_or_else(|| anyhow!("the simulator did not start"))),
        }
    }

    fn stop(self) -> Result<()> {
        self.stop.stop();
        join(self.thread)
    }
}

fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow!("the simulator ended with a panic")))
}

fn simulate(
    topology: &Topology,
    folder: &Folder,
    meters: Option<&Meters>,
    started: &Sender<StopHandle>,
) -> Result<()> {
    let plan = topology.plan(2)?;
    if plan.cards.len() < 2 {
        bail!("--pair needs a topology with two cards");
    }
    let mut network = Network::new(topology, &plan, folder)?;
    if let Some(meters) = meters {
        network.server.observe(meters.observers());
    }
    // Whoever started us waits for it.
    let _ = started.send(network.server.stop_handle());
    network.server.run();
    network.close()
}
