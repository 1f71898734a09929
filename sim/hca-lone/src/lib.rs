//! A card with nothing around it, for tests of driver, verbs and firmware: the fast card (`hca-functional`) with the
//! real firmware, a host of its own behind [`hca_dev::Device`], and no cable. What it sends to itself it receives.
//!
//! It is for tests alone. They may look into it, hold packets back, tell firmware of what has not happened, and take
//! the cable out; what driver or firmware do against the contract is written down as a violation. Time passes with each
//! call and by nothing else. The firmware is not told that raw packets, pacing and congestion control are missing, so
//! that its commands can be tested; nothing of them moves.
//!
//! ```
//! use hca_dev::Device;
//! let dev = hca_lone::LoneCard::new();
//! assert_eq!(dev.mmio_read32(hca_regs::FUNC_ID), hca_abi::HCA_ID);
//! ```
#![forbid(unsafe_code)]

mod audit;
mod card;
mod device;
mod host;
mod link;

pub use card::Hardware;
pub use device::LoneCard;
pub use host::HostMemory;
