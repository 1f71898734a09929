//! Which QP has a line. Unless lines are shared every QP has one of its own, and nothing here has anything to do.
//!
//! Lines that are shared: the low bits of a QPN say which line a QP may have, and several QPs say the same one. Who
//! rings for a QP that has not the line, or sends to it, is told of here; it gets the line, and whoever had it rests in
//! this memory, which no function can reach: its doors are shut, a fence waits until nothing of it is under way, its
//! state is read back, and written again when its turn comes. QPs are named by index here and in all of the firmware,
//! lines by number. Every function has lines of its own.

use crate::hal::Hal;
use crate::pool::IdPool;
use crate::table::Table;
use crate::{Bus, Control, NUM_CONTEXTS, NUM_FUNCS, NUM_QPS, QPN_LINE_BITS, Quotas};
use hca_abi::{MAX_LOG_WQ_SIZE, PipeMsgKind, QpState, Qpc, WQE_INDEX_BITS, wqe_distance, wqe_index};

/// A QP that has come to its line keeps it for so long: what it came for is done meanwhile.
const STAY_US: u32 = 10;
/// One with something outstanding keeps it for so long; then it begins its oldest WQE anew when it comes again.
const STAY_BUSY_US: u32 = 200;
/// One in ERR: the longest flush.
const STAY_ERR_US: u32 = 4000;
/// Events taken before the state of a QP is read back: more than the card holds of one line.
const MAX_EVENTS: u32 = 256;
/// Those that are looked at in one turn.
const LOOKS: u32 = 4;
/// Index 0, which no QP has: it would be QP0.
pub(crate) const NOBODY: u32 = 0;
/// Words of a record: from `Qpc::sq_pi` on.
const RECORD_WORDS: usize = 17;
pub(crate) const QPC_RECORD_OFFSET: usize = 128;
/// Lines and QPs that something is kept of. The soft core shares no lines, and has no memory for it.
const KEPT_LINES: usize = if cfg!(feature = "std") { NUM_QPS } else { 1 };
const KEPT_FUNCS: usize = if cfg!(feature = "std") { NUM_FUNCS } else { 1 };
const KEPT_RESTS: usize = if cfg!(feature = "std") { NUM_CONTEXTS } else { 1 };

/// A QP without a line.
#[derive(Clone)]
pub(crate) struct Resting {
    /// It has no line.
    pub is_cold: bool,
    /// The record is its state; otherwise it has none yet.
    has_record: bool,
    record: [u32; RECORD_WORDS],
    /// Producer indices that its doorbells have told meanwhile: of the send queue, of the receive queue.
    pub parked: [Option<u32>; 2],
    /// A request of its peer was dropped.
    pub asks: bool,
    /// Hardware cannot take its line from whoever has it.
    pub is_stuck: bool,
    /// It waits for its line, before this one.
    is_wanted: bool,
    next: u32,
}

impl Resting {
    pub const fn new() -> Self {
        Self {
            is_cold: false,
            has_record: false,
            record: [0; RECORD_WORDS],
            parked: [None; 2],
            asks: false,
            is_stuck: false,
            is_wanted: false,
            next: NOBODY,
        }
    }

    /// Puts what doorbells have told into the record; false: it knows all of it.
    fn take_parked(&mut self) -> bool {
        let mut is_news = false;
        for (at, parked) in self.parked.iter_mut().enumerate() {
            // Bit 0 of word 0: `Qpc::sq_pi`; bit 2 of word 1: `Qpc::rq_pi`.
            let (word, shift) = (&mut self.record[at], 2 * at);
            // A ring is full at most.
            if let Some(index) = parked.take()
                && (1..=1 << MAX_LOG_WQ_SIZE).contains(&wqe_distance(*word >> shift, index))
            {
                *word = *word & !(wqe_index(u32::MAX) << shift) | index << shift;
                is_news = true;
            }
        }
        is_news
    }
}

/// Has a QP with this record send WQEs that are not completed? `Qpc::una_wqe` stands behind `Qpc::sq_pi`.
fn has_work(record: &[u32]) -> bool {
    let una_wqe = record[0] >> WQE_INDEX_BITS | record[1] << (u32::BITS - WQE_INDEX_BITS);
    wqe_distance(una_wqe, record[0]) != 0
}

