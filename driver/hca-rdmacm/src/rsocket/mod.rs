//! Sockets over RDMA (RS-*): streams over RC, whose other end may be any rsocket of version 1.
//!
//! * `wire` is the format, `credit` the flow, both without a card; `stream` is the QP with them, and never waits.
//! * `socket` is what a descriptor stands for, and the one place where calls wait.
//! * `connect`, `data`, `iomap`, `options`, `poll` are the calls.

mod config;
pub mod connect;
mod credit;
pub mod data;
mod iomap;
pub mod options;
pub mod poll;
mod region;
mod socket;
mod stream;
mod wire;
