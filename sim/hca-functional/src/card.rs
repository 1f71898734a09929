//! The card as its owner sees it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use hca_abi::MGMT_VL;
use hca_fw_core::{NUM_FUNCS, NUM_QPS};
use hca_model::Frame;
use hca_regs as reg;
use hca_wire::Link;

use crate::HostPort;
use crate::body::Body;
use crate::lines::Lines;
use crate::management::{is_for_agent, is_lldp, is_smp, with_crcs, without_crcs};
pub use crate::port::PortCounters;

/// Packets to itself that a card takes at a time.
const LOOPED_MAX: usize = 16;

/// A packet that leaves.
pub enum Outgoing {
    /// As bytes.
    Bytes(Vec<u8>),
    /// Of a connection, not written out: another card can take it so ([`Card::receive_frame`]).
    Frame {
        /// The packet.
        frame: Box<Frame>,
        /// Bytes that it has when it is written.
        len_bytes: usize,
    },
}

impl Outgoing {
    /// The packet as bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            // What a QP makes has the headers of its opcode.
            Self::Frame { frame, .. } => frame.emit().unwrap_or_default(),
        }
    }
}

/// Packets in the middle of a message that leave next.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub len_bytes: usize,
    /// They are data that the peer has asked for, and waits for with a timer.
    pub is_awaited: bool,
}

/// Where a packet has gone that was sent.
pub(crate) enum Sent {
    /// Out of the port; and whose it was.
    Out(Outgoing, Option<u32>),
    /// Not further than the card: to itself, or nowhere.
    Inside,
}

/// See the head of the crate.
pub struct Card {
    pub(crate) body: Body,
    pub(crate) lines: Lines,
    pub(crate) func_regs: Vec<BTreeMap<u32, u32>>,
    pub(crate) admin_producer: [u16; NUM_FUNCS],
    pub(crate) regs: HashMap<u32, u32>,
    pub(crate) mailbox: Vec<u8>,
    pub(crate) dma_error: bool,
    pub(crate) ctx_error: bool,
    /// Packets of management datagrams for firmware, with their ports from 0, and from it.
    pub(crate) mads: VecDeque<(u8, Vec<u8>)>,
    pub(crate) mads_to_send: VecDeque<(u8, Vec<u8>)>,
    /// It has more to do in the next cycle.
    is_busy: bool,
}

impl Card {
    /// A card out of reset, with so many ports, so many interrupt vectors for each function, and a clock.
    pub fn new(ports: u8, vectors: u16, cycle_ps: u64) -> Self {
        Self {
            body: Body::new(ports, vectors, cycle_ps),
            lines: Lines::new(NUM_QPS, ports.into()),
            func_regs: vec![BTreeMap::new(); NUM_FUNCS],
            admin_producer: [0; NUM_FUNCS],
            regs: HashMap::new(),
            mailbox: vec![0; reg::MAILBOX_BYTES as usize],
            dma_error: false,
            ctx_error: false,
            mads: VecDeque::new(),
            mads_to_send: VecDeque::new(),
            is_busy: false,
        }
    }

    /// Time has come to cycle `now`: what waits for it is done.
    #[inline]
    pub fn advance(&mut self, host: &mut dyn HostPort, now: u64) {
        self.body.now = now;
        self.is_busy = false;
        self.body.cq_time(host);
        self.body.give_links_up();
        self.lines.handle_timeouts(&mut self.body, host);
    }

    /// The other end of a port's cable is there, or not. Ports count from 0 here.
    pub fn set_link_up(&mut self, port: usize, is_up: bool) {
        self.body.set_link_up(port, is_up);
    }

    /// What a port has counted.
    pub fn counters(&self, port: usize) -> &PortCounters {
        &self.body.ports[port].counters
    }

    /// A port may have something to send.
    #[inline]
    pub fn wants_to_send(&self, port: usize) -> bool {
        // It is asked for more often than anything: most of the time firmware has nothing to send.
        self.lines.has_ready(port)
            || (!self.mads_to_send.is_empty()
                && self.mads_to_send.iter().any(|(of, _)| usize::from(*of) == port))
    }

