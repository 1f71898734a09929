//! One direction of a cable.

use crate::clock::{Line, PS_PER_NS};
use crate::content::{Content, Unwritten};
use crate::fault::{Dice, Fate, REORDER_HOLD_NS};
use crate::{CableConfig, Delivery, Dir, DirStats, LinkKind, PACKET_BYTES_MAX};
use std::collections::VecDeque;

/// A packet at the far end of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The packet as the sender pushed it, but for flipped bits.
    pub bytes: Vec<u8>,
    /// Time at which its first bit was put on the wire, in picoseconds.
    pub sent_ps: u64,
    /// Time at which its last bit arrives.
    pub last_bit_ps: u64,
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Flying {
    pub content: Content,
    pub sent_ps: u64,
    pub last_bit_ps: u64,
}

impl From<Flying> for Packet {
    fn from(flying: Flying) -> Self {
        Self {
            bytes: flying.content.into_bytes(),
            sent_ps: flying.sent_ps,
            last_bit_ps: flying.last_bit_ps,
        }
    }
}

/// Place in the order of delivery: time, then order of sending.
type Slot = (u64, u64);

/// A packet held back; its slot, and how many packets have to pass it.
#[derive(Debug, Clone, Copy)]
struct Held {
    slot: Slot,
    distance: u64,
}

/// Sender, wire and receiver of one direction.
#[derive(Debug)]
pub(crate) struct Lane {
    kind: LinkKind,
    line: Line,
    latency_ps: u64,
    overhead_bytes: u64,
    pause_ps: u64,
    delivery: Delivery,
    dice: Dice,
    /// The same for link packets.
    link_dice: Dice,
    /// Packet that is being pushed.
    partial: Vec<u8>,
    sent_ps: u64,
    /// In the order of delivery, which is that of sending but for those that wait.
    in_flight: VecDeque<(Slot, Flying)>,
    held: Vec<Held>,
    /// Last bit of the latest packet that travels in order.
    in_order_ps: u64,
    next_number: u64,
    stats: DirStats,
}

impl Lane {
    pub(crate) fn new(config: &CableConfig, dir: Dir) -> Self {
        let stream_name = format!("cable/{}/{}", config.name, dir.name());
        let link_faults = config.faults.of_link_packets();
        Self {
            kind: config.kind,
            line: Line::new(config.rate_bits_per_s, config.cycle_ps),
            latency_ps: config.latency_ns * PS_PER_NS,
            overhead_bytes: config.overhead_bytes,
            pause_ps: config.faults.pause_ns * PS_PER_NS,
            delivery: config.delivery,
            dice: Dice::new(config.faults, config.seed, &stream_name),
            link_dice: Dice::new(link_faults, config.seed, &format!("{stream_name}/link")),
            partial: Vec::new(),
            sent_ps: 0,
            in_flight: VecDeque::new(),
            held: Vec::new(),
            in_order_ps: 0,
            next_number: 0,
            stats: DirStats::default(),
        }
    }

    #[inline]
    pub(crate) fn ready(&self, now_cycle: u64) -> bool {
        self.line.ready(now_cycle)
    }

    #[inline]
    pub(crate) fn ready_cycle(&self) -> u64 {
        self.line.ready_cycle()
    }

    /// The same when so many packets more have been sent, each so long.
    pub(crate) fn ready_cycle_behind(&self, packets: u32, len_bytes: usize) -> u64 {
        let each = len_bytes as u64 + self.overhead_bytes;
        self.line.ready_cycle_behind(u64::from(packets) * each)
    }

    /// Nothing happens to packets but that they take their time, and each is handed out whole.
    #[inline]
    pub(crate) fn is_smooth(&self) -> bool {
        self.dice.is_clean() && self.partial.is_empty() && self.delivery == Delivery::LastBit
    }

    pub(crate) fn set_delivery(&mut self, delivery: Delivery) {
        self.delivery = delivery;
    }

