//! The end of a cable that leads out of the simulator.
//!
//! Frames of the peer come in when its thread has them, so a fabric with such an end is not the same in two runs.

use hca_link::{Cable, CableConfig, Dir, LinkKind};
use hca_outside::Wire;

use crate::SimError;

/// A wire that leaves a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutsideId(pub(crate) usize);

/// The wire, and the cable that leads to it.
pub struct Outside {
    wire: Wire,
    /// The cable, and the direction into it.
    at: Option<(usize, Dir)>,
}

impl Outside {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, at: None }
    }

    /// The wire.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Whether it can have this cable.
    pub(crate) fn check(&self, config: &CableConfig) -> Result<(), SimError> {
        let name = || format!("the wire {}", self.wire.address());
        if config.kind != LinkKind::Ethernet {
            return Err(SimError::OutsideKind(name()));
        }
        if self.at.is_some() {
            return Err(SimError::PortTaken(name()));
        }
        Ok(())
    }

    pub(crate) fn attach(&mut self, cable: usize, into: Dir) {
        self.at = Some((cable, into));
    }

    /// To be called when a capture of a cable has been opened.
    pub(crate) fn captured(&self, captured: usize) {
        if self.at.is_some_and(|(cable, _)| cable == captured) {
            self.wire.keep_aside();
        }
    }

    /// Puts into the captures what the wire has answered itself so far.
    #[inline]
    pub(crate) fn capture_aside(&self, now: u64, cables: &mut [Cable]) {
        let Some((cable, into)) = self.at else { return };
        while let Some((came, frame)) = self.wire.take_aside() {
            cables[cable].capture_aside(if came { into } else { into.reverse() }, now, &frame);
        }
    }

    /// The first cycle in which it has something to do, if that is known already.
    #[inline]
    pub(crate) fn next_event(&self, cables: &[Cable]) -> Option<u64> {
        let (cable, into) = self.at?;
        if self.wire.has_aside() {
            return Some(0);
        }
        let inward = self.wire.has_frame().then(|| cables[cable].ready_cycle(into));
        let outward = cables[cable].next_arrival_cycle(into.reverse());
        inward.into_iter().chain(outward).min()
    }

    /// One cycle: what has come goes into the cable at its rate, and what arrives at its end leaves.
    #[inline]
    pub(crate) fn step(&self, now: u64, cables: &mut [Cable]) {
        let Some((cable, into)) = self.at else { return };
        self.capture_aside(now, cables);
        let cable = &mut cables[cable];
        while cable.ready(into, now)
            && let Some(frame) = self.wire.take()
        {
            // The longest frame of a wire fits into every cable.
            let _ = cable.push_packet(into, now, &frame);
        }
        while let Some(packet) = cable.poll(into.reverse(), now) {
            self.wire.send(&packet.bytes);
        }
    }
}

const _: () = assert!(hca_outside::FRAME_BYTES_MAX <= hca_link::PACKET_BYTES_MAX);
