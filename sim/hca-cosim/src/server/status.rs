//! What a server has done, for other threads to look at while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hca_abi::PortView;
use hca_link::Dir;
use hca_outside::WireStats;

use crate::Outside;
use crate::fabric::{CardId, Fabric};

/// Words about faults that wait to be read.
const FAULT_TEXTS_MAX: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Data packets on a cable.
#[derive(Debug)]
pub struct LinkStatus {
    name: String,
    packets: [AtomicU64; 2],
}

impl LinkStatus {
    /// Name of the cable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Packets sent from end A, and from end B.
    pub fn packets(&self) -> [u64; 2] {
        [0, 1].map(|dir: usize| self.packets[dir].load(Ordering::Relaxed))
    }
}

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Data packets.
    pub packets: u64,
    /// Their octets, all of each packet.
    pub octets: u64,
}

/// A port of a card.
#[derive(Debug)]
pub struct PortStatus {
    id: CardId,
    /// Number of the card, from 0 in the order in which they were added.
    pub card: u32,
    /// From 1.
    pub port: u8,
    /// Packets and octets sent, packets and octets received.
    counts: [AtomicU64; 4],
    /// What its firmware says that it is.
    view: Mutex<Option<PortView>>,
}

impl PortStatus {
    /// What it has sent, and what it has received. Nothing where no cable is plugged in.
    pub fn traffic(&self) -> [Traffic; 2] {
        let [a, b, c, d] = [0, 1, 2, 3].map(|at: usize| self.counts[at].load(Ordering::Relaxed));
        let traffic = |packets, octets| Traffic { packets, octets };
        [traffic(a, b), traffic(c, d)]
    }

    /// What its firmware has said last that it is; nothing before it has looked.
    pub fn view(&self) -> Option<PortView> {
        *lock(&self.view)
    }

    fn update(&self, fabric: &Fabric) {
        *lock(&self.view) = fabric.card(self.id).port_view(self.port);
        let Some([sent, received]) = fabric.port_stats(self.id, self.port) else {
            return;
        };
        let now = [
            sent.sent_packets,
            sent.sent_bytes,
            received.delivered_packets,
            received.delivered_bytes,
        ];
        for (count, now) in self.counts.iter().zip(now) {
            count.store(now, Ordering::Relaxed);
        }
    }
}

/// A wire that leaves the simulator.
#[derive(Debug)]
pub struct OutsideStatus {
    address: String,
    stats: Arc<WireStats>,
}

impl OutsideStatus {
    /// Where its other end is.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it has carried.
    pub fn stats(&self) -> &WireStats {
        &self.stats
    }
}

/// Counts of a running server. Each is right by itself; together they may be some cycles apart.
#[derive(Debug, Default)]
pub struct ServerStatus {
    links: Vec<LinkStatus>,
    ports: Vec<PortStatus>,
    outsides: Vec<OutsideStatus>,
    deadlock: OnceLock<String>,
    broken: OnceLock<String>,
    now_ns: AtomicU64,
    evaluated_cycles: AtomicU64,
    packets: AtomicU64,
    clients: AtomicU64,
    faults: AtomicU64,
    /// Words about them that nobody has read yet.
    fault_texts: Mutex<Vec<String>>,
    /// Functions served, and their mappings.
    mappings: Mutex<Vec<(String, u64)>>,
}

impl ServerStatus {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let link = |cable| LinkStatus {
            name: fabric.cable(cable).config().name.clone(),
            packets: Default::default(),
        };
        let outside = |outside: &Outside| OutsideStatus {
            address: outside.wire().address().to_string(),
            stats: outside.wire().stats(),
        };
        let ports = fabric.cards().zip(0..).flat_map(|(id, card)| {
            (1..=fabric.card(id).ports()).map(move |port| PortStatus {
                id,
                card,
                port,
                counts: Default::default(),
                view: Mutex::default(),
            })
        });
        Self {
            ports: ports.collect(),
            outsides: fabric.outsides().iter().map(outside).collect(),
            links: fabric.cables().map(link).collect(),
            ..Self::default()
        }
    }

    /// All cables.
    pub fn links(&self) -> &[LinkStatus] {
        &self.links
    }

    /// All ports of all cards.
    pub fn ports(&self) -> &[PortStatus] {
        &self.ports
    }

    /// All wires that leave the simulator.
    pub fn outsides(&self) -> &[OutsideStatus] {
        &self.outsides
    }

    /// The switches' deadlock, once one has been found.
    pub fn deadlock(&self) -> Option<&str> {
        self.deadlock.get().map(String::as_str)
    }

    /// What the first card broke that is broken: a contract of its ports, or an assertion of the RTL.
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    pub(super) fn set_broken(&self, what: &str) {
        self.broken.get_or_init(|| what.to_owned());
    }

    /// Simulated time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// Cycles evaluated, of all cards together. Idle cards are not evaluated.
    pub fn evaluated_cycles(&self) -> u64 {
        self.evaluated_cycles.load(Ordering::Relaxed)
    }

    /// Packets sent, by all cards together.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Functions that a process has.
    pub fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// Accesses of the cards to memory that is not mapped, or not for that access.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Each of them in words, some of very many, since the last call.
    pub fn take_fault_texts(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.fault_texts))
    }

    pub(super) fn tell_fault(&self, text: String) {
        let mut texts = lock(&self.fault_texts);
        if texts.len() < FAULT_TEXTS_MAX {
            texts.push(text);
        }
    }

    /// Mappings of memory that a function served has, by its name.
    pub fn mappings(&self, function: &str) -> Option<u64> {
        let mappings = lock(&self.mappings);
        let mut found = mappings.iter().filter(|(name, _)| name == function);
        found.next().map(|(_, count)| *count)
    }

    pub(super) fn add_function(&self, name: String) {
        lock(&self.mappings).push((name, 0));
    }

    /// Of all functions, in their order.
    pub(super) fn set_mappings(&self, counts: impl Iterator<Item = usize>) {
        for ((_, mappings), count) in lock(&self.mappings).iter_mut().zip(counts) {
            *mappings = count as u64;
        }
    }

    pub(super) fn update(&self, fabric: &Fabric, clients: u64) {
        let (mut cycles, mut packets, mut now_ns, mut faults) = (0, 0, 0, 0);
        for card in fabric.cards() {
            let counters = fabric.card(card).counters();
            cycles += counters.evaluated_cycles;
            packets += counters.tx_packets;
            now_ns = fabric.now_ns(card);
            faults += fabric.card(card).host.fault_count();
        }
        for (link, cable) in self.links.iter().zip(fabric.net().cables()) {
            for (dir, packets) in Dir::ALL.into_iter().zip(&link.packets) {
                packets.store(cable.stats().dir(dir).sent_packets, Ordering::Relaxed);
            }
        }
        self.ports.iter().for_each(|port| port.update(fabric));
        if let Some(deadlock) = fabric.net().deadlock() {
            self.deadlock.get_or_init(|| deadlock.to_string());
        }
        self.now_ns.store(now_ns, Ordering::Relaxed);
        self.evaluated_cycles.store(cycles, Ordering::Relaxed);
        self.packets.store(packets, Ordering::Relaxed);
        self.clients.store(clients, Ordering::Relaxed);
        self.faults.store(faults, Ordering::Relaxed);
    }
}
