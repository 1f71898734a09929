//! The admin queue: fetch a command, do it, write its completion.

use crate::features::check_command;
use crate::fetch::{BODY_BYTES as CMD_BODY_BYTES, read_body, read_modify_qp};
use crate::hal::Hal;
use crate::objects::require;
use crate::{Bus, CmdResult, Control};
use hca_abi::{
    ActivateFirmwareCmd, AdminCmd, AdminCpl, AdminOpcode, AdminStatus, AllocDmCmd, AllocMwCmd, CongestionCmd,
    CopyDmCmd, CreateCqCmd, CreateEqCmd, CreateQpCmd, CreateRssCmd, CreateRuleCmd, CreateSrqCmd, McastCmd,
    ModifyCqCmd, ModifyMrCmd, ModifyPortCmd, ModifyQpCmd, ModifySrqCmd, QueryCountersResult, QueryEntryCmd,
    QueryGidResult, QueryLldpCmd, QueryNodeDescResult, QueryPkeyResult, QueryPortCmd, QueryVlCountersCmd,
    RegMrCmd, ResizeCqCmd, ResolveGidCmd, ResolveGidResult, SetContextMemoryCmd, SetGidCmd, SetKeyTableCmd,
    SetLinkCmd, SetNodeDescCmd, SetPkeyCmd, SetSl2vlCmd, VlArbCmd, WriteFirmwareCmd,
};

/// The function that may change what all of them share.
pub(crate) const MANAGER: u8 = 0;
const ENTRY_BYTES: u64 = 256;
pub(crate) const CMD_AREA: u32 = 0;
/// Bytes of an answer with a handle.
const HANDLE_BYTES: usize = 8;
/// A command's body starts behind its header.
pub(crate) const BODY_OFFSET: u32 = 8;
const BODY_AREA: u32 = CMD_AREA + BODY_OFFSET;

/// The completion of the command under way. Its body is zero until the command sets it, and behind what it has set.
pub(crate) struct Answer {
    cpl: AdminCpl,
    body_bytes: usize,
}

impl Answer {
    pub const fn new() -> Self {
        Self {
            cpl: AdminCpl::new(),
            body_bytes: 0,
        }
    }

    /// Sets the body, once, as far as it means something: whole words.
    #[inline(never)]
    fn set(&mut self, body: &[u8]) {
        let place = self.cpl.0.get_mut(BODY_OFFSET as usize..);
        if let Some(place) = place.and_then(|place| place.get_mut(..body.len())) {
            place.copy_from_slice(body);
            self.body_bytes = body.len();
        }
    }

    /// A handle, and what peers name the object if that is something else.
    pub fn set_handle(&mut self, handle: u32, number: u32) {
        if let [_, _, first, second, ..] = self.cpl.0.as_chunks_mut().0 {
            (*first, *second) = (handle.to_le_bytes(), number.to_le_bytes());
            self.body_bytes = HANDLE_BYTES;
        }
    }

    /// L_Key and R_Key are the same.
    pub fn set_keys(&mut self, key: u32) {
        self.set_handle(key, key);
    }

    /// Of the next command. Most have set a handle or nothing.
    #[inline(always)]
    fn clear(&mut self) {
        if self.body_bytes > HANDLE_BYTES {
            self.clear_all();
        } else if let [_, _, first, second, ..] = self.cpl.0.as_chunks_mut::<4>().0 {
            (*first, *second) = ([0; 4], [0; 4]);
        }
        self.body_bytes = 0;
    }

    #[inline(never)]
    fn clear_all(&mut self) {
        let body = self.cpl.0.get_mut(BODY_OFFSET as usize..).unwrap_or(&mut []);
        if let Some(used) = body.get_mut(..self.body_bytes) {
            used.fill(0);
        }
    }
}

/// The body of the command under way, as far as it means something; zero elsewhere.
#[inline(always)]
fn body<B: Bus>(hal: &mut Hal<B>, bytes: usize, body: &mut [u8; CMD_BODY_BYTES]) {
    read_body(hal, BODY_AREA, bytes, body);
}

/// The object that the command under way names.
#[inline(never)]
fn handle<B: Bus>(hal: &mut Hal<B>) -> u32 {
    hal.mailbox_word(BODY_AREA)
}

/// The port that it names.
#[inline(never)]
fn port_named<B: Bus>(hal: &mut Hal<B>) -> u8 {
    let mut cmd = QueryPortCmd::new();
    body(hal, QueryPortCmd::USED, &mut cmd.0);
    cmd.port_num()
}

