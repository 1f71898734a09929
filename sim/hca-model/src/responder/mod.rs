//! The receiving side of a connected QP (IBA vol1 9.7.4, 9.7.5, 9.8.3).

mod message;
mod replies;

use hca_abi::{EventKind, WcStatus};
use hca_wire::{NakCode, Operation, Psn, RnrTimer, Syndrome};

use crate::config::{QpConfig, Service};
use crate::memory::{Access, Refusal, Sge};
use crate::packet::Packet;
use crate::requester::SMOOTH_PACKETS;
use crate::work::Completion;
use crate::world::World;
use message::{Fault, Incoming, size_is_right};
use replies::{Fetched, Replies};

/// What has to happen to the QP: it fails, and this event tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub Option<EventKind>);

/// Expected PSN, the message that is coming in, and what there is to answer.
pub(crate) struct Responder {
    expected: Psn,
    /// Messages completed, modulo 2^24.
    msn: u32,
    incoming: Incoming,
    /// A gap or a missing receive has been told; until the expected packet comes there is no more to say.
    told: bool,
    replies: Replies,
}

impl Responder {
    pub fn new(config: &QpConfig) -> Self {
        Self {
            expected: config.rq_psn,
            msn: 0,
            incoming: Incoming::default(),
            told: false,
            replies: Replies::default(),
        }
    }

