//! A channel adapter's transport: queue pairs, their memory, and what they have to tell.

use std::collections::{BTreeMap, VecDeque};

use hca_abi::{EventKind, QpState, WcStatus};
use hca_wire::{Framing, QPN_MULTICAST};
use thiserror::Error;

use crate::config::{QpConfig, Service};
use crate::memory::{Access, Memory, Refusal, Sge};
use crate::packet::Frame;
use crate::paths::Paths;
use crate::qp::Qp;
use crate::work::{Completion, RecvRequest, SendRequest};
use crate::world::{BadReceive, PathNews, World};

/// What a model refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// No QP has this number.
    #[error("there is no QP {0:#x}")]
    NoQp(u32),
    /// One has it already.
    #[error("there is a QP {0:#x} already")]
    QpExists(u32),
    /// QPS-5, or the request takes more PSNs than may be outstanding.
    #[error("QP {0:#x} takes no such request in its state")]
    Refused(u32),
    /// APM-3: no second path is loaded, the service has none, or ARMED was asked for, which comes of itself.
    #[error("QP {0:#x} has no second path that it could be ready for")]
    NoPath(u32),
}

/// An asynchronous event of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelEvent {
    /// Whose.
    pub qpn: u32,
    /// What has happened (section 18).
    pub kind: EventKind,
}

/// What the QPs of a model work on: its own regions, and lists of everything else.
#[derive(Default)]
pub(crate) struct OwnWorld {
    memory: Memory,
    receives: BTreeMap<u32, VecDeque<RecvRequest>>,
    completions: VecDeque<Completion>,
    pub events: VecDeque<ModelEvent>,
    pub paths: Paths,
}

impl World for OwnWorld {
    fn check(&mut self, config: &QpConfig, range: Sge, right: Access) -> Result<(), Refusal> {
        self.memory.check(config.domain, range, right)
    }

    fn check_region(&mut self, config: &QpConfig, key: u32, right: Access) -> Result<(), Refusal> {
        self.memory.check_region(config.domain, key, right)
    }

