//! What goes between the engine and its user.

use thiserror::Error;

use crate::message::{Mad, Rep, Req, SidrRep, SidrReq};

/// Number of a connection on this side.
pub type CommunicationId = u32;

/// What makes an engine different from others.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// GUID of the card.
    pub ca_guid: u64,
    /// Top byte of every communication ID. Engines of several processes share a port and see each other's datagrams:
    /// they ignore what names another one's.
    pub id_prefix: u8,
    /// Where numbers begin.
    pub seed: u64,
    /// Connections at a time; who asks for one more is rejected.
    pub max_connections: usize,
}

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit<R> {
    /// Where.
    pub to: R,
    /// What.
    pub mad: Mad,
}

/// What the user must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<R> {
    /// Somebody asks for a service that is listened for; to be accepted or rejected.
    Request {
        /// The new connection.
        id: CommunicationId,
        /// The request.
        req: Box<Req>,
        /// Where it came from.
        from: R,
    },
    /// Somebody asks for a service that this engine does not serve. Another one may: refuse it only if none does.
    Unserved {
        /// Of the request.
        transaction_id: u64,
        /// The request.
        req: Box<Req>,
        /// Where it came from.
        from: R,
    },
    /// The other side has accepted; to be established or rejected.
    Reply {
        /// The connection.
        id: CommunicationId,
        /// The reply.
        rep: Box<Rep>,
    },
    /// The active side is ready.
    Established {
        /// The connection.
        id: CommunicationId,
        /// Private data.
        private_data: Vec<u8>,
    },
    /// The other side does not want it. The connection is gone.
    Rejected {
        /// The connection.
        id: CommunicationId,
        /// [`crate::RejectReason`], or another one of the specification.
        reason: u16,
        /// Private data.
        private_data: Vec<u8>,
    },
    /// No answer has come. The connection is gone.
    Unreachable {
        /// The connection.
        id: CommunicationId,
    },
    /// Either side has ended it. Once for each connection that was established.
    Disconnected {
        /// The connection.
        id: CommunicationId,
    },
    /// Packets under way have died (CM-70). The connection is gone.
    TimewaitExit {
        /// The connection.
        id: CommunicationId,
    },
    /// Somebody looks for a service that is listened for; to be answered with [`crate::Engine::answer_lookup`].
    Lookup {
        /// The question.
        token: u32,
        /// What is asked.
        req: SidrReq,
        /// Where it came from.
        from: R,
    },
    /// A lookup of a service that this engine does not serve; [`crate::Engine::refuse_lookup`] if no other one does.
    UnservedLookup {
        /// Of the request.
        transaction_id: u64,
        /// What is asked.
        req: SidrReq,
        /// Where it came from.
        from: R,
    },
    /// The answer to a lookup.
    Found {
        /// The lookup.
        id: CommunicationId,
        /// The answer; its status may say no.
        rep: SidrRep,
    },
    /// No answer to a lookup has come.
    NotFound {
        /// The lookup.
        id: CommunicationId,
    },
}

/// What cannot be done.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// There is no such connection.
    #[error("communication ID {0:#010x} names no connection")]
    NoConnection(CommunicationId),
    /// The connection is not at the point where this could be done.
    #[error("communication ID {0:#010x}: not in this state of its connection")]
    WrongState(CommunicationId),
    /// The service is listened for already.
    #[error("service ID {0:#018x} is listened for already")]
    ServiceInUse(u64),
    /// There are as many connections as there can be.
    #[error("{0} connections, which is the limit")]
    TooMany(usize),
}
