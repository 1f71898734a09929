//! `libibumad.so.3` for programs that know nothing of OpenHCA: management datagrams of OpenSM and the programs of
//! infiniband-diags, on QP0 and QP1 of a card, without the kernel's `ib_umad`.
//!
//! It must not know cards: it uses the verbs of libibverbs.so.1 as any program does.
//!
//! * `exports.rs` binds the symbols of `exports.txt` to functions; `buffer.rs` is what they do to a program's buffer.
//! * `engine.rs` is the kernel's part: which agent gets what, transactions, time limits, directed routes; it does no
//!   input or output itself.
//! * `qp.rs`: QP0 and QP1; the queues of any such QP are in `hca-ibv`.
//! * `rmpp.rs`: messages of several datagrams.
//! * `station.rs`: an engine with its QPs (`qp.rs`) and a thread; one for each port in use, all who open it share it.
//! * `info.rs`: what is known of cards and ports; `issm.rs`: that a subnet manager is there.

#[doc(hidden)]
pub mod abi;
mod buffer;
mod engine;
mod errno;
mod exports;
mod info;
mod issm;
mod qp;
mod rmpp;
mod station;
mod strings;
