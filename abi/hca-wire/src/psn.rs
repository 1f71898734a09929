//! Packet sequence numbers.

use core::fmt;

/// A packet sequence number: 24 bits, compared within half a window of each other (IBA vol1 9.7.2).
///
/// There is no `Ord`: "before" holds only between numbers less than 2^23 apart and is not
/// transitive around the circle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Width in bits.
    pub const BITS: u32 = 24;
    /// Largest PSN.
    pub const MAX: Psn = Psn((1 << Self::BITS) - 1);

    /// Takes the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MAX.0)
    }

    /// The number, less than 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later, modulo 2^24.
    #[must_use]
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The PSN `count` packets earlier, modulo 2^24.
    #[must_use]
    pub const fn wrapping_sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// Signed number of packets from `origin` to `self`, in -2^23 ..= 2^23 - 1.
    ///
    /// Exactly half a circle away counts as earlier: the duplicate region of a responder that
    /// expects `origin` is `origin - 2^23 ..= origin - 1`.
    pub const fn distance_from(self, origin: Psn) -> i32 {
        let unused = u32::BITS - Self::BITS;
        (self.0.wrapping_sub(origin.0) << unused) as i32 >> unused
    }

    /// True where `self` is earlier than `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance_from(other) < 0
    }

    /// True where `self` is later than `other`.
    pub const fn is_after(self, other: Psn) -> bool {
        self.distance_from(other) > 0
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> u32 {
        psn.0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