    fn read_to(
        &mut self,
        config: &QpConfig,
        range: Sge,
        right: Access,
        out: &mut [u8],
    ) -> Result<(), Refusal> {
        let found = self.memory.read(config.domain, range, right)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn write(
        &mut self,
        config: &QpConfig,
        key: u32,
        va: u64,
        bytes: &[u8],
        right: Access,
    ) -> Result<(), Refusal> {
        self.memory.write(config.domain, key, va, bytes, right)
    }

    fn invalidate(&mut self, _: &QpConfig, key: u32) -> Result<(), Refusal> {
        self.memory.deregister(key);
        Ok(())
    }

    fn next_receive(&mut self, config: &QpConfig) -> Result<Option<RecvRequest>, BadReceive> {
        let queue = self.receives.get_mut(&config.receive_queue);
        Ok(queue.and_then(VecDeque::pop_front))
    }

    fn count_receives(&mut self, config: &QpConfig) -> Option<u32> {
        let queue = self.receives.get(&config.receive_queue);
        (config.receive_queue == config.qpn).then(|| queue.map_or(0, |queue| queue.len() as u32))
    }

    fn flush_receives(&mut self, config: &QpConfig) {
        let qpn = config.qpn;
        if config.receive_queue != qpn {
            let kind = EventKind::QpLastWqeReached;
            return self.events.push_back(ModelEvent { qpn, kind });
        }
        let queue = self.receives.entry(qpn).or_default();
        for receive in queue.drain(..) {
            let completion = Completion::of_recv(config, receive.wr_id, WcStatus::WrFlushErr);
            self.completions.push_back(completion);
        }
    }

    fn complete(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    fn tell(&mut self, event: ModelEvent) {
        self.events.push_back(event);
    }

    fn path_news(&mut self, config: &QpConfig, news: PathNews<'_>) {
        let qpn = config.qpn;
        let told = self.paths.hear(config, news);
        self.events.extend(told.map(|kind| ModelEvent { qpn, kind }));
    }
}

/// See the head of the crate. Times are in nanoseconds of whoever owns it, and must not run backwards.
#[derive(Default)]
pub struct Model {
    qps: BTreeMap<u32, Qp>,
    pub(crate) world: OwnWorld,
    /// The QP that sent last: they take turns.
    turn: u32,
}

impl Model {
    /// A model without QPs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a QP that is connected and in RTS.
    pub fn create_qp(&mut self, config: QpConfig) -> Result<(), ModelError> {
        if self.qps.contains_key(&config.qpn) {
            return Err(ModelError::QpExists(config.qpn));
        }
        self.qps.insert(config.qpn, Qp::new(config));
        Ok(())
    }

    /// QPS-16: its requests and receives are gone without a word.
    pub fn destroy_qp(&mut self, qpn: u32) -> Result<(), ModelError> {
        let qp = self.qps.remove(&qpn).ok_or(ModelError::NoQp(qpn))?;
        if qp.config.receive_queue == qpn {
            self.world.receives.remove(&qpn);
        }
        self.world.paths.forget(qpn);
        Ok(())
    }

    pub(crate) fn qp(&mut self, qpn: u32) -> Result<(&mut Qp, &mut OwnWorld), ModelError> {
        let qp = self.qps.get_mut(&qpn).ok_or(ModelError::NoQp(qpn))?;
        Ok((qp, &mut self.world))
    }

    /// State of a QP.
    pub fn state(&self, qpn: u32) -> Result<QpState, ModelError> {
        self.qps.get(&qpn).map(|qp| qp.state).ok_or(ModelError::NoQp(qpn))
    }

    /// What a QP has been told, and where it is by now.
    pub fn config(&self, qpn: u32) -> Result<QpConfig, ModelError> {
        self.qps
            .get(&qpn)
            .map(|qp| qp.config)
            .ok_or(ModelError::NoQp(qpn))
    }

    /// Send requests of a QP that have not completed.
    pub fn sends_outstanding(&self, qpn: u32) -> Result<usize, ModelError> {
        let qp = self.qps.get(&qpn).ok_or(ModelError::NoQp(qpn))?;
        Ok(qp.sends_outstanding())
    }

    /// Moves a QP to ERR: everything outstanding is flushed (QPS-13).
    pub fn fail_qp(&mut self, qpn: u32) -> Result<(), ModelError> {
        let (qp, world) = self.qp(qpn)?;
        qp.fail_receives(world);
        Ok(())
    }

    /// Moves a QP from SQE back to RTS.
    pub fn resume_qp(&mut self, qpn: u32) -> Result<(), ModelError> {
        let (qp, _) = self.qp(qpn)?;
        if qp.state != QpState::Sqe {
            return Err(ModelError::Refused(qpn));
        }
        qp.resume();
        Ok(())
    }

    /// Changes what is left free, at any time.
    pub fn set_manners(&mut self, qpn: u32, manners: crate::Manners) -> Result<(), ModelError> {
        self.qp(qpn)?.0.config.manners = manners;
        Ok(())
    }

    /// Posts a send request.
    pub fn post_send(&mut self, qpn: u32, request: SendRequest) -> Result<(), ModelError> {
        let (qp, world) = self.qp(qpn)?;
        if qp.post_send(request, world) {
            Ok(())
        } else {
            Err(ModelError::Refused(qpn))
        }
    }

    /// Posts a receive to the queue of a QP; in ERR it is flushed at once.
    pub fn post_recv(&mut self, qpn: u32, request: RecvRequest) -> Result<(), ModelError> {
        let (qp, world) = self.qp(qpn)?;
        let queue = qp.config.receive_queue;
        world.receives.entry(queue).or_default().push_back(request);
        if qp.state == QpState::Err {
            qp.flush_receives(world);
        }
        Ok(())
    }

    /// Registers memory of a protection domain; L_Key and R_Key in one.
    pub fn register(&mut self, domain: u32, va: u64, bytes: Vec<u8>, access: Access) -> u32 {
        self.world.memory.register(domain, va, bytes, access)
    }

    /// The memory.
    pub fn memory(&self) -> &Memory {
        &self.world.memory
    }

    /// The memory, to change.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.world.memory
    }

    /// A packet of the wire, of either framing, told by its first bytes' meaning to the QPs: bytes that are no packet
    /// for any of them are dropped silently (WIRE-16).
    pub fn handle_packet(&mut self, now: u64, bytes: &[u8]) {
        let framings = [Framing::Ethernet, Framing::InfiniBand];
        let found = framings
            .into_iter()
            .find_map(|framing| Frame::parse(framing, bytes));
        if let Some(frame) = found {
            self.handle_frame(now, &frame);
        }
    }

    /// A packet that has been parsed.
    pub fn handle_frame(&mut self, now: u64, frame: &Frame) {
        if frame.packet.dest_qp == QPN_MULTICAST {
            // MC-3: a copy for each. Who is attached to which group is not known here.
            for qp in self
                .qps
                .values_mut()
                .filter(|qp| qp.config.service == Service::Ud)
            {
                qp.handle(now, frame, &mut self.world);
            }
        } else if let Some(qp) = self.qps.get_mut(&frame.packet.dest_qp) {
            qp.handle(now, frame, &mut self.world);
        }
        self.change_paths();
    }

    /// The next packet that leaves now: the QPs take turns, a packet each.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Vec<u8>> {
        let later = self.qps.range(self.turn + 1..).map(|(qpn, _)| *qpn);
        let order: Vec<u32> = later
            .chain(self.qps.range(..=self.turn).map(|(qpn, _)| *qpn))
            .collect();
        for qpn in order {
            let Some(qp) = self.qps.get_mut(&qpn) else {
                continue;
            };
            let link = qp.next_link();
            let Some(packet) = qp.next_packet(now, &mut self.world) else {
                continue;
            };
            self.turn = qpn;
            return Frame { link, packet }.emit();
        }
        None
    }

