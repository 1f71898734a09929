//! The receive ring.

use std::sync::Arc;

use hca_abi::{RqWqeCtrl, wqe_index};
use hca_dev::DmaBuf;
use hca_room::NoRoom;

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::PostError;
use crate::base::work::{RECV_HEADER_BYTES, RecvWr, WqSize, message_length, words_of, write_sges};
use crate::rings::shadow::WqShadow;

/// Builds receive WQEs in DMA memory. Free-running index, masked on use.
#[derive(Debug)]
pub struct RecvRing {
    ring: DmaBuf,
    size: WqSize,
    max_sge: usize,
    next: u32,
    shadow: Arc<WqShadow>,
}

impl RecvRing {
    /// A ring in `ring`, which must have `size.ring_bytes()`.
    pub fn new(ring: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        let shadow = Arc::new(WqShadow::new(size.log_size)?);
        Ok(Self {
            ring,
            size,
            max_sge: size.recv_sges(),
            next: 0,
            shadow,
        })
    }

    /// What the CQ needs.
    pub fn shadow(&self) -> &Arc<WqShadow> {
        &self.shadow
    }

    /// The memory.
    pub fn memory(&self) -> &DmaBuf {
        &self.ring
    }

    /// Writes one WQE. The card sees it after [`RecvRing::ring_doorbell`].
    #[inline(always)]
    pub fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if !self.shadow.has_room(self.next) {
            return Err(PostError::RingFull {
                entries: self.shadow.entries(),
            });
        }
        if wr.sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                given: wr.sges.len(),
                max: self.max_sge,
            });
        }
        let wqe = self.size.entry(&self.ring, self.next);
        let length = message_length(write_sges(wqe, RECV_HEADER_BYTES, wr.sges))?;
        let mut ctrl = RqWqeCtrl::new();
        ctrl.set_num_sge(wr.sges.len() as u8);
        ctrl.set_length(length);
        ctrl.set_wqe_index(wqe_index(self.next));
        wqe.store_words(0, words_of::<_, 2>(ctrl.as_bytes()));
        self.shadow.record(self.next, wr.wr_id);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Hands every WQE written so far to the card.
    #[inline]
    pub fn ring_doorbell<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, qpn: u32) {
        self.shadow.publish(self.next);
        doorbells.recv(qpn, self.next);
    }

    /// Index 0 again, nothing outstanding: the QP went to RESET.
    pub fn reset(&mut self) {
        self.next = 0;
        self.shadow.reset();
    }
}
