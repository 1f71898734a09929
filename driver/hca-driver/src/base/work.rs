//! Work requests, and the size of the rings that carry them.

use hca_abi::{
    MAX_INLINE_BYTES, MAX_LOG_WQ_SIZE, MAX_LOG_WQE_STRIDE, MAX_SGE, MIN_WQE_STRIDE_BYTES, WrOpcode,
};
use hca_dev::{DmaBuf, DmaPart};

use crate::base::error::{DriverError, PostError};

/// Bytes of a send WQE before its scatter/gather entries.
pub(crate) const SEND_HEADER_BYTES: usize = 32;
/// Bytes of the send WQE of a datagram before its scatter/gather entries.
pub(crate) const DATAGRAM_HEADER_BYTES: usize = 64;
/// Inline bytes in the largest send WQE of a datagram.
const MAX_DATAGRAM_INLINE_BYTES: u32 =
    (MIN_WQE_STRIDE_BYTES << MAX_LOG_WQE_STRIDE) - DATAGRAM_HEADER_BYTES as u32;
/// Bytes of a receive WQE before its scatter/gather entries.
pub(crate) const RECV_HEADER_BYTES: usize = 16;
pub(crate) const SGE_BYTES: usize = 16;
/// Longest message of any operation.
pub(crate) const MAX_MSG_BYTES: u64 = 1 << 31;

/// Scatter/gather entry: a piece of a memory region. Laid out as ibv_sge, so that a program's list need not be copied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Virtual address in the region of `lkey`.
    pub addr: u64,
    /// Bytes; 0 means zero bytes.
    pub length: u32,
    /// L_Key.
    pub lkey: u32,
}

/// What a send work request does. Immediate data is a number; its most significant byte is first on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendWithImm {
        /// Immediate data.
        imm_data: u32,
    },
    /// SEND that invalidates an R_Key at the receiver.
    SendWithInv {
        /// R_Key of the receiver.
        invalidate_rkey: u32,
    },
    /// RDMA WRITE.
    RdmaWrite {
        /// Virtual address at the responder.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
    },
    /// RDMA WRITE that also consumes a receive.
    RdmaWriteWithImm {
        /// Virtual address at the responder.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
        /// Immediate data.
        imm_data: u32,
    },
    /// RDMA READ.
    RdmaRead {
        /// Virtual address at the responder.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
    },
    /// Compare and swap of eight bytes.
    AtomicCmpAndSwp {
        /// Virtual address at the responder, multiple of 8.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
        /// Value to compare with.
        compare: u64,
        /// Value to store.
        swap: u64,
    },
    /// Fetch and add of eight bytes.
    AtomicFetchAndAdd {
        /// Virtual address at the responder, multiple of 8.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
        /// Value to add.
        add: u64,
    },
    /// Compare and swap of some bits of eight bytes, between two of our cards.
    MaskedAtomicCmpAndSwp {
        /// Virtual address at the responder, multiple of 8.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
        /// Value to compare with.
        compare: u64,
        /// Value to store.
        swap: u64,
        /// Bits to compare.
        compare_mask: u64,
        /// Bits to store.
        swap_mask: u64,
    },
    /// Fetch and add of eight bytes in fields, between two of our cards.
    MaskedAtomicFetchAndAdd {
        /// Virtual address at the responder, multiple of 8.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
        /// Values to add, field by field.
        add: u64,
        /// The most significant bit of each field: no carry leaves it. Bit 63 may be left away; 0 is one field.
        boundaries: u64,
    },
    /// Eight bytes written at once: nobody sees some of them. They are the data, given inline.
    AtomicWrite {
        /// Virtual address at the responder, multiple of 8.
        remote_addr: u64,
        /// R_Key at the responder.
        rkey: u32,
    },
    /// What this queue has written before, and the peer has acknowledged or not, is visible there when this completes.
    /// Without data.
    Flush(Flush),
    /// Binds a memory window. Without data.
    BindMw(MwBind),
    /// Registers memory under a key that is free: fast registration. Without data.
    RegMr(RegMr),
    /// Invalidates a window of type 2 that was bound through this queue, or a region that a work request of its domain
    /// has registered. Without data.
    LocalInv {
        /// Its key.
        invalidate_rkey: u32,
    },
}

/// What a FLUSH is to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// Virtual address at the responder.
    pub remote_addr: u64,
    /// R_Key at the responder.
    pub rkey: u32,
    /// Bytes of the range.
    pub length: u32,
    /// Placement type: [`Flush::GLOBAL`], [`Flush::PERSISTENT`], or both.
    pub placement: u8,
    /// All of the region, wherever the range is.
    pub whole_region: bool,
}

