//! What travels: bytes, or a packet that nobody has looked at yet.

use std::any::Any;
use std::fmt;

/// A packet that its sender has not written out. Whoever looks at its bytes, or changes them, has them written; a
/// receiver of the sender's own kind takes it as it is.
pub trait Unwritten: Any + Send {
    /// Bytes of the packet; where it stands for several, of each.
    fn len_bytes(&self) -> usize;

    /// So many packets in one, all of the same length, one behind the other.
    #[inline]
    fn count(&self) -> u32 {
        1
    }

    /// Those packets, each for itself; of one packet nobody asks.
    fn parts(&self) -> Vec<Box<dyn Unwritten>> {
        Vec::new()
    }

    /// The packet as bytes.
    fn write(&self) -> Vec<u8>;
}

/// A packet on its way.
pub enum Content {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Not written yet.
    Unwritten(Box<dyn Unwritten>),
}

impl Content {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Unwritten(packet) => packet.len_bytes(),
        }
    }

    /// Packets that it is.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Bytes(_) => 1,
            Self::Unwritten(packet) => packet.count(),
        }
    }

    /// The bytes, which it has from now on.
    pub(crate) fn written(&mut self) -> &mut Vec<u8> {
        if let Self::Unwritten(packet) = self {
            *self = Self::Bytes(packet.write());
        }
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Unwritten(_) => unreachable!("it was written above"),
        }
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(self.written())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Bytes(_) => "Bytes",
            Self::Unwritten(_) => "Unwritten",
        };
        write!(f, "{kind}({} bytes)", self.len())
    }
}
