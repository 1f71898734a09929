//! Cables, and what is on them besides cards.

use hca_link::{Cable, CableConfig, Delivery, Dir, LinkKind};

use crate::deadlock::{self, Deadlock, View};
use crate::endpoint::{EthEndpoint, EthEndpointConfig, IbEndpoint, IbEndpointConfig};
use crate::eth::port::EthEnd;
use crate::eth::switch::{EthSwitch, EthSwitchConfig};
use crate::ib::config::IbSwitchConfig;
use crate::ib::link::Wire;
use crate::ib::switch::IbSwitch;
use crate::{PortCounters, SwitchError};

/// Cycles between two looks for a deadlock; one that is younger is not reported.
const DEADLOCK_CYCLES: u64 = 32_768;
/// A card gives up a link whose other end has gone after 2^20 cycles: as long as this time passes by itself when a
/// cable is pulled or plugged in.
const SETTLE_CYCLES: u64 = (1 << 20) + (1 << 17);
/// A switch that is restarted is away for so long that everybody has given it up.
const RESTART_CYCLES: u64 = SETTLE_CYCLES;

/// An InfiniBand switch of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub(crate) usize);

impl SwitchId {
    /// Its place among the InfiniBand switches, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A traffic endpoint on InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) usize);

/// An Ethernet switch of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EthSwitchId(pub(crate) usize);

impl EthSwitchId {
    /// Its place among the Ethernet switches, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A traffic endpoint on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EthEndpointId(pub(crate) usize);

/// A cable of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// What an end of a cable is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEndAt {
    /// A card, which the owner of the network drives: it streams its packets beat by beat. Whether it has InfiniBand
    /// flow control shows with its first flow control packet; until then it is sent to without limit, and what it
    /// sends finds room.
    Card {
        /// Data VLs of its port.
        data_vls: u8,
    },
    /// A port of an InfiniBand switch, numbered from 1.
    Switch(SwitchId, u8),
    /// A port of an Ethernet switch.
    EthSwitch(EthSwitchId, u8),
    /// A traffic endpoint on InfiniBand.
    Endpoint(EndpointId),
    /// A traffic endpoint on Ethernet.
    EthEndpoint(EthEndpointId),
}

/// Sees a switch after each cycle in which it had something to do. Can change nothing.
pub trait SwitchObserver {
    /// An InfiniBand switch.
    fn ib_switch(&mut self, now: u64, id: SwitchId, switch: &IbSwitch);
    /// An Ethernet switch.
    fn eth_switch(&mut self, now: u64, id: EthSwitchId, switch: &EthSwitch);
}

/// Cables, switches and endpoints in one simulated time.
#[derive(Default)]
pub struct Net {
    cables: Vec<Cable>,
    ends: Vec<[LinkEndAt; 2]>,
    switches: Vec<IbSwitch>,
    endpoints: Vec<IbEndpoint>,
    eth_switches: Vec<EthSwitch>,
    eth_endpoints: Vec<EthEndpoint>,
    cycle_ps: Option<u64>,
    now: u64,
    /// When to look for a deadlock next.
    look_at: u64,
    /// Until then time passes though nothing moves.
    settles_at: u64,
    deadlock: Option<Deadlock>,
    observer: Option<Box<dyn SwitchObserver>>,
}

impl Net {
    /// An empty network.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an InfiniBand switch.
    pub fn add_ib_switch(&mut self, config: IbSwitchConfig) -> Result<SwitchId, SwitchError> {
        self.switches.push(IbSwitch::new(config)?);
        Ok(SwitchId(self.switches.len() - 1))
    }

    /// Adds an Ethernet switch.
    pub fn add_eth_switch(&mut self, config: EthSwitchConfig) -> Result<EthSwitchId, SwitchError> {
        self.eth_switches.push(EthSwitch::new(config)?);
        Ok(EthSwitchId(self.eth_switches.len() - 1))
    }

    /// Adds a traffic endpoint on Ethernet.
    pub fn add_eth_endpoint(&mut self, config: EthEndpointConfig) -> Result<EthEndpointId, SwitchError> {
        self.eth_endpoints.push(EthEndpoint::new(config)?);
        Ok(EthEndpointId(self.eth_endpoints.len() - 1))
    }

    /// Adds a traffic endpoint on InfiniBand.
    pub fn add_ib_endpoint(&mut self, config: IbEndpointConfig) -> Result<EndpointId, SwitchError> {
        self.endpoints.push(IbEndpoint::new(config)?);
        Ok(EndpointId(self.endpoints.len() - 1))
    }

