//! What hardware reports: doorbells for firmware, and errors.

use crate::hal::Hal;
use crate::{Bus, Firmware, NUM_FUNCS};
use hca_abi::{EventKind, HwEventKind, HwEventWho, QpState, WcStatus};

impl Firmware {
    pub(crate) fn handle_event<B: Bus>(&mut self, hal: &mut Hal<B>, words: [u32; 3]) {
        let [w0, id, cause] = words;
        let func = (w0 >> 8) as u8;
        let Ok(kind) = HwEventKind::try_from(w0 as u8) else {
            return;
        };
        if usize::from(func) >= NUM_FUNCS {
            return;
        }
        match kind {
            HwEventKind::AdminDb => self.run_admin_queue(hal, func),
            HwEventKind::FuncControl => self.function_control(hal, func),
            HwEventKind::QpError => self.qp_error(hal, id, cause),
            HwEventKind::QpCommEst => self.post_qp_event(hal, id, EventKind::CommEst, 0),
            HwEventKind::CqError => self.cq_error(hal, id),
            HwEventKind::SqDrained => self.sq_drained(hal, id),
            HwEventKind::Port => self.link_event(hal, id),
            // Counted by hardware; nothing to be done about them.
            HwEventKind::BadDoorbell
            | HwEventKind::EqOverflow
            | HwEventKind::QpFlushNeeded
            | HwEventKind::PkeyViolation => {}
        }
    }

    /// QPS-13: ERR, both queues flushed; REL-13: which asynchronous event the responder's refusal raises.
    fn qp_error<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32, cause: u32) {
        if !self.fail_qp(hal, qpn) {
            return;
        }
        // Bits 7:0 completion status, 15:8 AETH syndrome, 23:16 who. The status tells which event it is: a NAK
        // "invalid request" stands for both.
        if HwEventWho::try_from((cause >> 16) as u8) == Ok(HwEventWho::Responder) {
            match WcStatus::try_from(cause as u8) {
                Ok(WcStatus::RemInvReqErr) => self.post_qp_event(hal, qpn, EventKind::QpReqErr, cause),
                Ok(WcStatus::RemAccessErr) => self.post_qp_event(hal, qpn, EventKind::QpAccessErr, cause),
                // A local failure: its receive completion tells.
                _ => {}
            }
        }
    }

    /// QPS-10, QPS-11: drained; the event is for those who asked for it.
    fn sq_drained<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32) {
        if !self.qp_ids.contains(qpn) || !self.qps[qpn as usize].attr.sq_draining() {
            return;
        }
        let attr = &mut self.qps[qpn as usize].attr;
        attr.set_sq_draining(false);
        if attr.en_sqd_async_notify() {
            self.post_qp_event(hal, qpn, EventKind::SqDrained, 0);
        }
    }

    /// EVT CQ_ERR: the CQ is dead, so is every QP on it.
    fn cq_error<B: Bus>(&mut self, hal: &mut Hal<B>, cqn: u32) {
        if !self.cq_ids.contains(cqn) {
            return;
        }
        let eqn = self.cqs[cqn as usize].eqn;
        hal.post_eqe(eqn, EventKind::CqErr.into(), cqn, 0);
        for qpn in 2..self.qps.len() as u32 {
            let create = &self.qps[qpn as usize].create;
            let uses = self.qp_ids.contains(qpn) && (create.send_cqn() == cqn || create.recv_cqn() == cqn);
            if uses && self.fail_qp(hal, qpn) {
                self.post_qp_event(hal, qpn, EventKind::QpFatal, 0);
            }
        }
    }

    /// EVT-1: what happens to a port is told to every function that asked for it.
    pub(crate) fn post_port_event<B: Bus>(&self, hal: &mut Hal<B>, at: usize, kind: EventKind) {
        for eqn in 0..self.eqs.len() as u32 {
            if self.eq_ids.contains(eqn) && self.eqs[eqn as usize].port_events {
                hal.post_eqe(eqn as u8, kind.into(), at as u32 + 1, 0);
            }
        }
    }

    fn post_qp_event<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32, kind: EventKind, data: u32) {
        if self.qp_ids.contains(qpn) {
            hal.post_eqe(self.qps[qpn as usize].create.async_eqn(), kind.into(), qpn, data);
        }
    }

    /// Is any QP of the port beyond INIT?
    pub(crate) fn any_connected_qp(&self, port_num: u8) -> bool {
        (2..self.qps.len() as u32).any(|qpn| {
            self.qp_ids.contains(qpn)
                && self.qps[qpn as usize].attr.port_num() == port_num
                && !matches!(self.qps[qpn as usize].state(), QpState::Reset | QpState::Init)
        })
    }

    /// SYS-20: frees everything a function owns, in an order in which nothing is in use.
    pub(crate) fn drop_function<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        for qpn in 2..self.qps.len() as u32 {
            let _ = self.destroy_qp(hal, func, qpn);
        }
        self.drop_mrs(hal, func);
        for cqn in 0..self.cqs.len() as u32 {
            let _ = self.destroy_cq(hal, func, cqn);
        }
        for eqn in 0..self.eqs.len() as u32 {
            let _ = self.destroy_eq(hal, func, eqn);
        }
        for pd in 1..self.pds.len() as u32 {
            let _ = self.dealloc_pd(func, pd);
        }
    }
}
