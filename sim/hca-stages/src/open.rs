//! Work requests that are not over, and the send queues that they are in.

use std::collections::VecDeque;

use hca_abi::{MAX_LOG_WQ_SIZE, wqe_distance, wqe_index};

use crate::record::WorkRecord;
use crate::stage::Stage;

const PSN_MASK: u32 = 0xff_ffff;
/// Copies of a packet that are remembered while they are under way.
const COPIES: usize = 8;

/// A cycle, and the one at which its cause happened.
type Copy = (u64, u64);

/// A work request that is not over.
pub(crate) struct Open {
    pub record: WorkRecord,
    /// Sequence numbers, once the requester has announced it and made its first packet.
    psns: Option<(u32, u32)>,
    announced_last: u32,
    /// Packets of it that the requester has made, each counted once.
    made: u32,
    last_emit: u64,
    /// Last beats of its last packet on the wire, and when that copy was made.
    sends: VecDeque<Copy>,
    /// READ: last beats of its last response at the peer.
    replies: VecDeque<u64>,
    /// READ: responses accepted so far.
    answered: u32,
    /// READ: last beats of its responses at the peer, whichever they are.
    all_replies: VecDeque<u64>,
    /// READ: when its newest response arrived.
    arrived: u64,
    /// READ: when data of it was placed last.
    placed: u64,
    /// READ: it was complete though its last response was not the last to come (decision 0071).
    settled: bool,
    /// The peer has carried out its last packet: later copies are duplicates.
    pub executed: bool,
}

/// Distance of two packet sequence numbers.
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & PSN_MASK
}

impl Open {
    pub fn new(record: WorkRecord) -> Self {
        Self {
            record,
            psns: None,
            announced_last: 0,
            made: 0,
            last_emit: 0,
            sends: VecDeque::new(),
            replies: VecDeque::new(),
            answered: 0,
            all_replies: VecDeque::new(),
            arrived: 0,
            placed: 0,
            settled: false,
            executed: false,
        }
    }

    /// The requester is about to make its first packet. True: for the first time.
    pub fn announce(&mut self, opcode: u8, signaled: bool, last_psn: u32, len_bytes: u32) -> bool {
        let record = &mut self.record;
        (record.opcode, record.signaled, record.bytes) = (Some(opcode), signaled, len_bytes);
        self.announced_last = last_psn;
        self.psns.is_none()
    }

    /// Its first packet has this number.
    pub fn begin(&mut self, psn: u32) {
        self.psns = Some((psn, self.announced_last));
    }

    /// Place of a packet in it.
    pub fn place(&self, psn: u32) -> Option<Place> {
        let (first, last) = self.psns?;
        let offset = distance(first, psn);
        (offset <= distance(first, last)).then_some(Place {
            offset,
            is_last: psn == last,
        })
    }

    /// All its packets come before this one.
    fn is_before(&self, psn: u32) -> bool {
        self.psns
            .is_some_and(|(_, last)| distance(last, psn).wrapping_sub(1) < 1 << 23)
    }

    /// The requester has made a packet of it.
    pub fn emitted(&mut self, now: u64, place: Place) {
        let is_read = self.record.is_read();
        self.record.packets += 1;
        if place.offset < self.made || (is_read && self.made > 0) {
            self.record.retransmitted += 1;
        }
        self.made = self.made.max(place.offset + 1);
        self.record.set_first(Stage::EmitFirst, now);
        if place.is_last || is_read {
            self.last_emit = now;
            self.record.set_first(Stage::EmitLast, now);
        }
    }

    /// A packet of it has left.
    pub fn sent(&mut self, first: u64, last: u64, place: Place) {
        if place.offset == 0 {
            self.record.set_first(Stage::TxFirst, first);
        }
        if place.is_last || self.record.is_read() {
            push(&mut self.sends, (last, self.last_emit));
        }
    }

    /// READ: a response has left the peer.
    pub fn reply_sent(&mut self, first: u64, last: u64, place: Place) {
        if place.offset == 0 {
            self.record.set_first(Stage::ReplyTxFirst, first);
        }
        if place.is_last {
            push(&mut self.replies, last);
        }
        push(&mut self.all_replies, last);
    }

    /// READ: a response has arrived.
    pub fn reply_arrived(&mut self, last: u64) {
        self.arrived = last;
    }

    /// READ: the data of a response has been placed. True: nothing more is to come.
    pub fn reply_placed(&mut self, cycle: u64, place: Place) -> bool {
        self.placed = cycle;
        let ends = place.is_last || self.settled;
        if ends {
            self.record.set(Stage::Placed, cycle);
        }
        ends
    }

