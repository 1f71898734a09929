//! Rules of the requester: what it sends, given the answers that have arrived.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};

use hca_wire::{NakCode, Opcode, Operation, Psn, Syndrome, atomic_eth, feth, reth};

use super::credits::Credits;
use super::message::Message;
use super::{AHEAD_PSNS, ConnectionSpec, MISSING_MAX, NAK_SELECTIVE};
use crate::config::Service;
use crate::packet::Packet;
use crate::timers::{ack_timeout_ns, rnr_wait_ns};

/// Requests that are remembered: more than are ever outstanding, and their copies.
const KEPT: usize = 1 << 15;

/// A request as it was sent the first time.
pub(super) struct Sent {
    pub psn: Psn,
    /// Behind its last PSN; a READ takes those of its response.
    pub end: Psn,
    pub opcode: Opcode,
    feth: Option<feth::Repr>,
    reth: Option<reth::Repr>,
    atomic: Option<atomic_eth::Repr>,
    payload: u64,
    last_ns: u64,
    /// Messages that end with it or before it, modulo 2^24.
    pub messages: u32,
}

/// Why a requester may go back: something that has arrived.
#[derive(Clone, Copy)]
struct Cause {
    /// PSN of a NAK, or of an answer beyond what was lost.
    psn: Psn,
    rnr: bool,
    /// Number of the answer.
    answer: u64,
}

/// Causes that are remembered: one that slow memory has kept from being acted on counts still.
const CAUSES: usize = 16;

pub(super) struct Requests {
    pub sent: VecDeque<Sent>,
    start: Psn,
    /// Behind the last PSN ever used.
    pub next: Psn,
    /// What is due in this pass.
    cursor: Psn,
    /// Selective: where it was when it went back.
    places: VecDeque<Psn>,
    message: Message,
    messages: u32,
    credits: Credits,
    /// Behind the last PSN for which there is an answer, and data.
    answered: Psn,
    /// Selective: READ data that has arrived behind it.
    ahead: Vec<Psn>,
    causes: VecDeque<Cause>,
    retries: u32,
    rnr_retries: u32,
    /// Answers that have arrived, and of them the last one that was progress.
    answers: u64,
    progress: u64,
    /// Not before this time, this PSN.
    rnr_wait: Option<(u64, Psn, u64)>,
    /// When its packets were last not in one row.
    pass_ns: u64,
    dead_ns: Option<u64>,
}

impl Requests {
    pub fn new(spec: &ConnectionSpec, from: usize) -> Self {
        let start = spec.ends[from].sq_psn;
        Self {
            sent: VecDeque::new(),
            start,
            next: start,
            cursor: start,
            places: VecDeque::new(),
            message: Message::default(),
            messages: 0,
            // Selective: an MSN counts packets, and nobody outside sees which of them are one message.
            credits: Credits::new(spec.credits[from] && spec.service == Service::Rc && !spec.selective),
            answered: start,
            ahead: Vec::new(),
            causes: VecDeque::new(),
            retries: 0,
            rnr_retries: 0,
            answers: 0,
            progress: 0,
            rnr_wait: None,
            pass_ns: 0,
            dead_ns: None,
        }
    }

    /// The request that a PSN belongs to, if it is remembered.
    pub fn at(&self, psn: Psn) -> Option<&Sent> {
        self.sent.get(self.index(psn)?)
    }

    fn index(&self, psn: Psn) -> Option<usize> {
        let index = self.sent.partition_point(|sent| !sent.psn.is_after(psn));
        let index = index.checked_sub(1)?;
        psn.is_before(self.sent.get(index)?.end).then_some(index)
    }

    /// Messages that end before a PSN; `None`: nobody remembers.
    pub fn messages_before(&self, psn: Psn) -> Option<u32> {
        if psn == self.start {
            return Some(0);
        }
        let sent = self.at(psn.wrapping_sub(1))?;
        Some(sent.messages)
    }

    /// READs and atomics from one PSN up to another.
    pub fn fetches(&self, from: Psn, to: Psn) -> impl Iterator<Item = &Sent> {
        let first = self.sent.partition_point(|sent| !sent.end.is_after(from));
        let rest = self.sent.range(first..);
        rest.take_while(move |sent| sent.psn.is_before(to))
            .filter(|sent| fetches(sent.opcode))
    }

