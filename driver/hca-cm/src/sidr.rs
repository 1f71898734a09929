//! Service ID resolution (IBA vol1 12.11): which QP of datagrams serves a service?

use std::collections::HashMap;

use crate::api::{CommunicationId, Error, Event};
use crate::connection::ns_of;
use crate::message::{Mad, Message, SidrRep, SidrReq};
use crate::outbox::Outbox;

/// Questions of others that are kept, so that one that comes again gets the same answer.
const MAX_QUESTIONS: usize = 1024;
/// How long.
const KEEP_NS: u64 = 60_000_000_000;
/// SIDR_REP status: nobody serves it.
pub(crate) const NO_SERVICE: u8 = 1;

/// How long an answer is waited for, and how often it is asked again.
pub(crate) struct Patience {
    pub response_timeout: u8,
    pub retries: u8,
}

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

impl<R: Clone + PartialEq> Sidr<R> {
    /// Asks; the request carries the number `id`.
    pub fn look_up(&mut self, now: u64, to: R, id: CommunicationId, mad: Mad, patience: &Patience) {
        let interval_ns = ns_of(patience.response_timeout);
        let lookup = Lookup {
            to,
            mad,
            retries_left: patience.retries,
            interval_ns,
            deadline: now + interval_ns,
        };
        self.lookups.insert(id, lookup);
    }

    pub fn cancel(&mut self, id: CommunicationId) {
        self.lookups.remove(&id);
    }

    pub fn answer(
        &mut self,
        now: u64,
        token: u32,
        mut rep: SidrRep,
        out: &mut Outbox<R>,
    ) -> Result<(), Error> {
        let question = self.questions.get_mut(&token);
        let question = question.ok_or(Error::NoConnection(token))?;
        if question.answer.is_some() {
            return Err(Error::WrongState(token));
        }
        rep.request_id = question.request_id;
        rep.service_id = question.service_id;
        let mad = Message::from(rep).emit(question.transaction_id);
        question.answer = Some(mad);
        question.deadline = now + KEEP_NS;
        out.send(question.from.clone(), mad);
        Ok(())
    }

    /// A question of another side, which may have come before. False: it is new.
    pub fn repeat_answer(&self, req: &SidrReq, from: &R, out: &mut Outbox<R>) -> bool {
        let mut known = self.questions.values();
        let Some(question) = known.find(|q| q.request_id == req.request_id && q.from == *from) else {
            return false;
        };
        if let Some(answer) = question.answer {
            out.send(from.clone(), answer);
        }
        true
    }

    /// A new question for a service that is served.
    pub fn ask(&mut self, now: u64, transaction_id: u64, req: SidrReq, from: R, out: &mut Outbox<R>) {
        // One that is dropped is asked again.
        if self.questions.len() >= MAX_QUESTIONS {
            return;
        }
        self.next_token = self.next_token.wrapping_add(1);
        let token = self.next_token;
        let question = Question {
            from: from.clone(),
            request_id: req.request_id,
            transaction_id,
            service_id: req.service_id,
            answer: None,
            deadline: now + KEEP_NS,
        };
        self.questions.insert(token, question);
        out.tell(Event::Lookup { token, req, from });
    }

    pub fn on_answer(&mut self, rep: SidrRep, out: &mut Outbox<R>) {
        let id = rep.request_id;
        if self.lookups.remove(&id).is_some() {
            out.tell(Event::Found { id, rep });
        }
    }

    pub fn expire(&mut self, now: u64, out: &mut Outbox<R>) {
        self.questions.retain(|_, question| question.deadline > now);
        let over = self.lookups.iter().filter(|(_, lookup)| lookup.deadline <= now);
        let mut over: Vec<CommunicationId> = over.map(|(id, _)| *id).collect();
        over.sort_unstable();
        for id in over {
            let Some(lookup) = self.lookups.get_mut(&id) else {
                continue;
            };
            if lookup.retries_left == 0 {
                self.lookups.remove(&id);
                out.tell(Event::NotFound { id });
                continue;
            }
            lookup.retries_left -= 1;
            lookup.deadline = now + lookup.interval_ns;
            out.send(lookup.to.clone(), lookup.mad);
        }
    }
}