    /// A request of the peer.
    pub fn request(
        &mut self,
        now: u64,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Failed> {
        let is_reliable = config.service.is_reliable();
        match (is_reliable, packet.psn.distance_from(self.expected)) {
            (true, 0) => self.expected_request(now, packet, config, world),
            (true, distance) if distance < 0 => {
                self.duplicate(now, packet, config, world);
                Ok(())
            }
            (true, _) => {
                if !self.told {
                    self.told = true;
                    self.nak(NakCode::PsnSequence);
                }
                Ok(())
            }
            (_, distance) => self.unreliable(distance, packet, config, world),
        }
    }

    fn nak(&mut self, code: NakCode) {
        self.replies
            .answer(self.expected, Syndrome::Nak(code), self.msn, None);
    }

    /// The packet that is due.
    fn expected_request(
        &mut self,
        now: u64,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Failed> {
        self.told = false;
        let Some(operation) = packet.opcode.operation() else {
            return Ok(());
        };
        let size = size_is_right(operation, packet.payload.len(), config.mtu_bytes() * packet.count);
        if !self.incoming.follows(operation) || !size {
            return Err(self.refuse(Fault::Invalid, config, world));
        }
        if config.service == Service::Xrc
            && let Err(fault) = self.check_queue(config, world)
        {
            return Err(self.refuse(fault, config, world));
        }
        match operation {
            Operation::ReadRequest => self.read(packet, config, world),
            _ if operation.is_atomic() || operation == Operation::AtomicWrite => {
                self.atomic(packet, config, world)
            }
            Operation::Flush => self.flush_memory(packet, config, world),
            _ => self.data(now, packet, operation, config, world),
        }
    }

    /// XRC (annex A14): the receive queue that a request names is there, in the same domain, and one for a message.
    fn check_queue(&self, config: &QpConfig, world: &mut dyn World) -> Result<(), Fault> {
        let is_open = self.incoming.is_open();
        if is_open && self.incoming.queue() != config.receive_queue {
            return Err(Fault::Queue { is_foreign: false });
        }
        let checked = world.check_queue(config);
        checked.map_err(|refusal| Fault::Queue {
            is_foreign: refusal == Refusal::Domain,
        })
    }

    /// SEND or WRITE.
    fn data(
        &mut self,
        now: u64,
        packet: &Packet,
        operation: Operation,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Failed> {
        // What a READ in front has yet to send may be behind the key that this one is to invalidate.
        let waits = packet.ext.ieth.is_some() && self.replies.fresh_fetches() > 0;
        let taken = match waits {
            true => Err(Fault::NotReady),
            false => self.incoming.take(packet, operation, config, world),
        };
        match taken {
            Ok(()) => {}
            Err(Fault::NotReady) => {
                // REL-8: it is asked for again, and what follows meanwhile is dropped.
                self.told = true;
                let timer = RnrTimer::new(config.min_rnr_timer);
                self.replies
                    .answer(self.expected, Syndrome::RnrNak(timer), self.msn, None);
                return Ok(());
            }
            Err(fault) => return Err(self.refuse(fault, config, world)),
        }
        self.expected = packet.psn.wrapping_add(packet.count);
        if operation.is_last() || operation.is_only() {
            self.count_message();
        }
        if packet.ack_req || config.manners.ack_all {
            self.acknowledge(now, config);
        }
        Ok(())
    }

    fn count_message(&mut self) {
        self.msn = (self.msn + 1) & 0xff_ffff;
    }

    /// An acknowledge of everything so far.
    fn acknowledge(&mut self, now: u64, config: &QpConfig) {
        // The credits are those of the time when it leaves.
        let syndrome = Syndrome::Ack {
            credit_code: Syndrome::CREDIT_UNLIMITED,
        };
        let until = now + config.manners.ack_delay_ns;
        self.replies
            .answer(self.expected.wrapping_sub(1), syndrome, self.msn, Some(until));
    }

    /// Tells the peer why, and fails the QP (REL-13).
    fn refuse(&mut self, fault: Fault, config: &QpConfig, world: &mut dyn World) -> Failed {
        let (code, event) = match fault {
            Fault::Invalid | Fault::NotReady => (NakCode::InvalidRequest, Some(EventKind::QpReqErr)),
            Fault::TooMany => (NakCode::InvalidRequest, Some(EventKind::QpAccessErr)),
            Fault::Queue { is_foreign: false } => (NakCode::InvalidRdRequest, Some(EventKind::QpReqErr)),
            Fault::Queue { is_foreign: true } => (NakCode::InvalidRdRequest, Some(EventKind::QpAccessErr)),
            Fault::Access => (NakCode::RemoteAccess, Some(EventKind::QpAccessErr)),
            Fault::Receive(status) => {
                self.incoming.complete(config, status, world);
                let code = match status {
                    WcStatus::LocLenErr => NakCode::InvalidRequest,
                    _ => NakCode::RemoteOperational,
                };
                (code, None)
            }
        };
        self.nak(code);
        Failed(event)
    }

    /// OP-5: the data follows, in its turn.
    fn read(&mut self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> Result<(), Failed> {
        if self.replies.fresh_fetches() >= usize::from(config.max_dest_rd_atomic) {
            return Err(self.refuse(Fault::TooMany, config, world));
        }
        let Some(fetched) = self.range_of_read(packet, config, world) else {
            return Err(self.refuse(Fault::Access, config, world));
        };
        self.expected = fetched.end;
        // C9-148: a READ counts as soon as it is accepted.
        self.count_message();
        self.replies.fetch(fetched, self.msn, true);
        Ok(())
    }

    /// Where a READ's data is, if its key allows it (KEY-31); without bytes no key is needed.
    fn range_of_read(&self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> Option<Fetched> {
        let reth = packet.ext.reth?;
        let range = Sge::new(reth.rkey, reth.va, reth.dma_len);
        let allowed = config.access.allows(Access::REMOTE_READ)
            && world.check(config, range, Access::REMOTE_READ).is_ok();
        if reth.dma_len > 1 << 31 || (reth.dma_len > 0 && !allowed) {
            return None;
        }
        let packets = reth.dma_len.div_ceil(config.mtu_bytes()).max(1);
        Some(Fetched {
            first: packet.psn,
            next: packet.psn,
            end: packet.psn.wrapping_add(packets),
            range,
            is_smooth: packets >= SMOOTH_PACKETS,
        })
    }

    /// FLUSHes count for nothing here: of them there is nothing to keep.
    fn flush_memory(
        &mut self,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Failed> {
        if let Err(fault) = message::flush(packet, config, world) {
            return Err(self.refuse(fault, config, world));
        }
        self.expected = packet.psn.wrapping_add(1);
        self.count_message();
        self.replies.flush(packet.psn, self.msn);
        Ok(())
    }

    fn atomic(&mut self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> Result<(), Failed> {
        if self.replies.fresh_fetches() >= usize::from(config.max_dest_rd_atomic) {
            return Err(self.refuse(Fault::TooMany, config, world));
        }
        let outcome = match packet.opcode.operation() {
            Some(Operation::AtomicWrite) => message::write_at_once(packet, config, world).map(|()| None),
            _ => message::execute_atomic(packet, config, world).map(Some),
        };
        let original = match outcome {
            Ok(original) => original,
            Err(fault) => return Err(self.refuse(fault, config, world)),
        };
        self.expected = packet.psn.wrapping_add(1);
        self.count_message();
        let kept = usize::from(config.max_dest_rd_atomic);
        self.replies.atomic(packet.psn, original, self.msn, kept);
        Ok(())
    }

    /// REL-19: what has been carried out is answered again and not carried out again.
    fn duplicate(&mut self, now: u64, packet: &Packet, config: &QpConfig, world: &mut dyn World) {
        match packet.opcode.operation() {
            Some(Operation::ReadRequest) => {
                let fetched = self.range_of_read(packet, config, world);
                // All of it must have been asked for before.
                if let Some(fetched) = fetched.filter(|fetched| !fetched.end.is_after(self.expected)) {
                    self.replies.fetch(fetched, self.msn, false);
                }
            }
            Some(Operation::Flush) => self.replies.flush(packet.psn, self.msn),
            Some(operation) if operation.is_atomic() || operation == Operation::AtomicWrite => {
                self.replies.atomic_again(packet.psn, self.msn);
            }
            Some(_) => self.acknowledge(now, config),
            None => {}
        }
    }

    /// REL-17: on an unreliable connection a gap costs the message that it is in, and FIRST and ONLY begin anew.
    fn unreliable(
        &mut self,
        distance: i32,
        packet: &Packet,
        config: &QpConfig,
        world: &mut dyn World,
    ) -> Result<(), Failed> {
        // WIRE-17: never twice.
        if distance < 0 {
            return Ok(());
        }
        let Some(operation) = packet.opcode.operation() else {
            return Ok(());
        };
        let begins = operation.is_first() || operation.is_only();
        if distance > 0 || (begins && self.incoming.is_open()) {
            self.incoming.drop_message();
        }
        let size = size_is_right(operation, packet.payload.len(), config.mtu_bytes() * packet.count);
        self.expected = packet.psn.wrapping_add(packet.count);
        if !self.incoming.follows(operation) || !size {
            self.incoming.drop_message();
            return Ok(());
        }
        match self.incoming.take(packet, operation, config, world) {
            Ok(()) => {}
            // OP-21: the program's own mistake, of which it hears.
            Err(Fault::Receive(status)) => {
                self.incoming.complete(config, status, world);
                return Err(Failed(None));
            }
            Err(_) => self.incoming.drop_message(),
        }
        Ok(())
    }

    /// See [`Incoming::takes_at_once`].
    pub fn takes_at_once(&self, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> bool {
        self.incoming.takes_at_once(packet, config, world)
    }

    /// Packets that leave next: MIDDLE packets of a READ's data, of which the first one has left.
    pub fn middles_ahead(&self) -> u32 {
        self.replies.middles_ahead()
    }

    /// What was any packet becomes the next `count` of those. False: their data cannot be read any more.
    pub fn put_middles(
        &mut self,
        count: u32,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> bool {
        self.replies.put_middles(count, config, world, packet)
    }

    /// PSN of the next request.
    pub fn expected(&self) -> Psn {
        self.expected
    }

    /// What was any packet becomes the next response, if there is one now.
    pub fn next_packet(
        &mut self,
        now: u64,
        config: &QpConfig,
        world: &mut dyn World,
        packet: &mut Packet,
    ) -> Option<Result<(), Failed>> {
        if self.replies.next_timeout()? > now {
            return None;
        }
        let told = config
            .manners
            .credits
            .then(|| world.count_receives(config))
            .flatten();
        let credit_code = told.map_or(Syndrome::CREDIT_UNLIMITED, Syndrome::credit_code);
        let made = self.replies.next_packet(now, config, world, packet)?;
        if made.is_ok() {
            put_credits(packet, credit_code);
        }
        Some(made)
    }

    /// When a response that is kept back leaves.
    pub fn next_timeout(&self) -> Option<u64> {
        self.replies.next_timeout()
    }

    /// The receive that was bound to a message is given up.
    pub fn flush(&mut self, config: &QpConfig, world: &mut dyn World) {
        if let Some((wr_id, receive_queue)) = self.incoming.give_up() {
            let completion = Completion::of_recv(config, wr_id, WcStatus::WrFlushErr);
            world.complete(Completion {
                receive_queue,
                ..completion
            });
        }
    }

    /// ERR: a NAK that tells why may still leave, nothing else.
    pub fn silence(&mut self) {
        self.replies.keep_last_nak();
    }
}

/// An answer that says yes tells of receives as well.
fn put_credits(packet: &mut Packet, credit_code: u8) {
    if let Some(aeth) = &mut packet.ext.aeth
        && let Syndrome::Ack { .. } = Syndrome::from_byte(aeth.syndrome)
    {
        aeth.syndrome = Syndrome::Ack { credit_code }.to_byte();
    }
}
