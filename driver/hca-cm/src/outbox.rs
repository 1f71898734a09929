//! What an engine wants to say: datagrams to the other side, events to its user.

use std::collections::VecDeque;

use crate::api::{Event, Transmit};
use crate::message::Mad;

/// Both, oldest first.
pub(crate) struct Outbox<R> {
    pub transmits: VecDeque<Transmit<R>>,
    pub events: VecDeque<Event<R>>,
}

impl<R> Outbox<R> {
    pub const fn new() -> Self {
        Self {
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    pub fn send(&mut self, to: R, mad: Mad) {
        self.transmits.push_back(Transmit { to, mad });
    }

    pub fn tell(&mut self, event: Event<R>) {
        self.events.push_back(event);
    }
}
