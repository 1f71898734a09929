//! The admin queue: one command at a time. One that is not answered within the time limit stays in the ring; its answer
//! is absorbed when it comes, and what it has made by then is destroyed, for nobody knows of it.

use std::collections::VecDeque;

use hca_abi::{AdminCmd, AdminCpl, AdminOpcode, AdminStatus, HandleCmd, HandleResult};
use hca_dev::{Device, DmaBuf};
use hca_regs::{FUNC_ADMIN_STATUS, FUNC_ADMIN_STATUS_ERROR_MASK, FUNC_STATUS, FUNC_STATUS_FATAL_MASK, field};

use crate::base::device::DevicePtr;
use crate::base::doorbell::Doorbells;
use crate::base::error::{AdminError, DriverError};
use crate::base::owner::{is_ours, phase_of, read_entry};

const OWNER_OFFSET: usize = 252;
/// What a register of a lost device reads.
const ALL_ONES: u32 = u32::MAX;
/// Turns of a waiting loop between two looks at the registers: each look is a round trip to the card.
const TURNS_PER_LOOK: u32 = 64;

/// Body of a completion.
pub(crate) type CplBody = [u8; 244];

/// Both admin rings.
pub(crate) struct AdminQueue<P> {
    doorbells: Doorbells<P>,
    commands: DmaBuf,
    completions: DmaBuf,
    log_size: u8,
    next: u16,
    timeout_ns: u64,
    /// Commands that nobody waits for any more, oldest first: index and opcode.
    late: VecDeque<(u16, u8)>,
    /// What they made: how to destroy it.
    orphans: VecDeque<(AdminOpcode, u32)>,
    stopped: Option<Option<AdminStatus>>,
}

impl<P: DevicePtr> AdminQueue<P> {
    /// Bytes of each ring.
    pub fn ring_bytes(log_size: u8) -> usize {
        AdminCmd::BYTES << log_size
    }

    /// The queue of a function that has just been enabled, over zeroed rings.
    pub fn new(
        doorbells: Doorbells<P>,
        (commands, completions): (DmaBuf, DmaBuf),
        log_size: u8,
        timeout_ns: u64,
    ) -> Self {
        Self {
            doorbells,
            commands,
            completions,
            log_size,
            next: 0,
            timeout_ns,
            late: VecDeque::new(),
            orphans: VecDeque::new(),
            stopped: None,
        }
    }

    /// Both rings, to be released.
    pub fn memory(&self) -> [DmaBuf; 2] {
        [self.commands.clone(), self.completions.clone()]
    }

    /// Does one command.
    pub fn issue(&mut self, opcode: AdminOpcode, body: &[u8]) -> Result<CplBody, DriverError> {
        let cpl = self.issue_raw(opcode.into(), body)?;
        match AdminStatus::try_from(cpl.status()) {
            Ok(AdminStatus::Ok) => Ok(cpl.body()),
            Ok(status) => Err(AdminError {
                opcode,
                status,
                detail: cpl.detail(),
            }
            .into()),
            Err(e) => Err(DriverError::BadAnswer {
                what: "an admin command's status",
                value: e.code.into(),
            }),
        }
    }

    /// Sends any bytes as a command, known or not.
    pub fn issue_raw(&mut self, opcode: u8, body: &[u8]) -> Result<AdminCpl, DriverError> {
        self.absorb();
        while let Some((destroy, handle)) = self.orphans.pop_front() {
            let mut cmd = HandleCmd::new();
            cmd.set_handle(handle);
            self.issue_one(destroy.into(), cmd.as_bytes())?;
        }
        self.issue_one(opcode, body)
    }

    /// Takes the answers that came too late.
    fn absorb(&mut self) {
        while let Some((index, opcode)) = self.late.front().copied() {
            let at = self.offset(index);
            let phase = phase_of(index.into(), self.log_size);
            if !is_ours(&self.completions, at + OWNER_OFFSET, phase) {
                break;
            }
            self.late.pop_front();
            let cpl = AdminCpl(read_entry::<_, 32>(&self.completions, at));
            if let Some(destroy) = destroyer_of(opcode)
                && cpl.status() == u8::from(AdminStatus::Ok)
            {
                self.orphans
                    .push_back((destroy, HandleResult(cpl.body()).handle()));
            }
        }
    }

