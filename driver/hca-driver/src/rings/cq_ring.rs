//! The completion ring.

use std::collections::HashMap;
use std::sync::Arc;

use hca_abi::{CqArm, Cqe, MAX_LOG_CQ_SIZE, VENDOR_ERR_UNUSED, WcStatus};
use hca_dev::DmaBuf;

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::{BadCompletion, DriverError};
use crate::base::owner::{bytes_of, is_ours, phase_of, read_entry, says_ours};
use crate::rings::qpn_table::QpnTable;
use crate::rings::shadow::{QpShadow, RecvShadow};
use crate::rings::srq_ring::SrqRing;

/// Consumer indices are free-running modulo this.
const INDEX_MASK: u32 = 0xff_ffff;
const OWNER_OFFSET: usize = 60;
/// Bit of wc_opcode that marks the receive queue.
const RECV_BIT: u8 = 0x80;

/// A completion, with the wr_id of its work request.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// wr_id given when the work request was posted.
    pub wr_id: u64,
    /// What the card wrote.
    pub cqe: Cqe,
}

/// What a completion is not given to the program for.
enum Skip {
    /// It is for nobody.
    Stray,
    /// The card has not used the slot: it is posted again.
    Unused,
    /// Nothing of the kind was outstanding.
    Wrong,
}

/// Completions that a ring of `1 << log_size` entries holds for sure: the card learns of consumed entries a
/// quarter of the ring late, and keeps the last free entry for the completion that tells of an overrun (V-57).
pub fn usable_cqes(log_size: u8) -> u32 {
    (1u32 << log_size) - lag_max(log_size)
}

/// The card has taken a slot of a shared queue, and not used it.
#[inline(always)]
fn is_unused(cqe: &Cqe) -> bool {
    cqe.status() == u8::from(WcStatus::WrFlushErr) && u32::from(cqe.vendor_err()) == VENDOR_ERR_UNUSED
}

fn lag_max(log_size: u8) -> u32 {
    (1u32 << log_size).div_ceil(4)
}

/// Takes completions out of a ring and retires the work requests they are for.
#[derive(Debug)]
pub struct CqRing {
    ring: DmaBuf,
    cqn: u32,
    log_size: u8,
    /// Entries, and how many of them may be consumed before the card is told.
    entries: u32,
    lag_max: u32,
    /// Next entry, 24 bits free-running.
    next: u32,
    /// What the card was told last.
    told: u32,
    qps: QpnTable,
    /// Those of XRC, by the numbers that peers name them.
    srqs: HashMap<u32, Arc<SrqRing>>,
    strays: u64,
}

impl CqRing {
    /// log2 of the entries of the smallest ring for `cqe` completions.
    pub fn log_size_for(cqe: u32) -> Result<u8, DriverError> {
        let max = MAX_LOG_CQ_SIZE as u8;
        let too_large = DriverError::TooLarge {
            what: "cqe",
            value: cqe.into(),
            max: usable_cqes(max).into(),
        };
        (0..=max).find(|&log| usable_cqes(log) >= cqe).ok_or(too_large)
    }

    /// Bytes of a ring.
    pub fn ring_bytes(log_size: u8) -> usize {
        Cqe::BYTES << log_size
    }

    /// The ring of a CQ that the card has just been told of; `ring` is zeroed and has [`CqRing::ring_bytes`].
    /// `qpn_line_bits`: as QUERY_DEVICE says.
    pub fn new(ring: DmaBuf, cqn: u32, log_size: u8, qpn_line_bits: u8) -> Self {
        Self {
            ring,
            cqn,
            log_size,
            entries: 1 << log_size,
            lag_max: lag_max(log_size),
            next: 0,
            told: 0,
            qps: QpnTable::new(qpn_line_bits),
            srqs: HashMap::new(),
            strays: 0,
        }
    }

    /// The memory.
    pub fn memory(&self) -> &DmaBuf {
        &self.ring
    }

