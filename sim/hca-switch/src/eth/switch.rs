//! The Ethernet switch.

use std::collections::{BTreeMap, VecDeque};

use hca_agents::lldp::Agent;
use hca_link::Cable;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::frame::{self, EthPriorities, PRIORITIES};
use super::lldp::{self, CYCLES_PER_US};
use super::port::{EthEnd, Frame, PfcConfig};
use crate::arb::{Heads, VlArbConfig, VlArbiter, VlWeight};
use crate::counters::{PortCounters, VlCounters};
use crate::ports::Ports;
use crate::store::{Source, Store, Stored};
use crate::{PORTS_MAX, SwitchError};

/// Congestion marks (RFC 3168, as RED would drop): none below `min_bytes` in a queue, all above `max_bytes`, in between
/// with a probability that grows to `probability`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EcnConfig {
    /// Bytes in the queue from which on frames are marked.
    pub min_bytes: u32,
    /// Bytes in the queue from which on all are.
    pub max_bytes: u32,
    /// Probability just below `max_bytes`.
    pub probability: f64,
}

/// What an Ethernet switch is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct EthSwitchConfig {
    /// For messages; unique in a network.
    pub name: String,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Cycles from a frame's last bit to the first in which it may leave.
    pub forward_cycles: u64,
    /// Bytes of a priority that wait for a port at most; more are dropped, unless the priority has flow control.
    pub queue_bytes: u32,
    /// Flow control.
    pub pfc: PfcConfig,
    /// Where the priority of a frame is.
    pub priorities: EthPriorities,
    /// Congestion marks; `None`: none.
    pub ecn: Option<EcnConfig>,
    /// Share of each priority in a port, in 64 bytes at a time.
    pub weights: [u8; PRIORITIES],
    /// Its ports tell their neighbours who they are (LLDP). What neighbours tell it, it hears anyway.
    pub lldp: bool,
    /// Decides which frames are marked.
    pub seed: u64,
}

impl EthSwitchConfig {
    /// Queues of 256 KiB, no flow control, no marks, no LLDP, all priorities alike, 100 ns.
    pub fn new(name: &str, ports: u8) -> Self {
        Self {
            name: name.to_owned(),
            ports,
            forward_cycles: 25,
            queue_bytes: 256 << 10,
            pfc: PfcConfig::default(),
            priorities: EthPriorities::default(),
            ecn: None,
            weights: [64; PRIORITIES],
            lldp: false,
            seed: 1,
        }
    }

    /// Fails where a number is out of range.
    pub fn check(&self) -> Result<(), SwitchError> {
        let name = format!("switch {}", self.name);
        let range = |what: &str, found: u64, low: u64, high: u64| {
            if (low..=high).contains(&found) {
                return Ok(());
            }
            let what = format!("{name}: {what}");
            Err(SwitchError::range(
                what,
                found as usize,
                low as usize,
                high as usize,
            ))
        };
        range("ports", self.ports.into(), 1, PORTS_MAX.into())?;
        range("forward_cycles", self.forward_cycles, 0, 1 << 30)?;
        range("queue_bytes", self.queue_bytes.into(), 64, 1 << 30)?;
        if let Some(ecn) = &self.ecn {
            range(
                "ecn.max_bytes",
                ecn.max_bytes.into(),
                ecn.min_bytes.into(),
                1 << 30,
            )?;
            // As a number in a thousand, so that the message needs no fractions.
            let per_mille = (ecn.probability * 1000.0).clamp(-1.0, 1e9) as i64;
            range("ecn.probability, in a thousand", per_mille as u64, 0, 1000)?;
        }
        self.pfc.check(&name)
    }

    fn arbitration(&self) -> VlArbConfig {
        let weight = |(vl, weight): (u8, &u8)| VlWeight { vl, weight: *weight };
        VlArbConfig {
            low: (0..).zip(&self.weights).map(weight).collect(),
            ..VlArbConfig::default()
        }
    }
}

