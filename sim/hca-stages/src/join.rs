//! Joins what happens at the cards to records of work requests. Every map is bounded by what the cards have (queue
//! pairs, tags), and the records by the capacity.

use std::collections::{BTreeMap, HashMap, VecDeque};

use hca_abi::{MAX_LOG_WQ_SIZE, SqDoorbell, wqe_distance, wqe_index};
use hca_wire::Syndrome;

use crate::log::Counts;
use crate::open::{Open, Place, Queue};
use crate::packet::Packet;
use crate::record::WorkRecord;
use crate::stage::Stage;

/// PCIe tags of a card.
const TAGS: usize = 256;
/// Destinations that are remembered of a card: connections need one each, and datagrams go anywhere.
const LINKS: usize = 1 << 16;
/// An interrupt follows its completion within so many others.
const INTERRUPT_WITHIN: usize = 64;

/// Is shown the records that are over.
pub(crate) type OnEnd = Box<dyn FnMut(&WorkRecord) + Send>;

/// A read of send queue entries that is under way.
#[derive(Clone, Copy)]
struct Fetch {
    qpn: u32,
    addr: u64,
    len_bytes: u64,
}

/// One card.
pub(crate) struct Card {
    queues: HashMap<u32, Queue>,
    /// Send rings by function and bus address.
    rings: BTreeMap<(u8, u64), u32>,
    fetches: Vec<Option<Fetch>>,
    /// Which local queue pair sends to a queue pair at an address.
    links: HashMap<(u64, u32), u32>,
    /// The newest completion of each completion queue, if it is of a send queue.
    completed: HashMap<u16, Option<(u32, u32)>>,
    /// Whose event is being raised.
    raised: Option<(u32, u32)>,
}

/// Everything that is known.
pub(crate) struct Join {
    pub cards: Vec<Card>,
    /// Which card sends from an address.
    addresses: HashMap<u64, usize>,
    capacity: usize,
    num_open: usize,
    finished: VecDeque<WorkRecord>,
    counts: Counts,
    on_end: Option<OnEnd>,
}

/// What became of a packet's work at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing to move: dropped, a duplicate, or without payload.
    None,
    /// Payload went to memory, in the cycle given.
    Placed(u64),
    /// A READ request was accepted, or an atomic carried out.
    ReadRequest,
}

impl Join {
    pub fn new(num_cards: usize, capacity: usize) -> Self {
        let card = |_| Card {
            queues: HashMap::new(),
            rings: BTreeMap::new(),
            fetches: vec![None; TAGS],
            links: HashMap::new(),
            completed: HashMap::new(),
            raised: None,
        };
        Self {
            cards: (0..num_cards).map(card).collect(),
            addresses: HashMap::new(),
            capacity,
            num_open: 0,
            finished: VecDeque::new(),
            counts: Counts::default(),
            on_end: None,
        }
    }

    pub fn on_end(&mut self, tell: OnEnd) {
        self.on_end = Some(tell);
    }

    pub fn counts(&self) -> Counts {
        Counts {
            open: self.num_open as u64,
            ..self.counts
        }
    }

    pub fn take(&mut self) -> Vec<WorkRecord> {
        self.finished.drain(..).collect()
    }

    // ---- Queues
    // --------------------------------------------------------------------------------------------------------

    /// A context was written. `restart`: the send queue begins anew.
    pub fn queue(&mut self, card: usize, qpn: u32, new: Queue, restart: bool) {
        let card = &mut self.cards[card];
        let old = card.queues.remove(&qpn).unwrap_or_default();
        card.rings.retain(|_, owner| *owner != qpn);
        card.rings.insert((new.func, new.base), qpn);
        let queue = if restart {
            self.num_open -= old.open.len();
            self.counts.abandoned += old.open.len() as u64;
            new
        } else {
            Queue {
                producer: old.producer,
                open: old.open,
                announced: old.announced,
                ..new
            }
        };
        card.queues.insert(qpn, queue);
    }

    /// A queue pair has given its line to another one.
    pub fn forget(&mut self, card: usize, qpn: u32) {
        let card = &mut self.cards[card];
        if let Some(old) = card.queues.remove(&qpn) {
            self.num_open -= old.open.len();
            self.counts.abandoned += old.open.len() as u64;
        }
        card.rings.retain(|_, owner| *owner != qpn);
    }

    pub fn doorbell(&mut self, now: u64, card: usize, func: u8, doorbell: &SqDoorbell) {
        let (qpn, producer) = (doorbell.qpn(), doorbell.producer_index());
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        let count = wqe_distance(queue.producer, producer);
        // The card refuses such doorbells.
        if queue.func != func || count > queue.entries() {
            return;
        }
        for index in (0..count).map(|step| wqe_index(queue.producer + step)) {
            if self.num_open == self.capacity {
                self.counts.overflow += 1;
                continue;
            }
            self.num_open += 1;
            let mut record = WorkRecord::new(card, qpn, index, now);
            record.pushed = doorbell.push() && wqe_index(index + 1) == producer;
            queue.open.push_back(Open::new(record));
        }
        queue.producer = producer;
    }

