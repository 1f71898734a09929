//! What the hardware holds of rows that firmware has written.

/// Words of the hardware's that firmware has written, in pairs, and what it knows of them.
pub(crate) struct Held {
    pub pairs: [u64; NUM_PAIRS],
    /// Pairs that it has written: the first ones.
    known: usize,
    /// From this one on all are zero: of a short row behind a short row nothing more is looked at.
    pub end: usize,
}

pub(crate) const NUM_PAIRS: usize = 32;
pub(crate) const PAIR_BYTES: usize = 8;

impl Held {
    pub const fn new() -> Self {
        Self {
            pairs: [0; NUM_PAIRS],
            known: 0,
            end: NUM_PAIRS,
        }
    }

    /// Takes over the first pairs of a row, and gives those to `write` that the hardware has not. What is beyond the
    /// row's end is zero.
    #[inline]
    pub fn take(&mut self, row: &[u8], pairs: usize, mut write: impl FnMut(u32, u64)) {
        let (whole, rest) = row.as_chunks();
        let mut last = rest
            .iter()
            .rev()
            .fold(0, |pair, byte| pair << 8 | u64::from(*byte));
        let held = self.pairs.get_mut(..pairs).unwrap_or(&mut []);
        // Whatever is in a place that nobody has written, it is not what this row has.
        if self.known < pairs {
            for (held, at) in held.iter_mut().zip(0..).skip(self.known) {
                let beyond = if at == whole.len() { last } else { 0 };
                *held = !whole.get(at).map_or(beyond, |pair| u64::from_le_bytes(*pair));
            }
            self.known = pairs;
        }
        for (at, (held, pair)) in held.iter_mut().zip(whole).enumerate() {
            let pair = u64::from_le_bytes(*pair);
            if *held != pair {
                *held = pair;
                write(at as u32, pair);
            }
        }
        for (held, at) in held.iter_mut().zip(0..).skip(whole.len()) {
            let pair = core::mem::take(&mut last);
            if *held != pair {
                *held = pair;
                write(at, pair);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn taken(held: &mut Held, row: &[u8], pairs: usize) -> Vec<(u32, u64)> {
        let mut written = Vec::new();
        held.take(row, pairs, |at, pair| written.push((at, pair)));
        written
    }

    /// What was never written is, whatever it would be; then only what differs. Behind a row's end are zeros.
    #[test]
    fn only_what_differs_is_written() {
        let mut held = Held::new();
        let row = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2];
        assert_eq!(
            taken(&mut held, &row, 5),
            [(0, 1), (1, 0), (2, 0x2_0003), (3, 0), (4, 0)]
        );
        assert_eq!(taken(&mut held, &row, 5), []);
        assert_eq!(taken(&mut held, &row[..8], 4), [(2, 0)]);
        assert_eq!(taken(&mut held, &row[..2], 6), [(5, 0)]);
        assert_eq!(taken(&mut held, &[], 6), [(0, 0)]);
        assert_eq!(taken(&mut held, &row, 2), [(0, 1)]);
    }
}