    /// The card counts it as done. A READ may be so with a response in its middle: its end is then what came last.
    pub fn retired(&mut self, now: u64) {
        self.record.set_first(Stage::Retired, now);
        if !self.record.is_read() || self.arrived == 0 || self.record.at(Stage::ReplyRx).is_some() {
            return;
        }
        self.settled = true;
        let arrived = self.arrived;
        if let Some(sent) = self.all_replies.iter().rev().find(|sent| **sent <= arrived) {
            self.record.set(Stage::ReplyTxLast, *sent);
        }
        self.record.set(Stage::ReplyRx, arrived);
        if self.placed >= arrived {
            self.record.set(Stage::Placed, self.placed);
        }
    }

    /// A good packet of it has reached the peer.
    pub fn seen_by_peer(&mut self, first: u64, place: Place) {
        if place.offset == 0 {
            self.record.set_first(Stage::PeerRxFirst, first);
        }
    }

    /// The peer has carried out the packet that ends its way there; it arrived at `last`.
    pub fn carried_out(&mut self, last: u64) {
        if let Some((sent, made)) = self.sends.iter().rev().find(|(sent, _)| *sent <= last) {
            self.record.set(Stage::TxLast, *sent);
            self.record.set(Stage::EmitLast, *made);
        }
        self.record.set(Stage::PeerRxLast, last);
    }

    /// A positive answer of any kind with this number arrived at `last`: true where everything up to this work
    /// request is answered now, so that those behind it may be too. The rules are the card's (hca_ack_unit): what
    /// comes before the number is complete, and what has the number if `inclusive`; a READ is complete with its
    /// last response, in order, and what comes behind it is not complete before it.
    pub fn answer(&mut self, last: u64, psn: u32, inclusive: bool, is_read_reply: bool) -> bool {
        if self.record.at(Stage::ReplyRx).is_some() {
            return true;
        }
        let place = self.place(psn);
        if self.record.is_read() {
            let Some(place) = place.filter(|place| is_read_reply && place.offset == self.answered) else {
                return false;
            };
            self.answered += 1;
            if place.is_last {
                if let Some(sent) = self.replies.iter().rev().find(|sent| **sent <= last) {
                    self.record.set(Stage::ReplyTxLast, *sent);
                }
                self.record.set(Stage::ReplyRx, last);
            }
            return false;
        }
        let done = self.is_before(psn) || (inclusive && place.is_some_and(|place| place.is_last));
        if done {
            self.record.set(Stage::ReplyRx, last);
        }
        done
    }

    /// A message without payload that nobody has answered.
    pub fn may_be_empty(&self) -> bool {
        self.record.bytes == 0 && !self.record.is_read() && self.record.at(Stage::ReplyRx).is_none()
    }

    /// Nothing more can happen to it but an interrupt.
    pub fn is_over(&self) -> bool {
        let (record, has) = (&self.record, |stage| self.record.at(stage).is_some());
        if !record.succeeded() {
            return true;
        }
        let placed = has(Stage::Placed) || !record.is_read() || !record.has_data();
        // An unsignaled one that nobody has answered has failed, and gets a completion.
        let ended = has(Stage::Cqe) || (!record.signaled && (has(Stage::ReplyRx) || !record.is_reliable()));
        has(Stage::Retired) && placed && ended
    }
}

fn push<T>(copies: &mut VecDeque<T>, copy: T) {
    if copies.len() == COPIES {
        copies.pop_front();
    }
    copies.push_back(copy);
}

/// Place of a packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: u32,
    pub is_last: bool,
}

/// A send queue.
#[derive(Default)]
pub(crate) struct Queue {
    pub func: u8,
    /// The queue pair at the peer.
    pub dest_qpn: u32,
    pub base: u64,
    pub log_size: u8,
    /// log2 of the bytes of an entry.
    pub log_stride: u8,
    pub send_cqn: u16,
    pub recv_cqn: u16,
    /// Index after the last one posted.
    pub producer: u32,
    /// In the order of their indices.
    pub open: VecDeque<Open>,
    /// Announced by the requester; its next packet is the first of it.
    pub announced: Option<u32>,
}

impl Queue {
    /// How many entries it has.
    pub fn entries(&self) -> u32 {
        1 << u32::from(self.log_size).min(MAX_LOG_WQ_SIZE)
    }

