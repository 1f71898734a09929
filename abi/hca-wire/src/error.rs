//! Why bytes are not a packet, or a packet cannot be built.

use core::fmt;

/// Reason for which bytes were not accepted as a packet, or a packet could not be emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside the named header or trailer.
    Truncated {
        /// What was being read.
        header: &'static str,
        /// Bytes it needs.
        need_bytes: usize,
        /// Bytes there were.
        have_bytes: usize,
    },
    /// A well-formed frame that carries no IBA transport: ARP, TCP, a raw packet. The text says what.
    NotIba(&'static str),
    /// Two length fields, or a length field and the packet itself, disagree.
    Length {
        /// Field that is wrong.
        field: &'static str,
        /// Value in the packet, in bytes.
        found_bytes: usize,
        /// Value the rest of the packet asks for, in bytes.
        expected_bytes: usize,
    },
    /// The BTH holds an opcode that no transport service defines.
    UnknownOpcode(u8),
    /// The opcode asks for another set of extended headers than the representation holds.
    HeaderSet {
        /// Header that is missing or superfluous.
        header: &'static str,
        /// True where the opcode needs it.
        needed: bool,
    },
    /// The buffer to emit into is too small.
    BufferTooSmall {
        /// Bytes the packet takes.
        need_bytes: usize,
        /// Bytes there were.
        have_bytes: usize,
    },
    /// The payload is longer than the packet's length fields can say.
    PayloadTooLong {
        /// Longest payload in bytes.
        limit_bytes: usize,
        /// Bytes asked for.
        found_bytes: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated {
                header,
                need_bytes,
                have_bytes,
            } => {
                write!(
                    f,
                    "{header} needs {need_bytes} bytes but only {have_bytes} are left"
                )
            }
            Self::NotIba(what) => write!(f, "not an InfiniBand transport packet: {what}"),
            Self::Length {
                field,
                found_bytes,
                expected_bytes,
            } => {
                write!(
                    f,
                    "{field} says {found_bytes} bytes, the packet has {expected_bytes}"
                )
            }
            Self::UnknownOpcode(opcode) => write!(f, "no service defines BTH opcode {opcode:#04x}"),
            Self::HeaderSet { header, needed: true } => {
                write!(f, "the opcode needs a {header} header, none was given")
            }
            Self::HeaderSet {
                header,
                needed: false,
            } => {
                write!(f, "the opcode has no {header} header, but one was given")
            }
            Self::BufferTooSmall {
                need_bytes,
                have_bytes,
            } => {
                write!(
                    f,
                    "the packet takes {need_bytes} bytes, the buffer has {have_bytes}"
                )
            }
            Self::PayloadTooLong {
                limit_bytes,
                found_bytes,
            } => {
                write!(
                    f,
                    "payload of {found_bytes} bytes is over the limit of {limit_bytes}"
                )
            }
        }
    }
}

impl core::error::Error for WireError {}
