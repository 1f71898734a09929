//! The header of a message: what is asked, how long it is, and whether it is the answer.

/// Length of every header.
pub const HEADER_BYTES: usize = 16;

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    DeviceGetInfo = 4,
    DeviceGetRegionInfo = 5,
    DeviceGetRegionIoFds = 6,
    DeviceGetIrqInfo = 7,
    DeviceSetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DmaRead = 11,
    DmaWrite = 12,
    DeviceReset = 13,
    DirtyPages = 14,
    RegionWriteMulti = 15,
    DeviceFeature = 16,
    MigDataRead = 17,
    MigDataWrite = 18,
}

impl Command {
    /// From its number on the wire.
    pub fn from_wire(value: u16) -> Option<Self> {
        use Command::*;
        [
            Version,
            DmaMap,
            DmaUnmap,
            DeviceGetInfo,
            DeviceGetRegionInfo,
            DeviceGetRegionIoFds,
            DeviceGetIrqInfo,
            DeviceSetIrqs,
            RegionRead,
            RegionWrite,
            DmaRead,
            DmaWrite,
            DeviceReset,
            DirtyPages,
            RegionWriteMulti,
            DeviceFeature,
            MigDataRead,
            MigDataWrite,
        ]
        .into_iter()
        .find(|command| *command as u16 == value)
    }
}

const REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// The header of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of the command, repeated in the reply.
    pub id: u16,
    /// Number of the command; may be unknown.
    pub command: u16,
    /// Length of the whole message.
    pub size_bytes: u32,
    flags: u32,
    error: u32,
}

impl Header {
    /// A command with a payload of this length.
    pub fn command(id: u16, command: Command, payload_bytes: usize, wants_reply: bool) -> Self {
        let flags = if wants_reply { 0 } else { NO_REPLY };
        let size_bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self {
            id,
            command: command as u16,
            size_bytes,
            flags,
            error: 0,
        }
    }

    /// The answer to a command: good, or an errno.
    pub fn reply(to: &Header, payload_bytes: usize, errno: u32) -> Self {
        let flags = if errno == 0 { REPLY } else { REPLY | ERROR };
        let size_bytes = (HEADER_BYTES + payload_bytes) as u32;
        Self {
            id: to.id,
            command: to.command,
            size_bytes,
            flags,
            error: errno,
        }
    }

    /// It is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & 0xf == REPLY
    }

    /// The sender waits for a reply.
    pub fn wants_reply(&self) -> bool {
        self.flags & 0xf == 0 && self.flags & NO_REPLY == 0
    }

    /// The errno of a failed command; 0 is success.
    pub fn errno(&self) -> u32 {
        if self.flags & ERROR == 0 {
            0
        } else {
            self.error.max(1)
        }
    }

    /// To bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..2].copy_from_slice(&self.id.to_le_bytes());
        out[2..4].copy_from_slice(&self.command.to_le_bytes());
        out[4..8].copy_from_slice(&self.size_bytes.to_le_bytes());
        out[8..12].copy_from_slice(&self.flags.to_le_bytes());
        out[12..16].copy_from_slice(&self.error.to_le_bytes());
        out
    }

    /// From bytes; any bytes are a header, its fields are to be checked.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, d, ..] = *bytes;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            id: u16::from_le_bytes([a, b]),
            command: u16::from_le_bytes([c, d]),
            size_bytes: word(4),
            flags: word(8),
            error: word(12),
        }
    }
}
