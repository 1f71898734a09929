//! The sending side of a QP: which packet leaves next (IBA vol1 9.7.3, 9.8.3).

mod answers;
mod credits;
mod segment;

pub(crate) use segment::{SMOOTH_PACKETS, opcode_of};

use std::collections::VecDeque;

use hca_abi::WcStatus;
use hca_wire::{Link, Psn};

use crate::ahead::Ahead;
use crate::config::QpConfig;
use crate::packet::Packet;
use crate::timers::ack_timeout_ns;
use crate::work::{Completion, SendRequest, Wqe};
use crate::world::World;

/// PSNs that posted work may take: less than half of all, so that earlier and later stay apart.
const PSNS_MAX: i32 = 1 << 22;

/// How long a requester waits for another path when its own has failed (decision 0070).
const PATH_WAIT_NS: u64 = 160_000;

/// A send WQE at fault: it completes with this once everything before it has.
#[derive(Clone, Copy, Debug)]
struct Broken {
    first: Psn,
    status: WcStatus,
}

/// A send queue and how far it is. `una <= cursor <= sent <= end`, as PSNs go.
pub(crate) struct Requester {
    /// Not completed yet, oldest first.
    queue: VecDeque<Wqe>,
    /// Oldest PSN without an answer.
    una: Psn,
    /// The next packet to send.
    cursor: Psn,
    /// Behind the last one that was ever sent.
    sent: Psn,
    /// Behind the last one of all posted work.
    end: Psn,
    retries_left: u8,
    rnr_left: u8,
    /// When the time for an answer is over.
    deadline: Option<u64>,
    /// RNR: nothing is sent before.
    rnr_until: Option<u64>,
    /// What is missing of a READ has been asked for again, and nothing of it has come yet.
    asked_again: bool,
    broken: Option<Broken>,
    /// Messages posted, modulo 2^24.
    ssn: u32,
    /// Messages up to this one may be sent, as far as receives are needed; `None`: the peer tells of no limit.
    lsn: Option<u32>,
}

impl Requester {
    pub fn new(config: &QpConfig) -> Self {
        Self {
            queue: VecDeque::new(),
            una: config.sq_psn,
            cursor: config.sq_psn,
            sent: config.sq_psn,
            end: config.sq_psn,
            retries_left: config.retry_cnt,
            rnr_left: config.rnr_retry,
            deadline: None,
            rnr_until: None,
            asked_again: false,
            broken: None,
            ssn: 0,
            lsn: (config.manners.credits && config.service == crate::Service::Rc).then_some(0),
        }
    }

    /// Takes a request; one that is longer than PSNs allow comes back.
    pub fn post(&mut self, config: &QpConfig, request: SendRequest) -> Option<SendRequest> {
        let packets = request.len().div_ceil(config.mtu_bytes().into()).max(1);
        let len = u32::try_from(request.len()).ok();
        let packets = u32::try_from(packets).ok();
        let (Some(len), Some(packets)) = (len, packets) else {
            return Some(request);
        };
        let ahead = i64::from(self.end.distance_from(self.una)) + i64::from(packets);
        if ahead > i64::from(PSNS_MAX) {
            return Some(request);
        }
        self.ssn = (self.ssn + 1) & 0xff_ffff;
        self.queue.push_back(Wqe {
            request,
            len,
            ssn: self.ssn,
            first: self.end,
            packets,
            asked_from: Vec::new(),
            begun: false,
            is_smooth: false,
            fetched: false,
            ahead: Ahead::default(),
        });
        self.end = self.end.wrapping_add(packets);
        None
    }

    /// Work that has not completed.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// A packet has left later than it was made.
    pub fn packet_left(&mut self, now: u64, config: &QpConfig) {
        if self.deadline.is_some() {
            self.deadline = ack_timeout_ns(config.timeout).map(|limit| now + limit);
        }
    }

    /// Takes requests back of which nothing has been sent: how many, from the last one on.
    pub fn take_back(&mut self) -> usize {
        let mut taken = 0;
        while let Some(wqe) = self.queue.pop_back_if(|wqe| !wqe.begun) {
            self.end = wqe.first;
            self.broken = self.broken.filter(|broken| broken.first != wqe.first);
            taken += 1;
        }
        taken
    }

