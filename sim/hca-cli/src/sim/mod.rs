//! `hca sim`: simulated cards that programs in other processes use through sockets.

pub mod control;
pub mod facts;
pub mod folder;
mod manager;
pub mod ports;
mod status;
pub mod topology;

use anyhow::{Context as _, Result, bail};
use hca_cosim::ServerStatus;
use hca_meter::Meters;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use folder::Folder;
use hca_topology::{EndSpec, Topology as Plan};
use manager::OpenSm;
use status::StatusLine;
use topology::{Manager, Network, Topology};

use crate::report;

const EXAMPLES: &str = "Examples:
  hca sim
  hca sim --cards 4 --link ib --pcap target/sim.pcap
  hca sim --ports 2 --link ib,eth       each card with an InfiniBand and an Ethernet port
  hca sim --topology docs/topologies/two-switches.toml
  hca sim --cards 1 --peer card0=/tmp/wire.sock    a wire to QEMU (-netdev stream) or another simulator (docs/peers.md)
  hca sim --model                       cards without gates, for programs that need a fast card (docs/model.md)
  hca run --card 0 -- ibv_devinfo       a program on card 0, from another terminal
  hca info                              what the cards say

Cards are joined in pairs by cables: 0-1, 2-3; a card without a partner has a loopback plug. With --ports 2 a second
cable joins the second ports. A topology file can have switches and any other links. Every function of a card is a
vfio-user socket DIR/card<N>.<F>; a process that connects has the function until it ends. Stop it with Ctrl-C.

DIR is, without --dir, the folder that HCA_SIM names, else $XDG_RUNTIME_DIR/hca, else /tmp/hca-UID.

Exit code: 0 it was stopped; 2 it could not start, or a capture could not be completed.";

/// Numbers of cards that there can be.
fn cards() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=64)
}

/// Options of `hca sim`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Number of cards
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "topology", value_parser = cards())]
    cards: u8,
    #[command(flatten)]
    topology: Topology,
    /// Folder for the sockets
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Simulates until it is stopped.
pub fn run(args: &Args) -> Result<ExitCode> {
    run_managed(args, &[])
}

/// The same; `opensm`: further arguments of OpenSM, if that is to set the network up.
pub fn run_managed(args: &Args, opensm: &[OsString]) -> Result<ExitCode> {
    let is_managed = args.topology.sm == Manager::Opensm;
    if !is_managed && !opensm.is_empty() {
        bail!("what stands behind -- is for opensm: it needs --sm opensm");
    }
    let folder = Folder::find(args.dir.as_deref())?;
    folder.make()?;
    allow_many_descriptors();
    // From here on neither leaves a socket behind. A hang-up is left as it is: nohup ignores it.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let plan = args.topology.plan(args.cards)?;
    let mut network = Network::new(&args.topology, &plan, &folder)?;
    let meters = Meters::default();
    network.server.observe(meters.observers());
    let _report = report::Socket::serve(folder.path(), meters)?;
    let _control = control::Socket::serve(folder.path(), &plan, network.server.calls())?;
    let stop = network.server.stop_handle();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    });
    crate::print(&introduction(args, &plan, &folder))?;
    let status = network.server.status();
    {
        let _manager = is_managed.then(|| OpenSm::start(&folder, opensm)).transpose()?;
        let _line = StatusLine::start(status.clone());
        crate::simulate(|| {
            network.server.run();
            Ok(())
        })?;
    }
    network.close()?;
    let mut text = format!(
        "stopped after {:.3} ms of simulated time, {} packets\n",
        status.now_ns() as f64 / 1e6,
        status.packets()
    );
    if status.faults() != 0 {
        text += &format!(
            "{} accesses to memory that was not mapped for them\n",
            status.faults()
        );
    }
    if args.topology.file.is_some() {
        for (link, status) in plan.links.iter().zip(status.links()) {
            let [a, b] = link.ends.map(|end| plan.end_name(end));
            let [from_a, from_b] = status.packets();
            text += &format!("  {}: {from_a} from {a}, {from_b} from {b}\n", status.name());
        }
    }
    text += &wires(&plan, &status);
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Each client takes descriptors: as many as the system allows this process. Where it allows no more it stays as it is,
/// and a client too many is refused.
fn allow_many_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// A line for each wire that leaves the simulator.
fn wires(plan: &Plan, status: &ServerStatus) -> String {
    let mut text = String::new();
    for (index, wire) in status.outsides().iter().enumerate() {
        let is_its = |link: &&hca_topology::LinkSpec| link.ends.contains(&EndSpec::Outside(index));
        let inner = plan
            .links
            .iter()
            .find(is_its)
            .map(|link| plan.end_name(link.ends[0]));
        let counts: Vec<String> = wire
            .stats()
            .counts()
            .named()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let counts = if counts.is_empty() {
            "no frames".to_owned()
        } else {
            counts.join(", ")
        };
        text += &format!(
            "  {} to {}: {counts}\n",
            inner.unwrap_or_default(),
            wire.address()
        );
    }
    text
}

fn introduction(args: &Args, plan: &Plan, folder: &Folder) -> String {
    let what = match &args.topology.file {
        Some(file) => format!(
            "{}, {} switches, {} links",
            file.display(),
            plan.switches.len(),
            plan.links.len()
        ),
        None => {
            let card = |end| match end {
                EndSpec::Card(card, 1) => card.to_string(),
                EndSpec::Card(card, port) | EndSpec::Switch(card, port) => format!("{card}:{port}"),
                EndSpec::Outside(_) => plan.end_name(end),
            };
            let ends = plan.links.iter().map(|link| link.ends.map(card));
            let cables: Vec<String> = ends.map(|[a, b]| format!("{a}-{b}")).collect();
            let Topology {
                link, rate, latency, ..
            } = &args.topology;
            let links: Vec<String> = link.iter().map(ToString::to_string).collect();
            let links = links.join(",");
            format!("cables {} ({links}, {rate} Gb/s, {latency} ns)", cables.join(" "))
        }
    };
    format!(
        "hca sim: {what}, sockets of {} cards in {}\n",
        plan.cards.len(),
        folder.path().display()
    )
}
