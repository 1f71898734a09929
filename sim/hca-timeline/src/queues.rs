//! How full queues are: send queues, packets between header stage and wire, packets between wire and receive control.

use std::collections::{BTreeMap, HashMap, VecDeque};

use hca_abi::{MAX_LOG_WQ_SIZE, wqe_distance};

use crate::packet::{Key, Seen};
use crate::sink::{Sink, lanes};
use crate::track::CardTracks;

/// Packets in a pipeline; more than there can be.
const IN_PIPELINE: usize = 4096;

/// A send queue.
#[derive(Clone, Copy, Default)]
struct SendQueue {
    func: u8,
    dest_qpn: u32,
    log_size: u8,
    producer: u32,
    done: u32,
    /// Port and VL of its packets, once one has left.
    lane: Option<Lane>,
}

/// Port, from 0, and VL or priority.
type Lane = (usize, u8);

/// A packet at the header stage.
#[derive(Clone, Copy)]
struct Made {
    qpn: u32,
    opcode: u8,
    psn: u32,
    lane: Option<Lane>,
}

/// The queues of a card.
#[derive(Default)]
pub(crate) struct Queues {
    send: HashMap<u32, SendQueue>,
    made: VecDeque<Made>,
    /// Packets of `made` by lane; those whose lane is not known yet are nowhere.
    waiting: BTreeMap<Lane, u32>,
    arrived: VecDeque<Key>,
    /// What was shown last.
    shown_arrived: usize,
}

impl Queues {
    /// A context reached the requester.
    pub fn context(&mut self, qpn: u32, func: u8, dest_qpn: u32, log_size: u8, restart: bool) {
        let queue = self.send.entry(qpn).or_default();
        if restart {
            *queue = SendQueue::default();
        }
        (queue.func, queue.dest_qpn, queue.log_size) = (func, dest_qpn, log_size);
    }

    /// A queue pair has given its line to another one.
    pub fn forget_queue(&mut self, qpn: u32) {
        self.send.remove(&qpn);
    }

    /// A doorbell; the card refuses those that say too much.
    pub fn posted(&mut self, now: u64, (qpn, func, producer): (u32, u8, u32), out: (&Sink, CardTracks)) {
        let Some(queue) = self.send.get_mut(&qpn).filter(|queue| queue.func == func) else {
            return;
        };
        if wqe_distance(queue.producer, producer) <= 1 << u32::from(queue.log_size).min(MAX_LOG_WQ_SIZE) {
            queue.producer = producer;
            show_send_queue(now, qpn, queue, out);
        }
    }

    /// Everything before this index is done.
    pub fn retired(&mut self, now: u64, qpn: u32, una_wqe: u32, out: (&Sink, CardTracks)) {
        if let Some(queue) = self.send.get_mut(&qpn).filter(|queue| queue.done != una_wqe) {
            queue.done = una_wqe;
            show_send_queue(now, qpn, queue, out);
        }
    }

    /// A packet is on its way to the wire.
    pub fn made(&mut self, now: u64, (qpn, opcode, psn): (u32, u8, u32), out: (&Sink, CardTracks)) {
        if self.made.len() == IN_PIPELINE {
            self.forget(0);
        }
        let lane = self.send.get(&qpn).and_then(|queue| queue.lane);
        self.made.push_back(Made {
            qpn,
            opcode,
            psn,
            lane,
        });
        if let Some(lane) = lane {
            *self.waiting.entry(lane).or_default() += 1;
            self.show_lanes(now, lane.0, out);
        }
    }

    /// A packet has left at a port: its local queue pair, if it was made here.
    pub fn sent(&mut self, now: u64, port: usize, seen: &Seen, out: (&Sink, CardTracks)) -> Option<u32> {
        let key = seen.key?;
        let made = self.forget(self.find(key)?)?;
        if let Some(queue) = self.send.get_mut(&made.qpn) {
            queue.lane = Some((port, seen.vl));
        }
        if let Some((port, _)) = made.lane {
            self.show_lanes(now, port, out);
        }
        Some(made.qpn)
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.made.iter().position(|made| {
            let dest_qpn = self.send.get(&made.qpn).map_or(0, |queue| queue.dest_qpn);
            // Datagrams name their destination one by one.
            (made.opcode, made.psn) == (key.opcode, key.psn) && (dest_qpn == 0 || dest_qpn == key.dest_qpn)
        })
    }

    fn forget(&mut self, at: usize) -> Option<Made> {
        let made = self.made.remove(at)?;
        if let Some(waiting) = made.lane.and_then(|lane| self.waiting.get_mut(&lane)) {
            *waiting = waiting.saturating_sub(1);
        }
        Some(made)
    }

    /// A packet has arrived.
    pub fn arrived(&mut self, seen: &Seen) {
        if let Some(key) = seen.key {
            if self.arrived.len() == IN_PIPELINE {
                self.arrived.pop_front();
            }
            self.arrived.push_back(key);
        }
    }

    /// The receive control has taken a packet. Those before it were dropped; one that never arrived came from inside.
    pub fn taken(&mut self, key: Key) {
        match self.arrived.iter().position(|arrived| *arrived == key) {
            Some(at) => drop(self.arrived.drain(..=at)),
            None => {
                if let Some(at) = self.find(key) {
                    self.forget(at);
                }
            }
        }
    }

    /// At the end of a cycle with arrivals.
    pub fn show_arrived(&mut self, now: u64, (sink, tracks): (&Sink, CardTracks)) {
        let count = self.arrived.len();
        if count != self.shown_arrived {
            self.shown_arrived = count;
            let series = format_args!(r#""packets":{count}"#);
            sink.counter(tracks.card(), &"receive queue", now, series);
        }
    }

    fn show_lanes(&self, now: u64, port: usize, (sink, tracks): (&Sink, CardTracks)) {
        let waiting = self.waiting.range((port, 0)..=(port, u8::MAX));
        let series = lanes("VL", waiting.map(|((_, vl), count)| (*vl, count)));
        let name = format_args!("port {} send queue", port + 1);
        sink.counter(tracks.card(), &name, now, format_args!("{series}"));
    }
}

fn show_send_queue(now: u64, qpn: u32, queue: &SendQueue, (sink, tracks): (&Sink, CardTracks)) {
    let count = wqe_distance(queue.done, queue.producer);
    let series = format_args!(r#""work requests":{count}"#);
    sink.counter(
        tracks.card(),
        &format_args!("QP {qpn:#x} send queue"),
        now,
        series,
    );
}
