//! Bus addresses where a device may choose them freely, as a simulated one may: the program's memory is at its own
//! address, memory of [`crate::Device::alloc_dma`] above all of those.
//!
//! Two ranges, because the two kinds live differently. A program may unmap pages long before it deregisters their
//! region (registration caches do), and the system may then give the same address to a ring; on the bus the region is
//! still there. Rings are at their address in this process plus [`RING_IOVA_BASE`], not wherever there is room: it
//! needs no bookkeeping, and bus and virtual address agree in their low bits, as regions with large pages want.
//!
//! Both ranges together take 48 bits on x86-64, which IOMMUs of servers have. One of 39 bits cannot map programs at
//! their own addresses at all: a transport behind it has to choose all bus addresses, which it may, for nothing above
//! [`crate::Device`] takes a bus address for one of the process.

use crate::error::DeviceError;
use crate::memory::{SharedMem, UserMemory};

/// Where the bus addresses of [`crate::Device::alloc_dma`] start: no memory of a program is here or above. x86-64 and
/// RISC-V give a program 47 bits unless it asks for an address beyond them, ARM gives 48.
pub const RING_IOVA_BASE: u64 = 1 << if cfg!(target_arch = "aarch64") { 48 } else { 47 };

/// Bus address of memory that a device has allocated. Its own as long as it is mapped in this process; so it leaves
/// the bus first.
pub fn ring_iova(memory: &SharedMem) -> u64 {
    memory.as_ptr() as u64 | RING_IOVA_BASE
}

/// Bus address of memory that the program has: its address.
pub fn user_iova(memory: &UserMemory) -> Result<u64, DeviceError> {
    let (addr, len_bytes) = (memory.addr(), memory.len_bytes());
    match addr.checked_add(len_bytes as u64) {
        Some(end) if end <= RING_IOVA_BASE => Ok(addr),
        _ => Err(DeviceError::Map {
            addr,
            len_bytes,
            reason: format!(
                "it ends above {RING_IOVA_BASE:#x}, where rings are: map it without asking for an address there"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_above_every_program() {
        let ring = SharedMem::new("ring", 4096).unwrap();
        let addr = ring.as_ptr() as u64;
        assert_eq!(ring_iova(&ring) - RING_IOVA_BASE, addr);
        // SAFETY: only named.
        let user = |addr: u64, len| user_iova(&unsafe { UserMemory::new(addr as *mut u8, len) });
        assert_eq!(user(addr, 4096).unwrap(), addr);
        assert_eq!(user(RING_IOVA_BASE - 16, 16).unwrap(), RING_IOVA_BASE - 16);
        for (addr, len) in [
            (RING_IOVA_BASE - 16, 17),
            (RING_IOVA_BASE, 1),
            (ring_iova(&ring), 4096),
            (u64::MAX, 1),
        ] {
            let error = user(addr, len).unwrap_err().to_string();
            assert!(error.contains("where rings are"), "{error}");
        }
    }
}
