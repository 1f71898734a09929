//! A lone card for many threads. The crate's own tests have it too: it knows nothing of libibverbs.
#![allow(dead_code)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use hca_dev::{Device, DeviceError, DeviceInfo, DmaBuf, PAGE_BYTES, UserMemory};
use hca_lone::LoneCard;
use hca_room::limited::Limit;

/// From now on doorbells and polls do nothing: what is left is the cost of our own code.
pub static IS_NULL: AtomicBool = AtomicBool::new(false);

/// The ring that was made last, for whoever plays the card in it.
pub static LAST_RING: Mutex<Option<DmaBuf>> = Mutex::new(None);

thread_local! {
    /// What the card has in the place of the memory that this thread mapped last: it cannot reach a program's own.
    pub static LAST_MAPPED: RefCell<Option<DmaBuf>> = const { RefCell::new(None) };
    /// What happens between the two looks at the ring of this thread's next empty poll.
    pub static BETWEEN_LOOKS: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// The card, which has as much memory as it likes.
struct Held<'a>(
    MutexGuard<'a, LoneCard>,
    #[expect(dead_code, reason = "for its drop")] Limit,
);

impl Deref for Held<'_> {
    type Target = LoneCard;
    fn deref(&self) -> &LoneCard {
        &self.0
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut LoneCard {
        &mut self.0
    }
}

/// The card.
pub struct Locked(Mutex<LoneCard>);

impl Locked {
    pub fn new() -> Self {
        Self(Mutex::new(LoneCard::new()))
    }

    /// Admin commands that the card has got, modulo 2^16.
    pub fn admin_commands(&self) -> u16 {
        self.get().with_card(|card| card.admin_commands())
    }

    fn get(&self) -> Held<'_> {
        let limit = Limit::new(None);
        Held(self.0.lock().unwrap(), limit)
    }
}

impl Device for Locked {
    fn info(&self) -> DeviceInfo {
        self.get().info()
    }
    fn mmio_write32(&self, offset: u32, value: u32) {
        self.get().mmio_write32(offset, value);
    }
    fn mmio_write64(&self, offset: u32, value: u64) {
        if !IS_NULL.load(Ordering::Relaxed) {
            self.get().mmio_write64(offset, value);
        }
    }
    fn mmio_read32(&self, offset: u32) -> u32 {
        self.get().mmio_read32(offset)
    }
    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let buf = self.get().alloc_dma(len_bytes)?;
        *LAST_RING.lock().unwrap() = Some(buf.clone());
        Ok(buf)
    }
    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError> {
        self.get().free_dma(buf)
    }
    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError> {
        let buf = self.get().alloc_dma(memory.len_bytes())?;
        let iova = buf.iova();
        LAST_MAPPED.set(Some(buf));
        Ok(iova)
    }
    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        // Pages, as they were allocated.
        self.get().unmap_dma(iova, len_bytes.next_multiple_of(PAGE_BYTES))
    }
    fn progress(&self) {
        if !IS_NULL.load(Ordering::Relaxed) {
            self.get().progress();
        }
    }
    fn activity(&self) -> u32 {
        if let Some(action) = BETWEEN_LOOKS.take() {
            action();
        }
        0
    }
    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError> {
        self.get().wait_irq(vector, deadline_ns)
    }
    fn now_ns(&self) -> u64 {
        self.get().now_ns()
    }
}
