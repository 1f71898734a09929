//! The admin queue, read from outside: commands when their doorbell rings, and whether they succeeded.

use std::collections::VecDeque;
use std::ops::Range;

use hca_abi::{AdminCmd, AdminCpl, AdminStatus, MAX_LOG_ADMIN_SIZE};
use hca_regs as reg;

/// Where the words of a completion end: its last line is the one that makes it valid.
const LAST_LINE: u64 = 192;

/// A command that the card has done.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub opcode: u8,
    pub command: [u8; 248],
    pub completion: [u8; 244],
}

/// Both rings.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminTap {
    sq_base: u64,
    cq_base: u64,
    log_size: u8,
    next: u16,
    /// Opcode, id and body.
    pending: VecDeque<(u8, u16, [u8; 248])>,
}

fn set_half(word: &mut u64, is_high: bool, value: u32) {
    let shift = if is_high { 32 } else { 0 };
    *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
}

impl AdminTap {
    fn entries(&self) -> u16 {
        1 << u16::from(self.log_size)
    }

    /// A register of four bytes.
    pub fn register(&mut self, offset: u32, value: u32) {
        match offset {
            reg::FUNC_ADMIN_SQ_BASE_LO => set_half(&mut self.sq_base, false, value),
            reg::FUNC_ADMIN_SQ_BASE_HI => set_half(&mut self.sq_base, true, value),
            reg::FUNC_ADMIN_CQ_BASE_LO => set_half(&mut self.cq_base, false, value),
            reg::FUNC_ADMIN_CQ_BASE_HI => set_half(&mut self.cq_base, true, value),
            reg::FUNC_ADMIN_LOG_SIZE => {
                let log = reg::field(value, reg::FUNC_ADMIN_LOG_SIZE_VALUE_MASK);
                self.log_size = log.min(MAX_LOG_ADMIN_SIZE) as u8;
            }
            _ => {}
        }
    }

    /// The function starts anew.
    pub fn reset(&mut self) {
        self.next = 0;
        self.pending.clear();
    }

    pub fn doorbell(&mut self, producer: u16, read: impl Fn(u64, &mut [u8]) -> bool) {
        let count = producer.wrapping_sub(self.next);
        if count > self.entries() {
            return;
        }
        for _ in 0..count {
            let at = u64::from(self.next % self.entries()) * AdminCmd::BYTES as u64;
            let mut cmd = AdminCmd::new();
            if read(self.sq_base.wrapping_add(at), &mut cmd.0) {
                if self.pending.len() == usize::from(self.entries()) {
                    self.pending.pop_front();
                }
                self.pending
                    .push_back((cmd.opcode(), cmd.command_id(), cmd.body()));
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    fn completions(&self) -> Range<u64> {
        let len = u64::from(self.entries()) * AdminCpl::BYTES as u64;
        self.cq_base..self.cq_base.saturating_add(len)
    }

    /// The card has written a line: the command that it completes with success, if it does.
    pub fn written(&mut self, addr: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Done> {
        let offset = addr.wrapping_sub(self.cq_base);
        if !self.completions().contains(&addr) || offset % AdminCpl::BYTES as u64 != LAST_LINE {
            return None;
        }
        let mut cpl = AdminCpl::new();
        if !read(addr - LAST_LINE, &mut cpl.0) {
            return None;
        }
        let at = self
            .pending
            .iter()
            .position(|(_, id, _)| *id == cpl.command_id())?;
        let (opcode, _, command) = self.pending.remove(at)?;
        (cpl.status() == u8::from(AdminStatus::Ok)).then(|| Done {
            opcode,
            command,
            completion: cpl.body(),
        })
    }
}
