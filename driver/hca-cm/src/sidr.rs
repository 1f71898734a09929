//! Service ID resolution (IBA vol1 12.11): which QP of datagrams serves a service?

use std::collections::HashMap;

use crate::api::{CommunicationId, Error, Event};
use crate::connection::ns_of;
use crate::engine::Engine;
use crate::message::{Mad, Message, SidrRep, SidrReq};

/// Questions of others that are kept, so that one that comes again gets the same answer.
const MAX_QUESTIONS: usize = 1024;
/// How long.
const KEEP_NS: u64 = 60_000_000_000;
/// SIDR_REP status: nobody serves it.
const NO_SERVICE: u8 = 1;

/// A question of this side.
struct Lookup<R> {
    to: R,
    mad: Mad,
    retries_left: u8,
    interval_ns: u64,
    deadline: u64,
}

/// A question of another side.
struct Question<R> {
    from: R,
    request_id: u32,
    transaction_id: u64,
    service_id: u64,
    answer: Option<Mad>,
    deadline: u64,
}

/// All lookups of a port.
pub(crate) struct Sidr<R> {
    lookups: HashMap<CommunicationId, Lookup<R>>,
    questions: HashMap<u32, Question<R>>,
    next_token: u32,
}

impl<R> Default for Sidr<R> {
    fn default() -> Self {
        Self {
            lookups: HashMap::new(),
            questions: HashMap::new(),
            next_token: 0,
        }
    }
}

impl<R> Sidr<R> {
    pub fn has(&self, id: CommunicationId) -> bool {
        self.lookups.contains_key(&id)
    }

    pub fn next_timeout(&self) -> Option<u64> {
        let lookups = self.lookups.values().map(|lookup| lookup.deadline);
        lookups
            .chain(self.questions.values().map(|question| question.deadline))
            .min()
    }
}

impl<R: Clone + PartialEq> Engine<R> {
    /// Asks who serves a service. The request's number is filled in here. An answer is waited for 4.096 us <<
    /// `response_timeout`, `retries` times more.
    pub fn look_up(
        &mut self,
        now: u64,
        to: R,
        mut req: SidrReq,
        response_timeout: u8,
        retries: u8,
    ) -> CommunicationId {
        let id = self.new_id();
        req.request_id = id;
        let transaction_id = self.new_transaction();
        let mad = Message::from(req).emit(transaction_id);
        let interval_ns = ns_of(response_timeout);
        let lookup = Lookup {
            to: to.clone(),
            mad,
            retries_left: retries,
            interval_ns,
            deadline: now + interval_ns,
        };
        self.sidr.lookups.insert(id, lookup);
        self.send(to, mad);
        id
    }

    /// The answer is of no interest any more.
    pub fn cancel_lookup(&mut self, id: CommunicationId) {
        self.sidr.lookups.remove(&id);
    }

    /// Answers a question; number and service are filled in here.
    pub fn answer_lookup(&mut self, now: u64, token: u32, mut rep: SidrRep) -> Result<(), Error> {
        let question = self.sidr.questions.get_mut(&token);
        let question = question.ok_or(Error::NoConnection(token))?;
        if question.answer.is_some() {
            return Err(Error::WrongState(token));
        }
        rep.request_id = question.request_id;
        rep.service_id = question.service_id;
        let mad = Message::from(rep).emit(question.transaction_id);
        question.answer = Some(mad);
        question.deadline = now + KEEP_NS;
        let to = question.from.clone();
        self.send(to, mad);
        Ok(())
    }

    /// Says no to a question that nobody on the port can answer.
    pub fn refuse_lookup(&mut self, transaction_id: u64, req: &SidrReq, to: R) {
        let rep = SidrRep {
            request_id: req.request_id,
            service_id: req.service_id,
            status: NO_SERVICE,
            ..SidrRep::default()
        };
        self.send(to, Message::from(rep).emit(transaction_id));
    }

    pub(crate) fn on_sidr_req(&mut self, now: u64, transaction_id: u64, req: SidrReq, from: R) {
        let mut known = self.sidr.questions.values();
        if let Some(question) = known.find(|q| q.request_id == req.request_id && q.from == from) {
            if let Some(answer) = question.answer {
                self.send(from, answer);
            }
            return;
        }
        if !self.is_served(req.service_id) {
            self.events.push_back(Event::UnservedLookup {
                transaction_id,
                req,
                from,
            });
            return;
        }
        // One that is dropped is asked again.
        if self.sidr.questions.len() >= MAX_QUESTIONS {
            return;
        }
        self.sidr.next_token = self.sidr.next_token.wrapping_add(1);
        let token = self.sidr.next_token;
        let question = Question {
            from: from.clone(),
            request_id: req.request_id,
            transaction_id,
            service_id: req.service_id,
            answer: None,
            deadline: now + KEEP_NS,
        };
        self.sidr.questions.insert(token, question);
        self.events.push_back(Event::Lookup { token, req, from });
    }

    pub(crate) fn on_sidr_rep(&mut self, rep: SidrRep) {
        let id = rep.request_id;
        if self.sidr.lookups.remove(&id).is_some() {
            self.events.push_back(Event::Found { id, rep });
        }
    }

    pub(crate) fn expire_sidr(&mut self, now: u64) {
        self.sidr.questions.retain(|_, question| question.deadline > now);
        let over = self
            .sidr
            .lookups
            .iter()
            .filter(|(_, lookup)| lookup.deadline <= now);
        let mut over: Vec<CommunicationId> = over.map(|(id, _)| *id).collect();
        over.sort_unstable();
        for id in over {
            let Some(lookup) = self.sidr.lookups.get_mut(&id) else {
                continue;
            };
            if lookup.retries_left == 0 {
                self.sidr.lookups.remove(&id);
                self.events.push_back(Event::NotFound { id });
                continue;
            }
            lookup.retries_left -= 1;
            lookup.deadline = now + lookup.interval_ns;
            let (to, mad) = (lookup.to.clone(), lookup.mad);
            self.send(to, mad);
        }
    }
}
