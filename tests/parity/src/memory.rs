//! Memory as a program has it: mapped here, known to no card.

use std::sync::Arc;

use hca_dev::{DmaBuf, SharedMem, UserMemory};

use crate::Outcome;

/// Bytes that a program registers.
pub struct Memory {
    bytes: DmaBuf,
}

impl Memory {
    /// Zeroed, whole pages.
    pub fn new(len_bytes: usize) -> Outcome<Self> {
        let memory = Arc::new(SharedMem::new("parity", len_bytes)?);
        // On no bus: the address is never used.
        Ok(Self {
            bytes: DmaBuf::new(memory, 0),
        })
    }

    /// To look into, and to write.
    pub fn bytes(&self) -> &DmaBuf {
        &self.bytes
    }

    /// For a registration of a part.
    ///
    /// The memory lives longer than every region of it: regions are dropped first wherever both are held.
    #[allow(unsafe_code)]
    pub fn user(&self, offset: usize, len_bytes: usize) -> UserMemory {
        assert!(offset + len_bytes <= self.bytes.len_bytes());
        // SAFETY: inside the mapping, which outlives its regions; it is touched by atomic accesses alone.
        unsafe { UserMemory::new(self.bytes.as_ptr().wrapping_add(offset), len_bytes) }
    }

    /// Bytes that differ at every place, and by `seed`.
    pub fn fill(&self, offset: usize, len_bytes: usize, seed: u64) -> Vec<u8> {
        let bytes = pattern(len_bytes, seed);
        self.bytes.write_bytes(offset, &bytes);
        bytes
    }

    /// A part of it.
    pub fn read(&self, offset: usize, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.bytes.read_bytes(offset, &mut bytes);
        bytes
    }
}

/// The upper bytes of a multiplicative generator: no two neighbourhoods alike.
fn pattern(len_bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len_bytes).map(|_| next()).collect()
}
