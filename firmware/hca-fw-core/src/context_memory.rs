//! Contexts in host memory (docs/decisions/0082): function 0 gives memory, and hardware takes lines from QPs that have
//! nothing to do and gives them to those that want them. Firmware writes the context of each QP there, too, takes lines
//! from QPs that hardware leaves alone, and holds all lines while it acts on one: who has which is looked up then.

use crate::hal::Hal;
use crate::lines::{NOBODY, Resting};
use crate::objects::{require, require_size};
use crate::qpc::QPC_PAIRS;
use crate::{Bus, CmdResult, Control, NUM_QPS};
use hca_abi::{
    AdminStatus, CtxTable, EventKind, LineMiss, MAX_LOG_WQ_SIZE, PipeMsgKind, QpState, Qpc,
    SetContextMemoryCmd, WQE_INDEX_BITS, wqe_distance, wqe_index,
};
use hca_regs as reg;

/// The registers of hca_lines.
impl<B: Bus> Hal<'_, B> {
    /// Puts a QP context where the next write takes it from.
    pub(crate) fn ctx_lay_row(&mut self, row: &Qpc) {
        let whole = row.restores() || row.has_record();
        self.ctx_lay_qpc(row, if whole { u32::MAX } else { QPC_PAIRS });
    }

    /// Writes the context that has been laid into context memory: all of it, or what comes before its record.
    fn record_write(&mut self, qpn: u32, is_whole: bool) {
        let flags = u32::from(is_whole) * reg::MGMT_CTX_FLAGS_INIT_SQ_MASK;
        self.ctx_go(CtxTable::Record, qpn, flags);
    }

    /// From now on QPs rest in context memory at this bus address; `qpn_bits` of a QPN name its context there.
    fn set_context_memory(&mut self, base: u64, qpn_bits: u32) {
        self.write(reg::MGMT_LINES_BASE_LO, base as u32);
        self.write(reg::MGMT_LINES_BASE_HI, (base >> 32) as u32);
        self.hold_lines(true, qpn_bits, false);
    }

    /// Is there context memory, and may lines change hands? When this returns with `holds` none does.
    pub(crate) fn hold_lines(&mut self, is_on: bool, qpn_bits: u32, holds: bool) {
        self.wait_ctx();
        let ctrl = (u32::from(is_on) * reg::MGMT_LINES_CTRL_ENABLE_MASK)
            | (u32::from(holds) * reg::MGMT_LINES_CTRL_HOLD_MASK)
            | (qpn_bits << reg::MGMT_LINES_CTRL_INDEX_BITS_MASK.trailing_zeros());
        self.write(reg::MGMT_LINES_CTRL, ctrl);
        if holds {
            while self.read(reg::MGMT_LINES_STATUS) & reg::MGMT_LINES_STATUS_HELD_MASK == 0 {}
        }
    }

    /// QPN of the QP that has a line, while lines are held.
    fn line_holder(&mut self, line: u32) -> Option<u32> {
        self.wait_ctx();
        self.write(reg::MGMT_LINES_SEL, line);
        // The row is looked at meanwhile.
        self.read(reg::MGMT_LINES_STATUS);
        let word = self.read(reg::MGMT_LINES_HOLDER);
        let is_valid = word & reg::MGMT_LINES_HOLDER_VALID_MASK != 0;
        is_valid.then(|| reg::field(word, reg::MGMT_LINES_HOLDER_QPN_MASK))
    }

    /// A QP has its line, or nobody has it any more, while lines are held. `may_rest`: hardware may take it from him.
    fn set_line(&mut self, qpn: u32, is_there: bool, may_rest: bool) {
        let word = qpn
            | (u32::from(is_there) * reg::MGMT_LINES_SET_VALID_MASK)
            | (u32::from(may_rest) * reg::MGMT_LINES_SET_MAY_REST_MASK);
        self.wait_ctx();
        self.write(reg::MGMT_LINES_SET, word | reg::MGMT_LINES_SET_GO_MASK);
    }

    /// Hardware gives a QP its line; `false`: it has no room to know of that now.
    fn want_line(&mut self, func: u8, qpn: u32, kind: LineMiss, index: u32) -> bool {
        if self.read(reg::MGMT_LINES_STATUS) & reg::MGMT_LINES_STATUS_ROOM_MASK == 0 {
            return false;
        }
        self.write(reg::MGMT_LINES_WANT_INDEX, index | u32::from(func) << 24);
        let kind = u32::from(u8::from(kind)) << reg::MGMT_LINES_WANT_KIND_MASK.trailing_zeros();
        self.write(reg::MGMT_LINES_WANT, qpn | kind | reg::MGMT_LINES_WANT_GO_MASK);
        true
    }
}

