//! A queue pair: both sides of it, and its state.

use hca_abi::{EventKind, QpState, WcStatus};
use hca_wire::Link;

use crate::config::{QpConfig, Service};
use crate::datagram;
use crate::link::same_sender;
use crate::model::{ModelEvent, World};
use crate::packet::{Frame, Packet};
use crate::requester::{Requester, opcode_of};
use crate::responder::{Failed, Responder};
use crate::work::{Completion, SendRequest};

pub(crate) struct Qp {
    pub config: QpConfig,
    pub state: QpState,
    requester: Requester,
    responder: Responder,
}

/// KEY-14: same partition, and not limited on both sides.
fn pkeys_match(found: u16, own: u16) -> bool {
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
    pub fn post_send(&mut self, request: SendRequest, world: &mut World) -> bool {
        match self.state {
            QpState::Reset | QpState::Init | QpState::Rtr => false,
            QpState::Err | QpState::Sqe => {
                let status = WcStatus::WrFlushErr;
                world
                    .completions
                    .push_back(Completion::of_send(self.config.qpn, &request, status));
                true
            }
            QpState::Rts | QpState::Sqd => self.requester.post(&self.config, request),
        }
    }

    /// Work that has not completed.
    pub fn sends_outstanding(&self) -> usize {
        self.requester.len()
    }

    /// A packet for this QP, from wherever.
    pub fn handle(&mut self, now: u64, frame: &Frame, world: &mut World) {
        let (packet, config) = (&frame.packet, self.config);
        let hears = !matches!(self.state, QpState::Reset | QpState::Init | QpState::Err);
        if !hears || !pkeys_match(packet.pkey, config.pkey) {
            return;
        }
        let is_own = packet
            .opcode
            .operation()
            .is_some_and(|operation| opcode_of(config.service, operation) == Some(packet.opcode));
        // An opcode of another service is nobody's (IBA vol1 9.6.1.4).
        if !is_own {
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
        if packet.opcode.is_response() {
            let failed = self.requester.answer(now, packet, &config, world);
            self.settle(failed, world);
        } else if let Err(failed) = self.responder.request(now, packet, &config, world) {
            self.refused(failed, world);
        }
    }

    /// Headers of the next packet: a datagram has its own.
    pub fn next_link(&self) -> Link {
        self.requester.next_link().unwrap_or(self.config.link)
    }

    /// The next packet: answers first.
    pub fn next_packet(&mut self, now: u64, world: &mut World) -> Option<Packet> {
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
        self.settle(None, world);
        packet
    }

    /// When there is something to do by itself; a time in the past: at once, if a packet may leave.
    pub fn next_timeout(&self) -> Option<u64> {
        let times = [self.requester.next_timeout(), self.responder.next_timeout()];
        times.into_iter().flatten().min()
    }

    pub fn handle_timeout(&mut self, now: u64, world: &mut World) {
        let failed = self.requester.handle_timeout(now);
        self.settle(failed, world);
    }

    /// A send that has failed, or one at fault whose turn has come.
    fn settle(&mut self, failed: Option<WcStatus>, world: &mut World) {
        let Some(status) = failed.or_else(|| self.requester.fault()) else {
            return;
        };
        self.requester.fail(&self.config, status, world);
        if self.config.service == Service::Rc {
            self.fail_receives(world);
        } else {
            // QPS-12.
            self.state = QpState::Sqe;
        }
    }

    fn refused(&mut self, failed: Failed, world: &mut World) {
        if let Failed(Some(kind)) = failed {
            let qpn = self.config.qpn;
            world.events.push_back(ModelEvent { qpn, kind });
        }
        self.fail_receives(world);
    }

    /// QPS-13: to ERR, and everything is flushed.
    pub fn fail_receives(&mut self, world: &mut World) {
        self.state = QpState::Err;
        self.requester.flush(&self.config, world);
        self.responder.flush(&self.config, world);
        self.responder.silence();
        self.flush_receives(world);
    }

    /// The receives of a queue that is this QP's alone (SPEC-8: a shared one's stay).
    pub fn flush_receives(&mut self, world: &mut World) {
        if self.config.receive_queue != self.config.qpn {
            let kind = EventKind::QpLastWqeReached;
            return world.events.push_back(ModelEvent {
                qpn: self.config.qpn,
                kind,
            });
        }
        let queue = world.receives.entry(self.config.receive_queue).or_default();
        for receive in queue.drain(..) {
            let completion = Completion::of_recv(self.config.qpn, receive.wr_id, WcStatus::WrFlushErr);
            world.completions.push_back(completion);
        }
    }

    /// SQE to RTS (QPS-3).
    pub fn resume(&mut self) {
        self.state = QpState::Rts;
    }
}
