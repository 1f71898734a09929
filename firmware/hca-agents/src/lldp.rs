//! The agent of an Ethernet port that tells its neighbour who it is, and keeps what the neighbour tells (IEEE 802.1AB):
//! frames in, frames out, times passed in. What a neighbour says is kept as it came; who shows it reads it.

use hca_wire::lldp::{self, Ets, Pfc, capability};
use hca_wire::{ETHERTYPE_LLDP, ethernet};

/// Longest frame that is kept, and that hardware gives to firmware.
pub const FRAME_MAX: usize = 512;
/// Longest LLDPDU.
pub const LLDPDU_MAX: usize = FRAME_MAX - ethernet::LEN;
/// Shortest frame, without its check sequence.
const FRAME_MIN: usize = 60;
/// msgTxInterval, and the time that the neighbour keeps what it hears: msgTxHold of these, and a second.
const INTERVAL_US: u64 = 30_000_000;
const TTL_S: u16 = 4 * 30 + 1;
/// msgFastTx and txFastInit: so often after a beginning, and when a new neighbour is heard.
const FAST_INTERVAL_US: u64 = 1_000_000;
const FAST_FRAMES: u8 = 4;
/// Between two frames, at least: never more than txCreditMax allows.
const SPACING_US: u64 = 1_000_000;
const US_PER_S: u64 = 1_000_000;

/// What a port says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The port's address: the frame's source, and its Port ID.
    pub mac: [u8; 6],
    /// Chassis ID.
    pub chassis: [u8; 6],
    /// From 1, at most 9.
    pub port: u8,
    /// At most 64 bytes.
    pub name: &'a [u8],
    /// At most 64 bytes.
    pub description: &'a [u8],
    /// A bridge; else a station.
    pub is_bridge: bool,
    /// Address family (`lldp::FAMILY_IPV4`, ..) and address where it can be managed.
    pub address: Option<(u8, &'a [u8])>,
    /// How its classes share the link.
    pub ets: Ets,
    /// Its flow control.
    pub pfc: Pfc,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// LLDPDUs sent.
    pub sent: u32,
    /// LLDPDUs that came.
    pub received: u32,
    /// Those of them that were malformed, and count nothing.
    pub malformed: u32,
    /// Neighbours forgotten because they fell silent.
    pub aged_out: u32,
    /// Neighbours forgotten because another one came.
    pub replaced: u32,
}

/// What the neighbour has said.
#[derive(Clone, Copy)]
struct Neighbour {
    /// Bytes in use of the LLDPDU; 0: there is none.
    len: usize,
    lldpdu: [u8; LLDPDU_MAX],
    until_us: u64,
}

/// The agent of a port.
#[derive(Clone, Copy)]
pub struct Agent {
    is_on: bool,
    /// It says once more that what it said is no longer true.
    is_leaving: bool,
    /// When the next frame goes; `None`: it is off, or the link is down.
    due_us: Option<u64>,
    spaced_us: u64,
    fast_left: u8,
    neighbour: Neighbour,
    counters: Counters,
}

impl Agent {
    /// Says nothing.
    pub const fn new() -> Self {
        Self {
            is_on: false,
            is_leaving: false,
            due_us: None,
            spaced_us: 0,
            fast_left: 0,
            neighbour: Neighbour {
                len: 0,
                lldpdu: [0; LLDPDU_MAX],
                until_us: 0,
            },
            counters: Counters {
                sent: 0,
                received: 0,
                malformed: 0,
                aged_out: 0,
                replaced: 0,
            },
        }
    }

    /// It speaks.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Has it speak, or take back what it has said.
    pub fn set_on(&mut self, is_on: bool) {
        if self.is_on != is_on {
            (self.is_on, self.is_leaving) = (is_on, !is_on);
            self.hurry();
        }
    }

    /// The link is up again.
    pub fn link_up(&mut self) {
        if self.is_on {
            self.hurry();
        }
    }

    /// The link is down: nothing can be said, and nobody is waiting for it.
    pub fn link_down(&mut self) {
        self.due_us = None;
        self.is_leaving = false;
    }

    /// What it says of itself has changed.
    pub fn changed(&mut self) {
        if let Some(due_us) = &mut self.due_us {
            *due_us = self.spaced_us.min(*due_us);
        }
    }

    /// The next frames follow each other fast.
    fn hurry(&mut self) {
        self.fast_left = FAST_FRAMES;
        self.due_us = Some(self.spaced_us);
    }

    /// When [`Agent::take_due`] has something to say.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// When something changes though nobody says anything: a frame is due, or a neighbour's time is over.
    pub fn wakes_us(&self) -> Option<u64> {
        let until_us = (self.neighbour.len != 0).then_some(self.neighbour.until_us);
        [self.due_us, until_us].into_iter().flatten().min()
    }

    /// What is to be said now, if anything: its time has come.
    pub fn take_due(&mut self, now_us: u64) -> Option<Frame> {
        self.due_us.filter(|due_us| *due_us <= now_us)?;
        let frame = Frame {
            is_there: !self.is_leaving,
        };
        self.is_leaving = false;
        self.spaced_us = now_us + SPACING_US;
        self.fast_left = self.fast_left.saturating_sub(1);
        let interval_us = if self.fast_left == 0 {
            INTERVAL_US
        } else {
            FAST_INTERVAL_US
        };
        self.due_us = self.is_on.then_some(now_us + interval_us);
        self.counters.sent = self.counters.sent.saturating_add(1);
        Some(frame)
    }

