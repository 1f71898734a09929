//! What both ends of a stream say to each other: the greeting in the connection manager's private data, and messages
//! in immediate data. The format is that of librdmacm's rsockets, version 1.

/// Bytes of a greeting.
pub const GREETING_BYTES: usize = 40;
/// Bytes of an entry of a target list.
pub const SGE_BYTES: usize = 16;
/// Bytes of an entry of a list of mappings.
pub const IOMAP_BYTES: usize = 24;
/// Entries of this side's target list.
pub const TARGETS: u32 = 2;

const VERSION: u8 = 1;
const FLAG_BIG_ENDIAN: u8 = 1;
const FLAG_IOMAP: u8 = 2;

/// Memory that the other side may write to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    pub addr: u64,
    pub key: u32,
    pub length: u32,
}

impl Sge {
    /// As it lies in the list of a host, which may be of the other byte order.
    pub fn to_host(self, is_swapped: bool) -> [u8; SGE_BYTES] {
        let (addr, key, length) = match is_swapped {
            false => (self.addr, self.key, self.length),
            true => (
                self.addr.swap_bytes(),
                self.key.swap_bytes(),
                self.length.swap_bytes(),
            ),
        };
        let mut bytes = [0; SGE_BYTES];
        bytes[..8].copy_from_slice(&addr.to_ne_bytes());
        bytes[8..12].copy_from_slice(&key.to_ne_bytes());
        bytes[12..].copy_from_slice(&length.to_ne_bytes());
        bytes
    }

    /// As the other side has written it into this host's list.
    pub fn from_host(bytes: &[u8; SGE_BYTES]) -> Self {
        Self {
            addr: u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])),
            key: u32::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i])),
            length: u32::from_ne_bytes(std::array::from_fn(|i| bytes[12 + i])),
        }
    }

    fn to_wire(self) -> [u8; SGE_BYTES] {
        self.to_host(cfg!(target_endian = "little"))
    }

    fn from_wire(bytes: &[u8]) -> Self {
        Self {
            addr: u64::from_be_bytes(std::array::from_fn(|i| bytes[i])),
            key: u32::from_be_bytes(std::array::from_fn(|i| bytes[8 + i])),
            length: u32::from_be_bytes(std::array::from_fn(|i| bytes[12 + i])),
        }
    }
}

/// A mapping, as the other side writes it into this host's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iomap {
    pub offset: u64,
    pub memory: Sge,
}

impl Iomap {
    pub fn to_host(self, is_swapped: bool) -> [u8; IOMAP_BYTES] {
        let offset = if is_swapped {
            self.offset.swap_bytes()
        } else {
            self.offset
        };
        let mut bytes = [0; IOMAP_BYTES];
        bytes[..8].copy_from_slice(&offset.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.memory.to_host(is_swapped));
        bytes
    }

    pub fn from_host(bytes: &[u8; IOMAP_BYTES]) -> Self {
        Self {
            offset: u64::from_ne_bytes(std::array::from_fn(|i| bytes[i])),
            memory: Sge::from_host(&std::array::from_fn(|i| bytes[8 + i])),
        }
    }
}

/// Counts of mappings in eight bits: above 128 in steps of 256.
pub fn scale(count: u32) -> u8 {
    match count {
        0..=128 => count as u8,
        _ => 0x80 | (count >> 8).min(0x7f) as u8,
    }
}

/// What [`scale`] stands for.
pub fn unscale(scaled: u8) -> u16 {
    match scaled {
        0..=128 => scaled.into(),
        _ => u16::from(scaled & 0x7f) << 8,
    }
}

/// What each side says of itself when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    pub is_big_endian: bool,
    /// Messages that it can take.
    pub credits: u16,
    /// Entries of its list of mappings, if it has one; the list lies behind that of targets.
    pub iomaps: Option<u16>,
    /// Its list of targets; the length is that of the list, in entries.
    pub targets: Sge,
    /// Its first target.
    pub buffer: Sge,
}

impl Greeting {
    pub fn emit(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[0] = VERSION;
        if self.is_big_endian {
            bytes[1] |= FLAG_BIG_ENDIAN;
        }
        if let Some(count) = self.iomaps {
            bytes[1] |= FLAG_IOMAP;
            bytes[7] = scale(count.into());
        }
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.targets.to_wire());
        bytes[24..].copy_from_slice(&self.buffer.to_wire());
        bytes
    }

    /// None: of another version, or no greeting.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..GREETING_BYTES)?;
        let targets = Sge::from_wire(&bytes[8..24]);
        (bytes[0] == VERSION && targets.length != 0).then(|| Self {
            is_big_endian: bytes[1] & FLAG_BIG_ENDIAN != 0,
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            iomaps: (bytes[1] & FLAG_IOMAP != 0).then(|| unscale(bytes[7])),
            targets,
            buffer: Sge::from_wire(&bytes[24..]),
        })
    }
}

