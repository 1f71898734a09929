//! What acknowledges, NAKs and READ responses do to a send queue (IBA vol1 9.7.5, 9.7.7, 9.9.2).

use hca_abi::WcStatus;
use hca_wire::{NakCode, Operation, Psn, Syndrome};

use super::{Requester, segment};
use crate::checker::NAK_SELECTIVE;
use crate::config::{QpConfig, Service};
use crate::packet::Packet;
use crate::timers::{ack_timeout_ns, rnr_wait_ns};
use crate::work::Op;
use crate::world::World;

/// How far an acknowledge has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// As far as it says.
    All,
    /// To a READ or an atomic whose data has not come: it must have been lost.
    Missing,
}

impl Requester {
    /// Responses that travel as one are as good as each for itself: all are new, and nothing is wrong with where their
    /// data goes.
    pub fn takes_at_once(&self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> bool {
        let end = packet.psn.wrapping_add(packet.count);
        let is_known_in_part = packet.psn.is_before(self.una) && self.una.is_before(end);
        let of = self.queue.iter().find(|wqe| wqe.contains(packet.psn));
        !is_known_in_part && of.is_none_or(|wqe| world.may_scatter(config, &wqe.request.sges))
    }

    /// A response of the peer. Returns with what the oldest WQE fails, if it does.
    pub fn answer(
        &mut self,
        now: u64,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Option<WcStatus> {
        self.hear_credits(packet);
        // Behind what has been acknowledged: a copy, or one that was late. Ahead of what was sent: from nowhere.
        if packet.psn.is_before(self.una) || !packet.psn.is_before(self.sent) {
            return None;
        }
        let before = self.una;
        let failed = match packet.opcode.operation()? {
            Operation::Acknowledge => self.acknowledge_packet(now, packet, config, world),
            Operation::AtomicAcknowledge => self.atomic_response(packet, config, world),
            operation => self.read_response(packet, operation, config, world),
        };
        if self.una != before {
            let waits = self.una != self.sent && self.rnr_until.is_none();
            self.deadline = ack_timeout_ns(config.timeout)
                .filter(|_| waits)
                .map(|limit| now + limit);
        }
        failed
    }

    /// REL-5, REL-8: what has come through gives back all retries.
    fn advance(&mut self, una: Psn, config: &QpConfig) {
        self.una = una;
        self.renew_retries(config);
        (self.rnr_until, self.asked_again) = (None, false);
        if self.cursor.is_before(una) {
            self.cursor = una;
        }
    }

    fn acknowledge_packet(
        &mut self,
        now: u64,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Option<WcStatus> {
        let syndrome = Syndrome::from_byte(packet.ext.aeth?.syndrome);
        let through = match syndrome {
            Syndrome::Ack { .. } => packet.psn,
            // A NAK acknowledges everything before.
            _ => packet.psn.wrapping_sub(1),
        };
        if self.acknowledge(through, config, world) == Reached::Missing {
            return self.ask_again();
        }
        match syndrome {
            Syndrome::Ack { .. } => None,
            Syndrome::Nak(NakCode::PsnSequence) => self.go_back(),
            // It is said again and again; once is enough, and what is lost then has its time.
            Syndrome::Reserved(NAK_SELECTIVE) if config.manners.selective => self.ask_again(),
            Syndrome::Nak(NakCode::InvalidRequest) => Some(WcStatus::RemInvReqErr),
            Syndrome::Nak(NakCode::RemoteAccess) => Some(WcStatus::RemAccessErr),
            Syndrome::Nak(NakCode::RemoteOperational) => Some(WcStatus::RemOpErr),
            Syndrome::RnrNak(timer) => self.not_ready(now, rnr_wait_ns(timer), config),
            Syndrome::Nak(NakCode::InvalidRdRequest) if config.service == Service::Xrc => {
                Some(WcStatus::RemInvRdReqErr)
            }
            Syndrome::Nak(NakCode::InvalidRdRequest) | Syndrome::Reserved(_) => Some(WcStatus::BadRespErr),
        }
    }

    /// REL-8: waits, and sends it again.
    fn not_ready(&mut self, now: u64, wait_ns: u64, config: &QpConfig) -> Option<WcStatus> {
        const FOR_EVER: u8 = 7;
        if config.rnr_retry != FOR_EVER {
            let Some(left) = self.rnr_left.checked_sub(1) else {
                return Some(WcStatus::RnrRetryExcErr);
            };
            self.rnr_left = left;
        }
        self.rnr_until = Some(now + wait_ns);
        self.deadline = None;
        self.cursor = self.una;
        None
    }

    /// Completes everything up to a PSN, but not past a READ or an atomic whose data has not come.
    fn acknowledge(&mut self, through: Psn, config: &QpConfig, world: &mut dyn World) -> Reached {
        while let Some(front) = self.queue.front() {
            if front.first.is_after(through) {
                break;
            }
            if front.request.op.fetches() && !front.fetched {
                return Reached::Missing;
            }
            let last = front.last();
            if last.is_after(through) {
                let next = through.wrapping_add(1);
                if next.is_after(self.una) {
                    self.advance(next, config);
                }
                break;
            }
            self.advance(last.wrapping_add(1), config);
            self.complete_front(config, world);
        }
        Reached::All
    }

    /// A response shows that an earlier one was lost: as good as a NAK, once.
    fn ask_again(&mut self) -> Option<WcStatus> {
        if self.asked_again {
            return None;
        }
        let failed = self.go_back();
        self.asked_again = true;
        failed
    }

    /// Brings the WQE of a response to the front of the queue. `Ok(false)`: it has to wait, or comes too late.
    fn reach(
        &mut self,
        psn: Psn,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<bool, Option<WcStatus>> {
        let Some(wqe) = self.queue.iter().find(|wqe| wqe.contains(psn)) else {
            return Ok(false);
        };
        if !wqe.request.op.fetches() {
            // nobody has asked for data there.
            return Err(Some(WcStatus::BadRespErr));
        }
        let first = wqe.first;
        let is_front = self.queue.front().is_some_and(|front| front.first == first);
        if !is_front && self.acknowledge(first.wrapping_sub(1), config, world) == Reached::Missing {
            return Err(self.ask_again());
        }
        if psn.is_after(self.una) {
            return Err(self.ask_again());
        }
        Ok(psn == self.una)
    }

    fn read_response(
        &mut self,
        packet: &Packet,
        operation: Operation,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Option<WcStatus> {
        match self.reach(packet.psn, config, world) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(failed) => return failed,
        }
        let front = self.queue.front_mut()?;
        // An ATOMIC WRITE, or a FLUSH, is answered like a READ of nothing.
        let (Op::Read { .. } | Op::AtomicWrite { .. } | Op::Flush { .. }) = front.request.op else {
            return Some(WcStatus::BadRespErr);
        };
        let mtu = config.mtu_bytes();
        let may_begin = front.asked_from.contains(&packet.psn);
        let may_go_on = packet.psn != front.first;
        let next = packet.psn.wrapping_add(packet.count);
        let is_end = next == front.last().wrapping_add(1);
        let fits = match operation {
            Operation::ReadResponseOnly => may_begin && is_end,
            Operation::ReadResponseFirst => may_begin && !is_end,
            Operation::ReadResponseMiddle => may_go_on && !next.is_after(front.last()),
            Operation::ReadResponseLast => may_go_on && is_end,
            _ => false,
        };
        let acks = packet
            .ext
            .aeth
            .is_none_or(|aeth| matches!(Syndrome::from_byte(aeth.syndrome), Syndrome::Ack { .. }));
        let len = segment::response_len(front, (packet.psn, packet.count), mtu);
        if !fits || !acks || packet.payload.len() != len as usize {
            return Some(WcStatus::BadRespErr);
        }
        let offset = packet.psn.distance_from(front.first) as u32 * mtu;
        let placed = world.scatter(config, &front.request.sges, offset, &packet.payload);
        if placed.is_err() {
            return Some(WcStatus::LocProtErr);
        }
        front.fetched = is_end;
        self.advance(next, config);
        if is_end {
            self.complete_front(config, world);
        }
        None
    }

    fn atomic_response(
        &mut self,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Option<WcStatus> {
        match self.reach(packet.psn, config, world) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(failed) => return failed,
        }
        let front = self.queue.front_mut()?;
        let original = packet.ext.atomic_ack_eth?.orig_remote;
        let Op::Atomic { .. } = front.request.op else {
            return Some(WcStatus::BadRespErr);
        };
        // The eight bytes are a number of the host, whose first byte is the lowest.
        let bytes = original.to_le_bytes();
        let placed = world.scatter(config, &front.request.sges, 0, &bytes);
        if placed.is_err() {
            return Some(WcStatus::LocProtErr);
        }
        front.fetched = true;
        self.advance(packet.psn.wrapping_add(1), config);
        self.complete_front(config, world);
        None
    }
}
