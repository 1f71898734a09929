//! The communication manager of InfiniBand (IBA vol1 chapter 12): connections and service lookups by management
//! datagrams on QP1. An engine without sockets, threads or clocks: what comes in is handed to it, what it wants to say
//! is fetched from it, and it says when it wants to be woken.
//!
//! * [`message`]: the messages, bit for bit, one table for both directions.
//! * [`Engine`]: connections (REQ, REP, RTU, REJ, MRA, DREQ, DREP) and SIDR, with retries and timewait.
//! * [`ip`]: service IDs and private data of the RDMA IP CM service (annex A11), as sockets' addresses.
//!
//! It must not know about verbs, devices or addresses: where a datagram goes is the caller's own type.
//! Tests: beside each module, and `tests/` (packets of Linux, two engines over a bad wire).
#![forbid(unsafe_code)]

mod api;
mod connection;
mod engine;
pub mod ip;
mod layout;
mod lookups;
pub mod message;
mod outbox;
mod sidr;

pub use api::{CommunicationId, Config, Error, Event, Transmit};
pub use engine::Engine;
pub use message::{MAD_BYTES, Mad, Message, RejectReason};
