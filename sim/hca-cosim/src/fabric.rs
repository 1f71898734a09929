//! Cards, what joins them, and time.

use std::path::Path;

use hca_host::{Host, MmioRequest, earlier};
use hca_link::{BeatStream, Cable, CableConfig, Delivery, Dir, DirStats, LinkKind, Tap};
use hca_outside::Wire;
use hca_switch::{EthSwitchConfig, EthSwitchId, IbSwitchConfig, LinkEndAt, LinkId, Net, SwitchId};
use hca_vsim::DATA_VLS;

use crate::card::{Card, Look};
use crate::circuit::Circuit;
use crate::config::CardConfig;
use crate::crew::Crew;
use crate::design::Design;
use crate::outside::{Outside, OutsideId};
use crate::peer::{Peer, PeerEnd, PeerId};
use crate::plain::Plain;
use crate::wire::Attachment;
use crate::{NUM_FUNCS, SimError};

/// A card of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CardId(usize);

/// A cable of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(usize);

/// Where an end of a cable is plugged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    /// The first port of a card.
    Card(CardId),
    /// A card and the number of its port, from 1.
    CardPort(CardId, u8),
    /// An InfiniBand switch and the number of its port, from 1.
    Switch(SwitchId, u8),
    /// An Ethernet switch and the number of its port, from 1.
    EthSwitch(EthSwitchId, u8),
    /// A wire that leaves the simulator.
    Outside(OutsideId),
    /// Somebody who is no card.
    Peer(PeerId),
}

impl Plug {
    /// Card and port number, if it is a card's.
    fn card(self) -> Option<(CardId, u8)> {
        match self {
            Self::Card(card) => Some((card, 1)),
            Self::CardPort(card, port) => Some((card, port)),
            Self::Switch(..) | Self::EthSwitch(..) | Self::Outside(_) | Self::Peer(_) => None,
        }
    }
}

/// Everything that shares one simulated time.
pub struct Fabric {
    seed: u64,
    now: u64,
    jumps: bool,
    registers: u64,
    crew: Option<Crew<Circuit>>,
    cards: Vec<Card>,
    net: Net,
    outsides: Vec<Outside>,
    peers: Vec<PeerEnd>,
    next_id: u64,
    /// How its parts hang together if it is made of cards without gates alone; not known after a change.
    plain: Option<Plain>,
}

