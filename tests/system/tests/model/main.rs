//! The card and the reference model at the two ends of a cable: two readings of the specification that must agree, in
//! both roles, packet by packet.

mod atomics;
#[path = "../common/mod.rs"]
mod common;
mod datagrams;
mod duel;
mod faults;
mod operations;
mod refusals;
mod retries;
