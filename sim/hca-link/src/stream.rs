//! From whole packets back to beats.

use crate::clock::Line;
use crate::{Cable, CableConfig, Dir, Packet};

/// Part of a packet for one cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat<'a> {
    /// Up to [`CableConfig::BEAT_BYTES`] bytes; less only in the last beat.
    pub bytes: &'a [u8],
    /// First beat of the packet.
    pub first: bool,
    /// Last beat of the packet.
    pub last: bool,
}

/// Hands the packets of one direction to a receiver beat by beat, at no more than the line rate.
///
/// A receiver calls [`BeatStream::fetch`] and looks at [`BeatStream::beat`] each cycle, and calls
/// [`BeatStream::advance`] when it has taken the beat. With [`crate::Delivery::FirstBeat`] the last beat comes with the
/// packet's last bit; the packet cannot start before it has wholly been sent, so this needs a cable whose latency is
/// not shorter than the packet.
#[derive(Debug)]
pub struct BeatStream {
    dir: Dir,
    line: Line,
    current: Option<Packet>,
    at: usize,
}

impl BeatStream {
    /// A stream for one direction of a cable of this configuration.
    pub fn new(config: &CableConfig, dir: Dir) -> Self {
        let line = Line::new(config.rate_bits_per_s, config.cycle_ps);
        Self {
            dir,
            line,
            current: None,
            at: 0,
        }
    }

    /// Takes the next packet off the cable where the receiver is ready for it: to be done in each cycle before
    /// [`BeatStream::beat`].
    pub fn fetch(&mut self, cable: &mut Cable, now_cycle: u64) {
        if self.current.is_none() && self.line.ready(now_cycle) {
            self.current = cable.poll(self.dir, now_cycle);
            self.at = 0;
        }
    }

    /// The packet under way breaks off: the cable is down.
    pub fn cut(&mut self) {
        self.current = None;
    }

    /// The beat that stands at the receiver in this cycle. It stays until it is taken.
    pub fn beat(&self, now_cycle: u64) -> Option<Beat<'_>> {
        if !self.line.ready(now_cycle) {
            return None;
        }
        let bytes = &self.current.as_ref()?.bytes;
        let end = (self.at + CableConfig::BEAT_BYTES).min(bytes.len());
        Some(Beat {
            bytes: &bytes[self.at..end],
            first: self.at == 0,
            last: end == bytes.len(),
        })
    }

    /// The receiver has taken the beat.
    pub fn advance(&mut self, now_cycle: u64) {
        let Some(packet) = &self.current else { return };
        let end = (self.at + CableConfig::BEAT_BYTES).min(packet.bytes.len());
        self.line.send(now_cycle, (end - self.at) as u64);
        self.at = end;
        if end == packet.bytes.len() {
            self.current = None;
        }
    }

    /// The direction it hands out.
    pub fn dir(&self) -> Dir {
        self.dir
    }

    /// True where a packet is under way to the receiver, so that no cycle may be skipped.
    pub fn is_busy(&self) -> bool {
        self.current.is_some()
    }
}
