//! One method per admin command.

use hca_abi::{
    AdminCpl, AdminOpcode, AllocMwCmd, CreateCqCmd, CreateEqCmd, CreateQpCmd, CreateRssCmd, CreateRuleCmd,
    CreateSrqCmd, HandleCmd, HandleResult, McastCmd, ModifyCqCmd, ModifyMrCmd, ModifyPortCmd, ModifyQpCmd,
    ModifySrqCmd, QueryCountersResult, QueryDeviceResult, QueryEntryCmd, QueryGidResult, QueryMrResult,
    QueryNodeDescResult, QueryPkeyResult, QueryPortCmd, QueryPortResult, QueryQpResult, QueryRuleResult,
    QuerySrqResult, RegMrCmd, RegMrResult, ResizeCqCmd, ResolveGidCmd, ResolveGidResult, SetContextMemoryCmd,
    SetGidCmd, SetKeyTableCmd, SetNodeDescCmd, SetPkeyCmd,
};

use hca_dev::Device;

use crate::base::device::DevicePtr;
use crate::base::error::DriverError;
use crate::function::bring_up::Function;

impl<P: DevicePtr> Function<P> {
    pub(crate) fn make(&mut self, opcode: AdminOpcode, body: &[u8]) -> Result<u32, DriverError> {
        let mut result = HandleResult::new();
        result.0.copy_from_slice(&self.admin.issue(opcode, body)?);
        Ok(result.handle())
    }

    pub(crate) fn on_handle(&mut self, opcode: AdminOpcode, handle: u32) -> Result<[u8; 244], DriverError> {
        let mut cmd = HandleCmd::new();
        cmd.set_handle(handle);
        self.admin.issue(opcode, cmd.as_bytes())
    }

    /// Sends any bytes as a command, known or not, and returns the completion as it came: for tests and
    /// tools.
    pub fn issue_raw(&mut self, opcode: u8, body: &[u8]) -> Result<AdminCpl, DriverError> {
        self.admin.issue_raw(opcode, body)
    }

