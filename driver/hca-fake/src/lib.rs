//! A card for tests of driver, verbs and firmware: registers, context tables and queues as the contract says
//! them, the real firmware behind the admin queue, and a data path in software that connects the card with
//! itself.
//!
//! It must not be used for anything but tests: it has no packets, no latency, no order but program order. It
//! knows nothing of the driver; what it finds wrong in what it is given it writes down as a violation.
//!
//! ```
//! use hca_dev::Device;
//! let dev = hca_fake::FakeDevice::new();
//! assert_eq!(dev.mmio_read32(hca_regs::FUNC_ID), hca_abi::HCA_ID);
//! ```
#![forbid(unsafe_code)]

mod card;
mod data_path;
mod datagrams;
mod device;
mod device_memory;
mod host;
mod link;
mod push;
mod queues;
mod srq;

pub use card::{Card, QpRings};
pub use device::FakeDevice;
pub use host::HostMemory;
pub use link::FakeLink;
