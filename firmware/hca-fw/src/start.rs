//! From reset to the loop, and what happens when something is wrong.

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::panic::PanicInfo;

use hca_abi::{SOC_BOARD_SEEN, SOC_IRQ, SOC_IRQ_BOARD, SOC_WATCHDOG};
use hca_fw_core::{Firmware, Identity, NUM_PORTS};

use crate::board::{self, Told};
use crate::soc::{self, Card};

// Exceptions go to 0, reset to 0x80; the words behind are the image's head, which sim/hca-image fills in (its layout is
// there): where the first values of .data are. Interrupts only end a WFI, they are never taken.
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
    .word 0, 0, 0
    .word 0, 0, 0, 0, 0, 0, 0, 0
    .option pop

start:
    la sp, _stack_top
    # Data is 0, then runs of words from the image: address, count, words; address 0 ends.
    la t0, {data_base}
    la t1, _data_end
1:  sw zero, 0(t0)
    sw zero, 4(t0)
    sw zero, 8(t0)
    sw zero, 12(t0)
    addi t0, t0, 16
    bltu t0, t1, 1b
    la t0, image_head
    lw t0, 4(t0)
2:  lw t1, 0(t0)
    beqz t1, 4f
    lw t2, 4(t0)
    addi t0, t0, 8
3:  lw t3, 0(t0)
    sw t3, 0(t1)
    addi t0, t0, 4
    addi t1, t1, 4
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
    data_base = const hca_abi::SOC_DATA_BASE,
);

struct State {
    firmware: Firmware,
    told: Told,
}

struct Cell(UnsafeCell<State>);

// SAFETY: there is one processor, and no interrupt is taken.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(State {
    firmware: Firmware::new(),
    told: Told::new(),
}));

/// The firmware, for ever.
#[unsafe(no_mangle)]
extern "C" fn run() -> ! {
    // SAFETY: start-up code calls this function once, and nobody else touches the state.
    let State { firmware, told } = unsafe { &mut *STATE.0.get() };
    let head = board::head();
    let watchdog = head.watchdog_cycles();
    let identities: [Identity; NUM_PORTS] = [board::identity(0), board::identity(1)];
    firmware.share_among(head.functions());
    board::learn(firmware);
    let ports = usize::from(head.ports()).clamp(1, NUM_PORTS);
    firmware.init_ports(&mut Card, identities.get(..ports).unwrap_or(&identities));
    told.begin(firmware, head.asks());
    loop {
        soc::write_reg(SOC_WATCHDOG, watchdog);
        if soc::read_reg(SOC_IRQ) & SOC_IRQ_BOARD != 0 {
            soc::write_reg(SOC_BOARD_SEEN, 0);
            board::learn(firmware);
        }
        let worked = firmware.poll(&mut Card);
        told.tell(firmware);
        if !worked {
            soc::wake_in(firmware.wakes_in(&mut Card));
            soc::wait_irq();
        }
    }
}

/// An exception: a fault of the firmware. It says so, and waits for the watchdog.
#[unsafe(no_mangle)]
extern "C" fn trap(cause: u32, pc: u32, value: u32) -> ! {
    soc::print("trap ");
    soc::print_hex(cause);
    soc::print(" at ");
    soc::print_hex(pc);
    soc::print(" value ");
    soc::print_hex(value);
    soc::print("\n");
    hang()
}

/// Rust wants one. Nothing calls it: sim/hca-image refuses an image in which something could.
#[panic_handler]
fn panic(_info: &PanicInfo) -> ! {
    hang()
}

fn hang() -> ! {
    loop {
        core::hint::spin_loop();
    }
}
