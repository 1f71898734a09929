//! The admin queue: fetch a command, do it, write its completion.

use crate::fetch::{BODY_BYTES as CMD_BODY_BYTES, read_body};
use crate::hal::Hal;
use crate::objects::require;
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    ActivateFirmwareCmd, AdminCmd, AdminCpl, AdminOpcode, AdminStatus, AllocMwCmd, CongestionCmd,
    CreateCqCmd, CreateEqCmd, CreateQpCmd, CreateRuleCmd, CreateSrqCmd, HandleCmd, HandleResult, McastCmd,
    ModifyMrCmd, ModifyPortCmd, ModifyQpCmd, ModifySrqCmd, QueryCountersResult, QueryEntryCmd,
    QueryGidResult, QueryNodeDescResult, QueryPkeyResult, QueryPortCmd, QueryVlCountersCmd, RegMrCmd,
    ResizeCqCmd, ResolveGidCmd, ResolveGidResult, SetGidCmd, SetKeyTableCmd, SetLinkCmd, SetNodeDescCmd,
    SetPkeyCmd, SetSl2vlCmd, VlArbCmd, WriteFirmwareCmd,
};

/// The function that may change what all of them share.
pub(crate) const MANAGER: u8 = 0;
const ENTRY_BYTES: u64 = 256;
const CMD_AREA: u32 = 0;
/// A command's body starts behind its header.
const BODY_OFFSET: u32 = 8;
const BODY_BYTES: usize = 244;
/// Completion body.
pub(crate) type Body = [u8; BODY_BYTES];
/// Body of a completion; `None`: the command goes on in the next turns.
type Answer = Option<Body>;

pub(crate) fn body_of(bytes: &[u8]) -> Body {
    let mut body = [0; BODY_BYTES];
    let n = bytes.len().min(BODY_BYTES);
    body[..n].copy_from_slice(&bytes[..n]);
    body
}

pub(crate) fn handle_body(handle: u32) -> Body {
    let mut out = HandleResult::new();
    out.set_handle(handle);
    body_of(out.as_bytes())
}

