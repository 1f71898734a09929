//! A traffic endpoint on Ethernet: RoCEv2 frames with numbers, priorities, pauses.

use std::collections::{BTreeMap, VecDeque};

use hca_link::Cable;
use hca_wire::{
    ExtHeaders, Framing, Link, Network, Opcode, PacketRepr, WholePacket, bth, crc, ethernet, ipv4, udp,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{FlowCount, NUMBER_BYTES, QUEUE_PACKETS, Stalls, draw_share};
use crate::SwitchError;
use crate::arb::{Heads, VlArbConfig, VlArbiter};
use crate::counters::{PortCounters, VlCounters};
use crate::eth::frame::{self, PRIORITIES};
use crate::eth::port::{EthEnd, Frame, PfcConfig};

/// Congestion bits of a sender that understands marks.
const ECN_CAPABLE: u8 = 2;

/// Frames to one destination on one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthFlow {
    /// Address of the destination.
    pub mac: [u8; 6],
    /// Priority, 0 to 7.
    pub priority: u8,
    /// How often this flow is drawn, relative to the others.
    pub share: u32,
}

/// What an endpoint is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct EthEndpointConfig {
    /// For messages.
    pub name: String,
    /// Its address.
    pub mac: [u8; 6],
    /// Decides destinations, sizes and stalls.
    pub seed: u64,
    /// Flow control, as receiver and as sender.
    pub pfc: PfcConfig,
    /// What it sends; nothing: it only receives.
    pub flows: Vec<EthFlow>,
    /// How many frames.
    pub packets: u64,
    /// Least and most bytes of payload.
    pub payload_bytes: (u32, u32),
    /// Pauses of the receiver.
    pub stalls: Option<Stalls>,
}

impl EthEndpointConfig {
    /// A receiver without flow control.
    pub fn new(name: &str, mac: [u8; 6]) -> Self {
        Self {
            name: name.to_owned(),
            mac,
            seed: 1,
            pfc: PfcConfig::default(),
            flows: Vec::new(),
            packets: 0,
            payload_bytes: (NUMBER_BYTES as u32, 2048),
            stalls: None,
        }
    }
}

/// Source, destination, priority.
type FlowKey = ([u8; 6], [u8; 6], u8);

/// A traffic endpoint.
pub struct EthEndpoint {
    config: EthEndpointConfig,
    random: ChaCha8Rng,
    end: Option<EthEnd>,
    arbiter: VlArbiter,
    queues: [VecDeque<Vec<u8>>; PRIORITIES],
    made: u64,
    numbers: Vec<u64>,
    held: [VecDeque<u32>; PRIORITIES],
    stalled_until: [u64; PRIORITIES],
    received: BTreeMap<FlowKey, FlowCount>,
    damaged: u64,
    marked: u64,
    wake_at: Option<u64>,
}

