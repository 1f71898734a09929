//! What a server has done, for other threads to look at while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fabric::Fabric;

/// Counts of a running server. Each is right by itself; together they may be some cycles apart.
#[derive(Debug, Default)]
pub struct ServerStatus {
    now_ns: AtomicU64,
    evaluated_cycles: AtomicU64,
    packets: AtomicU64,
    clients: AtomicU64,
}

impl ServerStatus {
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

    pub(super) fn update(&self, fabric: &Fabric, clients: u64) {
        let (mut cycles, mut packets, mut now_ns) = (0, 0, 0);
        for card in fabric.cards() {
            let counters = fabric.card(card).counters();
            cycles += counters.evaluated_cycles;
            packets += counters.tx_packets;
            now_ns = fabric.now_ns(card);
        }
        self.now_ns.store(now_ns, Ordering::Relaxed);
        self.evaluated_cycles.store(cycles, Ordering::Relaxed);
        self.packets.store(packets, Ordering::Relaxed);
        self.clients.store(clients, Ordering::Relaxed);
    }
}
