//! Identity, limits and BAR offsets.

use crate::table::abi_consts;

abi_consts! {
    "Identity" {
        /// Value of the ID register: "HCA1".
        HCA_ID = 0x4843_4131,
        /// Value of the ABI_VERSION register. Driver and firmware refuse any other.
        ABI_VERSION = 1,
    }
    "BAR0 of a function" {
        /// Size of BAR0.
        BAR0_BYTES = 0x1_0000,
        /// Function registers (SystemRDL `hca_func`).
        FUNC_REGS_OFFSET = 0x0000,
        /// Doorbell page; every doorbell is one 64-bit write.
        DOORBELL_PAGE_OFFSET = 0x1000,
        /// Send queue doorbell, offset in the doorbell page.
        SQ_DOORBELL_OFFSET = 0x000,
        /// Receive queue doorbell, offset in the doorbell page.
        RQ_DOORBELL_OFFSET = 0x008,
        /// Completion queue doorbell, offset in the doorbell page.
        CQ_DOORBELL_OFFSET = 0x010,
        /// Event queue doorbell, offset in the doorbell page.
        EQ_DOORBELL_OFFSET = 0x018,
        /// Admin queue doorbell, offset in the doorbell page.
        ADMIN_DOORBELL_OFFSET = 0x020,
        /// Shared receive queue doorbell, offset in the doorbell page.
        SRQ_DOORBELL_OFFSET = 0x028,
        /// Size of a doorbell page.
        DOORBELL_PAGE_BYTES = 0x1000,
    }
    "Limits of the layouts" {
        /// Scatter/gather entries of one WQE.
        MAX_SGE = 16,
        /// Smallest WQE stride; a stride is 64 << log_stride.
        MIN_WQE_STRIDE_BYTES = 64,
        /// Largest log_stride: 512-byte WQEs.
        MAX_LOG_WQE_STRIDE = 3,
        /// Inline bytes in the largest send WQE.
        MAX_INLINE_BYTES = 480,
        /// Largest log2 of the entries of a send or receive ring; indices are free-running 16 bit.
        MAX_LOG_WQ_SIZE = 15,
        /// Largest log2 of the entries of a completion queue; indices are free-running 24 bit.
        MAX_LOG_CQ_SIZE = 22,
        /// Largest log2 of the entries of an event queue; indices are free-running 16 bit.
        MAX_LOG_EQ_SIZE = 15,
        /// Largest log2 of the entries of the admin rings; indices are free-running 16 bit.
        MAX_LOG_ADMIN_SIZE = 10,
        /// Smallest page_shift of a memory region: 4 KiB.
        MIN_PAGE_SHIFT = 12,
        /// Largest page_shift of a memory region: 1 GiB.
        MAX_PAGE_SHIFT = 30,
        /// page_shift of a region that is one contiguous bus range (no page table).
        DIRECT_PAGE_SHIFT = 63,
        /// Bytes of the mailbox memory between firmware and DMA engine.
        MAILBOX_BYTES = 4096,
        /// First EQE kind that carries an asynchronous event: kind = this + ibv_event_type.
        EVENT_KIND_BASE = 0x10,
    }
}
