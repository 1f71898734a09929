//! Images of the firmware: which one runs, and a new one for the slot that does not. What may run is decided before
//! firmware starts (`hca-boot`); here bytes go where they are told, by function 0 alone.

use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    ActivateFirmwareCmd, AdminStatus, BoardBoot, BoardSlot, FIRMWARE_CHUNK_BYTES, FIRMWARE_SLOTS,
    QueryFirmwareResult, SOC_IMAGE_BYTES, SlotState, WriteFirmwareCmd,
};

/// Where in the mailbox a piece of an image goes.
const PIECE_AREA: u32 = 2048;
/// Bytes that DMA moves, at least.
const LINE_BYTES: u32 = 64;

/// The board's flash.
pub trait Flash {
    /// Which image runs, and which is to.
    fn boot(&mut self) -> BoardBoot;
    /// Tells the board that the image of this slot is to be tried.
    fn set_next(&mut self, slot: u8);
    /// What is in a slot.
    fn slot(&mut self, slot: u8) -> BoardSlot;
    /// The next word for the slot that does not run goes to this offset; 0 erases the slot.
    fn write_at(&mut self, offset: u32);
    /// The next word.
    fn write(&mut self, word: u32);
}

impl Control {
    pub(crate) fn query_firmware<B: Bus>(&self, hal: &mut Hal<B>) -> QueryFirmwareResult {
        let mut out = QueryFirmwareResult::new();
        out.set_on_core(self.image.on_core);
        out.set_version(self.image.version);
        out.set_digest(self.image.digest);
        let Some(flash) = hal.flash() else {
            return out;
        };
        let boot = flash.boot();
        out.set_is_updatable(true);
        out.set_running(boot.running());
        out.set_next(boot.next());
        out.set_epoch(boot.epoch());
        out.set_hardware(boot.hardware());
        out.set_public_key(boot.public_key());
        let mut slots = [0; FIRMWARE_SLOTS as usize * BoardSlot::BYTES];
        for (slot, bytes) in (0..).zip(slots.chunks_exact_mut(BoardSlot::BYTES)) {
            bytes.copy_from_slice(flash.slot(slot).as_bytes());
        }
        out.set_slots(slots);
        out
    }

    pub(crate) fn write_firmware<B: Bus>(
        &self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &WriteFirmwareCmd,
    ) -> CmdResult {
        let (offset, bytes) = (cmd.offset(), cmd.bytes());
        let flash = hal.flash().ok_or((AdminStatus::Unsupported, 0))?;
        let boot = flash.boot();
        // While an image is on trial the other slot has the one to fall back on.
        if boot.running() == boot.next() {
            return Err((AdminStatus::BadState, boot.next().into()));
        }
        require(cmd.addr().is_multiple_of(LINE_BYTES.into()), 0)?;
        require(offset.is_multiple_of(LINE_BYTES), offset)?;
        let fits = bytes != 0 && bytes.is_multiple_of(LINE_BYTES) && bytes <= FIRMWARE_CHUNK_BYTES;
        require_size(fits, bytes)?;
        require_size(offset <= SOC_IMAGE_BYTES - bytes, offset)?;
        hal.dma_from_host(func, cmd.addr(), PIECE_AREA, bytes)
            .map_err(|_| (AdminStatus::DmaError, 0))?;
        for at in (0..bytes).step_by(4) {
            let mut word = [0; 4];
            hal.mailbox_read(PIECE_AREA + at, &mut word);
            if let Some(flash) = hal.flash() {
                if at == 0 {
                    flash.write_at(offset);
                }
                flash.write(u32::from_le_bytes(word));
            }
        }
        Ok(())
    }

    pub(crate) fn activate_firmware<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        cmd: &ActivateFirmwareCmd,
    ) -> CmdResult {
        let flash = hal.flash().ok_or((AdminStatus::Unsupported, 0))?;
        let slot = u8::from(flash.boot().running() == 0);
        let state = flash.slot(slot).state();
        // What the boot program has given up is written anew first.
        if ![SlotState::Untried, SlotState::Good]
            .map(u8::from)
            .contains(&state)
        {
            return Err((AdminStatus::BadState, state.into()));
        }
        flash.set_next(slot);
        self.wants_restart = cmd.restart();
        Ok(())
    }
}
