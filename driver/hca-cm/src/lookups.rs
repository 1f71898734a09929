//! What the user of an engine does with lookups of services.

use crate::api::{CommunicationId, Error};
use crate::engine::Engine;
use crate::message::{Message, SidrRep, SidrReq};
use crate::sidr::{NO_SERVICE, Patience};

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
        let mad = Message::from(req).emit(self.new_transaction());
        let patience = Patience {
            response_timeout,
            retries,
        };
        self.sidr.look_up(now, to.clone(), id, mad, &patience);
        self.out.send(to, mad);
        id
    }

    /// The answer is of no interest any more.
    pub fn cancel_lookup(&mut self, id: CommunicationId) {
        self.sidr.cancel(id);
    }

    /// Answers a question; number and service are filled in here.
    pub fn answer_lookup(&mut self, now: u64, token: u32, rep: SidrRep) -> Result<(), Error> {
        self.sidr.answer(now, token, rep, &mut self.out)
    }

    /// Says no to a question that nobody on the port can answer.
    pub fn refuse_lookup(&mut self, transaction_id: u64, req: &SidrReq, to: R) {
        let rep = SidrRep {
            request_id: req.request_id,
            service_id: req.service_id,
            status: NO_SERVICE,
            ..SidrRep::default()
        };
        self.out.send(to, Message::from(rep).emit(transaction_id));
    }
}
