//! The event ring.

use hca_abi::Eqe;
use hca_dev::DmaBuf;

use crate::DevicePtr;
use crate::doorbell::Doorbells;
use crate::owner::{is_ours, read_entry};

const OWNER_OFFSET: usize = 60;

/// Takes events out of a ring.
#[derive(Debug)]
pub struct EqRing {
    ring: DmaBuf,
    eqn: u8,
    log_size: u8,
    next: u16,
    told: u16,
}

impl EqRing {
    /// Bytes of a ring.
    pub fn ring_bytes(log_size: u8) -> usize {
        Eqe::BYTES << log_size
    }

    /// The ring of an EQ that the card has just been told of; `ring` is zeroed and has
    /// [`EqRing::ring_bytes`].
    pub fn new(ring: DmaBuf, eqn: u8, log_size: u8) -> Self {
        Self {
            ring,
            eqn,
            log_size,
            next: 0,
            told: 0,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &DmaBuf {
        &self.ring
    }

    /// The oldest event. Finding none tells the card what was consumed.
    pub fn poll<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>) -> Option<Eqe> {
        let at = (usize::from(self.next) & ((1 << self.log_size) - 1)) * Eqe::BYTES;
        if !is_ours(&self.ring, at + OWNER_OFFSET, self.next.into(), self.log_size) {
            if self.told != self.next {
                self.tell(doorbells);
            }
            return None;
        }
        let eqe = Eqe(read_entry(&self.ring, at));
        self.next = self.next.wrapping_add(1);
        if u32::from(self.next.wrapping_sub(self.told)) >= (1u32 << self.log_size).div_ceil(4) {
            self.tell(doorbells);
        }
        Some(eqe)
    }

    fn tell<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>) {
        doorbells.eq(self.eqn, self.next);
        self.told = self.next;
    }
}
