//! The simulated network: cards joined in pairs, or what a topology file says.

use anyhow::{Error, Result, bail};
use hca_cosim::{CableId, CardId, Design, Fabric, Server};
use hca_link::{CableConfig, FaultSpec, Tap};
use hca_outside::{Gateway, PeerAddress, StaticNeighbour, WireConfig};
use hca_timeline::Timeline;
use hca_topology::{CARD_FUNCTIONS_MAX, CARD_PORTS_MAX, Topology as Plan};
use std::path::{Path, PathBuf};

use super::facts::{self, FactsFile};
use super::folder::Folder;
use super::ports::Ports;
use crate::files::{self, FileError};
use crate::options::{FAULTS_HELP, Link, Machine, PEER_HELP, Pcie, PortOption, TimelineArgs, Window};
use crate::waveforms::TRACE_HELP;

/// Where waveforms go.
const TRACE_DIR: &str = "target/sim";

/// Work requests that a timeline follows at a time.
const TIMELINE_WORK: usize = 1 << 16;

/// What a simulated network is made of.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct Topology {
    /// Read cards, switches and links from a file (docs/topologies); the options below it do not say
    #[arg(
        id = "topology",
        long = "topology",
        value_name = "FILE",
        conflicts_with_all = ["ports", "link", "rate", "latency", "faults"]
    )]
    pub file: Option<PathBuf>,
    /// Ports of each card [default: as many as --link names]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CARD_PORTS_MAX.into()))]
    pub ports: Option<u8>,
    /// Functions of each card that are served: its queues, keys and domains are divided among them, so that with 1 a
    /// program has all of them, and with 16 each has 62 QPs [default: that of the file, or 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CARD_FUNCTIONS_MAX.into()))]
    pub functions: Option<u8>,
    /// Personality of the ports, ib,eth for one of each; the last counts for all further ones
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LINK",
        default_value = "eth"
    )]
    pub link: Vec<Link>,
    /// Rate of each cable
    #[arg(long, value_name = "GBPS", default_value_t = 100)]
    pub rate: u64,
    /// Time of a bit from one end of a cable to the other
    #[arg(long, value_name = "NS", default_value_t = 100)]
    pub latency: u64,
    #[arg(long, value_name = "SPEC", default_value = "", hide_default_value = true, help = FAULTS_HELP)]
    pub faults: FaultSpec,
    /// Who sets InfiniBand ports up: the simulator, or a subnet manager among the programs; until that has come they
    /// are in INIT and have no LID
    #[arg(long, value_enum, value_name = "WHO", default_value = "simulator")]
    pub sm: Manager,
    #[command(flatten)]
    pub pcie: Pcie,
    #[command(flatten)]
    pub machine: Machine,
    #[arg(long, value_name = "CARD=PEER", help = PEER_HELP)]
    pub peer: Vec<PortOption<PeerAddress>>,
    /// A neighbour behind a peer that is not asked for, card0=IP,MAC; may be repeated
    #[arg(long, value_name = "CARD=IP,MAC")]
    pub neighbour: Vec<PortOption<StaticNeighbour>>,
    /// The router behind a peer to all other networks, card0=IP or card0=IP/BITS [BITS: 24, IPv6 64]; may be repeated
    #[arg(long, value_name = "CARD=IP")]
    pub gateway: Vec<PortOption<Gateway>>,
    /// Decides faults and the cards' initial registers [default: that of the file, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Capture what is sent; cables after the first write to FILE with their number before the ending
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    #[arg(long, value_name = "FROM:TO", num_args = 0..=1, default_missing_value = ":", help = TRACE_HELP)]
    pub trace: Option<Window>,
    /// Folder for the waveforms, card<N>.fst
    #[arg(long, value_name = "DIR", default_value = TRACE_DIR)]
    pub trace_dir: PathBuf,
    #[command(flatten)]
    pub timeline: TimelineArgs,
}

/// Who sets InfiniBand ports up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Manager {
    /// The simulator, as the topology says.
    #[default]
    Simulator,
    /// A subnet manager among the programs.
    External,
    /// Debian's OpenSM, started on card 0 (of hca sim and hca fabric up).
    Opensm,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            file: None,
            ports: None,
            functions: None,
            link: vec![Link::Eth],
            rate: 100,
            latency: 100,
            faults: FaultSpec::default(),
            sm: Manager::default(),
            pcie: Pcie::default(),
            machine: Machine::default(),
            peer: Vec::new(),
            neighbour: Vec::new(),
            gateway: Vec::new(),
            seed: None,
            pcap: None,
            trace: None,
            trace_dir: TRACE_DIR.into(),
            timeline: TimelineArgs::default(),
        }
    }
}

impl Topology {
    /// Personality of each port of a card.
    pub fn links(&self) -> Result<Vec<Link>> {
        let named = self.link.len();
        let count = self.ports.map_or(named, usize::from);
        if named == 0 || named > count || count > CARD_PORTS_MAX.into() {
            bail!(
                "--link names {named} personalities for {count} ports; a card has at most {CARD_PORTS_MAX}"
            );
        }
        Ok((0..count).map(|port| self.link[port.min(named - 1)]).collect())
    }

    /// Peers, and what is said of them.
    fn lead_outside(&self, plan: &mut Plan, spare: &CableConfig) -> Result<(), String> {
        for PortOption { port, value } in &self.peer {
            let (card, port) = plan.find_port(port)?;
            plan.lead_outside(card, port, WireConfig::new(value.clone()), spare)?;
        }
        for PortOption { port, value } in &self.neighbour {
            plan.peer_of(port)?.neighbours.push(*value);
        }
        for PortOption { port, value } in &self.gateway {
            plan.peer_of(port)?.gateways.push(*value);
        }
        Ok(())
    }