impl Control {
    /// Fetches the next command of `func` and does it, or its first part.
    pub(crate) fn run_command<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let f = &self.funcs[usize::from(func)];
        let entry = f.entry_at(f.sq_base);
        hal.start_fetch(func, entry, CMD_AREA, ENTRY_BYTES as u32);
        // Room for the command that is to be the fastest, made while the host's memory is read.
        let mut room = CreateQpCmd::new();
        if hal.end_fetch(ENTRY_BYTES as u32).is_err() {
            return self.stop_queue(hal, func);
        }
        let mut cmd = AdminCmd::new();
        cmd.0[..4].copy_from_slice(&hal.mailbox_word(CMD_AREA).to_le_bytes());
        self.funcs[usize::from(func)].command_id = cmd.command_id();
        match self.execute(hal, func, cmd.opcode(), &mut room) {
            Ok(true) => self.finish(hal, func, Ok(())),
            Ok(false) => {}
            Err(e) => self.finish(hal, func, Err(e)),
        }
    }

    /// Writes the completion of the command under way, whose body is set.
    pub(crate) fn complete<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, result: CmdResult) {
        let f = &mut self.funcs[usize::from(func)];
        let (status, detail) = result.err().unwrap_or((AdminStatus::Ok, 0));
        if status != AdminStatus::Ok {
            self.answer.clear();
        }
        let Answer { cpl, body_bytes } = &mut self.answer;
        cpl.set_command_id(f.command_id);
        cpl.set_status(status.into());
        cpl.set_detail(detail);
        cpl.set_phase(f.head >> f.log_size & 1 == 0);
        // What the command made is there before the driver can use it.
        hal.wait_ctx();
        hal.set_completion(cpl, *body_bytes);
        self.answer.clear();
        self.has_answered = true;
        // The command is done, once and for all: after a restart only its answer is written again.
        self.answering = Some((func, f.entry_at(f.cq_base)));
        f.head = f.head.wrapping_add(1);
        self.rest_if_idle(func);
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

    /// True: the command is over, and its answer set; false: it goes on in the next turns.
    fn execute<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        func: u8,
        code: u8,
        room: &mut CreateQpCmd,
    ) -> CmdResult<bool> {
        let opcode = AdminOpcode::try_from(code).map_err(|e| (AdminStatus::BadOpcode, u32::from(e.code)))?;
        if opcode.is_for_manager() && func != MANAGER {
            return Err((AdminStatus::NotPermitted, func.into()));
        }
        check_command(opcode)?;
        let made = match opcode {
            AdminOpcode::Nop => return Ok(true),
            AdminOpcode::CreateQp => {
                hal.mailbox_read(BODY_AREA, &mut room.0[..CreateQpCmd::USED]);
                self.create_qp(hal, func, room)?
            }
            _ => return self.execute_other(hal, func, opcode),
        };
        self.answer.set_handle(made, 0);
        Ok(true)
    }

    /// Commands beside those that a connection is made with most.
    #[inline(never)]
    fn execute_other<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, opcode: AdminOpcode) -> CmdResult<bool> {
        let rest = match opcode {
            AdminOpcode::RegMr => {
                let mut cmd = RegMrCmd::new();
                body(hal, RegMrCmd::USED, &mut cmd.0);
                self.reg_mr(hal, func, &cmd)?
            }
            AdminOpcode::AllocMw => {
                let mut cmd = AllocMwCmd::new();
                body(hal, AllocMwCmd::USED, &mut cmd.0);
                self.alloc_mw(hal, func, &cmd)?
            }
            AdminOpcode::ResetFunc => {
                self.start_reset(func);
                return Ok(false);
            }
            AdminOpcode::ResizeCq => {
                let mut cmd = ResizeCqCmd::new();
                body(hal, ResizeCqCmd::USED, &mut cmd.0);
                self.resize_cq(hal, func, &cmd)?
            }
            AdminOpcode::ModifyQp => {
                let mut cmd = ModifyQpCmd::new();
                read_modify_qp(hal, BODY_AREA, &mut cmd);
                // It goes on when the QP has its line.
                if self.waits_for_line(hal, func, cmd.qpn()) {
                    return Ok(false);
                }
                self.modify_qp(hal, func, &cmd)?
            }
            AdminOpcode::DestroyQp => {
                let named = handle(hal);
                self.destroy_qp(hal, func, named)?
            }
            AdminOpcode::SetKeyTable => {
                let mut cmd = SetKeyTableCmd::new();
                body(hal, SetKeyTableCmd::USED, &mut cmd.0);
                self.set_key_table(hal, func, &cmd)?
            }
            AdminOpcode::SetContextMemory => {
                let mut cmd = SetContextMemoryCmd::new();
                body(hal, SetContextMemoryCmd::USED, &mut cmd.0);
                self.set_context_memory(hal, func, &cmd)?;
                return Ok(true);
            }
            AdminOpcode::DestroySrq => {
                let named = handle(hal);
                self.destroy_srq(hal, func, named)?
            }
            AdminOpcode::DeregMr => {
                let named = handle(hal);
                self.dereg_mr(hal, func, named)?
            }
            AdminOpcode::DeallocMw => {
                let named = handle(hal);
                self.dealloc_mw(hal, func, named)?
            }
            AdminOpcode::ModifyMr => {
                let mut cmd = ModifyMrCmd::new();
                body(hal, ModifyMrCmd::USED, &mut cmd.0);
                self.modify_mr(hal, func, &cmd)?
            }
            _ => return self.execute_at_once(hal, func, opcode).map(|()| true),
        };
        Ok(self.leave(hal, func, rest))
    }

    /// Commands that are over when this returns.
    fn execute_at_once<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, opcode: AdminOpcode) -> CmdResult {
        let made = match opcode {
            AdminOpcode::AllocPd => self.alloc_pd(func)?,
            AdminOpcode::CreateEq => {
                let mut cmd = CreateEqCmd::new();
                body(hal, CreateEqCmd::USED, &mut cmd.0);
                self.create_eq(hal, func, &cmd)?
            }
            AdminOpcode::CreateCq => {
                let mut cmd = CreateCqCmd::new();
                body(hal, CreateCqCmd::USED, &mut cmd.0);
                self.create_cq(hal, func, &cmd)?
            }
            AdminOpcode::CreateRule => {
                let mut cmd = CreateRuleCmd::new();
                body(hal, CreateRuleCmd::USED, &mut cmd.0);
                self.create_rule(hal, func, &cmd)?
            }
            AdminOpcode::CreateRss => {
                let mut cmd = CreateRssCmd::new();
                body(hal, CreateRssCmd::USED, &mut cmd.0);
                self.create_rss(hal, func, &cmd)?
            }
            AdminOpcode::AllocDm => {
                let mut cmd = AllocDmCmd::new();
                body(hal, AllocDmCmd::USED, &mut cmd.0);
                self.alloc_dm(hal, func, &cmd)?
            }
            AdminOpcode::AllocXrcd => self.alloc_xrcd(func)?,
            AdminOpcode::CreateSrq => {
                let mut cmd = CreateSrqCmd::new();
                body(hal, CreateSrqCmd::USED, &mut cmd.0);
                let srqn = self.create_srq(hal, func, &cmd)?;
                self.answer.set_handle(srqn, self.srq_number(srqn));
                return Ok(());
            }
            _ => return self.execute_rest(hal, func, opcode),
        };
        self.answer.set_handle(made, 0);
        Ok(())
    }

    /// Of these, commands that make nothing.
    fn execute_rest<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, opcode: AdminOpcode) -> CmdResult {
        match opcode {
            AdminOpcode::DeallocPd => self.dealloc_pd(func, handle(hal)),
            AdminOpcode::DestroyEq => {
                let named = handle(hal);
                self.destroy_eq(hal, func, named)
            }
            AdminOpcode::DestroyCq => {
                let named = handle(hal);
                self.destroy_cq(hal, func, named)
            }
            AdminOpcode::ModifyCq => {
                let mut cmd = ModifyCqCmd::new();
                body(hal, ModifyCqCmd::USED, &mut cmd.0);
                self.modify_cq(hal, func, &cmd)
            }
            AdminOpcode::AttachMcast => {
                let mut cmd = McastCmd::new();
                body(hal, McastCmd::USED, &mut cmd.0);
                self.attach_mcast(hal, func, &cmd)
            }
            AdminOpcode::DetachMcast => {
                let mut cmd = McastCmd::new();
                body(hal, McastCmd::USED, &mut cmd.0);
                self.detach_mcast(hal, func, &cmd)
            }
            AdminOpcode::DestroyRule => {
                let named = handle(hal);
                self.destroy_rule(hal, named)
            }
            AdminOpcode::QueryRule => {
                let named = handle(hal);
                let told = self.query_rule(hal, named)?;
                self.answer.set(told.used());
                Ok(())
            }
            AdminOpcode::FreeDm => {
                let named = handle(hal);
                self.free_dm(hal, func, named)
            }
            AdminOpcode::CopyDm => {
                let mut cmd = CopyDmCmd::new();
                body(hal, CopyDmCmd::USED, &mut cmd.0);
                self.copy_dm(hal, func, &cmd)
            }
            AdminOpcode::DestroyRss => self.destroy_rss(handle(hal)),
            AdminOpcode::DeallocXrcd => self.dealloc_xrcd(func, handle(hal)),
            AdminOpcode::ModifySrq => {
                let mut cmd = ModifySrqCmd::new();
                body(hal, ModifySrqCmd::USED, &mut cmd.0);
                self.modify_srq(hal, func, &cmd)
            }
            AdminOpcode::QueryQp => {
                let told = self.query_qp(func, handle(hal))?;
                self.answer.set(told.used());
                Ok(())
            }
            AdminOpcode::QueryMr => {
                let lkey = handle(hal);
                let told = self.query_mr(hal, func, lkey)?;
                self.answer.set(told.used());
                Ok(())
            }
            AdminOpcode::QuerySrq => {
                let told = self.query_srq(func, handle(hal))?;
                self.answer.set(told.used());
                Ok(())
            }
            AdminOpcode::QueryFirmware => {
                let told = self.query_firmware(hal);
                self.answer.set(told.used());
                Ok(())
            }
            AdminOpcode::WriteFirmware => {
                let mut cmd = WriteFirmwareCmd::new();
                body(hal, WriteFirmwareCmd::USED, &mut cmd.0);
                self.write_firmware(hal, func, &cmd)
            }
            AdminOpcode::ActivateFirmware => {
                let mut cmd = ActivateFirmwareCmd::new();
                body(hal, ActivateFirmwareCmd::USED, &mut cmd.0);
                self.activate_firmware(hal, &cmd)
            }
            AdminOpcode::QueryDevice => {
                let told = self.query_device(hal, func);
                self.answer.set(told.used());
                Ok(())
            }
            _ => self.execute_port(hal, opcode),
        }
    }

    fn execute_port<B: Bus>(&mut self, hal: &mut Hal<B>, opcode: AdminOpcode) -> CmdResult {
        match opcode {
            AdminOpcode::QueryPort => {
                let port_num = port_named(hal);
                let at = self.port_at(port_num)?;
                self.activate_armed(hal, at);
                let told = self.query_port(hal, port_num)?;
                self.answer.set(told.used());
            }
            AdminOpcode::ModifyPort => {
                let mut cmd = ModifyPortCmd::new();
                body(hal, ModifyPortCmd::USED, &mut cmd.0);
                self.modify_port(hal, &cmd)?
            }
            AdminOpcode::SetGid => {
                let mut cmd = SetGidCmd::new();
                body(hal, SetGidCmd::USED, &mut cmd.0);
                self.set_gid(hal, &cmd)?
            }
            AdminOpcode::SetPkey => {
                let mut cmd = SetPkeyCmd::new();
                body(hal, SetPkeyCmd::USED, &mut cmd.0);
                self.set_pkey(hal, &cmd)?
            }
            AdminOpcode::SetNodeDesc => {
                let mut cmd = SetNodeDescCmd::new();
                body(hal, SetNodeDescCmd::USED, &mut cmd.0);
                self.set_description(cmd.text(), None);
            }
            AdminOpcode::QueryNodeDesc => {
                let mut out = QueryNodeDescResult::new();
                out.set_text(self.description);
                self.answer.set(out.used());
            }
            AdminOpcode::QueryGid => {
                let mut entry = QueryEntryCmd::new();
                body(hal, QueryEntryCmd::USED, &mut entry.0);
                let bad_index = (AdminStatus::BadParam, u32::from(entry.index()));
                let index = u8::try_from(entry.index()).map_err(|_| bad_index)?;
                let port = self.port_at(entry.port_num()).map_err(|_| bad_index)?;
                let gid = *self.ports[port].gid(index).ok_or(bad_index)?;
                let mut out = QueryGidResult::new();
                out.set_gid(gid);
                self.answer.set(out.used());
            }
            AdminOpcode::ResolveGid => {
                let mut cmd = ResolveGidCmd::new();
                body(hal, ResolveGidCmd::USED, &mut cmd.0);
                let port = &self.ports[self.port_at(cmd.port_num())?];
                require(!port.infiniband(), u32::from(cmd.port_num()))?;
                let mut out = ResolveGidResult::new();
                out.set_mac(self.mac_of(cmd.port_num(), &cmd.gid())?);
                self.answer.set(out.used());
            }
            AdminOpcode::QueryPkey => {
                let mut entry = QueryEntryCmd::new();
                body(hal, QueryEntryCmd::USED, &mut entry.0);
                let bad_index = (AdminStatus::BadParam, u32::from(entry.index()));
                let port = self.port_at(entry.port_num()).map_err(|_| bad_index)?;
                let pkeys = self.ports[port].pkeys();
                let mut out = QueryPkeyResult::new();
                out.set_pkey(*pkeys.get(usize::from(entry.index())).ok_or(bad_index)?);
                self.answer.set(out.used());
            }
            AdminOpcode::QueryCounters => {
                let at = self.port_at(port_named(hal))? as u8;
                let mut out = QueryCountersResult::new();
                let fields = QueryCountersResult::TABLE.fields.len();
                for (index, place) in (0..).zip(out.0.as_chunks_mut().0.iter_mut().take(fields)) {
                    *place = hal.counter(at, index).to_le_bytes();
                }
                self.answer.set(out.used());
            }
            _ => return self.execute_link(hal, opcode),
        }
        Ok(())
    }

    fn execute_link<B: Bus>(&mut self, hal: &mut Hal<B>, opcode: AdminOpcode) -> CmdResult {
        match opcode {
            AdminOpcode::SetLink => {
                let mut cmd = SetLinkCmd::new();
                body(hal, SetLinkCmd::USED, &mut cmd.0);
                self.set_link(hal, &cmd)?
            }
            AdminOpcode::QueryLink => {
                let port_num = port_named(hal);
                let at = self.port_at(port_num)?;
                self.activate_armed(hal, at);
                let told = self.query_link(hal, port_num)?;
                self.answer.set(told.used());
            }
            AdminOpcode::SetVlArb => {
                let mut cmd = VlArbCmd::new();
                body(hal, VlArbCmd::USED, &mut cmd.0);
                self.set_vl_arb(hal, &cmd)?
            }
            AdminOpcode::QueryVlArb => {
                let mut cmd = VlArbCmd::new();
                body(hal, VlArbCmd::USED, &mut cmd.0);
                let told = self.query_vl_arb(&cmd)?;
                self.answer.set(told.used());
            }
            AdminOpcode::SetSl2vl => {
                let mut cmd = SetSl2vlCmd::new();
                body(hal, SetSl2vlCmd::USED, &mut cmd.0);
                self.set_sl2vl(hal, &cmd)?
            }
            AdminOpcode::QueryVlCounters => {
                let mut cmd = QueryVlCountersCmd::new();
                body(hal, QueryVlCountersCmd::USED, &mut cmd.0);
                let told = self.query_vl_counters(hal, &cmd)?;
                self.answer.set(told.used());
            }
            AdminOpcode::QueryLldp => {
                let mut cmd = QueryLldpCmd::new();
                body(hal, QueryLldpCmd::USED, &mut cmd.0);
                let told = self.query_lldp(hal, &cmd)?;
                self.answer.set(told.used());
            }
            AdminOpcode::QueryPfcCounters => {
                let port_num = port_named(hal);
                let told = self.query_pfc_counters(hal, port_num)?;
                self.answer.set(told.used());
            }
            AdminOpcode::SetCongestion => {
                let mut cmd = CongestionCmd::new();
                body(hal, CongestionCmd::USED, &mut cmd.0);
                self.set_congestion(hal, &cmd)?
            }
            AdminOpcode::QueryCongestion => {
                let port_num = port_named(hal);
                let told = self.query_congestion(port_num)?;
                self.answer.set(told.used());
            }
            AdminOpcode::QueryLinkErrors => {
                let port_num = port_named(hal);
                let told = self.query_link_errors(hal, port_num)?;
                self.answer.set(told.used());
            }
            _ => return Err((AdminStatus::BadOpcode, 0)),
        }
        Ok(())
    }
}
