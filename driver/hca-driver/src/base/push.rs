//! Push slots: places on the card for a send WQE that rides with its doorbell (decision 0024).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hca_abi::PUSH_SLOTS;

/// The push slots of a function; a queue that has one keeps it for life.
#[derive(Debug)]
pub struct PushSlots {
    /// A bit for each that is free.
    free: AtomicU64,
}

impl PushSlots {
    /// `count`: as QUERY_DEVICE says.
    pub fn new(count: u8) -> Arc<Self> {
        let count = u32::from(count).min(PUSH_SLOTS);
        Arc::new(Self {
            free: AtomicU64::new(u64::MAX.checked_shr(u64::BITS - count).unwrap_or(0)),
        })
    }

    /// A free one, if there is one.
    pub fn take(self: &Arc<Self>) -> Option<PushSlot> {
        let lowest_taken = |free: u64| (free != 0).then(|| free & (free - 1));
        let before = self
            .free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest_taken)
            .ok()?;
        Some(PushSlot {
            slots: self.clone(),
            number: before.trailing_zeros() as u8,
        })
    }
}

/// One push slot. It is free again when this is dropped: not before the card has forgotten the queue.
pub struct PushSlot {
    slots: Arc<PushSlots>,
    number: u8,
}

impl PushSlot {
    /// Which one.
    pub fn number(&self) -> u8 {
        self.number
    }
}

impl Drop for PushSlot {
    fn drop(&mut self) {
        self.slots.free.fetch_or(1 << self.number, Ordering::Release);
    }
}

impl fmt::Debug for PushSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushSlot({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_one_owner() {
        for count in [0, 1, 2, 63, 64, u8::MAX] {
            let slots = PushSlots::new(count);
            let usable = usize::from(count).min(PUSH_SLOTS as usize);
            let mut taken: Vec<PushSlot> = std::iter::from_fn(|| slots.take()).collect();
            let numbers: Vec<u8> = taken.iter().map(PushSlot::number).collect();
            assert_eq!(numbers, (0..usable as u8).collect::<Vec<_>>());
            if usable > 1 {
                drop(taken.remove(1));
                assert_eq!(slots.take().unwrap().number(), 1);
            }
        }
    }
}
