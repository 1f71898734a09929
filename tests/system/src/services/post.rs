//! Posts sends, receives, and the work of windows.

use hca_verbs::{Datagram, Flush, RecvWr, SendFlags, SendOp, SendWr, Sge, WrData, next_rkey};
use hca_wire::QPN_MULTICAST;

use super::build::QKEY;
use super::ledger::Ledger;
use super::plan::{Goal, Kind, LanePlan, Message};
use super::words::Asked;
use super::{ARMS, BIND_BIT, Handle, Key, MARK_BIT, Mark, RECV_BIT, Seat, Services, Stage, wrong};
use crate::plan::Piece;
use crate::rig::RigError;

pub(super) fn gather(ledger: &Ledger, pieces: &[Piece]) -> Vec<u8> {
    let pieces = pieces
        .iter()
        .map(|piece| ledger.expected(piece.offset, piece.len));
    pieces.collect::<Vec<_>>().concat()
}

pub(super) fn sges(ledger: &Ledger, pieces: &[Piece]) -> Vec<Sge> {
    pieces
        .iter()
        .map(|piece| ledger.mr.sge(piece.offset.into(), piece.len))
        .collect()
}

/// Cuts `bytes` as a scatter list does.
pub(super) fn cut<'b>(pieces: &[Piece], mut bytes: &'b [u8]) -> Vec<(u32, &'b [u8])> {
    let cut_one = |piece: &Piece| {
        let (now, rest) = bytes.split_at((piece.len as usize).min(bytes.len()));
        bytes = rest;
        (piece.offset, now)
    };
    pieces.iter().map(cut_one).collect()
}

