//! The AETH syndrome and the two code tables inside it.

/// What an AETH says (IBA vol1 9.7.5.1, X-3). Bit 7 is reserved and ignored on receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Positive acknowledge with a 5-bit end-to-end credit code.
    Ack {
        /// Code of the credit count; see [`Syndrome::credit_count`].
        credit_code: u8,
    },
    /// Receiver not ready: try again when the time is over.
    RnrNak(RnrTimer),
    /// Negative acknowledge.
    Nak(NakCode),
    /// A code the specification reserves.
    Reserved(u8),
}

/// Why a responder refused a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet before this one is missing.
    PsnSequence = 0,
    /// The request is malformed or not supported.
    InvalidRequest = 1,
    /// The R_Key does not allow the access.
    RemoteAccess = 2,
    /// The responder could not complete the request.
    RemoteOperational = 3,
    /// The request cannot be on this reliable datagram channel.
    InvalidRdRequest = 4,
}

impl NakCode {
    const ALL: [Self; 5] = [
        Self::PsnSequence,
        Self::InvalidRequest,
        Self::RemoteAccess,
        Self::RemoteOperational,
        Self::InvalidRdRequest,
    ];
}

impl Syndrome {
    /// Credit code that means "credits are not limited".
    pub const CREDIT_UNLIMITED: u8 = 31;

    /// Reads a syndrome byte; every byte has a meaning.
    pub const fn from_byte(byte: u8) -> Self {
        let code = byte & 0x1f;
        match (byte >> 5) & 3 {
            0 => Self::Ack { credit_code: code },
            1 => Self::RnrNak(RnrTimer::new(code)),
            3 if (code as usize) < NakCode::ALL.len() => Self::Nak(NakCode::ALL[code as usize]),
            _ => Self::Reserved(byte),
        }
    }

    /// The syndrome as a byte.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credit_code } => credit_code & 0x1f,
            Self::RnrNak(timer) => 0x20 | timer.code(),
            Self::Nak(code) => 0x60 | code as u8,
            Self::Reserved(byte) => byte,
        }
    }

    /// The code of the largest count that is not above `count` (IBA vol1 9.7.7.2).
    pub const fn credit_code(count: u32) -> u8 {
        if count < 2 {
            return count as u8;
        }
        // As below: two codes for each power of two.
        let log = count.ilog2();
        let code = 2 * log + (count >> (log - 1) & 1);
        if code >= Self::CREDIT_UNLIMITED as u32 {
            return Self::CREDIT_UNLIMITED - 1;
        }
        code as u8
    }

    /// Receive WQEs that a credit code stands for (IBA vol1 9.7.7.2); `None` is no limit.
    pub const fn credit_count(credit_code: u8) -> Option<u32> {
        match credit_code & 0x1f {
            Self::CREDIT_UNLIMITED => None,
            code @ 0..=2 => Some(code as u32),
            // From 2 on the counts are 2^n and 1.5 * 2^n in turn: 2, 3, 4, 6, 8, 12, ...
            code if code % 2 == 0 => Some(1 << (code / 2)),
            code => Some(3 << (code / 2 - 1)),
        }
    }
}

/// A 5-bit RNR timer code (REL-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Time of each code in microseconds (IBA vol1 table 45, REL-11).
    pub const TIME_US: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
        5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];

    /// Takes the low five bits of `code`.
    pub const fn new(code: u8) -> Self {
        Self(code & 0x1f)
    }

    /// The code, less than 32.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Time to wait in microseconds.
    pub const fn time_us(self) -> u32 {
        Self::TIME_US[self.0 as usize]
    }
}
