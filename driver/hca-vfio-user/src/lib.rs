//! vfio-user: a PCI function over a UNIX socket. The codec and the socket with descriptor passing, used by
//! both ends, and [`VfioUserDevice`], the driver's end. The simulator's end is in `hca-cosim`.
//!
//! This crate must not know registers or rings.
//!
//! ```no_run
//! use hca_dev::Device;
//! let dev = hca_vfio_user::VfioUserDevice::connect("/run/hca/card0.0".as_ref())?;
//! println!("{:?} {:#x}", dev.info(), dev.mmio_read32(0));
//! # Ok::<(), hca_dev::DeviceError>(())
//! ```

mod activity;
mod client;
mod protocol;
mod socket;
mod version;

pub use activity::{ACTIVITY_PAGE_BYTES, ActivityPage};
pub use client::VfioUserDevice;
pub use protocol::{
    Command, DmaMap, DmaUnmap, Header, IrqInfo, ProtocolError, RegionAccess, RegionInfo, SetIrqs,
    device_info, irq, irq_data, region, region_flags,
};
pub use socket::{Connection, MAX_FDS, MAX_PAYLOAD_BYTES, Message};
pub use version::{Capabilities, MAJOR, MINOR, decode_version, encode_version};
