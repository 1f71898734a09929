//! What the IOMMU refuses: accesses of the card, and mappings of its program.

use std::fmt;

use thiserror::Error;

use crate::uses::PIECES;

/// What the card wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// To read.
    Read,
    /// To write.
    Write,
}

/// Why it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing is mapped at the address, or its memory is there no more.
    Unmapped,
    /// It is mapped for the other kind of access only.
    Forbidden,
    /// The function may not master the bus.
    Master,
    /// The program whose memory it was has ended.
    Ended,
}

/// The card touched what it may not. Reads end in an error completion; writes are posted: they are lost, and the card
/// does not hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("function {func}: {touch} bus address {addr:#x} was refused by the IOMMU: {cause}")]
pub struct Fault {
    /// Function.
    pub func: u8,
    /// First address that failed.
    pub addr: u64,
    /// What it wanted there.
    pub touch: Touch,
    /// What was in the way.
    pub cause: Cause,
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "a read from",
            Self::Write => "a write to",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmapped => "nothing is mapped there",
            Self::Forbidden => "it is not mapped for this access",
            Self::Master => "the function may not master the bus",
            Self::Ended => "the program whose memory it was has ended",
        })
    }
}

impl Fault {
    /// Somebody is mistaken about what is mapped. Otherwise it is what is left over of a function that was switched
    /// off, or of a program that has ended.
    pub fn is_mistake(&self) -> bool {
        matches!(self.cause, Cause::Unmapped | Cause::Forbidden)
    }

    pub(crate) fn write(func: u8, addr: u64, cause: Cause) -> Self {
        let touch = Touch::Write;
        Self {
            func,
            addr,
            touch,
            cause,
        }
    }

    pub(crate) fn read(func: u8, addr: u64, cause: Cause) -> Self {
        let touch = Touch::Read;
        Self {
            func,
            addr,
            touch,
            cause,
        }
    }
}

/// A mapping that cannot be made or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Zero bytes, or past the end of the address space or of the memory behind it.
    #[error("range {iova:#x} + {len_bytes:#x} is empty, wraps, or is longer than the memory behind it")]
    BadRange {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Part of it is mapped to something else.
    #[error("range {iova:#x} + {len_bytes:#x} overlaps a mapping: unmap that first")]
    Overlap {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Too many mappings overlap it.
    #[error(
        "range {iova:#x} + {len_bytes:#x} is cut into more than {PIECES} pieces by mappings that overlap it"
    )]
    Pieces {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Only a part of a mapping would end.
    #[error("range {iova:#x} + {len_bytes:#x} cuts a mapping: end it as a whole")]
    Cut {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
    /// No such mapping.
    #[error("no mapping starts at {iova:#x} with length {len_bytes:#x}")]
    NotMapped {
        /// Start.
        iova: u64,
        /// Length.
        len_bytes: u64,
    },
}
