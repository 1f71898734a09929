//! Flow control packets of an InfiniBand link (IBA vol1 7.9.4): two words and a CRC of their own.

use core::fmt;

use crate::{crc, fcp};

/// Bytes of a flow control packet. No data packet is as short: LRH, ICRC and VCRC alone are 14.
pub const FLOW_CONTROL_LEN: usize = 6;
/// Unit in which buffers and credits are counted, in bytes.
pub const BLOCK_BYTES: usize = 64;
/// Counts of blocks wrap here: they have 12 bits.
pub const BLOCK_COUNTS: u16 = 1 << 12;
/// Blocks that a receiver may offer at most; more could not be told from fewer (7.9.4.3).
pub const CREDITS_MAX: u16 = 2048;

/// Blocks of a packet, LRH through VCRC.
pub const fn blocks(packet_bytes: usize) -> usize {
    packet_bytes.div_ceil(BLOCK_BYTES)
}

/// State of the sender's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowControlOp {
    /// The link carries data.
    Normal,
    /// The link is being initialised.
    Init,
}

/// A flow control packet: what its sender has sent on a VL, and what it has room for.
///
/// ```
/// use hca_wire::{FlowControl, FlowControlOp};
/// let packet = FlowControl { op: FlowControlOp::Normal, vl: 3, fctbs: 0x123, fccl: 0x456 };
/// let bytes = packet.to_bytes();
/// assert_eq!(bytes[..4], [0x01, 0x23, 0x34, 0x56]);
/// assert_eq!(FlowControl::parse(&bytes), Ok(packet));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowControl {
    /// State of the sender's link.
    pub op: FlowControlOp,
    /// Virtual lane, 0 to 14.
    pub vl: u8,
    /// Blocks sent since initialisation, 12 bits.
    pub fctbs: u16,
    /// Blocks up to which the other side may send, 12 bits.
    pub fccl: u16,
}

/// Why six bytes are not a flow control packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowControlError {
    /// Not six bytes.
    Length(usize),
    /// The CRC is wrong.
    Lpcrc {
        /// The one of these bytes.
        expected: u16,
        /// The one found.
        found: u16,
    },
    /// An operation that the specification reserves.
    Op(u8),
    /// VL 15 has no flow control.
    Vl15,
}

impl fmt::Display for FlowControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(bytes) => {
                write!(
                    f,
                    "a flow control packet has {FLOW_CONTROL_LEN} bytes, this one {bytes}"
                )
            }
            Self::Lpcrc { expected, found } => {
                write!(f, "LPCRC expected {expected:#06x}, found {found:#06x}")
            }
            Self::Op(op) => write!(f, "flow control operation {op} is reserved"),
            Self::Vl15 => write!(f, "flow control for VL 15, which has none"),
        }
    }
}

impl core::error::Error for FlowControlError {}

impl FlowControl {
    /// Reads and checks a flow control packet.
    pub fn parse(bytes: &[u8]) -> Result<Self, FlowControlError> {
        let bytes: &[u8; FLOW_CONTROL_LEN] = bytes
            .try_into()
            .map_err(|_| FlowControlError::Length(bytes.len()))?;
        let Ok(repr) = fcp::Repr::read(bytes) else {
            return Err(FlowControlError::Length(bytes.len()));
        };
        let expected = crc::lpcrc(&bytes[..4]);
        if repr.lpcrc != expected {
            let found = repr.lpcrc;
            return Err(FlowControlError::Lpcrc { expected, found });
        }
        let op = match repr.op {
            0 => FlowControlOp::Normal,
            1 => FlowControlOp::Init,
            op => return Err(FlowControlError::Op(op)),
        };
        if repr.vl == 15 {
            return Err(FlowControlError::Vl15);
        }
        Ok(Self {
            op,
            vl: repr.vl,
            fctbs: repr.fctbs,
            fccl: repr.fccl,
        })
    }

    /// The packet as it goes over the wire.
    pub fn to_bytes(&self) -> [u8; FLOW_CONTROL_LEN] {
        let mut repr = fcp::Repr {
            op: u8::from(self.op == FlowControlOp::Init),
            fctbs: self.fctbs,
            vl: self.vl,
            fccl: self.fccl,
            lpcrc: 0,
        };
        repr.lpcrc = crc::lpcrc(&repr.to_bytes()[..4]);
        repr.to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_comes_back_and_every_flipped_bit_is_noticed() {
        for op in [FlowControlOp::Normal, FlowControlOp::Init] {
            for (vl, fctbs, fccl) in [(0, 0, 0), (14, 0xfff, 0), (7, 1, 0xfff), (1, 0x800, 0x7ff)] {
                let packet = FlowControl { op, vl, fctbs, fccl };
                let bytes = packet.to_bytes();
                assert_eq!(FlowControl::parse(&bytes), Ok(packet));
                for bit in 0..48 {
                    let mut bad = bytes;
                    bad[bit / 8] ^= 1 << (bit % 8);
                    assert!(matches!(
                        FlowControl::parse(&bad),
                        Err(FlowControlError::Lpcrc { .. })
                    ));
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(FlowControl::parse(&[0; 5]), Err(FlowControlError::Length(5)));
        assert_eq!(FlowControl::parse(&[0; 7]), Err(FlowControlError::Length(7)));
        let with_crc = |words: [u8; 4]| {
            let [high, low] = crc::lpcrc(&words).to_be_bytes();
            [words[0], words[1], words[2], words[3], high, low]
        };
        assert_eq!(
            FlowControl::parse(&with_crc([0x20, 0, 0, 0])),
            Err(FlowControlError::Op(2))
        );
        assert_eq!(
            FlowControl::parse(&with_crc([0, 0, 0xf0, 0])),
            Err(FlowControlError::Vl15)
        );
    }

    #[test]
    fn blocks_are_rounded_up() {
        assert_eq!([1, 64, 65, 4096 + 66].map(blocks), [1, 1, 2, 66]);
    }
}