    /// The first cycle in which it has something to do by itself.
    #[inline]
    pub fn next_event(&self) -> Option<u64> {
        let lines = self.lines.next_timeout();
        let lines = lines.map(|ns| (ns * 1_000).div_ceil(self.body.cycle_ps));
        let cqs = self.body.cq_timers.first_key_value().map(|((at, _), ())| *at);
        let links = (0..self.body.ports.len()).filter_map(|port| self.body.link_timer(port));
        let busy = self.is_busy.then_some(self.body.now + 1);
        links.chain(lines).chain(cqs).chain(busy).min()
    }

    /// The next packet that leaves through a port now.
    ///
    /// With it comes whose it is, for [`Card::packet_left`].
    pub fn transmit(&mut self, host: &mut dyn HostPort, port: usize) -> Option<(Outgoing, Option<u32>)> {
        for _ in 0..LOOPED_MAX {
            match self.send_next(host, port)? {
                Sent::Out(packet, line) => return Some((packet, line)),
                Sent::Inside => {}
            }
        }
        self.is_busy = true;
        None
    }

    /// Sends the next packet of a port; `None`: nobody has any.
    pub(crate) fn send_next(&mut self, host: &mut dyn HostPort, port: usize) -> Option<Sent> {
        if let Some(bytes) = self.next_of_firmware(port) {
            return Some(self.send_bytes(host, port, bytes, None));
        }
        let (line, mut frame) = self.lines.next_packet(&mut self.body, host, port)?;
        // Others are lost, as on a wire without an end.
        if !self.put_on_its_lane(port, &mut frame) {
            return Some(Sent::Inside);
        }
        // What a datagram's receiver is told of its way is in the bytes of its headers, as they are when it is sent.
        if frame.packet.opcode.service() == hca_wire::Service::Ud {
            return Some(match frame.emit() {
                Some(bytes) => self.send_bytes(host, port, bytes, Some(line)),
                None => Sent::Inside,
            });
        }
        let len_bytes = frame.len_bytes();
        self.count_sent(port, len_bytes, 1);
        let ways = self.body.ways(port, &frame.link);
        let leaves = ways.to_others && !ways.to_self;
        self.lines
            .packet_leaves(line, &frame, leaves.then_some(len_bytes));
        if ways.to_self {
            self.take(host, port, &frame, len_bytes);
        }
        Some(match ways.to_others {
            true => Sent::Out(Outgoing::Frame { frame, len_bytes }, Some(line)),
            false => Sent::Inside,
        })
    }

    fn count_sent(&mut self, port: usize, len_bytes: usize, packets: u32) {
        let counters = &mut self.body.ports[port].counters;
        counters.tx_packets += u64::from(packets);
        counters.tx_bytes += u64::from(packets) * len_bytes as u64;
    }

    fn send_bytes(
        &mut self,
        host: &mut dyn HostPort,
        port: usize,
        bytes: Vec<u8>,
        line: Option<u32>,
    ) -> Sent {
        self.count_sent(port, bytes.len(), 1);
        // As it has become by being sent: lengths and checksums are made with its bytes.
        let frame = Frame::parse(self.body.framing(port), &bytes);
        let ways = frame.as_ref().map(|frame| self.body.ways(port, &frame.link));
        if let Some(frame) = frame.filter(|_| ways.is_some_and(|ways| ways.to_self)) {
            self.take_bytes(host, port, &frame, &bytes);
        }
        match ways.is_none_or(|ways| ways.to_others) {
            true => Sent::Out(Outgoing::Bytes(bytes), line),
            false => Sent::Inside,
        }
    }

    /// Packets that leave next through a port, if nothing happens, and that nobody misses before the one behind them
    /// comes.
    #[inline]
    pub fn middles_ahead(&self, port: usize) -> Option<Ahead> {
        if !self.mads_to_send.is_empty() || !self.body.ports[port].is_active() {
            return None;
        }
        self.lines.middles_ahead(port)
    }

