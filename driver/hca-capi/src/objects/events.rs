//! Events on their way to programs: which objects they name, the pipes that they wait in, and those that were read and
//! not yet acknowledged.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use hca_verbs::{AsyncEvent, CompChannel, EventKind};

use crate::boundary::live::lock;
use crate::boundary::pipe::EventPipe;
use crate::boundary::{Errno, Verb, warn};
use crate::cards::DevPtr;

/// Events that the program has read and not yet acknowledged. Shared: who acknowledges the last one may still be at it
/// when the object is gone.
#[derive(Default)]
pub struct Unacked {
    count: Mutex<u32>,
    none: Condvar,
}

impl Unacked {
    pub fn add(&self) {
        *lock(&self.count) += 1;
    }

    pub fn ack(&self, events: u32) {
        let mut count = lock(&self.count);
        if events > *count {
            warn(&"more events acknowledged than were read");
        }
        *count = count.saturating_sub(events);
        self.none.notify_all();
    }

    /// V-48, V-65: a destroy returns when all are acknowledged.
    pub fn wait(&self) {
        let mut count = lock(&self.count);
        while *count > 0 {
            count = self.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Events of one object that its destroy waits for.
#[derive(Default)]
pub struct Events {
    /// Of completion channels.
    pub completion: Unacked,
    pub asynchronous: Unacked,
}

/// An object that events name.
pub struct Target {
    /// Tells it from a later object with the same number.
    pub generation: u32,
    /// The object; alive while it is in the table.
    pub object: usize,
    /// The open that it belongs to.
    pub context: usize,
    pub events: Arc<Events>,
}

/// Kinds of objects that events name by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    Cq,
    Qp,
    Srq,
    Wq,
}

/// A completion channel's two ends: where the driver puts events, and where the program reads them.
pub struct ChannelEnds {
    pub channel: CompChannel<DevPtr>,
    pub pipe: EventPipe<8>,
}

/// By number. A target of XRC can have several handles, each of them an object.
pub type Table = HashMap<u32, Vec<Target>>;

/// What events may name, and where they go. Whoever holds the lock may follow the addresses: objects leave before they
/// are freed.
#[derive(Default)]
pub struct Targets {
    cqs: Table,
    qps: Table,
    srqs: Table,
    wqs: Table,
    channels: Vec<Arc<ChannelEnds>>,
    /// Asynchronous events of every open of the card.
    contexts: HashMap<usize, Arc<EventPipe<16>>>,
}

impl Targets {
    pub fn table(&mut self, kind: Numbered) -> &mut Table {
        match kind {
            Numbered::Cq => &mut self.cqs,
            Numbered::Qp => &mut self.qps,
            Numbered::Srq => &mut self.srqs,
            Numbered::Wq => &mut self.wqs,
        }
    }

    /// The object that a record names, if it still exists.
    pub fn find(&mut self, kind: Numbered, number: u32, generation: u32) -> Option<&Target> {
        let mut targets = self.table(kind).get(&number)?.iter();
        targets.find(|target| target.generation == generation)
    }

    pub fn add_channel(&mut self, channel: &Arc<ChannelEnds>) -> Verb<()> {
        self.channels.try_reserve(1).map_err(|_| Errno(libc::ENOMEM))?;
        self.channels.push(channel.clone());
        Ok(())
    }

    pub fn remove_channel(&mut self, channel: &Arc<ChannelEnds>) {
        self.channels.retain(|other| !Arc::ptr_eq(other, channel));
    }

    /// `context`: the address of the open device.
    pub fn add_context(&mut self, context: usize, pipe: &Arc<EventPipe<16>>) {
        self.contexts.insert(context, pipe.clone());
    }

    pub fn remove_context(&mut self, context: usize) {
        self.contexts.remove(&context);
    }

    /// Completion events into their pipes, and whatever a full pipe has refused before.
    pub fn flush(&self) {
        for ends in &self.channels {
            while let Some(cqn) = ends.channel.poll_event() {
                for cq in self.cqs.get(&cqn).into_iter().flatten() {
                    ends.pipe.push(record(cqn, cq.generation));
                }
            }
            ends.pipe.flush();
        }
        for pipe in self.contexts.values() {
            pipe.flush();
        }
    }

    /// An asynchronous event into the pipes of those whom it concerns.
    pub fn route(&self, event: &AsyncEvent) {
        // EVT: a kind counts from 0x10; 0 to 5, 6, 7 and 0x10 of those belong to an object, the others to the port.
        // To the card a work queue is a raw QP that only receives; a QP that does so has another name for its event.
        let is_qp = event.kind == EventKind::WqFatal && self.qps.contains_key(&event.id);
        let kind = if is_qp { EventKind::QpFatal } else { event.kind };
        let targets = match kind {
            EventKind::CqErr => self.cqs.get(&event.id),
            EventKind::QpFatal
            | EventKind::QpReqErr
            | EventKind::QpAccessErr
            | EventKind::CommEst
            | EventKind::SqDrained
            | EventKind::PathMig
            | EventKind::PathMigErr
            | EventKind::QpLastWqeReached => self.qps.get(&event.id),
            EventKind::SrqErr | EventKind::SrqLimitReached => self.srqs.get(&event.id),
            EventKind::WqFatal => self.wqs.get(&event.id),
            EventKind::Completion => return,
            _ => {
                // EVT-1: to every open of the device.
                for pipe in self.contexts.values() {
                    pipe.push(async_record(record(event.id, 0), event.kind));
                }
                return;
            }
        };
        // An object that is gone by now has nobody to tell; V-120: each handle of a target of XRC is told.
        for target in targets.into_iter().flatten() {
            if let Some(pipe) = self.contexts.get(&target.context) {
                pipe.push(async_record(record(event.id, target.generation), kind));
            }
        }
    }
}

/// Number and generation as the eight bytes of a completion event.
fn record(number: u32, generation: u32) -> [u8; 8] {
    (u64::from(number) | u64::from(generation) << 32).to_ne_bytes()
}

/// The other way.
pub fn parse_record(record: [u8; 8]) -> (u32, u32) {
    let word = u64::from_ne_bytes(record);
    (word as u32, (word >> 32) as u32)
}

fn async_record(id: [u8; 8], kind: EventKind) -> [u8; 16] {
    let mut record = [0; 16];
    record[..8].copy_from_slice(&id);
    record[8..12].copy_from_slice(&(u32::from(u8::from(kind)) - 0x10).to_ne_bytes());
    record
}
