//! Completion and event queues of the fake card.

use hca_abi::{
    CqArm, Cqc, Cqe, CtxTable, Eqc, Eqe, EventKind, HwEventKind, QpState, Qpc, WcOpcode, WcStatus,
    wqe_distance, wqe_index,
};
use hca_fw_core::line_of;
use hca_regs as reg;

use crate::card::{Card, QpRings, VECTORS};

/// Of the card's clock.
const NS_PER_CYCLE: u64 = 4;
/// 24-bit free-running indices.
const CQ_INDEX_MASK: u32 = 0xff_ffff;

/// What the card keeps of a CQ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqState {
    pub producer: u32,
    pub consumer: u32,
    pub arm: CqArm,
    pub dead: bool,
    /// Its event waits for more completions, or for so long.
    pub wait_ns: Option<u64>,
}

impl CqState {
    const fn new() -> Self {
        Self {
            producer: 0,
            consumer: 0,
            arm: CqArm::None,
            dead: false,
            wait_ns: None,
        }
    }
}

/// What the card keeps of an EQ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EqState {
    pub producer: u16,
    pub consumer: u16,
}

/// Which queue of a QP a completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Send,
    Recv,
}

impl Card {
    /// A context row was written.
    pub(crate) fn context_written(&mut self, table: u8, index: u32, flags: u32) {
        match CtxTable::try_from(table) {
            Ok(CtxTable::Cqc) => {
                let row = Cqc::read_from(&self.row(CtxTable::Cqc, index)).unwrap_or_default();
                if !row.keep() && !row.moderate() {
                    self.cqs.insert(index, CqState::new());
                }
            }
            Ok(CtxTable::Srqc) => self.srqc_written(index),
            Ok(CtxTable::Eqc) => drop(self.eqs.insert(index as u8, EqState::default())),
            Ok(CtxTable::Qpc) => {
                let state = QpState::try_from(self.qpc(index).state());
                let rings = self.qps.entry(index).or_default();
                let fresh = matches!(state, Ok(QpState::Reset | QpState::Init));
                if flags & reg::MGMT_CTX_FLAGS_INIT_SQ_MASK != 0 {
                    let sq_producer = if fresh { 0 } else { rings.sq_producer };
                    *rings = QpRings {
                        sq_producer,
                        sq_consumer: 0,
                        failed: false,
                        ..*rings
                    };
                }
                if flags & reg::MGMT_CTX_FLAGS_INIT_RQ_MASK != 0 {
                    let rq_producer = if fresh { 0 } else { rings.rq_producer };
                    *rings = QpRings {
                        rq_producer,
                        rq_consumer: 0,
                        failed: false,
                        ..*rings
                    };
                }
            }
            _ => {}
        }
    }

    /// The CQ doorbell.
    pub(crate) fn cq_doorbell(&mut self, cqn: u32, consumer: u32, arm: u8) {
        let size = 1u32
            << Cqc::read_from(&self.row(CtxTable::Cqc, cqn))
                .unwrap_or_default()
                .log_size();
        let Some(cq) = self.cqs.get_mut(&cqn) else {
            self.violation(format!("doorbell of CQ {cqn:#x}, which does not exist"));
            return;
        };
        // Never back, never past what was written.
        let legal = consumer.wrapping_sub(cq.consumer) & CQ_INDEX_MASK
            <= cq.producer.wrapping_sub(cq.consumer) & CQ_INDEX_MASK;
        let filled = cq.producer.wrapping_sub(consumer) & CQ_INDEX_MASK;
        cq.consumer = consumer;
        if let Ok(arm @ (CqArm::Next | CqArm::Solicited)) = CqArm::try_from(arm) {
            cq.arm = arm;
        }
        if !legal || filled > size {
            self.violation(format!(
                "CQ {cqn:#x}: consumer index {consumer:#x} is not in the ring"
            ));
        }
    }

    /// The EQ doorbell.
    pub(crate) fn eq_doorbell(&mut self, eqn: u8, consumer: u16) {
        let Some(eq) = self.eqs.get_mut(&eqn) else {
            self.violation(format!("doorbell of EQ {eqn}, which does not exist"));
            return;
        };
        let legal = consumer.wrapping_sub(eq.consumer) <= eq.producer.wrapping_sub(eq.consumer);
        eq.consumer = consumer;
        if !legal {
            self.violation(format!(
                "EQ {eqn}: consumer index {consumer:#x} is not in the ring"
            ));
        }
    }

