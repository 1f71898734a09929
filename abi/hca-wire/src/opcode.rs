//! BTH opcodes (IBA vol1 9.2.1, table 38; XRC: annex A14; CNP: annex A17; FLUSH, ATOMIC WRITE: annex A19). Masked
//! atomics are of the manufacturer's range (0xc0 to 0xff), and of ours alone.

use crate::WireError;
use core::fmt;

/// First opcode of the manufacturer's range: bit 5 tells XRC from RC there.
const MANUFACTURERS: u8 = 0xc0;

/// Transport service: the three top bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification; not a service of its own, only [`Opcode::Cnp`] is in it.
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
}

/// An extended transport header. The order of the variants is the order on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtHeader {
    /// Reliable datagram ETH.
    Rdeth,
    /// Datagram ETH.
    Deth,
    /// XRC ETH.
    Xrceth,
    /// FLUSH ETH.
    Feth,
    /// RDMA ETH.
    Reth,
    /// Atomic ETH.
    AtomicEth,
    /// ACK ETH.
    Aeth,
    /// Atomic ACK ETH.
    AtomicAckEth,
    /// Immediate data.
    ImmDt,
    /// Invalidate ETH.
    Ieth,
}

impl ExtHeader {
    /// All of them, in wire order.
    pub const ALL: [Self; 10] = [
        Self::Rdeth,
        Self::Deth,
        Self::Xrceth,
        Self::Feth,
        Self::Reth,
        Self::AtomicEth,
        Self::Aeth,
        Self::AtomicAckEth,
        Self::ImmDt,
        Self::Ieth,
    ];

    /// The header's table.
    pub const fn def(self) -> &'static crate::HeaderDef {
        match self {
            Self::Rdeth => &crate::rdeth::DEF,
            Self::Deth => &crate::deth::DEF,
            Self::Xrceth => &crate::xrceth::DEF,
            Self::Feth => &crate::feth::DEF,
            Self::Reth => &crate::reth::DEF,
            Self::AtomicEth => &crate::atomic_eth::DEF,
            Self::Aeth => &crate::aeth::DEF,
            Self::AtomicAckEth => &crate::atomic_ack_eth::DEF,
            Self::ImmDt => &crate::immdt::DEF,
            Self::Ieth => &crate::ieth::DEF,
        }
    }
}

macro_rules! operations {
    ($( $name:ident = $value:literal, $text:literal; )+) => {
        /// Operation: the five low bits of an opcode; of the manufacturer's range 0x20 more.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Operation {
            $( #[doc = $text] $name = $value, )+
        }

        impl Operation {
            /// Every operation with its code.
            pub const ALL: &[Self] = &[ $( Self::$name, )+ ];

            /// Name as the specification spells it.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $text, )+ }
            }

            const fn from_code(code: u8) -> Option<Self> {
                match code { $( $value => Some(Self::$name), )+ _ => None }
            }
        }
    };
}

operations! {
    SendFirst = 0, "SEND First";
    SendMiddle = 1, "SEND Middle";
    SendLast = 2, "SEND Last";
    SendLastImm = 3, "SEND Last with Immediate";
    SendOnly = 4, "SEND Only";
    SendOnlyImm = 5, "SEND Only with Immediate";
    WriteFirst = 6, "RDMA WRITE First";
    WriteMiddle = 7, "RDMA WRITE Middle";
    WriteLast = 8, "RDMA WRITE Last";
    WriteLastImm = 9, "RDMA WRITE Last with Immediate";
    WriteOnly = 10, "RDMA WRITE Only";
    WriteOnlyImm = 11, "RDMA WRITE Only with Immediate";
    ReadRequest = 12, "RDMA READ Request";
    ReadResponseFirst = 13, "RDMA READ response First";
    ReadResponseMiddle = 14, "RDMA READ response Middle";
    ReadResponseLast = 15, "RDMA READ response Last";
    ReadResponseOnly = 16, "RDMA READ response Only";
    Acknowledge = 17, "Acknowledge";
    AtomicAcknowledge = 18, "ATOMIC Acknowledge";
    CmpSwap = 19, "CmpSwap";
    FetchAdd = 20, "FetchAdd";
    Resync = 21, "RESYNC";
    SendLastInv = 22, "SEND Last with Invalidate";
    SendOnlyInv = 23, "SEND Only with Invalidate";
    Flush = 28, "FLUSH";
    AtomicWrite = 29, "ATOMIC WRITE";
    MaskedCmpSwap = 0x33, "Masked CmpSwap";
    MaskedFetchAdd = 0x34, "Masked FetchAdd";
}

