//! The host's side of the PCIe boundary: what a driver may ask of one function of a card, whichever way it
//! reaches it (in-process simulation, vfio-user socket, VFIO). The choice is made at run time.
//!
//! This crate must not know about rings, verbs, or how a simulator works.
//!
//! ```
//! use hca_dev::{Device, DeviceError};
//! fn hello(dev: &dyn Device) -> Result<(), DeviceError> {
//!     let ring = dev.alloc_dma(4096)?;
//!     ring.store_u32(0, 7);
//!     dev.mmio_write64(0x1020, 1); // the card now sees the 7
//!     let deadline_ns = dev.now_ns() + 1_000_000;
//!     while ring.load_u32(64) == 0 && dev.now_ns() < deadline_ns {
//!         dev.progress();
//!     }
//!     dev.free_dma(ring)
//! }
//! ```

mod copy;
mod error;
mod iova;
mod lock;
mod memory;

use std::os::fd::BorrowedFd;

pub use copy::{LINE_BYTES, load_bytes, store_bytes, store_line};
pub use error::DeviceError;
pub use iova::{RING_IOVA_BASE, ring_iova, user_iova};
pub use lock::{OneThread, ShortLock};
pub use memory::{DmaBuf, DmaPart, PAGE_BYTES, SharedMem, UserMemory, page_round_up};

/// PCI vendor number of an OpenHCA card, with [`PCI_DEVICE_ID`]; which number, and why: decision 0015.
pub const PCI_VENDOR_ID: u16 = 0x1234;
/// PCI device number of an OpenHCA card.
pub const PCI_DEVICE_ID: u16 = 0x0ca1;

/// What a device says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// A name for messages, such as `sim0.1` or a PCI address.
    pub name: String,
    /// Length of BAR 0.
    pub bar_len_bytes: u32,
    /// Number of MSI-X vectors.
    pub num_vectors: u16,
}

/// One function of a card, as its driver sees it.
///
/// Order: everything stored to DMA memory before an MMIO write is visible to the card before the write
/// arrives. Whatever the card wrote before an interrupt or before the value of an MMIO read is visible after
/// them. Accesses of one thread arrive in order. A write may wait for room on its way, never for another
/// thread.
pub trait Device {
    /// Name and sizes.
    fn info(&self) -> DeviceInfo;

    /// A posted 32-bit register write. `offset` is a multiple of 4 inside BAR 0.
    fn mmio_write32(&self, offset: u32, value: u32);

    /// A posted 64-bit register write (doorbells). `offset` is a multiple of 8 inside BAR 0.
    fn mmio_write64(&self, offset: u32, value: u64);

    /// A register read. All ones when the device is gone or does not answer, as on PCI.
    fn mmio_read32(&self, offset: u32) -> u32;

    /// Allocates zeroed, page-aligned memory that the card may read and write, at least `len_bytes` long.
    fn alloc_dma(&self, len_bytes: usize) -> Result<DmaBuf, DeviceError>;

    /// Ends the card's access to a buffer and releases it.
    fn free_dma(&self, buf: DmaBuf) -> Result<(), DeviceError>;

    /// Lets the card read and write memory of this process; returns its bus address. The range may be larger
    /// than asked inside (whole pages), never smaller.
    fn map_dma(&self, memory: UserMemory) -> Result<u64, DeviceError>;

    /// Ends a mapping made by [`Device::map_dma`]. When it returns, the card no longer touches the memory.
    fn unmap_dma(&self, iova: u64, len_bytes: usize) -> Result<(), DeviceError>;

    /// Called by every loop that waits for the card: lets simulated time pass, or yields.
    fn progress(&self);

    /// Counts what the card has written into memory of [`Device::alloc_dma`]. A loop that means to sleep reads it
    /// before it looks at its ring; see [`Device::rest`]. Always 0 where nothing counts.
    fn activity(&self) -> u32 {
        0
    }

    /// What an empty poll does so that a simulator which shares the processor gets on: like [`Device::progress`],
    /// but it may sleep until the card writes something, or a moment has passed. It does not when `activity` has
    /// changed since the caller read `seen`, so that a caller who read it before a look at the ring which found
    /// nothing misses nothing. `empty_polls`: looks before this one that found nothing either.
    fn rest(&self, _seen: u32, _empty_polls: u32) {
        self.progress();
    }

    /// The device has been taken away, and nothing will ever come from it. To be asked now and then by whoever has
    /// waited for long.
    fn is_gone(&self) -> bool {
        false
    }

    /// Why it is gone, in words, where that is known.
    fn why_gone(&self) -> Option<String> {
        None
    }

    /// Waits for an interrupt of `vector` until `deadline_ns` of [`Device::now_ns`]. True: it came (and is
    /// consumed).
    fn wait_irq(&self, vector: u16, deadline_ns: u64) -> Result<bool, DeviceError>;

    /// The eventfd that counts interrupts of `vector`, where the transport has one.
    fn irq_fd(&self, _vector: u16) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The clock of deadlines: simulated time in-process, else a monotonic clock.
    fn now_ns(&self) -> u64;
}
