//! Two simulated cards joined by a cable, with their drivers, in this thread.

use std::ops::Range;
use std::path::PathBuf;

use hca_cosim::{
    BuiltSwitch, CableId, CardConfig, CardId, Design, Fabric, Flash, Identity, NUM_FUNCS, OpVls, Plug,
    SHARING_FUNCS, SimDevice, SimError, Simulation,
};
use hca_dev::Device;
use hca_host::{Fault, PcieParams};
use hca_link::{CableConfig, CableStats, Dir, FaultSpec, LinkKind, Tap};
use hca_stages::{StageError, StageLog};
use hca_switch::{EthSwitchConfig, IbSwitchConfig};
use hca_timeline::{Timeline, TimelineError};
use hca_verbs::{BadWr, ConnectOptions, OpenOptions, QpCap, RawQp, Service};
use thiserror::Error;

use crate::node::{Dev, Node, connect};
use crate::trace_hash::TraceHash;

/// Work requests that a timeline follows at a time, where nobody asks for their stages.
const TIMELINE_WORK: usize = 1 << 16;

/// What stops a run.
#[derive(Debug, Error)]
pub enum RigError {
    /// The simulator.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// Its observers.
    #[error(transparent)]
    Stages(#[from] StageError),
    /// The same.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// Driver or card.
    #[error(transparent)]
    Verbs(#[from] hca_verbs::Error),
    /// A work request was refused.
    #[error(transparent)]
    Post(#[from] BadWr),
    /// Something did not happen in time.
    #[error("{what} did not happen within {limit_ns} ns of simulated time")]
    Late {
        /// What was waited for.
        what: String,
        /// Bound.
        limit_ns: u64,
    },
    /// Something happened that must not.
    #[error("{0}")]
    Wrong(String),
}

/// A waveform written: its file, and the cycles in it; none where the run ended before its window.
pub type Waveform = (PathBuf, Option<Range<u64>>);

/// A boot program checks two images, and starts one.
const CHECK_CYCLES: u64 = 100_000_000;

/// What a rig is made of.
#[derive(Clone, Debug)]
pub struct RigConfig {
    /// Root seed.
    pub seed: u64,
    /// Personality of both cards' first ports.
    pub link: LinkKind,
    /// What joins the cards' second ports, if they have them.
    pub second: Option<SecondCable>,
    /// Switches between the cards, in a row.
    pub switches: u8,
    /// Rate of each cable.
    pub rate_bits_per_s: u64,
    /// Faults of each cable.
    pub faults: FaultSpec,
    /// What does the work of each card.
    pub designs: [Design; 2],
    /// Host side of both cards.
    pub pcie: PcieParams,
    /// Host side of card 1, where it differs.
    pub other_pcie: Option<PcieParams>,
    /// Cycles that each card's firmware computes between two accesses.
    pub think_cycles: [u64; 2],
    /// Capture at the senders.
    pub capture: Option<PathBuf>,
    /// Waveforms of both cards: folder and window of cycles.
    pub waveforms: Option<(PathBuf, Range<u64>)>,
    /// A timeline of both cards: file and window of cycles.
    pub timeline: Option<(PathBuf, Range<u64>)>,
    /// Record the stages of this many work requests; 0: of none.
    pub stages: usize,
    /// Threads that evaluate the cards; the results are the same with any number.
    pub threads: usize,
    /// What registers hold before reset; the results are the same with any seed of it.
    pub registers: u64,
    /// Completions that each node's CQ holds.
    pub cqe: u32,
    /// Functions that share the tables of a card.
    pub functions: u8,
    /// That of the nodes on each card.
    pub function: u8,
    /// InfiniBand ports wait for a subnet manager.
    pub managed: bool,
    /// Lines that the QPs of a function share; without it each has its own.
    pub lines: Option<u32>,
    /// Function 0 gives its card memory for QPs without a line, where lines are shared.
    pub context_memory: bool,
    /// What card 0's board has kept without power, where firmware runs on the card; without it what all boards have.
    pub flash: Option<Flash>,
}

impl RigConfig {
    /// No faults, default PCIe. As many switches as `HCA_SWITCHES` says, so that every test can be run through some;
    /// without it none. The nodes' function is the one that `HCA_FUNCTION` says, which has as many neighbours as there
    /// can be if it is not one of the first; without it function 0.
    pub fn new(seed: u64, link: LinkKind) -> Self {
        let switches = std::env::var("HCA_SWITCHES").ok();
        let switches = switches.and_then(|text| text.parse().ok()).unwrap_or(0);
        let function = std::env::var("HCA_FUNCTION").ok();
        let function = function.and_then(|text| text.parse().ok()).unwrap_or(0);
        let functions = if function < SHARING_FUNCS {
            SHARING_FUNCS
        } else {
            NUM_FUNCS
        };
        let (faults, pcie) = (FaultSpec::default(), PcieParams::default());
        Self {
            seed,
            link,
            second: None,
            switches,
            rate_bits_per_s: CableConfig::new("", link).rate_bits_per_s,
            faults,
            designs: [Design::chosen(); 2],
            pcie,
            other_pcie: None,
            think_cycles: [CardConfig::probe("").firmware_think_cycles; 2],
            capture: None,
            waveforms: None,
            timeline: None,
            stages: 0,
            threads: 1,
            registers: 0,
            cqe: 4096,
            functions,
            function,
            managed: false,
            context_memory: true,
            lines: None,
            flash: None,
        }
    }
}

/// A cable from second port to second port.
#[derive(Clone, Debug)]
pub struct SecondCable {
    /// Personality of these ports.
    pub link: LinkKind,
    /// Its rate.
    pub rate_bits_per_s: u64,
    /// Its faults.
    pub faults: FaultSpec,
    /// Capture at the senders.
    pub capture: Option<PathBuf>,
}

impl SecondCable {
    /// No faults.
    pub fn new(link: LinkKind) -> Self {
        Self {
            link,
            rate_bits_per_s: CableConfig::new("", link).rate_bits_per_s,
            faults: FaultSpec::default(),
            capture: None,
        }
    }
}

/// Cards 0 and 1.
pub struct Rig {
    /// The simulation; not to be borrowed across calls of the nodes.
    pub sim: Simulation,
    /// The cards.
    pub cards: [CardId; 2],
    /// Card 0 is at end A.
    pub cable: CableId,
    /// All cables on the way from card 0 to card 1; end A is always nearer to card 0.
    pub cables: Vec<CableId>,
    /// The switches on the way.
    pub switches: Vec<BuiltSwitch>,
    /// The cable between the second ports. Card 0 is at end A.
    pub second: Option<CableId>,
    /// Their drivers.
    pub nodes: [Node; 2],
    /// Their function on each card, and how many there are.
    function: u8,
    functions: u8,
    /// Stages of the work requests, if the configuration asks for them.
    pub stages: Option<StageLog>,
    timeline: Option<Timeline>,
    waveforms: Vec<(CardId, PathBuf)>,
    hash: Option<TraceHash>,
}

/// Addresses of the second port of card `index`. Its LID is that of the first one: they are in different subnets.
pub fn second_identity(index: u8, link: LinkKind) -> Identity {
    Identity {
        guid: [0, 0x48, 0x43, 0xff, 0xfe, 0, 1, index + 1],
        mac: [0x02, 0x48, 0x43, 0, 1, index + 1],
        ipv4: [10, 0, 1, index + 1],
        ipv6: [0; 16],
        ..identity(index, link)
    }
}

/// Lays the cable between the second ports.
fn join_second(fabric: &mut Fabric, cards: [CardId; 2], config: &SecondCable) -> Result<CableId, SimError> {
    let cable = CableConfig {
        faults: config.faults,
        rate_bits_per_s: config.rate_bits_per_s,
        ..CableConfig::new("second", config.link)
    };
    let cable = fabric.plug(cards.map(|card| Plug::CardPort(card, 2)), cable)?;
    if let Some(path) = &config.capture {
        fabric.capture(cable, Tap::Sent, path)?;
    }
    Ok(cable)
}

/// Addresses of card `index`, at its first port.
pub fn identity(index: u8, link: LinkKind) -> Identity {
    Identity {
        guid: [0, 0x48, 0x43, 0xff, 0xfe, 0, 0, index + 1],
        mac: [0x02, 0x48, 0x43, 0, 0, index + 1],
        ipv4: [10, 0, 0, index + 1],
        ipv6: [0; 16],
        lid: u16::from(index) + 1,
        infiniband: link == LinkKind::InfiniBand,
        self_active: true,
        peer_vls: OpVls::Fifteen,
        rate_mbps: 100_000,
    }
}

fn mbps(bits_per_s: u64) -> u32 {
    u32::try_from(bits_per_s / 1_000_000).unwrap_or(u32::MAX)
}

/// Lays cables from card 0 over the switches to card 1.
fn join(
    fabric: &mut Fabric,
    cards: [CardId; 2],
    config: &RigConfig,
) -> Result<(Vec<CableId>, Vec<BuiltSwitch>), RigError> {
    /// Ports towards card 0 and card 1.
    const PORTS: [u8; 2] = [1, 2];
    let (mut cables, mut switches) = (Vec::new(), Vec::new());
    let mut before = Plug::Card(cards[0]);
    for index in 0..=config.switches {
        let mut next = Plug::Card(cards[1]);
        if index < config.switches {
            let switch = add_switch(fabric, config.link, &format!("switch{index}"), PORTS)?;
            switches.push(switch);
            next = switch.plug(PORTS[0]);
        }
        let cable = CableConfig {
            faults: config.faults,
            rate_bits_per_s: config.rate_bits_per_s,
            ..CableConfig::new(&format!("link{index}"), config.link)
        };
        cables.push(fabric.plug([before, next], cable)?);
        if let Some(switch) = switches.last() {
            before = switch.plug(PORTS[1]);
        }
    }
    Ok((cables, switches))
}

/// A switch that knows at which of its two ports which card is.
fn add_switch(
    fabric: &mut Fabric,
    link: LinkKind,
    name: &str,
    ports: [u8; 2],
) -> Result<BuiltSwitch, SimError> {
    let cards = [0, 1].map(|card| identity(card, link)).into_iter().zip(ports);
    match link {
        LinkKind::InfiniBand => {
            let id = fabric.add_switch(IbSwitchConfig::new(name, 2))?;
            for (card, port) in cards {
                let tables = fabric.net_mut().switch_mut(id).forwarding_mut();
                tables.set_unicast(card.lid, port)?;
            }
            Ok(BuiltSwitch::InfiniBand(id))
        }
        LinkKind::Ethernet => {
            let id = fabric.add_eth_switch(EthSwitchConfig::new(name, 2))?;
            for (card, port) in cards {
                fabric.net_mut().eth_switch_mut(id).set_address(card.mac, port)?;
            }
            Ok(BuiltSwitch::Ethernet(id))
        }
    }
}

/// Has the cards watched as the configuration asks for it.
fn watch(fabric: &mut Fabric, config: &RigConfig) -> Result<(Option<StageLog>, Option<Timeline>), RigError> {
    let wanted = (config.stages > 0).then_some(config.stages);
    let Some((file, window)) = &config.timeline else {
        let stages = wanted.map(|capacity| StageLog::attach(fabric, capacity));
        return Ok((stages.transpose()?, None));
    };
    let capacity = wanted.unwrap_or(TIMELINE_WORK);
    let (timeline, stages) = Timeline::attach(fabric, file, window.clone(), capacity)?;
    Ok((wanted.map(|_| stages), Some(timeline)))
}

impl Rig {
    /// Builds the fabric and opens function 0 of both cards.
    pub fn new(config: &RigConfig) -> Result<Self, RigError> {
        let mut fabric = Fabric::new(config.seed);
        fabric.set_threads(config.threads);
        fabric.set_registers(config.registers);
        let mut add = |index: u8| {
            let name = format!("card{index}");
            let mut ports = vec![Identity {
                rate_mbps: mbps(config.rate_bits_per_s),
                ..identity(index, config.link)
            }];
            ports.extend(config.second.as_ref().map(|second| Identity {
                rate_mbps: mbps(second.rate_bits_per_s),
                ..second_identity(index, second.link)
            }));
            for port in ports.iter_mut().filter(|port| config.managed && port.infiniband) {
                (port.lid, port.self_active) = (0, false);
            }
            let design = config.designs[usize::from(index)];
            let card = CardConfig::of_design(design, &name, &ports, config.functions, &[]);
            let card = match config.lines {
                Some(lines) => card.share_lines(&ports, config.functions, lines),
                None => card,
            };
            let card = match &config.flash {
                Some(flash) if index == 0 => card.with_flash(flash),
                _ => card,
            };
            fabric.add_card(CardConfig {
                pcie: config
                    .other_pcie
                    .as_ref()
                    .filter(|_| index == 1)
                    .unwrap_or(&config.pcie)
                    .clone(),
                firmware_think_cycles: config.think_cycles[usize::from(index)],
                ..card
            })
        };
        let cards = [add(0)?, add(1)?];
        let (cables, switches) = join(&mut fabric, cards, config)?;
        let cable = cables[0];
        if let Some(path) = &config.capture {
            fabric.capture(cable, Tap::Sent, path)?;
        }
        let second = config.second.as_ref();
        let second = second
            .map(|second| join_second(&mut fabric, cards, second))
            .transpose()?;
        let mut waveforms = Vec::new();
        if let Some((folder, window)) = &config.waveforms {
            for card in cards {
                let path = folder.join(format!("{}.fst", fabric.card(card).name()));
                fabric.card_mut(card).trace_window(&path, window.clone())?;
                waveforms.push((card, path));
            }
        }
        let (stages, timeline) = watch(&mut fabric, config)?;
        if config.flash.is_some() {
            // The driver's patience in simulated time is that for a card that only has to start.
            fabric.run(CHECK_CYCLES);
        }
        let sim = Simulation::new(fabric);
        let open = |card| -> Result<Node, RigError> {
            let options = OpenOptions {
                gives_context_memory: config.context_memory,
                ..OpenOptions::simulated()
            };
            Ok(Node::open_with(
                sim.device(card, config.function)?,
                config.cqe,
                &options,
            )?)
        };
        let nodes = [open(cards[0])?, open(cards[1])?];
        Ok(Self {
            sim,
            cards,
            cable,
            cables,
            switches,
            second,
            nodes,
            function: config.function,
            functions: config.functions,
            stages,
            timeline,
            waveforms,
            hash: None,
        })
    }

    /// Another function of a card: so many behind that of the nodes, as if all but the manager lay in a ring.
    pub fn neighbour(&self, card: usize, step: u8) -> SimDevice {
        let ring = self.functions.max(2) - 1;
        let func = 1 + (self.function + ring - 1 + step) % ring;
        self.sim.device(self.cards[card], func).expect("the card has it")
    }

    /// Makes a QP on each card and connects them.
    pub fn connect(
        &self,
        caps: [QpCap; 2],
        sig_all: [bool; 2],
        options: &ConnectOptions,
    ) -> Result<[RawQp<Dev>; 2], RigError> {
        self.connect_as(Service::Rc, caps, sig_all, options)
    }

    /// The same with QPs of RC or UC.
    pub fn connect_as(
        &self,
        service: Service,
        caps: [QpCap; 2],
        sig_all: [bool; 2],
        options: &ConnectOptions,
    ) -> Result<[RawQp<Dev>; 2], RigError> {
        let [a, b] = &self.nodes;
        let mut qps = [
            a.create_qp_of(service, caps[0], sig_all[0])?,
            b.create_qp_of(service, caps[1], sig_all[1])?,
        ];
        connect(&mut qps, options)?;
        Ok(qps)
    }

    /// Simulated time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.nodes[0].dev.now_ns()
    }

    /// Simulated time in cycles.
    pub fn now_cycles(&self) -> u64 {
        self.sim.fabric().now()
    }

    /// Lets time pass until something may have changed for a host.
    pub fn progress(&mut self) {
        self.nodes[0].dev.progress();
        self.collect_stamps();
    }

    /// Lets `cycles` pass.
    pub fn run(&mut self, cycles: u64) {
        self.sim.fabric().run(cycles);
        self.collect_stamps();
    }

    /// Counts of the cable at card 0.
    pub fn cable_stats(&self) -> CableStats {
        self.sim.fabric().cable(self.cable).stats()
    }

    /// Bytes on the wire in both directions, link overhead included.
    pub fn wire_bytes(&self) -> u64 {
        Dir::ALL
            .iter()
            .map(|dir| self.cable_stats().dir(*dir).wire_bytes)
            .sum()
    }

    /// Writes the captures out.
    pub fn close_captures(&mut self) -> Result<(), RigError> {
        let mut fabric = self.sim.fabric();
        for cable in [Some(self.cable), self.second].into_iter().flatten() {
            fabric.cable_mut(cable).close().map_err(SimError::from)?;
        }
        Ok(())
    }

    /// Ends the waveforms: what has been written. Fails where one had to end early.
    pub fn trace_close(&mut self) -> Result<Vec<Waveform>, RigError> {
        let mut fabric = self.sim.fabric();
        let files = std::mem::take(&mut self.waveforms).into_iter();
        let closed = files.map(|(card, path)| Ok((path, fabric.card_mut(card).trace_close()?)));
        // All of them end, whatever one of them says.
        let closed = closed.collect::<Vec<Result<_, RigError>>>();
        closed.into_iter().collect()
    }

    /// Completes the timeline, if there is one: what is in it.
    pub fn close_timeline(&self) -> Result<Option<hca_timeline::Summary>, RigError> {
        Ok(self.timeline.as_ref().map(Timeline::finish).transpose()?)
    }

    /// Whether cards are left alone while nothing of theirs would change.
    pub fn set_jumps(&mut self, on: bool) {
        self.sim.fabric().set_jumps(on);
    }

    /// From now on every event at the cards' ports goes into a hash: kind, cycle, size and place in the page.
    pub fn hash_traces(&mut self) {
        self.hash = Some(TraceHash::record(&mut self.sim.fabric(), &self.cards));
    }

    /// The hash so far.
    pub fn trace_hash(&self) -> u64 {
        self.hash.as_ref().map_or(0, TraceHash::value)
    }

    fn collect_stamps(&mut self) {
        if let Some(hash) = &mut self.hash {
            hash.collect(&mut self.sim.fabric(), &self.cards);
        }
    }

    /// Lets everything under way end, then checks that the cards are at rest: nothing moves, all tags are home, nobody
    /// touched memory that was not mapped, and no assertion failed.
    pub fn check_idle(&mut self, limit_cycles: u64) -> Result<(), RigError> {
        self.check_rest(limit_cycles, |_| true)
    }

    /// The same beside a function whose memory may have gone under it: what it touched is its own affair.
    pub fn check_idle_beside(&mut self, limit_cycles: u64, func: u8) -> Result<(), RigError> {
        self.check_rest(limit_cycles, |fault| fault.func != func)
    }

    fn check_rest(&mut self, limit_cycles: u64, counts: impl Fn(&Fault) -> bool) -> Result<(), RigError> {
        let end = self.now_cycles() + limit_cycles;
        while self.sim.fabric().is_active() && self.now_cycles() < end {
            self.run(256);
        }
        let mut fabric = self.sim.fabric();
        if fabric.is_active() {
            return Err(RigError::Wrong(format!(
                "a card is still busy {limit_cycles} cycles after the last completion"
            )));
        }
        for card in self.cards {
            let card = fabric.card_mut(card);
            let (name, tags) = (card.name().to_owned(), card.pcie().tags_used());
            if tags != 0 {
                return Err(RigError::Wrong(format!(
                    "{name}: {tags} PCIe tags did not come home"
                )));
            }
            if let Some(fault) = card.host().faults().find(|fault| counts(fault)) {
                return Err(RigError::Wrong(format!(
                    "{name} touched {:#x}, which is not mapped",
                    fault.addr
                )));
            }
            if let Some(violation) = card.violations().first() {
                return Err(RigError::Wrong(violation.clone()));
            }
        }
        Ok(())
    }
}
