//! Judges connections by their packets alone: what each end has sent, and what has arrived there before.
//!
//! It knows nothing of work requests, and takes from whoever sends what the specification leaves free: how often an
//! acknowledge is asked for and given, how far ahead a requester runs, when exactly a timer fires. Everything else must
//! follow from what has arrived; the rules are listed in `docs/model.md`. Where an end may have lost a packet that
//! arrived at its port, the rules give it the benefit of the doubt.

mod answers;
mod credits;
mod history;
mod message;
mod requests;

use std::fmt;

use hca_wire::{Framing, Link, Psn};

use crate::config::Service;
use crate::link::same_sender;
use crate::packet::Frame;
use answers::Answers;
use history::History;
use requests::Requests;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndSpec {
    /// Its number.
    pub qpn: u32,
    /// Headers of what it sends: the addresses count.
    pub link: Link,
    /// Its first PSN.
    pub sq_psn: Psn,
}

/// A connection that is to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSpec {
    /// RC or UC.
    pub service: Service,
    /// Both ends.
    pub ends: [EndSpec; 2],
    /// Bytes of a full packet.
    pub mtu_bytes: u32,
    /// REL-6.
    pub timeout: u8,
    /// REL-3.
    pub retry_cnt: u8,
    /// REL-8.
    pub rnr_retry: u8,
    /// OP-23, of both ends.
    pub max_rd_atomic: u8,
    /// How long packets that were made may wait inside a card, whatever answers arrive: [`PIPELINE_NS`], or more behind
    /// a slow host, where they wait for their payload.
    pub pipeline_ns: u64,
    /// Both ends take WRITEs out of order, and send again what is missing alone (decision 0066).
    pub selective: bool,
    /// Which ends keep to the credits that they are told of (decision 0068).
    pub credits: [bool; 2],
    /// Ports may drop what has arrived there: they have promised no room for it (Ethernet), or the wire makes copies,
    /// which nobody has promised room for.
    pub drops_inside: bool,
}

/// How long what is on its way through a card with a fast host goes on to leave it.
pub const PIPELINE_NS: u64 = 3_000;

/// Syndrome of the NAK that names some packets, on a connection that has agreed.
pub(crate) const NAK_SELECTIVE: u8 = 0x68;
/// PSNs behind the expected one of which such a responder remembers that they have come.
const AHEAD_PSNS: i32 = 64;
/// Packets that such a NAK can name.
const MISSING_MAX: u32 = 31;

/// The first packet that the rules do not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was sent.
    pub ns: u64,
    /// The rule.
    pub rule: String,
    /// The connection's last packets, at both ends.
    pub history: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns: {}\n{}", self.ns, self.rule, self.history)
    }
}

impl std::error::Error for Violation {}

/// Requests from one end to the other, and the answers to them.
struct Direction {
    requests: Requests,
    answers: Answers,
}

struct Connection {
    spec: ConnectionSpec,
    /// By the end that sends the requests.
    directions: [Direction; 2],
    history: History,
}

/// See the head of the module.
pub struct Checker {
    framing: Framing,
    connections: Vec<Connection>,
    packets: u64,
}

impl Checker {
    /// A checker of packets of this framing; without connections it judges nothing.
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            connections: Vec::new(),
            packets: 0,
        }
    }

    /// From now on a connection is judged: to be called before its first packet.
    pub fn connect(&mut self, spec: ConnectionSpec) {
        let directions = [0, 1].map(|from: usize| Direction {
            requests: Requests::new(&spec, from),
            answers: Answers::new(&spec, from),
        });
        self.connections.push(Connection {
            spec,
            directions,
            history: History::default(),
        });
    }

    /// From now on the connections of one end's QP are not judged any more.
    pub fn forget(&mut self, end: usize, qpn: u32) {
        self.connections
            .retain(|connection| connection.spec.ends[end].qpn != qpn);
    }

    /// Packets of its connections that have been judged.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The connection of a packet, and the end that it is from. A notification of congestion is nobody's.
    fn find(&self, frame: &Frame) -> Option<(usize, usize)> {
        frame.packet.opcode.operation()?;
        self.connections
            .iter()
            .enumerate()
            .find_map(|(index, connection)| {
                let ends = &connection.spec.ends;
                let from = [0, 1].into_iter().find(|from| {
                    let to = &ends[1 - from];
                    to.qpn == frame.packet.dest_qp && same_sender(&frame.link, &to.link)
                });
                from.map(|from| (index, from))
            })
    }

    /// A packet has left the port of its sender.
    pub fn sent(&mut self, ns: u64, bytes: &[u8]) -> Result<(), Box<Violation>> {
        let Some(frame) = Frame::parse(self.framing, bytes) else {
            return Ok(());
        };
        let Some((index, from)) = self.find(&frame) else {
            return Ok(());
        };
        self.packets += 1;
        let connection = &mut self.connections[index];
        connection.history.note(ns, from, true, &frame.packet);
        let judged = connection.judge(ns, from, &frame);
        judged.map_err(|rule| {
            let spec = &connection.spec;
            let [a, b] = spec.ends.map(|end| end.qpn);
            let rule = format!(
                "{:?} connection between QP {a:#x} and QP {b:#x}, MTU {}: QP {:#x} broke a rule: {rule}",
                spec.service, spec.mtu_bytes, spec.ends[from].qpn
            );
            let history = connection.history.to_string();
            Box::new(Violation { ns, rule, history })
        })
    }

    /// A packet has arrived at the port of its receiver; one whose CRCs are wrong has not.
    pub fn arrived(&mut self, ns: u64, bytes: &[u8]) {
        let Some(frame) = Frame::parse(self.framing, bytes) else {
            return;
        };
        let Some((index, from)) = self.find(&frame) else {
            return;
        };
        let connection = &mut self.connections[index];
        connection.history.note(ns, from, false, &frame.packet);
        if frame.packet.opcode.is_response() {
            let direction = &mut connection.directions[1 - from];
            direction.requests.answered(ns, &frame.packet, &connection.spec);
        } else {
            let direction = &mut connection.directions[from];
            direction.answers.asked(&frame.packet, &connection.spec);
        }
    }
}

impl Connection {
    fn judge(&mut self, ns: u64, from: usize, frame: &Frame) -> Result<(), String> {
        let packet = &frame.packet;
        if packet.opcode.is_response() {
            let direction = &mut self.directions[1 - from];
            direction
                .answers
                .answer(ns, packet, &self.spec, &direction.requests)
        } else {
            let direction = &mut self.directions[from];
            direction.requests.request(ns, packet, &self.spec)
        }
    }
}
