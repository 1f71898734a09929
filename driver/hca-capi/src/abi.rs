//! The structures of verbs.h.

pub use hca_ibv::abi::*;
