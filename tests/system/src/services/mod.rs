//! A program of function 2 of both cards that uses every service at once: RC, UC, UD and XRC, receive queues of
//! their own and shared ones, windows, atomics, device memory, multicast, completion queues with moderated events;
//! and that takes its QPs and regions away in the middle of it.
//!
//! What must hold: RC and XRC deliver exactly once and in order, up to the moment when somebody ends a connection;
//! UC delivers at most once, in order, UD at most once for each copy that the network makes, and neither ever a torn
//! message; an atomic is done once; no byte changes that no message names, nor after the command that took it away.

mod build;
mod complete;
mod deeds;
mod draft;
mod ledger;
mod paths;
mod plan;
mod post;
mod receive;
mod words;

use std::collections::{HashMap, VecDeque};

use hca_dev::Device;
use hca_link::LinkKind;
use hca_verbs::{
    Access, Ah, CompChannel, Cq, EventKind, FastMr, Mw, RawQp, SendOp, Service, Srq, XrcTarget, Xrcd,
};

use crate::judge::Judge;
use crate::node::{Dev, Node};
use crate::plan::Plan;
use crate::rig::{Rig, RigError};
use crate::rng::Rng;

use complete::Take;
use ledger::Ledger;
pub(crate) use paths::join_partition;
pub(crate) use plan::ServicesPlan;
#[cfg(test)]
pub(crate) use plan::undrawn;
use plan::{Goal, PoolPlan, SeatPlan};
use words::{Asked, Words};

/// The function whose program it is.
pub(crate) const FUNC: u8 = 2;
/// Bits of a wr_id that mark a receive, and a window's work; the lane, pool or connection is above, the index below.
const RECV_BIT: u64 = 1 << 31;
const BIND_BIT: u64 = 1 << 30;
/// The work request behind all others of a QP that has come to ERR.
const MARK_BIT: u64 = 1 << 29;
/// Work requests of a window at a time, beside those of a lane.
const BINDS: u32 = 2;
/// The same for [`Mark`].
const MARKS: u32 = 1;
/// Longest time that a moderated event waits, and some.
const MODERATION_CYCLES: u64 = 6_000;
/// An event has come by then, behind the slowest host and firmware.
const EVENT_NS: u64 = 500_000;
/// Times that a limit is armed.
const ARMS: u32 = 4;

fn wrong(text: String) -> RigError {
    RigError::Wrong(format!("services: {text}"))
}

enum Handle {
    Qp(Box<RawQp<Dev>>),
    Target(XrcTarget<Dev>),
    Gone,
}

/// A QP or target, now and before.
struct Seat {
    handle: Handle,
    /// All numbers that it has had, the newest one last.
    numbers: Vec<u32>,
    /// QP_LAST_WQE_REACHED has come since it left RESET.
    last_wqe: bool,
    /// What it sends is drained.
    drained: bool,
}

impl Seat {
    fn number(&self) -> Option<u32> {
        match &self.handle {
            Handle::Qp(qp) => Some(qp.qp_num()),
            Handle::Target(target) => Some(target.qp_num()),
            Handle::Gone => None,
        }
    }
}

/// Receives.
struct Pool {
    shared: Option<Srq<Dev>>,
    /// The QP whose own queue it is.
    owner: Option<usize>,
    /// Buffers that are not posted.
    free: VecDeque<usize>,
    /// In order.
    posted: VecDeque<usize>,
    /// Of an SRQ: the limit is armed; times it was.
    is_armed: bool,
    arms: u32,
    /// Since then fewer are posted than the limit.
    below_ns: Option<u64>,
}

/// Messages of a seat on their way.
#[derive(Default)]
struct Lane {
    /// The first one of this life of its QP.
    born: usize,
    /// To be posted next.
    next: usize,
    /// Before it all have completed.
    done: usize,
    /// Signaled and not completed.
    due: VecDeque<usize>,
    /// One has failed since the QP was connected.
    has_failed: bool,
    /// Of the receiver: before it all have been delivered, or will never be.
    heard: usize,
    /// By message: deliveries, of datagrams by the seat that got them.
    heard_by: HashMap<(usize, usize), u32>,
    /// By message: the atomic that was asked for.
    asked: HashMap<usize, Asked>,
    mark: Mark,
}

