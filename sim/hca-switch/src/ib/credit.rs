//! Credits of one virtual lane (IBA vol1 7.9.4), both sides.

use hca_wire::{BLOCK_COUNTS, CREDITS_MAX};

const MASK: u16 = BLOCK_COUNTS - 1;

/// Sum of two counts of blocks.
const fn add(a: u16, b: u16) -> u16 {
    a.wrapping_add(b) & MASK
}

/// Way from count `b` up to count `a`.
const fn sub(a: u16, b: u16) -> u16 {
    a.wrapping_sub(b) & MASK
}

/// The sender's side: what it has sent, and up to where it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TxCredits {
    /// FCTBS: blocks sent.
    sent: u16,
    /// FCCL as last heard; `None` before anything was.
    limit: Option<u16>,
    /// Before anything was heard: send, or wait.
    open_at_first: bool,
}

impl TxCredits {
    /// `open_at_first`: a neighbour that has said nothing yet is taken for one without flow control.
    pub fn new(open_at_first: bool) -> Self {
        Self {
            sent: 0,
            limit: None,
            open_at_first,
        }
    }

    /// FCTBS.
    pub fn total_blocks_sent(&self) -> u16 {
        self.sent
    }

    /// True where a packet of so many blocks may go.
    pub fn allow(&self, blocks: u16) -> bool {
        match self.limit {
            Some(limit) => sub(limit, add(self.sent, blocks)) <= CREDITS_MAX,
            None => self.open_at_first,
        }
    }

    /// Blocks that may go; `None`: without limit.
    pub fn available(&self) -> Option<u16> {
        match self.limit {
            Some(limit) => Some(
                Some(sub(limit, self.sent))
                    .filter(|n| *n <= CREDITS_MAX)
                    .unwrap_or(0),
            ),
            None => (!self.open_at_first).then_some(0),
        }
    }

    /// A packet has gone.
    pub fn sent(&mut self, blocks: u16) {
        self.sent = add(self.sent, blocks);
    }

    /// The receiver has said how far.
    pub fn heard(&mut self, fccl: u16) {
        self.limit = Some(fccl & MASK);
    }
}

/// The receiver's side: a buffer, what has come into it, and what was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RxCredits {
    /// ABR: blocks received, as the sender counts them.
    received: u16,
    capacity: u32,
    used: u32,
    peak: u32,
    /// FCCL of the last flow control packet.
    promised: Option<u16>,
    /// With less than this many blocks promised the sender may be waiting.
    packet_blocks: u16,
}

impl RxCredits {
    /// A buffer of so many blocks, for packets of up to `packet_blocks`.
    pub fn new(capacity: u32, packet_blocks: u16) -> Self {
        Self {
            received: 0,
            capacity,
            used: 0,
            peak: 0,
            promised: None,
            packet_blocks,
        }
    }