    /// Whether a PSN and all from another one on belong to READs: data behind a gap is kept of those alone.
    fn only_reads(&self, from: Psn, to: Psn) -> bool {
        let (Some(first), Some(last)) = (self.index(from), self.index(to)) else {
            return false;
        };
        let mut all = self.sent.range(first..=last);
        all.all(|sent| sent.opcode.operation() == Some(Operation::ReadRequest))
    }

    fn cause(&mut self, psn: Psn, rnr: bool) {
        if self.causes.len() == CAUSES {
            self.causes.pop_front();
        }
        let answer = self.answers;
        self.causes.push_back(Cause { psn, rnr, answer });
    }

    /// How far an answer to everything before a PSN leads: not past data that has not come.
    fn reach(&self, through: Psn) -> Psn {
        let missing = self.fetches(self.answered, through).next().map(|sent| sent.psn);
        match missing {
            Some(psn) if psn.is_after(self.answered) => psn,
            Some(_) if through != self.answered => self.answered,
            _ => through,
        }
    }

    /// An answer has arrived.
    pub fn answered(&mut self, ns: u64, packet: &Packet, spec: &ConnectionSpec) {
        let is_old = packet.psn.is_before(self.answered.wrapping_sub(1));
        let is_data = packet.opcode.operation() != Some(Operation::Acknowledge);
        if !packet.psn.is_before(self.next) {
            return;
        }
        // Data that comes again may be news to a card that has dropped it the first time.
        if !is_old || is_data && spec.drops_inside {
            self.credits.told(packet);
        }
        if is_old {
            return;
        }
        self.answers += 1;
        let syndrome = packet.ext.aeth.map(|aeth| Syndrome::from_byte(aeth.syndrome));
        let acks = matches!(syndrome, Some(Syndrome::Ack { .. }));
        let next = packet.psn.wrapping_add(1);
        let through = if acks && !is_data { next } else { packet.psn };
        let mut reached = self.reach(through);
        if reached != through {
            // Data in between has been lost: it is asked for again. What is in front of the gap is answered by this.
            self.cause(packet.psn, false);
            let near = (1..=AHEAD_PSNS).contains(&packet.psn.distance_from(reached));
            let kept = near && self.only_reads(reached, packet.psn);
            if spec.selective && is_data && kept && !self.ahead.contains(&packet.psn) {
                self.ahead.push(packet.psn);
            }
        } else if is_data {
            reached = next;
            while self.ahead.contains(&reached) {
                reached = reached.wrapping_add(1);
            }
            if self.ahead.iter().any(|psn| psn.is_after(reached)) {
                // Another gap behind the one that is filled.
                self.cause(reached, false);
            }
        }
        match syndrome {
            Some(Syndrome::Nak(NakCode::PsnSequence) | Syndrome::Reserved(NAK_SELECTIVE)) => {
                self.cause(packet.psn, false);
            }
            Some(Syndrome::RnrNak(timer)) => {
                self.cause(packet.psn, true);
                // One that comes while the first one's time runs answers an older copy, and says nothing new.
                let waits = |(_, psn, until): (u64, Psn, u64)| psn == packet.psn && ns < until;
                if !self.rnr_wait.is_some_and(waits) {
                    // Where data is missing in front of it, that goes first.
                    let told = (ns, packet.psn, ns + rnr_wait_ns(timer));
                    self.rnr_wait = (reached == through).then_some(told);
                }
            }
            // As above: it fails when that has come, or does not come.
            Some(Syndrome::Nak(_)) if reached == through => self.dead_ns = Some(ns),
            _ => {}
        }
        if reached.is_after(self.answered) {
            self.answered = reached;
            self.ahead.retain(|psn| psn.is_after(reached));
            (self.retries, self.rnr_retries) = (0, 0);
            self.progress = self.answers;
        }
    }

    /// A request leaves.
    pub fn request(&mut self, ns: u64, packet: &Packet, spec: &ConnectionSpec) -> Result<(), String> {
        if self.dead_ns.is_some_and(|dead| ns > dead + spec.pipeline_ns) {
            return Err("a request after the NAK that has ended the QP".to_owned());
        }
        if packet.psn != self.cursor {
            self.pass_ns = ns;
        }
        self.keeps_rnr_wait(ns, packet, spec)?;
        let distance = packet.psn.distance_from(self.next);
        if distance > 0 {
            return Err(format!("PSN {} though {} is the next one", packet.psn, self.next));
        }
        if packet.psn != self.cursor {
            self.moves(ns, packet.psn, spec)?;
        }
        if distance == 0 {
            self.new_packet(ns, packet, spec)
        } else {
            self.repeated(ns, packet, spec)
        }
    }