    pub(crate) fn stats(&self) -> &DirStats {
        &self.stats
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Takes several packets in one, where [`Lane::is_smooth`]: on the line they are behind each other from the cycle
    /// on, and they are handed out when the last of them has come. False where they are too long.
    pub(crate) fn push_several(&mut self, now_cycle: u64, packets: Box<dyn Unwritten>) -> bool {
        let (each, count) = (packets.len_bytes(), u64::from(packets.count()));
        if each > PACKET_BYTES_MAX {
            return false;
        }
        let wire_bytes = each as u64 + self.overhead_bytes;
        let sent_ps = self.line.free_ps().max(self.line.cycle_start_ps(now_cycle));
        self.sent_ps = sent_ps;
        self.stats.wire_bytes += count * wire_bytes;
        self.stats.busy_ps += self.line.send(now_cycle, count * wire_bytes);
        self.stats.sent_packets += count;
        self.stats.sent_bytes += count * each as u64;
        // As one after the other: none arrives sooner behind the one in front than it takes to send.
        let earliest_ps = self.in_order_ps + count * self.line.duration_ps(wire_bytes);
        let last_bit_ps = (self.line.free_ps() + self.latency_ps).max(earliest_ps);
        self.in_order_ps = last_bit_ps;
        let content = Content::Unwritten(packets);
        let packet = Flying {
            content,
            sent_ps,
            last_bit_ps,
        };
        self.insert(packet, now_cycle);
        true
    }

    /// Somebody begins to look: whatever is under way as several packets in one is each for itself.
    pub(crate) fn part(&mut self) {
        if self
            .in_flight
            .iter()
            .all(|(_, packet)| packet.content.count() == 1)
        {
            return;
        }
        for (slot, packet) in std::mem::take(&mut self.in_flight) {
            let Content::Unwritten(several) = &packet.content else {
                self.in_flight.push_back((slot, packet));
                continue;
            };
            let parts = several.parts();
            if parts.is_empty() {
                self.in_flight.push_back((slot, packet));
                continue;
            }
            let each_ps = self
                .line
                .duration_ps(several.len_bytes() as u64 + self.overhead_bytes);
            let count = parts.len() as u64;
            for (behind, part) in parts.into_iter().enumerate() {
                let later_ps = (count - 1 - behind as u64) * each_ps;
                let part = Flying {
                    content: Content::Unwritten(part),
                    sent_ps: packet.sent_ps + behind as u64 * each_ps,
                    last_bit_ps: packet.last_bit_ps - later_ps,
                };
                let slot = (part.last_bit_ps, slot.1);
                self.in_flight.push_back((slot, part));
            }
        }
    }

    /// Loses all that is under way.
    pub(crate) fn cut(&mut self) {
        self.partial.clear();
        let packets = self.in_flight.iter().map(|(_, packet)| packet.content.count());
        self.stats.faults.lost += packets.map(u64::from).sum::<u64>();
        self.in_flight.clear();
        self.held.clear();
    }

    /// Appends a beat to the packet. False where the packet is too long; it is then thrown away.
    pub(crate) fn push(&mut self, now_cycle: u64, beat: &[u8]) -> bool {
        if self.partial.len() + beat.len() > PACKET_BYTES_MAX {
            self.partial.clear();
            return false;
        }
        self.serialise(now_cycle, beat.len(), self.partial.is_empty());
        self.partial.extend_from_slice(beat);
        true
    }

    /// So many bytes take their time on the line.
    fn serialise(&mut self, now_cycle: u64, bytes: usize, is_first: bool) {
        let mut wire_bytes = bytes as u64;
        if is_first {
            self.sent_ps = self.line.free_ps().max(self.line.cycle_start_ps(now_cycle));
            // The gap belongs behind the packet. In front of it the sum is the same, and a packet
            // on an idle wire arrives one gap, about a nanosecond, late.
            wire_bytes += self.overhead_bytes;
        }
        self.stats.wire_bytes += wire_bytes;
        self.stats.busy_ps += self.line.send(now_cycle, wire_bytes);
    }

    /// Takes a whole data packet that is not bytes yet. False where it is too long.
    pub(crate) fn push_unwritten(&mut self, now_cycle: u64, packet: Box<dyn Unwritten>) -> bool {
        let len_bytes = packet.len_bytes();
        if len_bytes > PACKET_BYTES_MAX {
            return false;
        }
        self.serialise(now_cycle, len_bytes, true);
        self.send(now_cycle, Content::Unwritten(packet));
        true
    }

    /// The packet that is being pushed.
    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Ends the packet: draws its faults and puts what is left of it in flight.
    pub(crate) fn finish(&mut self, now_cycle: u64) {
        let bytes = std::mem::take(&mut self.partial);
        self.send(now_cycle, Content::Bytes(bytes));
    }

    #[inline]
    fn is_link_packet(&self, content: &Content) -> bool {
        matches!(content, Content::Bytes(bytes) if self.kind.is_link_packet(bytes))
    }

    fn send(&mut self, now_cycle: u64, mut content: Content) {
        let last_bit_ps = self.line.free_ps() + self.latency_ps;
        let fate = if self.is_link_packet(&content) {
            self.stats.sent_link_packets += 1;
            self.link_dice.roll()
        } else {
            self.stats.sent_packets += 1;
            self.stats.sent_bytes += content.len() as u64;
            self.dice.roll()
        };
        if fate.lost {
            self.stats.faults.lost += 1;
        } else {
            if fate.flips > 0 {
                self.stats.faults.corrupted += 1;
                fate.corrupt(content.written());
            }
            let packet = Flying {
                content,
                sent_ps: self.sent_ps,
                last_bit_ps,
            };
            self.launch(packet, &fate, now_cycle);
        }
        if fate.paused {
            self.stats.faults.paused += 1;
            self.line.pause(self.pause_ps);
        }
    }

    /// Puts a packet that is not lost in flight, and its second copy if there is one.
    fn launch(&mut self, mut packet: Flying, fate: &Fate, now_cycle: u64) {
        let copy = fate.duplicated.then(|| Flying {
            content: Content::Bytes(packet.content.written().clone()),
            ..packet
        });
        if fate.delay_ps > 0 {
            self.stats.faults.delayed += 1;
            packet.last_bit_ps += fate.delay_ps;
        }
        if fate.reorder_distance > 0 {
            self.stats.faults.reordered += 1;
            packet.last_bit_ps += REORDER_HOLD_NS * PS_PER_NS;
            let slot = self.insert(packet, now_cycle);
            self.held.push(Held {
                slot,
                distance: fate.reorder_distance,
            });
        } else {
            let passes = !self.is_link_packet(&packet.content);
            self.insert_in_order(packet, now_cycle);
            if passes {
                self.release_held(now_cycle);
            }
        }
        if let Some(mut copy) = copy {
            self.stats.faults.duplicated += 1;
            // The copy takes its time on the line, so that a busy line is not asked for more than
            // it can carry.
            let wire_bytes = copy.content.len() as u64 + self.overhead_bytes;
            self.stats.wire_bytes += wire_bytes;
            self.stats.busy_ps += self.line.send(now_cycle, wire_bytes);
            copy.last_bit_ps = self.line.free_ps() + self.latency_ps;
            self.insert_in_order(copy, now_cycle);
        }
    }

    /// Puts a packet in flight; its last bit says when it arrives.
    fn insert(&mut self, packet: Flying, now_cycle: u64) -> Slot {
        let deliver_ps = match self.delivery {
            Delivery::LastBit => packet.last_bit_ps,
            Delivery::FirstBeat => {
                let rest = packet.content.len().saturating_sub(CableConfig::BEAT_BYTES);
                let rest_ps = self.line.duration_ps(rest as u64);
                let first_beat_ps = packet.last_bit_ps.saturating_sub(rest_ps);
                first_beat_ps.max(self.line.cycle_start_ps(now_cycle))
            }
        };
        let slot = (deliver_ps, self.next_number);
        self.next_number += 1;
        if self.in_flight.back().is_none_or(|(last, _)| *last < slot) {
            self.in_flight.push_back((slot, packet));
        } else {
            let place = self.in_flight.partition_point(|(other, _)| *other < slot);
            self.in_flight.insert(place, (slot, packet));
        }
        slot
    }

    /// Puts a packet in flight, but not in front of an earlier one: the far end of the wire has the
    /// same rate as the near end.
    #[inline]
    fn insert_in_order(&mut self, mut packet: Flying, now_cycle: u64) {
        let wire_bytes = packet.content.len() as u64 + self.overhead_bytes;
        let earliest_ps = self.in_order_ps + self.line.duration_ps(wire_bytes);
        packet.last_bit_ps = packet.last_bit_ps.max(earliest_ps);
        self.in_order_ps = packet.last_bit_ps;
        self.insert(packet, now_cycle);
    }

    /// A packet has passed those held back: lets go of the ones that waited for it.
    fn release_held(&mut self, now_cycle: u64) {
        for mut held in std::mem::take(&mut self.held) {
            held.distance -= 1;
            let found = self.in_flight.binary_search_by_key(&held.slot, |(slot, _)| *slot);
            let Ok(place) = found else {
                continue; // It was delivered because its time was over.
            };
            if held.distance > 0 {
                self.held.push(held);
            } else if let Some((_, mut packet)) = self.in_flight.remove(place) {
                packet.last_bit_ps = self.in_order_ps;
                self.insert_in_order(packet, now_cycle);
            }
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, now_cycle: u64) -> Option<Flying> {
        let ((deliver_ps, _), _) = self.in_flight.front()?;
        if *deliver_ps > self.line.cycle_start_ps(now_cycle) {
            return None;
        }
        let (_, packet) = self.in_flight.pop_front()?;
        if self.is_link_packet(&packet.content) {
            self.stats.delivered_link_packets += 1;
        } else {
            let count = u64::from(packet.content.count());
            self.stats.delivered_packets += count;
            self.stats.delivered_bytes += count * packet.content.len() as u64;
        }
        Some(packet)
    }

    #[inline]
    pub(crate) fn next_event_cycle(&self) -> Option<u64> {
        let ((deliver_ps, _), _) = self.in_flight.front()?;
        Some(self.line.cycle_at_or_after(*deliver_ps))
    }
}
