//! A queue pair: both sides of it, and its state.

use hca_abi::{PathMigState, QpState, WcStatus};
use hca_wire::{Link, Psn};

use crate::config::{QpConfig, Service};
use crate::datagram;
use crate::link::same_sender;
use crate::model::ModelEvent;
use crate::packet::{Frame, Packet};
use crate::requester::{Requester, opcode_of};
use crate::responder::{Failed, Responder};
use crate::work::{Completion, SendRequest};
use crate::world::{PathNews, World};

/// A queue pair. [`crate::Model`] has a list of them in one world; whoever has another [`World`] drives them itself.
pub struct Qp {
    /// Its attributes. What is in packets under way stays as it was.
    pub config: QpConfig,
    /// Its state. Who moves it elsewhere than to RTS and SQD calls [`Qp::fail_receives`] where that is to be heard of.
    pub state: QpState,
    requester: Requester,
    responder: Responder,
}

/// KEY-14: same partition, and not limited on both sides.
pub fn pkeys_match(found: u16, own: u16) -> bool {
    const FULL: u16 = 0x8000;
    (found ^ own) & !FULL == 0 && (found | own) & FULL != 0
}

impl Qp {
    /// A QP in RTS.
    pub fn new(config: QpConfig) -> Self {
        Self {
            requester: Requester::new(&config),
            responder: Responder::new(&config),
            state: QpState::Rts,
            config,
        }
    }

    /// QPS-4: false where requests are not taken, or not so long ones.
    pub fn post_send(&mut self, request: SendRequest, world: &mut dyn World) -> bool {
        self.offer_send(request, world).is_none()
    }

    /// The same; a request that is not taken comes back.
    pub fn offer_send(&mut self, request: SendRequest, world: &mut dyn World) -> Option<SendRequest> {
        match self.state {
            QpState::Reset | QpState::Init | QpState::Rtr => Some(request),
            QpState::Err | QpState::Sqe => {
                let status = WcStatus::WrFlushErr;
                world.complete(Completion::of_send(self.config.qpn, &request, status));
                None
            }
            QpState::Rts | QpState::Sqd => self.requester.post(&self.config, request),
        }
    }

    /// Other attributes for a QP at work. One that leaves its path so has new retries there (APM-5).
    pub fn set_config(&mut self, config: QpConfig) {
        let migrates = self.config.path_mig_state == PathMigState::Armed
            && config.path_mig_state == PathMigState::Migrated;
        self.config = config;
        if migrates {
            self.requester.renew_retries(&config);
        }
    }

    /// The send queue begins anew, empty, with the first PSN of the attributes.
    pub fn restart_sends(&mut self) {
        self.requester = Requester::new(&self.config);
    }

    /// The receive of a message that has begun is flushed: the QP goes to RESET.
    pub fn give_up_receive(&mut self, world: &mut dyn World) {
        self.responder.flush(&self.config, world);
    }

    /// The same of what the peer sends.
    pub fn restart_receives(&mut self) {
        self.responder = Responder::new(&self.config);
    }

    /// Takes send requests back of which nothing has been sent: how many, from the last one on.
    pub fn take_back(&mut self) -> usize {
        self.requester.take_back()
    }

    /// A packet of this QP has left only now: the time for its answer begins.
    pub fn packet_left(&mut self, now: u64) {
        self.requester.packet_left(now, &self.config);
    }

    /// PSN of the next request of the peer.
    pub fn expected(&self) -> Psn {
        self.responder.expected()
    }

    /// Work that has not completed.
    pub fn sends_outstanding(&self) -> usize {
        self.requester.len()
    }

    /// A packet for this QP, from wherever.
    pub fn handle(&mut self, now: u64, frame: &Frame, world: &mut dyn World) {
        let (packet, config) = (&frame.packet, &self.config);
        let hears = !matches!(self.state, QpState::Reset | QpState::Init | QpState::Err);
        let is_own = packet
            .opcode
            .operation()
            .is_some_and(|operation| opcode_of(config.service, operation) == Some(packet.opcode));
        // An opcode of another service is nobody's (IBA vol1 9.6.1.4).
        if !hears || !is_own {
            return;
        }
        if packet.count > 1 && !self.takes_at_once(packet, world) {
            for part in frame.parts() {
                self.handle(now, &part, world);
            }
            return;
        }
        if self.is_asked_to_migrate(packet) {
            return world.path_news(config, PathNews::Asked(frame));
        }
        if !pkeys_match(packet.pkey, config.pkey) {
            return;
        }
        if config.service == Service::Ud {
            if !datagram::receive(&frame.link, packet, config, world) {
                self.fail_receives(world);
            }
            return;
        }
        if !same_sender(&frame.link, &config.link) {
            return;
        }
        if config.path_mig_state == PathMigState::Rearm && !packet.mig_req {
            world.path_news(config, PathNews::Armed);
        }
        let own_queue = config.receive_queue;
        if let Some(header) = packet.ext.xrceth {
            self.config.receive_queue = header.xrcsrq;
        }
        let (failed, refused) = match packet.opcode.is_response() {
            true => (self.requester.answer(now, packet, &self.config, world), Ok(())),
            false => (None, self.responder.request(now, packet, &self.config, world)),
        };
        self.config.receive_queue = own_queue;
        if let Err(failed) = refused {
            self.refused(failed, world);
        } else if packet.opcode.is_response() {
            self.settle(now, failed, world);
        }
    }

