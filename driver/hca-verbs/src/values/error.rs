//! Why verbs fail.

use hca_abi::AdminStatus;
use hca_dev::DeviceError;
use hca_driver::{AdminError, BadWr, DriverError};
use hca_room::NoRoom;
use std::net::Ipv6Addr;
use thiserror::Error as ThisError;

use crate::values::gid::Gid;

/// Result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a verb failed. [`Error::errno`] gives the number that libibverbs would.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The driver or the card.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A work request was refused before the card saw it.
    #[error(transparent)]
    Post(#[from] BadWr),
    /// An argument is out of range or does not fit the others.
    #[error("{0}")]
    Invalid(String),
    /// This card cannot do it (EOPNOTSUPP).
    #[error("{0}")]
    Unsupported(String),
    /// Something that was made in the object is still there (EBUSY).
    #[error("PD {pd:#x} has {address_handles} address handles: destroy them first")]
    PdInUse {
        /// Protection domain.
        pd: u32,
        /// Its address handles.
        address_handles: usize,
    },
    /// Regions of the device memory are still there (EBUSY).
    #[error("device memory {handle:#x} has regions: deregister them first")]
    DmInUse {
        /// Device memory.
        handle: u32,
    },
    /// The CQ overran or could not be written; what was still to be polled may be lost (V-57).
    #[error("CQ {cqn:#x} is dead: it overran, or its memory is gone; make a larger one")]
    CqDead {
        /// CQ.
        cqn: u32,
    },
    /// The process has no memory left for what software remembers of an object (ENOMEM).
    #[error(
        "no memory for {len_bytes} bytes of {what}: ask for a smaller one, or raise the limit (ulimit -v)"
    )]
    NoMemory {
        /// What it is of.
        what: &'static str,
        /// How much.
        len_bytes: usize,
    },
    /// The object was destroyed before.
    #[error("{what} {id:#x} has been destroyed")]
    Destroyed {
        /// Kind of object.
        what: &'static str,
        /// Its number.
        id: u32,
    },
    /// A path on Ethernet needs a MAC address, and the card knows none for the GID (EHOSTUNREACH).
    #[error(
        "no neighbour of port {port_num} has GID {}: give the other port that address, or the path a dmac",
        Ipv6Addr::from(*.gid)
    )]
    Unreachable {
        /// Destination GID.
        gid: Gid,
        /// Port, from 1.
        port_num: u8,
    },
    /// Nothing came in time.
    #[error("no {what} within {waited_ns} ns")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// In the device's clock.
        waited_ns: u64,
    },
}

impl From<NoRoom> for Error {
    fn from(error: NoRoom) -> Self {
        Self::Driver(error.into())
    }
}

impl From<AdminError> for Error {
    fn from(error: AdminError) -> Self {
        Self::Driver(error.into())
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::Driver(error.into())
    }
}

impl Error {
    /// What a command has answered that asked for the MAC address behind a GID.
    pub(crate) fn of_path(error: DriverError, gid: Gid, port_num: u8) -> Self {
        match error {
            DriverError::Admin(refusal)
                if matches!(refusal.status, AdminStatus::Unreachable | AdminStatus::Resolving) =>
            {
                Self::Unreachable { gid, port_num }
            }
            other => other.into(),
        }
    }

    /// The Linux errno.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Driver(e) => e.errno(),
            Self::Post(bad) => bad.error.errno(),
            Self::Invalid(_) | Self::Destroyed { .. } => 22,
            Self::Unsupported(_) => 95,
            Self::PdInUse { .. } | Self::DmInUse { .. } => 16,
            Self::CqDead { .. } => 5,
            Self::NoMemory { .. } => 12,
            Self::Unreachable { .. } => 113,
            Self::Timeout { .. } => 110,
        }
    }
}