impl Flush {
    /// Global visibility: whoever reads there finds what was written.
    pub const GLOBAL: u8 = 1;
    /// Persistence: what was written outlives a loss of power. Cards of this kind refuse it.
    pub const PERSISTENT: u8 = 2;
}

/// What a key for fast registration is to be of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegMr {
    /// L_Key and R_Key from now on: the row, and another low byte.
    pub key: u32,
    /// First virtual address.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Access flags: LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC.
    pub access: u32,
    /// Pages have 1 << this bytes, 12..=30.
    pub page_shift: u8,
    /// Bus address of their list, a multiple of 64.
    pub page_list_addr: u64,
}

/// What a window is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MwBind {
    /// Its R_Key from now on: its row, and another low byte.
    pub rkey: u32,
    /// It is of type 2.
    pub is_type_2: bool,
    /// L_Key of the region.
    pub lkey: u32,
    /// First address.
    pub addr: u64,
    /// Bytes; type 1: 0 ends the binding.
    pub length: u64,
    /// Access flags: REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, ZERO_BASED.
    pub access: u32,
}

impl SendOp {
    /// The opcode of the WQE.
    pub fn opcode(&self) -> WrOpcode {
        match self {
            Self::Send => WrOpcode::Send,
            Self::SendWithImm { .. } => WrOpcode::SendWithImm,
            Self::SendWithInv { .. } => WrOpcode::SendWithInv,
            Self::RdmaWrite { .. } => WrOpcode::RdmaWrite,
            Self::RdmaWriteWithImm { .. } => WrOpcode::RdmaWriteWithImm,
            Self::RdmaRead { .. } => WrOpcode::RdmaRead,
            Self::AtomicCmpAndSwp { .. } => WrOpcode::AtomicCmpAndSwp,
            Self::AtomicFetchAndAdd { .. } => WrOpcode::AtomicFetchAndAdd,
            Self::MaskedAtomicCmpAndSwp { .. } => WrOpcode::MaskedAtomicCmpAndSwp,
            Self::MaskedAtomicFetchAndAdd { .. } => WrOpcode::MaskedAtomicFetchAndAdd,
            Self::AtomicWrite { .. } => WrOpcode::AtomicWrite,
            Self::Flush(_) => WrOpcode::Flush,
            Self::BindMw(_) => WrOpcode::BindMw,
            Self::RegMr(_) => WrOpcode::RegMr,
            Self::LocalInv { .. } => WrOpcode::LocalInv,
        }
    }

    /// The peer answers with a response: not without acknowledges.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_atomic()
            || matches!(
                self,
                Self::RdmaRead { .. } | Self::AtomicWrite { .. } | Self::Flush(_)
            )
    }

    /// No packet goes out, and there is no data.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::BindMw(_) | Self::RegMr(_) | Self::LocalInv { .. })
    }

    pub(crate) fn is_atomic(&self) -> bool {
        matches!(
            self,
            Self::AtomicCmpAndSwp { .. }
                | Self::AtomicFetchAndAdd { .. }
                | Self::MaskedAtomicCmpAndSwp { .. }
                | Self::MaskedAtomicFetchAndAdd { .. }
        )
    }

    pub(crate) fn takes_inline(&self) -> bool {
        matches!(self, Self::AtomicWrite { .. }) || (!self.is_answered() && !self.is_local())
    }
}

/// A work request of one of the operations that nearly all are of, laid flat: SEND and RDMA WRITE, with immediate data
/// or without, and RDMA READ, of registered memory. [`SendWr`] says it, too; this costs less to make and to post.
#[derive(Clone, Copy, Debug)]
pub struct PlainWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Operation.
    pub opcode: WrOpcode,
    /// Immediate data, bytes as on the wire; 0 without.
    pub imm_data: u32,
    /// Virtual address at the responder; 0 of a SEND.
    pub remote_addr: u64,
    /// R_Key at the responder; 0 of a SEND.
    pub rkey: u32,
    /// Flags.
    pub flags: SendFlags,
    /// Data.
    pub sges: &'a [Sge],
}

/// A set of opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcodes(u32);

impl Opcodes {
    /// None.
    pub const NONE: Self = Self(0);
    /// Those of [`PlainWr`].
    pub const PLAIN: Self = Self::SENDS_AND_WRITES.with(WrOpcode::RdmaRead);
    /// No packet goes out.
    pub const LOCAL: Self = Self::NONE
        .with(WrOpcode::BindMw)
        .with(WrOpcode::RegMr)
        .with(WrOpcode::LocalInv);
    /// SEND and RDMA WRITE, with immediate data or without.
    pub const SENDS_AND_WRITES: Self = Self::NONE
        .with(WrOpcode::Send)
        .with(WrOpcode::SendWithImm)
        .with(WrOpcode::RdmaWrite)
        .with(WrOpcode::RdmaWriteWithImm);

