//! The send ring.

use std::sync::Arc;

use hca_abi::{
    MPT_ACCESS, PUSH_SLOT_BYTES, SqWqeBind, SqWqeCtrl, SqWqeFlush, SqWqeMasks, WrOpcode, wqe_index,
};
use hca_dev::{DmaBuf, DmaPart};
use hca_room::NoRoom;

use crate::base::datagram::{Datagram, DatagramRules, Destination};
use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::PostError;
use crate::base::push::PushSlot;
use crate::base::work::{
    DATAGRAM_HEADER_BYTES, Flush, Opcodes, PlainWr, SEND_HEADER_BYTES, SGE_BYTES, SendFlags, SendOp, SendWr,
    Sge, WqSize, WrData, message_length, needs_acknowledges, words_of, write_sges,
};
use crate::rings::shadow::WqShadow;

/// Bytes that the headers of all send WQEs begin with alike.
const COMMON_BYTES: usize = 16;
/// Bytes of an atomic's operands, between the header and the scatter/gather entry.
const ATOMIC_BYTES: usize = 16;
/// Bytes of an ATOMIC WRITE.
const ATOMIC_WRITE_BYTES: usize = 8;

/// Builds send WQEs in DMA memory. Free-running index, masked on use.
#[derive(Debug)]
pub struct SendRing {
    ring: DmaBuf,
    size: WqSize,
    max_sge: usize,
    max_inline: usize,
    next: u32,
    shadow: Arc<WqShadow>,
    /// What [`SendRing::push_plain`] writes at once.
    plain: Opcodes,
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
    pub fn new(ring: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        let shadow = Arc::new(WqShadow::new(size.log_size)?);
        Ok(Self {
            ring,
            size,
            max_sge: size.send_sges(),
            max_inline: size.inline_bytes(),
            next: 0,
            shadow,
            plain: Opcodes::PLAIN,
            push_slot: None,
            last_bytes: 0,
            datagrams: None,
            is_unreliable: false,
            is_xrc: false,
            is_raw: false,
        })
    }

    /// A ring of whole Ethernet frames.
    pub fn for_frames(ring: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        Ok(Self {
            is_raw: true,
            plain: Opcodes::NONE.with(WrOpcode::Send),
            ..Self::new(ring, size)?
        })
    }

    /// A ring of an unreliable connection.
    pub fn for_unreliable(ring: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        Ok(Self {
            is_unreliable: true,
            plain: Opcodes::SENDS_AND_WRITES,
            ..Self::new(ring, size)?
        })
    }

    /// A ring of an initiator of XRC.
    pub fn for_xrc(ring: DmaBuf, size: WqSize) -> Result<Self, NoRoom> {
        Ok(Self {
            is_xrc: true,
            plain: Opcodes::NONE,
            ..Self::new(ring, size)?
        })
    }

