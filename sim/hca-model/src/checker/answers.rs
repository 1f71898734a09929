//! Rules of the responder: what it answers, given the requests that have arrived.

use std::collections::VecDeque;

use hca_wire::{NakCode, Operation, Psn, Syndrome};

use super::requests::Requests;
use super::{AHEAD_PSNS, ConnectionSpec, MISSING_MAX, NAK_SELECTIVE};
use crate::config::Service;
use crate::packet::Packet;

/// READs that are remembered, copies included.
const KEPT: usize = 4_096;
/// Responses that wait for others: more than there are requests to answer.
const INTERRUPTED: usize = 64;

/// A READ that has arrived: where its response may begin, and where it ends.
#[derive(Clone, Copy)]
struct Asked {
    first: Psn,
    end: Psn,
    len: u32,
}

impl Asked {
    /// Bytes of the response's packet of a PSN.
    fn bytes_at(&self, psn: Psn, mtu_bytes: u32) -> usize {
        let offset = (psn.distance_from(self.first) as u32).wrapping_mul(mtu_bytes);
        self.len.saturating_sub(offset).min(mtu_bytes) as usize
    }
}

pub(super) struct Answers {
    /// The expected PSN of a responder that has taken everything it could.
    expected: Psn,
    /// Selective: WRITEs that have arrived behind it.
    ahead: Vec<Psn>,
    /// The furthest request that has arrived.
    seen: Option<Psn>,
    /// The expected PSN that the responder has told of itself.
    told: Psn,
    reads: VecDeque<Asked>,
    /// The response that is under way: its next PSN.
    data: Option<(Psn, Asked)>,
    /// Selective: responses that others have interrupted, and their next PSNs.
    interrupted: VecDeque<(Psn, Asked)>,
    /// All data of READs before this PSN has left once.
    responded: Psn,
    dead_ns: Option<u64>,
}

impl Answers {
    pub fn new(spec: &ConnectionSpec, from: usize) -> Self {
        let start = spec.ends[from].sq_psn;
        Self {
            expected: start,
            ahead: Vec::new(),
            seen: None,
            told: start,
            reads: VecDeque::new(),
            data: None,
            interrupted: VecDeque::new(),
            responded: start,
            dead_ns: None,
        }
    }

    /// A request has arrived.
    pub fn asked(&mut self, packet: &Packet, spec: &ConnectionSpec) {
        let mut end = packet.psn.wrapping_add(1);
        let comes_back = match (packet.opcode.operation(), packet.ext.reth) {
            (Some(Operation::ReadRequest), Some(reth)) => Some(reth.dma_len),
            (Some(Operation::AtomicWrite | Operation::Flush), _) => Some(0),
            _ => None,
        };
        if let Some(len) = comes_back {
            end = packet.psn.wrapping_add(len.div_ceil(spec.mtu_bytes).max(1));
            if self.reads.len() == KEPT {
                self.reads.pop_front();
            }
            self.reads.push_back(Asked {
                first: packet.psn,
                end,
                len,
            });
        }
        if packet.psn == self.expected {
            self.expected = end;
            while self.ahead.contains(&self.expected) {
                self.expected = self.expected.wrapping_add(1);
            }
            let expected = self.expected;
            self.ahead.retain(|psn| psn.is_after(expected));
        } else if spec.selective
            && packet.opcode.operation() == Some(Operation::WriteOnly)
            && (1..=AHEAD_PSNS).contains(&packet.psn.distance_from(self.expected))
            && !self.ahead.contains(&packet.psn)
        {
            self.ahead.push(packet.psn);
        }
        if self.seen.is_none_or(|seen| packet.psn.is_after(seen)) {
            self.seen = Some(packet.psn);
        }
    }

    /// An answer leaves.
    pub fn answer(
        &mut self,
        ns: u64,
        packet: &Packet,
        spec: &ConnectionSpec,
        requests: &Requests,
    ) -> Result<(), String> {
        if spec.service != Service::Rc {
            return Err("an answer on an unreliable connection".to_owned());
        }
        if self.seen.is_none() {
            return Err("an answer though no request has arrived".to_owned());
        }
        if self.dead_ns.is_some_and(|dead| ns > dead + spec.pipeline_ns) {
            return Err("an answer after the NAK that has ended the QP".to_owned());
        }
        match packet.opcode.operation() {
            Some(Operation::Acknowledge) => self.acknowledge(ns, packet, spec, requests),
            Some(Operation::AtomicAcknowledge) => self.atomic(packet, requests),
            Some(operation) => self.data(packet, operation, spec, requests),
            None => Err("an opcode without an operation".to_owned()),
        }
    }

