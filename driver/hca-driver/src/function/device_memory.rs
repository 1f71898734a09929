//! Admin commands for the card's own memory.

use hca_abi::{AdminOpcode, AllocDmCmd, CopyDmCmd, DM_BUS_HIGH, DM_COPY_BYTES, DM_PAGE_BYTES};
use hca_dev::{Device, DmaBuf};

use crate::base::device::DevicePtr;
use crate::base::error::DriverError;
use crate::function::bring_up::Function;

/// A piece lies in its lines on the host as in those of the card.
const LINE_BYTES: u32 = 64;

/// What is copied.
enum Copy<'a> {
    ToCard(&'a [u8]),
    ToHost(&'a mut [u8]),
}

impl Copy<'_> {
    fn len_bytes(&self) -> usize {
        match self {
            Self::ToCard(bytes) => bytes.len(),
            Self::ToHost(bytes) => bytes.len(),
        }
    }
}

/// Bus address of device memory that ALLOC_DM has given.
pub fn dm_iova(handle: u32) -> u64 {
    (u64::from(DM_BUS_HIGH) << 48) + u64::from(handle) * u64::from(DM_PAGE_BYTES)
}

impl<P: DevicePtr> Function<P> {
    /// ALLOC_DM: its handle. It is all zeros.
    pub fn alloc_dm(&mut self, length: u32) -> Result<u32, DriverError> {
        let mut cmd = AllocDmCmd::new();
        cmd.set_length(length);
        self.make(AdminOpcode::AllocDm, cmd.as_bytes())
    }

    /// FREE_DM.
    pub fn free_dm(&mut self, handle: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::FreeDm, handle).map(drop)
    }

    /// COPY_DM to device memory, as often as it takes. Each byte is written once, and none beside them.
    pub fn write_dm(&mut self, handle: u32, offset: u32, bytes: &[u8]) -> Result<(), DriverError> {
        self.copy_dm(handle, offset, Copy::ToCard(bytes))
    }

    /// COPY_DM from device memory, as often as it takes.
    pub fn read_dm(&mut self, handle: u32, offset: u32, out: &mut [u8]) -> Result<(), DriverError> {
        self.copy_dm(handle, offset, Copy::ToHost(out))
    }

    fn copy_dm(&mut self, handle: u32, offset: u32, mut copy: Copy<'_>) -> Result<(), DriverError> {
        let piece = self.dev.alloc_dma(DM_COPY_BYTES as usize)?;
        let mut done = 0;
        let mut result = Ok(());
        while result.is_ok() && done < copy.len_bytes() {
            let at = offset.wrapping_add(done as u32);
            let most = DM_COPY_BYTES - at % LINE_BYTES;
            let end = copy.len_bytes().min(done + most as usize);
            result = self.copy_piece(&piece, handle, at, &mut copy, done..end);
            done = end;
        }
        self.dev.free_dma(piece)?;
        result
    }

    fn copy_piece(
        &mut self,
        piece: &DmaBuf,
        handle: u32,
        offset: u32,
        copy: &mut Copy<'_>,
        range: std::ops::Range<usize>,
    ) -> Result<(), DriverError> {
        let skip = offset % LINE_BYTES;
        let mut cmd = CopyDmCmd::new();
        cmd.set_addr(piece.iova() + u64::from(skip));
        cmd.set_handle(handle);
        cmd.set_offset(offset);
        cmd.set_bytes(range.len() as u32);
        cmd.set_to_host(matches!(copy, Copy::ToHost(_)));
        if let Copy::ToCard(bytes) = copy {
            piece.write_bytes(skip as usize, &bytes[range.clone()]);
        }
        self.admin.issue(AdminOpcode::CopyDm, cmd.as_bytes())?;
        if let Copy::ToHost(out) = copy {
            piece.read_bytes(skip as usize, &mut out[range]);
        }
        Ok(())
    }
}