    /// Plugs in a cable, end A first. Packets are handed out whole at switches and endpoints, beat by beat at cards.
    pub fn connect(&mut self, ends: [LinkEndAt; 2], config: CableConfig) -> Result<LinkId, SwitchError> {
        let cycle_ps = *self.cycle_ps.get_or_insert(config.cycle_ps);
        if cycle_ps != config.cycle_ps {
            let (cable, found_ps) = (config.name, config.cycle_ps);
            return Err(SwitchError::Clock {
                cable,
                found_ps,
                cycle_ps,
            });
        }
        for end in ends {
            self.check_end(end, &config)?;
        }
        let cable = self.cables.len();
        let mut made = Cable::new(config)?;
        for (end, tx) in ends.into_iter().zip(Dir::ALL) {
            let delivery = match end {
                LinkEndAt::Card { .. } => Delivery::FirstBeat,
                _ => Delivery::LastBit,
            };
            made.set_delivery(tx.reverse(), delivery);
        }
        self.cables.push(made);
        self.ends.push(ends);
        for (index, tx) in Dir::ALL.into_iter().enumerate() {
            self.attach(ends[index], ends[1 - index], cable, tx)?;
        }
        Ok(LinkId(cable))
    }

    /// Tells an end of its cable, and what it has in common with the other.
    fn attach(&mut self, end: LinkEndAt, peer: LinkEndAt, cable: usize, tx: Dir) -> Result<(), SwitchError> {
        let wire = Wire {
            cable,
            tx,
            op_vls: self.data_vls(end).min(self.data_vls(peer)),
            packet_blocks: self.packet_blocks(end).min(self.packet_blocks(peer)),
            peer_has_credits: !matches!(peer, LinkEndAt::Card { .. }),
        };
        // A locally administered address that tells the ends of all cables apart.
        let [high, low] = (cable as u16).to_be_bytes();
        let mac = [0x06, 0, 0, high, low, tx as u8];
        let eth_end = |pfc| EthEnd::new(pfc, cable, tx, &self.cables, mac);
        match end {
            LinkEndAt::Card { .. } => {}
            LinkEndAt::Switch(id, port) => self.switches[id.0].attach(port, wire)?,
            LinkEndAt::Endpoint(id) => self.endpoints[id.0].attach(wire),
            LinkEndAt::EthSwitch(id, port) => self.eth_switches[id.0].attach(port, eth_end)?,
            LinkEndAt::EthEndpoint(id) => self.eth_endpoints[id.0].attach(eth_end),
        }
        Ok(())
    }

    fn check_end(&self, end: LinkEndAt, config: &CableConfig) -> Result<(), SwitchError> {
        let (name, taken, kind) = match end {
            LinkEndAt::Card { .. } => return Ok(()),
            LinkEndAt::Switch(id, port) => {
                let switch = &self.switches[id.0];
                let name = format!("switch {} port {port}", switch.name());
                (name, switch.is_taken(port)?, LinkKind::InfiniBand)
            }
            LinkEndAt::Endpoint(id) => {
                let endpoint = &self.endpoints[id.0];
                let name = format!("endpoint {}", endpoint.name());
                (name, endpoint.is_taken(), LinkKind::InfiniBand)
            }
            LinkEndAt::EthSwitch(id, port) => {
                let switch = &self.eth_switches[id.0];
                let name = format!("switch {} port {port}", switch.name());
                (name, switch.is_taken(port)?, LinkKind::Ethernet)
            }
            LinkEndAt::EthEndpoint(id) => {
                let endpoint = &self.eth_endpoints[id.0];
                let name = format!("endpoint {}", endpoint.name());
                (name, endpoint.is_taken(), LinkKind::Ethernet)
            }
        };
        if taken {
            return Err(SwitchError::PortTaken(name));
        }
        if kind != config.kind {
            let (cable, kind) = (config.name.clone(), config.kind);
            return Err(SwitchError::Kind { cable, kind, name });
        }
        Ok(())
    }

    fn data_vls(&self, end: LinkEndAt) -> u8 {
        match end {
            LinkEndAt::Card { data_vls } => data_vls.clamp(1, 15),
            LinkEndAt::Switch(id, _) => self.switches[id.0].config().data_vls,
            LinkEndAt::Endpoint(id) => self.endpoints[id.0].config().data_vls,
            LinkEndAt::EthSwitch(..) | LinkEndAt::EthEndpoint(_) => 1,
        }
    }

