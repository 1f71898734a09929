//! Faults that the board injects, to show what a restart does: at a cycle of its choice firmware fails, whatever it
//! does then.

use core::arch::asm;

use hca_abi::{BoardHead, SOC_RESTARTS, SocFault};

use crate::board;
use crate::soc;
use crate::start;

/// mcause of the timer's interrupt, which nothing else takes.
const TIMER_CAUSE: u32 = 1 << 31 | 7;

/// Bits of mie.
const TIMER: u32 = 1 << 7;
const EXTERNAL: u32 = 1 << 11;

/// What the board has injected.
pub struct Fault {
    is_due: bool,
}

impl Fault {
    /// From the board's data; it happens so many cycles from now.
    pub fn of(head: &BoardHead) -> Self {
        let is_due =
            head.fault() != u8::from(SocFault::None) && soc::read_reg(SOC_RESTARTS) < head.fault_until();
        if is_due {
            soc::wake_in(Some(head.fault_cycles().into()));
            // SAFETY: the timer's interrupt alone is enabled; its handler is `trap`, which never returns.
            unsafe { asm!("csrw mie, {}", "csrsi mstatus, 8", in(reg) TIMER) }
        } else {
            // SAFETY: as start-up code has left it.
            unsafe { asm!("csrci mstatus, 8", "csrw mie, {}", in(reg) TIMER | EXTERNAL) }
        }
        Self { is_due }
    }

    /// The timer is its own, so firmware does not sleep.
    pub fn is_due(&self) -> bool {
        self.is_due
    }
}

/// Is it this that has interrupted?
pub fn is_injected(cause: u32) -> bool {
    cause == TIMER_CAUSE
}

/// It happens.
pub fn happen() -> ! {
    match SocFault::try_from(board::head().fault()) {
        Ok(SocFault::GiveUp) => start::restart(),
        // SAFETY: an illegal instruction is an exception, and nothing else.
        Ok(SocFault::Trap) => unsafe { asm!("unimp", options(noreturn)) },
        // SAFETY: writes to the stack alone, which nobody uses any more, until that has no memory.
        Ok(SocFault::Overflow) => unsafe {
            asm!("2: addi sp, sp, -16", "sw zero, 0(sp)", "j 2b", options(noreturn))
        },
        _ => loop {
            core::hint::spin_loop();
        },
    }
}
