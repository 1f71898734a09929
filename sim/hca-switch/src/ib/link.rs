//! One end of an InfiniBand link: what a switch port and a traffic endpoint have in common. Checks what comes in, keeps
//! the credits of both directions, says when flow control packets are due.

use hca_link::{Cable, Dir, LinkKind};
use hca_wire::{FlowControl, FlowControlOp, blocks, crc, lrh};

use super::credit::{RxCredits, TxCredits};
use crate::arb::DATA_VLS_MAX;
use crate::counters::{PortCounters, VlCounters};
use crate::{SwitchError, VL15};

/// Overhead of the longest data packet: LRH, GRH, the longest extended headers, ICRC and VCRC.
const HEADERS_BYTES: usize = 126;
/// Packets on VL 15 have 256 bytes of payload.
const VL15_PACKET_BLOCKS: u16 = blocks(256 + HEADERS_BYTES) as u16;
/// Largest buffer.
const BUFFER_BLOCKS_MAX: u32 = 1 << 20;

/// What an end of a link is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkConfig {
    /// Data VLs of this end.
    pub data_vls: u8,
    /// Receive buffer of each data VL.
    pub buffer_blocks: u32,
    /// Receive buffer of VL 15.
    pub vl15_blocks: u32,
    /// Largest payload on this link.
    pub mtu_bytes: u32,
    /// A VL's state is told at least this often while anything moves.
    pub fcp_max_cycles: u64,
}

impl LinkConfig {
    /// Most blocks of a packet.
    pub fn packet_blocks(&self) -> u16 {
        blocks(self.mtu_bytes as usize + HEADERS_BYTES) as u16
    }

    pub fn check(&self, name: &str) -> Result<(), SwitchError> {
        if ![1, 2, 4, 8, 15].contains(&self.data_vls) {
            return Err(SwitchError::Vls {
                name: name.to_owned(),
                found: self.data_vls,
            });
        }
        if ![256, 512, 1024, 2048, 4096].contains(&self.mtu_bytes) {
            let what = format!("{name}: MTU (256, 512, 1024, 2048 or 4096)");
            return Err(SwitchError::range(what, self.mtu_bytes as usize, 256, 4096));
        }
        for (what, blocks, least) in [
            ("buffer of a VL", self.buffer_blocks, self.packet_blocks()),
            ("buffer of VL 15", self.vl15_blocks, VL15_PACKET_BLOCKS),
        ] {
            if !(u32::from(least)..=BUFFER_BLOCKS_MAX).contains(&blocks) {
                let what = format!("{name}: {what} in blocks of 64 bytes (a packet must fit in)");
                let limits = (usize::from(least), BUFFER_BLOCKS_MAX as usize);
                return Err(SwitchError::range(what, blocks as usize, limits.0, limits.1));
            }
        }
        Ok(())
    }
}

/// What the two ends of a link have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Cable in the network.
    pub cable: usize,
    /// Direction in which this end sends.
    pub tx: Dir,
    /// Data VLs of both ends (VL-4: the smaller number).
    pub op_vls: u8,
    /// Most blocks of a packet that both ends take.
    pub packet_blocks: u16,
    /// The neighbour is known to have flow control. Otherwise that shows with its first flow control packet.
    pub peer_has_credits: bool,
}

/// A data packet that has come in, good as far as the link can tell.
#[derive(Debug)]
pub(crate) struct Received {
    pub bytes: Vec<u8>,
    pub lrh: lrh::Repr,
    pub blocks: u16,
}

impl Received {
    /// It goes from this LID to that one. CRCs are the caller's.
    pub fn address(&mut self, slid: u16, dlid: u16) {
        self.bytes[2..4].copy_from_slice(&dlid.to_be_bytes());
        self.bytes[6..8].copy_from_slice(&slid.to_be_bytes());
        (self.lrh.slid, self.lrh.dlid) = (slid, dlid);
    }
}

/// Why a buffer does not take a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The neighbour has sent beyond its credits.
    Overrun,
    /// VL 15 has no credits, so it may find no room.
    Vl15Full,
}

/// Which flow control packets are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Those that say something new.
    News,
    /// Those, and all when their time has come.
    NewsAndRefresh,
}

/// An end of a link.
pub(crate) struct LinkEnd {
    pub wire: Wire,
    tx: [TxCredits; DATA_VLS_MAX],
    rx: [RxCredits; DATA_VLS_MAX],
    /// VL 15 has a buffer too, but promises nothing.
    rx15: RxCredits,
    /// VLs whose neighbour has to hear something now.
    news: u16,
    /// When all have to hear.
    refresh_at: u64,
    fcp_max_cycles: u64,
    /// A flow control packet has come: the neighbour has flow control.
    peer_seen: bool,
    /// The other end was there when it was looked for last.
    is_up: bool,
    pub counters: PortCounters,
    vl_counters: [VlCounters; 16],
    /// Since when a VL has waited for credits.
    waits_since: [Option<u64>; DATA_VLS_MAX],
}

