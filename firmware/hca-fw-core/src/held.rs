//! What the hardware holds of rows that firmware has written.

/// Words of the hardware's that firmware has written, in pairs, and what it knows of them.
pub(crate) struct Held {
    pub pairs: [u64; NUM_PAIRS],
    /// Those that it has written, one bit each.
    pub known: u32,
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
        let known = &mut self.known;
        let mut step = |at: usize, held: &mut u64, pair: u64| {
            if *held != pair || *known >> at & 1 == 0 {
                *held = pair;
                *known |= 1 << at;
                write(at as u32, pair);
            }
        };
        let mut places = self.pairs.iter_mut().take(pairs).enumerate();
        // In this order a place is taken only if there is a pair for it.
        for (pair, (at, held)) in whole.iter().zip(places.by_ref()) {
            step(at, held, u64::from_le_bytes(*pair));
        }
        for (at, held) in places {
            step(at, held, core::mem::take(&mut last));
        }
    }
}
