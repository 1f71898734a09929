//! Records of the objects firmware has made, and the commands for protection domains, EQs and CQs.

use crate::hal::Hal;
use crate::turns::{Fenced, Rest};
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    AdminStatus, Cqc, CreateCqCmd, CreateEqCmd, CtxTable, Eqc, MAX_LOG_CQ_SIZE, MAX_LOG_EQ_SIZE, ModifyCqCmd,
    ResizeCqCmd,
};

/// An event queue.
#[derive(Clone, Copy)]
pub(crate) struct EqRec {
    /// CQs, and QPs and SRQs whose asynchronous events go here.
    pub users: u16,
    /// So do those of ports.
    pub port_events: bool,
}

/// A completion queue.
#[derive(Clone, Copy)]
pub(crate) struct CqRec {
    pub eqn: u8,
    pub log_size: u8,
    pub qps: u16,
    /// Hardware gave it up: its QPs must fail.
    pub has_failed: bool,
    pub ignore_overrun: bool,
}

impl EqRec {
    pub const fn new() -> Self {
        Self {
            users: 0,
            port_events: false,
        }
    }
}

impl CqRec {
    pub const fn new() -> Self {
        Self {
            eqn: 0,
            log_size: 0,
            qps: 0,
            has_failed: false,
            ignore_overrun: false,
        }
    }
}

/// Bits that a row has for the cycles of a moderated event.
const MOD_CYCLES_BITS: u32 = 24;

/// Cycles in a microsecond, rounded up.
fn cycles_per_us(clock_khz: u32) -> u32 {
    clock_khz.div_ceil(1000).max(1)
}

/// V-31: for so long an event can wait for further completions.
pub(crate) fn max_cq_period_us(clock_khz: u32) -> u16 {
    let most = ((1 << MOD_CYCLES_BITS) - 1) / cycles_per_us(clock_khz);
    u16::try_from(most).unwrap_or(u16::MAX)
}

/// Refuses with `BadParam` about `what` unless `ok`.
pub(crate) fn require(ok: bool, what: u32) -> CmdResult {
    if ok {
        Ok(())
    } else {
        Err((AdminStatus::BadParam, what))
    }
}

/// Refuses with `BadLength` about `what` unless `ok`.
pub(crate) fn require_size(ok: bool, what: u32) -> CmdResult {
    if ok {
        Ok(())
    } else {
        Err((AdminStatus::BadLength, what))
    }
}

impl Control {
    /// Is `pd` a protection domain of `func`?
    #[inline(always)]
    pub(crate) fn own_pd(&self, func: u8, pd: u32) -> CmdResult<usize> {
        self.pd_ids.own(func, pd)
    }

    #[inline(always)]
    pub(crate) fn own_eq(&self, func: u8, eqn: u32) -> CmdResult<usize> {
        self.eq_ids.own(func, eqn)
    }

    #[inline(always)]
    pub(crate) fn own_cq(&self, func: u8, cqn: u32) -> CmdResult<usize> {
        self.cq_ids.own(func, cqn)
    }

    pub(crate) fn alloc_pd(&mut self, func: u8) -> CmdResult<u32> {
        let limit = self.pd_ids.limit(func);
        let pd = self.pd_ids.alloc(func).ok_or((AdminStatus::NoResources, limit))?;
        self.pds[pd as usize] = 0;
        Ok(pd)
    }

    pub(crate) fn dealloc_pd(&mut self, func: u8, pd: u32) -> CmdResult {
        let i = self.own_pd(func, pd)?;
        if self.pds[i] != 0 {
            return Err((AdminStatus::InUse, pd));
        }
        self.pd_ids.free(pd);
        Ok(())
    }

