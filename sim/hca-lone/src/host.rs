//! The host's memory as the card sees it through the IOMMU.

use std::sync::Arc;

use hca_dev::{DeviceError, DmaBuf, PAGE_BYTES, SharedMem, page_round_up};
use hca_functional::HostPort;

use crate::card::VECTORS;

/// Bus addresses start here, and each buffer is followed by an unmapped page.
const FIRST_IOVA: u64 = 0x1_0000_0000;

#[derive(Debug)]
struct Mapping {
    iova: u64,
    len_bytes: u64,
    /// `None`: memory of the program, which this crate cannot touch without `unsafe`.
    buf: Option<DmaBuf>,
}

/// What is mapped for DMA, and the interrupts that have come.
#[derive(Debug)]
pub struct HostMemory {
    mappings: Vec<Mapping>,
    next_iova: u64,
    /// By vector.
    irqs: [u64; VECTORS as usize],
}

impl HostMemory {
    pub(crate) fn new() -> Self {
        Self {
            mappings: Vec::new(),
            next_iova: FIRST_IOVA,
            irqs: [0; VECTORS as usize],
        }
    }

    /// Buffers mapped now.
    pub fn mapped(&self) -> usize {
        self.mappings.len()
    }

    /// Interrupts of a vector since the last call.
    pub(crate) fn take_interrupts(&mut self, vector: u16) -> u64 {
        std::mem::take(&mut self.irqs[usize::from(vector)])
    }

    fn reserve(&mut self, len_bytes: usize) -> Result<(u64, usize), DeviceError> {
        let rounded = page_round_up(len_bytes.max(1)).ok_or_else(|| DeviceError::Map {
            addr: 0,
            len_bytes,
            reason: "longer than the address space".into(),
        })?;
        // Regions with 2 MiB pages need bus addresses that are aligned so.
        let align = if rounded >= 2 << 20 {
            2 << 20
        } else {
            PAGE_BYTES as u64
        };
        let iova = self.next_iova.next_multiple_of(align);
        self.next_iova = iova + (rounded + PAGE_BYTES) as u64;
        Ok((iova, rounded))
    }

    pub(crate) fn alloc(&mut self, len_bytes: usize) -> Result<DmaBuf, DeviceError> {
        let (iova, rounded) = self.reserve(len_bytes)?;
        let buf = DmaBuf::new(Arc::new(SharedMem::new("lone", rounded)?), iova);
        self.mappings.push(Mapping {
            iova,
            len_bytes: rounded as u64,
            buf: Some(buf.clone()),
        });
        Ok(buf)
    }

    pub(crate) fn map(&mut self, len_bytes: usize) -> Result<u64, DeviceError> {
        let (iova, _) = self.reserve(len_bytes)?;
        self.mappings.push(Mapping {
            iova,
            len_bytes: len_bytes as u64,
            buf: None,
        });
        Ok(iova)
    }

    pub(crate) fn unmap(&mut self, iova: u64, len_bytes: usize) -> Result<(), DeviceError> {
        let found = self
            .mappings
            .iter()
            .position(|m| m.iova == iova && m.len_bytes == len_bytes as u64);
        let i = found.ok_or(DeviceError::NotMapped { iova, len_bytes })?;
        self.mappings.remove(i);
        Ok(())
    }

    fn find(&self, addr: u64, len_bytes: usize) -> Option<(&DmaBuf, usize)> {
        let end = addr.checked_add(len_bytes as u64)?;
        let m = self
            .mappings
            .iter()
            .find(|m| m.iova <= addr && end <= m.iova + m.len_bytes)?;
        Some((m.buf.as_ref()?, (addr - m.iova) as usize))
    }

    /// DMA read; false: the IOMMU refuses.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        let found = self.find(addr, out.len());
        if let Some((buf, offset)) = found {
            buf.read_bytes(offset, out);
        }
        found.is_some()
    }

    /// DMA write; false: the IOMMU refuses.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        let found = self.find(addr, bytes.len());
        if let Some((buf, offset)) = found {
            buf.write_bytes(offset, bytes);
        }
        found.is_some()
    }
}

impl HostPort for HostMemory {
    fn read(&mut self, _: u8, addr: u64, out: &mut [u8]) -> bool {
        Self::read(self, addr, out)
    }

    fn write(&mut self, _: u8, addr: u64, bytes: &[u8]) -> bool {
        Self::write(self, addr, bytes)
    }

    fn interrupt(&mut self, _: u8, vector: u16) {
        self.irqs[usize::from(vector % VECTORS)] += 1;
    }
}
