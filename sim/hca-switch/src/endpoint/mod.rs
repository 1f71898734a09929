//! Generators and sinks of checked traffic, in place of cards.

mod eth;
mod ib;

use std::collections::BTreeMap;

pub use eth::{EthEndpoint, EthEndpointConfig, EthFlow};
pub use ib::{Flow, IbEndpoint, IbEndpointConfig};

/// Bytes of the number in a payload.
const NUMBER_BYTES: usize = 8;
/// Packets that wait for one VL or priority.
const QUEUE_PACKETS: usize = 4;

/// Pauses of a receiver: its buffer is not drained meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalls {
    /// Packets in a thousand that begin one, on their VL or priority.
    pub per_mille: u32,
    /// Longest one.
    pub cycles_max: u64,
}

/// What has come from one source, to one destination, on one SL or priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCount {
    /// Packets.
    pub packets: u64,
    /// Numbers that were left out.
    pub missing: u64,
    /// Packets that came after one sent later, or again.
    pub out_of_order: u64,
    next: u64,
}

impl FlowCount {
    fn count(&mut self, number: u64) {
        self.packets += 1;
        if number < self.next {
            self.out_of_order += 1;
        } else {
            self.missing += number - self.next;
            self.next = number + 1;
        }
    }

    fn sum<Key>(flows: &BTreeMap<Key, Self>) -> Self {
        let add = |sum: Self, one: &Self| Self {
            packets: sum.packets + one.packets,
            missing: sum.missing + one.missing,
            out_of_order: sum.out_of_order + one.out_of_order,
            next: 0,
        };
        flows.values().fold(Self::default(), add)
    }
}

/// Draws an index by shares; `None` where all are 0.
fn draw_share(shares: impl Iterator<Item = u32> + Clone, random: u32) -> Option<usize> {
    let total: u32 = shares.clone().sum();
    let mut draw = random.checked_rem(total)?;
    for (index, share) in shares.enumerate() {
        if draw < share {
            return Some(index);
        }
        draw -= share;
    }
    None
}
