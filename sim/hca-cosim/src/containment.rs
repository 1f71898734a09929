//! What the host does about a function whose write was lost: decision 0016.

use hca_host::Fault;
use hca_regs as reg;

use crate::fabric::{CardId, Fabric};

/// Resets a function by its register, as a function level reset does.
pub(crate) fn reset_function(fabric: &mut Fabric, card: CardId, func: u8) {
    let data = u64::from(reg::FUNC_CONTROL_RESET_MASK) << (8 * (reg::FUNC_CONTROL & 4));
    let strb = 0x0f << (reg::FUNC_CONTROL & 4);
    fabric.mmio_write(card, func, reg::FUNC_CONTROL as u16, data, strb);
}

/// The write that a function has lost, since when it is cut off.
pub(crate) fn lost_write(fabric: &Fabric, card: CardId, func: u8) -> Option<Fault> {
    fabric.card(card).host_ref().lost_write(func)
}