    fn packet_blocks(&self, end: LinkEndAt) -> u16 {
        match end {
            LinkEndAt::Card { .. } | LinkEndAt::EthSwitch(..) | LinkEndAt::EthEndpoint(_) => u16::MAX,
            LinkEndAt::Switch(id, _) => self.switches[id.0].config().link().packet_blocks(),
            LinkEndAt::Endpoint(id) => self.endpoints[id.0].config().link().packet_blocks(),
        }
    }

    /// An InfiniBand switch.
    pub fn switch(&self, id: SwitchId) -> &IbSwitch {
        &self.switches[id.0]
    }

    /// An InfiniBand switch, to set its tables.
    pub fn switch_mut(&mut self, id: SwitchId) -> &mut IbSwitch {
        &mut self.switches[id.0]
    }

    /// All InfiniBand switches.
    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId)
    }

    /// An endpoint on InfiniBand.
    pub fn endpoint(&self, id: EndpointId) -> &IbEndpoint {
        &self.endpoints[id.0]
    }

    /// An Ethernet switch.
    pub fn eth_switch(&self, id: EthSwitchId) -> &EthSwitch {
        &self.eth_switches[id.0]
    }

    /// An Ethernet switch, to set its addresses.
    pub fn eth_switch_mut(&mut self, id: EthSwitchId) -> &mut EthSwitch {
        &mut self.eth_switches[id.0]
    }

    /// All Ethernet switches.
    pub fn eth_switches(&self) -> impl Iterator<Item = EthSwitchId> + use<> {
        (0..self.eth_switches.len()).map(EthSwitchId)
    }

    /// An endpoint on Ethernet.
    pub fn eth_endpoint(&self, id: EthEndpointId) -> &EthEndpoint {
        &self.eth_endpoints[id.0]
    }

    /// All endpoints on Ethernet.
    pub fn eth_endpoints(&self) -> impl Iterator<Item = EthEndpointId> + use<> {
        (0..self.eth_endpoints.len()).map(EthEndpointId)
    }

    /// Keeps an endpoint from taking anything in of a priority until a cycle.
    pub fn stall_eth_endpoint(&mut self, id: EthEndpointId, priority: u8, until: u64) {
        self.eth_endpoints[id.0].stall(priority, until);
    }

    /// Keeps an endpoint from taking anything in on a VL until a cycle.
    pub fn stall_endpoint(&mut self, id: EndpointId, vl: u8, until: u64) {
        self.endpoints[id.0].stall(vl, until);
    }

    /// All endpoints on InfiniBand.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> + use<> {
        (0..self.endpoints.len()).map(EndpointId)
    }

    /// All cables, in the order in which they were plugged in.
    #[inline]
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// Pulls a cable out, or plugs it in again. Ends that are cards have the time to see it.
    pub fn plug(&mut self, link: LinkId, is_plugged: bool) {
        self.cables[link.0].plug(is_plugged);
        self.settles_at = self.now + SETTLE_CYCLES;
    }

    /// Switches an InfiniBand switch off, and on again a little later.
    pub fn restart(&mut self, id: SwitchId) {
        let until = self.now + RESTART_CYCLES;
        self.switches[id.0].restart(self.now, until);
        self.settles_at = until + 1;
    }

    /// All cables: a card pushes its packets into one and takes them out.
    #[inline]
    pub fn cables_mut(&mut self) -> &mut [Cable] {
        &mut self.cables
    }

    /// What a cable joins.
    pub fn ends(&self, link: LinkId) -> [LinkEndAt; 2] {
        self.ends[link.0]
    }

    /// Shows all switches to an observer, or to none.
    pub fn observe(&mut self, observer: Option<Box<dyn SwitchObserver>>) {
        self.observer = observer;
    }

    /// Counters of a port of an InfiniBand switch.
    pub fn counters(&self, switch: SwitchId, port: u8) -> Option<PortCounters> {
        self.switches[switch.0].counters(port)
    }

    /// True while packets wait in switches or endpoints, or are on a cable. A deadlock that has been reported does not
    /// count: nothing in it moves.
    pub fn is_moving(&self) -> bool {
        if self.now < self.settles_at || (self.deadlock.is_none() && self.holds_packets()) {
            return true;
        }
        self.endpoints.iter().any(IbEndpoint::has_work)
            || self.eth_endpoints.iter().any(EthEndpoint::has_work)
            || self
                .cables
                .iter()
                .any(|cable| Dir::ALL.iter().any(|dir| cable.in_flight(*dir) > 0))
    }

    /// A switch has told its subnet manager something that this has not taken note of.
    pub fn waits_to_tell(&self) -> bool {
        self.switches.iter().any(IbSwitch::waits_to_tell)
    }

    fn holds_packets(&self) -> bool {
        self.switches.iter().any(|switch| switch.packets() > 0)
            || self.eth_switches.iter().any(|switch| switch.packets() > 0)
    }

    /// Nothing but cables.
    #[inline]
    pub fn is_cables_alone(&self) -> bool {
        self.switches.is_empty()
            && self.endpoints.is_empty()
            && self.eth_switches.is_empty()
            && self.eth_endpoints.is_empty()
    }

    /// The first cycle in which a switch or an endpoint has something to do. `moving`: something is under way, here or
    /// at a card, so that time-outs of the links count.
    #[inline]
    pub fn next_event(&self, moving: bool) -> Option<u64> {
        let settles = (self.now < self.settles_at).then_some(self.settles_at);
        // Cables alone: the cards at their ends are asked by whoever has them.
        if self.is_cables_alone() {
            return settles;
        }
        let switches = self.switches.iter();
        let switches = switches.map(|switch| switch.next_event(&self.cables, moving));
        let endpoints = self.endpoints.iter();
        let endpoints = endpoints.map(|endpoint| endpoint.next_event(&self.cables, moving));
        let eth_switches = self.eth_switches.iter();
        let eth_switches = eth_switches.map(|switch| switch.next_event(&self.cables, moving));
        let eth_endpoints = self.eth_endpoints.iter();
        let eth_endpoints = eth_endpoints.map(|endpoint| endpoint.next_event(&self.cables, moving));
        let looks = moving && self.deadlock.is_none() && self.holds_packets();
        let all = switches.chain(endpoints).chain(eth_switches).chain(eth_endpoints);
        all.chain([looks.then_some(self.look_at), settles])
            .flatten()
            .min()
    }

    /// One cycle.
    pub fn step(&mut self, now: u64, moving: bool) {
        self.now = now;
        let due = |next: Option<u64>| next.is_some_and(|at| at <= now);
        for (index, switch) in self.switches.iter_mut().enumerate() {
            if due(switch.next_event(&self.cables, moving)) {
                switch.step(now, &mut self.cables, moving);
                if switch.take_turned() {
                    self.settles_at = self.settles_at.max(now + SETTLE_CYCLES);
                }
                if let Some(observer) = &mut self.observer {
                    observer.ib_switch(now, SwitchId(index), switch);
                }
            }
        }
        for endpoint in &mut self.endpoints {
            if due(endpoint.next_event(&self.cables, moving)) {
                endpoint.step(now, &mut self.cables, moving);
            }
        }
        for (index, switch) in self.eth_switches.iter_mut().enumerate() {
            if due(switch.next_event(&self.cables, moving)) {
                switch.step(now, &mut self.cables);
                if let Some(observer) = &mut self.observer {
                    observer.eth_switch(now, EthSwitchId(index), switch);
                }
            }
        }
        for endpoint in &mut self.eth_endpoints {
            if due(endpoint.next_event(&self.cables, moving)) {
                endpoint.step(now, &mut self.cables);
            }
        }
        if now >= self.look_at {
            self.look_at = now + DEADLOCK_CYCLES;
            if self.deadlock.is_none() && self.holds_packets() {
                let view = View {
                    ib: &self.switches,
                    eth: &self.eth_switches,
                    ends: &self.ends,
                };
                self.deadlock = deadlock::find(now, &view);
            }
        }
    }

    /// Lets time pass until nothing moves, a deadlock is found, or the limit is reached: for networks without cards.
    /// True: everything has come to rest.
    pub fn run(&mut self, limit: u64) -> bool {
        loop {
            let moving = self.is_moving();
            if !moving || self.deadlock.is_some() {
                return !moving && self.deadlock.is_none();
            }
            let next = self.next_event(moving).map(|at| at.max(self.now + 1));
            match next.filter(|at| *at <= limit) {
                Some(next) => self.step(next, moving),
                None => return false,
            }
        }
    }

    /// The present cycle.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The deadlock that has been found. It stays: nothing in it ever moves again.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }
}
