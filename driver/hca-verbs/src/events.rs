//! Events: completion channels and asynchronous events.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use hca_abi::{Eqe, EventKind};
use hca_driver::{DevicePtr, Doorbells, EqRing, EqWatch};

use crate::context::{Shared, lock};
use crate::error::Result;
use crate::known::Known;

/// An asynchronous event: ibv_async_event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: EventKind,
    /// CQN, QPN, SRQN or port, by kind.
    pub id: u32,
    /// More detail, by kind.
    pub data: u32,
    /// Card cycles when it happened.
    pub timestamp: u64,
}

/// Events of a channel that have not been read.
#[derive(Debug, Default)]
pub(crate) struct ChannelQueue {
    cqns: Mutex<VecDeque<u32>>,
    /// The interrupt of the CQ that joined last: what a waiter waits for. Those of others it notices a little later.
    pub vector: AtomicU16,
}

impl ChannelQueue {
    fn push(&self, cqn: u32) {
        lock(&self.cqns).push_back(cqn);
    }

    fn pop(&self) -> Option<u32> {
        lock(&self.cqns).pop_front()
    }
}

/// What events do to one CQ.
#[derive(Debug)]
pub(crate) struct CqSink {
    pub dead: AtomicBool,
    pub channel: Option<Arc<ChannelQueue>>,
}

/// Takes events off the event queues and brings them to those they are for.
pub(crate) struct Dispatcher<P> {
    doorbells: Doorbells<P>,
    rings: Mutex<Vec<EqRing>>,
    /// The same rings, for looks without the lock.
    watches: Vec<EqWatch>,
    /// A thread of the program's runs us; polls need not.
    has_thread: AtomicBool,
    pending: Mutex<VecDeque<AsyncEvent>>,
    cqs: Mutex<HashMap<u32, Arc<CqSink>>>,
    /// What events of ports make obsolete.
    pub known: Known,
}

impl<P: DevicePtr> Dispatcher<P> {
    /// The rings are looked at in this order.
    pub fn new(doorbells: Doorbells<P>, rings: Vec<EqRing>) -> Self {
        Self {
            doorbells,
            watches: rings.iter().map(EqRing::watch).collect(),
            has_thread: AtomicBool::new(false),
            rings: Mutex::new(rings),
            pending: Mutex::default(),
            cqs: Mutex::default(),
            known: Known::default(),
        }
    }

    pub fn add_cq(&self, cqn: u32, sink: Arc<CqSink>) {
        lock(&self.cqs).insert(cqn, sink);
    }

    pub fn remove_cq(&self, cqn: u32) {
        lock(&self.cqs).remove(&cqn);
    }

    pub fn next_async(&self) -> Option<AsyncEvent> {
        lock(&self.pending).pop_front()
    }

    /// Handles every event there is. Cheap when there is none.
    pub fn run(&self) {
        self.take_all(&mut lock(&self.rings));
    }

    /// What whoever answers from memory does first: an event that is there has been handled when it returns.
    pub fn take_waiting(&self) {
        if self.watches.iter().any(EqWatch::has_event) {
            self.run();
        }
    }

    /// What an empty poll does. It waits for no lock: whoever has the rings is handling what there is.
    #[inline]
    pub fn run_for_poll(&self) {
        if self.has_thread.load(Ordering::Relaxed) || !self.watches.iter().any(EqWatch::has_event) {
            return;
        }
        if let Ok(mut rings) = self.rings.try_lock() {
            self.take_all(&mut rings);
        }
    }

    pub fn set_thread(&self) {
        self.has_thread.store(true, Ordering::Relaxed);
    }

    fn take_all(&self, rings: &mut [EqRing]) {
        for ring in rings {
            while let Some(eqe) = ring.poll(&self.doorbells) {
                self.handle(&eqe);
            }
        }
    }