    /// Where the entry of a command is in either ring.
    fn offset(&self, index: u16) -> usize {
        (usize::from(index) & ((1 << self.log_size) - 1)) * AdminCmd::BYTES
    }

    fn issue_one(&mut self, opcode: u8, body: &[u8]) -> Result<AdminCpl, DriverError> {
        if let Some(status) = self.stopped {
            return Err(DriverError::AdminQueueStopped { status });
        }
        let entries = 1 << self.log_size;
        if self.late.len() >= entries {
            return Err(DriverError::AdminQueueFull { entries });
        }
        let mut cmd = AdminCmd::new();
        cmd.set_opcode(opcode);
        cmd.set_command_id(self.next);
        let mut padded = [0; 248];
        let len = body.len().min(padded.len());
        padded[..len].copy_from_slice(&body[..len]);
        cmd.set_body(padded);
        let index = self.next;
        let at = self.offset(index);
        self.commands.write_bytes(at, cmd.as_bytes());
        self.next = index.wrapping_add(1);
        self.doorbells.admin(self.next);
        match self.wait_owner(at, index) {
            Ok(()) => {}
            Err(e @ DriverError::Timeout { .. }) => {
                self.late.push_back((index, opcode));
                return Err(e);
            }
            Err(e) => {
                self.stopped.get_or_insert(None);
                return Err(e);
            }
        }
        let cpl = AdminCpl(read_entry::<_, 32>(&self.completions, at));
        if cpl.command_id() != index {
            self.stopped = Some(None);
            let value = cpl.command_id().into();
            return Err(DriverError::BadAnswer {
                what: "an admin command's id",
                value,
            });
        }
        Ok(cpl)
    }

    fn wait_owner(&mut self, at: usize, index: u16) -> Result<(), DriverError> {
        let dev = self.doorbells.device();
        let start_ns = dev.now_ns();
        let phase = phase_of(index.into(), self.log_size);
        let mut turn = 0u32;
        loop {
            let seen = dev.activity();
            if is_ours(&self.completions, at + OWNER_OFFSET, phase) {
                return Ok(());
            }
            turn = turn.saturating_add(1);
            if turn.is_multiple_of(TURNS_PER_LOOK) {
                let status = look(dev)?;
                if status != AdminStatus::Ok {
                    self.stopped = Some(Some(status));
                    return Err(DriverError::AdminQueueStopped { status: Some(status) });
                }
            }
            let waited_ns = dev.now_ns().saturating_sub(start_ns);
            if waited_ns > self.timeout_ns {
                return Err(DriverError::Timeout {
                    what: "the completion of an admin command",
                    waited_ns,
                });
            }
            dev.rest(seen, turn);
        }
    }
}

/// The command that destroys what another has made, whose handle is its answer.
fn destroyer_of(opcode: u8) -> Option<AdminOpcode> {
    match AdminOpcode::try_from(opcode) {
        Ok(AdminOpcode::AllocPd) => Some(AdminOpcode::DeallocPd),
        Ok(AdminOpcode::CreateEq) => Some(AdminOpcode::DestroyEq),
        Ok(AdminOpcode::CreateCq) => Some(AdminOpcode::DestroyCq),
        Ok(AdminOpcode::CreateQp) => Some(AdminOpcode::DestroyQp),
        Ok(AdminOpcode::RegMr) => Some(AdminOpcode::DeregMr),
        Ok(AdminOpcode::AllocMw) => Some(AdminOpcode::DeallocMw),
        _ => None,
    }
}

/// State of the admin queue as the registers tell.
fn look<D: Device + ?Sized>(dev: &D) -> Result<AdminStatus, DriverError> {
    let status = dev.mmio_read32(FUNC_STATUS);
    if status == ALL_ONES {
        return Err(DriverError::Gone);
    }
    if field(status, FUNC_STATUS_FATAL_MASK) != 0 {
        return Err(DriverError::Fatal);
    }
    let code = field(dev.mmio_read32(FUNC_ADMIN_STATUS), FUNC_ADMIN_STATUS_ERROR_MASK);
    AdminStatus::try_from(code as u8).map_err(|e| DriverError::BadAnswer {
        what: "register ADMIN_STATUS",
        value: e.code.into(),
    })
}
