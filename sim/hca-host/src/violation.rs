use thiserror::Error;

use crate::pcie::READ_BYTES;

/// A request of the card that breaks the contract of its host port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Length zero or too long, or across a 512-byte boundary.
    #[error(
        "read of {len_bytes} bytes at {addr:#x}: must be 1..={READ_BYTES} bytes inside one 512-byte block"
    )]
    ReadShape {
        /// Bus address.
        addr: u64,
        /// Length.
        len_bytes: u16,
    },
    /// The tag's last completion has not been delivered yet.
    #[error("read with tag {tag}, which is in use")]
    TagInUse {
        /// The tag.
        tag: u8,
    },
    /// A line that is not aligned or enables nothing.
    #[error(
        "write at {addr:#x} with byte enables {strb:#x}: address must be a multiple of 64, enables not 0"
    )]
    WriteShape {
        /// Bus address.
        addr: u64,
        /// Byte enables.
        strb: u64,
    },
    /// A burst that does not go on where it was, or leaves its 256-byte block.
    #[error("write burst goes on at {addr:#x}, expected {expected:#x} inside the same 256-byte block")]
    Burst {
        /// Bus address of the line.
        addr: u64,
        /// Where it should have been.
        expected: u64,
    },
}
