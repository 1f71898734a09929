//! What each function may take of the card's tables.

use core::ops::Range;

use crate::NUM_FUNCS;

/// How the tables are divided: each function has some of at most [`MAX_PARTS`] equal parts of every one of them, and
/// what it has is kept for it. So nobody can take what another was promised, and what a function is told that it can
/// have it gets, whatever others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Parts of each function and all before it.
    ends: [u8; NUM_FUNCS],
}

/// Parts at most: the smallest table has two entries for each then.
pub const MAX_PARTS: u32 = 16;

impl Quotas {
    /// Nobody has anything: all zeros, for tables that are divided later.
    pub const fn none() -> Self {
        Self { ends: [0; NUM_FUNCS] }
    }

    /// One part for each of the first `functions` functions, and none for the others.
    pub const fn equal(functions: u8) -> Self {
        let mut ends = [0; NUM_FUNCS];
        let (mut func, mut end) = (0, 0);
        while func < NUM_FUNCS {
            if func < functions as usize || func == 0 {
                end += 1;
            }
            ends[func] = end;
            func += 1;
        }
        Self { ends }
    }

    /// So many parts for each function, none for those behind. `None`: there are more functions than the card has,
    /// function 0 has none, or they are more parts than there can be.
    pub fn of_parts(parts: &[u8]) -> Option<Self> {
        let mut quotas = Self::none();
        let mut end = 0;
        for (func, slot) in quotas.ends.iter_mut().enumerate() {
            end += u32::from(parts.get(func).copied().unwrap_or(0));
            if end > MAX_PARTS {
                return None;
            }
            *slot = end as u8;
        }
        if end == u32::from(*parts.first()?) && end != 0 {
            // Whoever has all of them has one: 16 are no nibble.
            quotas = Self::equal(1);
        }
        (parts.len() <= NUM_FUNCS && parts.first()? != &0).then_some(quotas)
    }

    /// All parts.
    pub const fn parts(&self) -> u32 {
        let [.., all] = self.ends;
        // Never 0; what divides by it needs no check.
        if all == 0 { 1 } else { all as u32 }
    }

    /// The parts of a function; empty if it has none.
    pub const fn of(&self, func: u8) -> Range<u32> {
        let at = func as usize;
        if at >= NUM_FUNCS {
            return 0..0;
        }
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        start as u32..self.ends[at] as u32
    }

    /// How many they are.
    pub const fn parts_of(&self, func: u8) -> u32 {
        let own = self.of(func);
        own.end - own.start
    }

    /// Four bits for each function, as the board tells them (`board_head`).
    pub fn to_nibbles(&self) -> u64 {
        let nibble = |func: usize| u64::from(self.parts_of(func as u8) & 15) << (4 * func);
        (0..NUM_FUNCS).fold(0, |word, func| word | nibble(func))
    }

    /// From those, as the board has checked them.
    pub fn of_nibbles(mut word: u64) -> Self {
        let (mut quotas, mut end) = (Self::none(), 0);
        for slot in &mut quotas.ends {
            end += word as u8 & 15;
            word >>= 4;
            *slot = end;
        }
        quotas
    }
}

impl From<u8> for Quotas {
    /// Equal shares.
    fn from(functions: u8) -> Self {
        Self::equal(functions.clamp(1, NUM_FUNCS as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn parts_follow_each_other() {
        for functions in 1..=NUM_FUNCS as u8 {
            let quotas = Quotas::from(functions);
            assert_eq!(quotas.parts(), functions.into());
            for func in 0..=NUM_FUNCS as u8 {
                let own = u32::from(func)..u32::from(func) + 1;
                assert_eq!(
                    quotas.of(func),
                    if func < functions {
                        own
                    } else {
                        quotas.of(func).end..quotas.of(func).end
                    }
                );
            }
            assert_eq!(Quotas::of_nibbles(quotas.to_nibbles()), quotas);
        }
    }

    #[test]
    fn parts_may_differ() {
        if NUM_FUNCS < 4 {
            return;
        }
        let quotas = Quotas::of_parts(&[9, 0, 4, 3]).unwrap();
        let own: Vec<_> = (0..4).map(|func| quotas.of(func)).collect();
        assert_eq!(own, [0..9, 9..9, 9..13, 13..16]);
        assert_eq!(Quotas::of_nibbles(quotas.to_nibbles()), quotas);
        for all in [1, 15, 16] {
            let alone = Quotas::of_parts(&[all]).unwrap();
            assert_eq!(alone, Quotas::equal(1), "{all}");
            assert_eq!(Quotas::of_nibbles(alone.to_nibbles()), alone, "{all}");
        }
        for wrong in [&[][..], &[0, 1], &[9, 4, 4], &[1; NUM_FUNCS + 1]] {
            assert_eq!(Quotas::of_parts(wrong), None, "{wrong:?}");
        }
    }
}
