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
        let (packet, mut config) = (&frame.packet, self.config);
        if let Some(header) = packet.ext.xrceth {
            config.receive_queue = header.xrcsrq;
        }
        let hears = !matches!(self.state, QpState::Reset | QpState::Init | QpState::Err);
        let is_own = packet
            .opcode
            .operation()
            .is_some_and(|operation| opcode_of(config.service, operation) == Some(packet.opcode));
        // An opcode of another service is nobody's (IBA vol1 9.6.1.4).
        if !hears || !is_own {
            return;
        }
        if self.is_asked_to_migrate(packet) {
            return world.path_news(&config, PathNews::Asked(frame));
        }
        if !pkeys_match(packet.pkey, config.pkey) {
            return;
        }
        if config.service == Service::Ud {
            if !datagram::receive(&frame.link, packet, &config, world) {
                self.fail_receives(world);
            }
            return;
        }
        if !same_sender(&frame.link, &config.link) {
            return;
        }
        if config.path_mig_state == PathMigState::Rearm && !packet.mig_req {
            world.path_news(&config, PathNews::Armed);
        }
        if packet.opcode.is_response() {
            let failed = self.requester.answer(now, packet, &config, world);
            self.settle(now, failed, world);
        } else if let Err(failed) = self.responder.request(now, packet, &config, world) {
            self.refused(failed, world);
        }
    }

    /// APM-3: the sender of a packet has migrated, and this QP, which has another path, has not.
    pub fn is_asked_to_migrate(&self, packet: &Packet) -> bool {
        self.config.path_mig_state == PathMigState::Armed && packet.mig_req
    }

    /// Headers of the next packet: a datagram has its own.
    pub fn next_link(&self) -> Link {
        self.requester.next_link().unwrap_or(self.config.link)
    }

    /// The next packet: answers first.
    pub fn next_packet(&mut self, now: u64, world: &mut dyn World) -> Option<Packet> {
        let mut packet = self.make_packet(now, world)?;
        packet.mig_req = self.config.path_mig_state == PathMigState::Migrated;
        Some(packet)
    }

    fn make_packet(&mut self, now: u64, world: &mut dyn World) -> Option<Packet> {
        match self.responder.next_packet(now, &self.config, world) {
            Some(Ok(packet)) => return Some(packet),
            Some(Err(failed)) => {
                self.refused(failed, world);
                return self.responder.next_packet(now, &self.config, world)?.ok();
            }
            None => {}
        }
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return None;
        }
        let packet = self.requester.next_packet(now, &self.config, world);
        self.settle(now, None, world);
        packet
    }

    /// When there is something to do by itself; a time in the past: at once, if a packet may leave.
    pub fn next_timeout(&self) -> Option<u64> {
        let times = [self.requester.next_timeout(), self.responder.next_timeout()];
        times.into_iter().flatten().min()
    }

    /// The same without what may leave at once.
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