    /// REL-8. A pass that had begun when the card heard of it may go on: behind a slow host its packets wait for their
    /// payload long after they were made.
    fn keeps_rnr_wait(&mut self, ns: u64, packet: &Packet, spec: &ConnectionSpec) -> Result<(), String> {
        let Some((told, psn, until)) = self.rnr_wait else {
            return Ok(());
        };
        if ns >= until || self.answered.is_after(psn) {
            self.rnr_wait = None;
        } else if packet.psn == psn && self.pass_ns > told + spec.pipeline_ns {
            return Err(format!(
                "PSN {psn} again {} ns before its RNR time is over",
                until - ns
            ));
        }
        Ok(())
    }

    /// The requester is not where it was: back, for a reason, or forward over what has been acknowledged.
    fn moves(&mut self, ns: u64, to: Psn, spec: &ConnectionSpec) -> Result<(), String> {
        if spec.service != Service::Rc {
            return Err(format!(
                "PSN {to} though {} is the next one, and nothing is sent twice",
                self.cursor
            ));
        }
        if to.is_after(self.cursor) {
            let skipped = self.cursor;
            self.cursor = to;
            if to.is_after(self.answered) && !(spec.selective && self.places.contains(&to)) {
                return Err(format!("PSN {to} though {skipped} has yet to be sent again"));
            }
            return Ok(());
        }
        if spec.selective && self.goes_on(to) {
            return Ok(());
        }
        self.leaves_for(to);
        // To where it was told, or on from there as far as answers have come since.
        let leads_there = |cause: &Cause| !to.is_after(cause.psn) || !to.is_after(self.answered);
        // What has come of an older cause is not seen: one that waited for a receive went back for that.
        let waited = |cause: &Cause| cause.rnr && cause.psn == to;
        let found = self.causes.iter().position(waited);
        let found = found.or_else(|| self.causes.iter().position(leads_there));
        let cause = found.and_then(|index| self.causes.remove(index));
        if cause.is_some_and(|cause| cause.rnr) {
            self.rnr_retries += 1;
            if spec.rnr_retry != 7 && self.rnr_retries > u32::from(spec.rnr_retry) {
                return Err(format!("RNR retry {} of {}", self.rnr_retries, spec.rnr_retry));
            }
            return Ok(());
        }
        if cause.is_none() && !self.is_late(ns, to, spec) && !self.may_have_lost_data(to, spec) {
            return Err(format!("back to PSN {to} without a NAK and before a timeout"));
        }
        if spec.selective && (!self.ahead.is_empty() || self.may_have_lost_data(to, spec)) {
            // Data comes, and what is missing in it is asked for until it is there: that costs no retry.
            return Ok(());
        }
        if cause.is_some_and(|cause| cause.answer < self.progress) {
            // It went back, with a retry, and had all of them again when progress came, before the packet left.
            return Ok(());
        }
        self.retries += 1;
        if self.retries > u32::from(spec.retry_cnt) {
            return Err(format!("retry {} of {}", self.retries, spec.retry_cnt));
        }
        Ok(())
    }

    /// Selective: a hole reached beyond where the requester was, and it goes on from there.
    fn goes_on(&mut self, to: Psn) -> bool {
        let overlaps = (1..=MISSING_MAX as i32).contains(&self.cursor.distance_from(to));
        let place = self.places.iter().rposition(|place| *place == to);
        let Some(place) = place.filter(|_| overlaps) else {
            return false;
        };
        self.places.remove(place);
        // Or it is another hole that begins there.
        self.leaves_for(to);
        true
    }

    /// It may go on later from where it is now.
    fn leaves_for(&mut self, to: Psn) {
        // Every hole of one READ is left at the same place.
        let from = self.cursor;
        self.places.retain(|place| *place != from);
        if self.places.len() == CAUSES {
            self.places.pop_front();
        }
        self.places.push_back(from);
        self.cursor = to;
    }

    /// REL-6: the time for an answer to a PSN is over. What of an answer waits inside the card is not seen here, so it
    /// is the time since the PSN was sent last.
    fn is_late(&self, ns: u64, psn: Psn, spec: &ConnectionSpec) -> bool {
        let Some(limit) = ack_timeout_ns(spec.timeout) else {
            return false;
        };
        self.at(psn)
            .is_none_or(|sent| ns.saturating_sub(sent.last_ns) >= limit)
    }