    /// UD: where the next packet goes.
    pub fn next_link(&self) -> Option<Link> {
        let wqe = self.queue.iter().find(|wqe| wqe.contains(self.cursor))?;
        wqe.request.destination.map(|destination| destination.link)
    }

    /// Something is left to send, and no wait keeps it back; the window may. What is before a WQE at fault is sent
    /// again if it has to be.
    #[inline]
    pub fn may_send(&self) -> bool {
        let is_whole = self
            .broken
            .is_none_or(|broken| self.cursor.is_before(broken.first));
        is_whole && self.cursor != self.end && self.rnr_until.is_none()
    }

    /// What was any packet becomes the next one. False: none may leave now. A WQE at fault becomes
    /// [`Requester::fault`].
    pub fn next_packet(
        &mut self,
        now: u64,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> bool {
        if !self.may_send() {
            return false;
        }
        let found = self.queue.iter().position(|wqe| wqe.contains(self.cursor));
        let Some(index) = found.filter(|index| self.may_begin(*index, config)) else {
            return false;
        };
        let wqe = &mut self.queue[index];
        let at = self.cursor.distance_from(wqe.first) as u32;
        if let Err(status) = segment::build(wqe, (at, 1), config, world, packet) {
            self.broken = Some(Broken {
                first: wqe.first,
                status,
            });
            return false;
        }
        self.finish(packet, index, config);
        if config.service.is_reliable() {
            self.deadline = ack_timeout_ns(config.timeout).map(|limit| now + limit);
        } else if self.cursor.is_after(self.queue[index].last()) {
            // OP-19: it has been sent out, and that is all that counts.
            self.una = self.cursor;
            self.complete_front(config, world);
        }
        true
    }

    /// Packets that leave next and change nothing before the one behind them does: MIDDLE packets of a WRITE or a SEND
    /// that ask for no answer, and of UC as many as would ask for none. The first packet of a message is none of them,
    /// nor one that is sent again.
    pub fn middles_ahead(&self, config: &QpConfig) -> u32 {
        let sends_new = self.may_send() && self.cursor == self.sent;
        let found = self.queue.iter().rev().find(|wqe| wqe.contains(self.cursor));
        let Some(wqe) = found.filter(|wqe| sends_new && wqe.is_smooth && !self.lacks_credit(wqe)) else {
            return 0;
        };
        let at = self.cursor.distance_from(wqe.first) as u32;
        if at == 0 {
            return 0;
        }
        let to_last = wqe.packets - 1 - at;
        let every = config.manners.ask_every.max(1);
        let to_ask = every - 1 - at % every;
        let ahead = self.cursor.distance_from(self.una) as u32 + 1;
        let in_window = match config.service.is_reliable() {
            true => config.manners.window.saturating_sub(ahead),
            false => u32::MAX,
        };
        to_last.min(to_ask).min(in_window)
    }

    /// What was any packet becomes the next `count`, not more than [`Requester::middles_ahead`], of which the last one
    /// leaves now. False: their data cannot be read any more.
    pub fn put_middles(
        &mut self,
        now: u64,
        count: u32,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> bool {
        let found = self.queue.iter().position(|wqe| wqe.contains(self.cursor));
        let Some(wqe) = found.and_then(|index| self.queue.get_mut(index)) else {
            return false;
        };
        let at = self.cursor.distance_from(wqe.first) as u32;
        if segment::build(wqe, (at, count), config, world, packet).is_err() {
            // One after the other, so that the right one is at fault.
            wqe.is_smooth = false;
            return false;
        }
        self.cursor = self.cursor.wrapping_add(count);
        self.sent = self.cursor;
        if config.service.is_reliable() {
            self.deadline = ack_timeout_ns(config.timeout).map(|limit| now + limit);
        }
        true
    }

    /// Window, fence and the limit of READs (OP-13, OP-23).
    fn may_begin(&self, index: usize, config: &QpConfig) -> bool {
        let wqe = &self.queue[index];
        if !config.service.is_reliable() {
            return true;
        }
        if self.cursor.distance_from(self.una) >= config.manners.window as i32 {
            return false;
        }
        if self.lacks_credit(wqe) && self.cursor != self.una {
            return false;
        }
        let fetching = self
            .queue
            .iter()
            .take(index)
            .filter(|wqe| wqe.request.op.fetches() && !wqe.fetched);
        let outstanding = fetching.count();
        let fenced = wqe.request.flags.fence && outstanding > 0;
        let too_many = wqe.request.op.fetches() && outstanding >= usize::from(config.max_rd_atomic);
        !(fenced || too_many)
    }

    /// Moves on behind a packet, and decides whether it asks for an answer.
    fn finish(&mut self, packet: &mut Packet, index: usize, config: &QpConfig) {
        let probes = self.lacks_credit(&self.queue[index]);
        let wqe = &mut self.queue[index];
        let at = self.cursor.distance_from(wqe.first) as u32;
        wqe.begun = true;
        let next = if wqe.request.op.fetches() {
            wqe.asked_from.push(self.cursor);
            wqe.last().wrapping_add(1)
        } else {
            self.cursor.wrapping_add(1)
        };
        let is_last = self.cursor == wqe.last() || wqe.request.op.fetches();
        let closes = next.distance_from(self.una) >= config.manners.window as i32;
        let asks = is_last || closes || probes || (at + 1).is_multiple_of(config.manners.ask_every.max(1));
        packet.ack_req = config.service.is_reliable() && asks;
        self.cursor = next;
        if next.is_after(self.sent) {
            self.sent = next;
        }
    }

    /// The status of the WQE at fault, if its turn has come: everything before it has completed.
    pub fn fault(&self) -> Option<WcStatus> {
        let broken = self.broken?;
        let front = self.queue.front()?;
        (front.first == broken.first).then_some(broken.status)
    }

    /// The oldest WQE completes with this, all others are flushed (QPS-13, QPS-14).
    pub fn fail(&mut self, config: &QpConfig, status: WcStatus, world: &mut dyn World) {
        if let Some(wqe) = self.queue.pop_front() {
            let completion = Completion::of_send(config.qpn, &wqe.request, status);
            world.complete(completion);
        }
        self.flush(config, world);
    }

    /// Everything that has not completed is flushed.
    pub fn flush(&mut self, config: &QpConfig, world: &mut dyn World) {
        for wqe in self.queue.drain(..) {
            let completion = Completion::of_send(config.qpn, &wqe.request, WcStatus::WrFlushErr);
            world.complete(completion);
        }
        (self.una, self.cursor, self.sent) = (self.end, self.end, self.end);
        (self.deadline, self.rnr_until, self.broken) = (None, None, None);
    }

    /// The oldest WQE has been carried out.
    fn complete_front(&mut self, config: &QpConfig, world: &mut dyn World) {
        let Some(wqe) = self.queue.pop_front() else {
            return;
        };
        if wqe.request.flags.signaled {
            let completion = Completion::of_send(config.qpn, &wqe.request, WcStatus::Success);
            world.complete(completion);
        }
    }

    /// When time changes something by itself.
    pub fn next_timeout(&self) -> Option<u64> {
        // An RNR wait stands in for the acknowledge's time.
        self.rnr_until.or(self.deadline)
    }

    /// The time for an answer is over.
    pub fn awaits_answer(&self, now: u64) -> bool {
        self.rnr_until.is_none() && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Time has come to `now`. Returns with what the oldest WQE fails, if it does.
    pub fn handle_timeout(&mut self, now: u64) -> Option<WcStatus> {
        if self.rnr_until.is_some() {
            self.rnr_until = self.rnr_until.filter(|until| *until > now);
            return None;
        }
        self.deadline.filter(|deadline| *deadline <= now)?;
        self.deadline = None;
        self.go_back()
    }

    /// The budgets are new: what is spent was spent on another path (APM-5).
    pub fn renew_retries(&mut self, config: &QpConfig) {
        (self.retries_left, self.rnr_left) = (config.retry_cnt, config.rnr_retry);
    }

    /// APM-1: the path has failed, and there is another one. Meanwhile it is as after an RNR NAK, and the retries begin
    /// anew.
    pub fn wait_for_path(&mut self, now: u64, config: &QpConfig) {
        self.renew_retries(config);
        self.rnr_until = Some(now + PATH_WAIT_NS);
        self.deadline = None;
        self.cursor = self.una;
    }

    /// REL-3: everything from the oldest PSN without an answer on is sent again, if a retry is left.
    fn go_back(&mut self) -> Option<WcStatus> {
        if self.una == self.sent {
            return None;
        }
        let Some(left) = self.retries_left.checked_sub(1) else {
            return Some(WcStatus::RetryExcErr);
        };
        self.retries_left = left;
        self.cursor = self.una;
        None
    }
}
