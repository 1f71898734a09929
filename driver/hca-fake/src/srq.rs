//! Shared receive queues of the fake card.

use hca_abi::{CtxTable, HwEventKind, Qpc, SRQ_LINE_ENTRIES, Srqc, wqe_distance, wqe_index};

use crate::card::Card;

/// What the card keeps of an SRQ: free-running indices of its list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SrqState {
    producer: u32,
    consumer: u32,
    /// limit_tag of the limit that was reached last.
    reached: u8,
    failed: bool,
}

impl Card {
    fn srqc(&self, srqn: u32) -> Srqc {
        Srqc::read_from(&self.row(CtxTable::Srqc, srqn)).unwrap_or_default()
    }

    /// A context row was written.
    pub(crate) fn srqc_written(&mut self, srqn: u32) {
        let srqc = self.srqc(srqn);
        if !srqc.keep() {
            self.srqs.insert(srqn, SrqState::default());
        }
        if srqc.valid() && (1u32 << srqc.log_size()) < SRQ_LINE_ENTRIES {
            self.violation(format!("SRQ {srqn:#x}: its list is no line: {srqc:?}"));
        }
        self.look_at_limit(srqn);
    }

    /// The SRQ doorbell.
    pub(crate) fn srq_doorbell(&mut self, func: u8, srqn: u32, producer: u32) {
        let srqc = self.srqc(srqn);
        let Some(srq) = self
            .srqs
            .get_mut(&srqn)
            .filter(|_| srqc.valid() && srqc.func() == func)
        else {
            self.violation(format!("doorbell of SRQ {srqn:#x}, which does not exist"));
            return;
        };
        let filled = wqe_distance(srq.consumer, producer);
        let legal = filled <= 1 << srqc.log_size() && filled >= wqe_distance(srq.consumer, srq.producer);
        srq.producer = producer;
        if !legal {
            self.violation(format!(
                "SRQ {srqn:#x}: doorbell {producer:#x} is not in the list"
            ));
        }
        self.look_at_limit(srqn);
    }

    fn look_at_limit(&mut self, srqn: u32) {
        let srqc = self.srqc(srqn);
        let Some(srq) = self.srqs.get_mut(&srqn) else {
            return;
        };
        let posted = wqe_distance(srq.consumer, srq.producer);
        if srqc.valid() && srqc.limit_tag() != srq.reached && posted < srqc.limit() {
            srq.reached = srqc.limit_tag();
            self.raise(HwEventKind::SrqLimit, srqn, srqc.limit_tag().into());
        }
    }

    /// Has a QP anything to receive into?
    pub(crate) fn can_receive(&self, line: u32) -> bool {
        let qpc = self.qpc(line);
        if qpc.has_srq() {
            let srq = self.srqs.get(&qpc.srqn());
            return srq.is_some_and(|srq| !srq.failed && srq.consumer != srq.producer);
        }
        let rings = self.rings(line);
        rings.rq_consumer != rings.rq_producer
    }

    /// Takes the next receive WQE of a QP: its index, or its slot.
    pub(crate) fn take_receive(&mut self, line: u32, qpc: &Qpc) -> Option<u32> {
        if !qpc.has_srq() {
            let rings = self.qps.entry(line).or_default();
            let index = rings.rq_consumer;
            rings.rq_consumer = wqe_index(index + 1);
            return Some(index);
        }
        let (srqn, srqc) = (qpc.srqn(), self.srqc(qpc.srqn()));
        let srq = self.srqs.get_mut(&srqn)?;
        let at = u64::from(srq.consumer) & ((1 << srqc.log_size()) - 1);
        let mut slot = [0; 2];
        if !self.host.read(srqc.base() + 2 * at, &mut slot) {
            srq.failed = true;
            self.raise(HwEventKind::SrqError, srqn, 0);
            return None;
        }
        srq.consumer = wqe_index(srq.consumer + 1);
        self.look_at_limit(srqn);
        Some(u16::from_le_bytes(slot).into())
    }
}
