//! The admin queue: fetch a command, do it, write its completion.

use crate::hal::Hal;
use crate::objects::require;
use crate::{Bus, CmdResult, Firmware};
use hca_abi::{
    AdminCmd, AdminCpl, AdminOpcode, AdminStatus, CreateCqCmd, CreateEqCmd, CreateQpCmd, HandleCmd,
    HandleResult, MAX_INLINE_BYTES, MAX_LOG_ADMIN_SIZE, MAX_LOG_CQ_SIZE, MAX_LOG_EQ_SIZE, MAX_LOG_WQ_SIZE,
    MAX_SGE, ModifyMrCmd, ModifyPortCmd, ModifyQpCmd, QueryCountersResult, QueryDeviceResult, QueryEntryCmd,
    QueryGidResult, QueryPkeyResult, QueryPortCmd, QueryVlCountersCmd, RegMrCmd, ResizeCqCmd, ResolveGidCmd,
    ResolveGidResult, SetGidCmd, SetLinkCmd, SetPkeyCmd, SetSl2vlCmd, VlArbCmd, device_cap,
};

/// The function that may change what all of them share.
const MANAGER: u8 = 0;
const ENTRY_BYTES: u64 = 256;
const CMD_AREA: u32 = 0;
const CPL_AREA: u32 = 256;
const BODY_BYTES: usize = 244;
/// Completion body.
type Body = [u8; BODY_BYTES];

/// Part number, ours to choose.
const VENDOR_PART_ID: u32 = 1;
/// local_ca_ack_delay: 4.096 us << 4 = 65 us, beyond the longest stay of a request in the responder (REL-15).
const ACK_DELAY: u8 = 4;
/// QP type that can be paced: IBV_QPT_RC.
const PACED_QP_TYPE: u32 = 2;

/// The vendor number is an IEEE OUI, and so are the first three bytes of a MAC address: one card cannot have two. No
/// OUI is assigned to OpenHCA; the MAC addresses of simulated cards start with a locally administered one (bit 1 of the
/// first byte; in the GUID made from them it is turned), which the IEEE gives to nobody.
fn vendor_of(mac: &[u8; 6]) -> u32 {
    u32::from_be_bytes([0, mac[0], mac[1], mac[2]])
}

fn body_of<const N: usize>(bytes: &[u8; N]) -> Body {
    let mut body = [0; BODY_BYTES];
    let n = N.min(BODY_BYTES);
    body[..n].copy_from_slice(&bytes[..n]);
    body
}

fn handle_body(handle: u32) -> Body {
    let mut out = HandleResult::new();
    out.set_handle(handle);
    body_of(out.as_bytes())
}

