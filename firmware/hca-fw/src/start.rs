//! From reset to the loop, and what happens when something is wrong.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;

use hca_abi::{
    ImageHead, SOC_BOARD_SEEN, SOC_IRQ, SOC_IRQ_BOARD, SOC_RESTART, SOC_STRIKES, SOC_STRIKES_MOST,
    SOC_WATCHDOG,
};
use hca_fw_core::{Firmware, Identity, Image, NUM_PORTS, Quotas};

use crate::board::{self, Told};
use crate::fault::{self, Fault};
use crate::soc::{self, Card};

/// Restarts since firmware was well, after which it goes on from what it knew; with more of them, or without a whole
/// state, it begins anew, and at last not at all.
const WARM: u32 = 1;
const COLD: u32 = 2;
/// It is well when it has run out of work, or after so many turns.
const TURNS_TO_BE_WELL: u32 = 64;

// Exceptions go to 0; the boot program enters at 0x80; the words behind are the image's head, which sim/hca-image fills
// in: among others, where the first values of .data are. Interrupts only end a WFI; the only one that is ever taken is
// that of an injected fault.
global_asm!(
    r#"
    .section .vectors,"ax"
    .option push
    .option norvc
    .rept 32
    j trap_entry
    .endr
    .globl _start
_start:
    j start
    .globl image_head
image_head:
    .word 0x46574348
    .zero {head_bytes} - 4
    .option pop

start:
    la sp, _stack_top
    csrwi mtvec, 1
    # Argument of run: how to start. With the state of the last commit in memory, that stays as it is.
    li t0, {regs_base}
    lw a0, {strikes}(t0)
    # A card that has been at work has rows of before, though this image is new to it.
    bnez a0, 1f
    lw t1, {restarts}(t0)
    beqz t1, 0f
    li a0, {cold}
1:  li t1, {warm}
    bne a0, t1, 0f
    lw t1, {journal}(t0)
    bnez t1, 4f
    li a0, {cold}
0:
    # What is used most lies within 4 KiB of the data's beginning, and is reached from here.
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    # Data is 0, then runs of bytes from the image: how many to leave (7 bits; 15, the high ones first, if the first
    # byte is 128 or more), how many come, they; none ends.
    la t0, _data_start
    la t1, _data_end
1:  sw zero, 0(t0)
    sw zero, 4(t0)
    sw zero, 8(t0)
    sw zero, 12(t0)
    addi t0, t0, 16
    bltu t0, t1, 1b
    la t0, image_head
    lw t0, 4(t0)
    la t1, _data_start
2:  lbu t2, 0(t0)
    addi t0, t0, 1
    andi t3, t2, 0x80
    beqz t3, 7f
    andi t2, t2, 0x7f
    slli t2, t2, 8
    lbu t3, 0(t0)
    or t2, t2, t3
    addi t0, t0, 1
7:  add t1, t1, t2
    lbu t2, 0(t0)
    addi t0, t0, 1
    beqz t2, 4f
3:  lbu t3, 0(t0)
    sb t3, 0(t1)
    addi t0, t0, 1
    addi t1, t1, 1
    addi t2, t2, -1
    bnez t2, 3b
    j 2b
    # The timer and what is outside may end a WFI.
4:  li t0, 0x880
    csrw mie, t0
    call run
5:  j 5b

trap_entry:
    la sp, _stack_top
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call trap
6:  j 6b
"#,
    head_bytes = const ImageHead::BYTES,
    regs_base = const hca_abi::SOC_REGS_BASE,
    strikes = const SOC_STRIKES,
    restarts = const hca_abi::SOC_RESTARTS,
    journal = const hca_abi::SOC_JOURNAL,
    warm = const WARM,
    cold = const COLD,
);

struct State {
    firmware: Firmware,
    told: Told,
}

struct Cell(UnsafeCell<State>);

// SAFETY: there is one processor, and no interrupt is taken.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(State {
    firmware: Firmware::for_quotas(Quotas::none()),
    told: Told::new(),
}));

