//! One end of an Ethernet link: what a switch port and a traffic endpoint have in common. Keeps account of what came in
//! by priority, pauses the neighbour and is paused by it.

use hca_link::{Cable, Dir};

use super::frame::{self, EthPriorities, PRIORITIES, Pause, QUANTUM_BITS};
use crate::SwitchError;
use crate::counters::{PortCounters, VlCounters};

/// Longest pause that a frame can ask for.
const QUANTA_MAX: u16 = u16::MAX;
/// A pause that goes on is asked for again when this share of it is over.
const REFRESH_DIVISOR: u64 = 2;
/// Largest buffer.
const BUFFER_BYTES_MAX: u32 = 1 << 28;

/// Priority flow control (IEEE 802.1Qbb) of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PfcConfig {
    /// Priorities that have it, a bit each. The others are not paused, and lose frames when a queue is full.
    pub priorities: u8,
    /// With more than this much of a priority from one port inside, that port's neighbour is paused.
    pub xoff_bytes: u32,
    /// With no more than this much it may send again.
    pub xon_bytes: u32,
    /// Room above `xoff_bytes` for what the neighbour sends before it stops. A neighbour that does not stop overruns
    /// it, and loses frames.
    pub headroom_bytes: u32,
}

impl Default for PfcConfig {
    /// Off; the thresholds suit 100 Gb/s, 100 m and frames of up to 9216 bytes.
    fn default() -> Self {
        Self {
            priorities: 0,
            xoff_bytes: 64 << 10,
            xon_bytes: 48 << 10,
            headroom_bytes: 64 << 10,
        }
    }
}

impl PfcConfig {
    pub(crate) fn check(&self, name: &str) -> Result<(), SwitchError> {
        let limits = [
            ("xoff_bytes", self.xoff_bytes, 1, BUFFER_BYTES_MAX),
            ("xon_bytes", self.xon_bytes, 0, self.xoff_bytes),
            ("headroom_bytes", self.headroom_bytes, 0, BUFFER_BYTES_MAX),
        ];
        for (what, found, low, high) in limits {
            if !(low..=high).contains(&found) {
                let what = format!("{name}: {what}");
                return Err(SwitchError::range(
                    what,
                    found as usize,
                    low as usize,
                    high as usize,
                ));
            }
        }
        Ok(())
    }
}

/// A frame that has come in, and is to be forwarded.
pub(crate) struct Frame {
    pub bytes: Vec<u8>,
    pub dst_mac: [u8; 6],
    pub priority: u8,
}

/// An end of a link.
pub(crate) struct EthEnd {
    cable: usize,
    tx: Dir,
    mac: [u8; 6],
    pfc: PfcConfig,
    priorities: EthPriorities,
    /// Length of a pause quantum.
    quantum_ps: u64,
    cycle_ps: u64,
    /// Bytes of each priority that came in here and are still inside.
    held: [u32; PRIORITIES],
    peak: [u32; PRIORITIES],
    /// Since when the neighbour is to pause: when to say so again.
    pausing: [Option<u64>; PRIORITIES],
    /// Priorities of which the neighbour has to hear now.
    news: u8,
    /// Until when the neighbour has paused us.
    paused_until: [u64; PRIORITIES],
    pub counters: PortCounters,
    priority_counters: [VlCounters; PRIORITIES],
    waits_since: [Option<u64>; PRIORITIES],
}

impl EthEnd {
    pub fn new(pfc: PfcConfig, cable: usize, tx: Dir, cables: &[Cable], mac: [u8; 6]) -> Self {
        let config = cables[cable].config();
        Self {
            cable,
            tx,
            mac,
            pfc,
            priorities: EthPriorities::default(),
            quantum_ps: (u128::from(QUANTUM_BITS) * 1_000_000_000_000 / u128::from(config.rate_bits_per_s))
                as u64,
            cycle_ps: config.cycle_ps,
            held: [0; PRIORITIES],
            peak: [0; PRIORITIES],
            pausing: [None; PRIORITIES],
            news: 0,
            paused_until: [0; PRIORITIES],
            counters: PortCounters::default(),
            priority_counters: Default::default(),
            waits_since: [None; PRIORITIES],
        }
    }

    /// Frames have their priority from here.
    pub fn set_priorities(&mut self, priorities: EthPriorities) {
        self.priorities = priorities;
    }

    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    pub fn cable(&self) -> usize {
        self.cable
    }

    pub fn priority_counters(&self, priority: u8) -> VlCounters {
        let priority = usize::from(priority & 7);
        VlCounters {
            buffer_peak_blocks: self.peak[priority].div_ceil(hca_wire::BLOCK_BYTES as u32),
            ..self.priority_counters[priority]
        }
    }

    /// Most bytes of a priority that ever were inside from here.
    pub fn peak_bytes(&self, priority: u8) -> u32 {
        self.peak[usize::from(priority & 7)]
    }

    /// Bytes of a priority that are inside from here.
    pub fn held_bytes(&self, priority: u8) -> u32 {
        self.held[usize::from(priority & 7)]
    }

    pub fn has_pfc(&self, priority: usize) -> bool {
        self.pfc.priorities >> priority & 1 == 1
    }

    /// True while the neighbour is to pause a priority.
    pub fn is_pausing(&self, priority: u8) -> bool {
        self.pausing[usize::from(priority & 7)].is_some()
    }

