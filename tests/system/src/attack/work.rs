//! Its data path: doorbells, registers, work requests, and the memory that they lie in.

use hca_abi::table::FieldValue;
use hca_abi::{
    BAR0_BYTES, CQ_DOORBELL_OFFSET, CqDoorbell, DOORBELL_PAGE_BYTES, DOORBELL_PAGE_OFFSET,
    EQ_DOORBELL_OFFSET, EqDoorbell, MAX_SGE, RQ_DOORBELL_OFFSET, RqWqeCtrl, SQ_DOORBELL_OFFSET, Sge,
    SqDoorbell, SqWqeCtrl, WQE_INDEX_BITS, WrOpcode, wqe_index,
};
use hca_dev::Device;
use hca_regs as reg;

use super::commands::{one_of, spoil};
use super::{ADMIN_RING_BYTES, Attacker, BUFFER_BYTES, BUFFERS, Ring, alloc, free};
use crate::rig::RigError;

impl Attacker {
    /// Any place of the BAR, any width; most often one that means something.
    pub(super) fn doorbell(&mut self) {
        let (rng, known) = (&mut self.rng, &self.known);
        let word = match rng.below(8) {
            0 => u64::from(rng.u32()) << 32 | u64::from(rng.u32()),
            1..4 => {
                let mut word = SqDoorbell::new();
                word.set_qpn(one_of(rng, &known.qps) & 0xff_ffff);
                word.set_producer_index(
                    rng.pick(&[0, 1, 2, 7, 31, 32, 33, 0x7fff, 0xffff, 0x1_0000, 0x1_ffff]),
                );
                word.to_word()
            }
            4..6 => {
                let mut word = CqDoorbell::new();
                word.set_cqn(one_of(rng, &known.cqs) & 0xff_ffff);
                word.set_arm(rng.below(4) as u8);
                word.set_consumer_index(rng.pick(&[0, 1, 63, 64, 0x80_0000, 0xff_ffff]));
                word.to_word()
            }
            6 => {
                let mut word = EqDoorbell::new();
                word.set_eqn(one_of(rng, &known.eqs) as u8);
                word.set_consumer_index(rng.u32() as u16);
                word.to_word()
            }
            _ => rng.below(40).into(),
        };
        let offset = match rng.below(10) {
            0..3 => SQ_DOORBELL_OFFSET,
            3..5 => RQ_DOORBELL_OFFSET,
            5..7 => CQ_DOORBELL_OFFSET,
            7 => EQ_DOORBELL_OFFSET,
            8 => rng.below(DOORBELL_PAGE_BYTES / 4) * 4,
            _ => rng.below(16) * 4,
        };
        self.write_bar(DOORBELL_PAGE_OFFSET + offset, word);
    }

    pub(super) fn register(&mut self) {
        let near = self.rng.percent(70);
        let offset = self.rng.below(if near { 0x80 } else { BAR0_BYTES }) & !3;
        if self.rng.percent(30) {
            self.dev.mmio_read32(offset);
        } else if offset & !7 != reg::FUNC_CONTROL & !7 {
            let word = u64::from(self.rng.u32()) << 32 | u64::from(self.rng.u32());
            self.write_bar(offset, word);
        }
    }

    fn write_bar(&mut self, offset: u32, word: u64) {
        // Half a doorbell is not one.
        if offset.is_multiple_of(8) && self.rng.percent(90) {
            self.dev.mmio_write64(offset, word);
        } else {
            self.dev.mmio_write32(offset, word as u32);
        }
    }

    /// An entry of a data segment list: mostly a region of its own.
    fn sge(&mut self, length: u32) -> Sge {
        let mut sge = Sge::new();
        let own = self.regions.len() as u32;
        let (key, start) = if own > 0 && self.rng.percent(95) {
            self.regions[self.rng.below(own) as usize]
        } else {
            (self.rng.u32(), self.buffers.line(&mut self.rng))
        };
        sge.set_lkey(key);
        sge.set_addr(start);
        sge.set_length(length);
        sge
    }

