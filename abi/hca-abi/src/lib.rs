//! The contract of OpenHCA: every layout, number and offset that host software, firmware and RTL share.
//!
//! Each memory structure, enumeration and constant is written once, as a table. The macros of [`table`]
//! make the Rust types from it; `hca-abi-gen` prints SystemVerilog, C, Python and Markdown from the same
//! tables. This crate knows nothing of rings, policies or devices; registers are in `abi/regs` (SystemRDL),
//! wire headers in `hca-wire`.
//!
//! ```
//! use hca_abi::{SqWqeCtrl, WrOpcode};
//! let mut wqe = SqWqeCtrl::new();
//! wqe.set_opcode(WrOpcode::RdmaWrite.into());
//! wqe.set_signaled(true);
//! wqe.set_wqe_index(7);
//! assert_eq!(wqe.as_bytes()[0..2], [0, 1]);
//! assert_eq!(WrOpcode::try_from(wqe.opcode()), Ok(WrOpcode::RdmaWrite));
//! ```
//!
//! All integers are little endian. Reserved bits: writers store 0, readers ignore them.
//! Fields that hold bytes "as on the wire" (GIDs, MAC addresses, immediate data) keep the wire's byte order
//! in memory: the first byte on the wire has the lowest address. Golden bytes are in `tests/golden.rs`.
#![no_std]
#![forbid(unsafe_code)]

pub mod admin;
pub mod admin_opcode;
mod admin_rules;
pub mod congestion;
pub mod consts;
pub mod contexts;
pub mod doorbells;
pub mod enums;
pub mod flags;
pub mod link;
pub mod queries;
pub mod rings;
pub mod soc;
pub mod table;

pub use admin::*;
pub use admin_opcode::*;
pub use congestion::*;
pub use consts::*;
pub use contexts::*;
pub use doorbells::*;
pub use enums::*;
pub use flags::*;
pub use link::*;
pub use queries::*;
pub use rings::*;
pub use soc::*;
pub use table::{
    ConstDef, ConstGroup, EnumDef, EnumValue, FieldDef, FlagDef, FlagsDef, Scope, StructDef, UnknownCode,
};

/// Every memory structure, in the order in which documents print them.
pub const STRUCTS: &[&[&StructDef]] = &[
    rings::STRUCTS,
    contexts::STRUCTS,
    doorbells::STRUCTS,
    admin::STRUCTS,
    queries::STRUCTS,
    link::STRUCTS,
    congestion::STRUCTS,
    soc::STRUCTS,
];
