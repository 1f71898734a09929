//! Completion and event queues.

use hca_abi::{CqArm, Cqc, Cqe, Eqc, Eqe, EventKind, HwEventKind, WcStatus};

use crate::HostPort;
use crate::body::Body;
use crate::looks::QueueIndices;

/// Indices are free-running, of 24 bits.
const INDEX_MASK: u32 = 0xff_ffff;
/// Half of them: what is beyond is behind.
const BEHIND: u32 = 0x80_0000;

/// A completion queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cq {
    context: Cqc,
    producer: u32,
    consumer: u32,
    /// Behind the last completion that is an error or solicited.
    solicited: u32,
    arm: Option<CqArm>,
    has_failed: bool,
    /// Its event waits for more completions, or for this cycle.
    waits_until: Option<u64>,
}

impl Cq {
    pub fn context(&self) -> &Cqc {
        &self.context
    }

    pub fn indices(&self) -> Option<QueueIndices> {
        self.context.valid().then(|| QueueIndices {
            producer: self.producer,
            consumer: self.consumer,
            size: 1 << self.context.log_size(),
        })
    }

    fn is_moderated(&self) -> bool {
        self.context.mod_count() != 0 && self.context.mod_cycles() != 0
    }

    /// So many completions that the host has not taken are enough.
    fn suffices(&self, count: u32) -> bool {
        !self.is_moderated() || count >= u32::from(self.context.mod_count())
    }
}

/// An event queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eq {
    context: Eqc,
    producer: u16,
    consumer: u16,
}

impl Eq {
    pub fn context(&self) -> &Eqc {
        &self.context
    }

    pub fn indices(&self) -> Option<QueueIndices> {
        self.context.valid().then(|| QueueIndices {
            producer: self.producer.into(),
            consumer: self.consumer.into(),
            size: 1 << self.context.log_size(),
        })
    }
}

const fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & INDEX_MASK
}

impl Body {
    /// A row of the table was written.
    pub fn cqc_written(&mut self, cqn: u32, row: &[u8]) {
        let mut context = Cqc::read_from(row).unwrap_or_default();
        let Some(cq) = self.cqs.get_mut(cqn as usize) else {
            return;
        };
        if context.moderate() {
            cq.context.set_mod_count(context.mod_count());
            cq.context.set_mod_cycles(context.mod_cycles());
        } else if context.keep() {
            context.set_mod_count(cq.context.mod_count());
            context.set_mod_cycles(cq.context.mod_cycles());
            cq.context = context;
        } else {
            let before = cq.waits_until;
            *cq = Cq {
                context,
                ..Cq::default()
            };
            if let Some(at) = before {
                self.cq_timers.remove(&(at, cqn));
            }
        }
    }

    pub fn eqc_written(&mut self, eqn: u32, row: &[u8]) {
        if let Some(eq) = self.eqs.get_mut(eqn as usize) {
            *eq = Eq {
                context: Eqc::read_from(row).unwrap_or_default(),
                ..Eq::default()
            };
        }
    }

    /// The doorbell of a CQ. False: it is not this function's.
    pub fn cq_doorbell(
        &mut self,
        host: &mut dyn HostPort,
        func: u8,
        cqn: u32,
        consumer: u32,
        arm: u8,
    ) -> bool {
        let Some(cq) = self
            .cqs
            .get_mut(cqn as usize)
            .filter(|cq| cq.context.valid() && cq.context.func() == func)
        else {
            return false;
        };
        if cq.has_failed {
            return true;
        }
        cq.consumer = consumer & INDEX_MASK;
        let arm = CqArm::try_from(arm).ok().filter(|arm| *arm != CqArm::None);
        let Some(arm) = arm else { return true };
        let ahead = distance(cq.consumer, cq.producer);
        let solicited = distance(cq.consumer, cq.solicited);
        // What the host has not seen yet fires at once: it came before the arming.
        let is_meant = match arm {
            CqArm::Solicited => solicited != 0 && solicited < BEHIND,
            _ => ahead != 0,
        };
        let waited = cq.waits_until.is_some();
        cq.arm = Some(arm);
        if is_meant && cq.suffices(ahead) {
            self.fire(host, cqn);
        } else if is_meant {
            self.begin_wait(cqn);
        } else if waited {
            // What it waited for the host has taken meanwhile: its event comes before the next one begins.
            self.fire(host, cqn);
            self.cqs[cqn as usize].arm = Some(arm);
        }
        true
    }

