//! The event ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use hca_abi::Eqe;
use hca_dev::DmaBuf;

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::owner::{is_ours, phase_of, read_entry};

const OWNER_OFFSET: usize = 60;

/// Takes events out of a ring.
#[derive(Debug)]
pub struct EqRing {
    ring: DmaBuf,
    eqn: u8,
    log_size: u8,
    next: u16,
    told: u16,
    /// `next`, for watches.
    watched: Arc<AtomicU16>,
}

/// Tells anybody whether there is an event, without the ring's owner.
#[derive(Clone, Debug)]
pub struct EqWatch {
    ring: DmaBuf,
    log_size: u8,
    next: Arc<AtomicU16>,
}

impl EqWatch {
    /// There is an event that the owner has not taken. While the owner takes some it may be one of those.
    #[inline]
    pub fn has_event(&self) -> bool {
        has_event(&self.ring, self.log_size, self.next.load(Ordering::Acquire))
    }
}

fn offset(log_size: u8, index: u16) -> usize {
    (usize::from(index) & ((1 << log_size) - 1)) * Eqe::BYTES
}

fn has_event(ring: &DmaBuf, log_size: u8, index: u16) -> bool {
    let phase = phase_of(index.into(), log_size);
    is_ours(ring, offset(log_size, index) + OWNER_OFFSET, phase)
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
            watched: Arc::default(),
        }
    }

    /// For others to look.
    pub fn watch(&self) -> EqWatch {
        EqWatch {
            ring: self.ring.clone(),
            log_size: self.log_size,
            next: self.watched.clone(),
        }
    }

    /// The memory.
    pub fn memory(&self) -> &DmaBuf {
        &self.ring
    }

    /// The oldest event. Finding none tells the card what was consumed.
    pub fn poll<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>) -> Option<Eqe> {
        if !has_event(&self.ring, self.log_size, self.next) {
            if self.told != self.next {
                self.tell(doorbells);
            }
            return None;
        }
        let eqe = Eqe(read_entry::<_, 8>(&self.ring, offset(self.log_size, self.next)));
        self.next = self.next.wrapping_add(1);
        self.watched.store(self.next, Ordering::Release);
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
