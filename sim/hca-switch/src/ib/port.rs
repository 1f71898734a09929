//! An end of an InfiniBand link for whoever takes each packet in the moment in which it comes: a card without gates.

use std::collections::VecDeque;

use hca_link::{Cable, Dir};
use hca_wire::blocks;

use super::link::{Due, LinkConfig, LinkEnd, Wire};
use crate::VL15;
use crate::arb::{DATA_VLS_MAX, Heads, VlArbConfig, VlArbiter};
use crate::counters::PortCounters;

/// Packets of a VL that wait for credits; behind them the owner keeps its own.
const QUEUE_PACKETS: usize = 4;

/// See above. Its VLs take turns by the arbiter's default tables.
pub struct IbPort {
    link: LinkEnd,
    arbiter: VlArbiter,
    /// By VL, 15 the last; with each packet whose it is.
    queues: [VecDeque<(Vec<u8>, Option<u32>)>; DATA_VLS_MAX + 1],
}

impl IbPort {
    /// The end of a cable from which this side sends in a direction, with so many data VLs (1, 2, 4, 8 or 15).
    pub fn new(cable: usize, tx: Dir, data_vls: u8) -> Self {
        let config = LinkConfig {
            data_vls,
            buffer_blocks: 512,
            vl15_blocks: 64,
            mtu_bytes: 4096,
            fcp_max_cycles: 16_384,
        };
        let wire = Wire {
            cable,
            tx,
            op_vls: data_vls,
            packet_blocks: config.packet_blocks(),
            // As with any card that shows with its first flow control packet.
            peer_has_credits: false,
        };
        // The default tables are right.
        let arbiter = VlArbiter::new(VlArbConfig::default()).unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            link: LinkEnd::new(&config, wire),
            arbiter,
            queues: Default::default(),
        }
    }

    /// What it has counted.
    pub fn counters(&self) -> &PortCounters {
        &self.link.counters
    }

    /// The next good packet that has come.
    pub fn receive(&mut self, now: u64, cables: &mut [Cable]) -> Option<Vec<u8>> {
        if self.link.has_turned(cables) {
            self.queues.iter_mut().for_each(VecDeque::clear);
        }
        let received = self.link.poll(now, cables)?;
        // It is taken at once: the buffer has all its room again.
        self.link.drain(received.lrh.vl, 0);
        Some(received.bytes)
    }

    /// It takes another packet, whatever its VL.
    pub fn has_room(&self) -> bool {
        self.queues.iter().all(|queue| queue.len() < QUEUE_PACKETS)
    }

    /// Takes a packet, which says its VL, and whose it is.
    pub fn push(&mut self, packet: Vec<u8>, of: Option<u32>) {
        let vl = usize::from(packet.first().map_or(0, |byte| byte >> 4));
        self.queues[vl].push_back((packet, of));
    }

    /// Sends while the line is free, and says whose packets have left; `timers`: flow control is told anew when its
    /// time has come.
    pub fn transmit(&mut self, now: u64, cables: &mut [Cable], timers: bool) -> Vec<u32> {
        let mut left = Vec::new();
        self.link
            .refresh(now, if timers { Due::NewsAndRefresh } else { Due::News });
        while self.link.line_ready(now, cables) {
            if self.link.has_fcp() {
                self.link.send_fcp(now, cables);
                continue;
            }
            // VL 15 goes before all others, and has no credits.
            if let Some((packet, of)) = self.queues[usize::from(VL15)].pop_front() {
                self.link.send(now, cables, VL15, &packet);
                left.extend(of);
                continue;
            }
            let heads: Heads = std::array::from_fn(|vl| self.sendable(vl).map(|len| len as u32));
            let Some(vl) = self.arbiter.pick(&heads) else {
                break;
            };
            if let Some((packet, of)) = self.queues[usize::from(vl)].pop_front() {
                self.link.send(now, cables, vl, &packet);
                left.extend(of);
            }
        }
        left
    }

    /// Bytes of the first packet of a data VL that has credits.
    fn sendable(&self, vl: usize) -> Option<usize> {
        let (head, _) = self.queues[vl].front()?;
        let may_send = self.link.may_send(vl as u8, blocks(head.len()) as u16);
        may_send.then_some(head.len())
    }

    /// When there is something to do; `wants_to_send`: the owner has more packets.
    pub fn next_event(&self, now: u64, cables: &[Cable], timers: bool, wants_to_send: bool) -> Option<u64> {
        if self.link.is_stale(cables) {
            return Some(now + 1);
        }
        let sends = self.link.has_fcp()
            || !self.queues[usize::from(VL15)].is_empty()
            || (0..DATA_VLS_MAX).any(|vl| self.sendable(vl).is_some())
            || (wants_to_send && self.has_room());
        let line = sends.then(|| self.link.line_ready_cycle(cables));
        let timer = (timers && self.link.is_up()).then(|| self.link.refresh_at());
        [line, timer, self.link.next_arrival(cables)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Packets wait for credits or for the line.
    pub fn is_busy(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }
}