#[derive(Clone, Copy)]
struct Line {
    /// Index of the QP that has it.
    holder: u32,
    /// Since when.
    since_us: u32,
    /// QPs that may have it.
    users: u16,
}

pub(crate) struct Lines {
    /// Lines that the QPs of a function share; 0: each has its own.
    shared: u32,
    /// QPs and lines of a function's share.
    qps: u32,
    lines: u32,
    table: Table<Line, KEPT_LINES>,
    /// Where QPs are.
    pub rests: Table<Resting, KEPT_RESTS>,
    /// Of each function: QPs that want a line, first and last.
    first: Table<u32, KEPT_FUNCS>,
    last: Table<u32, KEPT_FUNCS>,
    /// Whose turn it was.
    turn: u8,
    /// The QP that gets its line when the fence is over.
    swap: Option<u32>,
    /// QPs rest in context memory, and hardware moves them.
    pub is_backed: bool,
    /// It does not now.
    pub is_held: bool,
}

impl Lines {
    pub const fn new(quotas: Quotas) -> Self {
        let lines = NUM_QPS as u32 / quotas.parts();
        Self {
            shared: 0,
            qps: lines,
            lines,
            table: Table::new(
                [Line {
                    holder: NOBODY,
                    since_us: 0,
                    users: 0,
                }; KEPT_LINES],
            ),
            rests: Table::new([const { Resting::new() }; KEPT_RESTS]),
            first: Table::new([NOBODY; KEPT_FUNCS]),
            last: Table::new([NOBODY; KEPT_FUNCS]),
            turn: 0,
            swap: None,
            is_backed: false,
            is_held: false,
        }
    }

    /// QPs of a function's share.
    pub const fn qps(&self) -> u32 {
        self.qps
    }

    pub fn set_holder(&mut self, line: u32, index: u32, since_us: u32) {
        let place = &mut self.table[line as usize];
        (place.holder, place.since_us) = (index, since_us);
    }

    /// On the soft core they never are: its memory has no room for QPs that rest.
    pub const fn are_shared(&self) -> bool {
        cfg!(feature = "std") && self.shared != 0
    }

    /// QPs that say the same line, at most.
    const fn ways(&self) -> u32 {
        if !self.are_shared() {
            1
        } else {
            self.qps.div_ceil(self.shared)
        }
    }

    /// Low bits of a QPN: no two QPs have the same ones.
    pub const fn index_bits(&self) -> u32 {
        QPN_LINE_BITS + self.ways().next_power_of_two().trailing_zeros()
    }

    pub const fn max_generation(&self) -> u16 {
        ((1 << (24 - self.index_bits())) - 1) as u16
    }

    /// The line that a QP may have.
    pub const fn line_of(&self, index: u32) -> u32 {
        if !self.are_shared() {
            return index;
        }
        index / self.qps * self.lines + index % self.qps % self.shared
    }

    pub const fn qpn_of(&self, index: u32, generation: u16) -> u32 {
        let way = if !self.are_shared() {
            0
        } else {
            index % self.qps / self.shared
        };
        (generation as u32) << self.index_bits() | way << QPN_LINE_BITS | self.line_of(index)
    }

    /// Index of the QP that a QPN may name; `NOBODY`: of none.
    pub const fn index_of(&self, qpn: u32) -> u32 {
        let line = crate::line_of(qpn);
        if !self.are_shared() {
            return line;
        }
        let way = (qpn & ((1 << self.index_bits()) - 1)) >> QPN_LINE_BITS;
        let (func, at) = (line / self.lines, line % self.lines);
        let within = way * self.shared + at;
        if at >= self.shared || within >= self.qps {
            return NOBODY;
        }
        func * self.qps + within
    }

    /// Index of the QP that has a line.
    pub fn holder(&self, line: u32) -> u32 {
        if !self.are_shared() || line as usize >= NUM_QPS {
            return line;
        }
        self.table[line as usize].holder
    }