macro_rules! opcodes {
    ($( $name:ident = $value:literal ),+ $(,)?) => {
        /// A BTH opcode that some transport service defines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The names are service and operation, documented there.
        pub enum Opcode {
            $( $name = $value, )+
        }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &[Self] = &[ $( Self::$name, )+ ];

            const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $( $value => Some(Self::$name), )+ _ => None }
            }

            /// Name of the variant, for generated code and logs: `RcSendFirst`.
            pub const fn variant_name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }
        }
    };
}

opcodes! {
    RcSendFirst = 0x00, RcSendMiddle = 0x01, RcSendLast = 0x02, RcSendLastImm = 0x03,
    RcSendOnly = 0x04, RcSendOnlyImm = 0x05, RcWriteFirst = 0x06, RcWriteMiddle = 0x07,
    RcWriteLast = 0x08, RcWriteLastImm = 0x09, RcWriteOnly = 0x0a, RcWriteOnlyImm = 0x0b,
    RcReadRequest = 0x0c, RcReadResponseFirst = 0x0d, RcReadResponseMiddle = 0x0e,
    RcReadResponseLast = 0x0f, RcReadResponseOnly = 0x10, RcAcknowledge = 0x11,
    RcAtomicAcknowledge = 0x12, RcCmpSwap = 0x13, RcFetchAdd = 0x14, RcSendLastInv = 0x16,
    RcSendOnlyInv = 0x17, RcFlush = 0x1c, RcAtomicWrite = 0x1d,
    UcSendFirst = 0x20, UcSendMiddle = 0x21, UcSendLast = 0x22, UcSendLastImm = 0x23,
    UcSendOnly = 0x24, UcSendOnlyImm = 0x25, UcWriteFirst = 0x26, UcWriteMiddle = 0x27,
    UcWriteLast = 0x28, UcWriteLastImm = 0x29, UcWriteOnly = 0x2a, UcWriteOnlyImm = 0x2b,
    RdSendFirst = 0x40, RdSendMiddle = 0x41, RdSendLast = 0x42, RdSendLastImm = 0x43,
    RdSendOnly = 0x44, RdSendOnlyImm = 0x45, RdWriteFirst = 0x46, RdWriteMiddle = 0x47,
    RdWriteLast = 0x48, RdWriteLastImm = 0x49, RdWriteOnly = 0x4a, RdWriteOnlyImm = 0x4b,
    RdReadRequest = 0x4c, RdReadResponseFirst = 0x4d, RdReadResponseMiddle = 0x4e,
    RdReadResponseLast = 0x4f, RdReadResponseOnly = 0x50, RdAcknowledge = 0x51,
    RdAtomicAcknowledge = 0x52, RdCmpSwap = 0x53, RdFetchAdd = 0x54, RdResync = 0x55,
    UdSendOnly = 0x64, UdSendOnlyImm = 0x65,
    Cnp = 0x81,
    XrcSendFirst = 0xa0, XrcSendMiddle = 0xa1, XrcSendLast = 0xa2, XrcSendLastImm = 0xa3,
    XrcSendOnly = 0xa4, XrcSendOnlyImm = 0xa5, XrcWriteFirst = 0xa6, XrcWriteMiddle = 0xa7,
    XrcWriteLast = 0xa8, XrcWriteLastImm = 0xa9, XrcWriteOnly = 0xaa, XrcWriteOnlyImm = 0xab,
    XrcReadRequest = 0xac, XrcReadResponseFirst = 0xad, XrcReadResponseMiddle = 0xae,
    XrcReadResponseLast = 0xaf, XrcReadResponseOnly = 0xb0, XrcAcknowledge = 0xb1,
    XrcAtomicAcknowledge = 0xb2, XrcCmpSwap = 0xb3, XrcFetchAdd = 0xb4, XrcSendLastInv = 0xb6,
    XrcSendOnlyInv = 0xb7, XrcFlush = 0xbc, XrcAtomicWrite = 0xbd,
    RcMaskedCmpSwap = 0xd3, RcMaskedFetchAdd = 0xd4, XrcMaskedCmpSwap = 0xf3, XrcMaskedFetchAdd = 0xf4,
}