/// A copy of a frame that waits for an output.
struct Waiting {
    slot: usize,
    bytes: u32,
    ready_at: u64,
    marked: bool,
}

struct Port {
    end: EthEnd,
    queues: [VecDeque<Waiting>; PRIORITIES],
    queued_bytes: [u32; PRIORITIES],
    arbiter: VlArbiter,
    lldp: Agent,
}

/// A switch: store and forward, a queue per output and priority.
pub struct EthSwitch {
    config: EthSwitchConfig,
    ports: Ports<Port>,
    addresses: BTreeMap<[u8; 6], u8>,
    /// Ports to which frames to unknown addresses go, a bit each.
    flood: u64,
    store: Store,
    random: ChaCha8Rng,
    wake_at: Option<u64>,
}

impl EthSwitch {
    /// A switch without cables, which knows no address.
    pub fn new(config: EthSwitchConfig) -> Result<Self, SwitchError> {
        config.check()?;
        Ok(Self {
            ports: Ports::new(&config.name, config.ports),
            addresses: BTreeMap::new(),
            flood: u64::MAX,
            store: Store::default(),
            random: ChaCha8Rng::seed_from_u64(config.seed),
            wake_at: config.lldp.then_some(0),
            config,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it was made from.
    pub fn config(&self) -> &EthSwitchConfig {
        &self.config
    }

    /// Frames to this address leave by this port.
    pub fn set_address(&mut self, mac: [u8; 6], port: u8) -> Result<(), SwitchError> {
        self.ports.index(port)?;
        self.addresses.insert(mac, port);
        Ok(())
    }

    /// Frames to unknown addresses and to groups leave by these ports alone, so that they find an end where cables form
    /// a circle. All ports, if this is not called.
    pub fn set_flood_ports(&mut self, ports: impl IntoIterator<Item = u8>) -> Result<(), SwitchError> {
        let mut flood = 0;
        for port in ports {
            self.ports.index(port)?;
            flood |= 1 << port;
        }
        self.flood = flood;
        Ok(())
    }

    /// Counters of a port; `None`: there is no cable.
    pub fn counters(&self, port: u8) -> Option<PortCounters> {
        self.ports.get(port).map(|port| port.end.counters)
    }

    /// Counters of a priority of a port.
    pub fn priority_counters(&self, port: u8, priority: u8) -> Option<VlCounters> {
        self.ports
            .get(port)
            .map(|port| port.end.priority_counters(priority))
    }

    /// Most bytes of a priority from a port that ever were inside.
    pub fn peak_bytes(&self, port: u8, priority: u8) -> u32 {
        self.ports
            .get(port)
            .map_or(0, |port| port.end.peak_bytes(priority))
    }

    /// Bytes of a priority from a port that are inside.
    pub fn held_bytes(&self, port: u8, priority: u8) -> u32 {
        self.ports
            .get(port)
            .map_or(0, |port| port.end.held_bytes(priority))
    }

    /// What the neighbour of a port says of itself (LLDP): its TLVs; empty: nobody was heard.
    pub fn neighbour(&mut self, port: u8, now: u64) -> &[u8] {
        let port = self.ports.get_mut(port);
        port.map_or(&[], |port| port.lldp.neighbour(now / CYCLES_PER_US).0)
    }

    /// Frames inside.
    pub fn packets(&self) -> usize {
        self.store.len()
    }

    /// True where a port has a cable.
    pub(crate) fn is_taken(&self, port: u8) -> Result<bool, SwitchError> {
        self.ports.is_taken(port)
    }

    pub(crate) fn attach(
        &mut self,
        port: u8,
        end: impl FnOnce(PfcConfig) -> EthEnd,
    ) -> Result<(), SwitchError> {
        let mut end = end(self.config.pfc);
        end.set_priorities(self.config.priorities);
        let mut lldp = Agent::new();
        lldp.set_on(self.config.lldp);
        let made = Port {
            lldp,
            end,
            queues: Default::default(),
            queued_bytes: [0; PRIORITIES],
            arbiter: VlArbiter::new(self.config.arbitration())?,
        };
        self.ports.attach(port, made)
    }

    pub(crate) fn next_event(&self, cables: &[Cable], timers: bool) -> Option<u64> {
        let mut next = self.wake_at;
        for port in self.ports.iter().flatten() {
            let timer = port.end.refresh_at().filter(|_| timers);
            next = [next, port.end.next_arrival(cables), timer]
                .into_iter()
                .flatten()
                .min();
        }
        next
    }

    /// One cycle.
    pub(crate) fn step(&mut self, now: u64, cables: &mut [Cable]) {
        for index in 0..self.ports.len() {
            while let Some(frame) = self.ports[index]
                .as_mut()
                .and_then(|port| port.end.poll(now, cables))
            {
                self.forward(now, index, frame);
            }
        }
        for index in 0..self.ports.len() {
            if let Some(port) = &mut self.ports[index] {
                port.end.refresh(now);
            }
            self.transmit(now, index, cables);
        }
        self.wake_at = self.next_wake(now, cables);
    }

    /// Ports for an address: never back to where the frame came from.
    fn outputs(&self, mac: [u8; 6], input: u8) -> u64 {
        let known = self.addresses.get(&mac).map(|port| 1u64 << port);
        known.unwrap_or(self.flood) & !(1 << input)
    }

    fn forward(&mut self, now: u64, index: usize, frame: Frame) {
        let input = index as u8 + 1;
        if frame::is_reserved(frame.dst_mac) {
            if let Some(port) = &mut self.ports[index] {
                port.lldp.receive(now / CYCLES_PER_US, &frame.bytes);
            }
            return;
        }
        let bytes = frame.bytes.len() as u32;
        let outputs = self.outputs(frame.dst_mac, input);
        let limit = self.config.queue_bytes;
        let has_room = |port: &Port| {
            let priority = usize::from(frame.priority);
            port.end.has_pfc(priority) || port.queued_bytes[priority] + bytes <= limit
        };
        let (mut targets, mut there) = (Vec::new(), false);
        for (number, port) in (1u8..).zip(self.ports.iter_mut()) {
            if let Some(port) = port
                && outputs >> number & 1 == 1
            {
                there = true;
                if has_room(port) {
                    targets.push(number);
                } else {
                    port.end.counters.port_xmit_discards += 1;
                }
            }
        }
        let Some(port) = &mut self.ports[index] else {
            return;
        };
        if !there {
            port.end.counters.port_rcv_switch_relay_errors += 1;
        }
        if targets.is_empty() || !port.end.fill(frame.priority, bytes) {
            return;
        }
        let ecn_capable = frame::is_ecn_capable(&frame.bytes);
        let slot = self.store.insert(Stored {
            bytes: frame.bytes,
            source: Source {
                port: input,
                vl: frame.priority,
            },
            blocks: 0,
            copies: targets.len() as u32,
        });
        for number in targets {
            let marked = ecn_capable && self.draw_mark(number, frame.priority);
            if let Some(port) = self.ports.get_mut(number) {
                let priority = usize::from(frame.priority);
                port.end.counters.ecn_marked += u64::from(marked);
                port.queued_bytes[priority] += bytes;
                port.queues[priority].push_back(Waiting {
                    slot,
                    bytes,
                    ready_at: now + self.config.forward_cycles,
                    marked,
                });
            }
        }
    }

    /// Whether a frame is marked, by the queue in front of it.
    fn draw_mark(&mut self, output: u8, priority: u8) -> bool {
        let Some(ecn) = self.config.ecn else {
            return false;
        };
        let queued = self
            .ports
            .get(output)
            .map_or(0, |port| port.queued_bytes[usize::from(priority)]);
        if queued >= ecn.max_bytes {
            return true;
        }
        if queued < ecn.min_bytes {
            return false;
        }
        let share = f64::from(queued - ecn.min_bytes) / f64::from((ecn.max_bytes - ecn.min_bytes).max(1));
        f64::from(self.random.next_u32()) < share * ecn.probability * f64::from(u32::MAX)
    }

    fn transmit(&mut self, now: u64, index: usize, cables: &mut [Cable]) {
        let chassis = self.ports.iter().flatten().next().map(|port| port.end.mac());
        while let Some(port) = &mut self.ports[index]
            && port.end.line_ready(now, cables)
        {
            if port.end.has_pause() {
                port.end.send_pause(now, cables);
                continue;
            }
            if let Some(due) = port.lldp.take_due(now / CYCLES_PER_US) {
                let mac = port.end.mac();
                let bytes = lldp::frame(due, &self.config, index as u8 + 1, mac, chassis.unwrap_or(mac));
                port.end.send(now, cables, 0, &bytes);
                continue;
            }
            let heads: Heads = std::array::from_fn(|priority| {
                let head = port.queues.get(priority)?.front()?;
                (head.ready_at <= now && port.end.may_send(now, priority)).then_some(head.bytes)
            });
            let Some(priority) = port.arbiter.pick(&heads) else {
                break;
            };
            let Some(waiting) = port.queues[usize::from(priority)].pop_front() else {
                break;
            };
            port.queued_bytes[usize::from(priority)] -= waiting.bytes;
            if let Some(packet) = self.store.get(waiting.slot) {
                if waiting.marked {
                    let mut bytes = packet.bytes.clone();
                    frame::mark(&mut bytes);
                    port.end.send(now, cables, priority, &bytes);
                } else {
                    port.end.send(now, cables, priority, &packet.bytes);
                }
            }
            if let Some(packet) = self.store.copy_left(waiting.slot)
                && let Some(port) = self.ports.get_mut(packet.source.port)
            {
                port.end.drain(packet.source.vl, waiting.bytes);
            }
        }
    }

    fn next_wake(&mut self, now: u64, cables: &[Cable]) -> Option<u64> {
        let mut next: Option<u64> = None;
        for port in self.ports.iter_mut().flatten() {
            let line = port.end.line_ready_cycle(cables).max(now + 1);
            let mut at = |cycle: u64| next = Some(next.map_or(cycle, |found| found.min(cycle)));
            if port.end.has_pause() {
                at(line);
            }
            if let Some(due_us) = port.lldp.due_us() {
                at((due_us * CYCLES_PER_US).max(line));
            }
            for priority in 0..PRIORITIES {
                let head = port.queues[priority].front();
                let paused = head.is_some() && !port.end.may_send(now, priority);
                port.end.note_wait(now, priority, paused);
                if let Some(head) = head {
                    at(head.ready_at.max(port.end.paused_until(priority)).max(line));
                }
            }
        }
        next
    }

    /// For each port and priority with anything inside: each output and priority that it waits for.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (Source, u8, u8)> {
        let ports = (1u8..).zip(self.ports.iter());
        ports
            .filter_map(|(number, port)| Some((number, port.as_ref()?)))
            .flat_map(move |(number, port)| {
                (0u8..).zip(&port.queues).flat_map(move |(priority, queue)| {
                    let sources = queue.iter().filter_map(|waiting| self.store.get(waiting.slot));
                    let sources: std::collections::BTreeSet<Source> =
                        sources.map(|packet| packet.source).collect();
                    sources.into_iter().map(move |source| (source, number, priority))
                })
            })
    }

    /// True while a port's neighbour is to pause a priority.
    pub(crate) fn is_pausing(&self, port: u8, priority: u8) -> bool {
        self.ports
            .get(port)
            .is_some_and(|port| port.end.is_pausing(priority))
    }

    pub(crate) fn cable(&self, port: u8) -> Option<usize> {
        self.ports.get(port).map(|port| port.end.cable())
    }
}