/// A work request that is posted when a QP has come to ERR. Before it comes back flushed, everything has completed that
/// ever will: what was not signaled may have been carried out before, and nobody says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    #[default]
    None,
    Posted,
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// This seat goes through SQD.
    Draining(usize),
    /// This seat is in ERR, the peer will be told after so many turns, or has been.
    Falling {
        seat: usize,
        grace: u32,
        told: bool,
    },
    /// This seat is gone, the peer will be after so many turns.
    Leaving {
        seat: usize,
        grace: u32,
        destroys: bool,
    },
}

struct Conn {
    stage: Stage,
    /// A region has been taken away under it: a failure is no surprise.
    may_fail: bool,
    window: Option<Window>,
}

/// What work requests make good and good for nothing.
enum Key {
    Window(Mw<Dev>),
    /// A region for fast registration.
    Fast(FastMr<Dev>),
}

impl Key {
    fn rkey(&self) -> u32 {
        match self {
            Self::Window(mw) => mw.rkey(),
            Self::Fast(mr) => mr.key(),
        }
    }

    /// Operation that makes it good for all of a region under another key, which is its key from then on.
    fn bind_op(&mut self, rkey: u32, ledger: &Ledger) -> Result<SendOp, RigError> {
        match self {
            Self::Window(mw) => {
                let mr = &ledger.mr;
                let op = mw.bind_op(rkey, mr, mr.addr(), mr.length(), Access::REMOTE_WRITE);
                mw.set_rkey(rkey);
                Ok(op)
            }
            Self::Fast(mr) => ledger.reg_op(mr, rkey),
        }
    }
}

/// A window of the second seat, or a region for fast registration in its place.
struct Window {
    key: Key,
    /// Its turn: bound, and waited for.
    bound: Option<u32>,
    binding: Option<u32>,
    /// The peer has invalidated it.
    is_invalid: bool,
}

struct CqRun {
    cq: Cq<Dev>,
    channel: Option<CompChannel<Dev>>,
}

/// The program at work.
pub(crate) struct Services<'a> {
    plan: &'a ServicesPlan,
    link: LinkKind,
    rng: Rng,
    judge: Judge,
    timeout: u8,
    /// The cables make so many of a packet at most.
    copies: u32,
    seats: Vec<Seat>,
    pools: Vec<Pool>,
    lanes: Vec<Lane>,
    conns: Vec<Conn>,
    words: Words,
    ways: HashMap<(usize, Goal), Ah<Dev>>,
    ledgers: Vec<Ledger>,
    xrcds: [Option<Xrcd<Dev>>; 2],
    cqs: [Vec<CqRun>; 2],
    nodes: [Node; 2],
    /// Completions so far.
    completions: u64,
    next_deed: usize,
}

impl<'a> Services<'a> {
    /// Makes everything, and connects.
    pub fn new(
        rig: &mut Rig,
        seed: u64,
        whole: &Plan,
        plan: &'a ServicesPlan,
        judge: &Judge,
    ) -> Result<Self, RigError> {
        let open = |card| -> Result<Node, RigError> { Ok(Node::open(rig.sim.device(card, FUNC)?, 16)?) };
        let nodes = [open(rig.cards[0])?, open(rig.cards[1])?];
        let mut rng = Rng::new(seed, "services at work");
        let mut ledgers = Vec::new();
        for (index, region) in plan.regions.iter().enumerate() {
            ledgers.push(Ledger::new(&nodes[region.node], index, region, &mut rng)?);
        }
        for words in plan.words.into_iter().flatten() {
            ledgers[words].clear()?;
        }
        let mut services = Self {
            plan,
            link: whole.link,
            rng,
            judge: judge.clone(),
            timeout: whole.swarm.ack_timeout(),
            copies: if whole.faults.dup > 0.0 {
                1 << rig.cables.len()
            } else {
                1
            },
            seats: Vec::new(),
            pools: Vec::new(),
            lanes: plan.lanes.iter().map(|_| Lane::default()).collect(),
            conns: Vec::new(),
            words: Words::default(),
            ways: HashMap::new(),
            ledgers,
            xrcds: [None, None],
            cqs: [Vec::new(), Vec::new()],
            nodes,
            completions: 0,
            next_deed: 0,
        };
        services.build()?;
        Ok(services)
    }