    /// And this one.
    pub const fn with(self, opcode: WrOpcode) -> Self {
        Self(self.0 | 1 << opcode as u8)
    }

    /// Is this number one of them?
    #[inline(always)]
    pub fn has(self, opcode: u32) -> bool {
        opcode < u32::BITS && self.0 >> opcode & 1 == 1
    }
}

/// No service without acknowledges has it.
pub(crate) fn needs_acknowledges(opcode: WrOpcode) -> bool {
    Opcodes::NONE
        .with(WrOpcode::SendWithInv)
        .with(WrOpcode::RdmaRead)
        .with(WrOpcode::AtomicCmpAndSwp)
        .with(WrOpcode::AtomicFetchAndAdd)
        .with(WrOpcode::AtomicWrite)
        .with(WrOpcode::Flush)
        .with(WrOpcode::MaskedAtomicCmpAndSwp)
        .with(WrOpcode::MaskedAtomicFetchAndAdd)
        .has(opcode as u32)
}

/// ibv_send_flags, without INLINE (see [`WrData`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// Make a completion on success too (for QPs without sq_sig_all).
    pub signaled: bool,
    /// Raise a solicited event at the receiver.
    pub solicited: bool,
    /// Start only after all earlier READs and atomics of this queue.
    pub fence: bool,
    /// Frames: the card fills in the checksums of an IPv4 header and of TCP or UDP behind it (OP-17).
    pub ip_csum: bool,
}

impl SendFlags {
    /// Only `signaled`.
    pub const SIGNALED: Self = Self {
        signaled: true,
        solicited: false,
        fence: false,
        ip_csum: false,
    };
}

/// Where the data of a send comes from (or that of a READ goes to).
#[derive(Clone, Copy, Debug)]
pub enum WrData<'a> {
    /// Registered memory.
    Sges(&'a [Sge]),
    /// Copied into the WQE now: the buffer may be reused at once, and needs no registration.
    Inline(&'a [u8]),
    /// The same, gathered from several pieces.
    InlineList(&'a [&'a [u8]]),
}

/// Send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Operation.
    pub op: SendOp,
    /// Flags.
    pub flags: SendFlags,
    /// Data.
    pub data: WrData<'a>,
}

/// Receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: &'a [Sge],
}

/// The first work request of a list that was refused; the ones before it are posted, it and the later ones
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work request {index} of the list: {error}")]
pub struct BadWr {
    /// Its position in the list.
    pub index: usize,
    /// Why.
    pub error: PostError,
}

/// Size of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WqSize {
    /// log2 of the entries.
    pub log_size: u8,
    /// An entry has `64 << log_stride` bytes.
    pub log_stride: u8,
}

impl WqSize {
    /// Smallest send queue with at least `max_wr` entries of `max_sge` scatter/gather entries or `max_inline`
    /// bytes.
    pub fn for_send(max_wr: u32, max_sge: u32, max_inline: u32) -> Result<Self, DriverError> {
        check("max_send_sge", max_sge, MAX_SGE)?;
        check("max_inline_data", max_inline, MAX_INLINE_BYTES)?;
        let payload = (max_sge as usize * SGE_BYTES).max(max_inline as usize);
        Self::fitting("max_send_wr", max_wr, SEND_HEADER_BYTES + payload)
    }

    /// The same of datagrams, whose WQEs have room for at least one entry.
    pub fn for_datagrams(max_wr: u32, max_sge: u32, max_inline: u32) -> Result<Self, DriverError> {
        check("max_send_sge", max_sge, MAX_SGE)?;
        check("max_inline_data", max_inline, MAX_DATAGRAM_INLINE_BYTES)?;
        let payload = (max_sge.max(1) as usize * SGE_BYTES).max(max_inline as usize);
        Self::fitting("max_send_wr", max_wr, DATAGRAM_HEADER_BYTES + payload)
    }

    /// Smallest receive queue with at least `max_wr` entries of `max_sge` scatter/gather entries.
    pub fn for_recv(max_wr: u32, max_sge: u32) -> Result<Self, DriverError> {
        check("max_recv_sge", max_sge, MAX_SGE)?;
        Self::fitting(
            "max_recv_wr",
            max_wr,
            RECV_HEADER_BYTES + max_sge as usize * SGE_BYTES,
        )
    }