    /// Puts a completion into a CQ, and an event after it if it is armed. The one for which there is no room takes the
    /// last entry as an error, and the CQ dies (V-57).
    pub fn write_cqe(&mut self, cqn: u32, mut cqe: Cqe, solicited: bool) {
        let cqc = Cqc::read_from(&self.row(CtxTable::Cqc, cqn)).unwrap_or_default();
        let Some(mut cq) = self.cqs.get(&cqn).copied().filter(|cq| cqc.valid() && !cq.dead) else {
            return;
        };
        let filled = cq.producer.wrapping_sub(cq.consumer) & CQ_INDEX_MASK;
        let slot = u64::from(cq.producer) & ((1 << cqc.log_size()) - 1);
        cqe.set_phase(cq.producer >> cqc.log_size() & 1 == 0);
        cqe.set_timestamp(self.time);
        let overrun = !cqc.ignore_overrun() && filled + 1 == 1 << cqc.log_size();
        if overrun {
            cqe.set_status(WcStatus::GeneralErr.into());
        }
        let address = cqc.base() + slot * Cqe::BYTES as u64;
        let written = self.host.write(address, cqe.as_bytes());
        if overrun || !written {
            cq.dead = true;
            self.raise(HwEventKind::CqError, cqn, 0);
        }
        if !written {
            self.cqs.insert(cqn, cq);
            return;
        }
        cq.producer = (cq.producer + 1) & CQ_INDEX_MASK;
        let is_meant = match cq.arm {
            CqArm::None => false,
            CqArm::Next => true,
            CqArm::Solicited => solicited || cqe.status() != u8::from(WcStatus::Success),
        };
        let is_moderated = cqc.mod_count() != 0 && cqc.mod_cycles() != 0;
        let is_enough = !is_moderated || filled + 1 >= u32::from(cqc.mod_count()) || overrun;
        let fires = is_enough && (is_meant || cq.wait_ns.is_some());
        if fires {
            cq.arm = CqArm::None;
            cq.wait_ns = None;
        } else if is_meant && cq.wait_ns.is_none() {
            cq.wait_ns = Some(u64::from(cqc.mod_cycles()) * NS_PER_CYCLE);
        }
        self.cqs.insert(cqn, cq);
        if fires {
            self.write_eqe(cqc.eqn(), [EventKind::Completion as u32, cqn, 0, 0]);
        }
    }

    /// Events that have waited long enough for further completions (V-64).
    pub(crate) fn pass_time(&mut self, ns: u64) {
        let mut due = Vec::new();
        for (cqn, cq) in &mut self.cqs {
            let Some(wait_ns) = cq.wait_ns else {
                continue;
            };
            cq.wait_ns = wait_ns.checked_sub(ns).filter(|left| *left > 0);
            if cq.wait_ns.is_none() {
                cq.arm = CqArm::None;
                due.push(*cqn);
            }
        }
        for cqn in due {
            let cqc = Cqc::read_from(&self.row(CtxTable::Cqc, cqn)).unwrap_or_default();
            self.write_eqe(cqc.eqn(), [EventKind::Completion as u32, cqn, 0, 0]);
        }
    }

    /// What a row of a CQ becomes by a write that leaves some of it as it is.
    pub(crate) fn cqc_after(&self, cqn: u32, written: Cqc) -> Cqc {
        let before = Cqc::read_from(&self.row(CtxTable::Cqc, cqn)).unwrap_or_default();
        let (mut after, moderation) = if written.moderate() {
            (before, written)
        } else if written.keep() {
            (written, before)
        } else {
            return written;
        };
        after.set_keep(written.keep());
        after.set_moderate(written.moderate());
        after.set_mod_count(moderation.mod_count());
        after.set_mod_cycles(moderation.mod_cycles());
        after
    }

