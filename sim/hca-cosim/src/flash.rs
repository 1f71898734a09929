//! The board's flash: two slots for images of the firmware, and a record of which one runs and which is to.

use hca_abi::{
    BoardBoot, BoardSlot, FIRMWARE_SLOTS, SLOT_NONE, SOC_IMAGE_BYTES, SOC_TELL_BOOT, SOC_TELL_EPOCH,
    SOC_TELL_FLASH_AT, SOC_TELL_FLASH_WORD, SOC_TELL_LOAD, SOC_TELL_SLOT, SlotState,
};

const SLOTS: usize = FIRMWARE_SLOTS as usize;

/// What a board keeps without power.
#[derive(Clone, Debug)]
pub struct Flash {
    images: [Vec<u8>; SLOTS],
    states: [SlotState; SLOTS],
    boot: BoardBoot,
    /// Where the next word goes.
    at: usize,
}

/// What follows of a word that firmware has told.
pub(crate) enum Heard {
    /// It is not for the flash.
    Nothing,
    /// The flash holds it.
    Word,
    /// What the board shows of the flash is another.
    Changed,
    /// An image goes to memory, and what the board shows is another.
    Load(Vec<u8>),
}

impl Flash {
    /// With an image in slot 0 that has come up before; what the board is, and the key that images are signed with.
    pub fn new(image: &[u8], hardware: u32, public_key: [u8; 32]) -> Self {
        let mut boot = BoardBoot::new();
        boot.set_running(SLOT_NONE as u8);
        boot.set_next(SLOT_NONE as u8);
        boot.set_hardware(hardware);
        boot.set_public_key(public_key);
        Self {
            images: [image.to_vec(), Vec::new()],
            states: [SlotState::Good, SlotState::Empty],
            boot,
            at: 0,
        }
    }

    /// What is there when power comes back: nothing is in the processor's memory.
    pub(crate) fn without_power(&self) -> Self {
        let mut flash = self.clone();
        flash.boot.set_running(SLOT_NONE as u8);
        flash
    }

    /// The image that would be started if the board does what the boot program does, without its time: it is in the
    /// processor's memory before that starts. `None`: that program has to choose.
    pub(crate) fn preload(&mut self) -> Option<&[u8]> {
        let good = self.boot.good();
        let image = self.images.get(usize::from(good))?;
        if u32::from(self.boot.next()) != SLOT_NONE || hca_image::verify(image, &self.boot).is_err() {
            return None;
        }
        self.boot.set_running(good);
        Some(image)
    }

    /// Bytes of a slot, as a broken cell or somebody with a programmer changes them.
    pub fn slot_bytes(&mut self, slot: usize) -> &mut [u8] {
        self.images.get_mut(slot).map_or(&mut [], Vec::as_mut_slice)
    }

    /// What the board shows: which image runs.
    pub(crate) fn boot(&self) -> &BoardBoot {
        &self.boot
    }

    /// And what is in each slot.
    pub(crate) fn slots(&self) -> [BoardSlot; SLOTS] {
        [0, 1].map(|index: usize| {
            let mut slot = BoardSlot::new();
            slot.set_state(self.states[index].into());
            if let Ok(head) = hca_image::head(&self.images[index]) {
                slot.set_version(head.version());
                slot.set_bytes(head.bytes());
                slot.set_epoch(head.epoch());
                slot.set_digest(head.digest());
            }
            slot
        })
    }

    /// The slot that does not run.
    fn other(&self) -> usize {
        usize::from(self.boot.running() == 0)
    }

    /// A word from the processor.
    pub(crate) fn hear(&mut self, addr: u32, word: u32) -> Heard {
        let slot = word as u8;
        match addr {
            SOC_TELL_FLASH_AT => {
                self.at = word as usize;
                if word != 0 {
                    return Heard::Word;
                }
                let other = self.other();
                self.images[other].clear();
                self.states[other] = SlotState::Untried;
                if usize::from(self.boot.next()) == other {
                    self.boot.set_next(SLOT_NONE as u8);
                }
                return Heard::Changed;
            }
            SOC_TELL_FLASH_WORD => {
                let (at, other) = (self.at, self.other());
                if at + 4 <= SOC_IMAGE_BYTES as usize {
                    let image = &mut self.images[other];
                    image.resize(image.len().max(at + 4), 0);
                    image[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    self.at = at + 4;
                }
                return Heard::Word;
            }
            SOC_TELL_BOOT => {
                let [running, next, good, tries] = word.to_le_bytes();
                self.boot.set_running(running);
                self.boot.set_next(next);
                self.boot.set_good(good);
                self.boot.set_tries(tries);
            }
            SOC_TELL_SLOT => {
                let state = SlotState::try_from((word >> 8) as u8);
                if let (Some(known), Ok(state)) = (self.states.get_mut(usize::from(slot)), state) {
                    *known = state;
                }
            }
            SOC_TELL_EPOCH => self.boot.set_epoch(self.boot.epoch().max(word)),
            SOC_TELL_LOAD => {
                self.boot.set_loads(self.boot.loads().wrapping_add(1));
                let mut image = self.images.get(usize::from(slot)).cloned().unwrap_or_default();
                image.resize(SOC_IMAGE_BYTES as usize, 0);
                return Heard::Load(image);
            }
            _ => return Heard::Nothing,
        }
        Heard::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_to_the_slot_that_does_not_run() {
        let mut flash = Flash::new(&[9; 64], 1, [3; 32]);
        flash.boot.set_running(0);
        for word in [
            (SOC_TELL_FLASH_AT, 0),
            (SOC_TELL_FLASH_WORD, 0x0403_0201),
            (SOC_TELL_FLASH_WORD, 5),
        ] {
            flash.hear(word.0, word.1);
        }
        assert_eq!(flash.images, [vec![9; 64], vec![1, 2, 3, 4, 5, 0, 0, 0]]);
        assert_eq!(flash.states[1], SlotState::Untried);
        // Behind the end nothing is written.
        flash.hear(SOC_TELL_FLASH_AT, SOC_IMAGE_BYTES);
        flash.hear(SOC_TELL_FLASH_WORD, 7);
        assert_eq!(flash.images[1].len(), 8);
        flash.hear(SOC_TELL_BOOT, u32::from_le_bytes([1, SLOT_NONE as u8, 1, 0]));
        flash.hear(SOC_TELL_SLOT, 1 | u32::from(u8::from(SlotState::Good)) << 8);
        assert_eq!(flash.slots().map(|slot| slot.state()), [2, 2]);
        for (epoch, kept) in [(2, 2), (1, 2), (7, 7)] {
            flash.hear(SOC_TELL_EPOCH, epoch);
            assert_eq!(
                flash.boot.epoch(),
                kept,
                "an epoch that is over does not come back"
            );
        }
        flash.hear(SOC_TELL_FLASH_AT, 0);
        assert!(flash.images[0].is_empty(), "slot 1 runs");
        let Heard::Load(image) = flash.hear(SOC_TELL_LOAD, 1) else {
            panic!("an image goes to memory");
        };
        assert_eq!(
            (image[3], image.len(), flash.boot().loads()),
            (4, SOC_IMAGE_BYTES as usize, 1)
        );
    }
}
