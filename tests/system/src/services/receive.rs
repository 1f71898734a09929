//! Judges receives: which message is it, may it come now, is it whole?

use hca_verbs::{Service, WcOpcode, WorkCompletion, wc_flag};

use super::plan::{GRH_BYTES, Goal, Kind, Message};
use super::post::{cut, gather};
use super::{Services, wrong};
use crate::plan::Piece;
use crate::rig::RigError;

/// IBV_WC_WITH_INV.
const WITH_INV: u8 = 1 << 3;

impl Services<'_> {
    pub(super) fn take_receive(
        &mut self,
        seat: usize,
        pool: usize,
        buffer: usize,
        wc: &WorkCompletion,
        here: &str,
    ) -> Result<(), RigError> {
        let plan = self
            .plan
            .pools
            .get(pool)
            .ok_or_else(|| wrong(format!("{here}: no such queue")))?;
        let run = &mut self.pools[pool];
        let place = run.posted.iter().position(|posted| *posted == buffer);
        // A queue of its own completes in order; one that is shared in any.
        let right = match place {
            Some(0) => true,
            Some(_) => run.shared.is_some(),
            None => false,
        };
        if !right {
            let next = run.posted.front();
            return Err(wrong(format!(
                "{here}: completed, but receive {next:?} of pool {pool} was due"
            )));
        }
        run.posted.retain(|posted| *posted != buffer);
        let pieces = &plan.buffers[buffer];
        if !wc.is_ok() {
            self.seal(plan.region, pieces)?;
            self.pools[pool].free.push_back(buffer);
            return Ok(());
        }
        let (lane, at) = self.find(seat, pool, wc, pieces, here)?;
        let message = &self.plan.lanes[lane].messages[at];
        let is_write = matches!(message.kind, Kind::Write { .. });
        let header = if self.plan.seats[seat].service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        let received = if is_write { 0 } else { header + message.len };
        if plan.is_clean {
            // OP-4, and behind the end of a message: as it was.
            for piece in pieces {
                self.ledgers[plan.region].as_before(piece.offset, piece.len);
            }
            let bytes = gather(&self.ledgers[message.local.0], &message.local.1);
            for (offset, bytes) in cut(pieces, &bytes[..received as usize]) {
                self.arrived(plan.region, offset, bytes, here)?;
            }
        } else {
            self.seal(plan.region, pieces)?;
        }
        if is_write {
            let bytes = gather(&self.ledgers[message.local.0], &message.local.1);
            self.arrived(message.remote.0, message.remote.1.offset, &bytes, here)?;
        }
        if matches!(message.kind, Kind::Send { inv: true, .. }) {
            self.invalidated(seat, wc, here)?;
        }
        Ok(())
    }

    /// What a receive that is over holds stays.
    pub(super) fn seal(&mut self, region: usize, pieces: &[Piece]) -> Result<(), RigError> {
        pieces
            .iter()
            .try_for_each(|piece| self.ledgers[region].freeze(piece.offset, piece.len))
    }

    fn invalidated(&mut self, seat: usize, wc: &WorkCompletion, here: &str) -> Result<(), RigError> {
        let window = self.conns[self.plan.seats[seat].conn].window.as_mut();
        match window {
            Some(window) if wc.wc_flags & WITH_INV != 0 && wc.imm_data == window.key.rkey() => {
                window.is_invalid = true;
                Ok(())
            }
            _ => Err(wrong(format!(
                "{here}: {wc:?} does not say which key was invalidated"
            ))),
        }
    }

    /// The message that has come: the next one of a connection that is reliable, a later one of one that is not, any
    /// that was sent of datagrams.
    fn find(
        &mut self,
        seat: usize,
        pool: usize,
        wc: &WorkCompletion,
        pieces: &[Piece],
        here: &str,
    ) -> Result<(usize, usize), RigError> {
        let bytes = self.received(pool, pieces)?;
        let service = self.plan.seats[seat].service;
        let found = match service {
            Service::Ud => self.find_datagram(seat, wc, &bytes),
            _ => self.find_next(seat, pool, wc, &bytes),
        };
        let Some((lane, at)) = found else {
            let due = self.due(seat);
            return Err(wrong(format!(
                "{here}: {:?} of {} bytes, flags {:#x}, immediate {:#x} from QP {:#x}, is no message of {service:?} \
                 that may come now: lost, torn, or there already; due is {due}",
                wc.opcode, wc.byte_len, wc.wc_flags, wc.imm_data, wc.src_qp
            )));
        };
        Ok((lane, at))
    }

    fn due(&self, seat: usize) -> String {
        let lane = self.peer(seat).and_then(|peer| self.plan.seats[peer].lane);
        let Some(lane) = lane else {
            return "any datagram".to_owned();
        };
        let (run, plan) = (&self.lanes[lane], &self.plan.lanes[lane]);
        let next = (run.heard..run.next).find(|at| plan.messages[*at].kind.receives());
        let message = next.map(|at| &plan.messages[at]);
        let what = message.map(|message| (message.kind, message.len, message.imm));
        format!(
            "message {next:?} of lane {lane}, {what:x?}, of {} posted",
            run.next
        )
    }

    fn received(&self, pool: usize, pieces: &[Piece]) -> Result<Vec<u8>, RigError> {
        let ledger = &self.ledgers[self.plan.pools[pool].region];
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend(ledger.found(piece.offset, piece.len)?);
        }
        Ok(bytes)
    }

    fn find_next(
        &mut self,
        seat: usize,
        pool: usize,
        wc: &WorkCompletion,
        bytes: &[u8],
    ) -> Option<(usize, usize)> {
        let lane = self.plan.seats[self.peer(seat)?].lane?;
        let plan = &self.plan.lanes[lane];
        let run = &self.lanes[lane];
        let mut open = (run.heard..run.next).filter(|at| plan.messages[*at].kind.receives());
        let goes_here = |message: &Message| match message.goal {
            Goal::Pool(to) => to == pool,
            _ => true,
        };
        let fits =
            |at: &usize| goes_here(&plan.messages[*at]) && self.fits(&plan.messages[*at], wc, bytes, 0);
        let at = match self.plan.seats[seat].service {
            Service::Uc => open.find(fits)?,
            // SRQs of XRC complete in CQs of their own: what went to another one may be seen later.
            Service::Xrc => {
                let mut here = open
                    .filter(|at| goes_here(&plan.messages[*at]) && !run.heard_by.contains_key(&(*at, seat)));
                here.next().filter(fits)?
            }
            _ => open.next().filter(fits)?,
        };
        let run = &mut self.lanes[lane];
        run.heard_by.insert((at, seat), 1);
        let heard = |at: usize| !plan.messages[at].kind.receives() || run.heard_by.contains_key(&(at, seat));
        let in_turn = self.plan.seats[seat].service == Service::Xrc;
        run.heard = if in_turn {
            (run.heard..run.next).find(|at| !heard(*at)).unwrap_or(run.next)
        } else {
            at + 1
        };
        Some((lane, at))
    }

    fn find_datagram(&mut self, seat: usize, wc: &WorkCompletion, bytes: &[u8]) -> Option<(usize, usize)> {
        let groups: Vec<usize> = self.groups_of(seat).collect();
        let numbers = |from: usize| self.seats[from].numbers.contains(&wc.src_qp);
        let from = |lane: &usize| {
            let from = self.plan.lanes[*lane].seat;
            self.plan.seats[from].service == Service::Ud && numbers(from)
        };
        let lanes = (0..self.lanes.len()).filter(from);
        let mut open = lanes.flat_map(|lane| (0..self.lanes[lane].next).map(move |at| (lane, at)));
        let found = open.find(|(lane, at)| {
            let message = &self.plan.lanes[*lane].messages[*at];
            let comes_here = match message.goal {
                Goal::Seat(to) => to == seat,
                Goal::Group(group) => groups.contains(&group),
                _ => false,
            };
            let heard = self.lanes[*lane].heard_by.get(&(*at, seat)).copied().unwrap_or(0);
            comes_here && heard < self.copies && self.fits(message, wc, bytes, GRH_BYTES)
        })?;
        *self.lanes[found.0].heard_by.entry((found.1, seat)).or_insert(0) += 1;
        Some(found)
    }

    /// Is it this message, whole?
    fn fits(&self, message: &Message, wc: &WorkCompletion, bytes: &[u8], header: u32) -> bool {
        let is_write = matches!(message.kind, Kind::Write { .. });
        let opcode = if is_write {
            WcOpcode::RecvRdmaWithImm
        } else {
            WcOpcode::Recv
        };
        let has_imm = wc.wc_flags & wc_flag::WITH_IMM != 0;
        let imm_fits = message.kind.has_imm() == has_imm && (!has_imm || wc.imm_data == message.imm);
        if (wc.opcode, wc.byte_len) != (opcode, header + message.len) || !imm_fits {
            return false;
        }
        let sent = gather(&self.ledgers[message.local.0], &message.local.1);
        let there = bytes.get(header as usize..).unwrap_or_default();
        is_write || there.get(..sent.len()) == Some(&sent[..])
    }
}