impl Fabric {
    /// An empty fabric. The seed decides all randomness in it.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: 0,
            jumps: true,
            registers: 0,
            crew: None,
            cards: Vec::new(),
            net: Net::new(),
            outsides: Vec::new(),
            peers: Vec::new(),
            next_id: 0,
            plain: None,
        }
    }

    /// The root seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Cycles since the start.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds a card, out of reset at the present time.
    pub fn add_card(&mut self, config: CardConfig) -> Result<CardId, SimError> {
        let seed = split_seed(self.seed, &config.name);
        let registers = split_seed(seed ^ self.registers, "registers");
        self.plain = None;
        self.cards.push(Card::new(config, seed, registers)?);
        Ok(CardId(self.cards.len() - 1))
    }

    /// Adds an InfiniBand switch.
    pub fn add_switch(&mut self, config: IbSwitchConfig) -> Result<SwitchId, SimError> {
        self.plain = None;
        Ok(self.net.add_ib_switch(config)?)
    }

    /// Adds an Ethernet switch.
    pub fn add_eth_switch(&mut self, config: EthSwitchConfig) -> Result<EthSwitchId, SimError> {
        self.plain = None;
        Ok(self.net.add_eth_switch(config)?)
    }

    /// Adds a wire that leaves the simulator.
    pub fn add_outside(&mut self, wire: Wire) -> OutsideId {
        self.plain = None;
        self.outsides.push(Outside::new(wire));
        OutsideId(self.outsides.len() - 1)
    }

    /// All wires that leave the simulator.
    pub fn outsides(&self) -> &[Outside] {
        &self.outsides
    }

    /// Adds somebody who is no card.
    pub fn add_peer(&mut self, peer: Box<dyn Peer>) -> PeerId {
        self.plain = None;
        self.peers.push(PeerEnd::new(peer));
        PeerId(self.peers.len() - 1)
    }

    /// Connects the first ports of two cards; equal ids make a loopback plug, whose one direction is A to B. The
    /// cable's seed becomes the fabric's, and packets are handed over beat by beat at line rate.
    pub fn connect(&mut self, a: CardId, b: CardId, config: CableConfig) -> Result<CableId, SimError> {
        self.plug([Plug::Card(a), Plug::Card(b)], config)
    }

    /// Plugs in a cable, end A first.
    pub fn plug(&mut self, ends: [Plug; 2], config: CableConfig) -> Result<CableId, SimError> {
        self.plain = None;
        let config = CableConfig {
            seed: self.seed,
            delivery: Delivery::FirstBeat,
            ..config
        };
        for end in ends {
            if let Some((id, port)) = end.card() {
                self.check_card_end(&self.cards[id.0], port, &config)?;
            }
            if let Plug::Outside(id) = end {
                self.outsides[id.0].check(&config)?;
            }
            if let Plug::Peer(id) = end
                && self.peers[id.0].is_taken()
            {
                return Err(SimError::PortTaken(format!("peer {}", id.0)));
            }
        }
        let rx = [Dir::BToA, Dir::AToB].map(|dir| BeatStream::new(&config, dir));
        let at = ends.map(|end| match end {
            // The fabric drives both; what is outside takes whole packets.
            Plug::Card(_) | Plug::CardPort(..) | Plug::Outside(_) | Plug::Peer(_) => {
                LinkEndAt::Card { data_vls: DATA_VLS }
            }
            Plug::Switch(id, port) => LinkEndAt::Switch(id, port),
            Plug::EthSwitch(id, port) => LinkEndAt::EthSwitch(id, port),
        });
        let kind = config.kind;
        let LinkId(cable) = self.net.connect(at, config)?;
        let loopback = ends[0].card().is_some() && ends[0].card() == ends[1].card();
        for ((end, tx), rx) in ends.into_iter().zip(Dir::ALL).zip(rx) {
            if let Plug::Outside(id) = end {
                self.net.cables_mut()[cable].set_delivery(tx.reverse(), Delivery::LastBit);
                self.outsides[id.0].attach(cable, tx);
            }
            if let Plug::Peer(id) = end {
                self.net.cables_mut()[cable].set_delivery(tx.reverse(), Delivery::LastBit);
                self.peers[id.0].attach(cable, tx);
            }
            let Some((id, port)) = end.card() else { continue };
            // A loopback plug keeps what is made last: it sends and receives from A to B.
            let tx = if loopback { Dir::AToB } else { tx };
            if self.cards[id.0].design() == Design::Model {
                self.net.cables_mut()[cable].set_delivery(rx.dir(), Delivery::LastBit);
            }
            let attachment = Attachment { cable, kind, tx, rx };
            self.cards[id.0].attach(port, attachment);
        }
        Ok(CableId(cable))
    }

    fn check_card_end(&self, card: &Card, port: u8, config: &CableConfig) -> Result<(), SimError> {
        if !(1..=card.ports()).contains(&port) {
            return Err(SimError::NoPort {
                card: card.name().to_owned(),
                port,
                ports: card.ports(),
            });
        }
        if card.attachment(port).is_some() {
            return Err(SimError::PortTaken(format!("card {}", card.name())));
        }
        if card.cycle_ps() != config.cycle_ps {
            return Err(SimError::Clock {
                cable: config.name.clone(),
                cable_ps: config.cycle_ps,
                card: card.name().to_owned(),
                card_ps: card.cycle_ps(),
            });
        }
        Ok(())
    }

    /// Cables and switches.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Cables and switches, to set tables of switches.
    pub fn net_mut(&mut self) -> &mut Net {
        self.plain = None;
        self.touch_cards();
        &mut self.net
    }

    /// Whatever cards have said of their next cycle is void.
    fn touch_cards(&self) {
        self.cards.iter().for_each(Card::touch);
    }

    /// A card.
    #[inline]
    pub fn card(&self, id: CardId) -> &Card {
        &self.cards[id.0]
    }

    /// A card, to change.
    pub fn card_mut(&mut self, id: CardId) -> &mut Card {
        let card = &mut self.cards[id.0];
        card.touch();
        card
    }

    /// Memory and IOMMU of a card's host: to change them changes nothing of what the card has to do.
    #[inline]
    pub(crate) fn host_mut(&mut self, id: CardId) -> &mut Host {
        self.cards[id.0].host()
    }

    /// All cards.
    pub fn cards(&self) -> impl Iterator<Item = CardId> + use<> {
        (0..self.cards.len()).map(CardId)
    }

    /// All cables.
    pub fn cables(&self) -> impl Iterator<Item = CableId> + use<> {
        (0..self.net.cables().len()).map(CableId)
    }

    /// A cable.
    pub fn cable(&self, id: CableId) -> &Cable {
        &self.net.cables()[id.0]
    }

    /// Writes a capture of a cable from now on, with what a wire at its end answers itself.
    pub fn capture(&mut self, id: CableId, tap: Tap, path: &Path) -> Result<(), SimError> {
        self.net.cables_mut()[id.0].capture(tap, path)?;
        self.outsides.iter().for_each(|outside| outside.captured(id.0));
        Ok(())
    }

    /// What the wires have answered since the last cycle: nobody who saw an answer misses it in a capture.
    pub(crate) fn capture_asides(&mut self) {
        for outside in &self.outsides {
            outside.capture_aside(self.now, self.net.cables_mut());
        }
    }

    /// A cable, to close or to change.
    pub fn cable_mut(&mut self, id: CableId) -> &mut Cable {
        self.touch_cards();
        &mut self.net.cables_mut()[id.0]
    }

    /// The cable at the first port of a card.
    pub fn cable_of(&self, card: CardId) -> Option<CableId> {
        self.cable_at(card, 1)
    }

    /// The cable at a port of a card, from 1.
    pub fn cable_at(&self, card: CardId, port: u8) -> Option<CableId> {
        self.card(card).attachment(port).map(|(cable, ..)| CableId(cable))
    }

    /// What a port of a card, from 1, has sent and received, by its cable.
    pub fn port_stats(&self, card: CardId, port: u8) -> Option<[DirStats; 2]> {
        let (cable, tx, rx) = self.card(card).attachment(port)?;
        let stats = self.net.cables()[cable].stats();
        Some([*stats.dir(tx), *stats.dir(rx)])
    }

    /// Kind of the cable at the first port of a card; Ethernet without one.
    pub fn link_kind(&self, card: CardId) -> LinkKind {
        let attachment = self.cards[card.0].attachment(1);
        attachment.map_or(LinkKind::Ethernet, |(cable, ..)| {
            self.net.cables()[cable].config().kind
        })
    }

    /// Nanoseconds since the start, by the clock of a card.
    pub fn now_ns(&self, card: CardId) -> u64 {
        self.cards[card.0].pcie().params().ns(self.now)
    }

    /// Checks that a card has a function.
    pub fn check_function(&self, card: CardId, func: u8) -> Result<(), SimError> {
        if func < NUM_FUNCS {
            return Ok(());
        }
        Err(SimError::NoFunction {
            card: self.card(card).name().to_owned(),
            func,
            last: NUM_FUNCS - 1,
        })
    }

    /// The host writes registers: up to eight bytes in the aligned eight at `addr`, by `strb`.
    pub fn mmio_write(&mut self, card: CardId, func: u8, addr: u16, data: u64, strb: u8) {
        let request = MmioRequest::Write {
            func,
            addr: addr & !7,
            data,
            strb,
        };
        self.cards[card.0].push_mmio(self.now, request);
    }

    /// The host starts to read a register; the value comes through [`Fabric::take_mmio_value`] with the id
    /// returned.
    pub fn mmio_read(&mut self, card: CardId, func: u8, addr: u16) -> u64 {
        self.next_id += 1;
        let request = MmioRequest::Read {
            func,
            addr: addr & !3,
            id: self.next_id,
        };
        self.cards[card.0].push_mmio(self.now, request);
        self.next_id
    }

    /// The next register value that has reached the host of a card.
    pub fn take_mmio_value(&mut self, card: CardId) -> Option<(u64, u32)> {
        self.cards[card.0].pcie_mut().take_mmio_value()
    }

    /// Moves time to the next cycle in which anything happens, but not beyond `limit`. False: nothing is
    /// under way anywhere before it, and time is `limit`.
    pub fn step(&mut self, limit: u64) -> bool {
        // Among cards without gates on plain cables nobody asks whether anything moves.
        let moving = !self.is_plain() && self.is_moving();
        match self.next_cycle_if(moving).filter(|next| *next <= limit) {
            Some(next) => self.step_to(next, moving),
            None => {
                self.now = self.now.max(limit);
                return false;
            }
        }
        true
    }

    /// Like [`Fabric::step`] without a limit: time stands still while nothing is under way.
    pub fn step_if_active(&mut self) -> bool {
        self.step_before(u64::MAX, u64::MAX)
    }

    /// The same where something is due at `limit` or before, or at `timers` or before if only timers run.
    pub(crate) fn step_before(&mut self, limit: u64, timers: u64) -> bool {
        let moving = self.is_moving();
        let limit = if moving { limit } else { limit.min(timers) };
        let next = self.next_cycle_if(moving).filter(|next| *next <= limit);
        if let Some(next) = next {
            self.step_to(next, moving);
        }
        next.is_some()
    }

    /// Time has come to that cycle, and nothing was due before.
    pub(crate) fn pass(&mut self, cycle: u64) {
        self.now = self.now.max(cycle);
    }

    /// Whether cards are left alone in cycles in which nothing of theirs would change: as it is by default. Without
    /// jumps every card is evaluated in every cycle while anything moves, and it is a violation if one changes in such
    /// a cycle. The results are the same.
    pub fn set_jumps(&mut self, on: bool) {
        self.plain = None;
        self.jumps = on;
    }

    /// What the registers and RAMs of cards that are added later hold before reset, beside what the root seed decides.
    /// The results are the same.
    pub fn set_registers(&mut self, seed: u64) {
        self.registers = seed;
    }

    /// Works on the cards of a cycle with so many threads, the caller's among them: 1 by default. The results are the
    /// same.
    pub fn set_threads(&mut self, threads: usize) {
        self.crew = (threads > 1).then(|| Crew::new(threads - 1));
    }

    /// Everything in it is a card without gates or an Ethernet cable: cards are looked at when they have something to
    /// do, and asked when that may have changed.
    #[inline]
    pub(crate) fn is_plain(&mut self) -> bool {
        let Self { cards, net, .. } = &*self;
        let rest = self.jumps && self.outsides.is_empty() && self.peers.is_empty();
        match &self.plain {
            Some(plain) => plain.is_plain(),
            None => {
                self.touch_cards();
                let plain = Plain::of(rest, cards, net);
                cards.iter().for_each(|card| card.set_alone(plain.is_plain()));
                self.plain.insert(plain).is_plain()
            }
        }
    }

    fn step_plain(&mut self, next: u64) {
        self.now = next;
        self.cards.iter_mut().for_each(|card| card.host.keep_up(next));
        let cables = self.net.cables_mut();
        for index in 0..self.cards.len() {
            if !self.cards[index].work_alone(next, cables) {
                continue;
            }
            let ways = self
                .plain
                .as_ref()
                .map_or(&[][..], |plain| plain.ways_from(index));
            for way in ways {
                let at = cables[way.cable].next_arrival_cycle(way.dir);
                self.cards[way.to].hear_of(at.map(|at| at.max(next + 1)));
            }
        }
        self.net.step(next, false);
    }

    fn step_to(&mut self, next: u64, moving: bool) {
        if self.is_plain() {
            return self.step_plain(next);
        }
        // Whoever is asked for the next cycle says so of all cards, but where one of RTL is awake.
        let how = Look {
            checked: moving && !self.jumps,
            moving,
            was_asked: self.jumps && !self.cards.iter().any(Card::is_restless),
        };
        if how.checked {
            for cycle in self.now + 1..next {
                self.step_cards(cycle, how);
            }
        }
        self.now = next;
        // Before anybody can hear of it.
        self.cards.iter_mut().for_each(|card| card.host.keep_up(next));
        self.step_cards(next, how);
        self.net.step(next, moving);
        for outside in &self.outsides {
            outside.step(next, self.net.cables_mut());
        }
        for peer in &mut self.peers {
            peer.step(next, self.net.cables_mut());
        }
    }

    /// A cycle of all cards. What one sends in it another sees in the next at the earliest.
    fn step_cards(&mut self, now: u64, how: Look) {
        let cables = self.net.cables_mut();
        let mut is_observed = false;
        for card in &mut self.cards {
            card.begin(now, cables, how);
            is_observed |= card.is_observed();
        }
        if is_observed {
            // Who observes several cards sees them in their order.
            self.work(Circuit::settle);
            self.cards.iter_mut().for_each(|card| card.show(now));
            self.work(Circuit::clock);
        } else {
            self.work(Circuit::run);
        }
        let cables = self.net.cables_mut();
        for card in &mut self.cards {
            card.end(now, cables);
        }
    }

    /// Does this with all circuits that have to be evaluated.
    fn work(&mut self, task: fn(&mut Circuit)) {
        let mut due = self.cards.iter_mut().filter_map(Card::due);
        match (&mut self.crew, due.next(), due.next()) {
            (Some(crew), Some(first), Some(second)) => crew.run([first, second].into_iter().chain(due), task),
            (_, first, second) => first.into_iter().chain(second).chain(due).for_each(task),
        }
    }

    /// A card works, or something is on its PCIe link, or packets are in switches or on cables: then the links' own
    /// time-outs run too. At rest they do not, so that time can stand still; what is due goes out when something moves
    /// again.
    pub(crate) fn is_moving(&self) -> bool {
        self.cards.iter().any(Card::is_moving) || self.net.is_moving()
    }

    /// Firmware or a switch waits to tell a subnet manager something (once more), which takes seconds.
    pub(crate) fn waits_to_tell(&self) -> bool {
        self.cards.iter().any(Card::has_firmware_timer) || self.net.waits_to_tell()
    }

    /// Counts what all cards have made visible to their hosts.
    pub(crate) fn host_writes(&self) -> u64 {
        self.cards.iter().map(Card::host_writes).sum()
    }

    /// The memory of a client of some card has yet to answer.
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.cards.iter().any(|card| card.pcie().waits_for_memory())
    }

    /// Lets `cycles` pass.
    pub fn run(&mut self, cycles: u64) {
        let limit = self.now + cycles;
        while self.step(limit) && self.now < limit {}
    }

    /// Something is under way by itself: a card that works, or anything in flight.
    pub fn is_active(&self) -> bool {
        self.next_cycle().is_some()
    }

    /// The next cycle in which anything happens; `None`: nothing is under way.
    pub fn next_cycle(&self) -> Option<u64> {
        self.next_cycle_if(self.is_moving())
    }

    /// The same, `moving` or not.
    fn next_cycle_if(&self, moving: bool) -> Option<u64> {
        if self.plain.as_ref().is_some_and(Plain::is_plain) {
            let cables = self.net.cables();
            let each = self.cards.iter().map(|card| card.next_alone(self.now, cables));
            let next = each.fold(self.net.next_event(moving), earlier);
            return next.map(|at| at.max(self.now + 1));
        }
        if self.cards.iter().any(Card::is_restless) {
            return Some(self.now + 1);
        }
        let cables = self.net.cables();
        let mut next = self.net.next_event(moving);
        for card in &self.cards {
            next = earlier(next, card.next_event(self.now, cables, moving));
        }
        for outside in &self.outsides {
            next = earlier(next, outside.next_event(cables));
        }
        for peer in &self.peers {
            next = earlier(next, peer.next_event(cables));
        }
        next.map(|at| at.max(self.now + 1))
    }
}

/// A seed of its own for each name: FNV-1a over the root and the name, then mixed.
pub(crate) fn split_seed(root: u64, name: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in root.to_le_bytes().iter().chain(name.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}
