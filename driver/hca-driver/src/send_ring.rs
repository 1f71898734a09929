//! The send ring.

use std::sync::Arc;

use hca_abi::SqWqeCtrl;
use hca_dev::DmaBuf;

use crate::DevicePtr;
use crate::doorbell::Doorbells;
use crate::error::PostError;
use crate::shadow::WqShadow;
use crate::work::{SEND_HEADER_BYTES, SGE_BYTES, SendOp, SendWr, Sge, WqSize, WrData, total_length};

/// Bytes of an atomic's operands, between the header and the scatter/gather entry.
const ATOMIC_BYTES: usize = 16;

/// Builds send WQEs in DMA memory. Free-running 16-bit index, masked on use.
#[derive(Debug)]
pub struct SendRing {
    ring: DmaBuf,
    size: WqSize,
    max_sge: usize,
    max_inline: usize,
    next: u16,
    shadow: Arc<WqShadow>,
}

impl SendRing {
    /// A ring in `ring`, which must have `size.ring_bytes()`.
    pub fn new(ring: DmaBuf, size: WqSize) -> Self {
        let shadow = Arc::new(WqShadow::new(size.log_size));
        Self {
            ring,
            size,
            max_sge: size.send_sges(),
            max_inline: size.inline_bytes(),
            next: 0,
            shadow,
        }
    }

    /// What the CQ needs.
    pub fn shadow(&self) -> &Arc<WqShadow> {
        &self.shadow
    }

    /// The memory.
    pub fn memory(&self) -> &DmaBuf {
        &self.ring
    }

    /// Writes one WQE. The card sees it after [`SendRing::ring_doorbell`].
    #[inline]
    pub fn push(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if !self.shadow.has_room(self.next) {
            return Err(PostError::RingFull {
                entries: self.shadow.entries(),
            });
        }
        let at = (usize::from(self.next) & ((1 << self.size.log_size) - 1)) * self.size.stride_bytes();
        let mut ctrl = SqWqeCtrl::new();
        match wr.data {
            WrData::Sges(sges) => {
                self.write_sges(at, &wr.op, sges)?;
                ctrl.set_length(total_length(sges)?);
                ctrl.set_num_sge(sges.len() as u8);
            }
            WrData::Inline(bytes) => {
                ctrl.set_length(self.write_inline(at, &wr.op, &[bytes])?);
                ctrl.set_inline_data(true);
            }
            WrData::InlineList(pieces) => {
                ctrl.set_length(self.write_inline(at, &wr.op, pieces)?);
                ctrl.set_inline_data(true);
            }
        }
        ctrl.set_opcode(wr.op.opcode().into());
        ctrl.set_signaled(wr.flags.signaled);
        ctrl.set_solicited(wr.flags.solicited);
        ctrl.set_fence(wr.flags.fence);
        ctrl.set_wqe_index(self.next);
        self.set_operands(&mut ctrl, at, &wr.op);
        for (i, word) in ctrl.as_bytes().as_chunks::<8>().0.iter().enumerate() {
            self.ring.store_u64(at + 8 * i, u64::from_le_bytes(*word));
        }
        self.shadow.record(self.next, wr.wr_id);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn set_operands(&self, ctrl: &mut SqWqeCtrl, at: usize, op: &SendOp) {
        let mut remote = |addr, key| {
            ctrl.set_remote_addr(addr);
            ctrl.set_rkey(key);
        };
        match *op {
            SendOp::Send => {}
            SendOp::SendWithImm { imm_data: word }
            | SendOp::SendWithInv {
                invalidate_rkey: word,
            } => {
                ctrl.set_imm_data(word.swap_bytes());
            }
            SendOp::RdmaWrite { remote_addr, rkey } | SendOp::RdmaRead { remote_addr, rkey } => {
                remote(remote_addr, rkey);
            }
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            } => {
                remote(remote_addr, rkey);
                ctrl.set_imm_data(imm_data.swap_bytes());
            }
            SendOp::AtomicCmpAndSwp {
                remote_addr,
                rkey,
                compare,
                swap,
            } => {
                remote(remote_addr, rkey);
                self.ring.store_u64(at + SEND_HEADER_BYTES, compare);
                self.ring.store_u64(at + SEND_HEADER_BYTES + 8, swap);
            }
            SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add,
            } => {
                remote(remote_addr, rkey);
                self.ring.store_u64(at + SEND_HEADER_BYTES, add);
                self.ring.store_u64(at + SEND_HEADER_BYTES + 8, 0);
            }
        }
    }

    #[inline]
    fn write_sges(&self, at: usize, op: &SendOp, sges: &[Sge]) -> Result<(), PostError> {
        if sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                given: sges.len(),
                max: self.max_sge,
            });
        }
        let mut at = at + SEND_HEADER_BYTES;
        if op.is_atomic() {
            if !matches!(sges, [sge] if sge.length == 8) {
                return Err(PostError::BadAtomic);
            }
            at += ATOMIC_BYTES;
        }
        for (i, sge) in sges.iter().enumerate() {
            write_sge(&self.ring, at + i * SGE_BYTES, sge);
        }
        Ok(())
    }

    #[inline]
    fn write_inline(&self, at: usize, op: &SendOp, pieces: &[&[u8]]) -> Result<u32, PostError> {
        if !op.takes_inline() {
            return Err(PostError::InlineNotAllowed);
        }
        let given = pieces.iter().map(|piece| piece.len()).sum();
        if given > self.max_inline {
            return Err(PostError::InlineTooLong {
                given,
                max: self.max_inline,
            });
        }
        let mut at = at + SEND_HEADER_BYTES;
        for piece in pieces {
            self.ring.write_bytes(at, piece);
            at += piece.len();
        }
        Ok(given as u32)
    }

    /// Hands every WQE written so far to the card.
    #[inline]
    pub fn ring_doorbell<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, qpn: u32) {
        self.shadow.publish(self.next);
        doorbells.send(qpn, self.next);
    }

    /// Index of the next WQE.
    pub fn next_index(&self) -> u16 {
        self.next
    }

    /// Takes WQEs back that the card has not been told of: the next one has this index again.
    pub fn rewind(&mut self, index: u16) {
        self.next = index;
    }

    /// Index 0 again, nothing outstanding: the QP went to RESET.
    pub fn reset(&mut self) {
        self.next = 0;
        self.shadow.reset();
    }
}

#[inline]
pub(crate) fn write_sge(ring: &DmaBuf, at: usize, sge: &Sge) {
    ring.store_u64(at, sge.addr);
    ring.store_u64(at + 8, u64::from(sge.length) | u64::from(sge.lkey) << 32);
}
