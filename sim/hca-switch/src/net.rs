//! Cables, and what is on them besides cards.

use hca_link::{Cable, CableConfig, Delivery, Dir, LinkKind};

use crate::deadlock::{self, Deadlock};
use crate::endpoint::{IbEndpoint, IbEndpointConfig};
use crate::ib::link::Wire;
use crate::ib::switch::{IbSwitch, IbSwitchConfig};
use crate::{PortCounters, SwitchError};

/// Cycles between two looks for a deadlock; one that is younger is not reported.
const DEADLOCK_CYCLES: u64 = 32_768;

/// A switch of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub(crate) usize);

/// A traffic endpoint of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) usize);

/// A cable of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// What an end of a cable is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEndAt {
    /// A card, which the owner of the network drives: it streams its packets beat by beat. Whether it has flow
    /// control shows with its first flow control packet; until then it is sent to without limit, and what it sends
    /// finds room.
    Card {
        /// Data VLs of its port.
        data_vls: u8,
    },
    /// A port of a switch, numbered from 1.
    Switch(SwitchId, u8),
    /// A traffic endpoint.
    Endpoint(EndpointId),
}

/// Cables, switches and endpoints in one simulated time.
#[derive(Default)]
pub struct Net {
    cables: Vec<Cable>,
    ends: Vec<[LinkEndAt; 2]>,
    switches: Vec<IbSwitch>,
    endpoints: Vec<IbEndpoint>,
    cycle_ps: Option<u64>,
    now: u64,
    /// When to look for a deadlock next.
    look_at: u64,
    deadlock: Option<Deadlock>,
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

    /// Adds a traffic endpoint.
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
        let (mut op_vls, mut packet_blocks) = (u8::MAX, u16::MAX);
        for end in ends {
            op_vls = op_vls.min(self.data_vls(end));
            packet_blocks = packet_blocks.min(self.packet_blocks(end));
        }
        let cable = self.cables.len();
        let mut made = Cable::new(config)?;
        for (end, peer, tx) in [(ends[0], ends[1], Dir::AToB), (ends[1], ends[0], Dir::BToA)] {
            let wire = Wire {
                cable,
                tx,
                op_vls,
                packet_blocks,
                peer_has_credits: !matches!(peer, LinkEndAt::Card { .. }),
            };
            let delivery = match end {
                LinkEndAt::Card { .. } => Delivery::FirstBeat,
                LinkEndAt::Switch(..) | LinkEndAt::Endpoint(_) => Delivery::LastBit,
            };
            made.set_delivery(tx.reverse(), delivery);
            match end {
                LinkEndAt::Card { .. } => {}
                LinkEndAt::Switch(id, port) => self.switches[id.0].attach(port, wire)?,
                LinkEndAt::Endpoint(id) => self.endpoints[id.0].attach(wire),
            }
        }
        self.cables.push(made);
        self.ends.push(ends);
        Ok(LinkId(cable))
    }

    fn check_end(&self, end: LinkEndAt, config: &CableConfig) -> Result<(), SwitchError> {
        let (name, taken, kind) = match end {
            LinkEndAt::Card { .. } => return Ok(()),
            LinkEndAt::Switch(id, port) => {
                let switch = &self.switches[id.0];
                switch.index(port)?;
                let name = format!("switch {} port {port}", switch.name());
                (name, switch.is_taken(port), LinkKind::InfiniBand)
            }
            LinkEndAt::Endpoint(id) => {
                let endpoint = &self.endpoints[id.0];
                let name = format!("endpoint {}", endpoint.name());
                (name, endpoint.is_taken(), LinkKind::InfiniBand)
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
        }
    }

    fn packet_blocks(&self, end: LinkEndAt) -> u16 {
        match end {
            LinkEndAt::Card { .. } => u16::MAX,
            LinkEndAt::Switch(id, _) => self.switches[id.0].config().link().packet_blocks(),
            LinkEndAt::Endpoint(id) => self.endpoints[id.0].config().link().packet_blocks(),
        }
    }

    /// A switch.
    pub fn switch(&self, id: SwitchId) -> &IbSwitch {
        &self.switches[id.0]
    }

    /// A switch, to set its tables.
    pub fn switch_mut(&mut self, id: SwitchId) -> &mut IbSwitch {
        &mut self.switches[id.0]
    }

    /// All switches.
    pub fn switches(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches.len()).map(SwitchId)
    }

    /// An endpoint.
    pub fn endpoint(&self, id: EndpointId) -> &IbEndpoint {
        &self.endpoints[id.0]
    }

    /// Keeps an endpoint from taking anything in on a VL until a cycle.
    pub fn stall_endpoint(&mut self, id: EndpointId, vl: u8, until: u64) {
        self.endpoints[id.0].stall(vl, until);
    }

    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointId> + use<> {
        (0..self.endpoints.len()).map(EndpointId)
    }

    /// All cables, in the order in which they were plugged in.
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// All cables: a card pushes its packets into one and takes them out.
    pub fn cables_mut(&mut self) -> &mut [Cable] {
        &mut self.cables
    }

    /// What a cable joins.
    pub fn ends(&self, link: LinkId) -> [LinkEndAt; 2] {
        self.ends[link.0]
    }

    /// Counters of a switch port.
    pub fn counters(&self, switch: SwitchId, port: u8) -> Option<PortCounters> {
        self.switches[switch.0].counters(port)
    }

    /// True while packets wait in switches or endpoints, or are on a cable. A deadlock that has been reported does not
    /// count: nothing in it moves.
    pub fn is_moving(&self) -> bool {
        if self.deadlock.is_none() && self.switches.iter().any(|switch| switch.packets() > 0) {
            return true;
        }
        self.endpoints.iter().any(IbEndpoint::has_work)
            || self
                .cables
                .iter()
                .any(|cable| Dir::ALL.iter().any(|dir| cable.in_flight(*dir) > 0))
    }

    /// The first cycle in which a switch or an endpoint has something to do. `moving`: something is under way, here or
    /// at a card, so that time-outs of the links count.
    pub fn next_event(&self, moving: bool) -> Option<u64> {
        let switches = self.switches.iter();
        let switches = switches.map(|switch| switch.next_event(&self.cables, moving));
        let endpoints = self.endpoints.iter();
        let endpoints = endpoints.map(|endpoint| endpoint.next_event(&self.cables, moving));
        let look = (moving && self.deadlock.is_none() && self.switches.iter().any(|s| s.packets() > 0))
            .then_some(self.look_at);
        switches.chain(endpoints).chain([look]).flatten().min()
    }

    /// One cycle.
    pub fn step(&mut self, now: u64, moving: bool) {
        self.now = now;
        let due = |next: Option<u64>| next.is_some_and(|at| at <= now);
        for switch in &mut self.switches {
            if due(switch.next_event(&self.cables, moving)) {
                switch.step(now, &mut self.cables, moving);
            }
        }
        for endpoint in &mut self.endpoints {
            if due(endpoint.next_event(&self.cables, moving)) {
                endpoint.step(now, &mut self.cables, moving);
            }
        }
        if now >= self.look_at {
            self.look_at = now + DEADLOCK_CYCLES;
            if self.deadlock.is_none() && self.switches.iter().any(|switch| switch.packets() > 0) {
                self.deadlock = deadlock::find(now, &self.switches, &self.ends);
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
