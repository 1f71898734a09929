//! A card in a slot, through Linux' VFIO: [`VfioDevice`], and what prepares a card for it ([`bind()`], [`unbind()`]).
//!
//! This crate must not know registers or rings, apart from one register that is never all ones.
//!
//! ```no_run
//! use hca_dev::Device;
//! let dev = hca_vfio::VfioDevice::open("0000:01:00.0".parse().unwrap())?;
//! println!("{:?} {:#x}", dev.info(), dev.mmio_read32(0));
//! # Ok::<(), hca_dev::DeviceError>(())
//! ```
//!
//! Tests without a card are beside the code: bus addresses and mappings against models, messages, and binding in a tree
//! of plain files. With a card the tests of `tests/peers` run in a guest.

mod bar;
mod bind;
mod device;
#[cfg(test)]
mod fake_tree;
mod ioctl;
mod iova;
mod irq;
mod limits;
mod mappings;
mod open;
mod select;
mod sysfs;

pub use bind::{BindError, BindOptions, bind, unbind};
pub use device::VfioDevice;
pub use select::{ENVIRONMENT, Selection};
pub use sysfs::{Bdf, Sysfs, VFIO_DRIVER};
