use thiserror::Error;

/// What can go wrong between a driver and its device. Each error is a whole sentence; none has a `source()` that would
/// say its reason a second time.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The operating system gave no memory.
    #[error("cannot allocate {len_bytes} bytes of DMA memory: {reason}")]
    NoMemory {
        /// Bytes asked for.
        len_bytes: usize,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// The IOMMU refused a mapping.
    #[error("cannot map {len_bytes} bytes at {addr:#x} for DMA: {reason}")]
    Map {
        /// Address of the memory in this process.
        addr: u64,
        /// Its length.
        len_bytes: usize,
        /// Why, and what helps.
        reason: String,
    },
    /// A limit of the system on memory that devices reach.
    #[error("cannot map {len_bytes} bytes at {addr:#x} for DMA: {reason}")]
    OverLimit {
        /// Address of the memory in this process.
        addr: u64,
        /// Its length.
        len_bytes: u64,
        /// Which limit, how much of it is used, and what helps.
        reason: String,
    },
    /// The system does not give the device to this process.
    #[error("cannot open {device}: {reason}")]
    Refused {
        /// Its name.
        device: String,
        /// The system's errno.
        errno: i32,
        /// Why, and what helps.
        reason: String,
    },
    /// An unmap names a range that is not mapped exactly so.
    #[error("cannot unmap {len_bytes} bytes at bus address {iova:#x}: no mapping has this start and length")]
    NotMapped {
        /// Bus address.
        iova: u64,
        /// Length given.
        len_bytes: usize,
    },
    /// An interrupt vector the device does not have.
    #[error("interrupt vector {vector} does not exist: the device has {num_vectors}")]
    BadVector {
        /// The vector asked for.
        vector: u16,
        /// How many there are.
        num_vectors: u16,
    },
    /// The device or its simulator went away.
    #[error("the device is gone: {0}")]
    Gone(String),
    /// A system call failed.
    #[error("{what}: {reason}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        reason: std::io::Error,
    },
}