    /// A packet of this queue pair can have that destination.
    pub fn may_send_to(&self, card: usize, qpn: u32, dest_qpn: u32) -> bool {
        // Datagrams name their destination one by one.
        let queue = self.cards[card].queues.get(&qpn);
        queue.is_none_or(|queue| queue.dest_qpn == 0 || queue.dest_qpn == dest_qpn)
    }

    // ---- WQEs
    // ----------------------------------------------------------------------------------------------------------

    pub fn read_asked(&mut self, now: u64, card: usize, func: u8, tag: u8, addr: u64, len_bytes: u64) {
        let card = &mut self.cards[card];
        card.fetches[usize::from(tag)] = None;
        let Some((&(ring_func, base), &qpn)) = card.rings.range(..=(func, addr)).next_back() else {
            return;
        };
        let Some(queue) = card.queues.get_mut(&qpn) else {
            return;
        };
        if ring_func != func || addr - base >= 1 << (queue.log_size + queue.log_stride) {
            return;
        }
        for open in queue.entries_at(addr, len_bytes) {
            // Later reads of it are for a retransmission, or for the place of a READ's data.
            if open.record.at(Stage::EmitFirst).is_none() {
                open.record.set_first(Stage::WqeAsked, now);
            }
        }
        card.fetches[usize::from(tag)] = Some(Fetch { qpn, addr, len_bytes });
    }

    pub fn read_arrived(&mut self, now: u64, card: usize, tag: u8) {
        let card = &mut self.cards[card];
        let Some(fetch) = card.fetches[usize::from(tag)].take() else {
            return;
        };
        let Some(queue) = card.queues.get_mut(&fetch.qpn) else {
            return;
        };
        for open in queue.entries_at(fetch.addr, fetch.len_bytes) {
            if open.record.at(Stage::EmitFirst).is_none() && open.record.at(Stage::WqeAsked).is_some() {
                open.record.set(Stage::WqeArrived, now);
            }
        }
    }

    // ---- Requester
    // -----------------------------------------------------------------------------------------------------

    pub fn announced(&mut self, card: usize, qpn: u32, wqe_index: u32, what: (u8, bool, u32, u32)) {
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        let (opcode, signaled, last_psn, len_bytes) = what;
        let is_new = queue
            .find(wqe_index)
            .is_some_and(|open| open.announce(opcode, signaled, last_psn, len_bytes));
        queue.announced = is_new.then_some(wqe_index);
    }

    pub fn emitted(&mut self, now: u64, card: usize, qpn: u32, psn: u32) {
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        if let Some(open) = queue.announced.take().and_then(|index| queue.find(index)) {
            open.begin(psn);
        }
        if let Some((open, place)) = queue.find_psn(psn) {
            open.emitted(now, place);
        }
    }

    // ---- Packets
    // -------------------------------------------------------------------------------------------------------

    fn find_psn(&mut self, card: usize, qpn: u32, psn: u32) -> Option<(&mut Open, Place)> {
        self.cards[card].queues.get_mut(&qpn)?.find_psn(psn)
    }

    /// A packet has left a card; `qpn` is the local queue pair.
    pub fn sent(&mut self, card: usize, qpn: u32, packet: Packet) {
        self.addresses.insert(packet.from, card);
        if packet.is_reply() {
            // Whoever is answered has sent something before.
            let Some(requester) = self.addresses.get(&packet.to).copied() else {
                return;
            };
            if let Some((open, place)) = self.find_psn(requester, packet.dest_qpn, packet.psn)
                && open.record.is_read()
                && packet.is_read_reply()
            {
                open.reply_sent(packet.first, packet.last, place);
            }
            return;
        }
        self.link(card, qpn, &packet);
        if let Some((open, place)) = self.find_psn(card, qpn, packet.psn) {
            open.record.service = packet.service();
            open.sent(packet.first, packet.last, place);
        }
    }

    /// Who sends to whom.
    fn link(&mut self, card: usize, qpn: u32, packet: &Packet) {
        let links = &mut self.cards[card].links;
        if links.len() == LINKS {
            links.clear();
        }
        links.insert((packet.to, packet.dest_qpn), qpn);
    }

    /// A request found its way inside the card.
    pub fn looped(&mut self, card: usize, qpn: u32, packet: Packet) {
        self.link(card, qpn, &packet);
        if let Some((open, _)) = self.find_psn(card, qpn, packet.psn) {
            open.record.service = packet.service();
            open.record.looped = true;
        }
    }

    /// A card looks at a good packet.
    pub fn accepted(&mut self, card: usize, packet: Packet, syndrome: u8) {
        if packet.is_reply() {
            self.answered(card, packet, syndrome);
        } else if let Some((open, place)) = self.requested(card, packet) {
            open.seen_by_peer(packet.first, place);
        }
    }

