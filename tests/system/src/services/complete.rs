//! Takes completions, and judges those of sends.

use hca_verbs::{Service, WcOpcode, WcStatus, WorkCompletion};

use super::plan::{Kind, Message};
use super::post::{cut, gather};
use super::{BIND_BIT, Key, MARK_BIT, MODERATION_CYCLES, Mark, RECV_BIT, Services, Stage, Window, wrong};
use crate::rig::RigError;

/// Which completions are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// Of queues with events those whose event has come.
    Due,
    /// All, whatever events are on their way.
    All,
    /// All, and their events must have come by now.
    Last,
}

impl Services<'_> {
    pub(super) fn take_completions(&mut self, take: Take) -> Result<bool, RigError> {
        let mut changed = false;
        for node in 0..2 {
            for index in 0..self.cqs[node].len() {
                let run = &self.cqs[node][index];
                let mut due = true;
                if let Some(channel) = &run.channel {
                    due = channel.poll_event().is_some();
                    if due {
                        while channel.poll_event().is_some() {}
                        run.cq.req_notify(false)?;
                    }
                }
                if !due && take == Take::Due {
                    continue;
                }
                let mut wc = [WorkCompletion::default()];
                while self.cqs[node][index].cq.poll_ready(&mut wc)? == 1 {
                    if !due && take == Take::Last {
                        return Err(wrong(format!(
                            "node {node}: a completion, {:?}, and no event within {MODERATION_CYCLES} cycles",
                            wc[0]
                        )));
                    }
                    changed = true;
                    self.completions += u64::from(wc[0].wr_id & (RECV_BIT | MARK_BIT) != MARK_BIT);
                    self.take(node, &wc[0])?;
                }
            }
        }
        Ok(changed)
    }

    fn take(&mut self, node: usize, wc: &WorkCompletion) -> Result<(), RigError> {
        let here = format!("node {node}, QP {:#x}, work request {:#x}", wc.qp_num, wc.wr_id);
        let seat = self
            .seat_at(node, wc.qp_num)
            .or_else(|| self.target_before(node, wc.qp_num));
        let Some(seat) = seat else {
            return Err(wrong(format!(
                "{here}: completed, and no QP has this number: {wc:?}"
            )));
        };
        let index = (wc.wr_id >> 32) as usize;
        let at = (wc.wr_id & (BIND_BIT - 1)) as usize;
        if !wc.is_ok() {
            self.expect_failure(seat, wc, &here)?;
        }
        if wc.wr_id & RECV_BIT != 0 {
            self.take_receive(seat, index, at, wc, &here)
        } else if wc.wr_id & BIND_BIT != 0 {
            self.take_bind(index, at == 1, wc, &here)
        } else if wc.wr_id & MARK_BIT != 0 {
            self.take_mark(seat, index, wc, &here)
        } else {
            self.take_send(seat, index, at, wc, &here)
        }
    }

    /// A failure is one of a connection that something has happened to; the first one of some begins its end.
    fn expect_failure(&mut self, seat: usize, wc: &WorkCompletion, here: &str) -> Result<(), RigError> {
        let conn = &mut self.conns[self.plan.seats[seat].conn];
        match conn.stage {
            Stage::Falling { .. } | Stage::Leaving { .. } => Ok(()),
            Stage::Running | Stage::Draining(_) if conn.may_fail => {
                conn.stage = Stage::Falling {
                    seat,
                    grace: 8,
                    told: false,
                };
                Ok(())
            }
            stage => Err(wrong(format!(
                "{here}: {:?}, vendor code {:#x}, of a connection that is {stage:?}",
                wc.status, wc.vendor_err
            ))),
        }
    }

    fn take_bind(
        &mut self,
        conn: usize,
        is_inv: bool,
        wc: &WorkCompletion,
        here: &str,
    ) -> Result<(), RigError> {
        let window = self.conns.get_mut(conn).and_then(|conn| conn.window.as_mut());
        let opcode_of = |window: &Window| match window.key {
            _ if is_inv => WcOpcode::LocalInv,
            Key::Window(_) => WcOpcode::BindMw,
            Key::Fast(_) => WcOpcode::RegMr,
        };
        let Some(window) = window.filter(|window| wc.opcode == opcode_of(window)) else {
            return Err(wrong(format!("{here}: {wc:?} of a window")));
        };
        if !is_inv {
            window.bound = window.binding.take();
        }
        Ok(())
    }

    /// QPS-14: everything before it has completed; what was not signaled and is not flushed was carried out.
    fn take_mark(
        &mut self,
        seat: usize,
        lane: usize,
        wc: &WorkCompletion,
        here: &str,
    ) -> Result<(), RigError> {
        let plan = self.plan.lanes.get(lane).filter(|plan| plan.seat == seat);
        let run = self.lanes.get_mut(lane).filter(|run| run.mark == Mark::Posted);
        let (Some(run), true) = (run, plan.is_some() && wc.status == WcStatus::WrFlushErr) else {
            return Err(wrong(format!("{here}: {wc:?} of the last work request of a QP")));
        };
        let (done, next) = (run.done, run.next);
        if !run.due.is_empty() || (run.has_failed && done != next) {
            return Err(wrong(format!(
                "{here}: {done} of {next} posted are done, {:?} were due, and nothing comes behind this one",
                run.due
            )));
        }
        (run.mark, run.done) = (Mark::Back, next);
        for at in done..next {
            self.settle(lane, at, here)?;
        }
        Ok(())
    }

    /// V-112, QPS-16: in order, each once; after one that fails all of them fail.
    fn take_send(
        &mut self,
        seat: usize,
        lane: usize,
        at: usize,
        wc: &WorkCompletion,
        here: &str,
    ) -> Result<(), RigError> {
        let Some(plan) = self.plan.lanes.get(lane).filter(|plan| plan.seat == seat) else {
            return Err(wrong(format!("{here}: completed at another QP's place")));
        };
        let run = &mut self.lanes[lane];
        let due = run.due.front().copied();
        let in_order = (run.done..run.next).contains(&at) && due.is_none_or(|due| at <= due);
        let (must_be_next, is_ok) = (wc.is_ok() || run.has_failed, wc.is_ok());
        let right = in_order
            && (!must_be_next || is_ok || at == run.done)
            && (!is_ok || (due == Some(at) && !run.has_failed));
        if !right {
            let (done, next) = (run.done, run.next);
            return Err(wrong(format!(
                "{here}: {:?} of message {at} of lane {lane}, but {due:?} was due; {done} done, {next} posted",
                wc.status
            )));
        }
        if run.has_failed && wc.status != WcStatus::WrFlushErr {
            return Err(wrong(format!("{here}: {:?} after one has failed", wc.status)));
        }
        if due == Some(at) {
            run.due.pop_front();
        }
        let here = &format!("{here}, {:?}", wc.status);
        let before = run.done;
        (run.done, run.has_failed) = (at + 1, run.has_failed || !is_ok);
        for done in before..at + usize::from(is_ok) {
            self.settle(lane, done, here)?;
        }
        if !is_ok {
            self.lose(lane, at);
        }
        if is_ok {
            judge_send(&plan.messages[at], wc, here)
        } else {
            Ok(())
        }
    }

    /// A work request has succeeded: what it was for is so.
    fn settle(&mut self, lane: usize, at: usize, here: &str) -> Result<(), RigError> {
        let plan = &self.plan.lanes[lane];
        let message = &plan.messages[at];
        let here = &format!("{here}, message {at} of lane {lane}, {:?}", message.kind);
        let is_reliable = matches!(self.seat_plan(plan.seat).service, Service::Rc | Service::Xrc);
        let (from, pieces) = &message.local;
        let (region, place) = message.remote;
        match message.kind {
            // It is on its way into the peer's memory, and nothing stops it.
            Kind::Write { .. } if is_reliable => {
                let bytes = gather(&self.ledgers[*from], pieces);
                if self.ledgers[region].comes(place.offset, &bytes) {
                    Ok(())
                } else {
                    Err(wrong(format!(
                        "{here}: done though its target was taken away before"
                    )))
                }
            }
            Kind::Read => {
                let bytes = self.ledgers[region].expected(place.offset, place.len).to_vec();
                for (offset, bytes) in cut(pieces, &bytes) {
                    self.arrived(*from, offset, bytes, here)?;
                }
                Ok(())
            }
            // What it speaks of is in memory when it completes.
            Kind::Flush { whole } => {
                let born = self.lanes[lane].born;
                for before in &plan.messages[born..at] {
                    let (of, written) = before.remote;
                    let is_spoken_of = of == region && (whole || written == place);
                    if !matches!(before.kind, Kind::Write { .. }) || !is_spoken_of {
                        continue;
                    }
                    let bytes = gather(&self.ledgers[before.local.0], &before.local.1);
                    self.arrived(of, written.offset, &bytes, here)?;
                }
                Ok(())
            }
            Kind::Add | Kind::Swap | Kind::MaskedAdd { .. } | Kind::MaskedSwap { .. } => {
                let found = self.ledgers[*from].found(pieces[0].offset, 8)?;
                self.ledgers[*from].must(pieces[0].offset, &found);
                let found = u64::from_le_bytes(found.try_into().unwrap_or_default());
                match self.lanes[lane].asked.remove(&at) {
                    Some(asked) => self.words.done(&asked, found),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// These bytes must be there, now and to the end (law 4 of the card).
    pub(super) fn arrived(
        &mut self,
        region: usize,
        offset: u32,
        bytes: &[u8],
        here: &str,
    ) -> Result<(), RigError> {
        let ledger = &mut self.ledgers[region];
        ledger.must(offset, bytes);
        if ledger.holds(offset, bytes.len() as u32)? {
            Ok(())
        } else {
            Err(wrong(format!(
                "{here}: completed before its {} bytes at {offset:#x} of region {region} were there, or they are wrong",
                bytes.len()
            )))
        }
    }

    /// Whether this one was carried out nobody will say.
    pub(super) fn lose(&mut self, lane: usize, at: usize) {
        if let Some(asked) = self.lanes[lane].asked.remove(&at) {
            self.words.lose(&asked);
        }
    }
}

fn judge_send(message: &Message, wc: &WorkCompletion, here: &str) -> Result<(), RigError> {
    let (opcode, fetched) = match message.kind {
        Kind::Send { .. } => (WcOpcode::Send, None),
        Kind::Write { .. } => (WcOpcode::RdmaWrite, None),
        Kind::Read => (WcOpcode::RdmaRead, Some(message.len)),
        Kind::Add => (WcOpcode::FetchAdd, Some(8)),
        Kind::Swap => (WcOpcode::CompSwap, Some(8)),
        Kind::MaskedAdd { .. } => (WcOpcode::MaskedFetchAdd, Some(8)),
        Kind::MaskedSwap { .. } => (WcOpcode::MaskedCompSwap, Some(8)),
        Kind::Flush { .. } => (WcOpcode::Flush, Some(0)),
    };
    if wc.opcode != opcode || fetched.is_some_and(|len| wc.byte_len != len) {
        return Err(wrong(format!(
            "{here}: {:?} of {} bytes instead of {opcode:?}, {fetched:?}",
            wc.opcode, wc.byte_len
        )));
    }
    Ok(())
}