    fn seat_plan(&self, seat: usize) -> &'a SeatPlan {
        &self.plan.seats[seat]
    }

    fn pool_plan(&self, pool: usize) -> &'a PoolPlan {
        &self.plan.pools[pool]
    }

    /// The other seat of its connection.
    fn peer(&self, seat: usize) -> Option<usize> {
        let seats = &self.plan.conns[self.seat_plan(seat).conn].seats;
        seats.iter().copied().find(|other| *other != seat)
    }

    /// The seat that has this number now.
    fn seat_at(&self, node: usize, number: u32) -> Option<usize> {
        (0..self.seats.len())
            .find(|seat| self.plan.seats[*seat].node == node && self.seats[*seat].number() == Some(number))
    }

    /// A target of XRC that is no more: what its SRQs have completed for it is still there.
    fn target_before(&self, node: usize, number: u32) -> Option<usize> {
        (0..self.seats.len()).find(|seat| {
            let plan = &self.plan.seats[*seat];
            plan.node == node && plan.is_target && self.seats[*seat].numbers.contains(&number)
        })
    }

    /// Takes completions and events, posts what there is room for, and does what is due to QPs. False: nothing changed.
    pub fn turn(&mut self, rig: &mut Rig) -> Result<bool, RigError> {
        let mut changed = self.take_events()?;
        changed |= self.take_completions(Take::Due)?;
        changed |= self.do_deeds(rig)?;
        for pool in 0..self.pools.len() {
            self.expect_limit(pool)?;
            changed |= self.post_receives(pool)?;
        }
        for conn in 0..self.conns.len() {
            changed |= self.turn_window(conn)?;
        }
        for lane in 0..self.lanes.len() {
            changed |= self.post_sends(lane)?;
        }
        Ok(changed)
    }

    /// What has been looked for has come: only what may be lost is still out.
    pub fn is_done(&self) -> bool {
        let settled = self.conns.iter().all(|conn| conn.stage == Stage::Running);
        settled && (0..self.lanes.len()).all(|lane| self.is_lane_done(lane))
    }

    fn is_lane_done(&self, lane: usize) -> bool {
        let (run, plan) = (&self.lanes[lane], &self.plan.lanes[lane]);
        let sent = run.done == plan.messages.len();
        let heard = || {
            plan.messages[run.heard..]
                .iter()
                .all(|message| !message.kind.receives())
        };
        let service = self.seat_plan(plan.seat).service;
        sent && (matches!(service, Service::Uc | Service::Ud) || heard())
    }

    /// What is not done yet, for the message of a failure.
    pub fn missing(&self) -> String {
        let mut text = Vec::new();
        for (index, conn) in self.conns.iter().enumerate() {
            if conn.stage != Stage::Running {
                text.push(format!("connection {index} is {:?}", conn.stage));
            }
        }
        for lane in (0..self.lanes.len()).filter(|lane| !self.is_lane_done(*lane)) {
            let (run, plan) = (&self.lanes[lane], &self.plan.lanes[lane]);
            let seat = self.seat_plan(plan.seat);
            let kind = |at: usize| {
                plan.messages
                    .get(at)
                    .map(|message| (message.kind, message.len, message.epoch))
            };
            text.push(format!(
                "lane {lane} of {:?} connection {}, node {} QP {:#x?}: {} of {} posted, {} done (next {:?}), {} heard \
                 (next {:?})",
                seat.service,
                seat.conn,
                seat.node,
                self.seats[plan.seat].number(),
                run.next,
                plan.messages.len(),
                run.done,
                kind(run.done),
                run.heard,
                kind(run.heard)
            ));
        }
        format!("services: [{}]", text.join("; "))
    }

    /// After everything has completed and the cards are at rest.
    pub fn check_end(&mut self, rig: &mut Rig) -> Result<(), RigError> {
        rig.run(MODERATION_CYCLES);
        self.take_events()?;
        self.take_completions(Take::Last)?;
        for ledger in &self.ledgers {
            ledger.check()?;
        }
        for region in self.plan.words.into_iter().flatten() {
            for at in 0..self.plan.regions[region].len / 8 {
                let bytes = self.ledgers[region].found(8 * at, 8)?;
                let holds = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                self.words.check((region, at), holds)?;
            }
        }
        for (pool, plan) in self.pools.iter().zip(&self.plan.pools) {
            let (Some(srq), Some(shared)) = (&pool.shared, &plan.shared) else {
                continue;
            };
            let there = srq.max_wr() - srq.free_slots();
            if pool.is_armed && (there < shared.limit || pool.below_ns.is_some()) {
                return Err(wrong(format!(
                    "SRQ {} has {there} receives, and the limit of {} was not told",
                    srq.srqn(),
                    shared.limit
                )));
            }
        }
        Ok(())
    }

    pub fn messages(&self) -> u64 {
        self.plan.messages().count() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.plan.messages().map(|message| u64::from(message.len)).sum()
    }

    fn take_events(&mut self) -> Result<bool, RigError> {
        let mut changed = false;
        for node in 0..2 {
            while let Some(event) = self.nodes[node].context.poll_async_event() {
                changed = true;
                self.take_event(node, event.kind, event.id)?;
            }
        }
        Ok(changed)
    }

    fn take_event(&mut self, node: usize, kind: EventKind, id: u32) -> Result<(), RigError> {
        let here = format!("node {node}: event {kind:?} about {id:#x}");
        match kind {
            EventKind::CommEst => return Ok(()),
            EventKind::SrqLimitReached => return self.limit_reached(node, id, &here),
            _ => {}
        }
        let Some(seat) = self.seat_at(node, id) else {
            // Of a QP that has been destroyed since.
            let was =
                |seat: usize| self.plan.seats[seat].node == node && self.seats[seat].numbers.contains(&id);
            let known = (0..self.seats.len()).any(was);
            return if known {
                Ok(())
            } else {
                Err(wrong(format!("{here}, which is nobody's")))
            };
        };
        let conn = &self.conns[self.plan.seats[seat].conn];
        match kind {
            EventKind::SqDrained if conn.stage == Stage::Draining(seat) && !self.seats[seat].drained => {
                self.seats[seat].drained = true;
                Ok(())
            }
            // It was drained, and fails for want of its region.
            EventKind::SqDrained
                if conn.may_fail
                    && matches!(conn.stage, Stage::Falling { .. })
                    && !self.seats[seat].drained =>
            {
                self.seats[seat].drained = true;
                Ok(())
            }
            EventKind::QpLastWqeReached if !self.seats[seat].last_wqe => {
                self.seats[seat].last_wqe = true;
                Ok(())
            }
            EventKind::PathMig if self.plan.conns[self.plan.seats[seat].conn].has_path => Ok(()),
            EventKind::QpAccessErr | EventKind::QpReqErr | EventKind::QpFatal if conn.may_fail => Ok(()),
            _ => Err(wrong(format!("{here}, a QP of connection {:?}", conn.stage))),
        }
    }

    /// SPEC-6: fewer posted than the limit are told, in time.
    fn expect_limit(&mut self, pool: usize) -> Result<(), RigError> {
        let now_ns = self.nodes[0].dev.now_ns();
        let run = &mut self.pools[pool];
        let (Some(srq), Some(shared)) = (&run.shared, &self.plan.pools[pool].shared) else {
            return Ok(());
        };
        if run.is_armed && srq.max_wr() - srq.free_slots() < shared.limit {
            run.below_ns.get_or_insert(now_ns);
        }
        match run.below_ns {
            Some(since) if now_ns > since + EVENT_NS => Err(wrong(format!(
                "SRQ {} has had less than its limit of {} for {EVENT_NS} ns, and that was not told",
                srq.srqn(),
                shared.limit
            ))),
            _ => Ok(()),
        }
    }

    fn limit_reached(&mut self, node: usize, id: u32, here: &str) -> Result<(), RigError> {
        for (pool, plan) in self.pools.iter_mut().zip(&self.plan.pools) {
            let Some(srq) = pool
                .shared
                .as_ref()
                .filter(|srq| plan.node == node && srq.srqn() == id)
            else {
                continue;
            };
            if !pool.is_armed {
                return Err(wrong(format!(
                    "{here}, and no limit of SRQ {} is armed",
                    srq.srqn()
                )));
            }
            (pool.is_armed, pool.below_ns) = (false, None);
            return Ok(());
        }
        Err(wrong(format!("{here}, which is nobody's")))
    }
}