    /// A ring of datagrams. None fits before the rules name a port and its MTU.
    pub fn for_datagrams(ring: DmaBuf, size: WqSize, rules: DatagramRules) -> Result<Self, NoRoom> {
        Ok(Self {
            max_sge: size.datagram_sges(),
            max_inline: size.datagram_inline_bytes(),
            datagrams: Some(rules),
            plain: Opcodes::NONE,
            ..Self::new(ring, size)?
        })
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

    /// The operations that a queue of this service takes in the form of [`SendRing::push_plain`].
    #[inline]
    pub fn plain(&self) -> Opcodes {
        self.plain
    }

    /// Writes one WQE of the common kind. The card sees it after [`SendRing::ring_doorbell`].
    #[inline(always)]
    pub fn push_plain(&mut self, wr: &PlainWr<'_>) -> Result<(), PostError> {
        if !self.plain.has(wr.opcode as u32) {
            return Err(self
                .refusal(wr.opcode)
                .unwrap_or(PostError::NotPlain { opcode: wr.opcode }));
        }
        if wr.flags.ip_csum && !self.is_raw {
            return Err(PostError::ChecksumOfOther);
        }
        if wr.sges.len() > self.max_sge {
            return Err(self.too_many_sges(wr.sges.len()));
        }
        let wqe = self.free_entry()?;
        let length = message_length(write_sges(wqe, SEND_HEADER_BYTES, wr.sges))?;
        let ctrl = self.header(
            (wr.opcode, wr.flags),
            (Some(wr.sges.len()), length),
            &Operands {
                imm_data: wr.imm_data,
                remote_addr: wr.remote_addr,
                rkey: wr.rkey,
            },
        );
        wqe.store_words(0, words_of::<_, 4>(ctrl.as_bytes()));
        let data_bytes = wr.sges.len().wrapping_mul(SGE_BYTES);
        self.commit(wr.wr_id, SEND_HEADER_BYTES.wrapping_add(data_bytes));
        Ok(())
    }

    /// Why a queue of this service takes no such operation without a word of more.
    #[cold]
    #[inline(never)]
    fn refusal(&self, opcode: WrOpcode) -> Option<PostError> {
        if self.datagrams.is_some() {
            Some(PostError::NoDestination)
        } else if self.is_unreliable && needs_acknowledges(opcode) {
            Some(PostError::NotForUnreliable { opcode })
        } else if self.is_xrc && !Opcodes::LOCAL.has(opcode as u32) {
            Some(PostError::NoRemoteSrq)
        } else if self.is_raw && opcode != WrOpcode::Send {
            Some(PostError::NotForFrames { opcode })
        } else {
            None
        }
    }

    #[cold]
    fn too_many_sges(&self, given: usize) -> PostError {
        let max = self.max_sge;
        PostError::TooManySges { given, max }
    }

    /// Writes one WQE. The card sees it after [`SendRing::ring_doorbell`].
    #[inline]
    pub fn push(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.plain != Opcodes::PLAIN
            && let Some(error) = self.refusal(wr.op.opcode())
        {
            return Err(error);
        }
        let wqe = self.free_entry()?;
        let (ctrl, wqe_bytes) = self.write_data(wqe, SEND_HEADER_BYTES, wr)?;
        wqe.store_words(0, words_of::<_, 4>(ctrl.as_bytes()));
        self.commit(wr.wr_id, wqe_bytes);
        Ok(())
    }

    /// The same of XRC: the SRQ is the peer's. What no packet goes out for has none.
    #[inline]
    pub fn push_xrc(&mut self, wr: &SendWr<'_>, remote_srqn: u32) -> Result<(), PostError> {
        if !self.is_xrc {
            return Err(PostError::RemoteSrqOfOther);
        }
        if wr.op.is_local() {
            return self.push(wr);
        }
        if remote_srqn >> 24 != 0 {
            return Err(PostError::BadRemoteSrqn { remote_srqn });
        }
        let wqe = self.free_entry()?;
        let (mut ctrl, wqe_bytes) = self.write_data(wqe, SEND_HEADER_BYTES, wr)?;
        ctrl.set_remote_srqn(remote_srqn);
        wqe.store_words(0, words_of::<_, 4>(ctrl.as_bytes()));
        self.commit(wr.wr_id, wqe_bytes);
        Ok(())
    }

    /// The same with a datagram.
    #[inline]
    pub fn push_datagram(&mut self, datagram: &Datagram<'_>) -> Result<(), PostError> {
        let Datagram { wr, to } = datagram;
        let mtu_bytes = self.check_datagram(&wr.op, to)?;
        let wqe = self.free_entry()?;
        let (ctrl, wqe_bytes) = self.write_data(wqe, DATAGRAM_HEADER_BYTES, wr)?;
        if ctrl.length() > mtu_bytes {
            let length = ctrl.length();
            return Err(PostError::DatagramTooLong { length, mtu_bytes });
        }
        let mut header = to.address.wqe_to(to.remote_qpn, to.remote_qkey);
        header.0[..COMMON_BYTES].copy_from_slice(&ctrl.0[..COMMON_BYTES]);
        wqe.store_words(0, words_of::<_, 8>(header.as_bytes()));
        self.commit(wr.wr_id, wqe_bytes);
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
    #[inline(always)]
    fn free_entry(&self) -> Result<DmaPart<'_>, PostError> {
        if self.shadow.has_room(self.next) {
            Ok(self.size.entry(&self.ring, self.next))
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
        wqe: DmaPart<'_>,
        header_bytes: usize,
        wr: &SendWr<'_>,
    ) -> Result<(SqWqeCtrl, usize), PostError> {
        if wr.flags.ip_csum && !self.is_raw {
            return Err(PostError::ChecksumOfOther);
        }
        // The card reads inline data where it is, but that of an ATOMIC WRITE with the WQE, which may ride with the
        // doorbell.
        let operand_bytes = match wr.op {
            SendOp::AtomicWrite { .. } => ATOMIC_WRITE_BYTES,
            _ => 0,
        };
        let (length, sges, wqe_bytes) = match wr.data {
            WrData::Sges(sges) => {
                let (written, length) = self.write_registered(wqe, header_bytes, &wr.op, sges)?;
                (length, Some(sges.len()), header_bytes + written)
            }
            WrData::Inline(bytes) => (
                self.write_inline(wqe, header_bytes, &wr.op, &[bytes])?,
                None,
                header_bytes + operand_bytes,
            ),
            WrData::InlineList(pieces) => (
                self.write_inline(wqe, header_bytes, &wr.op, pieces)?,
                None,
                header_bytes + operand_bytes,
            ),
        };
        let ctrl = self.header((wr.op.opcode(), wr.flags), (sges, length), &Operands::of(&wr.op));
        Ok((ctrl, wqe_bytes))
    }

    /// The header of the next WQE, with so many scatter/gather entries (`None`: inline data) and bytes. Field after
    /// field, with no branch between: so the compiler keeps it in registers.
    #[inline(always)]
    fn header(
        &self,
        (opcode, flags): (WrOpcode, SendFlags),
        (sges, length): (Option<usize>, u32),
        operands: &Operands,
    ) -> SqWqeCtrl {
        let mut ctrl = SqWqeCtrl::new();
        ctrl.set_opcode(opcode.into());
        ctrl.set_signaled(flags.signaled);
        ctrl.set_solicited(flags.solicited);
        ctrl.set_fence(flags.fence);
        ctrl.set_inline_data(sges.is_none());
        ctrl.set_ip_csum(flags.ip_csum);
        ctrl.set_num_sge(sges.unwrap_or(0) as u8);
        ctrl.set_imm_data(operands.imm_data);
        ctrl.set_length(length);
        ctrl.set_wqe_index(wqe_index(self.next));
        ctrl.set_remote_addr(operands.remote_addr);
        ctrl.set_rkey(operands.rkey);
        ctrl
    }

    /// The WQE at the next index is there.
    #[inline(always)]
    fn commit(&mut self, wr_id: u64, wqe_bytes: usize) {
        self.last_bytes = wqe_bytes;
        self.shadow.record(self.next, wr_id);
        self.next = self.next.wrapping_add(1);
    }

    /// Returns how many bytes it has written behind the header, and how long the message is.
    #[inline(always)]
    fn write_registered(
        &self,
        wqe: DmaPart<'_>,
        at: usize,
        op: &SendOp,
        sges: &[Sge],
    ) -> Result<(usize, u32), PostError> {
        if sges.len() > self.max_sge {
            return Err(self.too_many_sges(sges.len()));
        }
        if let SendOp::Flush(flush) = op {
            wqe.store_words(at, words_of::<_, 2>(flush_wqe(flush)?.as_bytes()));
            if !sges.is_empty() {
                return Err(PostError::DataNotAllowed { opcode: op.opcode() });
            }
            return Ok((SqWqeFlush::BYTES, 0));
        }
        let mut operands_bytes = 0;
        if op.is_local() {
            wqe.store_words(at, words_of::<_, 4>(local_wqe(op).as_bytes()));
            if !sges.is_empty() {
                return Err(PostError::DataNotAllowed { opcode: op.opcode() });
            }
            return Ok((SqWqeBind::BYTES, 0));
        }
        if matches!(op, SendOp::AtomicWrite { .. }) {
            return Err(PostError::BadAtomicWrite);
        }
        if op.is_atomic() {
            if !matches!(sges, [sge] if sge.length == 8) {
                return Err(PostError::BadAtomic);
            }
            let (first, second) = match *op {
                SendOp::AtomicCmpAndSwp { compare, swap, .. } => (compare, swap),
                SendOp::AtomicFetchAndAdd { add, .. } => (add, 0),
                SendOp::MaskedAtomicCmpAndSwp { compare, swap, .. } => (compare, swap),
                SendOp::MaskedAtomicFetchAndAdd { add, boundaries, .. } => (add, boundaries),
                _ => (0, 0),
            };
            wqe.store_words(at, [first, second]);
            self.write_masks(wqe, at + ATOMIC_BYTES + SGE_BYTES, op)?;
            operands_bytes = ATOMIC_BYTES;
        }
        let length = message_length(write_sges(wqe, at + operands_bytes, sges))?;
        Ok((operands_bytes + sges.len() * SGE_BYTES, length))
    }

    /// The card reads them where they are, as it does inline data: they do not ride with the doorbell.
    fn write_masks(&self, wqe: DmaPart<'_>, at: usize, op: &SendOp) -> Result<(), PostError> {
        let SendOp::MaskedAtomicCmpAndSwp {
            compare_mask,
            swap_mask,
            ..
        } = *op
        else {
            return Ok(());
        };
        if self.size.stride_bytes() < at + SqWqeMasks::BYTES {
            return Err(PostError::NoRoomForMasks);
        }
        let mut masks = SqWqeMasks::new();
        masks.set_compare_mask(compare_mask);
        masks.set_swap_mask(swap_mask);
        wqe.store_words(at, words_of::<_, 2>(masks.as_bytes()));
        Ok(())
    }

    #[inline]
    fn write_inline(
        &self,
        wqe: DmaPart<'_>,
        at: usize,
        op: &SendOp,
        pieces: &[&[u8]],
    ) -> Result<u32, PostError> {
        if !op.takes_inline() {
            return Err(PostError::InlineNotAllowed);
        }
        let given = pieces.iter().map(|piece| piece.len()).sum();
        // The smallest WQE has room for them.
        if matches!(op, SendOp::AtomicWrite { .. }) {
            if given != ATOMIC_WRITE_BYTES {
                return Err(PostError::BadAtomicWrite);
            }
        } else if given > self.max_inline {
            return Err(PostError::InlineTooLong {
                given,
                max: self.max_inline,
            });
        }
        let mut at = at;
        for piece in pieces {
            wqe.write_bytes(at, piece);
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
                self.ring.read_bytes(self.size.entry_offset(before), wqe);
                doorbells.send_pushed(qpn, self.next, slot.number(), wqe);
            }
            _ => doorbells.send(qpn, self.next),
        }
    }

    /// Index of the next WQE.
    #[inline]
    pub fn next_index(&self) -> u32 {
        self.next
    }

    /// Takes WQEs back that the card has not been told of: the next one has this index again.
    pub fn rewind(&mut self, index: u32) {
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
    /// Bytes as on the wire.
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
            SendOp::RegMr(ref reg) => (0, reg.addr, reg.key),
            SendOp::Flush(ref flush) => (0, flush.remote_addr, flush.rkey),
            SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            } => (imm_data, remote_addr, rkey),
            SendOp::RdmaWrite { remote_addr, rkey }
            | SendOp::RdmaRead { remote_addr, rkey }
            | SendOp::AtomicWrite { remote_addr, rkey }
            | SendOp::AtomicCmpAndSwp {
                remote_addr, rkey, ..
            }
            | SendOp::AtomicFetchAndAdd {
                remote_addr, rkey, ..
            }
            | SendOp::MaskedAtomicCmpAndSwp {
                remote_addr, rkey, ..
            }
            | SendOp::MaskedAtomicFetchAndAdd {
                remote_addr, rkey, ..
            } => (0, remote_addr, rkey),
        };
        Self {
            imm_data: imm_data.swap_bytes(),
            remote_addr,
            rkey,
        }
    }
}

