//! Its admin queue: commands that might be right, garbage, and what it learns from the answers.

use hca_abi::{
    ADMIN_DOORBELL_OFFSET, AdminCmd, AdminCpl, AdminOpcode, AdminStatus, CreateQpCmd, DOORBELL_PAGE_OFFSET,
    HandleResult, RegMrCmd,
};
use hca_dev::Device;

use super::commands::{Body, sound, spoil_command};
use super::{ADMIN_LOG_SIZE, Attacker, Ring};

/// Attempts in a row without an answer after which the client starts again.
const SILENCE: u32 = 400;
/// Of these attempts, so many to a doorbell.
const LOOKS_PER_RING: u32 = 16;

impl Attacker {
    /// A command that might be right, spoiled or not.
    pub(super) fn command(&mut self) {
        self.harvest();
        if self.is_full() {
            self.silence += 1;
            if self.silence.is_multiple_of(LOOKS_PER_RING) {
                // The last one may be there without its doorbell.
                self.ring_admin();
            }
            if self.silence > SILENCE {
                // Its admin queue has stopped: a ring that is gone, or a producer index beyond it.
                self.start_again();
            }
            return;
        }
        let opcode = self.draw_opcode();
        let mut body = sound(&mut self.rng, opcode, &self.known, &self.buffers, &self.target);
        if self.rng.percent(15) {
            spoil_command(&mut self.rng, opcode, &mut body);
        }
        self.post(opcode.into(), body);
        if self.rng.percent(80) {
            self.ring_admin();
        }
    }

    pub(super) fn garbage(&mut self) {
        let opcode = self.rng.u32() as u8;
        let mut body = [0; 248];
        self.rng.fill(&mut body);
        if !self.is_full() && opcode != u8::from(AdminOpcode::ModifyQp) {
            self.post(opcode, body);
            self.ring_admin();
        }
    }

    /// As many commands are under way as are to be; more than the ring holds stop the queue, which is to happen now and
    /// then.
    fn is_full(&mut self) -> bool {
        let most = if self.rng.percent(1) {
            (1 << ADMIN_LOG_SIZE) + 2
        } else {
            self.depth
        };
        self.under_way.len() >= most
    }

    /// What it lacks first, else anything.
    fn draw_opcode(&mut self) -> AdminOpcode {
        let known = &self.known;
        let wanted = [
            (known.pds.len() < 2, AdminOpcode::AllocPd),
            (known.eqs.is_empty(), AdminOpcode::CreateEq),
            (known.cqs.len() < 2, AdminOpcode::CreateCq),
            (known.qps.len() < 3, AdminOpcode::CreateQp),
            (!known.has_key_table, AdminOpcode::SetKeyTable),
            (known.keys.len() < 3, AdminOpcode::RegMr),
        ];
        let missing = wanted.iter().find(|(missing, _)| *missing);
        match missing {
            Some((_, opcode)) if self.rng.percent(70) => *opcode,
            _ if self.rng.percent(60) => AdminOpcode::ModifyQp,
            _ => self.rng.pick(AdminOpcode::ALL),
        }
    }

    fn post(&mut self, opcode: u8, body: Body) {
        let mut cmd = AdminCmd::new();
        cmd.set_opcode(opcode);
        cmd.set_command_id(self.next);
        cmd.set_body(body);
        let slot = usize::from(self.next) & ((1 << ADMIN_LOG_SIZE) - 1);
        self.admin[0].write_bytes(slot * AdminCmd::BYTES, cmd.as_bytes());
        self.under_way
            .push_back((self.next, AdminOpcode::try_from(opcode).ok(), body));
        self.next = self.next.wrapping_add(1);
    }

    fn ring_admin(&mut self) {
        let offset = DOORBELL_PAGE_OFFSET + ADMIN_DOORBELL_OFFSET;
        self.dev.mmio_write64(offset, self.next.into());
    }

    /// Learns from the answers that have come.
    fn harvest(&mut self) {
        while let Some((index, opcode, body)) = self.under_way.front().copied() {
            let slot = usize::from(index) & ((1 << ADMIN_LOG_SIZE) - 1);
            let mut cpl = AdminCpl::new();
            self.admin[1].read_bytes(slot * AdminCpl::BYTES, &mut cpl.0);
            if cpl.phase() != (index >> ADMIN_LOG_SIZE & 1 == 0) {
                return;
            }
            self.under_way.pop_front();
            self.silence = 0;
            self.tally.answers += 1;
            if cpl.status() != u8::from(AdminStatus::Ok) || cpl.command_id() != index {
                continue;
            }
            self.tally.done += 1;
            let number = HandleResult::read_from(&cpl.body()).map_or(0, |result| result.handle());
            if let Some(opcode) = opcode {
                self.learn(opcode, &body, number);
            }
        }
    }

    fn learn(&mut self, opcode: AdminOpcode, body: &Body, number: u32) {
        if opcode == AdminOpcode::ResetFunc {
            self.forget();
        }
        if let Some(numbers) = self.known.made(opcode) {
            numbers.push(number);
            // Old ones may still be there; so many at most are named.
            numbers.drain(..numbers.len().saturating_sub(12));
        }
        self.known.changed(opcode, body);
        match opcode {
            AdminOpcode::ModifyQp => {
                let rings = self.sends.iter_mut().chain(&mut self.recvs);
                for ring in rings.filter(|ring| self.known.is_new(ring.qpn)) {
                    ring.next = 0;
                }
            }
            AdminOpcode::CreateQp => {
                let cmd = CreateQpCmd::read_from(body).unwrap_or_default();
                let ring = |base, log_size, log_stride| Ring {
                    qpn: number,
                    base,
                    log_size,
                    log_stride,
                    next: 0,
                };
                let (send, recv) = (
                    ring(cmd.sq_base(), cmd.sq_log_size(), cmd.sq_log_stride()),
                    ring(cmd.rq_base(), cmd.rq_log_size(), cmd.rq_log_stride()),
                );
                push_bounded(&mut self.sends, send);
                push_bounded(&mut self.recvs, recv);
            }
            AdminOpcode::RegMr => {
                let cmd = RegMrCmd::read_from(body).unwrap_or_default();
                push_bounded(&mut self.regions, (number, cmd.start()));
            }
            _ => {}
        }
    }
}

/// Twelve at most; the oldest goes.
fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    list.push(item);
    list.drain(..list.len().saturating_sub(12));
}
