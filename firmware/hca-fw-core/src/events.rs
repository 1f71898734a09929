//! What hardware reports: doorbells for firmware, and errors.

use crate::hal::Hal;
use crate::{Bus, Control, NUM_FUNCS};
use hca_abi::{EventKind, HwEventKind, HwEventWho, QpState, WcStatus};
use hca_agents::Key;

impl Control {
    pub(crate) fn handle_event<B: Bus>(&mut self, hal: &mut Hal<B>, words: [u32; 3]) {
        let w0 = words[0];
        let func = (w0 >> 8) as u8;
        let Ok(kind) = HwEventKind::try_from(w0 as u8) else {
            return;
        };
        if usize::from(func) >= NUM_FUNCS {
            return;
        }
        match kind {
            HwEventKind::AdminDb => self.commands_announced(hal, func),
            _ => self.handle_other(hal, kind, words),
        }
    }

    /// Events beside those of commands.
    #[inline(never)]
    fn handle_other<B: Bus>(&mut self, hal: &mut Hal<B>, kind: HwEventKind, words: [u32; 3]) {
        let [w0, id, cause] = words;
        let func = (w0 >> 8) as u8;
        match kind {
            HwEventKind::LineMiss => self.doorbell_missed(func, id, cause),
            HwEventKind::LineFilled => self.line_filled(hal, id),
            HwEventKind::PacketMiss => self.packet_missed(hal, id, cause),
            HwEventKind::FuncControl => self.control_written(func),
            HwEventKind::QpError => self.qp_error(hal, self.qp_of_event(id), cause),
            HwEventKind::QpCommEst => self.post_qp_event(hal, self.qp_of_event(id), EventKind::CommEst, 0),
            HwEventKind::CqError => self.cq_error(hal, id),
            HwEventKind::SqDrained => self.sq_drained(hal, self.qp_of_event(id)),
            HwEventKind::SrqLimit => self.srq_limit_reached(hal, id, cause),
            HwEventKind::SrqError => self.fail_srq(hal, id),
            HwEventKind::PathArmed => self.path_armed(hal, self.qp_of_event(id)),
            HwEventKind::PathAsked => self.path_lost(hal, self.qp_of_event(id), Some(cause)),
            HwEventKind::PathFailed => self.path_lost(hal, self.qp_of_event(id), None),
            HwEventKind::Port => self.link_event(hal, id),
            HwEventKind::Mad => self.has_mads = true,
            HwEventKind::PkeyViolation => self.bad_key(Key::Partition, self.qp_of_event(id), cause as u16),
            HwEventKind::QkeyViolation => self.bad_key(Key::Queue, self.qp_of_event(id), cause as u16),
            // Counted by hardware; nothing to be done about them.
            HwEventKind::BadDoorbell | HwEventKind::EqOverflow | HwEventKind::QpFlushNeeded => {}
            // Seen to already.
            HwEventKind::AdminDb => {}
        }
    }

    /// QPS-13: ERR, both queues flushed; QPS-12: a send of a datagram that failed stops the send queue only; REL-13:
    /// which asynchronous event the responder's refusal raises.
    fn qp_error<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, cause: u32) {
        // Bits 7:0 completion status, 15:8 AETH syndrome, 23:16 who. The status tells which event it is: a NAK
        // "invalid request" stands for both.
        let who = HwEventWho::try_from((cause >> 16) as u8);
        if who == Ok(HwEventWho::Requester) && self.outlives_failed_sends(line) {
            return self.stop_sends(hal, line);
        }
        // SPEC-7: what lies in a slot is no WQE, or it cannot be read. Whoever takes it, it is not of this QP alone.
        if who == Ok(HwEventWho::Responder)
            && WcStatus::try_from(cause as u8) == Ok(WcStatus::LocQpOpErr)
            && self.qp_ids.contains(line)
            && let Some(srqn) = self.srq_of(line)
        {
            return self.fail_srq(hal, srqn);
        }
        let Some(fatal) = self.fail_qp(hal, line) else {
            return;
        };
        if who == Ok(HwEventWho::Responder) {
            match WcStatus::try_from(cause as u8) {
                Ok(WcStatus::RemInvReqErr) => self.post_qp_event(hal, line, EventKind::QpReqErr, cause),
                Ok(WcStatus::RemAccessErr) => self.post_qp_event(hal, line, EventKind::QpAccessErr, cause),
                // V-91: a work queue is in ERR by itself.
                _ if fatal == EventKind::WqFatal => self.post_qp_event(hal, line, fatal, cause),
                // A local failure: its receive completion tells.
                _ => {}
            }
        }
    }

    /// QPS-10, QPS-11: drained; the event is for those who asked for it.
    fn sq_drained<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        if !self.qp_ids.contains(line) || !self.qps[line as usize].attr.sq_draining() {
            return;
        }
        let attr = &mut self.qps[line as usize].attr;
        attr.set_sq_draining(false);
        if attr.en_sqd_async_notify() {
            self.post_qp_event(hal, line, EventKind::SqDrained, 0);
        }
    }

    /// EVT CQ_ERR: the CQ is dead, so is every QP on it.
    fn cq_error<B: Bus>(&mut self, hal: &mut Hal<B>, cqn: u32) {
        if !self.cq_ids.contains(cqn) {
            return;
        }
        let cq = &mut self.cqs[cqn as usize];
        cq.has_failed = true;
        hal.post_eqe(cq.eqn, EventKind::CqErr.into(), cqn, 0);
        let owner = (0..NUM_FUNCS as u8).find(|func| self.cq_ids.owns(*func, cqn));
        if let Some(func) = owner {
            self.fail_qps_of_failed(func);
            self.fail_srqs_of_cq(hal, func, cqn);
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

    pub(crate) fn post_qp_event<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32, kind: EventKind, data: u32) {
        if self.qp_ids.contains(line) {
            let eqn = self.qps[line as usize].made.async_eqn();
            hal.post_eqe(eqn, kind.into(), self.qpn_of(line), data);
        }
    }

    /// Is any QP of the port beyond INIT?
    pub(crate) fn any_connected_qp(&self, port_num: u8) -> bool {
        (0..self.qps.len() as u32).any(|line| {
            self.qp_ids.contains(line)
                && self.qps[line as usize].attr.port_num() == port_num
                && !matches!(self.qps[line as usize].state(), QpState::Reset | QpState::Init)
        })
    }
}
