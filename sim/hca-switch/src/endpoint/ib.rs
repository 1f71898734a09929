//! A traffic endpoint on InfiniBand: sends numbered packets, and checks what it receives. It has the link of a switch
//! port (credits, VLs, arbitration), so that networks can be tried without cards.

use std::collections::{BTreeMap, VecDeque};

use hca_link::Cable;
use hca_wire::{ExtHeaders, Framing, Link, Opcode, PacketRepr, WholePacket, blocks, bth, lrh};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::{FlowCount, NUMBER_BYTES, QUEUE_PACKETS, Stalls, draw_share};
use crate::arb::{DATA_VLS_MAX, Heads, VlArbConfig, VlArbiter};
use crate::counters::{PortCounters, VlCounters};
use crate::ib::link::{Due, LinkConfig, LinkEnd, Received, Wire};
use crate::ib::tables::Sl2Vl;
use crate::{SwitchError, VL15};

/// Packets from an endpoint to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// LID or MLID of the destination.
    pub dlid: u16,
    /// Service level.
    pub sl: u8,
    /// How often this flow is drawn, relative to the others.
    pub share: u32,
}

/// What an endpoint is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct IbEndpointConfig {
    /// For messages.
    pub name: String,
    /// Its LID.
    pub lid: u16,
    /// Decides destinations, sizes and stalls.
    pub seed: u64,
    /// Data VLs.
    pub data_vls: u8,
    /// Receive buffer of each.
    pub buffer_blocks: u32,
    /// Largest payload.
    pub mtu_bytes: u32,
    /// VL arbitration.
    pub arbitration: VlArbConfig,
    /// VL of each SL; without it the SLs take turns over the VLs.
    pub sl2vl: Option<Sl2Vl>,
    /// What it sends; nothing: it only receives.
    pub flows: Vec<Flow>,
    /// How many packets.
    pub packets: u64,
    /// Least and most bytes of payload.
    pub payload_bytes: (u32, u32),
    /// Pauses of the receiver.
    pub stalls: Option<Stalls>,
    /// A VL's credits are told at least this often while anything moves.
    pub fcp_max_cycles: u64,
}

impl IbEndpointConfig {
    /// A receiver with 8 data VLs of 32 KiB.
    pub fn new(name: &str, lid: u16) -> Self {
        Self {
            name: name.to_owned(),
            lid,
            seed: 1,
            data_vls: 8,
            buffer_blocks: 512,
            mtu_bytes: 4096,
            arbitration: VlArbConfig::default(),
            sl2vl: None,
            flows: Vec::new(),
            packets: 0,
            payload_bytes: (NUMBER_BYTES as u32, 2048),
            stalls: None,
            fcp_max_cycles: 16_384,
        }
    }
}

/// Source LID, destination LID, SL.
type FlowKey = (u16, u16, u8);

/// A traffic endpoint.
pub struct IbEndpoint {
    config: IbEndpointConfig,
    random: ChaCha8Rng,
    link: Option<LinkEnd>,
    arbiter: VlArbiter,
    queues: [VecDeque<Vec<u8>>; DATA_VLS_MAX],
    made: u64,
    numbers: Vec<u64>,
    /// Blocks of the packets in the receive buffer, per VL; a stalled VL is not drained.
    held: [VecDeque<u16>; DATA_VLS_MAX],
    stalled_until: [u64; DATA_VLS_MAX],
    received: BTreeMap<FlowKey, FlowCount>,
    damaged: u64,
    wake_at: Option<u64>,
}