    fn begin_wait(&mut self, cqn: u32) {
        let cq = &mut self.cqs[cqn as usize];
        if cq.waits_until.is_none() {
            let at = self.now + u64::from(cq.context.mod_cycles());
            cq.waits_until = Some(at);
            self.cq_timers.insert((at, cqn), ());
        }
    }

    fn fire(&mut self, host: &mut dyn HostPort, cqn: u32) {
        let cq = &mut self.cqs[cqn as usize];
        cq.arm = None;
        let eqn = cq.context.eqn();
        if let Some(at) = cq.waits_until.take() {
            self.cq_timers.remove(&(at, cqn));
        }
        self.write_eqe(host, eqn, [u32::from(u8::from(EventKind::Completion)), cqn, 0, 0]);
    }

    /// Events that have waited long enough (V-64).
    pub fn cq_time(&mut self, host: &mut dyn HostPort) {
        while let Some(((at, cqn), ())) = self.cq_timers.first_key_value()
            && *at <= self.now
        {
            let cqn = *cqn;
            self.fire(host, cqn);
        }
    }

    /// Puts a completion into a CQ. The last free entry takes the one for which there is no room, as an error (V-57).
    pub fn write_cqe(&mut self, host: &mut dyn HostPort, cqn: u32, mut cqe: Cqe, solicited: bool) {
        let now = self.now;
        let Some(cq) = self
            .cqs
            .get_mut(cqn as usize)
            .filter(|cq| cq.context.valid() && !cq.has_failed)
        else {
            return;
        };
        let size = 1 << cq.context.log_size();
        let used = distance(cq.consumer, cq.producer);
        let overrun = !cq.context.ignore_overrun() && used + 1 == size;
        let wants_event = solicited || cqe.status() != u8::from(WcStatus::Success);
        cqe.set_phase(cq.producer >> cq.context.log_size() & 1 == 0);
        cqe.set_timestamp(now);
        if overrun {
            cqe.set_status(WcStatus::GeneralErr.into());
        }
        let slot = u64::from(cq.producer & (size - 1));
        let at = cq.context.base() + slot * Cqe::BYTES as u64;
        let func = cq.context.func();
        let written = host.write(func, at, cqe.as_bytes());
        cq.has_failed = overrun || !written;
        if cq.has_failed {
            self.raise(HwEventKind::CqError, func, cqn, 0);
        }
        if !written {
            return;
        }
        let cq = &mut self.cqs[cqn as usize];
        cq.producer = (cq.producer + 1) & INDEX_MASK;
        if wants_event {
            cq.solicited = cq.producer;
        }
        let is_meant = cq.waits_until.is_some()
            || match cq.arm {
                Some(CqArm::Next) => true,
                Some(CqArm::Solicited) => wants_event,
                _ => false,
            };
        if is_meant && (cq.suffices(used + 1) || overrun) {
            self.fire(host, cqn);
        } else if is_meant {
            self.begin_wait(cqn);
        }
    }

    /// The doorbell of an EQ. False: it is not this function's.
    pub fn eq_doorbell(&mut self, func: u8, eqn: u32, consumer: u16) -> bool {
        let eq = self.eqs.get_mut(eqn as usize);
        let Some(eq) = eq.filter(|eq| eq.context.valid() && eq.context.func() == func) else {
            return false;
        };
        eq.consumer = consumer;
        true
    }

    /// Puts an event into an EQ, and raises its vector.
    pub fn write_eqe(&mut self, host: &mut dyn HostPort, eqn: u8, words: [u32; 4]) {
        let now = self.now;
        let Some(eq) = self.eqs.get_mut(usize::from(eqn)).filter(|eq| eq.context.valid()) else {
            return;
        };
        let func = eq.context.func();
        if u32::from(eq.producer.wrapping_sub(eq.consumer)) >= 1 << eq.context.log_size() {
            return self.raise(HwEventKind::EqOverflow, func, eqn.into(), 0);
        }
        let mut eqe = Eqe::new();
        eqe.set_kind(words[0] as u8);
        eqe.set_eqn(eqn.into());
        eqe.set_id(words[1]);
        eqe.set_data0(words[2]);
        eqe.set_data1(words[3]);
        eqe.set_timestamp(now);
        eqe.set_phase(eq.producer >> eq.context.log_size() & 1 == 0);
        let slot = u64::from(eq.producer) & ((1 << eq.context.log_size()) - 1);
        eq.producer = eq.producer.wrapping_add(1);
        let (at, vector) = (eq.context.base() + slot * Eqe::BYTES as u64, eq.context.vector());
        // A ring that is not there loses its events, as on any card; its owner made it so.
        if host.write(func, at, eqe.as_bytes()) {
            host.interrupt(func, vector % self.vectors);
        }
    }
}
