//! Sockets over RDMA (RS-*): streams over RC, whose other end may be any rsocket of version 1, and datagrams over UD.
//!
//! * `wire` is the format, `credit` the flow, both without a card; `stream` is the QP with them, and never waits.
//! * `socket` is what a descriptor stands for, and the one place where calls wait.
//! * `waits` is what calls wait by: descriptors, and what stream and datagrams say of completions.
//! * `datagram` is the same for datagrams: QPs, and where others have theirs.
//! * `connect`, `data`, `iomap`, `options`, `poll` are the calls.

mod config;
pub mod connect;
mod credit;
pub mod data;
mod datagram;
mod iomap;
pub mod options;
pub mod poll;
mod region;
mod socket;
mod stream;
mod waits;
mod wire;