impl Control {
    /// Fetches the next command of `func` and does it, or its first part.
    pub(crate) fn run_command<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let f = self.funcs[usize::from(func)];
        if hal
            .dma_from_host(func, f.entry_at(f.sq_base), CMD_AREA, ENTRY_BYTES as u32)
            .is_err()
        {
            return self.stop_queue(hal, func);
        }
        let mut header = [0; 4];
        hal.mailbox_read(CMD_AREA, &mut header);
        let mut cmd = AdminCmd::new();
        cmd.0[..4].copy_from_slice(&header);
        self.funcs[usize::from(func)].command_id = cmd.command_id();
        match self.execute(hal, func, cmd.opcode()) {
            Ok(Some(body)) => self.finish(hal, func, Ok(body)),
            Ok(None) => {}
            Err(e) => self.finish(hal, func, Err(e)),
        }
    }

    /// Writes the completion of the command under way.
    pub(crate) fn complete<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, result: CmdResult<Body>) {
        let f = self.funcs[usize::from(func)];
        let mut cpl = AdminCpl::new();
        cpl.set_command_id(f.command_id);
        match result {
            Ok(body) => {
                cpl.set_status(AdminStatus::Ok.into());
                cpl.set_body(body);
            }
            Err((status, detail)) => {
                cpl.set_status(status.into());
                cpl.set_detail(detail);
            }
        }
        cpl.set_phase(f.head >> f.log_size & 1 == 0);
        // What the command made is there before the driver can use it.
        hal.wait_ctx();
        hal.set_completion(&cpl);
        self.funcs[usize::from(func)].head = f.head.wrapping_add(1);
        self.has_answered = true;
        // The command is done, once and for all: after a restart only its answer is written again.
        self.answering = Some((func, f.entry_at(f.cq_base)));
        hal.commit();
        self.answer(hal);
    }

    /// Writes the answer that is made.
    pub(crate) fn answer<B: Bus>(&mut self, hal: &mut Hal<B>) {
        let Some((func, addr)) = self.answering.take() else {
            return;
        };
        let head = self.funcs[usize::from(func)].head;
        match hal.completion_to_host(func, addr) {
            Ok(()) => hal.set_admin_status(func, head, 0),
            Err(_) => {
                self.funcs[usize::from(func)].head = head.wrapping_sub(1);
                self.stop_queue(hal, func);
            }
        }
    }

    /// The rings themselves cannot be reached: nothing more until the driver resets the function.
    fn stop_queue<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let f = &mut self.funcs[usize::from(func)];
        f.enabled = false;
        hal.set_admin_status(func, f.head, AdminStatus::DmaError.into());
    }

    fn execute<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, code: u8) -> CmdResult<Answer> {
        let opcode = AdminOpcode::try_from(code).map_err(|e| (AdminStatus::BadOpcode, u32::from(e.code)))?;
        if opcode.is_for_manager() && func != MANAGER {
            return Err((AdminStatus::NotPermitted, func.into()));
        }
        let body = read_body(hal, CMD_AREA + BODY_OFFSET, opcode);
        let internal = (AdminStatus::Internal, 0);
        let handle = HandleCmd::read_from(&body).ok_or(internal)?.handle();
        let rest = match opcode {
            AdminOpcode::RegMr => self.reg_mr(hal, func, &RegMrCmd::read_from(&body).ok_or(internal)?)?,
            AdminOpcode::AllocMw => {
                self.alloc_mw(hal, func, &AllocMwCmd::read_from(&body).ok_or(internal)?)?
            }
            AdminOpcode::ResetFunc => {
                self.start_reset(func);
                return Ok(None);
            }
            AdminOpcode::ResizeCq => {
                self.resize_cq(hal, func, &ResizeCqCmd::read_from(&body).ok_or(internal)?)?
            }
            // It goes on when the QP has its line.
            AdminOpcode::ModifyQp
                if ModifyQpCmd::read_from(&body).is_some_and(|cmd| self.waits_for_line(func, cmd.qpn())) =>
            {
                return Ok(None);
            }
            AdminOpcode::ModifyQp => {
                self.modify_qp(hal, func, &ModifyQpCmd::read_from(&body).ok_or(internal)?)?
            }
            AdminOpcode::DestroyQp => self.destroy_qp(hal, func, handle)?,
            AdminOpcode::SetKeyTable => {
                self.set_key_table(hal, func, &SetKeyTableCmd::read_from(&body).ok_or(internal)?)?
            }
            AdminOpcode::DestroySrq => self.destroy_srq(hal, func, handle)?,
            AdminOpcode::DeregMr => self.dereg_mr(hal, func, handle)?,
            AdminOpcode::DeallocMw => self.dealloc_mw(hal, func, handle)?,
            AdminOpcode::ModifyMr => {
                self.modify_mr(hal, func, &ModifyMrCmd::read_from(&body).ok_or(internal)?)?
            }
            _ => return self.execute_at_once(hal, func, opcode, &body).map(Some),
        };
        Ok(self.leave(hal, func, rest))
    }

    /// Commands that are over when this returns.
    fn execute_at_once<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        opcode: AdminOpcode,
        body: &[u8; CMD_BODY_BYTES],
    ) -> CmdResult<Body> {
        let internal = (AdminStatus::Internal, 0);
        let handle = HandleCmd::read_from(body).ok_or(internal)?.handle();
        let none = [0; BODY_BYTES];
        match opcode {
            AdminOpcode::Nop => Ok(none),
            AdminOpcode::AllocPd => self.alloc_pd(func).map(handle_body),
            AdminOpcode::DeallocPd => self.dealloc_pd(func, handle).map(|()| none),
            AdminOpcode::CreateEq => self
                .create_eq(hal, func, &CreateEqCmd::read_from(body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::DestroyEq => self.destroy_eq(hal, func, handle).map(|()| none),
            AdminOpcode::CreateCq => self
                .create_cq(hal, func, &CreateCqCmd::read_from(body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::DestroyCq => self.destroy_cq(hal, func, handle).map(|()| none),
            AdminOpcode::CreateQp => self
                .create_qp(hal, func, &CreateQpCmd::read_from(body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::AttachMcast => self
                .attach_mcast(hal, func, &McastCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::DetachMcast => self
                .detach_mcast(hal, func, &McastCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::CreateRule => self
                .create_rule(hal, func, &CreateRuleCmd::read_from(body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::DestroyRule => self.destroy_rule(hal, func, handle).map(|()| none),
            AdminOpcode::QueryQp => self.query_qp(func, handle).map(|r| body_of(r.as_bytes())),
            AdminOpcode::QueryMr => self.query_mr(hal, func, handle).map(|r| body_of(r.as_bytes())),
            AdminOpcode::CreateSrq => {
                let cmd = CreateSrqCmd::read_from(body).ok_or(internal)?;
                let srqn = self.create_srq(hal, func, &cmd)?;
                let mut out = HandleResult::new();
                out.set_handle(srqn);
                out.set_number(self.srq_number(srqn));
                Ok(body_of(out.as_bytes()))
            }
            AdminOpcode::AllocXrcd => self.alloc_xrcd(func).map(handle_body),
            AdminOpcode::DeallocXrcd => self.dealloc_xrcd(func, handle).map(|()| none),
            AdminOpcode::ModifySrq => self
                .modify_srq(hal, func, &ModifySrqCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QuerySrq => self.query_srq(func, handle).map(|r| body_of(r.as_bytes())),
            AdminOpcode::QueryFirmware => Ok(body_of(self.query_firmware(hal).as_bytes())),
            AdminOpcode::WriteFirmware => self
                .write_firmware(hal, func, &WriteFirmwareCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::ActivateFirmware => self
                .activate_firmware(hal, &ActivateFirmwareCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryDevice => Ok(body_of(self.query_device(hal, func).as_bytes())),
            _ => self.execute_port(hal, opcode, body),
        }
    }

    fn execute_port<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        opcode: AdminOpcode,
        body: &[u8; CMD_BODY_BYTES],
    ) -> CmdResult<Body> {
        let internal = (AdminStatus::Internal, 0);
        let none = [0; BODY_BYTES];
        let entry = QueryEntryCmd::read_from(body).ok_or(internal)?;
        let bad_index = (AdminStatus::BadParam, u32::from(entry.index()));
        match opcode {
            AdminOpcode::QueryPort => {
                let cmd = QueryPortCmd::read_from(body).ok_or(internal)?;
                let at = self.port_at(cmd.port_num())?;
                self.activate_armed(hal, at);
                self.query_port(hal, cmd.port_num())
                    .map(|r| body_of(r.as_bytes()))
            }
            AdminOpcode::ModifyPort => self
                .modify_port(hal, &ModifyPortCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::SetGid => self
                .set_gid(hal, &SetGidCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::SetPkey => self
                .set_pkey(hal, &SetPkeyCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::SetNodeDesc => {
                let cmd = SetNodeDescCmd::read_from(body).ok_or(internal)?;
                self.set_description(cmd.text(), None);
                Ok(none)
            }
            AdminOpcode::QueryNodeDesc => {
                let mut out = QueryNodeDescResult::new();
                out.set_text(self.description);
                Ok(body_of(out.as_bytes()))
            }
            AdminOpcode::QueryGid => {
                let index = u8::try_from(entry.index()).map_err(|_| bad_index)?;
                let mut out = QueryGidResult::new();
                out.set_gid(
                    *self
                        .port_at(entry.port_num())
                        .ok()
                        .and_then(|at| self.ports[at].gid(index))
                        .ok_or(bad_index)?,
                );
                Ok(body_of(out.as_bytes()))
            }
            AdminOpcode::ResolveGid => {
                let cmd = ResolveGidCmd::read_from(body).ok_or(internal)?;
                let port = &self.ports[self.port_at(cmd.port_num())?];
                require(!port.infiniband(), u32::from(cmd.port_num()))?;
                let mut out = ResolveGidResult::new();
                out.set_mac(self.mac_of(cmd.port_num(), &cmd.gid())?);
                Ok(body_of(out.as_bytes()))
            }
            AdminOpcode::QueryPkey => {
                let pkey = self
                    .port_at(entry.port_num())
                    .ok()
                    .and_then(|at| self.ports[at].pkeys().get(usize::from(entry.index())));
                let mut out = QueryPkeyResult::new();
                out.set_pkey(*pkey.ok_or(bad_index)?);
                Ok(body_of(out.as_bytes()))
            }
            AdminOpcode::QueryCounters => {
                let at = self.port_at(entry.port_num())? as u8;
                let mut out = [0; BODY_BYTES];
                let fields = QueryCountersResult::TABLE.fields.len();
                for i in 0..fields.min(BODY_BYTES / 8) {
                    out[8 * i..8 * i + 8].copy_from_slice(&hal.counter(at, i as u32).to_le_bytes());
                }
                Ok(out)
            }
            _ => self.execute_link(hal, opcode, body),
        }
    }

    fn execute_link<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        opcode: AdminOpcode,
        body: &[u8; CMD_BODY_BYTES],
    ) -> CmdResult<Body> {
        let internal = (AdminStatus::Internal, 0);
        let none = [0; BODY_BYTES];
        let port_num = QueryPortCmd::read_from(body).ok_or(internal)?.port_num();
        match opcode {
            AdminOpcode::SetLink => self
                .set_link(hal, &SetLinkCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryLink => {
                let at = self.port_at(port_num)?;
                self.activate_armed(hal, at);
                self.query_link(hal, port_num).map(|r| body_of(r.as_bytes()))
            }
            AdminOpcode::SetVlArb => self
                .set_vl_arb(hal, &VlArbCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryVlArb => self
                .query_vl_arb(&VlArbCmd::read_from(body).ok_or(internal)?)
                .map(|r| body_of(r.as_bytes())),
            AdminOpcode::SetSl2vl => self
                .set_sl2vl(hal, &SetSl2vlCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryVlCounters => {
                let cmd = QueryVlCountersCmd::read_from(body).ok_or(internal)?;
                self.query_vl_counters(hal, &cmd).map(|r| body_of(r.as_bytes()))
            }
            AdminOpcode::QueryPfcCounters => self
                .query_pfc_counters(hal, port_num)
                .map(|r| body_of(r.as_bytes())),
            AdminOpcode::QueryLinkErrors => self
                .query_link_errors(hal, port_num)
                .map(|r| body_of(r.as_bytes())),
            AdminOpcode::SetCongestion => self
                .set_congestion(hal, &CongestionCmd::read_from(body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryCongestion => self.query_congestion(port_num).map(|r| body_of(r.as_bytes())),
            _ => Err((AdminStatus::BadOpcode, 0)),
        }
    }
}
