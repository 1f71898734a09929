//! Ownership of the entries that the card writes.

use hca_dev::DmaBuf;

/// Does the entry whose owner word is at `offset` belong to software? `phase`: of the pass that it is looked for in.
#[inline]
pub(crate) fn is_ours(ring: &DmaBuf, offset: usize, phase: bool) -> bool {
    says_ours(ring.load_u32_acquire(offset), phase)
}

/// The same of an owner word that was loaded.
///
/// The hardware promises that the owner word becomes visible last; it holds 1 on the first pass over a zeroed
/// ring and toggles with each pass. The acquire load keeps the reads of the rest of the entry behind it.
#[inline(always)]
pub(crate) fn says_ours(owner: u32, phase: bool) -> bool {
    (owner & 1 == 1) == phase
}

/// Phase bit of the entry with this free-running index.
#[inline]
pub(crate) fn phase_of(index: u32, log_size: u8) -> bool {
    index >> log_size & 1 == 0
}

/// Copies an entry of whole 64-bit words.
#[inline(always)]
pub(crate) fn read_entry<const BYTES: usize, const WORDS: usize>(
    ring: &DmaBuf,
    offset: usize,
) -> [u8; BYTES] {
    bytes_of(ring.load_words::<WORDS>(offset))
}

/// The bytes of these words, as they lie in memory.
#[inline(always)]
pub(crate) fn bytes_of<const BYTES: usize, const WORDS: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 8 * WORDS) };
    let mut entry = [0; BYTES];
    for (bytes, word) in entry.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    entry
}
