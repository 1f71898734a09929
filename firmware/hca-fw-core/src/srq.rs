//! Shared receive queues: commands, limits, failures, and the event that says that a QP is through with its SRQ.

use crate::hal::Hal;
use crate::objects::{require, require_size};
use crate::ring::Ring;
use crate::turns::{Fenced, Rest};
use crate::{Bus, CmdResult, Control, NUM_SRQS};
use hca_abi::{
    AdminStatus, CreateQpCmd, CreateSrqCmd, CtxTable, EventKind, MAX_LOG_WQ_SIZE, MAX_LOG_WQE_STRIDE,
    MAX_SGE, MIN_WQE_STRIDE_BYTES, ModifySrqCmd, QuerySrqResult, RqWqeCtrl, SRQ_LINE_ENTRIES, Sge, Srqc,
};

/// Low bits of what peers name an SRQ of XRC: its row.
const SRQ_LINE_BITS: u32 = NUM_SRQS.trailing_zeros();
const MAX_GENERATION: u32 = (1 << (24 - SRQ_LINE_BITS)) - 1;
/// Bytes of a slot number.
const ENTRY_BYTES: u32 = 2;

/// What it was made with.
#[derive(Clone, Copy)]
struct Made {
    slots: Ring,
    list_base: u64,
    pd: u32,
    async_eqn: u8,
    is_xrc: bool,
    xrcd: u32,
    cqn: u32,
}

impl Made {
    const fn new() -> Self {
        Self {
            slots: Ring::NONE,
            list_base: 0,
            pd: 0,
            async_eqn: 0,
            is_xrc: false,
            xrcd: 0,
            cqn: 0,
        }
    }

    fn of(cmd: &CreateSrqCmd) -> Self {
        Self {
            slots: Ring {
                base: cmd.base(),
                log_size: cmd.log_size(),
                log_stride: cmd.log_stride(),
            },
            list_base: cmd.list_base(),
            pd: cmd.pd(),
            async_eqn: cmd.async_eqn(),
            is_xrc: cmd.is_xrc(),
            xrcd: cmd.xrcd(),
            cqn: cmd.cqn(),
        }
    }
}

/// A shared receive queue.
#[derive(Clone, Copy)]
pub(crate) struct SrqRec {
    func: u8,
    made: Made,
    pub qps: u16,
    /// Armed limit; 0: none.
    limit: u32,
    /// Of the limit that was armed last, and of the one that was reached last. They outlive the SRQ: what is still told
    /// of an old limit is of no other one.
    limit_tag: u8,
    reached_tag: u8,
    /// SRQs of XRC that have had this number before; outlives the SRQ.
    generation: u32,
    /// Nothing can be taken from it: its QPs must fail.
    pub has_failed: bool,
}

impl SrqRec {
    pub const fn new() -> Self {
        Self {
            func: 0,
            made: Made::new(),
            qps: 0,
            limit: 0,
            limit_tag: 0,
            reached_tag: 0,
            generation: 0,
            has_failed: false,
        }
    }
}

/// Does a QP still owe its LAST_WQE_REACHED?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWqe {
    No,
    /// It went to ERR.
    Owed,
    /// What was under way then is over when the fence is.
    Fenced,
}

/// Events of this kind, all QPs together: one fence at a time.
#[derive(Clone, Copy)]
pub(crate) struct LastWqes {
    /// Some are owed, and no fence was started for them.
    any_owed: bool,
    is_fencing: bool,
    /// The fence is over: QPs from here on are told.
    telling_from: Option<u32>,
}

impl LastWqes {
    pub const fn new() -> Self {
        Self {
            any_owed: false,
            is_fencing: false,
            telling_from: None,
        }
    }

    /// There is something to be done for them, or to be waited for.
    pub fn is_busy(&self) -> bool {
        self.any_owed || self.is_fencing || self.telling_from.is_some()
    }

    /// A fence is under way, whose end is no event.
    pub fn is_waiting(&self) -> bool {
        self.is_fencing
    }
}

fn log_list_size(log_size: u8) -> u8 {
    log_size.max(SRQ_LINE_ENTRIES.trailing_zeros() as u8)
}

impl Control {
    fn own_srq(&self, func: u8, srqn: u32) -> CmdResult<usize> {
        self.srq_ids.own(func, srqn)
    }

