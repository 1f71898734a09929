//! `libibverbs.so.1` for programs that know nothing of OpenHCA: the C interface of rdma-core 44 over the verbs of
//! `hca-verbs` and cards behind the sockets of a simulator.
//!
//! It must not know rings or registers. What a card lacks answers as the manual pages say.
//!
//! * `exports.txt` lists the symbols with their versions; `exports.rs` binds each to a function.
//! * Structures are those of Debian's headers, made by bindgen when `hca-ibv` is built, with their layout asserted.
//! * An object that a program gets is a box whose first field is the C structure.
//!
//! Folders are floors, and imports lead down (`make tidy` sees to it):
//!
//! | | |
//! |---|---|
//! | `exports.rs` | names and versions |
//! | `entry/` | one function for each name: what a program calls |
//! | `objects/` | what a program's pointers point at, and the pump that brings events to them |
//! | `cards/` | where cards are |
//! | `boundary/` | results, errno, panics; tables of live objects, locks, pipes; values between C and Rust |
//! | `abi.rs` | the structures of C, from `hca-ibv` |
//!
//! From Rust there is nothing to call here but [`install_cards`], for tests.

#[doc(hidden)]
pub mod abi;
mod boundary;
mod cards;
mod entry;
mod exports;
#[cfg(test)]
mod flow;
mod objects;

pub use boundary::{Errno, Verb};
pub use cards::{Cards, DevPtr, install_cards};