    /// When [`Model::handle_timeout`] or [`Model::poll_transmit`] has something to do without a packet or a request
    /// that comes first. It may be in the past.
    pub fn next_timeout(&self) -> Option<u64> {
        self.qps.values().filter_map(Qp::next_timeout).min()
    }

    /// Time has come to `now`.
    pub fn handle_timeout(&mut self, now: u64) {
        for qp in self.qps.values_mut() {
            qp.handle_timeout(now, &mut self.world);
        }
        self.change_paths();
    }

    /// The oldest completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.world.completions.pop_front()
    }

    /// The oldest event.
    pub fn poll_event(&mut self) -> Option<ModelEvent> {
        self.world.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::example_link;

    #[test]
    fn nothing_of_a_refused_list_is_written() {
        let mut world = OwnWorld::default();
        let key = world.memory.register(0, 0, vec![0; 8], Access::LOCAL);
        let config = QpConfig::rc(2, 3, example_link());
        let wrong = [Sge::new(key, 0, 1), Sge::new(key + 1, 0, 1)];
        assert_eq!(world.scatter(&config, &wrong, 0, &[1, 2]), Err(Refusal::Key));
        assert_eq!(world.memory.bytes(key), Some(&[0; 8][..]));
        let right = [Sge::new(key, 6, 1), Sge::new(key, 0, 2)];
        assert_eq!(world.scatter(&config, &right, 1, &[1, 2]), Ok(()));
        let mut gathered = [9; 3];
        assert_eq!(world.gather_to(&config, &right, 0, &mut gathered), Ok(()));
        assert_eq!(gathered, [0, 1, 2]);
        // Of one entry a part.
        assert_eq!(
            world.gather_to(&config, &right[1..], 1, &mut gathered[..1]),
            Ok(())
        );
        assert_eq!(gathered, [2, 1, 2]);
        assert_eq!(
            world.gather_to(&config, &right[1..], 1, &mut gathered),
            Err(Refusal::TooShort)
        );
    }
}