    fn fitting(what: &'static str, max_wr: u32, wqe_bytes: usize) -> Result<Self, DriverError> {
        check(what, max_wr, 1 << MAX_LOG_WQ_SIZE)?;
        let strides = wqe_bytes
            .div_ceil(MIN_WQE_STRIDE_BYTES as usize)
            .next_power_of_two();
        let log_stride = strides.trailing_zeros() as u8;
        debug_assert!(u32::from(log_stride) <= MAX_LOG_WQE_STRIDE);
        Ok(Self {
            log_size: max_wr.max(1).next_power_of_two().trailing_zeros() as u8,
            log_stride,
        })
    }

    /// Bytes of one entry.
    pub fn stride_bytes(&self) -> usize {
        (MIN_WQE_STRIDE_BYTES as usize) << self.log_stride
    }

    /// Bytes of the ring.
    pub fn ring_bytes(&self) -> usize {
        self.stride_bytes() << self.log_size
    }

    /// Where the entry with a free-running index begins.
    #[inline(always)]
    pub(crate) fn entry_offset(&self, index: u32) -> usize {
        let mask = 1usize.wrapping_shl(self.log_size.into()).wrapping_sub(1);
        let stride_log = u32::from(self.log_stride).wrapping_add(MIN_WQE_STRIDE_BYTES.trailing_zeros());
        (index as usize & mask).wrapping_shl(stride_log)
    }

    /// The entry of `ring` with a free-running index. Whatever the sizes are, it is inside.
    #[inline(always)]
    pub(crate) fn entry<'a>(&self, ring: &'a DmaBuf, index: u32) -> DmaPart<'a> {
        let stride_bytes = (MIN_WQE_STRIDE_BYTES as usize).wrapping_shl(self.log_stride.into());
        ring.part(self.entry_offset(index), stride_bytes)
    }

    /// Scatter/gather entries that a send WQE of this size has room for.
    pub fn send_sges(&self) -> usize {
        ((self.stride_bytes() - SEND_HEADER_BYTES) / SGE_BYTES).min(MAX_SGE as usize)
    }

    /// Inline bytes that a send WQE of this size has room for.
    pub fn inline_bytes(&self) -> usize {
        self.stride_bytes() - SEND_HEADER_BYTES
    }

    /// Scatter/gather entries that a send WQE of a datagram has room for.
    pub fn datagram_sges(&self) -> usize {
        (self.datagram_inline_bytes() / SGE_BYTES).min(MAX_SGE as usize)
    }

    /// Inline bytes that a send WQE of a datagram has room for.
    pub fn datagram_inline_bytes(&self) -> usize {
        self.stride_bytes().saturating_sub(DATAGRAM_HEADER_BYTES)
    }

    /// Scatter/gather entries that a receive WQE of this size has room for.
    pub fn recv_sges(&self) -> usize {
        ((self.stride_bytes() - RECV_HEADER_BYTES) / SGE_BYTES).min(MAX_SGE as usize)
    }
}

fn check(what: &'static str, value: u32, max: u32) -> Result<(), DriverError> {
    if value <= max {
        Ok(())
    } else {
        Err(DriverError::TooLarge {
            what,
            value: value.into(),
            max: max.into(),
        })
    }
}

/// Sum of the lengths, if a message may be that long.
pub(crate) fn total_length(sges: &[Sge]) -> Result<u32, PostError> {
    message_length(sges.iter().map(|sge| u64::from(sge.length)).sum())
}

/// A message may be that long.
#[inline(always)]
pub(crate) fn message_length(length: u64) -> Result<u32, PostError> {
    if length <= MAX_MSG_BYTES {
        Ok(length as u32)
    } else {
        Err(PostError::TooLong { length })
    }
}

/// Writes the scatter/gather entries of any WQE, from place `at` of it on. Returns the sum of their lengths.
#[inline(always)]
pub(crate) fn write_sges(wqe: DmaPart<'_>, at: usize, sges: &[Sge]) -> u64 {
    // 16 entries of 32 bits each: no sum is too large.
    let (mut at, mut length) = (at, 0u64);
    for sge in sges {
        wqe.store_words(at, [sge.addr, u64::from(sge.length) | u64::from(sge.lkey) << 32]);
        length = length.wrapping_add(sge.length.into());
        at = at.wrapping_add(SGE_BYTES);
    }
    length
}

/// The 64-bit words of an entry, as they lie in memory.
#[inline(always)]
pub(crate) fn words_of<const BYTES: usize, const WORDS: usize>(entry: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == 8 * WORDS) };
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}
