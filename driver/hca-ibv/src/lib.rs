//! What our C libraries share of verbs.h.
//!
//! * [`abi`]: its structures, in one place, so that an `ibv_qp` is the same type in every library.
//! * [`calls`]: the verbs, as functions of whichever libibverbs.so.1 the program has: ours, under `hca run`. A library
//!   that calls them says so to the linker in its build script (`rustc-link-lib=dylib=ibverbs`).
//! * [`queues`]: a QP of management datagrams with its queues, by these verbs.
//!
//! `hca-capi` is libibverbs.so.1: it takes the structures, and calls nothing here.

pub mod abi;
pub mod calls;
pub mod queues;
