//! `libibverbs.so.1` for programs that know nothing of OpenHCA: the C interface of rdma-core 44 over the verbs of
//! `hca-verbs` and cards behind the sockets of a simulator.
//!
//! It must not know rings or registers. What a card lacks answers as the manual pages say.
//!
//! * `exports.txt` lists the symbols with their versions; `exports.rs` binds each to a function.
//! * Structures are those of Debian's headers, made by bindgen when this is built, with their layout asserted.
//! * An object that a program gets is a box whose first field is the C structure.
//!
//! From Rust there is nothing to call here but [`install_cards`], for tests.

#[doc(hidden)]
pub mod abi;
mod absent;
mod ah;
mod boundary;
mod card;
mod channel;
mod context;
mod convert;
mod cq;
mod cq_ex;
mod device;
mod exports;
#[cfg(test)]
mod flow;
mod kern;
mod live;
mod memory;
mod mutex;
mod pipe;
mod post;
mod qp;
mod qp_ex;
mod query;
mod rate;
mod slots;
mod sockets;
mod srq;
mod strings;
mod wc_address;
mod window;

pub use boundary::{Errno, Verb};
pub use sockets::{Cards, DevPtr, install_cards};