    fn handle(&self, eqe: &Eqe) {
        // A kind that the contract does not know comes from a newer card: nothing here could act on it.
        let Ok(kind) = EventKind::try_from(eqe.kind()) else {
            return;
        };
        let cqs = lock(&self.cqs);
        let sink = cqs.get(&eqe.id());
        match (kind, sink) {
            (EventKind::Completion, sink) => {
                // An event of a CQ that is gone, or that has no channel, has nobody to go to.
                if let Some(channel) = sink.and_then(|sink| sink.channel.as_ref()) {
                    channel.push(eqe.id());
                }
                return;
            }
            (EventKind::CqErr, Some(sink)) => sink.dead.store(true, Ordering::Release),
            _ => self.known.note(kind, eqe.id()),
        }
        let event = AsyncEvent {
            kind,
            id: eqe.id(),
            data: eqe.data0(),
            timestamp: eqe.timestamp(),
        };
        lock(&self.pending).push_back(event);
    }
}

/// Where completion events of CQs arrive: ibv_comp_channel. Events need no acknowledgement here.
pub struct CompChannel<P: DevicePtr> {
    shared: Arc<Shared<P>>,
    queue: Arc<ChannelQueue>,
}

debug_as!(CompChannel, pending);

impl<P: DevicePtr> CompChannel<P> {
    pub(crate) fn new(shared: Arc<Shared<P>>) -> Self {
        Self {
            shared,
            queue: Arc::default(),
        }
    }

    /// Events that have arrived and were not read.
    pub fn pending(&self) -> usize {
        lock(&self.queue.cqns).len()
    }

    pub(crate) fn queue(&self) -> &Arc<ChannelQueue> {
        &self.queue
    }

    /// CQN of the oldest event, if there is one.
    pub fn poll_event(&self) -> Option<u32> {
        self.shared.dispatcher.run();
        self.queue.pop()
    }

    /// ibv_get_cq_event: waits until `deadline_ns` of `Device::now_ns`; the CQN. The CQ is disarmed by then.
    pub fn get_event(&self, deadline_ns: u64) -> Result<u32> {
        self.shared.wait(
            self.queue.vector.load(Ordering::Relaxed),
            deadline_ns,
            "completion event",
            || self.queue.pop(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;
    use hca_fake::FakeDevice;
    use std::rc::Rc;

    /// A poll that finds nothing, while somebody else takes events, and there are some.
    #[test]
    fn an_empty_poll_does_not_wait_for_the_event_queues() {
        let dev = Rc::new(FakeDevice::new());
        let context = Context::open_with(dev, &OpenOptions::simulated()).unwrap();
        let pd = context.alloc_pd().unwrap();
        let channel = context.create_comp_channel();
        let cq = context.create_cq(&CqOptions::with_channel(10, &channel)).unwrap();
        let idle = context.create_cq(&CqOptions::new(10)).unwrap();
        let qp = || pd.create_qp(&QpOptions::new(&cq, &cq)).unwrap();
        let (mut a, mut b) = connect_pair(qp(), qp(), &ConnectOptions::default()).unwrap();
        cq.req_notify(false).unwrap();
        b.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
        let send = SendWr {
            wr_id: 2,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[]),
        };
        a.post_send(&[send]).unwrap();

        let dispatcher = &channel.shared.dispatcher;
        let held = lock(&dispatcher.rings);
        let admin = context.function();
        let mut wc = [WorkCompletion::default(); 4];
        while !dispatcher.watches.iter().any(EqWatch::has_event) {
            assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        }
        assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        assert_eq!(channel.pending(), 0, "nobody could take it");
        drop((held, admin));
        assert_eq!(idle.poll_cq(&mut wc).unwrap(), 0);
        assert_eq!(channel.pending(), 1);
        assert!(!dispatcher.watches.iter().any(EqWatch::has_event));
        assert_eq!(cq.poll_cq(&mut wc).unwrap(), 2);
    }
}
