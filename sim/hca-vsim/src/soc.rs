//! The Verilated soft core (`hw/rtl/soc/hca_fw_soc.sv`), a clock cycle at a time.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::NoModels;
use crate::shim::{self, SocEntry};

/// Inputs of a cycle: ports of the same names.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct SocInputs {
    pub now: u64,
    pub fw_rdata: u32,
    pub load_addr: u32,
    pub load_data: u32,
    pub rst: u8,
    pub fw_req_stall: u8,
    pub fw_rd_ack: u8,
    pub fw_wr_ack: u8,
    pub fw_irq: u8,
    pub load_valid: u8,
    pub board_event: u8,
}

/// Outputs after a cycle's edge.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct SocOutputs {
    pub timer_at: u64,
    pub fw_addr: u32,
    pub fw_wdata: u32,
    pub tell_addr: u32,
    pub tell_data: u32,
    pub restarts: u32,
    pub journal_most: u32,
    pub fw_req: u8,
    pub fw_we: u8,
    pub tell_valid: u8,
    pub sleeps: u8,
    pub timer_active: u8,
}

/// One instance.
pub struct SoftCore {
    raw: NonNull<c_void>,
    entry: &'static SocEntry,
    outputs: SocOutputs,
}

// SAFETY: an instance owns its context and shares nothing with others; it is not `Sync`.
unsafe impl Send for SoftCore {}

impl SoftCore {
    /// A new one. `seed` decides what registers and memories hold before reset.
    pub fn new(seed: u64) -> Result<Self, NoModels> {
        let entry = shim::soft_core()?;
        let seed = ((seed ^ (seed >> 32)) & 0x7fff_ffff) as i32 | 1;
        // SAFETY: makes an instance.
        let raw = unsafe { (entry.new)(seed) };
        Ok(Self {
            raw: NonNull::new(raw).expect("the C++ shim returns an instance"),
            entry,
            outputs: SocOutputs::default(),
        })
    }

    /// A cycle with these inputs.
    #[inline]
    pub fn step(&mut self, inputs: &SocInputs) -> &SocOutputs {
        // SAFETY: raw is our live instance, both structures are those of soc.cpp.
        unsafe { (self.entry.step)(self.raw.as_ptr(), inputs, &mut self.outputs) }
        &self.outputs
    }

    /// After the last cycle.
    #[inline]
    pub fn outputs(&self) -> &SocOutputs {
        &self.outputs
    }
}

impl Drop for SoftCore {
    fn drop(&mut self) {
        // SAFETY: raw is live and not used afterwards.
        unsafe { (self.entry.free)(self.raw.as_ptr()) }
    }
}