impl IbEndpoint {
    /// An endpoint without a cable.
    pub fn new(config: IbEndpointConfig) -> Result<Self, SwitchError> {
        let name = format!("endpoint {}", config.name);
        config.link().check(&name)?;
        let (least, most) = config.payload_bytes;
        if least < NUMBER_BYTES as u32 || least > most || most > config.mtu_bytes {
            let what = format!("{name}: payload_bytes");
            let limits = (NUMBER_BYTES, config.mtu_bytes as usize);
            return Err(SwitchError::range(what, most as usize, limits.0, limits.1));
        }
        Ok(Self {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            arbiter: VlArbiter::new(config.arbitration.clone())?,
            link: None,
            queues: Default::default(),
            made: 0,
            numbers: vec![0; config.flows.len()],
            held: Default::default(),
            stalled_until: [0; DATA_VLS_MAX],
            received: BTreeMap::new(),
            damaged: 0,
            wake_at: Some(0),
            config,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it was made from.
    pub fn config(&self) -> &IbEndpointConfig {
        &self.config
    }

    /// Packets sent in each flow, in the order of the configuration.
    pub fn sent(&self) -> Vec<u64> {
        let mut sent = self.numbers.clone();
        // Made, but still here.
        for packet in self.queues.iter().flatten() {
            let key = key_of(packet).map(|(_, dlid, sl)| (dlid, sl));
            let flow = self
                .config
                .flows
                .iter()
                .position(|flow| Some((flow.dlid, flow.sl)) == key);
            if let Some(flow) = flow {
                sent[flow] -= 1;
            }
        }
        sent
    }

    /// What has come from a source LID, to a destination LID, on an SL.
    pub fn received(&self, slid: u16, dlid: u16, sl: u8) -> FlowCount {
        self.received.get(&(slid, dlid, sl)).copied().unwrap_or_default()
    }

    /// What has come, all together.
    pub fn received_all(&self) -> FlowCount {
        FlowCount::sum(&self.received)
    }

    /// Packets whose ICRC or contents were wrong though the link took them for good.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Counters of its port.
    pub fn counters(&self) -> PortCounters {
        self.link.as_ref().map(|link| link.counters).unwrap_or_default()
    }

    /// Counters of a VL.
    pub fn vl_counters(&self, vl: u8) -> VlCounters {
        self.link
            .as_ref()
            .map(|link| link.vl_counters(vl))
            .unwrap_or_default()
    }

    /// Blocks that it may send on a data VL.
    pub fn credits(&self, vl: u8) -> Option<u16> {
        self.link.as_ref().and_then(|link| link.credits(vl))
    }

    /// True while it has packets to send or to take in.
    pub fn has_work(&self) -> bool {
        let to_send = self.made < self.config.packets || self.queues.iter().any(|queue| !queue.is_empty());
        (to_send && self.link.is_some()) || self.held.iter().any(|held| !held.is_empty())
    }

    pub(crate) fn stall(&mut self, vl: u8, until: u64) {
        if let Some(stalled) = self.stalled_until.get_mut(usize::from(vl)) {
            *stalled = until;
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn attach(&mut self, wire: Wire) {
        self.link = Some(LinkEnd::new(&self.config.link(), wire));
    }

    pub(crate) fn next_event(&self, cables: &[Cable], timers: bool) -> Option<u64> {
        let link = self.link.as_ref()?;
        let timer = timers.then(|| link.refresh_at());
        [self.wake_at, link.next_arrival(cables), timer]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn step(&mut self, now: u64, cables: &mut [Cable], timers: bool) {
        let Some(mut link) = self.link.take() else {
            return;
        };
        while let Some(received) = link.poll(now, cables) {
            self.take(now, &mut link, &received);
        }
        self.drain(now, &mut link);
        link.refresh(now, if timers { Due::NewsAndRefresh } else { Due::News });
        self.transmit(now, &mut link, cables);
        self.wake_at = self.next_wake(now, &mut link, cables);
        self.link = Some(link);
    }

    /// Checks a packet that has come in.
    fn take(&mut self, now: u64, link: &mut LinkEnd, received: &Received) {
        let vl = usize::from(received.lrh.vl);
        if vl == usize::from(VL15) || link.fill(received.lrh.vl, received.blocks).is_err() {
            return;
        }
        if let Some(stalls) = self.config.stalls
            && self.random.next_u32() % 1000 < stalls.per_mille
        {
            let until = now + 1 + self.random.next_u64() % stalls.cycles_max.max(1);
            self.stalled_until[vl] = self.stalled_until[vl].max(until);
        }
        self.held[vl].push_back(received.blocks);
        let number = WholePacket::parse(Framing::InfiniBand, &received.bytes)
            .ok()
            .filter(|packet| packet.crcs().icrc_ok())
            .and_then(|packet| {
                Some(u64::from_be_bytes(
                    *packet.payload().first_chunk::<NUMBER_BYTES>()?,
                ))
            });
        let (Some(number), Some(key)) = (number, key_of(&received.bytes)) else {
            self.damaged += 1;
            return;
        };
        self.received.entry(key).or_default().count(number);
    }

    fn drain(&mut self, now: u64, link: &mut LinkEnd) {
        for vl in 0..DATA_VLS_MAX {
            if self.stalled_until[vl] <= now {
                while let Some(blocks) = self.held[vl].pop_front() {
                    link.drain(vl as u8, blocks);
                }
            }
        }
    }

    fn transmit(&mut self, now: u64, link: &mut LinkEnd, cables: &mut [Cable]) {
        self.make(link.wire.op_vls);
        while link.line_ready(now, cables) {
            if link.has_fcp() {
                link.send_fcp(now, cables);
                continue;
            }
            let heads: Heads = std::array::from_fn(|vl| {
                let head = self.queues[vl].front()?;
                link.may_send(vl as u8, blocks(head.len()) as u16)
                    .then_some(head.len() as u32)
            });
            let Some(vl) = self.arbiter.pick(&heads) else {
                break;
            };
            if let Some(packet) = self.queues[usize::from(vl)].pop_front() {
                link.send(now, cables, vl, &packet);
            }
            self.make(link.wire.op_vls);
        }
    }

    fn next_wake(&mut self, now: u64, link: &mut LinkEnd, cables: &[Cable]) -> Option<u64> {
        let line = link.line_ready_cycle(cables).max(now + 1);
        let mut next = link.has_fcp().then_some(line);
        for vl in 0..DATA_VLS_MAX {
            let may_send = self.queues[vl]
                .front()
                .map(|head| link.may_send(vl as u8, blocks(head.len()) as u16));
            link.note_wait(now, vl, may_send == Some(false));
            let stall = (!self.held[vl].is_empty()).then_some(self.stalled_until[vl].max(now + 1));
            let send = (may_send == Some(true)).then_some(line);
            next = [next, stall, send].into_iter().flatten().min();
        }
        next
    }

    /// Makes packets for the VLs that have room for them.
    fn make(&mut self, op_vls: u8) {
        while self.made < self.config.packets {
            let shares = self.config.flows.iter().map(|flow| {
                let queue = self.queues.get(usize::from(self.config.vl_of(flow.sl, op_vls)));
                let open = queue.is_some_and(|queue| queue.len() < QUEUE_PACKETS);
                if open { flow.share } else { 0 }
            });
            let Some(index) = draw_share(shares, self.random.next_u32()) else {
                return;
            };
            let flow = self.config.flows[index];
            let (least, most) = self.config.payload_bytes;
            let len = least + self.random.next_u32() % (most - least + 1);
            let vl = self.config.vl_of(flow.sl, op_vls);
            if let Some(packet) = self.packet(flow, vl, self.numbers[index], len as usize) {
                self.queues[usize::from(vl)].push_back(packet);
                self.numbers[index] += 1;
            }
            self.made += 1;
        }
    }

    fn packet(&self, flow: Flow, vl: u8, number: u64, len: usize) -> Option<Vec<u8>> {
        let mut payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
        payload
            .first_chunk_mut::<NUMBER_BYTES>()?
            .copy_from_slice(&number.to_be_bytes());
        let lrh = lrh::Repr {
            vl,
            sl: flow.sl,
            dlid: flow.dlid,
            slid: self.config.lid,
            ..Default::default()
        };
        let bth = bth::Repr {
            opcode: Opcode::UcSendOnly as u8,
            pkey: 0xffff,
            dest_qp: 2,
            psn: number as u32 & 0xff_ffff,
            ..Default::default()
        };
        let repr = PacketRepr {
            link: Link::InfiniBand { lrh, grh: None },
            bth,
            ext: ExtHeaders::default(),
            payload: &payload,
        };
        let mut bytes = vec![0; repr.buffer_len().ok()?];
        repr.emit(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl IbEndpointConfig {
    fn vl_of(&self, sl: u8, op_vls: u8) -> u8 {
        match self.sl2vl {
            Some(table) => table[usize::from(sl & 15)],
            None => sl % op_vls.max(1),
        }
    }

    pub(crate) fn link(&self) -> LinkConfig {
        LinkConfig {
            data_vls: self.data_vls,
            buffer_blocks: self.buffer_blocks,
            vl15_blocks: 64,
            mtu_bytes: self.mtu_bytes,
            fcp_max_cycles: self.fcp_max_cycles,
        }
    }
}

fn key_of(packet: &[u8]) -> Option<FlowKey> {
    let lrh = lrh::Repr::read(packet).ok()?;
    Some((lrh.slid, lrh.dlid, lrh.sl))
}
