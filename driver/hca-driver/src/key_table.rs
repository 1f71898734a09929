//! The key table of a function: rows of memory keys in host memory, of which the card reads what it needs. It grows
//! with the keys; a row that is given back rests until all that were never used, or have rested longer, are taken.

use std::collections::VecDeque;

use hca_abi::{AdminOpcode, AdminStatus, MAX_LOG_KEYS, Mpt, RegMrCmd, RegMrResult, SetKeyTableCmd};
use hca_dev::{Device, DmaBuf};

use crate::DevicePtr;
use crate::error::{AdminError, DriverError};
use crate::function::Function;

/// log2 of the rows of a function's first table: 64 KiB.
const FIRST_LOG_SIZE: u8 = 10;

/// Where a function's keys are, and which rows are free.
#[derive(Default)]
pub(crate) struct KeyTable {
    buf: Option<DmaBuf>,
    log_size: u8,
    /// The first row that was never used; 0 is none.
    fresh: u32,
    /// Rows that were given back, the first one longest ago.
    resting: VecDeque<u32>,
}

impl KeyTable {
    /// A row for a new key; none: the table has to grow.
    fn take(&mut self) -> Option<u32> {
        self.buf.as_ref()?;
        if self.fresh >> self.log_size == 0 {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.resting.pop_front()
    }

    /// Its memory, to be released; it is as new then.
    pub(crate) fn end(&mut self) -> Option<DmaBuf> {
        std::mem::take(self).buf
    }
}

impl<P: DevicePtr> Function<P> {
    /// REG_MR: L_Key and R_Key, in a row that is chosen here.
    pub fn reg_mr(&mut self, cmd: &RegMrCmd) -> Result<RegMrResult, DriverError> {
        let row = match self.keys.take() {
            Some(row) => row,
            None => self.grow()?,
        };
        let mut cmd = *cmd;
        cmd.set_row(row);
        let made = self.issue_reg_mr(&cmd);
        if made.is_err() {
            self.keys.resting.push_front(row);
        }
        made
    }

    /// DEREG_MR. When it returns, the card no longer touches the memory.
    pub fn dereg_mr(&mut self, lkey: u32) -> Result<(), DriverError> {
        self.issue_dereg_mr(lkey)?;
        self.keys
            .resting
            .push_back((lkey >> 8) & ((1 << MAX_LOG_KEYS) - 1));
        Ok(())
    }

    /// A row of a table twice as large, in which the keys of now have their places.
    fn grow(&mut self) -> Result<u32, DriverError> {
        let log_size = match self.keys.buf {
            None => FIRST_LOG_SIZE,
            Some(_) => self.keys.log_size + 1,
        };
        if u32::from(log_size) > MAX_LOG_KEYS {
            return Err(AdminError {
                opcode: AdminOpcode::RegMr,
                status: AdminStatus::NoResources,
                detail: (1 << MAX_LOG_KEYS) - 1,
            }
            .into());
        }
        let buf = self.device().alloc_dma(Mpt::BYTES << log_size)?;
        if let Some(old) = &self.keys.buf {
            let mut row = [0; Mpt::BYTES];
            for at in (0..Mpt::BYTES << self.keys.log_size).step_by(Mpt::BYTES) {
                old.read_bytes(at, &mut row);
                buf.write_bytes(at, &row);
            }
        }
        let mut cmd = SetKeyTableCmd::new();
        cmd.set_base(buf.iova());
        cmd.set_log_size(log_size);
        if let Err(error) = self.set_key_table(&cmd) {
            self.device().free_dma(buf)?;
            return Err(error);
        }
        let before = self.keys.buf.replace(buf);
        let first = if before.is_some() {
            1 << self.keys.log_size
        } else {
            1
        };
        (self.keys.log_size, self.keys.fresh) = (log_size, first + 1);
        if let Some(old) = before {
            self.device().free_dma(old)?;
        }
        Ok(first)
    }
}
