//! Region BAR 4 of a simulated card: memory that simulator and client share, made anew for every client.
//!
//! | Offset | What |
//! |---|---|
//! | 0 | [`ActivityPage`]: what the card has written, for clients that sleep |
//! | 0x1000 | control words of the ring of posted writes |
//! | 0x2000 | the kick: a write here wakes the simulator; an ioeventfd stands for it |
//! | 0x4000 | entries of the ring of posted writes, see [`crate::PostedWriter`] |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use hca_dev::{DeviceError, SharedMem};

use crate::activity::ActivityPage;

/// Length of the region: a power of two, as every BAR.
pub const SHARED_REGION_BYTES: usize = 0x8000;
/// Where the kick is.
pub const KICK_OFFSET: u64 = 0x2000;
/// Length of the kick.
pub const KICK_BYTES: u64 = 8;
pub(crate) const CONTROL_OFFSET: usize = 0x1000;
pub(crate) const ENTRIES_OFFSET: usize = 0x4000;

/// Either end's view of the region.
#[derive(Clone, Debug)]
pub struct SharedRegion {
    memory: Arc<SharedMem>,
}

impl SharedRegion {
    /// New and zeroed, for the simulator.
    pub fn new() -> Result<Self, DeviceError> {
        Ok(Self {
            memory: Arc::new(SharedMem::new("hca-shared", SHARED_REGION_BYTES)?),
        })
    }

    /// What a descriptor of the other end holds. None: too short.
    pub fn from_memory(memory: SharedMem) -> Option<Self> {
        (memory.len_bytes() >= SHARED_REGION_BYTES).then(|| Self {
            memory: Arc::new(memory),
        })
    }

    /// What the region is made of.
    pub fn memory(&self) -> &SharedMem {
        &self.memory
    }

    /// The activity page in it.
    pub fn activity(&self) -> ActivityPage {
        ActivityPage::new(self.clone())
    }

    fn at(&self, offset: usize, align: usize) -> *mut u8 {
        assert!(
            offset + align <= SHARED_REGION_BYTES && offset.is_multiple_of(align),
            "word at {offset:#x} of the shared region"
        );
        self.memory.as_ptr().wrapping_add(offset)
    }

    /// A word at an offset of ours, never one of the other end's.
    #[inline]
    pub(crate) fn word32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `at` checked range and alignment; the mapping lives as long as self and is only touched
        // atomically.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    /// A double word at an offset of ours.
    #[inline]
    pub(crate) fn word64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }
}
