//! The send ring.

use std::sync::Arc;

use hca_abi::{MPT_ACCESS, PUSH_SLOT_BYTES, SqWqeBind, SqWqeCtrl};
use hca_dev::DmaBuf;

use crate::base::datagram::{Datagram, DatagramRules, Destination};
use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::PostError;
use crate::base::push::PushSlot;
use crate::base::work::{
    DATAGRAM_HEADER_BYTES, MwBind, SEND_HEADER_BYTES, SGE_BYTES, SendOp, SendWr, Sge, WqSize, WrData,
    total_length, words_of, write_sge,
};
use crate::rings::shadow::WqShadow;

/// Bytes that the headers of all send WQEs begin with alike.
const COMMON_BYTES: usize = 16;
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
    /// A ring of datagrams, and what they must fit.
    datagrams: Option<DatagramRules>,
    /// Nobody acknowledges what leaves it.
    is_unreliable: bool,
    /// Of an initiator of XRC.
    is_xrc: bool,
    /// Of whole Ethernet frames.
    is_raw: bool,
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
            datagrams: None,
            is_unreliable: false,
            is_xrc: false,
            is_raw: false,
        }
    }

    /// A ring of whole Ethernet frames.
    pub fn for_frames(ring: DmaBuf, size: WqSize) -> Self {
        Self {
            is_raw: true,
            ..Self::new(ring, size)
        }
    }

    /// A ring of an unreliable connection.
    pub fn for_unreliable(ring: DmaBuf, size: WqSize) -> Self {
        Self {
            is_unreliable: true,
            ..Self::new(ring, size)
        }
    }

    /// A ring of an initiator of XRC.
    pub fn for_xrc(ring: DmaBuf, size: WqSize) -> Self {
        Self {
            is_xrc: true,
            ..Self::new(ring, size)
        }
    }

    /// A ring of datagrams. None fits before the rules name a port and its MTU.
    pub fn for_datagrams(ring: DmaBuf, size: WqSize, rules: DatagramRules) -> Self {
        Self {
            max_sge: size.datagram_sges(),
            max_inline: size.datagram_inline_bytes(),
            datagrams: Some(rules),
            ..Self::new(ring, size)
        }
    }

    /// What its datagrams must fit; `None`: it is a ring of a connection.
    pub fn datagram_rules(&mut self) -> Option<&mut DatagramRules> {
        self.datagrams.as_mut()
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
    #[inline(always)]
    pub fn push(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.datagrams.is_some() {
            return Err(PostError::NoDestination);
        }
        if self.is_unreliable && wr.op.needs_acknowledges() {
            let opcode = wr.op.opcode();
            return Err(PostError::NotForUnreliable { opcode });
        }
        if self.is_xrc {
            return Err(PostError::NoRemoteSrq);
        }
        if self.is_raw && !matches!(wr.op, SendOp::Send) {
            let opcode = wr.op.opcode();
            return Err(PostError::NotForFrames { opcode });
        }
        let at = self.free_slot()?;
        let (ctrl, wqe_bytes) = self.write_data(at, SEND_HEADER_BYTES, wr)?;
        self.ring.store_words(at, words_of::<_, 4>(ctrl.as_bytes()));
        self.commit(wr, wqe_bytes);
        Ok(())
    }

    /// The same of XRC: the SRQ is the peer's.
    #[inline]
    pub fn push_xrc(&mut self, wr: &SendWr<'_>, remote_srqn: u32) -> Result<(), PostError> {
        if !self.is_xrc {
            return Err(PostError::RemoteSrqOfOther);
        }
        if wr.op.needs_windows() {
            let opcode = wr.op.opcode();
            return Err(PostError::NotForXrc { opcode });
        }
        if remote_srqn >> 24 != 0 {
            return Err(PostError::BadRemoteSrqn { remote_srqn });
        }
        let at = self.free_slot()?;
        let (mut ctrl, wqe_bytes) = self.write_data(at, SEND_HEADER_BYTES, wr)?;
        ctrl.set_remote_srqn(remote_srqn);
        self.ring.store_words(at, words_of::<_, 4>(ctrl.as_bytes()));
        self.commit(wr, wqe_bytes);
        Ok(())
    }

    /// The same with a datagram.
    #[inline]
    pub fn push_datagram(&mut self, datagram: &Datagram<'_>) -> Result<(), PostError> {
        let Datagram { wr, to } = datagram;
        let mtu_bytes = self.check_datagram(&wr.op, to)?;
        let at = self.free_slot()?;
        let (ctrl, wqe_bytes) = self.write_data(at, DATAGRAM_HEADER_BYTES, wr)?;
        if ctrl.length() > mtu_bytes {
            let length = ctrl.length();
            return Err(PostError::DatagramTooLong { length, mtu_bytes });
        }
        let mut header = to.address.wqe_to(to.remote_qpn, to.remote_qkey);
        header.0[..COMMON_BYTES].copy_from_slice(&ctrl.0[..COMMON_BYTES]);
        self.ring.store_words(at, words_of::<_, 8>(header.as_bytes()));
        self.commit(wr, wqe_bytes);
        Ok(())
    }

    /// Everything but the length, at most the bytes that this returns.
    #[inline]
    fn check_datagram(&self, op: &SendOp, to: &Destination<'_>) -> Result<u32, PostError> {
        let rules = self.datagrams.ok_or(PostError::DestinationOfConnection)?;
        if !matches!(op, SendOp::Send | SendOp::SendWithImm { .. }) {
            return Err(PostError::NotForDatagrams { opcode: op.opcode() });
        }
        let (pd, port_num) = (to.address.pd(), to.address.port_num());
        if pd != rules.pd {
            return Err(PostError::ForeignAddress { pd, qp_pd: rules.pd });
        }
        if port_num != rules.port_num {
            return Err(PostError::AddressOfOtherPort {
                port_num,
                qp_port_num: rules.port_num,
            });
        }
        if to.remote_qpn >> 24 != 0 {
            let remote_qpn = to.remote_qpn;
            return Err(PostError::BadRemoteQpn { remote_qpn });
        }
        Ok(rules.mtu_bytes)
    }

    /// Where the next WQE goes.
    #[inline]
    fn free_slot(&self) -> Result<usize, PostError> {
        if self.shadow.has_room(self.next) {
            Ok((usize::from(self.next) & ((1 << self.size.log_size) - 1)) * self.size.stride_bytes())
        } else {
            Err(PostError::RingFull {
                entries: self.shadow.entries(),
            })
        }
    }

    /// Writes what follows the header, and returns what the header says of it, with the length of the WQE without
    /// inline data. Inlined always: a header that a call returns in memory is read back in other pieces than it was
    /// written.
    #[inline(always)]
    fn write_data(
        &self,
        at: usize,
        header_bytes: usize,
        wr: &SendWr<'_>,
    ) -> Result<(SqWqeCtrl, usize), PostError> {
        if wr.flags.ip_csum && !self.is_raw {
            return Err(PostError::ChecksumOfOther);
        }
        let data_at = at + header_bytes;
        let (length, sges, wqe_bytes) = match wr.data {
            WrData::Sges(sges) => {
                let written = self.write_sges(data_at, &wr.op, sges)?;
                (total_length(sges)?, Some(sges.len()), header_bytes + written)
            }
            WrData::Inline(bytes) => (self.write_inline(data_at, &wr.op, &[bytes])?, None, header_bytes),
            WrData::InlineList(pieces) => (self.write_inline(data_at, &wr.op, pieces)?, None, header_bytes),
        };
        let operands = Operands::of(&wr.op);
        // Field after field, with no branch between: so the compiler keeps the header in registers.
        let mut ctrl = SqWqeCtrl::new();
        ctrl.set_opcode(wr.op.opcode().into());
        ctrl.set_signaled(wr.flags.signaled);
        ctrl.set_solicited(wr.flags.solicited);
        ctrl.set_fence(wr.flags.fence);
        ctrl.set_inline_data(sges.is_none());
        ctrl.set_ip_csum(wr.flags.ip_csum);
        ctrl.set_num_sge(sges.unwrap_or(0) as u8);
        ctrl.set_imm_data(operands.imm_data.swap_bytes());
        ctrl.set_length(length);
        ctrl.set_wqe_index(self.next);
        ctrl.set_remote_addr(operands.remote_addr);
        ctrl.set_rkey(operands.rkey);
        Ok((ctrl, wqe_bytes))
    }

    /// The WQE at the next index is there.
    #[inline(always)]
    fn commit(&mut self, wr: &SendWr<'_>, wqe_bytes: usize) {
        self.last_bytes = wqe_bytes;
        self.shadow.record(self.next, wr.wr_id);
        self.next = self.next.wrapping_add(1);
    }

    /// Returns how many bytes it has written behind the header.
    #[inline(always)]
    fn write_sges(&self, at: usize, op: &SendOp, sges: &[Sge]) -> Result<usize, PostError> {
        if sges.len() > self.max_sge {
            return Err(PostError::TooManySges {
                given: sges.len(),
                max: self.max_sge,
            });
        }
        let mut operands_bytes = 0;
        if let SendOp::BindMw(bind) = op {
            self.ring
                .store_words(at, words_of::<_, 4>(bind_wqe(bind).as_bytes()));
        }
        if op.is_local() {
            if !sges.is_empty() {
                return Err(PostError::DataNotAllowed { opcode: op.opcode() });
            }
            return Ok(SqWqeBind::BYTES);
        }
        if op.is_atomic() {
            if !matches!(sges, [sge] if sge.length == 8) {
                return Err(PostError::BadAtomic);
            }
            let (first, second) = match *op {
                SendOp::AtomicCmpAndSwp { compare, swap, .. } => (compare, swap),
                SendOp::AtomicFetchAndAdd { add, .. } => (add, 0),
                _ => (0, 0),
            };
            self.ring.store_words(at, [first, second]);
            operands_bytes = ATOMIC_BYTES;
        }
        for (i, sge) in sges.iter().enumerate() {
            write_sge(&self.ring, at + operands_bytes + i * SGE_BYTES, sge);
        }
        Ok(operands_bytes + sges.len() * SGE_BYTES)
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
        let mut at = at;
        for piece in pieces {
            self.ring.write_bytes(at, piece);
            at += piece.len();
        }
        Ok(given as u32)
    }

    /// Hands every WQE written so far to the card. One WQE behind which nothing is outstanding rides with the doorbell:
    /// the card need not read it. Where others are under way a read brings many, and no latency shows.
    #[inline(always)]
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
    #[inline]
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

/// What the header of a WQE says beyond its opcode and its data: 0 where the opcode has no use for it.
struct Operands {
    imm_data: u32,
    remote_addr: u64,
    rkey: u32,
}

impl Operands {
    #[inline(always)]
    fn of(op: &SendOp) -> Self {
        let (imm_data, remote_addr, rkey) = match *op {
            SendOp::Send => (0, 0, 0),
            SendOp::SendWithImm { imm_data } => (imm_data, 0, 0),
            SendOp::SendWithInv { invalidate_rkey } | SendOp::LocalInv { invalidate_rkey } => {
                (invalidate_rkey, 0, 0)
            }
            SendOp::BindMw(ref bind) => (0, bind.addr, bind.rkey),
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            } => (imm_data, remote_addr, rkey),
            SendOp::RdmaWrite { remote_addr, rkey }
            | SendOp::RdmaRead { remote_addr, rkey }
            | SendOp::AtomicCmpAndSwp {
                remote_addr, rkey, ..
            }
            | SendOp::AtomicFetchAndAdd {
                remote_addr, rkey, ..
            } => (0, remote_addr, rkey),
        };
        Self {
            imm_data,
            remote_addr,
            rkey,
        }
    }
}

fn bind_wqe(bind: &MwBind) -> SqWqeBind {
    let mut wqe = SqWqeBind::new();
    wqe.set_length(bind.length);
    wqe.set_lkey(bind.lkey);
    wqe.set_access((bind.access & MPT_ACCESS) as u8);
    wqe.set_is_type_2(bind.is_type_2);
    wqe
}