/// A message: 32 bits of immediate data, an operation in the upper three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// So many bytes have been written.
    Data(u32),
    /// Messages up to this number may be sent; with 16 bytes written, there is a new target, too.
    Credits(u16),
    /// An entry of the list of mappings has been written.
    Iomap(u16),
    Control(Control),
}

/// What is said of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Nothing will be sent, and nothing read.
    Disconnect = 0,
    Keepalive = 1,
    /// Nothing more will be sent.
    Shutdown = 2,
}

const OP_SHIFT: u32 = 29;
const OP_DATA: u32 = 0;
const OP_CREDITS: u32 = 4;
const OP_IOMAP: u32 = 6;
const OP_CONTROL: u32 = 7;
/// Bytes that one message can tell of.
pub const MAX_DATA: u32 = (1 << OP_SHIFT) - 1;

impl Message {
    pub fn encode(self) -> u32 {
        let (op, data) = match self {
            Self::Data(len) => (OP_DATA, len & MAX_DATA),
            Self::Credits(limit) => (OP_CREDITS, limit.into()),
            Self::Iomap(index) => (OP_IOMAP, index.into()),
            Self::Control(control) => (OP_CONTROL, control as u32),
        };
        op << OP_SHIFT | data
    }

    /// None: no such message is known.
    pub fn decode(word: u32) -> Option<Self> {
        let data = word & MAX_DATA;
        match (word >> OP_SHIFT, data) {
            (OP_DATA, len) => Some(Self::Data(len)),
            // Numbers of messages are counted in 16 bits.
            (OP_CREDITS, limit) => Some(Self::Credits(limit as u16)),
            (OP_IOMAP, index) => Some(Self::Iomap(index as u16)),
            (OP_CONTROL, 0) => Some(Self::Control(Control::Disconnect)),
            (OP_CONTROL, 1) => Some(Self::Control(Control::Keepalive)),
            (OP_CONTROL, 2) => Some(Self::Control(Control::Shutdown)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RS-6: both ends are rsockets. Bytes as librdmacm sends them.
    #[test]
    fn a_greeting_byte_by_byte() {
        let greeting = Greeting {
            is_big_endian: false,
            credits: 384,
            iomaps: Some(0),
            targets: Sge {
                addr: 0x0102_0304_0506_0708,
                key: 0x1112_1314,
                length: 2,
            },
            buffer: Sge {
                addr: 0x2122_2324_2526_2728,
                key: 0x3132_3334,
                length: 0x1_0000,
            },
        };
        let bytes = greeting.emit();
        assert_eq!(bytes[..8], [1, 2, 1, 0x80, 0, 0, 0, 0]);
        assert_eq!(
            bytes[8..24],
            [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2]
        );
        assert_eq!(bytes[32..], [0x31, 0x32, 0x33, 0x34, 0, 1, 0, 0]);
        assert_eq!(Greeting::parse(&bytes), Some(greeting));
        assert_eq!(Greeting::parse(&bytes[..39]), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Greeting::parse(&other), None);
        let no_list = Greeting {
            targets: Sge::default(),
            ..greeting
        };
        assert_eq!(Greeting::parse(&no_list.emit()), None);
    }

    #[test]
    fn messages_word_by_word() {
        let words = [
            (Message::Data(0x1234), 0x0000_1234),
            (Message::Credits(0xfffe), 0x8000_fffe),
            (Message::Iomap(3), 0xc000_0003),
            (Message::Control(Control::Disconnect), 0xe000_0000),
            (Message::Control(Control::Keepalive), 0xe000_0001),
            (Message::Control(Control::Shutdown), 0xe000_0002),
        ];
        for (message, word) in words {
            assert_eq!((message.encode(), Message::decode(word)), (word, Some(message)));
        }
        // Credits may have more bits than count.
        assert_eq!(Message::decode(0x8001_0005), Some(Message::Credits(5)));
        for word in [0x2000_0001, 0x4000_0001, 0x6000_0001, 0xa000_0000, 0xe000_0003] {
            assert_eq!(Message::decode(word), None);
        }
    }

    #[test]
    fn entries_in_either_byte_order() {
        let memory = Sge {
            addr: 0x0102_0304_0506_0708,
            key: 9,
            length: 10,
        };
        assert_eq!(Sge::from_host(&memory.to_host(false)), memory);
        let swapped = Sge::from_host(&memory.to_host(true));
        assert_eq!(
            (swapped.addr, swapped.key),
            (0x0807_0605_0403_0201, 9u32.swap_bytes())
        );
        let map = Iomap { offset: 77, memory };
        assert_eq!(Iomap::from_host(&map.to_host(false)), map);
        assert_eq!(Iomap::from_host(&map.to_host(true)).offset, 77u64.swap_bytes());
    }

    #[test]
    fn counts_of_mappings() {
        for count in 0..=128 {
            assert_eq!(u32::from(unscale(scale(count))), count);
        }
        assert_eq!(unscale(scale(129)), 128);
        assert_eq!(unscale(scale(300)), 256);
        assert_eq!(unscale(scale(u32::MAX)), 0x7f00);
    }
}
