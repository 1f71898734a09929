//! What is at the processor's bus: the card, the registers beside the core, the board's data.

use core::arch::asm;

use hca_abi::{
    BoardBoot, BoardSlot, PortView, SOC_BOARD_BASE, SOC_BOARD_SLOTS, SOC_CARD_BASE, SOC_DATA_BASE,
    SOC_JOURNAL, SOC_REGS_BASE, SOC_TELL_CONSOLE, SOC_TELL_FLASH_AT, SOC_TELL_FLASH_WORD, SOC_TELL_GID,
    SOC_TELL_OWN_GID, SOC_TELL_PORT, SOC_TELL_WANTED, SOC_TIME_HI, SOC_TIME_LO, SOC_TIMER_HI, SOC_TIMER_LO,
};
use hca_fw_core::{Bus, Flash, RegisterBus};

use crate::board;

/// The card's registers.
pub struct Card;

impl RegisterBus for Card {
    #[inline]
    fn read32(&mut self, addr: u32) -> u32 {
        read(SOC_CARD_BASE + addr)
    }

    #[inline]
    fn write32(&mut self, addr: u32, value: u32) {
        write(SOC_CARD_BASE + addr, value);
    }
}

impl Bus for Card {
    const HAS_CLOCK: bool = true;

    #[inline]
    fn commit(&mut self) {
        commit();
    }

    #[inline]
    fn cycles(&mut self) -> u32 {
        read_reg(SOC_TIME_LO)
    }

    fn flash(&mut self) -> Option<&mut dyn Flash> {
        Some(self)
    }

    #[inline(never)]
    fn show_port(&mut self, view: &PortView) {
        for (index, word) in view.as_bytes().as_chunks().0.iter().enumerate() {
            write_reg(SOC_TELL_PORT + 4 * index as u32, u32::from_le_bytes(*word));
        }
    }
}

impl Flash for Card {
    fn boot(&mut self) -> BoardBoot {
        board::boot()
    }

    fn set_next(&mut self, slot: u8) {
        let mut boot = board::boot();
        boot.set_next(slot);
        boot.set_tries(0);
        board::keep(&boot);
    }

    fn slot(&mut self, slot: u8) -> BoardSlot {
        BoardSlot(board_bytes(
            SOC_BOARD_SLOTS + u32::from(slot) * BoardSlot::BYTES as u32,
        ))
    }

    fn write_at(&mut self, offset: u32) {
        write_reg(SOC_TELL_FLASH_AT, offset);
    }

    fn write(&mut self, word: u32) {
        write_reg(SOC_TELL_FLASH_WORD, word);
    }
}

unsafe extern "C" {
    /// The linker's: the first byte of the data, behind the stack.
    static _data_start: u8;
}

/// The data are whole: a restart puts them back to what they are now.
#[inline]
pub fn commit() {
    let start = (&raw const _data_start).addr() as u32;
    write_reg(SOC_JOURNAL, start - SOC_DATA_BASE);
}

#[inline]
fn read(addr: u32) -> u32 {
    // SAFETY: the callers name registers, or words of the board's data; whatever is there, a read of it is harmless.
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance(addr as usize)) }
}

#[inline]
fn write(addr: u32, value: u32) {
    // SAFETY: the callers name registers, where Rust keeps nothing.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(addr as usize), value) }
}

/// A register beside the core.
pub fn read_reg(register: u32) -> u32 {
    read(SOC_REGS_BASE + register)
}

/// See above.
pub fn write_reg(register: u32, value: u32) {
    write(SOC_REGS_BASE + register, value);
}

/// Bytes of the board's data, a multiple of 4.
pub fn board_bytes<const N: usize>(offset: u32) -> [u8; N] {
    image_bytes(SOC_BOARD_BASE + offset)
}

/// Bytes of the image's memory, a multiple of 4, which are not what the compiler saw.
pub fn image_bytes<const N: usize>(addr: u32) -> [u8; N] {
    let mut bytes = [0; N];
    read_words(addr, bytes.as_chunks_mut().0);
    bytes
}

#[inline(never)]
fn read_words(addr: u32, words: &mut [[u8; 4]]) {
    for (at, word) in (addr..).step_by(4).zip(words) {
        *word = read(at).to_le_bytes();
    }
}

/// Prints on the console.
#[inline(never)]
pub fn print(text: &str) {
    text.bytes()
        .for_each(|byte| write_reg(SOC_TELL_CONSOLE, byte.into()));
}

/// Prints a number.
pub fn print_hex(value: u32) {
    for shift in (0..8).rev() {
        let digit = (value >> (4 * shift) & 0xf) as u8;
        let letter = if digit < 10 {
            b'0' + digit
        } else {
            b'a' + digit - 10
        };
        write_reg(SOC_TELL_CONSOLE, letter.into());
    }
}

fn tell_gid(gid: &[u8; 16]) {
    for (index, word) in gid.as_chunks().0.iter().enumerate() {
        write_reg(SOC_TELL_GID + 4 * index as u32, u32::from_le_bytes(*word));
    }
}

/// Asks the board for a neighbour of a port.
pub fn tell_wanted(port_num: u8, gid: &[u8; 16]) {
    tell_gid(gid);
    write_reg(SOC_TELL_WANTED, port_num.into());
}

/// Tells the board of an entry of a port's GID table.
pub fn tell_own_gid(port_num: u8, index: usize, gid: &[u8; 16]) {
    tell_gid(gid);
    write_reg(
        SOC_TELL_OWN_GID,
        u32::from(port_num) << 16 | index as u32 & 0xffff,
    );
}

/// The timer interrupts in so many cycles, or not at all.
pub fn wake_in(cycles: Option<u64>) {
    write_reg(SOC_TIMER_LO, 0);
    let Some(cycles) = cycles else {
        return;
    };
    // The high word is that of the low one's time.
    let low = read_reg(SOC_TIME_LO);
    let at = (u64::from(read_reg(SOC_TIME_HI)) << 32 | u64::from(low)).wrapping_add(cycles);
    write_reg(SOC_TIMER_LO, at as u32);
    write_reg(SOC_TIMER_HI, (at >> 32) as u32);
}

/// Sleeps until something interrupts.
pub fn wait_irq() {
    // SAFETY: it changes nothing.
    unsafe { asm!("wfi", options(nomem, nostack)) }
}

/// Sleeps, and nothing wakes it.
pub fn sleep_for_good() {
    wake_in(None);
    // SAFETY: no interrupt is enabled any more.
    unsafe { asm!("csrw mie, zero", "wfi", options(nomem, nostack)) }
}
