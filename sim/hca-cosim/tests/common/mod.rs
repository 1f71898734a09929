//! What holds for devices of both modes.

use hca_dev::{Device, UserMemory};

/// UCX unmaps memory before it deregisters it: the address is free for a ring then, but not on the bus.
pub fn rings_and_memory_have_bus_addresses_of_their_own(dev: &dyn Device) {
    let ring = dev.alloc_dma(8192).unwrap();
    // SAFETY: only named; the card is told nothing of it.
    let memory = unsafe { UserMemory::new(ring.as_ptr(), ring.len_bytes()) };
    let iova = dev.map_dma(memory).unwrap();
    assert_eq!(iova, ring.as_ptr() as u64, "the program's address");
    dev.free_dma(ring).unwrap();
    // The pages are gone, and their addresses are used again.
    let rings: Vec<_> = (0..64).map(|_| dev.alloc_dma(4096).unwrap()).collect();
    dev.unmap_dma(iova, 8192).unwrap();
    rings.into_iter().for_each(|ring| dev.free_dma(ring).unwrap());
}