impl Firmware {
    /// Executes every command the driver of `func` has announced.
    pub(crate) fn run_admin_queue<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let producer = hal.admin_producer(func);
        let f = self.funcs[func as usize];
        if !f.enabled {
            return;
        }
        if producer.wrapping_sub(f.head) > 1 << f.log_size {
            hal.set_admin_status(func, f.head, AdminStatus::BadParam.into());
            return;
        }
        while self.funcs[func as usize].enabled && self.funcs[func as usize].head != producer {
            let head = self.funcs[func as usize].head;
            if let Err((status, _)) = self.run_one(hal, func, head) {
                // The rings themselves cannot be reached: stop until the driver resets the function.
                self.funcs[func as usize].enabled = false;
                hal.set_admin_status(func, head, status.into());
                return;
            }
            self.funcs[func as usize].head = head.wrapping_add(1);
            hal.set_admin_status(func, head.wrapping_add(1), 0);
        }
    }

    fn run_one<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, head: u16) -> CmdResult {
        let f = self.funcs[func as usize];
        let slot = u64::from(head) & ((1 << f.log_size) - 1);
        let unreachable = |_| (AdminStatus::DmaError, 0);
        // Ring addresses come from the driver: one at the end of the address space wraps, and the IOMMU refuses it.
        let entry = |base: u64| base.wrapping_add(slot * ENTRY_BYTES);
        hal.dma_from_host(func, entry(f.sq_base), CMD_AREA, ENTRY_BYTES as u32)
            .map_err(unreachable)?;
        let mut cmd_bytes = [0; ENTRY_BYTES as usize];
        hal.mailbox_read(CMD_AREA, &mut cmd_bytes);
        let cmd = AdminCmd::read_from(&cmd_bytes).ok_or((AdminStatus::Internal, 0))?;
        let mut cpl = AdminCpl::new();
        cpl.set_command_id(cmd.command_id());
        match self.execute(hal, func, &cmd) {
            Ok(body) => {
                cpl.set_status(AdminStatus::Ok.into());
                cpl.set_body(body);
            }
            Err((status, detail)) => {
                cpl.set_status(status.into());
                cpl.set_detail(detail);
            }
        }
        cpl.set_phase(head >> f.log_size & 1 == 0);
        hal.mailbox_write(CPL_AREA, cpl.as_bytes());
        hal.dma_to_host(func, entry(f.cq_base), CPL_AREA, ENTRY_BYTES as u32)
            .map_err(unreachable)
    }

    fn execute<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8, cmd: &AdminCmd) -> CmdResult<Body> {
        let opcode =
            AdminOpcode::try_from(cmd.opcode()).map_err(|e| (AdminStatus::BadOpcode, u32::from(e.code)))?;
        if opcode.is_for_manager() && func != MANAGER {
            return Err((AdminStatus::NotPermitted, func.into()));
        }
        let body = cmd.body();
        let internal = (AdminStatus::Internal, 0);
        let handle = HandleCmd::read_from(&body).ok_or(internal)?.handle();
        let none = [0; BODY_BYTES];
        match opcode {
            AdminOpcode::Nop => Ok(none),
            AdminOpcode::AllocPd => self.alloc_pd(func).map(handle_body),
            AdminOpcode::DeallocPd => self.dealloc_pd(func, handle).map(|()| none),
            AdminOpcode::CreateEq => self
                .create_eq(hal, func, &CreateEqCmd::read_from(&body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::DestroyEq => self.destroy_eq(hal, func, handle).map(|()| none),
            AdminOpcode::CreateCq => self
                .create_cq(hal, func, &CreateCqCmd::read_from(&body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::ResizeCq => self
                .resize_cq(hal, func, &ResizeCqCmd::read_from(&body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::DestroyCq => self.destroy_cq(hal, func, handle).map(|()| none),
            AdminOpcode::CreateQp => self
                .create_qp(hal, func, &CreateQpCmd::read_from(&body).ok_or(internal)?)
                .map(handle_body),
            AdminOpcode::ModifyQp => self
                .modify_qp(hal, func, &ModifyQpCmd::read_from(&body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryQp => self.query_qp(func, handle).map(|r| body_of(r.as_bytes())),
            AdminOpcode::DestroyQp => self.destroy_qp(hal, func, handle).map(|()| none),
            AdminOpcode::RegMr => {
                let cmd = RegMrCmd::read_from(&body).ok_or(internal)?;
                self.reg_mr(hal, func, &cmd).map(|r| body_of(r.as_bytes()))
            }
            AdminOpcode::DeregMr => self.dereg_mr(hal, func, handle).map(|()| none),
            AdminOpcode::ModifyMr => self
                .modify_mr(hal, func, &ModifyMrCmd::read_from(&body).ok_or(internal)?)
                .map(|()| none),
            AdminOpcode::QueryMr => self.query_mr(func, handle).map(|r| body_of(r.as_bytes())),
            AdminOpcode::ResetFunc => {
                self.drop_function(hal, func);
                Ok(none)
            }
            AdminOpcode::CreateAh
            | AdminOpcode::DestroyAh
            | AdminOpcode::CreateSrq
            | AdminOpcode::ModifySrq
            | AdminOpcode::QuerySrq
            | AdminOpcode::DestroySrq => Err((AdminStatus::Unsupported, u32::from(cmd.opcode()))),
            AdminOpcode::QueryDevice => Ok(body_of(self.query_device(hal, func).as_bytes())),
            _ => self.execute_port(hal, opcode, &body),
        }
    }

    fn execute_port<B: Bus>(
        &mut self,
        hal: &mut Hal<B>,
        opcode: AdminOpcode,
        body: &[u8; 248],
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
                out.set_mac(self.mac_of(port, &cmd.gid())?);
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
        body: &[u8; 248],
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
            AdminOpcode::QueryLinkErrors => self
                .query_link_errors(hal, port_num)
                .map(|r| body_of(r.as_bytes())),
            _ => Err((AdminStatus::BadOpcode, 0)),
        }
    }

    /// Truth about this card: what it lacks is zero.
    fn query_device<B: Bus>(&self, hal: &mut Hal<B>, func: u8) -> QueryDeviceResult {
        let mut d = QueryDeviceResult::new();
        d.set_fw_ver_major(crate::VERSION[0]);
        d.set_fw_ver_minor(crate::VERSION[1]);
        d.set_fw_ver_patch(crate::VERSION[2]);
        d.set_phys_port_cnt(self.num_ports);
        d.set_node_guid(self.ports[0].identity().guid);
        d.set_sys_image_guid(self.ports[0].identity().guid);
        d.set_max_mr_size(crate::memory::MAX_MR_BYTES);
        // Page sizes 4 KiB .. 1 GiB.
        d.set_page_size_cap(0x7fff_f000);
        d.set_device_cap_flags(
            device_cap::BAD_PKEY_CNTR
                | device_cap::CURR_QP_STATE_MOD
                | device_cap::RC_RNR_NAK_GEN
                | device_cap::PORT_ACTIVE_EVENT,
        );
        d.set_vendor_id(vendor_of(&self.ports[0].identity().mac));
        d.set_vendor_part_id(VENDOR_PART_ID);
        d.set_hw_ver(crate::HARDWARE_VERSION);
        d.set_max_qp(crate::NUM_QPS as u32 - 2);
        d.set_max_qp_wr(1 << MAX_LOG_WQ_SIZE);
        d.set_max_sge(MAX_SGE);
        d.set_max_sge_rd(MAX_SGE);
        d.set_max_cq(crate::NUM_CQS as u32);
        d.set_max_cqe(1 << MAX_LOG_CQ_SIZE);
        d.set_max_mr(crate::NUM_MRS as u32 - 1);
        d.set_max_pd(crate::NUM_PDS as u32 - 1);
        d.set_max_qp_rd_atom(crate::qp::MAX_RD_ATOMIC.into());
        d.set_max_res_rd_atom(u32::from(crate::qp::MAX_RD_ATOMIC) * crate::NUM_QPS as u32);
        d.set_max_qp_init_rd_atom(crate::qp::MAX_RD_ATOMIC.into());
        d.set_max_pkeys(crate::port::NUM_PKEYS as u16);
        d.set_max_gids(crate::port::NUM_GIDS as u16);
        d.set_local_ca_ack_delay(ACK_DELAY);
        d.set_num_comp_vectors(hal.vectors(func));
        d.set_max_eq(crate::NUM_EQS as u32);
        d.set_max_eqe(1 << MAX_LOG_EQ_SIZE);
        d.set_pacing_min_kbps(crate::rate::MIN_KBPS);
        d.set_pacing_max_kbps(crate::rate::PORT_KBPS);
        d.set_pacing_qp_types(1 << PACED_QP_TYPE);
        d.set_max_inline_data(MAX_INLINE_BYTES);
        d.set_max_mtt(crate::NUM_MTTS);
        d.set_completion_timestamp_mask(u64::MAX);
        d.set_hca_core_clock_khz(hal.clock_khz());
        d
    }

    /// The driver wrote CONTROL.
    pub(crate) fn function_control<B: Bus>(&mut self, hal: &mut Hal<B>, func: u8) {
        let (enable, reset) = hal.func_control(func);
        if reset || !enable {
            self.drop_function(hal, func);
            self.funcs[func as usize].enabled = false;
            hal.set_admin_status(func, 0, 0);
            if reset {
                hal.reset_done(func);
            }
            return;
        }
        let (sq_base, cq_base, log_size) = hal.admin_rings(func);
        let ok = log_size <= MAX_LOG_ADMIN_SIZE as u8 && sq_base % 64 == 0 && cq_base % 64 == 0;
        let f = &mut self.funcs[func as usize];
        // Counting starts where the doorbell stands: a new driver begins at 0 and rings after it has enabled.
        *f = crate::Func {
            enabled: ok,
            sq_base,
            cq_base,
            log_size,
            head: 0,
        };
        let status = if ok {
            AdminStatus::Ok
        } else {
            AdminStatus::BadParam
        };
        hal.set_admin_status(func, 0, status.into());
    }
}
