//! From reset to the firmware.

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

use hca_abi::{
    BoardBoot, BoardHead, SLOT_NONE, SOC_BOARD_BASE, SOC_BOARD_BOOT, SOC_CARD_BASE, SOC_IMAGE_BASE,
    SOC_IMAGE_BYTES, SOC_REGS_BASE, SOC_RESTART, SOC_STRIKES, SOC_STRIKES_MOST, SOC_TELL_BOOT,
    SOC_TELL_CONSOLE, SOC_TELL_LOAD, SOC_TELL_SLOT, SOC_WATCHDOG, SlotState,
};
use hca_boot::{check, order};

/// Where images start, behind their vectors.
const ENTRY: usize = 0x80;

// Exceptions go to the first word, reset to 0x80. Firmware that is in memory and has been checked goes on; its data
// stay as they are. An exception is that of a firmware that has no vectors of its own yet: nobody watches a core that
// sleeps, so it is restarted, and counted. Where none runs it is this program's own, which would do the same again.
global_asm!(
    r#"
    .section .vectors,"ax"
    .option push
    .option norvc
    .rept 32
    j stop
    .endr
    .globl _start
_start:
    .option pop
    li t0, {regs}
    lw t1, {strikes}(t0)
    li t2, {never}
    bgeu t1, t2, 1f
    li t0, {running}
    lbu t1, 0(t0)
    li t2, {none}
    beq t1, t2, 1f
    li t0, {entry}
    jr t0
1:  la sp, _stack_top
    call boot
stop:
    li t0, {running}
    lbu t1, 0(t0)
    li t2, {none}
    beq t1, t2, 2f
    li t0, {regs}
    sw zero, {restart}(t0)
2:  wfi
    j 2b
"#,
    regs = const SOC_REGS_BASE,
    strikes = const SOC_STRIKES,
    restart = const SOC_RESTART,
    never = const SOC_STRIKES_MOST,
    running = const SOC_BOARD_BASE + SOC_BOARD_BOOT,
    none = const SLOT_NONE,
    entry = const ENTRY,
);

fn read(addr: u32) -> u32 {
    // SAFETY: a register, or a word of the board's data.
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance(addr as usize)) }
}

fn write(addr: u32, value: u32) {
    // SAFETY: a register, where Rust keeps nothing.
    unsafe { core::ptr::write_volatile(core::ptr::without_provenance_mut(addr as usize), value) }
}

fn tell(what: u32, value: u32) {
    write(SOC_REGS_BASE + what, value);
}

fn print(text: &str) {
    text.bytes().for_each(|byte| tell(SOC_TELL_CONSOLE, byte.into()));
}

fn board<const N: usize>(offset: u32) -> [u8; N] {
    let mut bytes = [0; N];
    for (index, word) in bytes.chunks_mut(4).enumerate() {
        let value = read(SOC_BOARD_BASE + offset + 4 * index as u32).to_le_bytes();
        word.iter_mut().zip(value).for_each(|(byte, value)| *byte = value);
    }
    bytes
}

fn record() -> BoardBoot {
    BoardBoot(board(SOC_BOARD_BOOT))
}

fn keep(boot: &BoardBoot) {
    let [a, b, c, d] = [boot.running(), boot.next(), boot.good(), boot.tries()];
    tell(SOC_TELL_BOOT, u32::from_le_bytes([a, b, c, d]));
}

fn set_state(slot: u8, state: SlotState) {
    tell(SOC_TELL_SLOT, u32::from(slot) | u32::from(u8::from(state)) << 8);
}

/// There is no firmware in memory, or the one that is there has been restarted too often.
#[unsafe(no_mangle)]
extern "C" fn boot() -> ! {
    let mut boot = record();
    let none = SLOT_NONE as u8;
    let has_failed = boot.running() != none;
    if has_failed && boot.running() != boot.next() {
        // It has come up before: another start would do the same. It says so itself.
        enter();
    }
    // A check takes longer than the watchdog's time, and the program that does it does not change.
    write(SOC_REGS_BASE + SOC_WATCHDOG, 0);
    if has_failed {
        print("new firmware does not come up: the one before is started\n");
        set_state(boot.next(), SlotState::Failed);
        boot.set_next(none);
    }
    for slot in order(&boot) {
        if slot != none && is_good(&mut boot, slot) {
            boot.set_running(slot);
            keep(&boot);
            write(SOC_REGS_BASE + SOC_STRIKES, 0);
            let head = BoardHead(board(0));
            write(SOC_REGS_BASE + SOC_WATCHDOG, head.watchdog_cycles());
            enter();
        }
    }
    boot.set_running(none);
    keep(&boot);
    print("stopped: no slot has firmware that may run\n");
    fail()
}

/// Loads and checks the image of a slot.
fn is_good(boot: &mut BoardBoot, slot: u8) -> bool {
    let none = SLOT_NONE as u8;
    if slot == boot.next() {
        boot.set_tries(boot.tries() + 1);
    }
    // Until it is checked nothing in memory may run.
    boot.set_running(none);
    keep(boot);
    let loads = record().loads();
    tell(SOC_TELL_LOAD, slot.into());
    while record().loads() == loads {}
    // SAFETY: the image's memory, from address 0 on, which the board has written and does not write meanwhile. Null is
    // hidden from the compiler.
    let memory = unsafe {
        let mut first = SOC_IMAGE_BASE as usize;
        asm!("/* {0} */", inout(reg) first, options(nomem, nostack, preserves_flags));
        core::slice::from_raw_parts(
            core::ptr::with_exposed_provenance(first),
            SOC_IMAGE_BYTES as usize,
        )
    };
    let Err(refusal) = check(memory, boot) else {
        return true;
    };
    print("an image is refused: ");
    print(refusal.text());
    print("\n");
    set_state(slot, refusal.state());
    if slot == boot.next() {
        boot.set_next(none);
    }
    false
}

fn enter() -> ! {
    // SAFETY: the image in memory has been checked, and begins here.
    unsafe { asm!("jr {}", in(reg) ENTRY, options(noreturn)) }
}

/// Every function is told that the card does not work.
fn fail() -> ! {
    for func in 0..read(SOC_CARD_BASE + hca_regs::MGMT_NUM_FUNCS) {
        let status = SOC_CARD_BASE + hca_regs::MGMT_FN_STATUS + func * hca_regs::MGMT_FN_STRIDE;
        write(status, hca_regs::FUNC_STATUS_FATAL_MASK);
    }
    loop {
        // SAFETY: it changes nothing.
        unsafe { asm!("wfi", options(nomem, nostack)) }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    print("the boot program has failed\n");
    fail()
}
