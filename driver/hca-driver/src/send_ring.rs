//! The send ring.

use std::sync::Arc;

use hca_abi::{PUSH_SLOT_BYTES, SqWqeCtrl};
use hca_dev::DmaBuf;

use crate::DevicePtr;
use crate::doorbell::Doorbells;
use crate::error::PostError;
use crate::push::PushSlot;
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
    push_slot: Option<PushSlot>,
    /// Bytes of the WQE that was written last, without inline data, which the card always reads from the ring.
    last_bytes: usize,
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
            push_slot: None,
            last_bytes: 0,
        }
    }

    /// From now on a WQE that is posted alone rides with its doorbell, if it fits.
    pub fn set_push_slot(&mut self, slot: Option<PushSlot>) {
        self.push_slot = slot;
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
        let mut wqe_bytes = SEND_HEADER_BYTES;
        match wr.data {
            WrData::Sges(sges) => {
                wqe_bytes = self.write_sges(at, &wr.op, sges)?;
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
        self.last_bytes = wqe_bytes;
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

    /// Returns the length of the WQE.
    #[inline]
    fn write_sges(&self, at: usize, op: &SendOp, sges: &[Sge]) -> Result<usize, PostError> {
        if sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                given: sges.len(),
                max: self.max_sge,
            });
        }
        let mut header_bytes = SEND_HEADER_BYTES;
        if op.is_atomic() {
            if !matches!(sges, [sge] if sge.length == 8) {
                return Err(PostError::BadAtomic);
            }
            header_bytes += ATOMIC_BYTES;
        }
        for (i, sge) in sges.iter().enumerate() {
            write_sge(&self.ring, at + header_bytes + i * SGE_BYTES, sge);
        }
        Ok(header_bytes + sges.len() * SGE_BYTES)
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

    /// Hands every WQE written so far to the card. One WQE behind which nothing is outstanding rides with the doorbell:
    /// the card need not read it. Where others are under way a read brings many, and no latency shows.
    #[inline]
    pub fn ring_doorbell<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, qpn: u32) {
        let before = self.shadow.posted();
        self.shadow.publish(self.next);
        // All that was posted has completed: the card does not look at the slot any more.
        let alone = self.next == before.wrapping_add(1) && self.shadow.completed() == before;
        match &self.push_slot {
            Some(slot) if alone && self.last_bytes <= PUSH_SLOT_BYTES as usize => {
                let mut wqe = [0; PUSH_SLOT_BYTES as usize];
                let wqe = &mut wqe[..self.last_bytes];
                let at = (usize::from(before) & ((1 << self.size.log_size) - 1)) * self.size.stride_bytes();
                self.ring.read_bytes(at, wqe);
                doorbells.send_pushed(qpn, self.next, slot.number(), wqe);
            }
            _ => doorbells.send(qpn, self.next),
        }
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
