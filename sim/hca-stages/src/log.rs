//! The log of a fabric.

use std::cell::RefCell;
use std::rc::Rc;

use hca_cosim::{CardPorts, Fabric, PortObserver};
use hca_link::LinkKind;
use hca_wire::Framing;
use serde::Serialize;
use thiserror::Error;

use crate::join::Join;
use crate::record::WorkRecord;
use crate::tap::Tap;

/// A fabric that cannot be watched.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StageError {
    /// Time has begun: what the cards have in flight would not be known.
    #[error("stages can be recorded from the first cycle only, the simulation is at cycle {0}")]
    Late(u64),
}

/// How many work requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Recorded to their end.
    pub recorded: u64,
    /// Under way.
    pub open: u64,
    /// Not recorded, or recorded and dropped before anybody took them, for want of capacity.
    pub overflow: u64,
    /// Given up together with their queue.
    pub abandoned: u64,
}

/// Records every send work request of every card of a fabric.
pub struct StageLog(Rc<RefCell<Join>>);

impl StageLog {
    /// Watches all cards, with their cables plugged in, from now on: before time begins, so that no queue is missed.
    /// At most `capacity` work requests that are under way are recorded, and at most `capacity` that are over kept,
    /// the newest.
    pub fn attach(fabric: &mut Fabric, capacity: usize) -> Result<Self, StageError> {
        Self::attach_beside(fabric, capacity, || None::<Nobody>)
    }

    /// The same, and each card shows every cycle to an observer of the caller's as well.
    pub fn attach_beside<O: PortObserver + 'static>(
        fabric: &mut Fabric,
        capacity: usize,
        mut beside: impl FnMut() -> Option<O>,
    ) -> Result<Self, StageError> {
        if fabric.now() > 0 {
            return Err(StageError::Late(fabric.now()));
        }
        let cards: Vec<_> = fabric.cards().collect();
        let join = Rc::new(RefCell::new(Join::new(cards.len(), capacity)));
        for (index, card) in cards.into_iter().enumerate() {
            let cable = fabric
                .cable_of(card)
                .map(|cable| fabric.cable(cable).config().kind);
            let framing = match cable {
                Some(LinkKind::InfiniBand) => Framing::InfiniBand,
                Some(LinkKind::Ethernet) | None => Framing::Ethernet,
            };
            let tap = Tap::new(index, framing, join.clone());
            let observer = Both { tap, other: beside() };
            fabric.card_mut(card).observe(Some(Box::new(observer)));
        }
        Ok(Self(join))
    }

    /// The records of work requests that are over, in the order of their ends; they are forgotten here.
    pub fn take(&self) -> Vec<WorkRecord> {
        self.0.borrow_mut().take()
    }

    /// From now on `tell` is shown every record as soon as it is over. An interrupt comes later.
    pub fn on_end(&self, tell: Box<dyn FnMut(&WorkRecord) + Send>) {
        self.0.borrow_mut().on_end(tell);
    }

    /// How many there have been.
    pub fn counts(&self) -> Counts {
        self.0.borrow().counts()
    }
}

/// Two observers of a card.
struct Both<O> {
    tap: Tap,
    other: Option<O>,
}

impl<O: PortObserver> PortObserver for Both<O> {
    fn cycle(&mut self, now: u64, ports: &CardPorts) {
        self.tap.cycle(now, ports);
        if let Some(other) = &mut self.other {
            other.cycle(now, ports);
        }
    }
}

/// Observes nothing.
struct Nobody;

impl PortObserver for Nobody {
    fn cycle(&mut self, _: u64, _: &CardPorts) {}
}