    /// Blocks in the buffer.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Most blocks that ever were.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// Blocks free.
    pub fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.used)
    }

    /// FCCL as it is now.
    pub fn limit(&self) -> u16 {
        add(self.received, self.free().min(u32::from(CREDITS_MAX)) as u16)
    }

    /// A packet has come, and has room or not.
    pub fn arrived(&mut self, blocks: u16) {
        self.received = add(self.received, blocks);
    }

    /// A packet goes into the buffer.
    pub fn fill(&mut self, blocks: u16) {
        self.used += u32::from(blocks);
        self.peak = self.peak.max(self.used);
    }

    /// A packet has left the buffer.
    pub fn drain(&mut self, blocks: u16) {
        self.used = self.used.saturating_sub(u32::from(blocks));
    }

    /// The sender has said how much it has sent: what was lost on the way is known from now on.
    pub fn heard(&mut self, fctbs: u16) {
        self.received = fctbs & MASK;
    }

    /// A flow control packet has gone with this limit.
    pub fn promise(&mut self, fccl: u16) {
        self.promised = Some(fccl);
    }

    /// True where the sender should hear of the present limit at once: it has moved by a quarter of the buffer, or has
    /// moved while the sender may be short of credits for a packet, or has moved back.
    pub fn has_news(&self) -> bool {
        let Some(promised) = self.promised else {
            return true;
        };
        let moved = sub(self.limit(), promised);
        let left = Some(sub(promised, self.received))
            .filter(|n| *n <= CREDITS_MAX)
            .unwrap_or(0);
        moved != 0
            && (moved > CREDITS_MAX || u32::from(moved) * 4 >= self.capacity || left < self.packet_blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sender_stops_exactly_at_the_limit() {
        let mut tx = TxCredits::new(false);
        assert!(!tx.allow(1) && tx.available() == Some(0));
        tx.heard(10);
        assert!(tx.allow(10) && !tx.allow(11) && tx.available() == Some(10));
        tx.sent(10);
        assert!(tx.allow(0) && !tx.allow(1));
        let open = TxCredits::new(true);
        assert!(open.allow(2000) && open.available().is_none());
    }

    #[test]
    fn counts_wrap() {
        let mut tx = TxCredits::new(false);
        for _ in 0..10 {
            tx.heard(add(tx.total_blocks_sent(), 2048));
            assert!(tx.allow(2048) && !tx.allow(2049));
            tx.sent(2048);
            assert!(!tx.allow(1));
        }
    }

    #[test]
    fn a_restarted_receiver_hears_the_count_and_promises_anew() {
        let (mut tx, mut rx) = (TxCredits::new(false), RxCredits::new(100, 66));
        tx.heard(rx.limit());
        tx.sent(80);
        rx = RxCredits::new(100, 66);
        tx.heard(rx.limit());
        assert_eq!(tx.available(), Some(20));
        rx.heard(tx.total_blocks_sent());
        tx.heard(rx.limit());
        assert_eq!(tx.available(), Some(100));
    }

    proptest! {
        /// VL-6: whatever packets and flow control packets are lost, the buffer never overflows, and when the last
        /// flow control packets get through the sender has the whole buffer again.
        #[test]
        fn no_overflow_and_no_lasting_loss_of_credits(
            capacity in 66u32..3000,
            steps in proptest::collection::vec((0u8..6, 1u16..67, any::<bool>()), 1..600),
        ) {
            let (mut tx, mut rx) = (TxCredits::new(false), RxCredits::new(capacity, 66));
            let mut held = std::collections::VecDeque::new();
            for (what, blocks, lost) in steps {
                match what {
                    0..=2 if tx.allow(blocks) => {
                        tx.sent(blocks);
                        if !lost {
                            rx.arrived(blocks);
                            rx.fill(blocks);
                            held.push_back(blocks);
                        }
                        prop_assert!(rx.used() <= capacity);
                    }
                    3 => {
                        if let Some(blocks) = held.pop_front() {
                            rx.drain(blocks);
                        }
                    }
                    4 if !lost => rx.heard(tx.total_blocks_sent()),
                    5 => {
                        rx.promise(rx.limit());
                        if !lost {
                            tx.heard(rx.limit());
                        }
                    }
                    _ => {}
                }
            }
            rx.drain(held.iter().sum());
            rx.heard(tx.total_blocks_sent());
            tx.heard(rx.limit());
            prop_assert_eq!(tx.available().map(u32::from), Some(capacity.min(2048)));
        }

        /// A sender that may be short of credits for a packet hears of room as soon as there is any.
        #[test]
        fn a_starved_sender_is_never_forgotten(capacity in 66u32..2049, left in 0u16..66, drained in 1u16..66) {
            let mut rx = RxCredits::new(capacity, 66);
            rx.promise(rx.limit());
            let sent = capacity as u16 - left;
            rx.arrived(sent);
            rx.fill(sent);
            prop_assert!(!rx.has_news());
            rx.drain(drained.min(sent));
            prop_assert_eq!(rx.has_news(), sent > 0);
        }
    }
}