    pub(crate) fn create_srq<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateSrqCmd,
    ) -> CmdResult<u32> {
        let (log_size, log_stride) = (u32::from(cmd.log_size()), u32::from(cmd.log_stride()));
        require_size(log_size <= MAX_LOG_WQ_SIZE, log_size)?;
        require_size(log_stride <= MAX_LOG_WQE_STRIDE, log_stride)?;
        let pd = self.own_pd(func, cmd.pd())?;
        let eq = self.own_eq(func, u32::from(cmd.async_eqn()))?;
        let xrc = match cmd.is_xrc() {
            true => Some((self.own_xrcd(func, cmd.xrcd())?, self.own_cq(func, cmd.cqn())?)),
            false => None,
        };
        let stride = MIN_WQE_STRIDE_BYTES << log_stride;
        require(
            cmd.base().is_multiple_of(stride.into()) && cmd.list_base().is_multiple_of(64),
            0,
        )?;
        hal.probe_ring(func, cmd.base(), stride << log_size)?;
        hal.probe_ring(
            func,
            cmd.list_base(),
            ENTRY_BYTES << log_list_size(cmd.log_size()),
        )?;
        let limit = self.srq_ids.limit(func);
        let srqn = self
            .srq_ids
            .alloc(func)
            .ok_or((AdminStatus::NoResources, limit))?;
        self.pds[pd] += 1;
        self.eqs[eq].users += 1;
        if let Some((xrcd, cq)) = xrc {
            self.xrcds[xrcd] += 1;
            self.cqs[cq].qps += 1;
        }
        let rec = &mut self.srqs[srqn as usize];
        *rec = SrqRec {
            func,
            made: Made::of(cmd),
            limit_tag: rec.limit_tag,
            reached_tag: rec.reached_tag,
            generation: rec.generation,
            ..SrqRec::new()
        };
        self.write_srqc(hal, srqn, false);
        Ok(srqn)
    }

    /// What peers name an SRQ of XRC: whoever has its line later is named otherwise, so that nobody's packets, or late
    /// completions, are taken for another's.
    pub(crate) fn srq_number(&self, srqn: u32) -> u32 {
        self.srqs[srqn as usize].generation << SRQ_LINE_BITS | srqn
    }

    /// Writes the hardware's context from the record. `keep`: indices stay.
    fn write_srqc<B: Bus>(&self, hal: &mut Hal<B>, srqn: u32, keep: bool) {
        let rec = &self.srqs[srqn as usize];
        let mut c = Srqc::new();
        c.set_valid(true);
        c.set_keep(keep);
        c.set_func(rec.func);
        c.set_log_size(log_list_size(rec.made.slots.log_size));
        c.set_limit_tag(rec.limit_tag);
        c.set_limit(rec.limit);
        c.set_base(rec.made.list_base);
        // Whoever names one that has failed learns that it is not there.
        c.set_is_xrc(rec.made.is_xrc && !rec.has_failed);
        c.set_slots(rec.made.slots.base);
        c.set_slots_log_size(rec.made.slots.log_size);
        c.set_slots_log_stride(rec.made.slots.log_stride);
        c.set_pd(rec.made.pd);
        c.set_cqn(rec.made.cqn);
        c.set_xrcd(rec.made.xrcd);
        c.set_number(self.srq_number(srqn));
        hal.ctx_write(CtxTable::Srqc, srqn, c.as_bytes());
    }

    /// SPEC-6: arms a limit, or takes it away.
    pub(crate) fn modify_srq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &ModifySrqCmd) -> CmdResult {
        let i = self.own_srq(func, cmd.srqn())?;
        let rec = &mut self.srqs[i];
        require(cmd.limit() <= 1 << rec.made.slots.log_size, cmd.limit())?;
        if rec.has_failed {
            return Err((AdminStatus::BadState, cmd.srqn()));
        }
        rec.limit = cmd.limit();
        rec.limit_tag = rec.limit_tag.wrapping_add(1);
        if rec.limit_tag == rec.reached_tag {
            rec.limit_tag = rec.limit_tag.wrapping_add(1);
        }
        self.write_srqc(hal, cmd.srqn(), true);
        Ok(())
    }

    pub(crate) fn query_srq(&self, func: u8, srqn: u32) -> CmdResult<QuerySrqResult> {
        let rec = &self.srqs[self.own_srq(func, srqn)?];
        let slot_bytes = MIN_WQE_STRIDE_BYTES << rec.made.slots.log_stride;
        let mut out = QuerySrqResult::new();
        out.set_max_wr(1 << rec.made.slots.log_size);
        out.set_max_sge(((slot_bytes - RqWqeCtrl::BYTES as u32) / Sge::BYTES as u32).min(MAX_SGE));
        out.set_limit(rec.limit);
        Ok(out)
    }

    pub(crate) fn destroy_srq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, srqn: u32) -> CmdResult<Rest> {
        let i = self.own_srq(func, srqn)?;
        if self.srqs[i].qps != 0 {
            return Err((AdminStatus::InUse, srqn));
        }
        self.silence_srq(hal, srqn);
        // Lines of its list may be on their way.
        Ok(Rest::Fence(Fenced::FreeSrq(srqn)))
    }

    /// Nothing is read for it any more.
    pub(crate) fn silence_srq<B: Bus>(&mut self, hal: &mut Hal<B>, srqn: u32) {
        hal.ctx_write(CtxTable::Srqc, srqn, Srqc::new().as_bytes());
        self.srqs[srqn as usize].limit = 0;
    }

    /// A silenced SRQ is gone, after a fence.
    pub(crate) fn free_srq(&mut self, srqn: u32) {
        let rec = &mut self.srqs[srqn as usize];
        let made = rec.made;
        let users = &mut self.pds[made.pd as usize];
        *users = users.saturating_sub(1);
        self.eqs[made.async_eqn as usize].users -= 1;
        if made.is_xrc {
            rec.generation = (rec.generation + 1) & MAX_GENERATION;
            self.xrcds[made.xrcd as usize] -= 1;
            self.cqs[made.cqn as usize].qps -= 1;
        }
        self.srq_ids.free(srqn);
    }

    /// The slots of the SRQ that a QP is to be made with, if with one (MEM-1: of its PD).
    #[inline(never)]
    pub(crate) fn slots_of_new_qp(&self, func: u8, cmd: &CreateQpCmd) -> CmdResult<Ring> {
        let srq = &self.srqs[self.own_srq(func, cmd.srqn())?];
        require(srq.made.pd == cmd.pd() && !srq.made.is_xrc, cmd.srqn())?;
        if srq.has_failed {
            return Err((AdminStatus::BadState, cmd.srqn()));
        }
        Ok(srq.made.slots)
    }

    /// SPEC-6: told once.
    pub(crate) fn srq_limit_reached<B: Bus>(&mut self, hal: &mut Hal<B>, srqn: u32, tag: u32) {
        if !self.srq_ids.contains(srqn) {
            return;
        }
        let rec = &mut self.srqs[srqn as usize];
        rec.reached_tag = tag as u8;
        // Another limit was armed meanwhile: that one counts.
        if rec.limit != 0 && u32::from(rec.limit_tag) == tag {
            rec.limit = 0;
            self.post_srq_event(hal, srqn, EventKind::SrqLimitReached);
        }
    }

    /// SPEC-7: nothing can be taken from it. Its QPs fail in turns of its function.
    pub(crate) fn fail_srq<B: Bus>(&mut self, hal: &mut Hal<B>, srqn: u32) {
        if !self.srq_ids.contains(srqn) || self.srqs[srqn as usize].has_failed {
            return;
        }
        let rec = &mut self.srqs[srqn as usize];
        rec.has_failed = true;
        let func = rec.func;
        self.post_srq_event(hal, srqn, EventKind::SrqErr);
        if self.srqs[srqn as usize].made.is_xrc {
            self.write_srqc(hal, srqn, true);
        } else {
            self.fail_qps_of_failed(func);
        }
    }

    /// The CQ of SRQs of XRC has failed.
    pub(crate) fn fail_srqs_of_cq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cqn: u32) {
        for srqn in self.srq_ids.of(func) {
            let made = &self.srqs[srqn as usize].made;
            if self.srq_ids.contains(srqn) && made.is_xrc && made.cqn == cqn {
                self.fail_srq(hal, srqn);
            }
        }
    }

    fn post_srq_event<B: Bus>(&mut self, hal: &mut Hal<B>, srqn: u32, kind: EventKind) {
        let eqn = self.srqs[srqn as usize].made.async_eqn;
        hal.post_eqe(eqn, kind.into(), srqn, 0);
    }

    /// The SRQ of a QP.
    pub(crate) fn srq_of(&self, line: u32) -> Option<u32> {
        let made = &self.qps[line as usize].made;
        made.has_srq().then(|| made.srqn())
    }

    /// SPEC-8: a QP has gone to ERR.
    pub(crate) fn owe_last_wqe(&mut self, line: u32) {
        if self.srq_of(line).is_some() {
            self.qps[line as usize].last_wqe = LastWqe::Owed;
            self.last_wqes.any_owed = true;
        }
    }

    /// Whatever of a QP in ERR was under way has its completion behind a fence: then LAST_WQE_REACHED. False: nothing
    /// to do, or the fence is not over.
    #[inline(never)]
    pub(crate) fn tell_last_wqes<B: Bus>(&mut self, hal: &mut Hal<B>) -> bool {
        if let Some(mut line) = self.last_wqes.telling_from {
            let end = self.qps.len() as u32;
            while line < end && !hal.is_over() {
                let rec = &mut self.qps[line as usize];
                if rec.last_wqe == LastWqe::Fenced {
                    rec.last_wqe = LastWqe::No;
                    self.post_qp_event(hal, line, EventKind::QpLastWqeReached, 0);
                }
                line += 1;
            }
            self.last_wqes.telling_from = (line < end).then_some(line);
            return true;
        }
        if self.last_wqes.is_fencing {
            let is_over = hal.is_fence_over();
            if is_over {
                self.last_wqes.is_fencing = false;
                self.last_wqes.telling_from = Some(0);
            }
            return is_over;
        }
        if !core::mem::take(&mut self.last_wqes.any_owed) {
            return false;
        }
        for rec in self.qps.iter_mut().filter(|rec| rec.last_wqe == LastWqe::Owed) {
            rec.last_wqe = LastWqe::Fenced;
        }
        hal.start_fence();
        self.last_wqes.is_fencing = true;
        true
    }
}