    pub(crate) fn create_eq<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateEqCmd,
    ) -> CmdResult<u32> {
        require_size(
            u32::from(cmd.log_size()) <= MAX_LOG_EQ_SIZE,
            u32::from(cmd.log_size()),
        )?;
        require(cmd.base().is_multiple_of(64), 0)?;
        require(cmd.vector() < hal.vectors(func), cmd.vector().into())?;
        hal.probe_ring(func, cmd.base(), 64 << cmd.log_size())?;
        let limit = self.eq_ids.limit(func);
        let eqn = self.eq_ids.alloc(func).ok_or((AdminStatus::NoResources, limit))?;
        self.eqs[eqn as usize] = EqRec {
            users: 0,
            port_events: cmd.port_events(),
        };
        let mut eqc = Eqc::new();
        eqc.set_valid(true);
        eqc.set_func(func);
        eqc.set_log_size(cmd.log_size());
        eqc.set_vector(cmd.vector());
        eqc.set_base(cmd.base());
        hal.ctx_write(CtxTable::Eqc, eqn, eqc.as_bytes());
        Ok(eqn)
    }

    pub(crate) fn destroy_eq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, eqn: u32) -> CmdResult {
        let i = self.own_eq(func, eqn)?;
        if self.eqs[i].users != 0 {
            return Err((AdminStatus::InUse, eqn));
        }
        hal.ctx_write(CtxTable::Eqc, eqn, Eqc::new().as_bytes());
        self.eq_ids.free(eqn);
        Ok(())
    }

    pub(crate) fn create_cq<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &CreateCqCmd,
    ) -> CmdResult<u32> {
        require_size(
            u32::from(cmd.log_size()) <= MAX_LOG_CQ_SIZE,
            u32::from(cmd.log_size()),
        )?;
        require(cmd.base().is_multiple_of(64), 0)?;
        let eq = self.own_eq(func, u32::from(cmd.eqn()))?;
        hal.probe_ring(func, cmd.base(), 64 << cmd.log_size())?;
        let limit = self.cq_ids.limit(func);
        let cqn = self.cq_ids.alloc(func).ok_or((AdminStatus::NoResources, limit))?;
        self.cqs[cqn as usize] = CqRec {
            eqn: cmd.eqn(),
            log_size: cmd.log_size(),
            ignore_overrun: cmd.ignore_overrun(),
            ..CqRec::new()
        };
        self.eqs[eq].users += 1;
        let mut cqc = Cqc::new();
        cqc.set_valid(true);
        cqc.set_func(func);
        cqc.set_log_size(cmd.log_size());
        cqc.set_eqn(cmd.eqn());
        cqc.set_ignore_overrun(cmd.ignore_overrun());
        cqc.set_base(cmd.base());
        hal.ctx_write(CtxTable::Cqc, cqn, cqc.as_bytes());
        Ok(cqn)
    }

    /// V-63: another ring for a queue at work. Whatever the card had for the old one is there after the fence.
    pub(crate) fn resize_cq<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        cmd: &ResizeCqCmd,
    ) -> CmdResult<Rest> {
        let i = self.own_cq(func, cmd.cqn())?;
        let cq = &mut self.cqs[i];
        let log_size = u32::from(cmd.log_size());
        let fits = (u32::from(cq.log_size)..=MAX_LOG_CQ_SIZE).contains(&log_size);
        require_size(fits, log_size)?;
        require(cmd.base().is_multiple_of(64), 0)?;
        hal.probe_ring(func, cmd.base(), 64 << log_size)?;
        cq.log_size = cmd.log_size();
        let mut cqc = Cqc::new();
        cqc.set_valid(true);
        cqc.set_keep(true);
        cqc.set_func(func);
        cqc.set_log_size(cmd.log_size());
        cqc.set_eqn(cq.eqn);
        cqc.set_ignore_overrun(cq.ignore_overrun);
        cqc.set_base(cmd.base());
        hal.ctx_write(CtxTable::Cqc, cmd.cqn(), cqc.as_bytes());
        Ok(Rest::Fence(Fenced::Nothing))
    }

    /// V-64. An event that waits already comes by what it began to wait with.
    pub(crate) fn modify_cq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &ModifyCqCmd) -> CmdResult {
        self.own_cq(func, cmd.cqn())?;
        let clock_khz = hal.clock_khz();
        let period_us = cmd.period_us();
        require_size(period_us <= max_cq_period_us(clock_khz), period_us.into())?;
        let mut cqc = Cqc::new();
        cqc.set_valid(true);
        cqc.set_moderate(true);
        cqc.set_mod_count(cmd.count());
        cqc.set_mod_cycles(u32::from(period_us) * cycles_per_us(clock_khz));
        hal.ctx_write(CtxTable::Cqc, cmd.cqn(), cqc.as_bytes());
        Ok(())
    }

    pub(crate) fn destroy_cq<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cqn: u32) -> CmdResult {
        let i = self.own_cq(func, cqn)?;
        if self.cqs[i].qps != 0 {
            return Err((AdminStatus::InUse, cqn));
        }
        hal.ctx_write(CtxTable::Cqc, cqn, Cqc::new().as_bytes());
        self.eqs[self.cqs[i].eqn as usize].users -= 1;
        self.cq_ids.free(cqn);
        Ok(())
    }
}
