//! One connection: what it is doing, and until when.

use crate::message::{Drep, Mad, Message, Req};

/// 4.096 us.
const UNIT_NS: u64 = 4096;

/// The time that an exponent of a message stands for.
pub(crate) const fn ns_of(exponent: u8) -> u64 {
    UNIT_NS << (exponent & 31)
}

/// Where a connection stands (IBA vol1 12.9.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Active side: no answer yet.
    ReqSent,
    /// Active side: the user has the answer.
    RepReceived,
    /// Passive side: the user has the request.
    ReqReceived,
    /// Passive side: answered.
    RepSent,
    Established,
    DreqSent,
    /// Gone for the user; its numbers rest.
    Timewait,
    /// Passive side: rejected; who asks again is rejected again.
    Refused,
}

/// A connection.
pub(crate) struct Connection<R> {
    pub state: State,
    /// Where its datagrams go.
    pub to: R,
    pub transaction_id: u64,
    pub remote_id: u32,
    pub remote_ca_guid: u64,
    pub remote_qpn: u32,
    /// A target of XRC says its number where others say that of an EE context.
    pub is_xrc: bool,
    /// What is said again until it is answered, or when the other side asks again.
    pub last: Option<Mad>,
    pub retries_left: u8,
    pub max_retries: u8,
    /// Between two tries.
    pub interval_ns: u64,
    pub timewait_ns: u64,
    /// When something is to be done without a word from the other side.
    pub deadline: Option<u64>,
    /// The user has left: events are nobody's.
    pub orphan: bool,
}

impl<R> Connection<R> {
    /// Of a request: sent by this side, or received.
    pub fn new(state: State, to: R, transaction_id: u64, req: &Req) -> Self {
        let interval_ns = ns_of(req.remote_cm_response_timeout.max(req.local_cm_response_timeout));
        Self {
            state,
            to,
            transaction_id,
            remote_id: 0,
            remote_ca_guid: 0,
            remote_qpn: 0,
            is_xrc: req.is_xrc(),
            last: None,
            retries_left: req.max_cm_retries,
            max_retries: req.max_cm_retries,
            interval_ns,
            timewait_ns: ns_of(req.primary_local_ack_timeout),
            deadline: None,
            orphan: false,
        }
    }

    /// From now on this is said until it is answered.
    pub fn say(&mut self, now: u64, state: State, mad: Mad) {
        self.state = state;
        self.last = Some(mad);
        self.retries_left = self.max_retries;
        self.deadline = Some(now + self.interval_ns);
    }

    /// Nothing more is to come from the other side for the moment.
    pub fn rest(&mut self, state: State, last: Option<Mad>) {
        (self.state, self.last, self.deadline) = (state, last, None);
    }

    /// Gone for the user.
    pub fn enter_timewait(&mut self, now: u64, local_id: u32) {
        let drep = Drep {
            local_communication_id: local_id,
            remote_communication_id: self.remote_id,
            private_data: Vec::new(),
        };
        self.rest(
            State::Timewait,
            Some(Message::from(drep).emit(self.transaction_id)),
        );
        self.deadline = Some(now + self.timewait_ns);
    }

    /// Both sides have agreed on it, and neither has left.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::RepSent | State::Established | State::DreqSent)
    }
}