    /// Data of a READ that arrived at the card's port may be missing inside.
    fn may_have_lost_data(&self, psn: Psn, spec: &ConnectionSpec) -> bool {
        spec.drops_inside && self.fetches(psn, self.answered).next().is_some()
    }

    /// A packet that has never been sent.
    fn new_packet(&mut self, ns: u64, packet: &Packet, spec: &ConnectionSpec) -> Result<(), String> {
        let operation = packet
            .opcode
            .operation()
            .ok_or("an opcode without an operation")?;
        self.message.packet(packet, operation, spec.mtu_bytes)?;
        let number = (self.messages + 1) & 0xff_ffff;
        self.credits.sends(packet, operation, number, self.answered)?;
        let packets = match operation {
            Operation::ReadRequest => {
                let len = packet.ext.reth.map_or(0, |reth| reth.dma_len);
                len.div_ceil(spec.mtu_bytes).max(1)
            }
            _ => 1,
        };
        let end = packet.psn.wrapping_add(packets);
        if operation.is_last() || operation.is_only() {
            self.messages = (self.messages + 1) & 0xff_ffff;
        }
        if self.sent.len() == KEPT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            psn: packet.psn,
            end,
            opcode: packet.opcode,
            feth: packet.ext.feth,
            reth: packet.ext.reth,
            atomic: packet.ext.atomic_eth,
            payload: digest(&packet.payload),
            last_ns: ns,
            messages: self.messages,
        });
        (self.next, self.cursor) = (end, end);
        // OP-23: those of whose end nothing has arrived are surely outstanding.
        let outstanding = self
            .fetches(self.answered, end)
            .filter(|sent| sent.end.is_after(self.answered));
        let outstanding = outstanding.count();
        if fetches(packet.opcode) && outstanding > usize::from(spec.max_rd_atomic) {
            return Err(format!(
                "{outstanding} READs and atomics outstanding of {}",
                spec.max_rd_atomic
            ));
        }
        Ok(())
    }

    /// REL-3, D14: what is sent again is what was sent.
    fn repeated(&mut self, ns: u64, packet: &Packet, spec: &ConnectionSpec) -> Result<(), String> {
        let next = packet.psn.wrapping_add(1);
        let Some(sent) = self.index(packet.psn).and_then(|index| self.sent.get_mut(index)) else {
            self.cursor = next;
            return Ok(());
        };
        sent.last_ns = ns;
        let offset = (packet.psn.distance_from(sent.psn) as u32).wrapping_mul(spec.mtu_bytes);
        let read = sent.opcode.operation() == Some(Operation::ReadRequest);
        let reth = sent.reth.map(|reth| match read {
            true => reth::Repr {
                va: reth.va.wrapping_add(offset.into()),
                dma_len: asked_again(packet, reth.dma_len.wrapping_sub(offset), spec),
                ..reth
            },
            false => reth,
        });
        let ext = &packet.ext;
        let same = (packet.opcode, ext.feth, ext.reth, ext.atomic_eth)
            == (sent.opcode, sent.feth, reth, sent.atomic)
            && digest(&packet.payload) == sent.payload;
        let end = sent.end;
        self.cursor = if read { end } else { next };
        if same {
            Ok(())
        } else {
            Err(format!(
                "PSN {} again, but it is another packet than before",
                packet.psn
            ))
        }
    }
}

/// Bytes that a READ asks for again which has so many left: all of them, or, selective, some whole packets.
fn asked_again(packet: &Packet, left: u32, spec: &ConnectionSpec) -> u32 {
    let asked = packet.ext.reth.map_or(left, |reth| reth.dma_len);
    let hole = asked != 0
        && asked < left
        && asked.is_multiple_of(spec.mtu_bytes)
        && asked / spec.mtu_bytes <= MISSING_MAX;
    if spec.selective && hole { asked } else { left }
}

/// Tells payloads apart.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// READ, atomic, ATOMIC WRITE or FLUSH.
fn fetches(opcode: Opcode) -> bool {
    let operation = opcode.operation();
    operation.is_some_and(|operation| {
        matches!(
            operation,
            Operation::ReadRequest | Operation::AtomicWrite | Operation::Flush
        ) || operation.is_atomic()
    })
}