    /// So many of those as one packet, the last of which left in cycle `at`: the present one, or one before it.
    pub fn take_middles(
        &mut self,
        host: &mut dyn HostPort,
        port: usize,
        (count, at): (u32, u64),
    ) -> Option<(Box<Frame>, usize)> {
        let now = std::mem::replace(&mut self.body.now, at);
        let frame = self.lines.take_middles(&mut self.body, host, port, count);
        self.body.now = now;
        let frame = frame?;
        let len_bytes = frame.len_bytes();
        self.count_sent(port, len_bytes, count);
        Some((frame, len_bytes))
    }

    /// A packet that waited behind the port for credits has left in this cycle.
    pub fn packet_left(&mut self, line: u32) {
        self.lines.packet_left(&self.body, line);
    }

    /// Gives a packet the VL that its SL has now (VL-8). False: the SL has none, or the port carries no data.
    fn put_on_its_lane(&self, port: usize, frame: &mut Frame) -> bool {
        if is_smp(frame) {
            return true;
        }
        let port = &self.body.ports[port];
        if let Link::InfiniBand { lrh, .. } = &mut frame.link {
            lrh.vl = port.vl_of(lrh.sl);
            if u32::from(lrh.vl) == MGMT_VL {
                return false;
            }
        }
        port.is_active()
    }

    /// The next packet of firmware through a port.
    fn next_of_firmware(&mut self, port: usize) -> Option<Vec<u8>> {
        if self.mads_to_send.is_empty() {
            return None;
        }
        let at = self
            .mads_to_send
            .iter()
            .position(|(of, _)| usize::from(*of) == port)?;
        let (_, packet) = self.mads_to_send.remove(at)?;
        Some(match self.body.ports[port].is_infiniband {
            true => with_crcs(packet),
            false => packet,
        })
    }

    /// A packet has come through a port.
    pub fn receive(&mut self, host: &mut dyn HostPort, port: usize, bytes: &[u8]) {
        let framing = self.body.framing(port);
        if is_lldp(framing, bytes) {
            return self.mad_arrives(port as u8, bytes.to_vec());
        }
        let Some(frame) = Frame::parse(framing, bytes) else {
            self.body.ports[port].counters.rx_crc_errors += 1;
            return;
        };
        if is_smp(&frame) || self.is_welcome(port, &frame) {
            self.take_bytes(host, port, &frame, bytes);
        } else {
            self.body.ports[port].counters.rx_drops += 1;
        }
    }

    /// A packet has come through a port as another card has left it ([`Outgoing::Frame`]).
    pub fn receive_frame(&mut self, host: &mut dyn HostPort, port: usize, frame: &Frame, len_bytes: usize) {
        let packets = u64::from(frame.packet.count);
        if frame.link.framing() != self.body.framing(port) {
            self.body.ports[port].counters.rx_crc_errors += packets;
        } else if self.is_welcome(port, frame) {
            self.take(host, port, frame, len_bytes);
        } else {
            self.body.ports[port].counters.rx_drops += packets;
        }
    }

    fn is_welcome(&self, port: usize, frame: &Frame) -> bool {
        self.body.ports[port].is_active() && self.body.is_for(port, &frame.link)
    }

    fn count_received(&mut self, port: usize, len_bytes: usize, packets: u32) {
        let counters = &mut self.body.ports[port].counters;
        counters.rx_packets += u64::from(packets);
        counters.rx_bytes += u64::from(packets) * len_bytes as u64;
    }

    fn take_bytes(&mut self, host: &mut dyn HostPort, port: usize, frame: &Frame, bytes: &[u8]) {
        if is_for_agent(frame) {
            self.count_received(port, bytes.len(), 1);
            return self.mad_arrives(port as u8, without_crcs(bytes.to_vec()));
        }
        self.take(host, port, frame, bytes.len());
    }

    fn take(&mut self, host: &mut dyn HostPort, port: usize, frame: &Frame, len_bytes: usize) {
        self.count_received(port, len_bytes, frame.packet.count);
        // A connection's packet has one QP.
        if let Some(line) = self.body.only_taker(port, frame) {
            return self.lines.receive(&mut self.body, host, port, line, frame);
        }
        let takers = self.body.takers(port, frame);
        if takers.is_empty() {
            self.body.ports[port].counters.stray_packets += u64::from(frame.packet.count);
        }
        for line in takers {
            self.lines.receive(&mut self.body, host, port, line, frame);
        }
    }
}
