use crate::Line;

/// One beat of a read completion, as the card receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBeat {
    /// Tag of the request.
    pub tag: u8,
    /// Last beat of this tag.
    pub last: bool,
    /// Completion with an error status; the data is void. Always the last beat.
    pub err: bool,
    /// Memory lanes.
    pub data: Line,
}

/// One beat of the card's write stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBeat {
    /// An interrupt message: `addr` is the vector.
    pub msix: bool,
    /// Ends the burst, which becomes one posted transaction.
    pub last: bool,
    /// Function on whose behalf.
    pub func: u8,
    /// Bus address of the line.
    pub addr: u64,
    /// Byte enables.
    pub strb: u64,
    /// Memory lanes.
    pub data: Line,
}

/// An interrupt that has reached the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Function that raised it.
    pub func: u8,
    /// MSI-X vector.
    pub vector: u16,
}

/// A register access on its way to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmioRequest {
    /// Posted write of up to eight bytes.
    Write {
        /// Function whose BAR it hits.
        func: u8,
        /// Offset in the BAR, a multiple of 8.
        addr: u16,
        /// Data, byte lane = address bits 2..0.
        data: u64,
        /// Byte enables.
        strb: u8,
    },
    /// Read of one 32-bit register.
    Read {
        /// Function whose BAR it hits.
        func: u8,
        /// Offset in the BAR, a multiple of 4.
        addr: u16,
        /// Comes back with the value.
        id: u64,
    },
}

impl MmioRequest {
    /// Function whose BAR it hits.
    pub fn func(&self) -> u8 {
        match self {
            Self::Write { func, .. } | Self::Read { func, .. } => *func,
        }
    }
}
