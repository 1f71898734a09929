//! Messages of the vfio-user protocol as bytes. No sockets here; every length is checked before use.

use thiserror::Error;

/// PCI regions by index.
pub mod region {
    /// BAR 0: the registers.
    pub const BAR0: u32 = 0;
    /// BAR 2: MSI-X table and pending bits.
    pub const BAR2: u32 = 2;
    /// BAR 4: memory shared with the simulator (see [`crate::SharedRegion`]), only on simulated cards.
    pub const BAR4: u32 = 4;
    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// How many there are.
    pub const COUNT: u32 = 9;
}

/// Flags of a region.
pub mod region_flags {
    /// May be read.
    pub const READ: u32 = 1;
    /// May be written.
    pub const WRITE: u32 = 2;
    /// Comes with a descriptor to map.
    pub const MMAP: u32 = 4;
}

/// Interrupt kinds by index.
pub mod irq {
    /// MSI-X.
    pub const MSIX: u32 = 2;
    /// Errors of the device.
    pub const ERR: u32 = 3;
    /// How many kinds there are.
    pub const COUNT: u32 = 5;
}

/// Flags of [`super::SetIrqs`]: what the data is, and what to do.
pub mod irq_data {
    /// No data: acts on all vectors of the range.
    pub const NONE: u32 = 1;
    /// One byte each.
    pub const BOOL: u32 = 2;
    /// One descriptor each.
    pub const EVENTFD: u32 = 4;
    /// Mask.
    pub const MASK: u32 = 8;
    /// Unmask.
    pub const UNMASK: u32 = 16;
    /// Set or fire the trigger.
    pub const TRIGGER: u32 = 32;
}

/// A message that does not hold what its command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Too short, or a count that does not fit the length.
    #[error("{what} of {found} bytes, need {need}")]
    Length {
        /// Which structure.
        what: &'static str,
        /// Bytes there.
        found: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The version message is not the JSON it should be.
    #[error("version data is not valid: {0}")]
    Version(&'static str),
}

/// Reads little-endian fields one after the other.
struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, at: 0 }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let need = self.at + N;
        let field = self
            .bytes
            .get(self.at..need)
            .and_then(|field| field.try_into().ok());
        self.at = need;
        field.ok_or(ProtocolError::Length {
            what: self.what,
            found: self.bytes.len(),
            need,
        })
    }

    fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }
}

/// Joins the fields of a structure.
fn fields<const N: usize>(words: [&[u8]; N]) -> Vec<u8> {
    words.concat()
}

/// Memory that the device may reach. With a descriptor it is to be mapped, without it belongs to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// Bit 0: readable, bit 1: writable.
    pub flags: u32,
    /// Offset in the file of the descriptor.
    pub offset: u64,
    /// Bus address.
    pub address: u64,
    /// Length.
    pub size: u64,
}

impl DmaMap {
    /// The flag of memory that may be read.
    pub const READ: u32 = 1;
    /// The flag of memory that may be written.
    pub const WRITE: u32 = 2;

    /// To a payload.
    pub fn encode(&self) -> Vec<u8> {
        let (flags, argsz) = (self.flags.to_le_bytes(), 32u32.to_le_bytes());
        let [offset, address, size] = [self.offset, self.address, self.size].map(u64::to_le_bytes);
        fields([&argsz, &flags, &offset, &address, &size])
    }

    /// From a payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut r = Reader::new("DMA_MAP", bytes);
        r.u32()?;
        Ok(Self {
            flags: r.u32()?,
            offset: r.u64()?,
            address: r.u64()?,
            size: r.u64()?,
        })
    }
}

/// The end of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaUnmap {
    /// Bit 1: everything.
    pub flags: u32,
    /// Bus address.
    pub address: u64,
    /// Length.
    pub size: u64,
}

impl DmaUnmap {
    /// The flag that asks for a bitmap of the pages that were written.
    pub const DIRTY_BITMAP: u32 = 1;
    /// The flag that ends all mappings.
    pub const ALL: u32 = 2;

    /// To a payload.
    pub fn encode(&self) -> Vec<u8> {
        let [argsz, flags] = [24, self.flags].map(u32::to_le_bytes);
        let [address, size] = [self.address, self.size].map(u64::to_le_bytes);
        fields([&argsz, &flags, &address, &size])
    }

    /// From a payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut r = Reader::new("DMA_UNMAP", bytes);
        r.u32()?;
        Ok(Self {
            flags: r.u32()?,
            address: r.u64()?,
            size: r.u64()?,
        })
    }
}

/// The payload of a DEVICE_GET_INFO reply: a PCI device that can be reset.
pub fn device_info() -> Vec<u8> {
    const RESET_AND_PCI: u32 = 3;
    let words = [16, RESET_AND_PCI, region::COUNT, irq::COUNT].map(u32::to_le_bytes);
    words.concat()
}

/// A region of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Which.
    pub index: u32,
    /// See [`region_flags`].
    pub flags: u32,
    /// Length; 0: not there.
    pub size: u64,
    /// Where in the descriptor it starts.
    pub offset: u64,
}

