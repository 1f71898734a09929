use std::io;
use thiserror::Error;

/// Text that names no peer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{text}' names no peer ({why}); write unix:PATH or PATH (listens), unix-connect:PATH, dgram:LOCAL,REMOTE, \
     udp:LOCAL_IP:PORT,REMOTE_IP:PORT, or tap:INTERFACE"
)]
pub struct AddressError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A wire that could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WireError {
    /// More neighbours than there is room for.
    #[error(
        "{count} neighbours are given for the wire {address}, at most {limit} can be; leave those out that answer"
    )]
    TooManyNeighbours {
        /// The peer's address.
        address: String,
        /// How many.
        count: usize,
        /// How many there can be.
        limit: usize,
    },
    /// The system refused.
    #[error("cannot open the wire {address}: {reason}")]
    Os {
        /// The peer's address.
        address: String,
        /// The system's reason. Part of the sentence, so not a `source()` that would say it twice.
        reason: io::Error,
    },
}