/// The firmware, for ever.
#[unsafe(no_mangle)]
extern "C" fn run(strikes: u32) -> ! {
    // SAFETY: start-up code calls this function once, and nobody else touches the state.
    let state = unsafe { &mut *STATE.0.get() };
    let head = board::head();
    soc::write_reg(SOC_WATCHDOG, head.watchdog_cycles());
    if strikes >= SOC_STRIKES_MOST {
        give_up();
    }
    if strikes == WARM {
        soc::print("restarted, with its state of before\n");
        state.firmware.resume(&mut Card);
    } else {
        begin(state, strikes != 0);
    }
    let State { firmware, told } = state;
    let mut fault = Fault::of(&head);
    let (mut watchdog, mut turns, mut is_well) = (head.watchdog_cycles(), 0, false);
    let is_new = board::is_new_image();
    loop {
        soc::write_reg(SOC_WATCHDOG, watchdog);
        soc::commit();
        if soc::read_reg(SOC_IRQ) & SOC_IRQ_BOARD != 0 {
            soc::write_reg(SOC_BOARD_SEEN, 0);
            let head = board::head();
            watchdog = head.watchdog_cycles();
            fault = Fault::of(&head);
        }
        let worked = firmware.poll(&mut Card);
        told.tell(firmware);
        turns += u32::from(!is_well);
        // A new image is well when it has answered a command, too: one that cannot could never be replaced.
        if !is_well && (!worked || turns >= TURNS_TO_BE_WELL) && (!is_new || firmware.has_answered()) {
            is_well = true;
            soc::commit();
            soc::write_reg(SOC_STRIKES, 0);
            if is_new {
                board::image_is_good(own_head().epoch());
            }
        }
        if firmware.take_restart() {
            board::choose_image();
            restart();
        }
        if !worked && !fault.is_due() {
            soc::wake_in(firmware.wakes_in(&mut Card));
            soc::wait_irq();
        }
    }
}

/// From nothing. `again`: on a card at work, of which nothing is known any more.
fn begin(State { firmware, told }: &mut State, again: bool) {
    let head = board::head();
    let identities: [Identity; NUM_PORTS] = [board::identity(0), board::identity(1)];
    firmware.set_image(image());
    firmware.share_out(Quotas::of_nibbles(head.quotas()));
    firmware.find_neighbours_in(board::find_neighbour);
    let ports = usize::from(head.ports()).clamp(1, NUM_PORTS);
    let identities = identities.get(..ports).unwrap_or(&identities);
    if again {
        soc::print("restarted without a state: functions in use have to be reset\n");
        firmware.init_again(&mut Card, identities);
    } else {
        firmware.init_ports(&mut Card, identities);
    }
    told.begin(firmware, head.asks());
}

unsafe extern "C" {
    /// The head of this image, which sim/hca-image has filled in.
    static image_head: [u8; ImageHead::BYTES];
}

/// What is in memory.
fn own_head() -> ImageHead {
    ImageHead(soc::image_bytes((&raw const image_head).addr() as u32))
}

/// What the head says.
fn image() -> Image {
    let head = own_head();
    Image {
        version: head.version(),
        digest: head.digest(),
        on_core: true,
    }
}

/// Every start has failed: the card says so, and its processor does nothing more.
fn give_up() -> ! {
    Firmware::give_up(&mut Card);
    soc::print("stopped: it failed again after every restart\n");
    soc::write_reg(SOC_WATCHDOG, 0);
    loop {
        soc::sleep_for_good();
    }
}

/// An exception: a fault of the firmware. It says so, and is restarted.
#[unsafe(no_mangle)]
extern "C" fn trap(cause: u32, pc: u32, value: u32) -> ! {
    if fault::is_injected(cause) {
        fault::happen();
    }
    soc::print("trap ");
    soc::print_hex(cause);
    soc::print(" at ");
    soc::print_hex(pc);
    soc::print(" value ");
    soc::print_hex(value);
    soc::print("\n");
    restart()
}

/// Rust wants one. Nothing calls it: sim/hca-image refuses an image in which something could.
#[panic_handler]
fn panic(_info: &PanicInfo) -> ! {
    restart()
}

/// Firmware gives up: the core is restarted.
pub fn restart() -> ! {
    soc::write_reg(SOC_RESTART, 0);
    loop {
        core::hint::spin_loop();
    }
}
