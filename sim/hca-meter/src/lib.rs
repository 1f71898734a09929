//! What a program's traffic was like in simulated time, as a bus analyser at the ports of its card sees it: rates,
//! latencies and retransmissions of every QP.
//!
//! Nothing in card, driver or program takes part. A [`FunctionMeter`] reads the doorbells, the rings they point into
//! and the completions that the card writes; it learns of queues from the admin queue, and of retransmissions from the
//! PSNs of the packets. Whatever a hostile program puts there, it only spoils its own figures.
//!
//! * [`Meters`]: one meter for every process that has a function; made for [`hca_cosim::Server::observe`].
//! * [`Report`]: the figures, as text or for serde.
//!
//! It must not know how a program reaches its card, nor how a card works inside.
#![forbid(unsafe_code)]

mod admin;
mod function;
mod histogram;
mod packet;
mod process;
mod qp;
mod registry;
mod report;

pub use function::FunctionMeter;
pub use registry::Meters;
pub use report::{Flow, Latency, QpReport, Report, SessionReport};
