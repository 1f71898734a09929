//! Keys of a function: memory regions and windows.

use hca_abi::{
    AdminOpcode, AdminStatus, AllocMwCmd, MAX_LOG_KEYS, ModifyMrCmd, Mpt, RegMrCmd, RegMrResult,
    SetKeyTableCmd,
};
use hca_dev::{Device, DmaBuf};
use hca_room::NoRoom;

use crate::base::device::DevicePtr;
use crate::base::error::{AdminError, DriverError};
use crate::function::bring_up::Function;
use crate::function::key_table::{FIRST_LOG_SIZE, row_of};

impl<P: DevicePtr> Function<P> {
    /// REG_MR: L_Key and R_Key, in a row that is chosen here.
    pub fn reg_mr(&mut self, cmd: &RegMrCmd) -> Result<RegMrResult, DriverError> {
        let row = self.take_row()?;
        let mut cmd = *cmd;
        cmd.set_row(row);
        let made = self.issue_reg_mr(&cmd);
        if made.is_err() {
            self.keys.resting.push_front(row);
        }
        made
    }

    fn take_row(&mut self) -> Result<u32, DriverError> {
        match self.keys.take() {
            Some(row) => Ok(row),
            None => self.grow(),
        }
    }

    /// DEREG_MR; refused while windows are bound to it (MEM-15). When it returns, the card no longer touches the
    /// memory.
    pub fn dereg_mr(&mut self, lkey: u32) -> Result<(), DriverError> {
        self.require_unbound(AdminOpcode::DeregMr, lkey)?;
        self.issue_dereg_mr(lkey)?;
        // A bind that was under way meanwhile may have found the region there; behind the fence none does any more.
        for row in self.keys.bound_to(lkey) {
            let mpt = self.keys.row(row);
            let rkey = lkey >> (8 + MAX_LOG_KEYS) << (8 + MAX_LOG_KEYS) | row << 8;
            self.issue_dealloc_mw(rkey)?;
            self.issue_alloc_mw(&alloc_cmd(mpt.pd(), mpt.is_type_2(), row))?;
        }
        self.keys.resting.push_back(row_of(lkey));
        Ok(())
    }

    /// REG_MR of a key for fast registration: the first one of its row. It is free.
    pub fn alloc_fast_mr(&mut self, cmd: &RegMrCmd) -> Result<u32, DriverError> {
        let mut cmd = *cmd;
        cmd.set_is_fast(true);
        let key = self.reg_mr(&cmd)?.lkey();
        self.keys.written.insert(row_of(key));
        Ok(key)
    }

    /// DEREG_MR of such a key, by any of its row, registered or free. When it returns, the card no longer touches the
    /// memory, nor the page list.
    pub fn dealloc_fast_mr(&mut self, key: u32) -> Result<(), DriverError> {
        self.issue_dereg_mr(key)?;
        let row = row_of(key);
        // A work request that was under way has been written behind the command, and before its fence was over.
        if self.keys.row(row).is_fast() {
            self.issue_dereg_mr(key)?;
        }
        self.keys.written.remove(&row);
        self.keys.resting.push_back(row);
        Ok(())
    }

    /// Where the page list is of the region that a key for fast registration is of; none: it is free.
    pub fn fast_mr_list(&self, key: u32) -> Option<u64> {
        let mpt = self.keys.row(row_of(key));
        mpt.valid().then(|| mpt.iova())
    }

    /// MODIFY_MR: the keys stay; refused while windows are bound to it. When it returns, the old rights no longer hold.
    pub fn modify_mr(&mut self, cmd: &ModifyMrCmd) -> Result<(), DriverError> {
        self.require_unbound(AdminOpcode::ModifyMr, cmd.lkey())?;
        self.issue_modify_mr(cmd)
    }

    fn require_unbound(&self, opcode: AdminOpcode, lkey: u32) -> Result<(), DriverError> {
        match self.keys.bound_to(lkey).first() {
            None => Ok(()),
            Some(row) => Err(AdminError {
                opcode,
                status: AdminStatus::InUse,
                detail: *row,
            }
            .into()),
        }
    }

    /// ALLOC_MW: the window's first R_Key. It is not bound (V-135).
    pub fn alloc_mw(&mut self, pd: u32, is_type_2: bool) -> Result<u32, DriverError> {
        let row = self.take_row()?;
        let made = self.issue_alloc_mw(&alloc_cmd(pd, is_type_2, row));
        if made.is_err() {
            self.keys.resting.push_front(row);
        } else {
            self.keys.written.insert(row);
        }
        made
    }

    /// DEALLOC_MW, bound or not (V-138). When it returns, nobody uses memory through it.
    pub fn dealloc_mw(&mut self, rkey: u32) -> Result<(), DriverError> {
        self.issue_dealloc_mw(rkey)?;
        let row = row_of(rkey);
        // A bind that was under way has been written behind the command, and before its fence was over.
        if self.keys.row(row).is_window() {
            self.issue_dealloc_mw(rkey)?;
        }
        self.keys.written.remove(&row);
        self.keys.resting.push_back(row);
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
        // All rows may rest at once, and giving one back never fails for want of memory.
        let resting = &mut self.keys.resting;
        let more = (1usize << log_size).saturating_sub(resting.len());
        let len_bytes = more * size_of::<u32>();
        resting
            .try_reserve_exact(more)
            .map_err(|_| NoRoom { len_bytes })?;
        let mut copied = Vec::new();
        hca_room::reserve(&mut copied, self.keys.written.len())?;
        hca_room::require()?;
        copied.extend(self.keys.written.iter().map(|row| self.keys.row(*row)));
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
        if self.copy_late(&buf, &copied) {
            self.set_key_table(&cmd)?;
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

    /// Keys that were bound, registered or invalidated while the table was copied: behind the fence of SET_KEY_TABLE
    /// the card writes to the old one no more. `copied`: what they were before. True: there were some.
    fn copy_late(&self, new: &DmaBuf, copied: &[Mpt]) -> bool {
        let mut has_late = false;
        for (row, before) in self.keys.written.iter().zip(copied) {
            let (at, old, mut now) = (*row as usize * Mpt::BYTES, self.keys.row(*row), Mpt::new());
            new.read_bytes(at, &mut now.0);
            // What has become of it in the new table since then is newer still.
            if old.0 != before.0 && (now.0 == before.0 || now.0 == old.0) {
                new.write_bytes(at, old.as_bytes());
                has_late = true;
            }
        }
        has_late
    }
}

fn alloc_cmd(pd: u32, is_type_2: bool, row: u32) -> AllocMwCmd {
    let mut cmd = AllocMwCmd::new();
    cmd.set_pd(pd);
    cmd.set_is_type_2(is_type_2);
    cmd.set_row(row);
    cmd
}
