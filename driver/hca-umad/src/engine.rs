//! What the kernel's ib_mad and ib_umad do with datagrams, without their input and output: agents and what each gets,
//! transactions with time limits, directed routes, messages of several datagrams.

use std::collections::BTreeMap;
use std::ffi::c_int;

use hca_agents::mad::{class, class_of, method, method_of, put_u64, transaction_of};
use hca_agents::{MAD_BYTES, Mad, smp};

use crate::errno::{Call, EINVAL, Errno};
use crate::qp::{Route, Which};
use crate::rmpp::{self, Incoming, Outgoing, Taken};

/// Agents of one open port.
pub const MAX_AGENTS: u32 = 32;
/// A message of several datagrams to somebody who has to ask for it once more is given up after this.
const MESSAGE_TIMEOUT_MS: u32 = 1_000;
const MESSAGE_RETRIES: u32 = 3;
/// Transactions and messages that may be open.
const MAX_OPEN: usize = 4_096;

/// What an agent wants.
#[derive(Clone, Copy, Debug)]
pub struct Agent {
    pub class: u8,
    pub version: u8,
    /// Methods of requests that it gets, by bit.
    pub methods: u128,
    /// Messages of several datagrams are put together for it.
    pub rmpp: bool,
}

impl Agent {
    /// The QP of its class.
    pub fn which(&self) -> Which {
        which_of(self.class)
    }

    fn takes(&self, mad: &Mad) -> bool {
        (self.class, self.version) == (class_of(mad), mad[2])
            && self.methods >> (method_of(mad) & 0x7f) & 1 != 0
    }
}

fn which_of(class: u8) -> Which {
    match class {
        class::SM_LID | class::SM_DIRECTED => Which::Smi,
        _ => Which::Gsi,
    }
}

/// Who is meant: an open port and its agent.
pub type Who = (c_int, u32);

/// What a program gets.
#[derive(Debug)]
pub struct Message {
    pub agent: u32,
    /// 0, or the errno of a send that failed: the data are its own then.
    pub status: c_int,
    pub route: Route,
    pub data: Vec<u8>,
}

/// What is to be sent.
pub struct Departure {
    pub which: Which,
    pub route: Route,
    pub mad: Mad,
    /// To the port itself, whatever LID it has.
    pub is_local: bool,
}

/// A request whose answer is awaited, or a message of several datagrams that is not acknowledged.
struct Open {
    who: Who,
    /// In the place of the upper half of the transaction's number.
    mark: u32,
    transaction: u64,
    route: Route,
    is_local: bool,
    mad: Mad,
    timeout_ms: u32,
    retries: u32,
    deadline_ms: u64,
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
}

/// All of one port.
#[derive(Default)]
pub struct Engine {
    port_num: u8,
    agents: BTreeMap<Who, Agent>,
    open: Vec<Open>,
    last_mark: u32,
    departures: Vec<Departure>,
    arrivals: Vec<(c_int, Message)>,
}

impl Engine {
    /// Of a port; `mark`: where the marks of transactions begin, so that those of two processes differ.
    pub fn new(port_num: u8, mark: u32) -> Self {
        Self {
            port_num,
            last_mark: mark,
            ..Self::default()
        }
    }

    /// A new agent of an open port.
    pub fn register(&mut self, handle: c_int, agent: Agent) -> Call<u32> {
        let same = |(who, other): (&Who, &Agent)| {
            who.0 == handle
                && (other.class, other.version) == (agent.class, agent.version)
                && other.methods & agent.methods != 0
        };
        if self.agents.iter().any(same) {
            return Err(EINVAL);
        }
        let free = (0..MAX_AGENTS).find(|id| !self.agents.contains_key(&(handle, *id)));
        let id = free.ok_or(Errno(libc::ENOMEM))?;
        self.agents.insert((handle, id), agent);
        Ok(id)
    }

    /// The QP of an agent.
    pub fn qp_of(&self, who: Who) -> Call<Which> {
        Ok(self.agents.get(&who).ok_or(EINVAL)?.which())
    }

    /// It is no more, nor is what it has sent.
    pub fn unregister(&mut self, who: Who) -> Call<()> {
        self.agents.remove(&who).ok_or(EINVAL)?;
        self.open.retain(|open| open.who != who);
        Ok(())
    }