    /// Takes a number of the function. A QP that may not rest gets a line of its own, of the first half.
    pub fn alloc<const WORDS: usize>(
        &self,
        ids: &mut IdPool<WORDS>,
        func: u8,
        may_rest: bool,
    ) -> Option<u32> {
        if !self.are_shared() {
            return ids.alloc(func);
        }
        ids.alloc_where(func, |index| {
            let is_first_half = index % self.qps % self.shared < self.shared / 2;
            let line = &self.table[self.line_of(index) as usize];
            match may_rest {
                true => !is_first_half,
                false => is_first_half && line.users == 0,
            }
        })
    }

    /// A QP is made. The one that had the number before may still be in the list of those that want a line.
    pub fn enter(&mut self, index: u32) {
        if !self.are_shared() {
            return;
        }
        let at = self.line_of(index) as usize;
        let line = &mut self.table[at];
        line.users += 1;
        let rest = &mut self.rests[index as usize];
        *rest = Resting {
            is_cold: line.holder != NOBODY,
            is_wanted: rest.is_wanted,
            next: rest.next,
            ..Resting::new()
        };
        if !rest.is_cold {
            line.holder = index;
        }
    }

    /// The QP has no line.
    pub fn is_cold(&self, index: u32) -> bool {
        self.are_shared() && self.rests[index as usize].is_cold
    }

    /// A QP is gone.
    pub fn leave(&mut self, index: u32) {
        if !self.are_shared() {
            return;
        }
        let at = self.line_of(index);
        let line = &mut self.table[at as usize];
        line.users = line.users.saturating_sub(1);
        if line.holder == index {
            line.holder = NOBODY;
        }
    }
}

impl Control {
    pub(crate) fn share_lines(&mut self, lines: u32) {
        let quotas = self.qp_ids.quotas();
        self.lines.shared = lines.clamp(4, self.lines.lines);
        self.lines.qps = NUM_CONTEXTS as u32 / quotas.parts();
        self.qp_ids = IdPool::new(NUM_CONTEXTS as u32, 2, quotas);
    }

    /// QPs that a function can have.
    pub(crate) fn max_qps(&self, func: u8) -> u32 {
        let lines = &self.lines;
        if !lines.are_shared() || self.qp_ids.limit(func) == 0 {
            return self.qp_ids.limit(func);
        }
        let own = lines.shared / 2;
        (0..lines.qps).filter(|at| at % lines.shared >= own).count() as u32 + own - 2
    }

    /// True: the QP has no line, and the context is written when it has.
    pub(crate) fn is_written_later(&mut self, index: u32, begins_anew: bool) -> bool {
        if !self.lines.are_shared() {
            return false;
        }
        let rest = &mut self.lines.rests[index as usize];
        if rest.is_cold {
            if begins_anew {
                rest.has_record = false;
                rest.parked = [None; 2];
            }
            return true;
        }
        // Its doors are open again.
        let line = self.lines.line_of(index);
        if self
            .lines
            .swap
            .is_some_and(|target| self.lines.line_of(target) == line)
        {
            let target = self.lines.swap.take();
            self.want_line(target.unwrap_or(index));
        }
        false
    }

    /// The QP waits for its line, or for what it has missed.
    pub(crate) fn want_line(&mut self, index: u32) {
        if !self.lines.are_shared() {
            return;
        }
        let rest = &mut self.lines.rests[index as usize];
        if core::mem::replace(&mut rest.is_wanted, true) {
            return;
        }
        rest.next = NOBODY;
        let func = (index / self.lines.qps) as usize;
        match self.lines.last[func] {
            NOBODY => self.lines.first[func] = index,
            last => self.lines.rests[last as usize].next = index,
        }
        self.lines.last[func] = index;
    }

    fn pop_wanted(&mut self, func: usize) -> Option<u32> {
        let index = self.lines.first[func];
        if index == NOBODY {
            return None;
        }
        let rest = &mut self.lines.rests[index as usize];
        rest.is_wanted = false;
        self.lines.first[func] = rest.next;
        if rest.next == NOBODY {
            self.lines.last[func] = NOBODY;
        }
        Some(index)
    }

