//! The register map for firmware and driver, printed from `abi/regs/*.rdl`, and the trait both reach it by.
//!
//! Firmware sees the whole map: `func[n]`, `mgmt`, `counters`, `mailbox`. A driver sees its own function
//! only, at offset 0 of BAR0, so the `FUNC_*` addresses (those of function 0) are also its offsets.
//!
//! ```
//! use hca_regs::{FUNC_CONTROL, FUNC_CONTROL_ENABLE_MASK, RegisterBus, place};
//! struct Bar([u32; 16]);
//! impl RegisterBus for Bar {
//!     fn read32(&mut self, addr: u32) -> u32 { self.0[addr as usize / 4] }
//!     fn write32(&mut self, addr: u32, value: u32) { self.0[addr as usize / 4] = value; }
//! }
//! let mut bar = Bar([0; 16]);
//! bar.write32(FUNC_CONTROL, place(1, FUNC_CONTROL_ENABLE_MASK));
//! assert_eq!(bar.read_field(FUNC_CONTROL, FUNC_CONTROL_ENABLE_MASK), 1);
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod map;

pub use map::*;

/// 32-bit access to registers. Addresses are byte offsets, multiples of 4.
pub trait RegisterBus {
    /// Reads a register.
    fn read32(&mut self, addr: u32) -> u32;
    /// Writes a register.
    fn write32(&mut self, addr: u32, value: u32);
    /// Nothing is asked for so many cycles, where there is a better use of them than to compute.
    fn pause(&mut self, _cycles: u32) {}
    /// Reads one field of a register.
    fn read_field(&mut self, addr: u32, mask: u32) -> u32 {
        field(self.read32(addr), mask)
    }
}

/// The field under `mask` in a register's `word`.
pub const fn field(word: u32, mask: u32) -> u32 {
    (word & mask) >> mask.trailing_zeros()
}

/// A register word whose field under `mask` holds `value`; what does not fit is cut off.
pub const fn place(value: u32, mask: u32) -> u32 {
    (value << mask.trailing_zeros()) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_contract() {
        assert_eq!((FUNC_ID, FUNC_STRIDE, FUNC_COUNT), (0, 0x1000, 16));
        assert_eq!(
            (FUNC_CONTROL, FUNC_ADMIN_STATUS, FUNC_TIME_LO),
            (0x0c, 0x24, 0x28)
        );
        assert_eq!(
            (MGMT, MGMT_CTX_DATA, MAILBOX, MAILBOX_BYTES),
            (0x1_0000, 0x1_0100, 0x2_0000, 4096)
        );
        assert_eq!((COUNTERS, MGMT_PORT_GID_ENTRY_STRIDE), (0x1_0800, 16));
        assert_eq!((MGMT_FN_STATUS, MGMT_FN_STRIDE), (0x1_0200, 0x10));
    }

    #[test]
    fn numbers_are_those_of_hca_abi() {
        assert_eq!(FUNC_ID_VALUE_FIXED, hca_abi::HCA_ID);
        assert_eq!(FUNC_ABI_VERSION_VALUE_FIXED, hca_abi::ABI_VERSION);
        assert_eq!(FUNC_STRIDE, hca_abi::DOORBELL_PAGE_OFFSET);
        assert_eq!(MAILBOX_BYTES, hca_abi::MAILBOX_BYTES);
        assert_eq!(MGMT_CTX_DATA_WORD_COUNT as usize * 4, hca_abi::Qpc::BYTES);
        assert!(COUNTERS_BYTES as usize >= hca_abi::QueryCountersResult::TABLE.fields.len() * 8);
    }

    #[test]
    fn fields_go_in_and_out() {
        assert_eq!(place(0x7ff, FUNC_FUNC_INFO_VECTORS_MASK), 0x07ff_0000);
        assert_eq!(field(0xffff_ffff, FUNC_FUNC_INFO_VECTORS_MASK), 0x7ff);
    }
}
