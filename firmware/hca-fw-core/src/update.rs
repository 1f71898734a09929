//! Images of the firmware: which one runs, and a new one for the slot that does not. What may run is decided before
//! firmware starts (`hca-boot`); here bytes go where they are told, by function 0 alone.

use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    ActivateFirmwareCmd, AdminStatus, BoardBoot, BoardSlot, FIRMWARE_CHUNK_BYTES, FIRMWARE_SLOTS,
    QueryFirmwareResult, SLOT_NONE, SOC_IMAGE_BYTES, SlotState, WriteFirmwareCmd,
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

/// The image that runs.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Major, minor, patch in bits 31:16, 15:8, 7:0.
    pub version: u32,
    /// SHA-256; zero of firmware that is a part of the simulator.
    pub digest: [u8; 32],
    /// It runs on the card's own processor.
    pub on_core: bool,
}

impl Image {
    /// A part of the simulator.
    pub const fn native() -> Self {
        let [major, minor, patch] = crate::VERSION;
        Self {
            version: (major as u32) << 16 | (minor as u32) << 8 | patch as u32,
            digest: [0; 32],
            on_core: false,
        }
    }
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
        hal.flash().ok_or((AdminStatus::Unsupported, 0))?;
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
        let running = flash.boot().running();
        let slot = u8::from(running == 0);
        let is_there = flash.slot(slot).state() != u8::from(SlotState::Empty);
        if !is_there || u32::from(running) == SLOT_NONE {
            return Err((AdminStatus::BadState, slot.into()));
        }
        flash.set_next(slot);
        self.wants_restart = cmd.restart();
        Ok(())
    }
}
