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
mod header;
mod posted;
mod protocol;
mod registered;
mod ring;
mod shared;
mod shared_pages;
mod socket;
mod version;

pub use activity::{ActivityPage, eventfd};
pub use client::VfioUserDevice;
pub use header::{Command, HEADER_BYTES, Header};
pub use posted::{POSTED_ENTRIES, PostedReader, PostedWrite, PostedWriter, clear_kick};
pub use protocol::{
    DmaAccess, DmaMap, DmaUnmap, IoEventFd, IrqInfo, ProtocolError, RegionAccess, RegionInfo, SetIrqs,
    device_info, irq, irq_data, region, region_flags,
};
pub use shared::{KICK_BYTES, KICK_OFFSET, SHARED_REGION_BYTES, SharedRegion};
pub use shared_pages::SHARE_VARIABLE;
pub use socket::{Connection, MAX_FDS, MAX_PAYLOAD_BYTES, Message};
pub use version::{Capabilities, MAJOR, MINOR, decode_version, encode_version};