impl Operation {
    /// A SEND of any kind.
    pub const fn is_send(self) -> bool {
        matches!(self as u8, 0..=5 | 22 | 23)
    }

    /// An RDMA WRITE of any kind.
    pub const fn is_write(self) -> bool {
        matches!(self as u8, 6..=11)
    }

    /// An RDMA READ response of any kind.
    pub const fn is_read_response(self) -> bool {
        matches!(self as u8, 13..=16)
    }

    /// A compare-and-swap or fetch-and-add request, with masks or without.
    pub const fn is_atomic(self) -> bool {
        matches!(
            self,
            Self::CmpSwap | Self::FetchAdd | Self::MaskedCmpSwap | Self::MaskedFetchAdd
        )
    }

    /// Goes from responder to requester.
    pub const fn is_response(self) -> bool {
        self.is_read_response() || matches!(self, Self::Acknowledge | Self::AtomicAcknowledge)
    }

    /// The first packet of several of one message or READ response.
    pub const fn is_first(self) -> bool {
        matches!(self, Self::SendFirst | Self::WriteFirst | Self::ReadResponseFirst)
    }

    /// Neither first nor last.
    pub const fn is_middle(self) -> bool {
        matches!(
            self,
            Self::SendMiddle | Self::WriteMiddle | Self::ReadResponseMiddle
        )
    }

    /// The last packet of several.
    pub const fn is_last(self) -> bool {
        matches!(
            self,
            Self::SendLast
                | Self::SendLastImm
                | Self::SendLastInv
                | Self::WriteLast
                | Self::WriteLastImm
                | Self::ReadResponseLast
        )
    }

    /// A message or response in one packet.
    pub const fn is_only(self) -> bool {
        !(self.is_first() || self.is_middle() || self.is_last())
    }

    /// Carries an RETH.
    pub const fn has_reth(self) -> bool {
        matches!(
            self,
            Self::WriteFirst
                | Self::WriteOnly
                | Self::WriteOnlyImm
                | Self::ReadRequest
                | Self::AtomicWrite
                | Self::Flush
        )
    }

    /// Carries an AETH; middle READ responses do not.
    pub const fn has_aeth(self) -> bool {
        self.is_response() && !self.is_middle()
    }

    /// Carries immediate data.
    pub const fn has_immdt(self) -> bool {
        matches!(
            self,
            Self::SendLastImm | Self::SendOnlyImm | Self::WriteLastImm | Self::WriteOnlyImm
        )
    }

    /// Carries an IETH.
    pub const fn has_ieth(self) -> bool {
        matches!(self, Self::SendLastInv | Self::SendOnlyInv)
    }

    /// May carry payload.
    pub const fn has_payload(self) -> bool {
        self.is_send()
            || self.is_write()
            || self.is_read_response()
            || matches!(self, Self::AtomicWrite | Self::MaskedCmpSwap)
    }
}

impl Opcode {
    /// The opcode of an operation of a service, if that has it.
    pub fn of(service: Service, operation: Operation) -> Option<Self> {
        let (top, code) = ((service as u8) << 5, operation as u8);
        match (code & 0x20, service) {
            (0, _) => Self::from_byte(top | code),
            (_, Service::Rc | Service::Xrc) => Self::from_byte(MANUFACTURERS | top & 0x20 | code & 0x1f),
            _ => None,
        }
    }