    /// The work request of a request that has arrived at a card.
    fn requested(&mut self, card: usize, packet: Packet) -> Option<(&mut Open, Place)> {
        let from = if packet.looped {
            card
        } else {
            *self.addresses.get(&packet.from)?
        };
        let qpn = *self.cards[from].links.get(&(packet.to, packet.dest_qpn))?;
        self.find_psn(from, qpn, packet.psn)
    }

    fn answered(&mut self, card: usize, packet: Packet, syndrome: u8) {
        let Some(queue) = self.cards[card].queues.get_mut(&packet.dest_qpn) else {
            return;
        };
        let is_read_reply = packet.is_read_reply();
        if is_read_reply && let Some((open, _)) = queue.find_psn(packet.psn) {
            open.reply_arrived(packet.last);
        }
        let positive = matches!(Syndrome::from_byte(syndrome), Syndrome::Ack { .. });
        for open in &mut queue.open {
            if open.record.at(Stage::EmitFirst).is_none()
                || !open.answer(packet.last, packet.psn, positive && !is_read_reply, is_read_reply)
            {
                return;
            }
        }
    }

    /// The work for a packet is over at its destination.
    pub fn worked(&mut self, card: usize, packet: Packet, work: Work) {
        if packet.is_reply() {
            let Work::Placed(cycle) = work else { return };
            let Some((open, place)) = self.find_psn(card, packet.dest_qpn, packet.psn) else {
                return;
            };
            if open.reply_placed(cycle, place) {
                let (qpn, index) = (open.record.qpn, open.record.wqe_index);
                self.close(card, qpn, index);
            }
            return;
        }
        let Some((open, place)) = self.requested(card, packet) else {
            return;
        };
        match work {
            Work::ReadRequest if open.record.at(Stage::ReplyTxFirst).is_none() && !open.executed => {
                open.executed = true;
                open.carried_out(packet.last);
            }
            Work::Placed(cycle) if place.is_last && !open.executed => {
                open.executed = true;
                open.carried_out(packet.last);
                open.record.set(Stage::Placed, cycle);
            }
            // Without payload nothing tells the copy that was carried out: the last one before the answer.
            Work::None if place.is_last && open.may_be_empty() => open.carried_out(packet.last),
            _ => {}
        }
    }

    // ---- Ends
    // ----------------------------------------------------------------------------------------------------------

    /// The card counts everything before `una_wqe` as done.
    pub fn retired(&mut self, now: u64, card: usize, qpn: u32, una_wqe: u32) {
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        let mut over = Vec::new();
        for open in &mut queue.open {
            let index = open.record.wqe_index;
            // A ring is full at most.
            if !(1..=1 << MAX_LOG_WQ_SIZE).contains(&wqe_distance(index, una_wqe)) {
                break;
            }
            open.retired(now);
            over.push(index);
        }
        for index in over {
            self.close(card, qpn, index);
        }
    }

    /// A completion was written, which says the low bits of an index.
    pub fn completed(&mut self, now: u64, card: usize, (qpn, low): (u32, u16), recv: bool, status: u8) {
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        let wqe_index = queue.index_of(low);
        let cqn = if recv { queue.recv_cqn } else { queue.send_cqn };
        let newest = (!recv).then_some((qpn, wqe_index));
        if let Some(open) = queue.find(wqe_index).filter(|_| !recv) {
            open.record.set_first(Stage::Cqe, now);
            open.record.status = Some(status);
        }
        self.cards[card].completed.insert(cqn, newest);
        if !recv {
            self.close(card, qpn, wqe_index);
        }
    }

    /// A completion event was written to an event queue.
    pub fn event(&mut self, card: usize, cqn: u32) {
        let card = &mut self.cards[card];
        card.raised = u16::try_from(cqn)
            .ok()
            .and_then(|cqn| card.completed.get(&cqn).copied().flatten());
    }

    pub fn interrupt(&mut self, now: u64, card: usize) {
        let Some((qpn, wqe_index)) = self.cards[card].raised.take() else {
            return;
        };
        let newest = self.finished.iter_mut().rev().take(INTERRUPT_WITHIN);
        let mut newest =
            newest.filter(|record| (record.card, record.qpn, record.wqe_index) == (card, qpn, wqe_index));
        if let Some(record) = newest.next() {
            record.set_first(Stage::Msix, now);
        }
    }

    /// Moves a record to the finished ones, if it is over.
    fn close(&mut self, card: usize, qpn: u32, wqe_index: u32) {
        let Some(queue) = self.cards[card].queues.get_mut(&qpn) else {
            return;
        };
        if !queue.find(wqe_index).is_some_and(|open| open.is_over()) {
            return;
        }
        let Some(at) = queue
            .open
            .iter()
            .position(|open| open.record.wqe_index == wqe_index)
        else {
            return;
        };
        let Some(open) = queue.open.remove(at) else { return };
        self.num_open -= 1;
        if self.finished.len() == self.capacity {
            self.finished.pop_front();
            self.counts.overflow += 1;
        }
        self.counts.recorded += 1;
        if let Some(tell) = &mut self.on_end {
            tell(&open.record);
        }
        self.finished.push_back(open.record);
    }
}