/// What follows the header of a FLUSH.
fn flush_wqe(flush: &Flush) -> Result<SqWqeFlush, PostError> {
    let placement = flush.placement;
    if placement == 0 || placement & !(Flush::GLOBAL | Flush::PERSISTENT) != 0 {
        return Err(PostError::BadPlacement { placement });
    }
    let mut wqe = SqWqeFlush::new();
    wqe.set_length(flush.length);
    wqe.set_placement(placement);
    wqe.set_selectivity(flush.whole_region.into());
    Ok(wqe)
}

/// What follows the header of an operation without packets.
fn local_wqe(op: &SendOp) -> SqWqeBind {
    let mut wqe = SqWqeBind::new();
    match op {
        SendOp::BindMw(bind) => {
            wqe.set_length(bind.length);
            wqe.set_lkey(bind.lkey);
            wqe.set_access((bind.access & MPT_ACCESS) as u8);
            wqe.set_is_type_2(bind.is_type_2);
        }
        SendOp::RegMr(reg) => {
            wqe.set_length(reg.length);
            wqe.set_access((reg.access & MPT_ACCESS) as u8);
            wqe.set_page_shift(reg.page_shift);
            wqe.set_page_list_addr(reg.page_list_addr);
        }
        _ => {}
    }
    wqe
}