    /// A work request as a driver writes it, spoiled or not, and its doorbell, right or not.
    pub(super) fn send_work(&mut self) {
        let count = self.sends.len() as u32;
        if count == 0 {
            return;
        }
        let mut at = self.rng.below(count) as usize;
        // Mostly where it goes somewhere: a QP that finds more than its ring holds fails before its first packet.
        if self.rng.percent(97) {
            let (mut sends, known) = (self.sends.iter(), &self.known);
            let ready = sends.rposition(|ring| known.can_send(ring.qpn) && ring.next < 1 << ring.log_size);
            match ready {
                Some(ready) => at = ready,
                None => return,
            }
        }
        let ring = self.sends[at];
        let stride = 64usize << ring.log_stride;
        let mut wqe = vec![0; stride];
        // One without bytes needs no memory, so nothing of its own fails it.
        let num_sge = if self.rng.percent(40) {
            0
        } else {
            self.rng.below(((stride as u32 - 32) / 16).min(MAX_SGE) + 1)
        };
        let each = self.rng.pick(&[0, 1, 64, 255, 1024, 5000]);
        let mut ctrl = SqWqeCtrl::new();
        let common = [WrOpcode::RdmaWrite, WrOpcode::Send, WrOpcode::RdmaRead];
        let choices = if self.rng.percent(80) {
            &common[..]
        } else {
            WrOpcode::ALL
        };
        ctrl.set_opcode(self.rng.pick(choices).into());
        ctrl.set_signaled(self.rng.percent(50));
        ctrl.set_solicited(self.rng.percent(20));
        ctrl.set_fence(self.rng.percent(20));
        ctrl.set_wqe_index(ring.next);
        ctrl.set_num_sge(num_sge as u8);
        ctrl.set_length(num_sge * each);
        if !self.target.regions.is_empty() {
            let (key, start) = self.rng.pick(&self.target.regions);
            ctrl.set_rkey(key);
            ctrl.set_remote_addr(start);
        }
        if self.rng.percent(10) {
            spoil(&mut self.rng, &SqWqeCtrl::TABLE, &mut ctrl.0);
        }
        wqe[..32].copy_from_slice(ctrl.as_bytes());
        for index in 0..num_sge as usize {
            let mut sge = self.sge(each);
            if self.rng.percent(3) {
                spoil(&mut self.rng, &Sge::TABLE, &mut sge.0);
            }
            wqe[32 + 16 * index..][..16].copy_from_slice(sge.as_bytes());
        }
        self.sends[at].next = wqe_index(ring.next + 1);
        self.store(ring, &wqe);
        self.ring_work(SQ_DOORBELL_OFFSET, ring);
    }

    pub(super) fn recv_work(&mut self) {
        let count = self.recvs.len() as u32;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let ring = self.recvs[at];
        let stride = 64usize << ring.log_stride;
        let mut wqe = vec![0; stride];
        let num_sge = self.rng.below(((stride as u32 - 16) / 16).min(MAX_SGE) + 1);
        let each = self.rng.pick(&[0, 64, 1024, 5000]);
        let mut ctrl = RqWqeCtrl::new();
        ctrl.set_num_sge(num_sge as u8);
        ctrl.set_length(num_sge * each);
        ctrl.set_wqe_index(ring.next);
        if self.rng.percent(10) {
            spoil(&mut self.rng, &RqWqeCtrl::TABLE, &mut ctrl.0);
        }
        wqe[..16].copy_from_slice(ctrl.as_bytes());
        for index in 0..num_sge as usize {
            let sge = self.sge(each);
            wqe[16 + 16 * index..][..16].copy_from_slice(sge.as_bytes());
        }
        self.recvs[at].next = wqe_index(ring.next + 1);
        self.store(ring, &wqe);
        self.ring_work(RQ_DOORBELL_OFFSET, ring);
    }

    /// Writes an entry where the ring was, if that memory is still there.
    fn store(&mut self, ring: Ring, wqe: &[u8]) {
        let slot = u64::from(ring.next) & ((1 << ring.log_size) - 1);
        let at = ring.base.wrapping_add(slot * wqe.len() as u64);
        let end = BUFFER_BYTES as u64 - wqe.len() as u64;
        let buf = self
            .buffers
            .0
            .iter()
            .find(|buf| at.wrapping_sub(buf.iova()) <= end);
        if let Some(buf) = buf {
            buf.write_bytes((at - buf.iova()) as usize, wqe);
        }
    }

    fn ring_work(&mut self, offset: u32, ring: Ring) {
        if self.rng.percent(50) {
            let mut word = SqDoorbell::new();
            word.set_qpn(ring.qpn & 0xff_ffff);
            let beyond = if self.rng.percent(3) {
                self.rng.below(1 << WQE_INDEX_BITS)
            } else {
                1
            };
            word.set_producer_index(wqe_index(ring.next + beyond));
            self.dev
                .mmio_write64(DOORBELL_PAGE_OFFSET + offset, word.to_word());
        }
    }

    /// Bytes anywhere in its memory: owner bits, half written entries, lists, rings that the card writes.
    pub(super) fn scribble(&mut self) {
        let admin = self.rng.percent(3);
        let buf = if admin {
            &self.admin[self.rng.below(2) as usize]
        } else {
            self.buffers.pick(&mut self.rng)
        };
        let at = self.rng.below(buf.len_bytes() as u32 - 64) as usize;
        let mut bytes = self.rng.bytes(64);
        match self.rng.below(3) {
            // A list of pages, a few of which exist.
            0 => (0..8).for_each(|i| (buf.iova() + 4096 * (i as u64 % 4)).store(&mut bytes, 64 * i, 64)),
            1 => bytes.truncate(1),
            _ => {}
        }
        let at = if bytes.len() == 64 { at & !63 } else { at };
        buf.write_bytes(at, &bytes);
    }

    /// Memory goes away, whatever lies in it; other memory comes.
    pub(super) fn unmap(&mut self) -> Result<(), RigError> {
        if self.rng.percent(10) {
            let at = self.rng.below(2) as usize;
            let new = alloc(&self.dev, &mut self.rng, ADMIN_RING_BYTES)?;
            let old = std::mem::replace(&mut self.admin[at], new);
            return free(&self.dev, old);
        }
        let at = self.rng.below(BUFFERS as u32) as usize;
        let new = alloc(&self.dev, &mut self.rng, BUFFER_BYTES)?;
        let old = std::mem::replace(&mut self.buffers.0[at], new);
        free(&self.dev, old)
    }
}