    /// The index, of those posted, that ends in the bits that a completion says.
    pub fn index_of(&self, low: u16) -> u32 {
        let newest = self.producer.wrapping_sub(1);
        wqe_index(newest.wrapping_sub((newest as u16).wrapping_sub(low).into()))
    }

    /// An open one by its index.
    pub fn find(&mut self, index: u32) -> Option<&mut Open> {
        let front = self.open.front()?.record.wqe_index;
        let target = wqe_distance(front, index);
        let at = self
            .open
            .binary_search_by_key(&target, |open| wqe_distance(front, open.record.wqe_index));
        at.ok().and_then(|at| self.open.get_mut(at))
    }

    /// The open one that a packet belongs to.
    pub fn find_psn(&mut self, psn: u32) -> Option<(&mut Open, Place)> {
        // Those that have begun come before those that have not.
        self.open
            .iter_mut()
            .take_while(|open| open.psns.is_some())
            .find_map(|open| open.place(psn).map(|place| (open, place)))
    }

    /// The open ones whose entries lie in a range of host memory, if that is in the ring.
    pub fn entries_at(&mut self, addr: u64, len_bytes: u64) -> impl Iterator<Item = &mut Open> {
        let mask = self.entries() - 1;
        let (offset, end) = (
            addr.wrapping_sub(self.base),
            addr.wrapping_sub(self.base) + len_bytes,
        );
        let log_stride = self.log_stride;
        self.open.iter_mut().filter(move |open| {
            let start = u64::from(open.record.wqe_index & mask) << log_stride;
            start < end && offset < start + (1 << log_stride)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(index: u32, first: u32, last: u32, opcode: u8) -> Open {
        let mut open = Open::new(WorkRecord::new(0, 1, index, 10));
        assert!(open.announce(opcode, true, last, 100));
        open.begin(first);
        open
    }

    const WRITE: u8 = 0;
    const READ: u8 = 4;

    #[test]
    fn packets_have_their_place_across_the_wrap() {
        let open = open(0, 0xff_fffe, 1, WRITE);
        assert_eq!(open.place(0xff_fffd), None);
        assert_eq!(
            open.place(0),
            Some(Place {
                offset: 2,
                is_last: false
            })
        );
        assert_eq!(
            open.place(1),
            Some(Place {
                offset: 3,
                is_last: true
            })
        );
        assert_eq!(open.place(2), None);
        assert!(open.is_before(2) && !open.is_before(1) && !open.is_before(0xff_fff0));
    }

    #[test]
    fn what_is_made_again_is_counted() {
        let mut open = open(0, 5, 6, WRITE);
        for (cycle, psn) in [(1, 5), (2, 6), (3, 5), (4, 6)] {
            let place = open.place(psn).unwrap();
            open.emitted(cycle, place);
        }
        assert_eq!((open.record.packets, open.record.retransmitted), (4, 2));
        assert_eq!(open.record.at(Stage::EmitFirst), Some(1));
    }

    #[test]
    fn the_copy_that_arrived_counts() {
        let mut open = open(0, 5, 5, WRITE);
        let place = open.place(5).unwrap();
        for made in [10, 100, 200] {
            open.emitted(made, place);
            open.sent(made + 5, made + 6, place);
        }
        open.carried_out(150);
        assert_eq!(open.record.at(Stage::TxFirst), Some(15));
        assert_eq!(open.record.at(Stage::EmitLast), Some(100));
        assert_eq!(open.record.at(Stage::TxLast), Some(106));
    }

    #[test]
    fn a_read_without_its_data_holds_up_what_is_behind() {
        let mut read = open(0, 5, 6, READ);
        assert!(
            !read.answer(1, 7, true, false),
            "an acknowledge of something later"
        );
        assert!(!read.answer(2, 6, true, true), "a response out of order");
        assert!(!read.answer(3, 5, true, true));
        assert!(!read.answer(4, 6, true, true));
        assert_eq!(read.record.at(Stage::ReplyRx), Some(4));
        assert!(read.answer(5, 7, true, false));
        assert_eq!(read.record.at(Stage::ReplyRx), Some(4));
    }

    #[test]
    fn a_negative_answer_covers_what_is_before_it() {
        let mut write = open(0, 5, 6, WRITE);
        assert!(!write.answer(1, 6, false, false));
        assert!(write.answer(2, 7, false, false));
        let mut write = open(0, 5, 6, WRITE);
        assert!(write.answer(2, 6, true, false));
    }
}
