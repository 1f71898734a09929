//! Memory that a card may reach, with a second copy that says what it must hold.

use hca_dev::DmaBuf;

use crate::rng::Rng;

/// A buffer full of random bytes, and what it must hold. Every byte that nobody may touch is a canary.
pub struct Arena {
    buf: DmaBuf,
    expected: Vec<u8>,
}

impl Arena {
    /// Fills the buffer.
    pub fn new(buf: DmaBuf, rng: &mut Rng) -> Self {
        let expected = rng.bytes(buf.len_bytes());
        buf.write_bytes(0, &expected);
        Self { buf, expected }
    }

    /// The buffer.
    pub fn buf(&self) -> &DmaBuf {
        &self.buf
    }

    /// What must be there.
    pub fn expected(&self, offset: u64, len: u32) -> &[u8] {
        &self.expected[offset as usize..][..len as usize]
    }

    /// From now on this must be there.
    pub fn expect(&mut self, offset: u64, bytes: &[u8]) {
        self.expected[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Are these bytes there already?
    pub fn holds(&self, offset: u64, len: u32) -> bool {
        let mut found = vec![0; len as usize];
        self.buf.read_bytes(offset as usize, &mut found);
        found == self.expected(offset, len)
    }

    /// The first byte that is not what it must be: offset, found, wanted.
    pub fn first_difference(&self) -> Option<(usize, u8, u8)> {
        let mut found = vec![0; self.expected.len()];
        self.buf.read_bytes(0, &mut found);
        let at = found.iter().zip(&self.expected).position(|(a, b)| a != b)?;
        Some((at, found[at], self.expected[at]))
    }
}
