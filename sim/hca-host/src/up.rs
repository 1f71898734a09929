//! The link's direction towards the host: in order, at the link's rate, no more under way than the host has room for.

use std::collections::VecDeque;

use crate::WriteBeat;
use crate::params::{TICKS_PER_CYCLE, Timing};

/// What travels, in order: a read never passes an earlier write.
pub(crate) enum Upstream {
    Write(WriteBeat),
    Read {
        tag: u8,
        func: u8,
        addr: u64,
        len_bytes: u16,
    },
    MmioValue {
        func: u8,
        id: u64,
        value: u32,
    },
}

struct Item {
    taken_at: u64,
    bytes: u32,
    what: Upstream,
}

/// The queue of what is under way.
#[derive(Default)]
pub(crate) struct Up {
    items: VecDeque<Item>,
    /// Of all items.
    bytes: u64,
    free_ticks: u64,
}

impl Up {
    /// Something more may be sent this cycle.
    #[inline]
    pub fn room(&self, now: u64, timing: &Timing) -> bool {
        self.bytes < timing.credit_bytes && self.free_ticks <= now * TICKS_PER_CYCLE + timing.buffer_ticks
    }

    /// First cycle in which there is room, if nothing else is sent.
    pub fn room_cycle(&self, timing: &Timing) -> u64 {
        let ticks = self.free_ticks.saturating_sub(timing.buffer_ticks);
        ticks.div_ceil(TICKS_PER_CYCLE).max(self.credit_cycle(timing))
    }

    /// First cycle in which the host has taken so much that a credit is there.
    fn credit_cycle(&self, timing: &Timing) -> u64 {
        let mut left = self.bytes;
        let mut cycle = 0;
        for item in &self.items {
            if left < timing.credit_bytes {
                break;
            }
            left -= u64::from(item.bytes);
            cycle = item.taken_at;
        }
        cycle
    }

    /// Sends something that is so long on the link.
    pub fn send(&mut self, now: u64, bytes: u32, what: Upstream, timing: &Timing) {
        let start = self.free_ticks.max(now * TICKS_PER_CYCLE);
        self.free_ticks = start + timing.ticks(bytes);
        let arrival = self.free_ticks.div_ceil(TICKS_PER_CYCLE) + timing.one_way_cycles;
        self.bytes += u64::from(bytes);
        self.items.push_back(Item {
            taken_at: timing.taken_at(arrival),
            bytes,
            what,
        });
    }

    /// The next that the host has taken by now, and when.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<(u64, Upstream)> {
        let item = self.items.pop_front_if(|item| item.taken_at <= now)?;
        self.bytes -= u64::from(item.bytes);
        Some((item.taken_at, item.what))
    }

    /// When the host takes the next one.
    #[inline]
    pub fn next_event(&self) -> Option<u64> {
        self.items.front().map(|item| item.taken_at)
    }
}