    /// The file's network, or `pairs` cards joined in pairs.
    pub fn plan(&self, pairs: u8) -> Result<Plan> {
        let cable = |link: Link| CableConfig {
            rate_bits_per_s: self.rate.saturating_mul(1_000_000_000),
            latency_ns: self.latency,
            faults: self.faults,
            ..CableConfig::new("link0", link.into())
        };
        let mut plan = match &self.file {
            Some(path) => Plan::read(path).map_err(FileError::from_display)?,
            None => {
                let cables: Vec<_> = self.links()?.into_iter().map(cable).collect();
                Plan::pairs_of(pairs.into(), &cables)?
            }
        };
        for card in &mut plan.cards {
            card.pcie = self.pcie.over(&card.pcie);
            if let Some(functions) = self.functions {
                card.share_among(functions);
            }
        }
        if self.sm != Manager::Simulator {
            plan.wait_for_manager();
        }
        self.lead_outside(&mut plan, &cable(Link::Eth))
            .map_err(Error::msg)?;
        Ok(plan)
    }
}

/// A network behind its sockets.
pub struct Network {
    /// To be run.
    pub server: Server,
    captures: Vec<(CableId, PathBuf)>,
    waveforms: Vec<CardId>,
    timeline: Option<Timeline>,
    _facts: FactsFile,
    _ports: Ports,
}

impl Network {
    /// Builds what the plan says, and serves every function in the folder.
    pub fn new(topology: &Topology, plan: &Plan, folder: &Folder) -> Result<Self> {
        let seed = topology.seed.or(plan.seed).unwrap_or(1);
        topology.machine.cards.apply();
        let mut built = Fabric::from_topology(plan, seed)?;
        let timeline = timeline(&mut built.fabric, &topology.timeline)?;
        built.fabric.set_threads(topology.machine.threads);
        let mut server = Server::new(built.fabric);
        for (number, card) in (0..).zip(built.cards) {
            for func in 0..plan.cards[number as usize].functions {
                let served = server.serve(card, func, &folder.socket(number, func));
                served.map_err(FileError::from_display)?;
            }
        }
        let facts = FactsFile::write(folder.path(), plan)?;
        let ports = Ports::start(folder.path(), &facts::of(plan), server.status())?;
        // After the sockets: these files may be those of a simulator which has them.
        let waveforms = trace(server.fabric(), topology)?;
        let captures = match &topology.pcap {
            Some(path) => capture(server.fabric(), path)?,
            None => Vec::new(),
        };
        Ok(Self {
            server,
            captures,
            waveforms,
            timeline,
            _facts: facts,
            _ports: ports,
        })
    }

    /// Completes the captures and waveforms.
    pub fn close(mut self) -> Result<()> {
        for (cable, path) in &self.captures {
            let closed = self.server.fabric().cable_mut(*cable).close();
            closed.map_err(|error| {
                FileError::from_display(format_args!("cannot complete {}: {error}", path.display()))
            })?;
        }
        for card in self.waveforms {
            let closed = self.server.fabric().card_mut(card).trace_close();
            closed.map_err(FileError::from_display)?;
        }
        if let Some(timeline) = self.timeline {
            timeline.finish().map_err(FileError::from_display)?;
        }
        Ok(())
    }
}

fn timeline(fabric: &mut Fabric, args: &TimelineArgs) -> Result<Option<Timeline>> {
    let Some((file, window)) = args.wanted() else {
        return Ok(None);
    };
    if let Some(card) = fabric
        .cards()
        .find(|card| fabric.card(*card).design() == Design::Model)
    {
        bail!(
            "a timeline shows the cycles of the RTL, and {} is a model without any: leave --timeline or --model away",
            fabric.card(card).name()
        );
    }
    // Stages are nobody's but the timeline's.
    let (timeline, _) =
        Timeline::attach(fabric, &file, window, TIMELINE_WORK).map_err(FileError::from_display)?;
    Ok(Some(timeline))
}

fn trace(fabric: &mut Fabric, topology: &Topology) -> Result<Vec<CardId>> {
    let Some(window) = topology.trace else {
        return Ok(Vec::new());
    };
    files::make_dir(&topology.trace_dir)?;
    for card in fabric.cards() {
        let card = fabric.card_mut(card);
        let path = topology.trace_dir.join(format!("{}.fst", card.name()));
        card.trace_window(&path, window.from..window.to)
            .map_err(FileError::from_display)?;
    }
    Ok(fabric.cards().collect())
}

fn capture(fabric: &mut Fabric, path: &Path) -> Result<Vec<(CableId, PathBuf)>> {
    let mut captures = Vec::new();
    for (index, cable) in fabric.cables().enumerate() {
        let path = capture_path(path, index);
        // Found out here, the reason is clear; inside the simulator it would end the run as a violation.
        files::write(&path, b"")?;
        fabric
            .capture(cable, Tap::Sent, &path)
            .map_err(FileError::from_display)?;
        captures.push((cable, path));
    }
    Ok(captures)
}

/// The first cable's capture has the name given; the others have their number before the ending.
fn capture_path(path: &Path, cable: usize) -> PathBuf {
    if cable == 0 {
        return path.to_owned();
    }
    let ending = path
        .extension()
        .map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{cable}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cable_has_a_capture_of_its_own() {
        let path = |cable| capture_path(Path::new("a/b.pcap"), cable);
        assert_eq!(path(0), Path::new("a/b.pcap"));
        assert_eq!(path(2), Path::new("a/b-2.pcap"));
        assert_eq!(capture_path(Path::new("b"), 1), Path::new("b-1"));
    }
}