    /// ACK and NAK.
    fn acknowledge(
        &mut self,
        ns: u64,
        packet: &Packet,
        spec: &ConnectionSpec,
        requests: &Requests,
    ) -> Result<(), String> {
        let aeth = packet.ext.aeth.ok_or("an acknowledge without an AETH")?;
        let syndrome = Syndrome::from_byte(aeth.syndrome);
        let psn = packet.psn;
        // The expected PSN that it speaks of.
        let speaks_of = match syndrome {
            Syndrome::Ack { .. } => psn.wrapping_add(1),
            _ => psn,
        };
        if speaks_of.is_after(self.expected) {
            return Err(format!(
                "it acknowledges up to {speaks_of}, but {} has not arrived",
                self.expected
            ));
        }
        if speaks_of.is_before(self.told) {
            return Err(format!(
                "it expects {speaks_of} after it had expected {}",
                self.told
            ));
        }
        self.told = speaks_of;
        self.data_has_left(speaks_of, requests)?;
        match syndrome {
            Syndrome::Ack { .. } => {}
            Syndrome::Nak(NakCode::PsnSequence) => {
                // Only what is behind a gap tells of it.
                if self.seen.is_none_or(|seen| !seen.is_after(psn)) {
                    return Err(format!("a gap at {psn}, but nothing behind it has arrived"));
                }
            }
            Syndrome::Reserved(NAK_SELECTIVE) if spec.selective => return self.names(psn, aeth.msn),
            Syndrome::RnrNak(_) => self.refusable(psn, requests, true)?,
            Syndrome::Nak(NakCode::InvalidRdRequest) | Syndrome::Reserved(_) => {
                return Err(format!("syndrome {:#04x}", aeth.syndrome));
            }
            Syndrome::Nak(_) => {
                // A refused READ may be told of where its data would be.
                self.dead_ns = Some(ns);
                return Ok(());
            }
        }
        let wanted = requests.messages_before(speaks_of);
        if wanted.is_some_and(|wanted| wanted != aeth.msn) {
            return Err(format!(
                "MSN {}, but {wanted:?} messages end before {speaks_of}",
                aeth.msn
            ));
        }
        Ok(())
    }

    /// A NAK that names some packets from its PSN on: the one behind them is here, or has been. In the place of the MSN
    /// stands how many, and the low bits of the newest PSN.
    fn names(&self, psn: Psn, word: u32) -> Result<(), String> {
        let missing = word >> 16;
        let behind = psn.wrapping_add(missing);
        let here = self.expected.is_after(behind) || self.ahead.contains(&behind);
        if !(1..=MISSING_MAX).contains(&missing) || !here {
            return Err(format!(
                "{missing} packets missing from {psn} on, but {behind} is not here"
            ));
        }
        Ok(())
    }

    /// Something that needs a receive, and has arrived.
    fn refusable(&self, psn: Psn, requests: &Requests, needs_receive: bool) -> Result<(), String> {
        if !psn.is_before(self.expected) {
            return Err(format!("PSN {psn} has not arrived"));
        }
        let operation = requests.at(psn).and_then(|sent| sent.opcode.operation());
        let receives = |operation: Operation| operation.is_send() || operation.has_immdt();
        if needs_receive && operation.is_some_and(|operation| !receives(operation)) {
            return Err(format!("PSN {psn} needs no receive"));
        }
        Ok(())
    }

    /// IBA vol1 9.7.5.1.2: an answer behind a READ comes behind its data.
    fn data_has_left(&self, up_to: Psn, requests: &Requests) -> Result<(), String> {
        let mut waiting = requests.fetches(self.responded, up_to);
        let overtaken = waiting.find(|sent| sent.end.is_after(self.responded) && !sent.end.is_after(up_to));
        match overtaken {
            Some(sent) => Err(format!(
                "it overtakes the data of the READ or atomic at {}",
                sent.psn
            )),
            None => Ok(()),
        }
    }

    fn note_responded(&mut self, end: Psn) {
        if end.is_after(self.responded) {
            self.responded = end;
        }
    }