    /// A command that needs the QP's line must wait for it.
    pub(crate) fn waits_for_line<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, qpn: u32) -> bool {
        let Ok(index) = self.own_qp(func, qpn) else {
            return false;
        };
        self.have_line(hal, index);
        let waits = self.lines.is_cold(index);
        if waits {
            self.want_line(index);
        }
        waits
    }

    /// A doorbell for a QP that has not its line. Cause: see HW_EVENT_LINE_MISS.
    pub(crate) fn doorbell_missed(&mut self, func: u8, qpn: u32, cause: u32) {
        if !self.lines.are_shared() {
            return;
        }
        if self.lines.is_backed {
            return self.hardware_missed(func, qpn, cause);
        }
        let Ok(index) = self.own_qp(func, qpn) else {
            return; // of nobody: lost, as everywhere
        };
        // Behind its index: of which queue.
        let is_rq = cause >> WQE_INDEX_BITS & 1 == 0;
        self.lines.rests[index as usize].parked[usize::from(is_rq)] = Some(wqe_index(cause));
        self.want_line(index);
    }

    /// A packet for a QP that has not its line was dropped.
    pub(crate) fn packet_missed<B: Bus>(&mut self, hal: &mut Hal<B>, id: u32, cause: u32) {
        if !self.lines.are_shared() || self.lines.is_backed {
            return;
        }
        let line = crate::line_of(id);
        let qpn = (cause & 0xffff) << QPN_LINE_BITS | line;
        let index = self.lines.index_of(qpn);
        if !self.qp_ids.contains(index) || self.qpn_of(index) != qpn {
            return;
        }
        self.lines.rests[index as usize].asks |= cause >> 16 & 1 == 1;
        let is_shut = self
            .lines
            .swap
            .is_some_and(|target| self.lines.line_of(target) == line);
        if self.lines.rests[index as usize].is_cold || is_shut {
            self.want_line(index);
        } else {
            self.ask_again(hal, index);
        }
    }

    /// Tells the peer of a QP that has its line what it waits for, if something was dropped.
    fn ask_again<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        let state = self.qps[index as usize].state();
        let asks = core::mem::take(&mut self.lines.rests[index as usize].asks);
        if asks && matches!(state, QpState::Rtr | QpState::Rts) {
            let mut row = self.qpc_of(index);
            row.set_asks_again(true);
            hal.ctx_write_qpc(self.lines.line_of(index), &row, false, false);
        }
    }

    /// A step of who gets which line; false: nobody waits for one.
    pub(crate) fn turn_lines<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        if !self.lines.are_shared() {
            return false;
        }
        if let Some(target) = self.lines.swap {
            if hal.is_fence_over() {
                self.finish_swap(hal, target);
            }
            return true;
        }
        for _ in 0..LOOKS {
            for step in 1..=NUM_FUNCS as u8 {
                let func = (self.lines.turn + step) % NUM_FUNCS as u8;
                if let Some(index) = self.pop_wanted(usize::from(func)) {
                    self.lines.turn = func;
                    if self.begin_swap(hal, index) {
                        return true;
                    }
                    break;
                }
            }
        }
        self.lines.first.iter().any(|first| *first != NOBODY)
    }

    /// True: it goes on, or is done.
    fn begin_swap<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) -> bool {
        if self.lines.is_backed {
            return self.begin_backed(hal, index);
        }
        if !self.qp_ids.contains(index) {
            return false;
        }
        let rest = &self.lines.rests[index as usize];
        if !rest.is_cold && rest.parked == [None; 2] {
            self.ask_again(hal, index);
            return false;
        }
        let line = self.lines.line_of(index);
        let holder = self.lines.holder(line);
        if holder == NOBODY {
            self.fill(hal, index);
            return true;
        }
        if holder != index && !self.may_go(hal, holder) {
            self.want_line(index);
            return false;
        }
        self.shut(hal, holder, index);
        true
    }

    /// Nothing begins for the holder of a line any more; behind the fence the line is for `target`.
    pub(crate) fn shut<B: Bus>(&mut self, hal: &mut Hal<B>, holder: u32, target: u32) {
        let row = self.shut_row(holder);
        hal.ctx_write_qpc(self.lines.line_of(holder), &row, false, false);
        hal.start_fence();
        self.lines.swap = Some(target);
    }

    /// May the holder of a line leave it now?
    pub(crate) fn may_go<B: Bus>(&mut self, hal: &mut Hal<B>, holder: u32) -> bool {
        let line = self.lines.line_of(holder);
        let state = self.qps[holder as usize].state();
        let stayed_us = (hal.micros() as u32).wrapping_sub(self.lines.table[line as usize].since_us);
        let stay_us = match state {
            QpState::Sqd | QpState::Sqe => return false,
            QpState::Err => STAY_ERR_US,
            QpState::Reset => 0,
            _ => STAY_US,
        };
        if stayed_us < stay_us {
            return false;
        }
        if state != QpState::Rts || stayed_us >= STAY_BUSY_US {
            return true;
        }
        let row = self.qpc_of(holder);
        hal.ctx_write_qpc(line, &row, false, false);
        let mut words = [0; 2];
        hal.qp_record(&mut words);
        !has_work(&words)
    }

    /// The context of a QP whose doors are shut: it sends nothing more, and what is under way ends.
    fn shut_row(&self, index: u32) -> Qpc {
        let mut row = self.qpc_of(index);
        row.set_is_shut(true);
        if self.qps[index as usize].state() == QpState::Rts {
            row.set_state(QpState::Rtr.into());
        }
        row
    }

    /// Nothing of the holder is under way any more.
    fn finish_swap<B: Bus>(&mut self, hal: &mut Hal<B>, target: u32) {
        let line = self.lines.line_of(target);
        // What it has reported is its own.
        for _ in 0..MAX_EVENTS {
            let Some(event) = hal.event() else { break };
            self.handle_event(hal, event);
            hal.pop_event();
        }
        // One of them may have opened its doors again.
        if self.lines.swap != Some(target) {
            return;
        }
        self.lines.swap = None;
        self.have_line(hal, target);
        let holder = self.lines.holder(line);
        if holder != NOBODY {
            let mut row = self.shut_row(holder);
            row.set_state(QpState::Reset.into());
            hal.ctx_write_qpc(line, &row, true, true);
            let mut record = [0; RECORD_WORDS];
            hal.qp_record(&mut record);
            let has_record = self.qps[holder as usize].state() != QpState::Reset;
            if self.lines.is_backed {
                self.rests_there(hal, holder, has_record.then_some(record.as_slice()));
            }
            let rest = &mut self.lines.rests[holder as usize];
            rest.has_record = has_record;
            rest.record = record;
            rest.is_cold = true;
            let is_missed = rest.parked != [None; 2] || rest.asks || rest.is_stuck;
            self.lines.table[line as usize].holder = NOBODY;
            // What is outstanding goes on though nobody rings for it.
            let is_busy = has_record && has_work(&record);
            if holder != target && (is_busy || is_missed) {
                self.want_line(holder);
            }
        }
        if self.lines.is_backed {
            self.lines.rests[target as usize].is_stuck = false;
            self.want_line(target);
        } else if self.qp_ids.contains(target) && self.lines.rests[target as usize].is_cold {
            self.fill(hal, target);
        }
    }

    /// A QP gets its line, which is free.
    fn fill<B: Bus>(&mut self, hal: &mut Hal<B>, index: u32) {
        let line = self.lines.line_of(index);
        let mut row = self.qpc_of(index);
        let rest = &mut self.lines.rests[index as usize];
        rest.is_cold = false;
        if rest.has_record {
            rest.take_parked();
            for (bytes, word) in row.0[QPC_RECORD_OFFSET..].chunks_exact_mut(4).zip(rest.record) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            row.set_restores(true);
        }
        rest.parked = [None; 2];
        let is_err = self.qps[index as usize].state() == QpState::Err;
        hal.ctx_write_qpc(line, &row, true, true);
        if is_err {
            hal.inject(PipeMsgKind::FlushSq, line);
            hal.inject(PipeMsgKind::FlushRq, line);
        }
        let since_us = hal.micros() as u32;
        let place = &mut self.lines.table[line as usize];
        (place.holder, place.since_us) = (index, since_us);
        self.ask_again(hal, index);
    }
}