impl Control {
    /// log2 of the bytes that contexts of all QPs take.
    pub(crate) const fn log_context_bytes(&self) -> u8 {
        (self.lines.index_bits() + Qpc::BYTES.trailing_zeros()) as u8
    }

    /// Before there are QPs: each has its context there from its beginning.
    pub(crate) fn set_context_memory<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &SetContextMemoryCmd,
    ) -> CmdResult {
        let unsupported = (AdminStatus::Unsupported, 0);
        if !self.lines.are_shared() || !crate::features::has(hca_abi::feature::CONTEXT_MEMORY) {
            return Err(unsupported);
        }
        let log_bytes = self.log_context_bytes();
        let has_qps = (0..self.qps.len() as u32).any(|index| self.qp_ids.contains(index));
        if self.lines.is_backed || has_qps {
            return Err((AdminStatus::InUse, 0));
        }
        require(cmd.base().is_multiple_of(Qpc::BYTES as u64), cmd.base() as u32)?;
        require_size(cmd.bytes() >= 1 << log_bytes, log_bytes.into())?;
        hal.probe_ring(func, cmd.base(), 1 << log_bytes)?;
        self.lines.is_backed = true;
        self.hold_lines(hal);
        for line in 0..NUM_QPS as u32 {
            hal.set_line(line, false, false);
        }
        hal.set_context_memory(cmd.base(), self.lines.index_bits());
        self.lines.is_held = false;
        Ok(())
    }

    fn hold_lines<B: Bus>(&mut self, hal: &mut Hal<B>) {
        if !core::mem::replace(&mut self.lines.is_held, true) {
            hal.hold_lines(true, self.lines.index_bits(), true);
        }
    }

    /// At the end of a piece of work.
    pub(crate) fn let_lines_go<B: Bus>(&mut self, hal: &mut Hal<B>) {
        if core::mem::take(&mut self.lines.is_held) {
            hal.hold_lines(true, self.lines.index_bits(), false);
        }
    }

    /// From here on until the end of this piece of work it is known who has the line that a QP may have.
    pub(crate) fn have_line<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        if self.lines.is_backed && (index as usize) < self.qps.len() {
            self.hold_lines(hal);
            self.look_up(hal, self.lines.line_of(index));
        }
    }

    fn look_up<B: Bus>(&mut self, hal: &mut Hal<B>, line: u32) {
        let qpn = hal.line_holder(line);
        let index = qpn.map_or(NOBODY, |qpn| self.lines.index_of(qpn));
        let before = self.lines.holder(line);
        if before == index {
            return;
        }
        if before != NOBODY {
            self.lines.rests[before as usize].is_cold = true;
        }
        if index != NOBODY {
            self.lines.rests[index as usize].is_cold = false;
        }
        self.lines.set_holder(line, index, hal.micros() as u32);
    }

    /// The context that has been laid is that of the QP in context memory, too. `is_new`: it begins with it.
    pub(crate) fn keep_record<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32, is_new: bool) {
        if !self.lines.is_backed {
            return;
        }
        let qpn = self.qpn_of(index);
        hal.record_write(qpn, is_new);
        if !self.lines.is_cold(index) {
            hal.set_line(qpn, true, self.may_hardware_take(index));
        }
    }

    /// May hardware take the line from the QP, when it has nothing to do?
    fn may_hardware_take(&self, index: u32) -> bool {
        let made = &self.qps[index as usize].made;
        let is_rc = self.qps[index as usize].service() == hca_abi::Service::Rc && !made.has_srq();
        is_rc
            && !matches!(
                self.qps[index as usize].state(),
                QpState::Sqd | QpState::Sqe | QpState::Err
            )
    }

    /// A QP is gone: its QPN names nothing in context memory.
    pub(crate) fn drop_record<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        if !self.lines.is_backed {
            return;
        }
        self.have_line(hal, index);
        let qpn = self.qpn_of(index);
        hal.ctx_lay_row(&Qpc::new());
        hal.record_write(qpn, true);
        if !self.lines.is_cold(index) {
            hal.set_line(qpn, false, false);
        }
    }

    /// The QP that an event names; `NOBODY`, where that is gone.
    pub(crate) fn qp_of_event(&self, qpn: u32) -> u32 {
        let index = self.lines.index_of(qpn);
        if self.lines.are_shared() && (!self.qp_ids.contains(index) || self.qpn_of(index) != qpn) {
            return NOBODY;
        }
        index
    }

    /// A QP in ERR has its line again: what is in its queues is flushed.
    pub(crate) fn line_filled<B: Bus>(&mut self, hal: &mut Hal<B>, qpn: u32) {
        let index = self.qp_of_event(qpn);
        self.have_line(hal, index);
        if index != NOBODY && !self.lines.is_cold(index) && self.qps[index as usize].state() == QpState::Err {
            let line = self.lines.line_of(index);
            hal.inject(PipeMsgKind::FlushSq, line);
            hal.inject(PipeMsgKind::FlushRq, line);
        }
    }

    /// Hardware has no room for the doorbell of a QP, or cannot make room in its line (`cause`: see
    /// HW_EVENT_LINE_MISS).
    pub(crate) fn hardware_missed(&mut self, func: u8, qpn: u32, cause: u32) {
        let index = self.qp_of_event(qpn);
        let is_stuck = cause >> 18 & 1 == 1;
        let kind = LineMiss::try_from((cause >> 19 & 3) as u8);
        let rings = !is_stuck || matches!(kind, Ok(LineMiss::Sq | LineMiss::Rq));
        if index == NOBODY || (rings && !self.qp_ids.owns(func, index)) {
            return;
        }
        let rest = &mut self.lines.rests[index as usize];
        rest.is_stuck |= is_stuck;
        if rings {
            let is_rq = cause >> WQE_INDEX_BITS & 1 == 0;
            // They come in any order.
            let (parked, index) = (&mut rest.parked[usize::from(is_rq)], wqe_index(cause));
            if parked.is_none_or(|before| (1..=1 << MAX_LOG_WQ_SIZE).contains(&wqe_distance(before, index))) {
                *parked = Some(index);
            }
        } else if kind == Ok(LineMiss::Ask) {
            rest.asks = true;
        }
        self.want_line(index);
    }

    /// A QP that waits for its line, first the one that hardware cannot take it from. True: the fence for that is on.
    pub(crate) fn begin_backed<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) -> bool {
        if !self.qp_ids.contains(index) {
            return false;
        }
        if self.lines.rests[index as usize].is_stuck {
            self.have_line(hal, index);
            let holder = self.lines.holder(self.lines.line_of(index));
            if holder != NOBODY && holder != index {
                if !self.may_go(hal, holder) {
                    self.want_line(index);
                    return false;
                }
                hal.set_line(self.qpn_of(holder), true, false);
                self.shut(hal, holder, index);
                return true;
            }
            self.lines.rests[index as usize].is_stuck = false;
        }
        self.ask_hardware(hal, index);
        false
    }

    /// Hardware is to see to a QP, and to all that it has missed.
    fn ask_hardware<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        let qpn = self.qpn_of(index);
        let func = (index / self.lines.qps()) as u8;
        let Resting { parked, asks, .. } = self.lines.rests[index as usize];
        let mut left = Resting::new();
        let mut has_asked = false;
        for (at, kind) in [LineMiss::Sq, LineMiss::Rq].into_iter().enumerate() {
            if let Some(producer) = parked[at] {
                let is_told = hal.want_line(func, qpn, kind, producer);
                left.parked[at] = (!is_told).then_some(producer);
                has_asked |= is_told;
            }
        }
        left.asks = asks && !hal.want_line(func, qpn, LineMiss::Ask, 0);
        let has_more = left.asks || left.parked != [None; 2];
        if !has_asked && !asks && !has_more && !hal.want_line(func, qpn, LineMiss::Fill, 0) {
            self.want_line(index);
        }
        let rest = &mut self.lines.rests[index as usize];
        (rest.parked, rest.asks) = (left.parked, left.asks);
        if has_more {
            self.want_line(index);
        }
    }

    /// The holder of a line is out of it, with this record: it rests in context memory.
    pub(crate) fn rests_there<B: Bus>(&mut self, hal: &mut Hal<B>, holder: u32, record: Option<&[u32]>) {
        let mut row = self.qpc_of(holder);
        if let Some(words) = record {
            let place = &mut row.0[crate::lines::QPC_RECORD_OFFSET..];
            for (bytes, word) in place.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            row.set_has_record(true);
        }
        let qpn = self.qpn_of(holder);
        hal.ctx_lay_row(&row);
        hal.record_write(qpn, true);
        hal.set_line(qpn, false, false);
    }

    /// Function 0 goes, and its memory with it. QPs that have their lines keep them; the others have lost what they
    /// were.
    pub(crate) fn drop_context_memory<B: Bus>(&mut self, hal: &mut Hal<B>) {
        if !self.lines.is_backed {
            return;
        }
        self.hold_lines(hal);
        for line in 0..NUM_QPS as u32 {
            self.look_up(hal, line);
            hal.set_line(line, false, false);
        }
        hal.hold_lines(false, self.lines.index_bits(), false);
        (self.lines.is_backed, self.lines.is_held) = (false, false);
        for index in 0..self.qps.len() as u32 {
            let is_lost = self.qp_ids.contains(index)
                && self.lines.is_cold(index)
                && self.qps[index as usize].state() != QpState::Reset;
            if is_lost {
                self.qps[index as usize].attr.set_qp_state(QpState::Err);
                self.post_qp_event(hal, index, EventKind::QpFatal, 0);
            }
        }
    }
}