impl EthEndpoint {
    /// An endpoint without a cable.
    pub fn new(config: EthEndpointConfig) -> Result<Self, SwitchError> {
        let name = format!("endpoint {}", config.name);
        config.pfc.check(&name)?;
        let (least, most) = config.payload_bytes;
        if least < NUMBER_BYTES as u32 || least > most || most > 9000 {
            let what = format!("{name}: payload_bytes");
            return Err(SwitchError::range(what, most as usize, NUMBER_BYTES, 9000));
        }
        Ok(Self {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            arbiter: VlArbiter::new(VlArbConfig::default())?,
            end: None,
            queues: Default::default(),
            made: 0,
            numbers: vec![0; config.flows.len()],
            held: Default::default(),
            stalled_until: [0; PRIORITIES],
            received: BTreeMap::new(),
            damaged: 0,
            marked: 0,
            wake_at: Some(0),
            config,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it was made from.
    pub fn config(&self) -> &EthEndpointConfig {
        &self.config
    }

    /// Frames made for each flow, in the order of the configuration; all of them are sent once it has no more work.
    pub fn sent(&self) -> &[u64] {
        &self.numbers
    }

    /// What has come from an address, to an address, on a priority.
    pub fn received(&self, from: [u8; 6], to: [u8; 6], priority: u8) -> FlowCount {
        self.received
            .get(&(from, to, priority))
            .copied()
            .unwrap_or_default()
    }

    /// What has come, all together.
    pub fn received_all(&self) -> FlowCount {
        FlowCount::sum(&self.received)
    }

    /// Frames whose ICRC, IPv4 checksum or contents were wrong.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Frames that were marked on the way.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Counters of its port.
    pub fn counters(&self) -> PortCounters {
        self.end.as_ref().map(|end| end.counters).unwrap_or_default()
    }

    /// Counters of a priority.
    pub fn priority_counters(&self, priority: u8) -> VlCounters {
        let end = self.end.as_ref();
        end.map(|end| end.priority_counters(priority)).unwrap_or_default()
    }

    /// True while it has frames to send or to take in.
    pub fn has_work(&self) -> bool {
        let to_send = self.made < self.config.packets || self.queues.iter().any(|queue| !queue.is_empty());
        (to_send && self.end.is_some()) || self.held.iter().any(|held| !held.is_empty())
    }

    pub(crate) fn stall(&mut self, priority: u8, until: u64) {
        if let Some(stalled) = self.stalled_until.get_mut(usize::from(priority)) {
            *stalled = until;
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn attach(&mut self, end: impl FnOnce(PfcConfig) -> EthEnd) {
        self.end = Some(end(self.config.pfc));
    }

    pub(crate) fn next_event(&self, cables: &[Cable], timers: bool) -> Option<u64> {
        let end = self.end.as_ref()?;
        let timer = end.refresh_at().filter(|_| timers);
        [self.wake_at, end.next_arrival(cables), timer]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn step(&mut self, now: u64, cables: &mut [Cable]) {
        let Some(mut end) = self.end.take() else { return };
        while let Some(frame) = end.poll(now, cables) {
            self.take(now, &mut end, &frame);
        }
        for priority in 0..PRIORITIES {
            if self.stalled_until[priority] <= now {
                while let Some(bytes) = self.held[priority].pop_front() {
                    end.drain(priority as u8, bytes);
                }
            }
        }
        end.refresh(now);
        self.transmit(now, &mut end, cables);
        self.wake_at = self.next_wake(now, &mut end, cables);
        self.end = Some(end);
    }

    /// Checks a frame that has come in.
    fn take(&mut self, now: u64, end: &mut EthEnd, frame: &Frame) {
        let (priority, bytes) = (usize::from(frame.priority), frame.bytes.len() as u32);
        if !end.fill(frame.priority, bytes) {
            return;
        }
        if let Some(stalls) = self.config.stalls
            && self.random.next_u32() % 1000 < stalls.per_mille
        {
            let until = now + 1 + self.random.next_u64() % stalls.cycles_max.max(1);
            self.stalled_until[priority] = self.stalled_until[priority].max(until);
        }
        self.held[priority].push_back(bytes);
        self.marked += u64::from(frame::is_marked(&frame.bytes));
        let checksum_ok = frame
            .bytes
            .get(ethernet::LEN..ethernet::LEN + ipv4::LEN)
            .is_some_and(|header| crc::ipv4_checksum(header) == 0);
        let packet = WholePacket::parse(Framing::Ethernet, &frame.bytes)
            .ok()
            .filter(|packet| packet.crcs().icrc_ok() && checksum_ok);
        let number = packet.and_then(|packet| {
            Some(u64::from_be_bytes(
                *packet.payload().first_chunk::<NUMBER_BYTES>()?,
            ))
        });
        let (Some(number), Ok(header)) = (number, ethernet::Repr::read(&frame.bytes)) else {
            self.damaged += 1;
            return;
        };
        let key = (header.src_mac, header.dst_mac, frame.priority);
        self.received.entry(key).or_default().count(number);
    }

    fn transmit(&mut self, now: u64, end: &mut EthEnd, cables: &mut [Cable]) {
        self.make();
        while end.line_ready(now, cables) {
            if end.has_pause() {
                end.send_pause(now, cables);
                continue;
            }
            let heads: Heads = std::array::from_fn(|priority| {
                let head = self.queues.get(priority)?.front()?;
                end.may_send(now, priority).then_some(head.len() as u32)
            });
            let Some(priority) = self.arbiter.pick(&heads) else {
                break;
            };
            if let Some(frame) = self.queues[usize::from(priority)].pop_front() {
                end.send(now, cables, priority, &frame);
            }
            self.make();
        }
    }

    fn next_wake(&mut self, now: u64, end: &mut EthEnd, cables: &[Cable]) -> Option<u64> {
        let line = end.line_ready_cycle(cables).max(now + 1);
        let mut next = end.has_pause().then_some(line);
        for priority in 0..PRIORITIES {
            let waits = !self.queues[priority].is_empty();
            end.note_wait(now, priority, waits && !end.may_send(now, priority));
            let send = waits.then_some(line.max(end.paused_until(priority)));
            let held = !self.held[priority].is_empty();
            let stall = held.then_some(self.stalled_until[priority].max(now + 1));
            next = [next, stall, send].into_iter().flatten().min();
        }
        next
    }

    /// Makes frames for the priorities that have room for them.
    fn make(&mut self) {
        while self.made < self.config.packets {
            let shares = self.config.flows.iter().map(|flow| {
                let queue = &self.queues[usize::from(flow.priority & 7)];
                if queue.len() < QUEUE_PACKETS {
                    flow.share
                } else {
                    0
                }
            });
            let Some(index) = draw_share(shares, self.random.next_u32()) else {
                return;
            };
            let flow = self.config.flows[index];
            let (least, most) = self.config.payload_bytes;
            let len = least + self.random.next_u32() % (most - least + 1);
            if let Some(frame) = self.frame(flow, self.numbers[index], len as usize) {
                self.queues[usize::from(flow.priority & 7)].push_back(frame);
                self.numbers[index] += 1;
            }
            self.made += 1;
        }
    }

    fn frame(&self, flow: EthFlow, number: u64, len: usize) -> Option<Vec<u8>> {
        let mut payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        payload
            .first_chunk_mut::<NUMBER_BYTES>()?
            .copy_from_slice(&number.to_be_bytes());
        let address = |mac: [u8; 6]| [10, mac[3], mac[4], mac[5]];
        let ip = Network::Ipv4(ipv4::Repr {
            dscp: (flow.priority & 7) << 3,
            ecn: ECN_CAPABLE,
            dont_fragment: true,
            ttl: 64,
            src_addr: address(self.config.mac),
            dst_addr: address(flow.mac),
            ..Default::default()
        });
        let repr = PacketRepr {
            link: Link::Ethernet {
                eth: ethernet::Repr {
                    dst_mac: flow.mac,
                    src_mac: self.config.mac,
                    ..Default::default()
                },
                vlan: None,
                ip,
                udp: udp::Repr {
                    src_port: 0xc000,
                    ..Default::default()
                },
            },
            bth: bth::Repr {
                opcode: Opcode::UcSendOnly as u8,
                pkey: 0xffff,
                dest_qp: 2,
                psn: number as u32 & 0xff_ffff,
                ..Default::default()
            },
            ext: ExtHeaders::default(),
            payload: &payload,
        };
        let mut bytes = vec![0; repr.buffer_len().ok()?];
        repr.emit(&mut bytes).ok()?;
        Some(bytes)
    }
}
