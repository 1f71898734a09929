//! Admin commands for images of the firmware.

use hca_abi::{
    ActivateFirmwareCmd, AdminOpcode, FIRMWARE_CHUNK_BYTES, QueryFirmwareResult, WriteFirmwareCmd,
};
use hca_dev::Device;

use crate::base::device::DevicePtr;
use crate::base::error::DriverError;
use crate::function::bring_up::Function;

/// Pieces are multiples of this.
const LINE_BYTES: usize = 64;

impl<P: DevicePtr> Function<P> {
    /// QUERY_FIRMWARE.
    pub fn query_firmware(&mut self) -> Result<QueryFirmwareResult, DriverError> {
        Ok(QueryFirmwareResult(
            self.admin.issue(AdminOpcode::QueryFirmware, &[])?,
        ))
    }

    /// WRITE_FIRMWARE for a whole image, signature included: it goes to the slot that does not run. `progress` is told
    /// how many bytes are there.
    pub fn write_firmware(
        &mut self,
        image: &[u8],
        mut progress: impl FnMut(usize),
    ) -> Result<(), DriverError> {
        let piece_bytes = FIRMWARE_CHUNK_BYTES as usize;
        let buffer = self.dev.alloc_dma(piece_bytes)?;
        let mut written = Ok(());
        for (offset, piece) in (0..).step_by(piece_bytes).zip(image.chunks(piece_bytes)) {
            let mut padded = piece.to_vec();
            padded.resize(piece.len().next_multiple_of(LINE_BYTES), 0);
            buffer.write_bytes(0, &padded);
            let mut cmd = WriteFirmwareCmd::new();
            cmd.set_addr(buffer.iova());
            cmd.set_offset(offset);
            cmd.set_bytes(padded.len() as u32);
            written = self
                .admin
                .issue(AdminOpcode::WriteFirmware, cmd.as_bytes())
                .map(drop);
            if written.is_err() {
                break;
            }
            progress(offset as usize + piece.len());
        }
        self.dev.free_dma(buffer)?;
        written
    }

    /// ACTIVATE_FIRMWARE: the image in that slot is tried at the next start, or at once; then functions in use have to
    /// be reset.
    pub fn activate_firmware(&mut self, restart: bool) -> Result<(), DriverError> {
        let mut cmd = ActivateFirmwareCmd::new();
        cmd.set_restart(restart);
        self.admin
            .issue(AdminOpcode::ActivateFirmware, cmd.as_bytes())
            .map(drop)
    }
}
