//! XRC domains, and what QPs of XRC are made of (SPEC-3). An initiator sends and receives nothing. A target receives
//! into whatever XRC SRQ of its domain a peer names; it has neither PD, CQs nor rings. Domains belong to one function.

use crate::objects::require;
use crate::{CmdResult, Control};
use hca_abi::{AdminStatus, CreateQpCmd, Service};

impl Control {
    /// Is `xrcd` a domain of `func`?
    pub(crate) fn own_xrcd(&self, func: u8, xrcd: u32) -> CmdResult<usize> {
        self.xrcd_ids.own(func, xrcd)
    }

    /// V-83.
    pub(crate) fn alloc_xrcd(&mut self, func: u8) -> CmdResult<u32> {
        let limit = self.xrcd_ids.limit(func);
        let xrcd = self
            .xrcd_ids
            .alloc(func)
            .ok_or((AdminStatus::NoResources, limit))?;
        self.xrcds[xrcd as usize] = 0;
        Ok(xrcd)
    }

    /// V-84: not while SRQs or targets are in it.
    pub(crate) fn dealloc_xrcd(&mut self, func: u8, xrcd: u32) -> CmdResult {
        let i = self.own_xrcd(func, xrcd)?;
        if self.xrcds[i] != 0 {
            return Err((AdminStatus::InUse, xrcd));
        }
        self.xrcd_ids.free(xrcd);
        Ok(())
    }

    /// May a QP be of XRC as the command says? What its kind does not have is not looked at.
    #[inline(never)]
    pub(crate) fn check_xrc(&self, func: u8, cmd: &CreateQpCmd) -> CmdResult {
        let is_xrc = cmd.service() == u8::from(Service::Xrc);
        require(is_xrc || !cmd.is_target(), u32::from(cmd.service()))?;
        require(!is_xrc || !cmd.has_srq(), cmd.srqn())?;
        if cmd.is_target() {
            self.own_xrcd(func, cmd.xrcd())?;
        }
        Ok(())
    }
}
