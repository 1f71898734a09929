//! `librdmacm.so.1` for programs that know nothing of OpenHCA: the C interface of rdma-core 44's connection manager,
//! with the manager in this process (`hca-cm`) and its datagrams on QP1 of the card.
//!
//! It must not know cards: it uses the verbs of libibverbs.so.1 as any program does. Which process has which port
//! number is agreed on by locked files (`registry`); who says no for all, too.
//!
//! * `exports.txt` lists the symbols with their versions; `exports.rs` binds each to a function.
//! * One lock (`state`) guards everything; nobody waits while holding it. A thread for each port in use (`flow`).
//! * `rsocket` has sockets over RDMA, which use all of this as a program does.
//! * Events are queued where they arise; the descriptor of a channel counts them (`channel`).

#[doc(hidden)]
pub mod abi;
mod address;
mod channel;
mod clock;
mod connect;
mod errno;
mod events;
mod exports;
mod flow;
mod gsi;
mod ids;
mod info;
mod live;
mod multicast;
mod options;
mod path;
mod qp;
mod registry;
mod rsocket;
mod sa;
mod srq;
mod state;
mod xrc;