    /// Service of the opcode.
    pub const fn service(self) -> Service {
        match self as u8 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            2 => Service::Rd,
            3 => Service::Ud,
            4 => Service::Cnp,
            6 => Service::Rc,
            _ => Service::Xrc,
        }
    }

    /// Operation of the opcode; `None` for [`Opcode::Cnp`], which is none of them.
    pub const fn operation(self) -> Option<Operation> {
        let code = self as u8;
        match self {
            Self::Cnp => None,
            _ if code >= MANUFACTURERS => Operation::from_code(code & 0x1f | 0x20),
            _ => Operation::from_code(code & 0x1f),
        }
    }

    /// True where the packet carries this extended header.
    #[inline]
    pub const fn has(self, header: ExtHeader) -> bool {
        HEADERS[self as usize].set >> header as u16 & 1 != 0
    }

    const fn needs(self, header: ExtHeader) -> bool {
        let Some(operation) = self.operation() else {
            return false;
        };
        let service = self.service();
        match header {
            ExtHeader::Rdeth => matches!(service, Service::Rd),
            ExtHeader::Deth => {
                matches!(service, Service::Ud) || (matches!(service, Service::Rd) && !operation.is_response())
            }
            ExtHeader::Xrceth => matches!(service, Service::Xrc) && !operation.is_response(),
            ExtHeader::Feth => matches!(operation, Operation::Flush),
            ExtHeader::Reth => operation.has_reth(),
            ExtHeader::AtomicEth => operation.is_atomic(),
            ExtHeader::Aeth => operation.has_aeth(),
            ExtHeader::AtomicAckEth => matches!(operation, Operation::AtomicAcknowledge),
            ExtHeader::ImmDt => operation.has_immdt(),
            ExtHeader::Ieth => operation.has_ieth(),
        }
    }

    /// Bytes of all extended headers of this opcode.
    #[inline]
    pub const fn ext_len(self) -> usize {
        HEADERS[self as usize].bytes as usize
    }

    /// Goes from requester to responder.
    pub const fn is_request(self) -> bool {
        match self.operation() {
            Some(operation) => !operation.is_response(),
            None => false,
        }
    }

    /// Goes from responder to requester.
    pub const fn is_response(self) -> bool {
        match self.operation() {
            Some(operation) => operation.is_response(),
            None => false,
        }
    }

    /// First packet of several.
    pub const fn is_first(self) -> bool {
        matches!(self.operation(), Some(operation) if operation.is_first())
    }

    /// Neither first nor last of several.
    pub const fn is_middle(self) -> bool {
        matches!(self.operation(), Some(operation) if operation.is_middle())
    }

    /// Last packet of several.
    pub const fn is_last(self) -> bool {
        matches!(self.operation(), Some(operation) if operation.is_last())
    }

    /// The message is this one packet.
    pub const fn is_only(self) -> bool {
        matches!(self.operation(), Some(operation) if operation.is_only())
    }

    /// May carry payload. A CNP's 16 reserved bytes count as payload.
    pub const fn has_payload(self) -> bool {
        match self.operation() {
            Some(operation) => operation.has_payload(),
            None => true,
        }
    }
}

/// The extended headers of an opcode: a bit for each, and their bytes.
#[derive(Clone, Copy)]
struct Headers {
    set: u16,
    bytes: u8,
}

/// By opcode: packets are looked at more often than anything else.
static HEADERS: [Headers; 256] = {
    let mut all = [Headers { set: 0, bytes: 0 }; 256];
    let mut code = 0;
    while code < all.len() {
        if let Some(opcode) = Opcode::from_byte(code as u8) {
            let mut index = 0;
            while index < ExtHeader::ALL.len() {
                let header = ExtHeader::ALL[index];
                if opcode.needs(header) {
                    all[code].set |= 1 << header as u16;
                    all[code].bytes += header.def().bytes as u8;
                }
                index += 1;
            }
        }
        code += 1;
    }
    all
};

impl TryFrom<u8> for Opcode {
    type Error = WireError;

    fn try_from(byte: u8) -> Result<Self, WireError> {
        Self::from_byte(byte).ok_or(WireError::UnknownOpcode(byte))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Rd => "RD",
            Self::Ud => "UD",
            Self::Cnp => "CNP",
            Self::Xrc => "XRC",
        })
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation() {
            Some(operation) => write!(f, "{} {}", self.service(), operation.name()),
            None => write!(f, "{}", self.service()),
        }
    }
}