    /// Puts an event into an EQ and raises its vector.
    pub fn write_eqe(&mut self, eqn: u8, words: [u32; 4]) {
        let eqc = Eqc::read_from(&self.row(CtxTable::Eqc, eqn.into())).unwrap_or_default();
        let Some(mut eq) = self.eqs.get(&eqn).copied().filter(|_| eqc.valid()) else {
            return;
        };
        if u32::from(eq.producer.wrapping_sub(eq.consumer)) == 1 << eqc.log_size() {
            self.raise(HwEventKind::EqOverflow, eqn.into(), 0);
            return;
        }
        let mut eqe = Eqe::new();
        eqe.set_kind(words[0] as u8);
        eqe.set_eqn(eqn.into());
        eqe.set_id(words[1]);
        eqe.set_data0(words[2]);
        eqe.set_data1(words[3]);
        eqe.set_timestamp(self.time);
        eqe.set_phase(eq.producer >> eqc.log_size() & 1 == 0);
        let slot = u64::from(eq.producer) & ((1 << eqc.log_size()) - 1);
        self.host
            .write(eqc.base() + slot * Eqe::BYTES as u64, eqe.as_bytes());
        eq.producer = eq.producer.wrapping_add(1);
        self.eqs.insert(eqn, eq);
        self.irqs[usize::from(eqc.vector() % VECTORS)] += 1;
    }

    fn flushed(qpn: u32, index: u32, opcode: WcOpcode) -> Cqe {
        let mut cqe = Cqe::new();
        cqe.set_qpn(qpn);
        cqe.set_wqe_index(index as u16);
        cqe.set_opcode(opcode.into());
        cqe.set_status(WcStatus::WrFlushErr.into());
        cqe
    }

    fn in_error(qpc: &Qpc) -> bool {
        qpc.state() == u8::from(QpState::Err)
    }

    /// Are its sends flushed (QPS-12, QPS-13)?
    fn flushes_sends(qpc: &Qpc) -> bool {
        Self::in_error(qpc) || qpc.state() == u8::from(QpState::Sqe)
    }

    /// Completes every send WQE with WR_FLUSH_ERR (QPS-14).
    pub(crate) fn flush_sq(&mut self, qpn: u32) {
        let (qpc, rings) = (self.qpc(qpn), self.rings(qpn));
        if !Self::flushes_sends(&qpc) {
            self.violation(format!("flush of QP {qpn:#x}, which is not in ERR or SQE"));
            return;
        }
        let mut index = rings.sq_consumer;
        while index != rings.sq_producer {
            self.write_cqe(
                qpc.send_cqn(),
                Self::flushed(qpc.qpn(), index, WcOpcode::Send),
                false,
            );
            index = wqe_index(index + 1);
        }
        let rings = self.qps.entry(qpn).or_default();
        rings.sq_consumer = index;
        // From SQE it can go on.
        rings.failed = false;
    }

    /// Completes every receive WQE with WR_FLUSH_ERR (QPS-14).
    pub(crate) fn flush_rq(&mut self, qpn: u32) {
        let (qpc, rings) = (self.qpc(qpn), self.rings(qpn));
        if !Self::in_error(&qpc) {
            self.violation(format!("flush of QP {qpn:#x}, which is not in ERR"));
            return;
        }
        if qpc.has_srq() {
            return; // What is in it is the others'.
        }
        let mut index = rings.rq_consumer;
        while index != rings.rq_producer {
            self.write_cqe(
                qpc.recv_cqn(),
                Self::flushed(qpc.qpn(), index, WcOpcode::Recv),
                false,
            );
            index = wqe_index(index + 1);
        }
        self.qps.entry(qpn).or_default().rq_consumer = index;
    }

    /// A send or receive doorbell.
    pub(crate) fn qp_doorbell(&mut self, queue: Queue, qpn: u32, producer: u32) {
        let (qpc, line) = (self.qpc(qpn), line_of(qpn));
        let Some(rings) = self.qps.get_mut(&line).filter(|_| qpc.qpn() == qpn) else {
            self.violation(format!("doorbell of QP {qpn:#x}, which does not exist"));
            return;
        };
        let (old, consumer, log_size) = match queue {
            Queue::Send => (&mut rings.sq_producer, rings.sq_consumer, qpc.sq_log_size()),
            Queue::Recv => (&mut rings.rq_producer, rings.rq_consumer, qpc.rq_log_size()),
        };
        let filled = wqe_distance(consumer, producer);
        let legal = filled <= 1 << log_size && filled >= wqe_distance(consumer, *old);
        *old = producer;
        if !legal {
            self.violation(format!(
                "QP {qpn:#x}: {queue:?} doorbell {producer:#x} over consumer {consumer:#x}"
            ));
        }
        match queue {
            Queue::Send if Self::flushes_sends(&qpc) => self.flush_sq(line),
            Queue::Recv if Self::in_error(&qpc) => self.flush_rq(line),
            _ => {}
        }
    }
}
