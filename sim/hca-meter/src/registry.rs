//! All meters of a simulator.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hca_cosim::{Observer, ObserverFactory, SentPacket, Session};
use hca_host::{IommuMap, SharedWrite};

use crate::function::FunctionMeter;
use crate::process::{name, with_ancestors};
use crate::report::{Report, SessionReport};

/// Sessions that are kept; the oldest that has ended goes first.
const KEPT_SESSIONS: usize = 256;

/// One process on one function.
struct Metered {
    session: Session,
    program: String,
    /// The process and those it descends from.
    chain: Vec<i32>,
    is_running: bool,
    meter: FunctionMeter,
}

type Shared = Arc<Mutex<Metered>>;

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The meters of all processes that have or had a function. Clones are the same.
#[derive(Clone, Default)]
pub struct Meters {
    sessions: Arc<Mutex<Vec<Shared>>>,
}

impl Meters {
    /// For [`hca_cosim::Server::observe`].
    pub fn observers(&self) -> ObserverFactory {
        let meters = self.clone();
        Box::new(move |session| Box::new(meters.start(session)))
    }

    fn start(&self, session: &Session) -> Handle {
        let metered = Arc::new(Mutex::new(Metered {
            session: session.clone(),
            program: name(session.pid),
            chain: with_ancestors(session.pid),
            is_running: true,
            meter: FunctionMeter::new(session.link),
        }));
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= KEPT_SESSIONS {
            let ended = sessions.iter().position(|session| !lock(session).is_running);
            sessions.remove(ended.unwrap_or(0));
        }
        sessions.push(metered.clone());
        Handle { metered }
    }

    /// The figures of all processes that descend from `root`, itself included; without it of all.
    pub fn report(&self, root: Option<i32>) -> Report {
        let sessions = lock(&self.sessions).clone();
        let wanted = sessions.iter().map(|session| lock(session));
        let wanted = wanted.filter(|session| root.is_none_or(|root| session.chain.contains(&root)));
        let report = |found: MutexGuard<'_, Metered>| {
            let (qps, idle_qps, lost_qps) = found.meter.report();
            SessionReport {
                card: found.session.card_name.clone(),
                func: found.session.func,
                pid: found.session.pid,
                program: found.program.clone(),
                is_running: found.is_running,
                qps,
                idle_qps,
                lost_qps,
            }
        };
        Report {
            sessions: wanted.map(report).collect(),
        }
    }
}

/// What the simulator holds of a meter.
struct Handle {
    metered: Shared,
}

impl Observer for Handle {
    fn register_written(&mut self, now_ns: u64, bytes: Range<u16>, value: u64, memory: &IommuMap) {
        lock(&self.metered)
            .meter
            .register_written(now_ns, bytes, value, memory);
    }

    fn ring_written(&mut self, now_ns: u64, write: &SharedWrite, memory: &IommuMap) {
        lock(&self.metered).meter.ring_written(now_ns, write, memory);
    }

    fn packet_sent(&mut self, now_ns: u64, packet: &SentPacket) {
        lock(&self.metered).meter.packet_sent(now_ns, packet);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.metered).is_running = false;
    }
}