impl LinkEnd {
    pub fn new(config: &LinkConfig, wire: Wire) -> Self {
        let packet_blocks = config.packet_blocks();
        Self {
            wire,
            tx: [TxCredits::new(!wire.peer_has_credits); DATA_VLS_MAX],
            rx: [RxCredits::new(config.buffer_blocks, packet_blocks); DATA_VLS_MAX],
            rx15: RxCredits::new(config.vl15_blocks, packet_blocks),
            news: 0,
            refresh_at: 0,
            fcp_max_cycles: config.fcp_max_cycles,
            peer_seen: false,
            is_up: true,
            counters: PortCounters::default(),
            vl_counters: Default::default(),
            waits_since: [None; DATA_VLS_MAX],
        }
    }

    /// Is the other end there?
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// The cable has come or gone since this was asked last. Credits begin anew; what is in the buffers stays.
    pub fn has_turned(&mut self, cables: &[Cable]) -> bool {
        if !self.is_stale(cables) {
            return false;
        }
        self.is_up = !self.is_up;
        self.counters.link_downed += u64::from(!self.is_up);
        self.tx = [TxCredits::new(!self.wire.peer_has_credits); DATA_VLS_MAX];
        self.peer_seen = false;
        self.news = if self.is_up {
            (1 << self.wire.op_vls) - 1
        } else {
            0
        };
        true
    }

    /// [`LinkEnd::has_turned`] has something to tell.
    pub fn is_stale(&self, cables: &[Cable]) -> bool {
        self.is_up != cables[self.wire.cable].is_up()
    }

    /// Counters of a VL.
    pub fn vl_counters(&self, vl: u8) -> VlCounters {
        let vl = usize::from(vl & 15);
        let rx = self.rx.get(vl).unwrap_or(&self.rx15);
        VlCounters {
            buffer_peak_blocks: rx.peak(),
            ..self.vl_counters[vl]
        }
    }

    /// The receive buffer of a VL.
    pub fn buffer(&self, vl: u8) -> &RxCredits {
        self.rx.get(usize::from(vl)).unwrap_or(&self.rx15)
    }

    /// Blocks that may be sent on a data VL; `None`: without limit.
    pub fn credits(&self, vl: u8) -> Option<u16> {
        self.tx.get(usize::from(vl)).and_then(TxCredits::available)
    }