    fn takes_at_once(&self, packet: &Packet, world: &mut dyn World) -> bool {
        match packet.opcode.is_response() {
            true => self.requester.takes_at_once(packet, &self.config, world),
            false => self.responder.takes_at_once(packet, &self.config, world),
        }
    }

    /// APM-3: the sender of a packet has migrated, and this QP, which has another path, has not.
    pub fn is_asked_to_migrate(&self, packet: &Packet) -> bool {
        self.config.path_mig_state == PathMigState::Armed && packet.mig_req
    }

    /// Headers of the next packet: a datagram has its own.
    #[inline]
    pub fn next_link(&self) -> Link {
        self.requester.next_link().unwrap_or(self.config.link)
    }

    /// The next packet: answers first.
    pub fn next_packet(&mut self, now: u64, world: &mut dyn World) -> Option<Packet> {
        let mut packet = Packet::default();
        self.put_next_packet(now, world, &mut packet).then_some(packet)
    }

    /// The same, into what was any packet and becomes this one: its room is used again. False: there is none.
    pub fn put_next_packet(&mut self, now: u64, world: &mut dyn World, packet: &mut Packet) -> bool {
        let made = self.put_packet(now, world, packet);
        packet.mig_req = self.has_no_other_path();
        made
    }

    /// APM-3: what packets say.
    fn has_no_other_path(&self) -> bool {
        self.config.path_mig_state == PathMigState::Migrated
    }

    fn put_packet(&mut self, now: u64, world: &mut dyn World, packet: &mut Packet) -> bool {
        match self.responder.next_packet(now, &self.config, world, packet) {
            Some(Ok(())) => return true,
            Some(Err(failed)) => {
                self.refused(failed, world);
                let made = self.responder.next_packet(now, &self.config, world, packet);
                return matches!(made, Some(Ok(())));
            }
            None => {}
        }
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return false;
        }
        let made = self.requester.next_packet(now, &self.config, world, packet);
        self.settle(now, None, world);
        made
    }

    /// Packets that leave next, if nothing happens, and change nothing before the one behind them does; and whether the
    /// peer waits for each of them.
    #[inline]
    pub fn middles_ahead(&self) -> (u32, bool) {
        match self.state {
            // Answers first.
            _ if self.responder.next_timeout().is_some() => (self.responder.middles_ahead(), true),
            QpState::Rts => (self.requester.middles_ahead(&self.config), false),
            _ => (0, false),
        }
    }

    /// What was any packet becomes the next `count` of those, of which the last one leaves now. False: none are made.
    pub fn put_middles(&mut self, now: u64, count: u32, world: &mut dyn World, packet: &mut Packet) -> bool {
        let config = &self.config;
        let made = match self.responder.next_timeout() {
            Some(_) => self.responder.put_middles(count, config, world, packet),
            None => self.requester.put_middles(now, count, config, world, packet),
        };
        packet.mig_req = self.has_no_other_path();
        made
    }

    /// False: there is no packet that may leave now, and none will before something happens.
    #[inline]
    pub fn may_send(&self, now: u64) -> bool {
        let sends = matches!(self.state, QpState::Rts | QpState::Sqd);
        (sends && self.requester.may_send()) || self.responder.next_timeout().is_some_and(|at| at <= now)
    }

    /// When there is something to do by itself; a time in the past: at once, if a packet may leave.
    #[inline]
    pub fn next_timeout(&self) -> Option<u64> {
        let times = [self.requester.next_timeout(), self.responder.next_timeout()];
        times.into_iter().flatten().min()
    }

    /// The same without what may leave at once.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        let kept = self.responder.next_timeout().filter(|at| *at > 0);
        self.requester.next_timeout().into_iter().chain(kept).min()
    }

    /// Time has come to `now`. True: an answer has not come in time.
    pub fn handle_timeout(&mut self, now: u64, world: &mut dyn World) -> bool {
        let waited = self.requester.awaits_answer(now);
        let failed = self.requester.handle_timeout(now);
        self.settle(now, failed, world);
        waited
    }

    /// A send that has failed, or one at fault whose turn has come.
    fn settle(&mut self, now: u64, failed: Option<WcStatus>, world: &mut dyn World) {
        let Some(status) = failed.or_else(|| self.requester.fault()) else {
            return;
        };
        if status == WcStatus::RetryExcErr && self.config.path_mig_state == PathMigState::Armed {
            self.requester.wait_for_path(now, &self.config);
            return world.path_news(&self.config, PathNews::Failed);
        }
        self.requester.fail(&self.config, status, world);
        if self.config.service.is_reliable() {
            self.fail_receives(world);
        } else {
            // QPS-12.
            self.state = QpState::Sqe;
        }
    }

    fn refused(&mut self, failed: Failed, world: &mut dyn World) {
        if let Failed(Some(kind)) = failed {
            let qpn = self.config.qpn;
            world.tell(ModelEvent { qpn, kind });
        }
        self.fail_receives(world);
    }

    /// QPS-13: to ERR, and everything is flushed.
    pub fn fail_receives(&mut self, world: &mut dyn World) {
        self.state = QpState::Err;
        self.requester.flush(&self.config, world);
        self.responder.flush(&self.config, world);
        self.responder.silence();
        self.flush_receives(world);
    }

    /// The receives of a queue that is this QP's alone (SPEC-8: a shared one's stay).
    pub fn flush_receives(&mut self, world: &mut dyn World) {
        world.flush_receives(&self.config);
    }

    /// SQE to RTS (QPS-3).
    pub fn resume(&mut self) {
        self.state = QpState::Rts;
    }
}