    /// A frame has come. One that is no LLDPDU for the neighbour of a cable is none of its business.
    pub fn receive(&mut self, now_us: u64, frame: &[u8]) {
        let Some((header, lldpdu)) = frame.split_at_checked(ethernet::LEN) else {
            return;
        };
        if !header.starts_with(&lldp::MAC) || header[12..] != ETHERTYPE_LLDP.to_be_bytes() {
            return;
        }
        self.age(now_us);
        self.counters.received = self.counters.received.saturating_add(1);
        let head = lldp::check(lldpdu);
        let (Ok(head), Some(said)) = (head, head.ok().and_then(|head| lldpdu.get(..head.bytes))) else {
            self.counters.malformed = self.counters.malformed.saturating_add(1);
            return;
        };
        let known = lldp::check(self.heard());
        let is_known =
            known.is_ok_and(|old| (old.chassis_id, old.port_id) == (head.chassis_id, head.port_id));
        if head.ttl_s == 0 {
            // One who leaves has been there.
            self.neighbour.len = if is_known { 0 } else { self.neighbour.len };
            return;
        }
        let Some(place) = self.neighbour.lldpdu.get_mut(..said.len()) else {
            self.counters.malformed = self.counters.malformed.saturating_add(1);
            return;
        };
        place.copy_from_slice(said);
        if !is_known {
            self.counters.replaced = self
                .counters
                .replaced
                .saturating_add(u32::from(self.neighbour.len != 0));
            if self.is_on && self.due_us.is_some() {
                self.hurry();
            }
        }
        self.neighbour.len = said.len();
        self.neighbour.until_us = now_us + u64::from(head.ttl_s) * US_PER_S;
    }

    /// Forgets a neighbour whose time is over.
    pub fn age(&mut self, now_us: u64) {
        if self.neighbour.len != 0 && self.neighbour.until_us <= now_us {
            self.neighbour.len = 0;
            self.counters.aged_out = self.counters.aged_out.saturating_add(1);
        }
    }

    fn heard(&self) -> &[u8] {
        self.neighbour.lldpdu.get(..self.neighbour.len).unwrap_or(&[])
    }

    /// The TLVs of the neighbour, without an end, and microseconds until it is forgotten; none: there is nobody.
    pub fn neighbour(&mut self, now_us: u64) -> (&[u8], u64) {
        self.age(now_us);
        (self.heard(), self.neighbour.until_us.saturating_sub(now_us))
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

/// A frame that grows.
struct Writer<'a> {
    out: &'a mut [u8; FRAME_MAX],
    len: usize,
}

impl Writer<'_> {
    /// Bytes that find no room are left out; those of [`Facts`] always do.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// A TLV, in parts.
    fn tlv(&mut self, kind: u8, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.put(&[kind << 1 | (length >> 8) as u8 & 1, length as u8]);
        parts.iter().for_each(|part| self.put(part));
    }
}

/// A frame that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Else: what was said is true no longer.
    is_there: bool,
}

impl Frame {
    /// Writes it, a multiple of 4 bytes, and says how many.
    pub fn write(self, facts: &Facts<'_>, out: &mut [u8; FRAME_MAX]) -> usize {
        let mut w = Writer { out, len: 0 };
        w.put(&lldp::MAC);
        w.put(&facts.mac);
        w.put(&ETHERTYPE_LLDP.to_be_bytes());
        w.tlv(lldp::CHASSIS_ID, &[&[lldp::CHASSIS_MAC], &facts.chassis]);
        w.tlv(lldp::PORT_ID, &[&[lldp::PORT_MAC], &facts.mac]);
        let ttl_s = if self.is_there { TTL_S } else { 0 };
        w.tlv(lldp::TTL, &[&ttl_s.to_be_bytes()]);
        if self.is_there {
            w.describe(facts);
        }
        w.tlv(lldp::END, &[]);
        // The end's zeros go on to the end of the frame.
        while w.len < FRAME_MIN || !w.len.is_multiple_of(4) {
            w.put(&[0]);
        }
        w.len
    }
}

impl Writer<'_> {
    /// The TLVs that need not be there.
    fn describe(&mut self, facts: &Facts<'_>) {
        self.tlv(lldp::PORT_DESCRIPTION, &[b"port ", &[b'0' + facts.port % 10]]);
        self.tlv(lldp::SYSTEM_NAME, &[facts.name]);
        self.tlv(lldp::SYSTEM_DESCRIPTION, &[facts.description]);
        let what = if facts.is_bridge {
            capability::BRIDGE
        } else {
            capability::STATION
        };
        self.tlv(lldp::CAPABILITIES, &[&what.to_be_bytes(), &what.to_be_bytes()]);
        if let Some((family, address)) = facts.address {
            let head = [1 + address.len() as u8, family];
            // Interface number, and an object identifier of no bytes.
            let tail = [lldp::NUMBERS_PORTS, 0, 0, 0, facts.port, 0];
            self.tlv(lldp::MANAGEMENT_ADDRESS, &[&head, address, &tail]);
        }
        self.of_8021(lldp::ETS_CONFIGURATION, &facts.ets.write());
        self.of_8021(lldp::PFC_CONFIGURATION, &facts.pfc.write());
    }

    fn of_8021(&mut self, subtype: u8, value: &[u8]) {
        self.tlv(lldp::ORGANIZATION, &[&lldp::OUI_8021, &[subtype], value]);
    }
}

#[cfg(test)]
#[path = "lldp_tests.rs"]
mod tests;