    /// Completions of `qpn` retire entries of these queues.
    pub fn attach(&mut self, qpn: u32, shadow: QpShadow) {
        self.qps.insert(qpn, shadow);
    }

    /// Completions for an SRQ of XRC retire its slots, whatever QP they came through.
    pub fn attach_srq(&mut self, number: u32, ring: Arc<SrqRing>) {
        self.srqs.insert(number, ring);
    }

    /// It is gone, and so is what is left for it.
    pub fn detach_srq(&mut self, number: u32) {
        self.srqs.remove(&number);
    }

    /// `qpn` is gone; what is left of it in the ring is dropped when it is found.
    pub fn detach(&mut self, qpn: u32) {
        self.qps.remove(qpn);
    }

    /// Marks all of a new ring as not written yet, for the indices from the next one on.
    pub fn prepare(&self, ring: &DmaBuf, log_size: u8) {
        for i in 0..1 << log_size {
            let index = (self.next + i) & INDEX_MASK;
            let owner = u32::from(!phase_of(index, log_size));
            let offset = (index as usize & ((1 << log_size) - 1)) * Cqe::BYTES + OWNER_OFFSET;
            ring.write_bytes(offset, &owner.to_le_bytes());
        }
    }

    /// Goes over to a ring that was prepared and that the card has taken (RESIZE_CQ); what is in the old one moves
    /// along. Returns the old memory.
    pub fn move_to(&mut self, ring: DmaBuf, log_size: u8) -> DmaBuf {
        let mask = (1 << log_size) - 1;
        for i in 0..self.entries {
            let index = (self.next + i) & INDEX_MASK;
            if !self.is_ready(index) {
                break;
            }
            let mut cqe = Cqe(read_entry::<_, 8>(&self.ring, self.offset(index)));
            cqe.set_phase(phase_of(index, log_size));
            ring.write_bytes((index as usize & mask) * Cqe::BYTES, cqe.as_bytes());
        }
        (self.log_size, self.entries, self.lag_max) = (log_size, 1 << log_size, lag_max(log_size));
        std::mem::replace(&mut self.ring, ring)
    }

    /// log2 of the entries.
    pub fn log_size(&self) -> u8 {
        self.log_size
    }

    /// Completions dropped because their QP is not attached.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    #[inline]
    fn offset(&self, index: u32) -> usize {
        // Never 0, and a power of two.
        (index & self.entries.wrapping_sub(1)) as usize * Cqe::BYTES
    }

    /// Phase bit of the entry with this index, by what is at hand.
    #[inline(always)]
    fn phase(&self, index: u32) -> bool {
        index & self.entries == 0
    }

    #[inline]
    fn is_ready(&self, index: u32) -> bool {
        is_ours(&self.ring, self.offset(index) + OWNER_OFFSET, self.phase(index))
    }

    /// The oldest completion, if there is one. Inlined always: a completion that a call returns goes through memory. So
    /// does one that a call is given the address of: what is seldom gets the numbers that it needs.
    #[inline(always)]
    pub fn poll<P: DevicePtr>(
        &mut self,
        doorbells: &Doorbells<P>,
    ) -> Result<Option<Completion>, BadCompletion> {
        loop {
            let entry = self.ring.part(self.offset(self.next), Cqe::BYTES);
            if !says_ours(entry.load_u32_acquire(OWNER_OFFSET), self.phase(self.next)) {
                return Ok(None);
            }
            let cqe = Cqe(bytes_of(entry.load_words::<8>(0)));
            self.next = self.next.wrapping_add(1) & INDEX_MASK;
            if self.next.wrapping_sub(self.told) & INDEX_MASK >= self.lag_max {
                self.tell(doorbells, CqArm::None);
            }
            let index = cqe.wqe_index();
            let retired = if cqe.is_xrc() {
                self.retire_xrc(cqe.srqn(), index)
            } else if let Some(qp) = self.qps.get(cqe.qpn()) {
                match &qp.recv {
                    // Selective signalling: this completion stands for all earlier ones (V-112).
                    _ if cqe.opcode() & RECV_BIT == 0 => qp.send.retire_through(index).ok_or(Skip::Wrong),
                    RecvShadow::Own(ring) => ring.retire_next(index).ok_or(Skip::Wrong),
                    shared => retire_shared(doorbells, shared, index, is_unused(&cqe)),
                }
            } else {
                Err(Skip::Stray)
            };
            match retired {
                Ok(wr_id) => return Ok(Some(Completion { wr_id, cqe })),
                Err(Skip::Stray) => self.strays = self.strays.wrapping_add(1),
                Err(Skip::Unused) => {}
                Err(Skip::Wrong) => {
                    return Err(BadCompletion {
                        cqn: self.cqn,
                        qpn: cqe.qpn(),
                        wqe_index: index,
                    });
                }
            }
        }
    }

