//! What software remembers of a work queue, shared by the ring that posts and the CQ that retires: one writer
//! for each field, no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hca_room::NoRoom;

use crate::rings::srq_ring::SrqRing;

/// wr_ids and free-running indices of one send or receive queue.
///
/// The posting ring writes `posted` and the wr_ids of free entries. The CQ writes `completed`. Both indices
/// start at 0 when the QP goes to RESET. A completion names the low bits of an index, in which the entries that are
/// outstanding differ.
#[derive(Debug)]
pub struct WqShadow {
    wr_ids: Box<[AtomicU64]>,
    posted: AtomicU32,
    completed: AtomicU32,
}

impl WqShadow {
    /// For a ring of `1 << log_size` entries.
    pub fn new(log_size: u8) -> Result<Self, NoRoom> {
        Ok(Self {
            wr_ids: hca_room::slice(1 << log_size, |_| AtomicU64::new(0))?,
            posted: AtomicU32::new(0),
            completed: AtomicU32::new(0),
        })
    }

    #[inline]
    fn slot(&self, index: u32) -> &AtomicU64 {
        // A power of two, and never 0.
        &self.wr_ids[index as usize & self.wr_ids.len().wrapping_sub(1)]
    }

    /// Entries of the ring.
    #[inline]
    pub fn entries(&self) -> u32 {
        self.wr_ids.len() as u32
    }

    /// Index after the last entry that has completed.
    #[inline]
    pub fn completed(&self) -> u32 {
        self.completed.load(Ordering::Acquire)
    }

    /// Index after the last entry that was posted.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.posted.load(Ordering::Acquire)
    }

    /// Is there room for one more entry at `index`?
    #[inline]
    pub(crate) fn has_room(&self, index: u32) -> bool {
        index.wrapping_sub(self.completed()) < self.entries()
    }

    /// Remembers the wr_id of a free entry.
    #[inline]
    pub(crate) fn record(&self, index: u32, wr_id: u64) {
        self.slot(index).store(wr_id, Ordering::Relaxed);
    }

    /// From now on entries before `index` may complete. Call before the doorbell.
    #[inline]
    pub(crate) fn publish(&self, index: u32) {
        self.posted.store(index, Ordering::Release);
    }

    /// Retires the entry whose index ends in these bits, and every earlier one; its wr_id, or `None` when it is not
    /// outstanding.
    #[inline]
    pub(crate) fn retire_through(&self, index: u16) -> Option<u64> {
        let completed = self.completed.load(Ordering::Relaxed);
        let outstanding = self.posted().wrapping_sub(completed);
        let behind = u32::from(index.wrapping_sub(completed as u16));
        if behind >= outstanding {
            return None;
        }
        let index = completed.wrapping_add(behind);
        let wr_id = self.slot(index).load(Ordering::Relaxed);
        self.completed.store(index.wrapping_add(1), Ordering::Release);
        Some(wr_id)
    }

    /// Retires the entry whose index ends in these bits, which must be the oldest outstanding one.
    #[inline]
    pub(crate) fn retire_next(&self, index: u16) -> Option<u64> {
        if index == self.completed.load(Ordering::Relaxed) as u16 {
            self.retire_through(index)
        } else {
            None
        }
    }

    /// Forgets everything. Only while neither ring nor CQ is in use.
    pub(crate) fn reset(&self) {
        self.posted.store(0, Ordering::Release);
        self.completed.store(0, Ordering::Release);
    }
}

/// Both queues of a QP, as a CQ needs them.
#[derive(Clone, Debug)]
pub struct QpShadow {
    /// Send queue.
    pub send: Arc<WqShadow>,
    /// Receive queue.
    pub recv: RecvShadow,
}

/// Where a QP receives.
#[derive(Clone, Debug)]
pub enum RecvShadow {
    /// It does not.
    Absent,
    /// Into a ring of its own.
    Own(Arc<WqShadow>),
    /// Into a shared queue.
    Shared {
        /// Its number.
        srqn: u32,
        /// The queue.
        ring: Arc<SrqRing>,
    },
}
