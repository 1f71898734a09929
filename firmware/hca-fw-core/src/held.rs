//! What the hardware holds of rows and registers that firmware has written.

use hca_regs as reg;

/// Words of the hardware's that firmware has written, in pairs, and what it knows of them.
pub(crate) struct Held {
    pairs: [u64; NUM_PAIRS],
    /// Pairs that it has not written, a bit each.
    unknown: u32,
    /// Pairs that may be other than zero.
    used: u32,
}

pub(crate) const NUM_PAIRS: usize = 32;
pub(crate) const PAIR_BYTES: usize = 8;

/// The first pairs, a bit each.
pub(crate) const fn first_pairs(count: usize) -> u32 {
    if count < NUM_PAIRS {
        (1 << count) - 1
    } else {
        u32::MAX
    }
}

impl Held {
    /// Of these pairs, of which nothing is known.
    pub const fn of(pairs: u32) -> Self {
        Self {
            pairs: [0; NUM_PAIRS],
            unknown: pairs,
            used: pairs,
        }
    }

    /// Takes over a row that is zero but for some pairs, and zeros for all that an earlier one has left.
    #[inline]
    pub fn take_whole(&mut self, row: &[u8], pairs: u32, write: impl FnMut(u32, u64)) {
        self.take(row, pairs | self.used, write);
    }

    /// Takes over some pairs of a row, and gives those to `write` that the hardware has not. What is beyond the row's
    /// end is zero.
    #[inline]
    pub fn take(&mut self, row: &[u8], pairs: u32, mut write: impl FnMut(u32, u64)) {
        if self.unknown & pairs != 0 {
            self.differ_from(row, pairs);
        }
        let (mut left, mut used) = (pairs, self.used);
        while left != 0 {
            let at = left.trailing_zeros();
            let rest = left & (left - 1);
            let pair = pair_of(row, at as usize);
            let Some(held) = self.pairs.get_mut(at as usize) else {
                break;
            };
            if *held != pair {
                *held = pair;
                used = used & !(left ^ rest) | u32::from(pair != 0) << at;
                write(at, pair);
            }
            left = rest;
        }
        self.used = used;
    }

    /// Whatever is in a place that nobody has written, it is not what this row has.
    #[inline(never)]
    fn differ_from(&mut self, row: &[u8], pairs: u32) {
        for (at, held) in self.pairs.iter_mut().enumerate() {
            if (self.unknown & pairs) >> at & 1 != 0 {
                *held = !pair_of(row, at);
            }
        }
        self.unknown &= !pairs;
    }
}

/// Registers whose last value firmware remembers, so as to write them only when another is wanted.
#[derive(Clone, Copy)]
pub(crate) enum Kept {
    DmaLen,
    DmaFunc,
    DmaLocal,
    CtxTable,
    CtxFlags,
}

pub(crate) const NUM_KEPT: usize = 5;

impl Kept {
    pub const fn addr(self) -> u32 {
        match self {
            Self::DmaLen => reg::MGMT_DMA_LEN,
            Self::DmaFunc => reg::MGMT_DMA_FUNC,
            Self::DmaLocal => reg::MGMT_DMA_LOCAL,
            Self::CtxTable => reg::MGMT_CTX_TABLE,
            Self::CtxFlags => reg::MGMT_CTX_FLAGS,
        }
    }
}

#[inline(always)]
fn pair_of(row: &[u8], at: usize) -> u64 {
    let (whole, rest) = row.as_chunks();
    match whole.get(at) {
        Some(pair) => u64::from_le_bytes(*pair),
        None if at == whole.len() => rest
            .iter()
            .rev()
            .fold(0, |pair, byte| pair << 8 | u64::from(*byte)),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn taken(held: &mut Held, row: &[u8], pairs: u32) -> Vec<(u32, u64)> {
        let mut written = Vec::new();
        held.take(row, pairs, |at, pair| written.push((at, pair)));
        written
    }

    fn taken_whole(held: &mut Held, row: &[u8], pairs: u32) -> Vec<(u32, u64)> {
        let mut written = Vec::new();
        held.take_whole(row, pairs, |at, pair| written.push((at, pair)));
        written
    }

    /// What was never written is, whatever it would be; then only what differs. Behind a row's end are zeros.
    #[test]
    fn only_what_differs_is_written() {
        let mut held = Held::of(u32::MAX);
        let row = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2];
        assert_eq!(
            taken(&mut held, &row, first_pairs(5)),
            [(0, 1), (1, 0), (2, 0x2_0003), (3, 0), (4, 0)]
        );
        assert_eq!(taken(&mut held, &row, first_pairs(5)), []);
        assert_eq!(taken(&mut held, &row[..8], first_pairs(4)), [(2, 0)]);
        assert_eq!(taken(&mut held, &row[..2], first_pairs(6)), [(5, 0)]);
        assert_eq!(taken(&mut held, &[], first_pairs(6)), [(0, 0)]);
        assert_eq!(taken(&mut held, &row, first_pairs(2)), [(0, 1)]);
    }

    /// Of a whole row what it does not use is zero, whoever has left something there.
    #[test]
    fn a_whole_row_leaves_nothing_of_another() {
        let mut held = Held::of(u32::MAX);
        let row: Vec<u8> = (1..=64).collect();
        let of = |at: usize| u64::from_le_bytes(*row[8 * at..].first_chunk().unwrap());
        assert_eq!(
            taken_whole(&mut held, &[], 0).len(),
            NUM_PAIRS,
            "nothing is known"
        );
        assert_eq!(taken_whole(&mut held, &row, 0b1001), [(0, of(0)), (3, of(3))]);
        assert_eq!(taken_whole(&mut held, &row, 0b1001), []);
        assert_eq!(taken(&mut held, &row, 0b110), [(1, of(1)), (2, of(2))]);
        assert_eq!(taken_whole(&mut held, &row[..8], 0b1), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(held.used, 0b1);
    }
}