    /// The next good data packet that has arrived. Link packets are taken in on the way.
    pub fn poll(&mut self, now: u64, cables: &mut [Cable]) -> Option<Received> {
        loop {
            let packet = cables[self.wire.cable].poll(self.wire.tx.reverse(), now)?;
            if LinkKind::InfiniBand.is_link_packet(&packet.bytes) {
                self.hear(&packet.bytes);
                continue;
            }
            if let Some(received) = self.check(packet.bytes) {
                return Some(received);
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let Ok(fcp) = FlowControl::parse(bytes) else {
            self.counters.lpcrc_errors += 1;
            return;
        };
        if fcp.vl >= self.wire.op_vls {
            // A neighbour with more VLs than this link has.
            self.counters.fcp_vl_mismatch += 1;
            return;
        }
        self.counters.fcp_received += 1;
        self.peer_seen = true;
        let vl = usize::from(fcp.vl);
        self.tx[vl].heard(fcp.fccl);
        self.rx[vl].heard(fcp.fctbs);
        // A neighbour that initialises knows nothing of what was sent before, and has to hear it to promise anything.
        if fcp.op == FlowControlOp::Init || self.rx[vl].has_news() {
            self.news |= 1 << vl;
        }
    }

    /// A data packet whose bytes contradict themselves is dropped here: nothing in it can be trusted.
    fn check(&mut self, bytes: Vec<u8>) -> Option<Received> {
        let body = bytes.len().saturating_sub(hca_wire::VCRC_LEN);
        let (covered, found) = bytes.split_at(body);
        let lrh = lrh::Repr::read(covered).ok().filter(|lrh| {
            let vl_there = lrh.vl < self.wire.op_vls || lrh.vl == VL15;
            vl_there
                && usize::from(lrh.pkt_len) * 4 == covered.len()
                && found == crc::vcrc(covered).to_be_bytes()
        });
        let Some(lrh) = lrh else {
            self.counters.port_rcv_errors += 1;
            return None;
        };
        let blocks = blocks(bytes.len()) as u16;
        self.counters.port_rcv_pkts += 1;
        self.counters.port_rcv_bytes += bytes.len() as u64;
        self.vl_counters[usize::from(lrh.vl)].packets_received += 1;
        if let Some(rx) = self.rx.get_mut(usize::from(lrh.vl)) {
            rx.arrived(blocks);
        }
        Some(Received { bytes, lrh, blocks })
    }

    /// Puts a packet into the buffer of its VL. A neighbour without flow control is given all the room it takes.
    pub fn fill(&mut self, vl: u8, blocks: u16) -> Result<(), Refused> {
        let bounded = self.wire.peer_has_credits || self.peer_seen;
        match self.rx.get_mut(usize::from(vl)) {
            Some(rx) if bounded && u32::from(blocks) > rx.free() => {
                self.counters.excessive_buffer_overrun_errors += 1;
                self.news_of(vl);
                return Err(Refused::Overrun);
            }
            Some(rx) => rx.fill(blocks),
            None if u32::from(blocks) > self.rx15.free() => {
                self.counters.vl15_dropped += 1;
                return Err(Refused::Vl15Full);
            }
            None => self.rx15.fill(blocks),
        }
        Ok(())
    }

    /// A packet that came in has left, or was never put into the buffer (0 blocks).
    pub fn drain(&mut self, vl: u8, blocks: u16) {
        match self.rx.get_mut(usize::from(vl)) {
            Some(rx) => rx.drain(blocks),
            None => self.rx15.drain(blocks),
        }
        self.news_of(vl);
    }

    fn news_of(&mut self, vl: u8) {
        if self.is_up && vl < self.wire.op_vls && self.rx[usize::from(vl)].has_news() {
            self.news |= 1 << vl;
        }
    }

    /// The sender's side is ready for a packet.
    pub fn line_ready(&self, now: u64, cables: &[Cable]) -> bool {
        cables[self.wire.cable].ready(self.wire.tx, now)
    }

    /// When it will be.
    pub fn line_ready_cycle(&self, cables: &[Cable]) -> u64 {
        cables[self.wire.cable].ready_cycle(self.wire.tx)
    }

    /// When something arrives.
    pub fn next_arrival(&self, cables: &[Cable]) -> Option<u64> {
        cables[self.wire.cable].next_arrival_cycle(self.wire.tx.reverse())
    }

    /// When all VLs are told of anew.
    pub fn refresh_at(&self) -> u64 {
        self.refresh_at
    }

    /// True where a flow control packet has to go now.
    pub fn has_fcp(&self) -> bool {
        self.news != 0
    }

    /// Makes all flow control packets due whose time has come.
    pub fn refresh(&mut self, now: u64, due: Due) {
        if self.is_up && due == Due::NewsAndRefresh && now >= self.refresh_at {
            self.refresh_at = now + self.fcp_max_cycles;
            self.news |= (1 << self.wire.op_vls) - 1;
        }
    }

    /// Sends the next flow control packet that is due. The line must be ready.
    pub fn send_fcp(&mut self, now: u64, cables: &mut [Cable]) {
        let vl = self.news.trailing_zeros() as usize;
        let (Some(tx), Some(rx)) = (self.tx.get(vl), self.rx.get_mut(vl)) else {
            return;
        };
        self.news &= !(1 << vl);
        let fccl = rx.limit();
        rx.promise(fccl);
        let packet = FlowControl {
            // Without a subnet manager a port is initialised when its neighbour has been heard.
            op: if self.peer_seen {
                FlowControlOp::Normal
            } else {
                FlowControlOp::Init
            },
            vl: vl as u8,
            fctbs: tx.total_blocks_sent(),
            fccl,
        };
        self.counters.fcp_sent += 1;
        self.push(now, cables, &packet.to_bytes());
    }

    fn push(&mut self, now: u64, cables: &mut [Cable], bytes: &[u8]) {
        let pushed = cables[self.wire.cable].push_packet(self.wire.tx, now, bytes);
        // Fails only for a packet that is too long for any cable, so that none can have brought it here.
        self.counters.port_xmit_discards += u64::from(pushed.is_err());
    }

    /// True where the credits of a VL suffice for a packet. VL 15 needs none.
    pub fn may_send(&self, vl: u8, blocks: u16) -> bool {
        self.tx.get(usize::from(vl)).is_none_or(|tx| tx.allow(blocks))
    }

    /// Sends a packet, its VL and VCRC as they have to be on this link. The line must be ready.
    pub fn send(&mut self, now: u64, cables: &mut [Cable], vl: u8, bytes: &[u8]) {
        let blocks = blocks(bytes.len()) as u16;
        self.counters.port_xmit_pkts += 1;
        self.counters.port_xmit_bytes += bytes.len() as u64;
        let counters = &mut self.vl_counters[usize::from(vl & 15)];
        counters.packets_sent += 1;
        counters.blocks_sent += u64::from(blocks);
        if let Some(tx) = self.tx.get_mut(usize::from(vl)) {
            tx.sent(blocks);
        }
        self.push(now, cables, bytes);
    }

    /// Keeps count of the time in which a data VL waits for credits.
    pub fn note_wait(&mut self, now: u64, vl: usize, waits: bool) {
        match (self.waits_since[vl], waits) {
            (None, true) => self.waits_since[vl] = Some(now),
            (Some(since), false) => {
                self.waits_since[vl] = None;
                self.vl_counters[vl].xmit_wait_cycles += now - since;
                self.counters.port_xmit_wait += now - since;
            }
            _ => {}
        }
    }
}