impl Services<'_> {
    pub(super) fn post_receives(&mut self, pool: usize) -> Result<bool, RigError> {
        let plan = self.pool_plan(pool);
        let run = &mut self.pools[pool];
        if let Some(owner) = run.owner
            && !matches!(
                self.conns[self.plan.seats[owner].conn].stage,
                Stage::Running | Stage::Draining(_)
            )
        {
            return Ok(false);
        }
        let mut posted = false;
        loop {
            let outstanding = match &run.shared {
                Some(srq) => (srq.max_wr() - srq.free_slots()) as usize,
                None => run.posted.len(),
            };
            if outstanding >= plan.depth as usize {
                break;
            }
            let Some(buffer) = run.free.pop_front() else { break };
            let ledger = &mut self.ledgers[plan.region];
            let sges = sges(ledger, &plan.buffers[buffer]);
            let wr_id = (pool as u64) << 32 | RECV_BIT | buffer as u64;
            let wr = RecvWr { wr_id, sges: &sges };
            match (&run.shared, run.owner.map(|owner| &mut self.seats[owner].handle)) {
                (Some(srq), _) => srq.post_recv(&[wr])?,
                (None, Some(Handle::Qp(qp))) => qp.post_recv(&[wr])?,
                _ => return Err(wrong(format!("pool {pool} is nobody's"))),
            }
            for piece in &plan.buffers[buffer] {
                ledger.any(piece.offset, piece.len);
            }
            run.posted.push_back(buffer);
            posted = true;
        }
        if let (Some(srq), Some(shared)) = (&run.shared, &plan.shared)
            && shared.limit > 0
            && !run.is_armed
            && run.arms < ARMS
            && srq.max_wr() - srq.free_slots() > shared.limit
        {
            srq.arm_limit(shared.limit)?;
            (run.is_armed, run.arms) = (true, run.arms + 1);
        }
        Ok(posted)
    }

    /// How many messages of a lane may be posted now.
    fn room(&self, lane: usize) -> usize {
        let (run, plan) = (&self.lanes[lane], &self.plan.lanes[lane]);
        let seat = self.seat_plan(plan.seat);
        let conn = &self.conns[seat.conn];
        let may_post = match conn.stage {
            Stage::Running | Stage::Draining(_) => true,
            Stage::Falling { .. } => false,
            Stage::Leaving { seat, .. } => seat != plan.seat,
        };
        if !may_post || run.has_failed {
            return 0;
        }
        let room = (plan.depth as usize - (run.next - run.done)).min(plan.burst as usize);
        let bound = conn.window.as_ref().and_then(|window| window.bound);
        let may = |message: &&Message| message.epoch.is_none_or(|epoch| bound == Some(epoch));
        plan.messages[run.next..]
            .iter()
            .take(room)
            .take_while(may)
            .count()
    }

    pub(super) fn post_sends(&mut self, lane: usize) -> Result<bool, RigError> {
        let count = self.room(lane);
        if count == 0 {
            return Ok(false);
        }
        let plan = &self.plan.lanes[lane];
        let first = self.lanes[lane].next;
        let mut work = Vec::new();
        for at in first..first + count {
            work.push(self.prepare(lane, plan, at)?);
        }
        let Seat {
            handle: Handle::Qp(qp),
            ..
        } = &mut self.seats[plan.seat]
        else {
            return Err(wrong(format!("lane {lane} has no QP")));
        };
        let mut posting = qp.start_posting();
        for (message, work) in plan.messages[first..].iter().zip(&work) {
            let data = if message.inline {
                WrData::Inline(&work.bytes)
            } else {
                WrData::Sges(&work.sges)
            };
            let wr = SendWr {
                wr_id: work.wr_id,
                op: work.op,
                flags: SendFlags {
                    signaled: message.signaled,
                    solicited: message.solicited,
                    fence: message.fence,
                    ip_csum: false,
                },
                data,
            };
            let pushed = match (message.goal, work.to) {
                (Goal::Pool(_), to) => posting.push_xrc(&wr, to),
                (Goal::Peer, _) => posting.push(&wr),
                (goal, to) => {
                    let way = self.ways.get(&(plan.seat, goal));
                    let way = way.ok_or_else(|| wrong(format!("no way to {goal:?}")))?;
                    posting.push_datagram(&Datagram {
                        wr,
                        to: way.to(to, QKEY),
                    })
                }
            };
            pushed.map_err(|error| wrong(format!("lane {lane}, {:#x}: {error}", wr.wr_id)))?;
        }
        drop(posting);
        let run = &mut self.lanes[lane];
        run.due
            .extend((first..first + count).filter(|at| plan.messages[*at].signaled));
        run.next += count;
        Ok(true)
    }

    /// The last work request of a QP in ERR, if it is one that sends.
    pub(super) fn post_mark(&mut self, seat: usize) -> Result<(), RigError> {
        let Some(lane) = self.seat_plan(seat).lane else {
            return Ok(());
        };
        let goal = self.plan.lanes[lane].messages[0].goal;
        let to = self.number_of(goal);
        let wr = SendWr {
            wr_id: (lane as u64) << 32 | MARK_BIT,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        let Handle::Qp(qp) = &mut self.seats[seat].handle else {
            return Err(wrong(format!("lane {lane} has no QP")));
        };
        let mut posting = qp.start_posting();
        let pushed = match goal {
            Goal::Pool(_) => posting.push_xrc(&wr, to),
            Goal::Peer => posting.push(&wr),
            goal => {
                let way = self.ways.get(&(seat, goal));
                let way = way.ok_or_else(|| wrong(format!("no way to {goal:?}")))?;
                let to = way.to(to, QKEY);
                posting.push_datagram(&Datagram { wr, to })
            }
        };
        pushed.map_err(|error| wrong(format!("lane {lane}, its last work request: {error}")))?;
        drop(posting);
        self.lanes[lane].mark = Mark::Posted;
        Ok(())
    }

    /// What a message needs to be posted; from now on it may do what it does.
    fn prepare(&mut self, lane: usize, plan: &LanePlan, at: usize) -> Result<Work, RigError> {
        let message = &plan.messages[at];
        let (from, pieces) = &message.local;
        let sges = sges(&self.ledgers[*from], pieces);
        let bytes = gather(&self.ledgers[*from], pieces);
        let (region, place) = message.remote;
        match message.kind {
            Kind::Send { .. } | Kind::Flush { .. } => {}
            Kind::Write { .. } => self.ledgers[region].may(place.offset, &bytes),
            Kind::Read => {
                let coming = self.ledgers[region].expected(place.offset, place.len).to_vec();
                for (offset, bytes) in cut(pieces, &coming) {
                    self.ledgers[*from].may(offset, bytes);
                }
            }
            Kind::Add | Kind::Swap | Kind::MaskedAdd { .. } | Kind::MaskedSwap { .. } => {
                let word = (region, place.offset / 8);
                let mask = match message.kind {
                    Kind::Swap => Some(u64::MAX),
                    Kind::MaskedSwap { compare_mask, .. } => Some(compare_mask),
                    _ => None,
                };
                let compare = mask.map(|mask| (self.words.newest(word), mask));
                let asked = Asked {
                    word,
                    lane,
                    field: plan.field.unwrap_or_default(),
                    compare,
                };
                self.lanes[lane].asked.insert(at, asked);
                pieces
                    .iter()
                    .for_each(|piece| self.ledgers[*from].any(piece.offset, piece.len));
            }
        }
        Ok(Work {
            wr_id: (lane as u64) << 32 | at as u64,
            op: self.operation(lane, plan, at),
            sges,
            bytes,
            to: self.number_of(message.goal),
        })
    }

    fn number_of(&self, goal: Goal) -> u32 {
        match goal {
            Goal::Peer => 0,
            Goal::Pool(pool) => self.pools[pool]
                .shared
                .as_ref()
                .and_then(hca_verbs::Srq::number)
                .unwrap_or(0),
            // One that is gone: nobody has its last number any more.
            Goal::Seat(seat) => self.seats[seat].numbers.last().copied().unwrap_or(0),
            Goal::Group(_) => QPN_MULTICAST,
        }
    }

    fn operation(&self, lane: usize, plan: &LanePlan, at: usize) -> SendOp {
        let message = &plan.messages[at];
        let imm_data = message.imm;
        let (region, place) = message.remote;
        let mr = &self.ledgers[region].mr;
        let window = self.conns[self.plan.seats[plan.seat].conn].window.as_ref();
        let key = window
            .filter(|_| message.epoch.is_some())
            .map(|window| &window.key);
        let (base, rkey) = match key {
            None => (mr.addr(), mr.rkey()),
            Some(Key::Window(mw)) => (mr.addr(), mw.rkey()),
            Some(Key::Fast(fast)) => (fast.addr(), fast.key()),
        };
        let remote_addr = base + u64::from(place.offset);
        let asked = || self.lanes[lane].asked.get(&at).copied();
        let compare = || {
            asked()
                .and_then(|asked| asked.compare)
                .map_or(0, |(value, _)| value)
        };
        let one = 1 << (8 * plan.field.unwrap_or_default());
        match message.kind {
            Kind::Send { inv: true, .. } => SendOp::SendWithInv {
                invalidate_rkey: rkey,
            },
            Kind::Send { imm: true, .. } => SendOp::SendWithImm { imm_data },
            Kind::Send { .. } => SendOp::Send,
            Kind::Write { imm: false } => SendOp::RdmaWrite { remote_addr, rkey },
            Kind::Write { imm: true } => SendOp::RdmaWriteWithImm {
                remote_addr,
                rkey,
                imm_data,
            },
            Kind::Read => SendOp::RdmaRead { remote_addr, rkey },
            Kind::Add => SendOp::AtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: one,
            },
            Kind::Swap => {
                let compare = compare();
                SendOp::AtomicCmpAndSwp {
                    remote_addr,
                    rkey,
                    compare,
                    swap: compare.wrapping_add(one),
                }
            }
            Kind::MaskedAdd { boundaries } => SendOp::MaskedAtomicFetchAndAdd {
                remote_addr,
                rkey,
                add: one,
                boundaries,
            },
            Kind::MaskedSwap {
                compare_mask,
                swap_mask,
            } => {
                let compare = compare();
                SendOp::MaskedAtomicCmpAndSwp {
                    remote_addr,
                    rkey,
                    // What it does not look at may be anything.
                    compare: compare ^ (u64::from(imm_data) << 17 & !compare_mask),
                    compare_mask,
                    swap: compare.wrapping_add(one),
                    swap_mask,
                }
            }
            Kind::Flush { whole } => SendOp::Flush(Flush {
                remote_addr,
                rkey,
                length: place.len,
                placement: Flush::GLOBAL,
                whole_region: whole,
            }),
        }
    }

    /// A window's next turn begins when its messages are through: invalidated by the peer or here, bound again.
    pub(super) fn turn_window(&mut self, conn: usize) -> Result<bool, RigError> {
        let [first, second] = self.plan.conns[conn].seats[..] else {
            return Ok(false);
        };
        let Some(lane) = self.plan.seats[first].lane else {
            return Ok(false);
        };
        let plan = &self.plan.lanes[lane];
        let (run, target) = (&self.lanes[lane], self.plan.seats[second].region);
        let Some(window) = &mut self.conns[conn].window else {
            return Ok(false);
        };
        let next = window.bound.map_or(0, |epoch| epoch + 1);
        if window.binding.is_some() || next >= plan.epochs {
            return Ok(false);
        }
        let last = plan
            .messages
            .iter()
            .rposition(|message| message.epoch == window.bound);
        let is_over = window.bound.is_none() || last.is_some_and(|last| run.done > last);
        let has_inv = last.is_some_and(|last| matches!(plan.messages[last].kind, Kind::Send { .. }));
        if !is_over || (window.bound.is_some() && has_inv && !window.is_invalid) {
            return Ok(false);
        }
        let Handle::Qp(qp) = &mut self.seats[second].handle else {
            return Err(wrong(format!("the window of connection {conn} has no QP")));
        };
        let work = |op| SendWr {
            wr_id: (conn as u64) << 32 | BIND_BIT,
            op,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        let old = window.key.rkey();
        let bind = window.key.bind_op(next_rkey(old), &self.ledgers[target])?;
        if window.is_invalid {
            qp.post_send(&[work(bind)])?;
        } else {
            let invalidate = SendWr {
                wr_id: (conn as u64) << 32 | BIND_BIT | 1,
                ..work(SendOp::LocalInv { invalidate_rkey: old })
            };
            qp.post_send(&[invalidate, work(bind)])?;
        }
        (window.binding, window.is_invalid) = (Some(next), false);
        Ok(true)
    }
}

/// A work request, but for what borrows.
struct Work {
    wr_id: u64,
    op: SendOp,
    sges: Vec<Sge>,
    bytes: Vec<u8>,
    /// QP of a datagram, SRQ of XRC.
    to: u32,
}