    #[inline(never)]
    fn retire_xrc(&self, srqn: u32, index: u16) -> Result<u64, Skip> {
        let ring = self.srqs.get(&srqn).ok_or(Skip::Stray)?;
        ring.retire(index).ok_or(Skip::Wrong)
    }

    fn give_back<P: DevicePtr>(&self, doorbells: &Doorbells<P>, cqe: &Cqe) {
        let Some(RecvShadow::Shared { srqn, ring }) = self.qps.get(cqe.qpn()).map(|qp| &qp.recv) else {
            return;
        };
        if cqe.opcode() & RECV_BIT == 0 {
        } else if is_unused(cqe) {
            ring.post_again(doorbells, *srqn, cqe.wqe_index());
        } else {
            ring.retire(cqe.wqe_index());
        }
    }

    /// Asks for one event at the next new completion (V-67), and tells the card what was consumed.
    pub fn arm<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, arm: CqArm) {
        self.tell(doorbells, arm);
    }

    #[inline(never)]
    fn tell<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, arm: CqArm) {
        doorbells.cq(self.cqn, self.next, arm);
        self.told = self.next;
    }

    /// Completions that are there and were not taken.
    pub fn waiting(&self) -> u32 {
        let at = |i: &u32| self.is_ready((self.next + i) & INDEX_MASK);
        (0..self.entries).take_while(at).count() as u32
    }

    /// Removes the completions of one QP (QPS-6): call after the card has moved it to RESET. The others stay,
    /// in order. What they were for of a shared queue is free again.
    pub fn purge<P: DevicePtr>(&mut self, doorbells: &Doorbells<P>, qpn: u32) {
        let end = self.waiting();
        // Survivors move towards the newest entry, so that the consumer index can step over the gap.
        let mut removed = 0;
        for i in (0..end).rev() {
            let from = (self.next + i) & INDEX_MASK;
            let mut cqe = Cqe(read_entry::<_, 8>(&self.ring, self.offset(from)));
            if cqe.qpn() == qpn {
                removed += 1;
                self.give_back(doorbells, &cqe);
            } else if removed > 0 {
                let to = (from + removed) & INDEX_MASK;
                cqe.set_phase(phase_of(to, self.log_size));
                self.ring.write_bytes(self.offset(to), cqe.as_bytes());
            }
        }
        if removed > 0 {
            self.next = (self.next + removed) & INDEX_MASK;
            self.tell(doorbells, CqArm::None);
        }
    }
}

/// A receive of a QP without a queue of its own.
#[inline(never)]
fn retire_shared<P: DevicePtr>(
    doorbells: &Doorbells<P>,
    recv: &RecvShadow,
    index: u16,
    is_unused: bool,
) -> Result<u64, Skip> {
    let RecvShadow::Shared { srqn, ring } = recv else {
        return Err(Skip::Wrong);
    };
    if !is_unused {
        ring.retire(index).ok_or(Skip::Wrong)
    } else if ring.post_again(doorbells, *srqn, index) {
        Err(Skip::Unused)
    } else {
        Err(Skip::Wrong)
    }
}