    /// NOP.
    pub fn nop(&mut self) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::Nop, &[]).map(drop)
    }

    /// QUERY_DEVICE.
    pub fn query_device(&mut self) -> Result<QueryDeviceResult, DriverError> {
        Ok(QueryDeviceResult(
            self.admin.issue(AdminOpcode::QueryDevice, &[])?,
        ))
    }

    /// QUERY_PORT; ports count from 1.
    pub fn query_port(&mut self, port_num: u8) -> Result<QueryPortResult, DriverError> {
        let mut cmd = QueryPortCmd::new();
        cmd.set_port_num(port_num);
        Ok(QueryPortResult(
            self.admin.issue(AdminOpcode::QueryPort, cmd.as_bytes())?,
        ))
    }

    /// QUERY_COUNTERS; ports count from 1.
    pub fn query_counters(&mut self, port_num: u8) -> Result<QueryCountersResult, DriverError> {
        let mut cmd = QueryPortCmd::new();
        cmd.set_port_num(port_num);
        Ok(QueryCountersResult(
            self.admin.issue(AdminOpcode::QueryCounters, cmd.as_bytes())?,
        ))
    }

    /// MODIFY_PORT.
    pub fn modify_port(&mut self, cmd: &ModifyPortCmd) -> Result<(), DriverError> {
        self.admin
            .issue(AdminOpcode::ModifyPort, cmd.as_bytes())
            .map(drop)
    }

    fn entry(port_num: u8, index: u16) -> QueryEntryCmd {
        let mut cmd = QueryEntryCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_index(index);
        cmd
    }

    /// QUERY_GID: entry `index` of the port's table, bytes as on the wire.
    pub fn query_gid(&mut self, port_num: u8, index: u16) -> Result<[u8; 16], DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryGid, Self::entry(port_num, index).as_bytes())?;
        Ok(QueryGidResult(body).gid())
    }

    /// RESOLVE_GID: MAC address behind a GID on the network of an Ethernet port.
    pub fn resolve_gid(&mut self, port_num: u8, gid: [u8; 16]) -> Result<[u8; 6], DriverError> {
        let mut cmd = ResolveGidCmd::new();
        cmd.set_port_num(port_num);
        cmd.set_gid(gid);
        let body = self.admin.issue(AdminOpcode::ResolveGid, cmd.as_bytes())?;
        Ok(ResolveGidResult(body).mac())
    }

    /// QUERY_PKEY: entry `index` of the port's table.
    pub fn query_pkey(&mut self, port_num: u8, index: u16) -> Result<u16, DriverError> {
        let body = self
            .admin
            .issue(AdminOpcode::QueryPkey, Self::entry(port_num, index).as_bytes())?;
        Ok(QueryPkeyResult(body).pkey())
    }

    /// SET_GID; all zero clears the entry.
    pub fn set_gid(&mut self, cmd: &SetGidCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::SetGid, cmd.as_bytes()).map(drop)
    }

    /// SET_PKEY; low 15 bits zero clears the entry.
    pub fn set_pkey(&mut self, cmd: &SetPkeyCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::SetPkey, cmd.as_bytes()).map(drop)
    }

    /// SET_NODE_DESC: bytes of NodeDescription, zeros behind the text.
    pub fn set_node_desc(&mut self, text: [u8; 64]) -> Result<(), DriverError> {
        let mut cmd = SetNodeDescCmd::new();
        cmd.set_text(text);
        self.admin
            .issue(AdminOpcode::SetNodeDesc, cmd.as_bytes())
            .map(drop)
    }

    /// QUERY_NODE_DESC.
    pub fn query_node_desc(&mut self) -> Result<[u8; 64], DriverError> {
        let body = self.admin.issue(AdminOpcode::QueryNodeDesc, &[])?;
        Ok(QueryNodeDescResult(body).text())
    }

    /// ALLOC_PD.
    pub fn alloc_pd(&mut self) -> Result<u32, DriverError> {
        self.make(AdminOpcode::AllocPd, &[])
    }

    /// DEALLOC_PD; refused while anything uses it.
    pub fn dealloc_pd(&mut self, pd: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DeallocPd, pd).map(drop)
    }

    /// CREATE_EQ.
    pub fn create_eq(&mut self, cmd: &CreateEqCmd) -> Result<u8, DriverError> {
        let eqn = self.make(AdminOpcode::CreateEq, cmd.as_bytes())?;
        u8::try_from(eqn).map_err(|_| DriverError::BadAnswer {
            what: "CREATE_EQ",
            value: eqn,
        })
    }

    /// DESTROY_EQ; refused while CQs use it.
    pub fn destroy_eq(&mut self, eqn: u8) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroyEq, eqn.into()).map(drop)
    }

    /// CREATE_CQ.
    pub fn create_cq(&mut self, cmd: &CreateCqCmd) -> Result<u32, DriverError> {
        self.make(AdminOpcode::CreateCq, cmd.as_bytes())
    }

    /// RESIZE_CQ. When it returns, all CQEs for the old ring are there.
    pub fn resize_cq(&mut self, cmd: &ResizeCqCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::ResizeCq, cmd.as_bytes()).map(drop)
    }

    /// MODIFY_CQ: moderation.
    pub fn modify_cq(&mut self, cmd: &ModifyCqCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::ModifyCq, cmd.as_bytes()).map(drop)
    }

    /// DESTROY_CQ; refused while QPs use it.
    pub fn destroy_cq(&mut self, cqn: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroyCq, cqn).map(drop)
    }

    /// CREATE_QP.
    pub fn create_qp(&mut self, cmd: &CreateQpCmd) -> Result<u32, DriverError> {
        self.make(AdminOpcode::CreateQp, cmd.as_bytes())
    }

    /// MODIFY_QP: all of it or nothing (QPS-3).
    pub fn modify_qp(&mut self, cmd: &ModifyQpCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::ModifyQp, cmd.as_bytes()).map(drop)
    }

    /// QUERY_QP.
    pub fn query_qp(&mut self, qpn: u32) -> Result<QueryQpResult, DriverError> {
        Ok(QueryQpResult(self.on_handle(AdminOpcode::QueryQp, qpn)?))
    }

    /// DESTROY_QP, in any state (QPS-16).
    pub fn destroy_qp(&mut self, qpn: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroyQp, qpn).map(drop)
    }

    /// ATTACH_MCAST: a QP that is a member already stays one (MC-5).
    pub fn attach_mcast(&mut self, qpn: u32, mgid: [u8; 16]) -> Result<(), DriverError> {
        self.mcast(AdminOpcode::AttachMcast, qpn, mgid)
    }

    /// DETACH_MCAST; refused if the QP is no member.
    pub fn detach_mcast(&mut self, qpn: u32, mgid: [u8; 16]) -> Result<(), DriverError> {
        self.mcast(AdminOpcode::DetachMcast, qpn, mgid)
    }

    /// CREATE_RULE: its handle.
    pub fn create_rule(&mut self, cmd: &CreateRuleCmd) -> Result<u32, DriverError> {
        self.make(AdminOpcode::CreateRule, cmd.as_bytes())
    }

    /// DESTROY_RULE.
    pub fn destroy_rule(&mut self, handle: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroyRule, handle).map(drop)
    }

    /// QUERY_RULE: what it has had since it was made.
    pub fn query_rule(&mut self, handle: u32) -> Result<QueryRuleResult, DriverError> {
        Ok(QueryRuleResult(self.on_handle(AdminOpcode::QueryRule, handle)?))
    }

    /// CREATE_RSS: a target for rules.
    pub fn create_rss(&mut self, cmd: &CreateRssCmd) -> Result<u32, DriverError> {
        self.make(AdminOpcode::CreateRss, cmd.as_bytes())
    }

    /// DESTROY_RSS.
    pub fn destroy_rss(&mut self, handle: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroyRss, handle).map(drop)
    }

    fn mcast(&mut self, opcode: AdminOpcode, qpn: u32, mgid: [u8; 16]) -> Result<(), DriverError> {
        let mut cmd = McastCmd::new();
        cmd.set_qpn(qpn);
        cmd.set_mgid(mgid);
        self.admin.issue(opcode, cmd.as_bytes()).map(drop)
    }

    /// CREATE_SRQ: its SRQN, and of one of XRC what peers name it.
    pub fn create_srq(&mut self, cmd: &CreateSrqCmd) -> Result<(u32, u32), DriverError> {
        let result = HandleResult(self.admin.issue(AdminOpcode::CreateSrq, cmd.as_bytes())?);
        Ok((result.handle(), result.number()))
    }

    /// ALLOC_XRCD.
    pub fn alloc_xrcd(&mut self) -> Result<u32, DriverError> {
        self.make(AdminOpcode::AllocXrcd, &[])
    }

    /// DEALLOC_XRCD; refused while SRQs or targets are in it.
    pub fn dealloc_xrcd(&mut self, xrcd: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DeallocXrcd, xrcd).map(drop)
    }

    /// MODIFY_SRQ: arms a limit; 0: none.
    pub fn modify_srq(&mut self, srqn: u32, limit: u32) -> Result<(), DriverError> {
        let mut cmd = ModifySrqCmd::new();
        cmd.set_srqn(srqn);
        cmd.set_limit(limit);
        self.admin.issue(AdminOpcode::ModifySrq, cmd.as_bytes()).map(drop)
    }

    /// QUERY_SRQ.
    pub fn query_srq(&mut self, srqn: u32) -> Result<QuerySrqResult, DriverError> {
        Ok(QuerySrqResult(self.on_handle(AdminOpcode::QuerySrq, srqn)?))
    }

    /// DESTROY_SRQ; refused while QPs use it. When it returns, nothing of its memory is read any more.
    pub fn destroy_srq(&mut self, srqn: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DestroySrq, srqn).map(drop)
    }

    pub(crate) fn issue_modify_mr(&mut self, cmd: &ModifyMrCmd) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::ModifyMr, cmd.as_bytes()).map(drop)
    }

    pub(crate) fn set_context_memory(&mut self, cmd: &SetContextMemoryCmd) -> Result<(), DriverError> {
        self.admin
            .issue(AdminOpcode::SetContextMemory, cmd.as_bytes())
            .map(drop)
    }

    pub(crate) fn set_key_table(&mut self, cmd: &SetKeyTableCmd) -> Result<(), DriverError> {
        self.admin
            .issue(AdminOpcode::SetKeyTable, cmd.as_bytes())
            .map(drop)
    }

    pub(crate) fn issue_reg_mr(&mut self, cmd: &RegMrCmd) -> Result<RegMrResult, DriverError> {
        Ok(RegMrResult(self.admin.issue(AdminOpcode::RegMr, cmd.as_bytes())?))
    }

    pub(crate) fn issue_dereg_mr(&mut self, lkey: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DeregMr, lkey).map(drop)
    }

    pub(crate) fn issue_alloc_mw(&mut self, cmd: &AllocMwCmd) -> Result<u32, DriverError> {
        self.make(AdminOpcode::AllocMw, cmd.as_bytes())
    }

    pub(crate) fn issue_dealloc_mw(&mut self, rkey: u32) -> Result<(), DriverError> {
        self.on_handle(AdminOpcode::DeallocMw, rkey).map(drop)
    }

    /// QUERY_MR.
    pub fn query_mr(&mut self, lkey: u32) -> Result<QueryMrResult, DriverError> {
        Ok(QueryMrResult(self.on_handle(AdminOpcode::QueryMr, lkey)?))
    }

    /// RESET_FUNC: frees everything the function owns.
    pub fn reset_func(&mut self) -> Result<(), DriverError> {
        self.admin.issue(AdminOpcode::ResetFunc, &[])?;
        match self.keys.end() {
            Some(table) => Ok(self.device().free_dma(table)?),
            None => Ok(()),
        }
    }
}