    /// The next frame to be forwarded. Pause frames are obeyed on the way.
    pub fn poll(&mut self, now: u64, cables: &mut [Cable]) -> Option<Frame> {
        loop {
            let bytes = cables[self.cable].poll(self.tx.reverse(), now)?.bytes;
            if let Some(pause) = frame::read_pause(&bytes) {
                self.obey(now, &pause);
                continue;
            }
            let Ok(header) = hca_wire::ethernet::Repr::read(&bytes) else {
                self.counters.port_rcv_errors += 1;
                continue;
            };
            let priority = self.priorities.of(&bytes);
            self.counters.port_rcv_pkts += 1;
            self.counters.port_rcv_bytes += bytes.len() as u64;
            self.priority_counters[usize::from(priority)].packets_received += 1;
            return Some(Frame {
                bytes,
                dst_mac: header.dst_mac,
                priority,
            });
        }
    }

    fn obey(&mut self, now: u64, pause: &Pause) {
        self.counters.fcp_received += 1;
        for (priority, quanta) in pause.iter().enumerate() {
            if let Some(quanta) = quanta
                && self.has_pfc(priority)
            {
                self.paused_until[priority] = now + self.cycles(*quanta);
            }
        }
    }

    fn cycles(&self, quanta: u16) -> u64 {
        (u64::from(quanta) * self.quantum_ps).div_ceil(self.cycle_ps)
    }

    /// A frame goes into the buffer; false: there is no room, because the neighbour has not paused.
    pub fn fill(&mut self, priority: u8, bytes: u32) -> bool {
        let priority = usize::from(priority & 7);
        let held = self.held[priority] + bytes;
        if self.has_pfc(priority) {
            if held > self.pfc.xoff_bytes + self.pfc.headroom_bytes {
                self.counters.excessive_buffer_overrun_errors += 1;
                return false;
            }
            if held > self.pfc.xoff_bytes && self.pausing[priority].is_none() {
                self.pausing[priority] = Some(0);
                self.news |= 1 << priority;
            }
        }
        self.held[priority] = held;
        self.peak[priority] = self.peak[priority].max(held);
        true
    }

    /// A frame has left the buffer.
    pub fn drain(&mut self, priority: u8, bytes: u32) {
        let priority = usize::from(priority & 7);
        self.held[priority] = self.held[priority].saturating_sub(bytes);
        if self.held[priority] <= self.pfc.xon_bytes && self.pausing[priority].take().is_some() {
            self.news |= 1 << priority;
        }
    }

    pub fn line_ready(&self, now: u64, cables: &[Cable]) -> bool {
        cables[self.cable].ready(self.tx, now)
    }

    pub fn line_ready_cycle(&self, cables: &[Cable]) -> u64 {
        cables[self.cable].ready_cycle(self.tx)
    }

    pub fn next_arrival(&self, cables: &[Cable]) -> Option<u64> {
        cables[self.cable].next_arrival_cycle(self.tx.reverse())
    }

    /// When a pause has to be asked for again.
    pub fn refresh_at(&self) -> Option<u64> {
        let waiting = |(priority, at): (usize, &Option<u64>)| at.filter(|_| self.news >> priority & 1 == 0);
        self.pausing.iter().enumerate().filter_map(waiting).min()
    }

    /// Makes pause frames due whose time has come.
    pub fn refresh(&mut self, now: u64) {
        for (priority, at) in self.pausing.iter().enumerate() {
            if at.is_some_and(|at| at <= now) {
                self.news |= 1 << priority;
            }
        }
    }

    /// True where a pause frame has to go now.
    pub fn has_pause(&self) -> bool {
        self.news != 0
    }

    /// Sends the pause frame that is due. The line must be ready.
    pub fn send_pause(&mut self, now: u64, cables: &mut [Cable]) {
        let mut pause = Pause::default();
        let refresh_at = now + self.cycles(QUANTA_MAX) / REFRESH_DIVISOR;
        for (priority, quanta) in pause.iter_mut().enumerate() {
            if self.news >> priority & 1 == 0 {
                continue;
            }
            *quanta = Some(match &mut self.pausing[priority] {
                Some(at) => {
                    *at = refresh_at;
                    QUANTA_MAX
                }
                None => 0,
            });
        }
        self.news = 0;
        self.counters.fcp_sent += 1;
        self.push(now, cables, &frame::pause_frame(&pause, self.mac));
    }

    /// True where the neighbour takes a priority.
    pub fn may_send(&self, now: u64, priority: usize) -> bool {
        self.paused_until[priority] <= now
    }

    /// When it will, if it says nothing more.
    pub fn paused_until(&self, priority: usize) -> u64 {
        self.paused_until[priority]
    }

    /// Sends a frame. The line must be ready.
    pub fn send(&mut self, now: u64, cables: &mut [Cable], priority: u8, bytes: &[u8]) {
        self.counters.port_xmit_pkts += 1;
        self.counters.port_xmit_bytes += bytes.len() as u64;
        let counters = &mut self.priority_counters[usize::from(priority & 7)];
        counters.packets_sent += 1;
        counters.blocks_sent += hca_wire::blocks(bytes.len()) as u64;
        self.push(now, cables, bytes);
    }

    fn push(&mut self, now: u64, cables: &mut [Cable], bytes: &[u8]) {
        let pushed = cables[self.cable].push_packet(self.tx, now, bytes);
        // Fails only for a frame that is too long for any cable, so that none can have brought it here.
        self.counters.port_xmit_discards += u64::from(pushed.is_err());
    }

    /// Keeps count of the time in which a priority is paused with something to send.
    pub fn note_wait(&mut self, now: u64, priority: usize, waits: bool) {
        match (self.waits_since[priority], waits) {
            (None, true) => self.waits_since[priority] = Some(now),
            (Some(since), false) => {
                self.waits_since[priority] = None;
                self.priority_counters[priority].xmit_wait_cycles += now - since;
                self.counters.port_xmit_wait += now - since;
            }
            _ => {}
        }
    }
}
