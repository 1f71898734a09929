//! The queues in front of an output.
//!
//! A packet occupies the receive buffer of the VL it came in on until its last copy has left. The buffer is shared by
//! one queue per output port and VL, so that a packet to a blocked output does not hold up those to others.

use std::collections::{BTreeMap, VecDeque};

use crate::store::Source;

/// A copy that waits for an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub slot: usize,
    pub blocks: u16,
    pub bytes: u32,
    /// Cycle from which it may leave.
    pub ready_at: u64,
}

#[derive(Debug)]
struct Lane {
    waiting: VecDeque<Waiting>,
    /// Since when its head has been the head.
    head_since: u64,
}

/// What waits for one VL of an output, in a queue per source. The sources take turns.
#[derive(Debug, Default)]
pub(crate) struct OutQueue {
    lanes: BTreeMap<Source, Lane>,
    /// The source that had the last turn.
    last: Option<Source>,
}

impl OutQueue {
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub fn push(&mut self, now: u64, source: Source, waiting: Waiting) {
        let lane = self.lanes.entry(source).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            head_since: now,
        });
        lane.waiting.push_back(waiting);
    }

    /// Sources in the order of their turns.
    fn in_turn(&self) -> impl Iterator<Item = (Source, &Lane)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let (behind, upto) = match self.last {
            Some(last) => (Excluded(last), Some(last)),
            None => (Unbounded, None),
        };
        let wrapped = upto.map(|last| self.lanes.range(..=last)).into_iter().flatten();
        self.lanes
            .range((behind, Unbounded))
            .chain(wrapped)
            .map(|(source, lane)| (*source, lane))
    }

    /// The packet whose turn it is among those that may leave by now.
    pub fn head(&self, now: u64) -> Option<(Source, Waiting)> {
        self.heads().find(|(_, waiting)| waiting.ready_at <= now)
    }

    /// The first packet of each source.
    pub fn heads(&self) -> impl Iterator<Item = (Source, Waiting)> {
        self.in_turn()
            .filter_map(|(source, lane)| Some((source, *lane.waiting.front()?)))
    }

    /// The first cycle in which a packet may leave.
    pub fn ready_at(&self) -> Option<u64> {
        self.heads().map(|(_, waiting)| waiting.ready_at).min()
    }

    /// Takes the first packet of a source; it had its turn.
    pub fn pop(&mut self, now: u64, source: Source) -> Option<Waiting> {
        self.last = Some(source);
        let lane = self.lanes.get_mut(&source)?;
        let waiting = lane.waiting.pop_front();
        lane.head_since = now;
        if lane.waiting.is_empty() {
            self.lanes.remove(&source);
        }
        waiting
    }

    /// A source that has something here.
    pub fn any(&self) -> Option<Source> {
        self.lanes.keys().next().copied()
    }

    /// A source whose head has been one for at least `life` cycles.
    pub fn expired(&self, now: u64, life: u64) -> Option<Source> {
        let old = |(_, lane): &(&Source, &Lane)| now.saturating_sub(lane.head_since) >= life;
        self.lanes.iter().find(old).map(|(source, _)| *source)
    }

    /// Since when the oldest head has been one.
    pub fn oldest_head(&self) -> Option<u64> {
        self.lanes.values().map(|lane| lane.head_since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(port: u8) -> Source {
        Source { port, vl: 0 }
    }

    fn waiting(slot: usize, ready_at: u64) -> Waiting {
        Waiting {
            slot,
            blocks: 1,
            bytes: 64,
            ready_at,
        }
    }

    #[test]
    fn sources_take_turns_and_stay_in_order() {
        let mut queue = OutQueue::default();
        for slot in 0..3 {
            for port in 1..=3u8 {
                queue.push(0, source(port), waiting(usize::from(port) * 10 + slot, 0));
            }
        }
        let mut order = Vec::new();
        while let Some((source, _)) = queue.head(0) {
            order.push(queue.pop(0, source).unwrap().slot);
        }
        assert_eq!(order, [10, 20, 30, 11, 21, 31, 12, 22, 32]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_packet_that_is_not_ready_lets_others_go() {
        let mut queue = OutQueue::default();
        queue.push(0, source(1), waiting(1, 9));
        queue.push(0, source(2), waiting(2, 4));
        assert!(queue.head(3).is_none());
        assert_eq!(queue.ready_at(), Some(4));
        assert_eq!(queue.head(4).unwrap().1.slot, 2);
        assert_eq!((queue.oldest_head(), queue.expired(7, 8)), (Some(0), None));
        assert_eq!(queue.expired(8, 8), Some(source(1)));
    }
}