impl RegionInfo {
    /// To a payload.
    pub fn encode(&self) -> Vec<u8> {
        let [argsz, flags, index, cap] = [32, self.flags, self.index, 0].map(u32::to_le_bytes);
        let [size, offset] = [self.size, self.offset].map(u64::to_le_bytes);
        fields([&argsz, &flags, &index, &cap, &size, &offset])
    }

    /// From a payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut r = Reader::new("region info", bytes);
        r.u32()?;
        let (flags, index, _cap) = (r.u32()?, r.u32()?, r.u32()?);
        Ok(Self {
            index,
            flags,
            size: r.u64()?,
            offset: r.u64()?,
        })
    }
}

/// A part of a region whose writes an eventfd stands for: one descriptor comes with the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoEventFd {
    /// Which region.
    pub index: u32,
    /// Where in it.
    pub offset: u64,
    /// How long.
    pub size: u64,
}

impl IoEventFd {
    /// The question: everything of region `index`.
    pub fn ask(index: u32) -> Vec<u8> {
        [16 + 40, 0, index, 0].map(u32::to_le_bytes).concat()
    }

    /// Region that a question is about.
    pub fn decode_ask(bytes: &[u8]) -> Result<u32, ProtocolError> {
        let mut r = Reader::new("DEVICE_GET_REGION_IO_FDS", bytes);
        r.u64()?;
        r.u32()
    }

    /// The reply: this one alone, with descriptor 0.
    pub fn encode(&self) -> Vec<u8> {
        let head = [16 + 40, 0, self.index, 1].map(u32::to_le_bytes).concat();
        let [offset, size, no_match] = [self.offset, self.size, 0].map(u64::to_le_bytes);
        // fd_index, type ioeventfd, flags, padding.
        let words = [0; 4].map(u32::to_le_bytes).concat();
        fields([&head, &offset, &size, &words, &no_match])
    }

    /// The reply for region `index`, which has none.
    pub fn none(index: u32) -> Vec<u8> {
        [16, 0, index, 0].map(u32::to_le_bytes).concat()
    }

    /// The first of a reply; None if there is none, or of another kind.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let mut r = Reader::new("region descriptors", bytes);
        r.u64()?;
        let (index, count) = (r.u32()?, r.u32()?);
        if count == 0 {
            return Ok(None);
        }
        let (offset, size) = (r.u64()?, r.u64()?);
        let (fd_index, kind) = (r.u32()?, r.u32()?);
        let found = Self { index, offset, size };
        Ok((fd_index == 0 && kind == 0).then_some(found))
    }
}

/// A kind of interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqInfo {
    /// Which.
    pub index: u32,
    /// Bit 0: by eventfd.
    pub flags: u32,
    /// Vectors.
    pub count: u32,
}

impl IrqInfo {
    /// To a payload.
    pub fn encode(&self) -> Vec<u8> {
        [16, self.flags, self.index, self.count]
            .map(u32::to_le_bytes)
            .concat()
    }

    /// From a payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut r = Reader::new("interrupt info", bytes);
        r.u32()?;
        let flags = r.u32()?;
        Ok(Self {
            flags,
            index: r.u32()?,
            count: r.u32()?,
        })
    }
}

/// Sets up interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetIrqs {
    /// See [`irq_data`].
    pub flags: u32,
    /// Kind.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// How many.
    pub count: u32,
}

impl SetIrqs {
    /// Length of a payload; data may follow.
    pub const BYTES: usize = 20;

    /// To a payload.
    pub fn encode(&self) -> Vec<u8> {
        [20, self.flags, self.index, self.start, self.count]
            .map(u32::to_le_bytes)
            .concat()
    }

    /// From a payload.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let mut r = Reader::new("SET_IRQS", bytes);
        r.u32()?;
        Ok(Self {
            flags: r.u32()?,
            index: r.u32()?,
            start: r.u32()?,
            count: r.u32()?,
        })
    }
}

/// A read or write of a region; the data follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAccess {
    /// Which region.
    pub region: u32,
    /// Where.
    pub offset: u64,
    /// How many bytes.
    pub count: u32,
}

impl RegionAccess {
    /// To a payload.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        let [region, count] = [self.region, self.count].map(u32::to_le_bytes);
        fields([&self.offset.to_le_bytes(), &region, &count, data])
    }

    /// From a payload: the access, and the bytes behind it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let mut r = Reader::new("region access", bytes);
        let offset = r.u64()?;
        let access = Self {
            offset,
            region: r.u32()?,
            count: r.u32()?,
        };
        Ok((access, r.rest()))
    }
}

/// A read or write of the client's memory by the device; the data follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaAccess {
    /// Bus address.
    pub address: u64,
    /// How many bytes.
    pub count: u64,
}

impl DmaAccess {
    /// To a payload.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        fields([&self.address.to_le_bytes(), &self.count.to_le_bytes(), data])
    }

    /// From a payload: the access, and the bytes behind it.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProtocolError> {
        let mut r = Reader::new("DMA access", bytes);
        let access = Self {
            address: r.u64()?,
            count: r.u64()?,
        };
        Ok((access, r.rest()))
    }
}

#[cfg(test)]
mod tests;
