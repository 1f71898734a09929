//! When things crossed the ports of a card: the raw material of latency breakdowns.

use std::collections::VecDeque;

/// What crossed a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampKind {
    /// The card took a register write (doorbells are at 0x1000 and up).
    MmioWrite {
        /// Function.
        func: u8,
        /// Offset in BAR 0.
        addr: u16,
    },
    /// The card asked for host memory.
    ReadRequest {
        /// Tag.
        tag: u8,
        /// Bus address.
        addr: u64,
        /// Length.
        len_bytes: u16,
    },
    /// First beat of an answer.
    ReadFirst {
        /// Tag.
        tag: u8,
    },
    /// Last beat of an answer.
    ReadLast {
        /// Tag.
        tag: u8,
        /// It was an error.
        err: bool,
    },
    /// First beat of a packet to the wire.
    TxFirst,
    /// Last beat of a packet to the wire.
    TxLast,
    /// A link packet, which is one beat, to the wire.
    TxLink,
    /// A link packet from the wire.
    RxLink,
    /// First beat of a packet from the wire.
    RxFirst,
    /// Last beat of a packet from the wire.
    RxLast,
    /// Last beat of a write burst to host memory.
    WriteLast {
        /// Bus address of the beat.
        addr: u64,
    },
    /// An interrupt message.
    Msix {
        /// Vector.
        vector: u16,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The cycle.
    pub cycle: u64,
    /// The event.
    pub kind: StampKind,
}

/// A bounded record; the oldest go first. Off unless it has room.
#[derive(Default)]
pub(crate) struct Stamps {
    ring: VecDeque<Stamp>,
    capacity: usize,
}

impl Stamps {
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.ring.clear();
    }

    #[inline]
    pub fn push(&mut self, cycle: u64, kind: StampKind) {
        if self.capacity == 0 {
            return;
        }
        if self.ring.len() == self.capacity {
            self.ring.pop_front();
        }
        self.ring.push_back(Stamp { cycle, kind });
    }

    pub fn take(&mut self) -> Vec<Stamp> {
        self.ring.drain(..).collect()
    }
}
