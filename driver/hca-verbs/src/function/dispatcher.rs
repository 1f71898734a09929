//! Takes events off the event queues and brings them to those they are for.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use hca_abi::{Eqe, EventKind};
use hca_driver::{DevicePtr, Doorbells, EqRing, EqWatch};
use hca_room::NoRoom;

use crate::function::known::Known;
use crate::values::lock::lock;

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
    /// Tasks that wait for completions of a CQ: its next event is theirs.
    wakers: Mutex<HashMap<u32, Waker>>,
}

impl ChannelQueue {
    /// The next event of this CQ wakes a task, and is then over.
    pub fn set_waker(&self, cqn: u32, waker: &Waker) {
        lock(&self.wakers).insert(cqn, waker.clone());
    }

    pub fn remove_waker(&self, cqn: u32) {
        lock(&self.wakers).remove(&cqn);
    }

    /// False: no task waits.
    fn wake(&self, cqn: u32) -> bool {
        let waker = lock(&self.wakers).remove(&cqn);
        waker.map(Waker::wake).is_some()
    }

    pub fn len(&self) -> usize {
        lock(&self.cqns).len()
    }

    fn push(&self, cqn: u32) {
        lock(&self.cqns).push_back(cqn);
    }

    pub fn pop(&self) -> Option<u32> {
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
    pub rings: Mutex<Vec<EqRing>>,
    /// The same rings, for looks without the lock.
    pub watches: Vec<EqWatch>,
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

    /// Room for one more CQ.
    pub fn require_room(&self) -> Result<(), NoRoom> {
        let len_bytes = size_of::<(u32, Arc<CqSink>)>();
        let reserved = lock(&self.cqs).try_reserve(1);
        reserved.map_err(|_| NoRoom { len_bytes })
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
                if let Some(channel) = sink.and_then(|sink| sink.channel.as_ref())
                    && !channel.wake(eqe.id())
                {
                    channel.push(eqe.id());
                }
                return;
            }
            (EventKind::CqErr, Some(sink)) => {
                sink.dead.store(true, Ordering::Release);
                if let Some(channel) = &sink.channel {
                    channel.wake(eqe.id());
                }
            }
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