    /// An open port is closed.
    pub fn close(&mut self, handle: c_int) {
        self.agents.retain(|who, _| who.0 != handle);
        self.open.retain(|open| open.who.0 != handle);
    }

    /// What is to be sent.
    pub fn take_departures(&mut self) -> Vec<Departure> {
        std::mem::take(&mut self.departures)
    }

    /// What open ports get.
    pub fn take_arrivals(&mut self) -> Vec<(c_int, Message)> {
        std::mem::take(&mut self.arrivals)
    }

    /// When [`Engine::expire`] has something to do.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.open.iter().map(|open| open.deadline_ms).min()
    }

    /// A program sends. With a time limit the answer of a request is awaited.
    pub fn send(
        &mut self,
        who: Who,
        route: Route,
        data: &[u8],
        timeout_ms: u32,
        retries: u32,
        now_ms: u64,
    ) -> Call<()> {
        let agent = *self.agents.get(&who).ok_or(EINVAL)?;
        let is_message = agent.rmpp && rmpp::is_active(data);
        if data.len() > MAD_BYTES && !is_message {
            return Err(EINVAL);
        }
        let mut mad = [0; MAD_BYTES];
        let len = data.len().min(MAD_BYTES);
        mad[..len].copy_from_slice(&data[..len]);
        if len < 24 || which_of(class_of(&mad)) != agent.which() {
            return Err(EINVAL);
        }
        let is_answer = method_of(&mad) & method::RESPONSE != 0;
        let mut is_local = false;
        if smp::is_directed(&mad) && !is_answer {
            if !smp::depart(&mut mad, self.port_num) {
                return Err(EINVAL);
            }
            is_local = smp::hops_of(&mad) == 0 && smp::begins_here(&mad);
        }
        let awaits = timeout_ms != 0 && !is_answer;
        if !awaits && !is_message {
            self.depart(&agent, route, mad, is_local);
            return Ok(());
        }
        if self.open.len() >= MAX_OPEN {
            return Err(Errno(libc::ENOMEM));
        }
        let transaction = transaction_of(&mad);
        self.last_mark = self.last_mark.wrapping_add(1);
        let mark = self.last_mark;
        if !is_answer {
            put_u64(&mut mad, 8, u64::from(mark) << 32 | transaction & 0xffff_ffff);
        }
        let mut outgoing = None;
        if is_message {
            let mut whole = hca_room::copied(data)?;
            whole[8..16].copy_from_slice(&mad[8..16]);
            outgoing = Some(Outgoing::new(whole).ok_or(EINVAL)?);
        }
        let timeout_ms = if awaits { timeout_ms } else { MESSAGE_TIMEOUT_MS };
        let mut open = Open {
            who,
            mark,
            transaction,
            route,
            is_local,
            mad,
            timeout_ms,
            retries: if awaits { retries } else { MESSAGE_RETRIES },
            deadline_ms: now_ms + u64::from(timeout_ms),
            outgoing,
            incoming: None,
        };
        match &mut open.outgoing {
            None => self.depart(&agent, route, mad, is_local),
            Some(outgoing) => {
                for mad in outgoing.next() {
                    self.depart(&agent, route, mad, false);
                }
            }
        }
        self.open.push(open);
        Ok(())
    }

    fn depart(&mut self, agent: &Agent, route: Route, mad: Mad, is_local: bool) {
        self.departures.push(Departure {
            which: agent.which(),
            route,
            mad,
            is_local,
        });
    }

    /// A datagram has come.
    pub fn receive(&mut self, which: Which, route: Route, mut mad: Mad, now_ms: u64) {
        if which_of(class_of(&mad)) != which || mad[0] != 1 {
            return;
        }
        let is_answer = method_of(&mad) & method::RESPONSE != 0;
        if smp::is_directed(&mad) {
            let is_ours = match is_answer {
                true => smp::come_back(&mut mad),
                false => smp::arrive(&mut mad, self.port_num),
            };
            if !is_ours {
                return;
            }
        }
        if rmpp::is_active(&mad) && which == Which::Gsi && rmpp::kind_of(&mad) != rmpp::kind::DATA {
            return self.about_message(route, &mad, now_ms);
        }
        if is_answer {
            return self.answered(route, mad, now_ms);
        }
        let taker = self.agents.iter().find(|(_, agent)| agent.takes(&mad));
        if let Some((&(handle, agent), _)) = taker {
            let message = Message {
                agent,
                status: 0,
                route,
                data: mad.to_vec(),
            };
            self.arrivals.push((handle, message));
        }
    }

    /// The request that a datagram answers.
    fn asked(&self, mad: &Mad) -> Option<usize> {
        let mark = (transaction_of(mad) >> 32) as u32;
        let is_of = |open: &Open| {
            open.mark == mark
                && class_of(&open.mad) == class_of(mad)
                && method_of(&open.mad) & method::RESPONSE == 0
        };
        self.open.iter().position(is_of)
    }

    fn answered(&mut self, route: Route, mut mad: Mad, now_ms: u64) {
        let Some(at) = self.asked(&mad) else {
            return;
        };
        let who = self.open[at].who;
        let agent = self.agents[&who];
        let segment = mad;
        put_u64(&mut mad, 8, self.open[at].transaction);
        let mut data = mad.to_vec();
        if agent.rmpp && rmpp::is_active(&mad) {
            let open = &mut self.open[at];
            open.deadline_ms = now_ms + u64::from(open.timeout_ms);
            let incoming = open.incoming.get_or_insert_with(Incoming::new);
            let taken = incoming.take(&mad);
            let ack = incoming.acknowledge(&segment);
            self.depart(&agent, route, ack, false);
            match taken {
                Taken::More => return,
                Taken::Broken => return drop(self.open.remove(at)),
                Taken::Whole(whole) => data = whole,
            }
        }
        self.open.remove(at);
        let message = Message {
            agent: who.1,
            status: 0,
            route,
            data,
        };
        self.arrivals.push((who.0, message));
    }

    /// An acknowledge, or the end, of a message that somebody gets from here.
    fn about_message(&mut self, route: Route, mad: &Mad, now_ms: u64) {
        let is_of = |open: &Open| {
            open.outgoing.is_some()
                && open.mad[8..16] == mad[8..16]
                && class_of(&open.mad) == class_of(mad)
                && (open.route.lid, open.route.qpn) == (route.lid, route.qpn)
        };
        let Some(at) = self.open.iter().position(is_of) else {
            return;
        };
        let open = &mut self.open[at];
        let Some(outgoing) = &mut open.outgoing else {
            return;
        };
        if rmpp::kind_of(mad) != rmpp::kind::ACK {
            drop(self.open.remove(at));
            return;
        }
        open.deadline_ms = now_ms + u64::from(open.timeout_ms);
        if outgoing.acknowledge(mad) {
            let is_answer = method_of(&open.mad) & method::RESPONSE != 0;
            match is_answer {
                true => drop(self.open.remove(at)),
                false => open.outgoing = None,
            }
            return;
        }
        let (who, route) = (open.who, open.route);
        for mad in outgoing.next() {
            let agent = self.agents[&who];
            self.depart(&agent, route, mad, false);
        }
    }

    /// Sends again what has not been answered in time; what has been sent often enough goes back to its sender.
    pub fn expire(&mut self, now_ms: u64) {
        let mut at = 0;
        while at < self.open.len() {
            let open = &mut self.open[at];
            if open.deadline_ms > now_ms {
                at += 1;
                continue;
            }
            if open.retries == 0 {
                let open = self.open.remove(at);
                let mut data = open.mad[..24].to_vec();
                data[8..16].copy_from_slice(&open.transaction.to_be_bytes());
                let message = Message {
                    agent: open.who.1,
                    status: libc::ETIMEDOUT,
                    route: open.route,
                    data,
                };
                self.arrivals.push((open.who.0, message));
                continue;
            }
            open.retries -= 1;
            open.incoming = None;
            open.deadline_ms = now_ms + u64::from(open.timeout_ms);
            let (who, route, is_local) = (open.who, open.route, open.is_local);
            let mads = match &mut open.outgoing {
                Some(outgoing) => outgoing.again(),
                None => vec![open.mad],
            };
            let agent = self.agents[&who];
            for mad in mads {
                self.depart(&agent, route, mad, is_local);
            }
            at += 1;
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