    fn msn_between(&self, msn: u32, psn: Psn, requests: &Requests) -> Result<(), String> {
        let bounds = (
            requests.messages_before(psn),
            requests.messages_before(self.expected),
        );
        let (Some(least), Some(most)) = bounds else {
            return Ok(());
        };
        let (above, room) = (
            msn.wrapping_sub(least) & 0xff_ffff,
            most.wrapping_sub(least) & 0xff_ffff,
        );
        if above > room {
            return Err(format!("MSN {msn}, which is not between {least} and {most}"));
        }
        Ok(())
    }

    fn atomic(&mut self, packet: &Packet, requests: &Requests) -> Result<(), String> {
        self.refusable(packet.psn, requests, false)?;
        if !requests
            .at(packet.psn)
            .is_none_or(|sent| sent.opcode.operation().is_some_and(Operation::is_atomic))
        {
            return Err(format!(
                "the result of an atomic at {}, where there is none",
                packet.psn
            ));
        }
        self.data_has_left(packet.psn, requests)?;
        self.note_responded(packet.psn.wrapping_add(1));
        Ok(())
    }

    /// READs that have arrived and begin at a PSN, the newest first.
    fn asked_from(&self, first: Psn) -> impl Iterator<Item = &Asked> {
        self.reads.iter().rev().filter(move |asked| asked.first == first)
    }

    /// What is under way, and does not go on with this packet, may do so later.
    fn interrupt(&mut self, psn: Psn, begins: bool, spec: &ConnectionSpec) {
        let stops = |(next, asked): &(Psn, Asked)| (begins || *next != psn) && next.is_before(asked.end);
        let Some(data) = self.data.filter(stops).filter(|_| spec.selective) else {
            return;
        };
        if self.interrupted.len() == INTERRUPTED {
            self.interrupted.pop_front();
        }
        self.interrupted.push_back(data);
    }

    /// Selective: the response that goes on with a packet. It may have been asked to do so from an earlier one on.
    fn goes_on(&mut self, packet: &Packet) -> Result<Asked, String> {
        let psn = packet.psn;
        let asked_from = |first: Psn| self.reads.iter().any(|asked| asked.first == first);
        let goes_on = |(next, asked): &(Psn, Asked)| {
            *next == psn || (psn.is_after(asked.first) && psn.is_before(*next) && asked_from(psn))
        };
        let at = self.interrupted.iter().rposition(goes_on);
        let found = at.and_then(|at| self.interrupted.remove(at));
        found
            .map(|(_, asked)| asked)
            .ok_or_else(|| format!("{} {psn} continues nothing", packet.opcode))
    }

    /// READ data.
    fn data(
        &mut self,
        packet: &Packet,
        operation: Operation,
        spec: &ConnectionSpec,
        requests: &Requests,
    ) -> Result<(), String> {
        let psn = packet.psn;
        let begins = operation.is_first() || operation.is_only();
        let asked = match self.data.filter(|(next, _)| !begins && *next == psn) {
            Some((_, asked)) => asked,
            None if !begins && spec.selective => self.goes_on(packet)?,
            None if !begins => return Err(format!("{} {psn} continues nothing", packet.opcode)),
            None => *self
                .asked_from(psn)
                .next()
                .ok_or_else(|| format!("data at {psn}, where no READ that has arrived begins"))?,
        };
        if begins {
            self.data_has_left(psn, requests)?;
        }
        self.interrupt(psn, begins, spec);
        let next = psn.wrapping_add(1);
        let ends = operation.is_last() || operation.is_only();
        let shape = |asked: &Asked| (asked.bytes_at(psn, spec.mtu_bytes), next == asked.end);
        let is_of = |asked: &&Asked| shape(asked) == (packet.payload.len(), ends);
        // One that has been asked for with less since is answered in full all the same, and both in their order.
        let fitting = Some(&asked).filter(is_of);
        let fitting = fitting.or_else(|| self.asked_from(asked.first).find(is_of));
        let asked = *fitting.ok_or_else(|| {
            let (len, is_last) = shape(&asked);
            let (sent, opcode) = (packet.payload.len(), packet.opcode);
            format!("{opcode} {psn} with {sent} bytes instead of {len}, of which the last: {is_last}")
        })?;
        if let Some(aeth) = packet.ext.aeth {
            self.msn_between(aeth.msn, asked.first, requests)?;
        }
        self.data = Some((next, asked));
        if ends {
            self.note_responded(asked.end);
        }
        Ok(())
    }
}
