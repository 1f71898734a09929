//! Data of a message whose memory is far, fetched before its packets' turn: to ask costs more than the bytes.

use std::cell::RefCell;

use crate::memory::Refusal;
use crate::payload::Payload;

/// Bytes that are asked of memory at a time.
const STAGE_BYTES: u32 = 1 << 18;
/// Rooms kept for messages to come; more are not begun and not ended at the same time, as a rule.
const KEPT_MAX: usize = 8;

thread_local! {
    static KEPT: RefCell<Vec<Payload>> = RefCell::default();
}

/// What has been fetched of one message: where in it that begins, and the bytes.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    staged: Option<(u32, Payload)>,
}

impl Ahead {
    /// Bytes of a message from an offset on, as many as there is room for, of `left` that it has from there. They have
    /// been fetched; or they are now and, where memory is far, more with them, if all of that may be read.
    pub fn read(
        &mut self,
        (offset, left): (u32, u32),
        is_far: bool,
        out: &mut [u8],
        mut fetch: impl FnMut(&mut [u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let len = out.len() as u32;
        if self.has(offset, len) {
            if let Some((first, bytes)) = &self.staged {
                out.copy_from_slice(&bytes[(offset - first) as usize..][..len as usize]);
            }
            if len == left {
                // It is needed again only if something is lost.
                self.clear();
            }
            return Ok(());
        }
        let more = left.min(STAGE_BYTES.max(len));
        if more > len && is_far {
            let room = self.staged.take().map(|(_, room)| room);
            let mut room = room.unwrap_or_else(|| KEPT.with_borrow_mut(Vec::pop).unwrap_or_default());
            let fetched = fetch(room.make_room(more as usize));
            if fetched.is_ok() {
                out.copy_from_slice(&room[..len as usize]);
            }
            self.staged = Some((offset, room));
            if fetched.is_ok() {
                return Ok(());
            }
        }
        self.clear();
        fetch(out)
    }

    /// So many bytes from an offset on have been fetched.
    pub fn has(&self, offset: u32, len: u32) -> bool {
        self.staged.as_ref().is_some_and(|(first, bytes)| {
            let begin = offset.checked_sub(*first).map(u64::from);
            begin.is_some_and(|begin| begin + u64::from(len) <= bytes.len() as u64)
        })
    }

    /// Nothing has been fetched.
    pub fn clear(&mut self) {
        let Some((_, room)) = self.staged.take() else {
            return;
        };
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < KEPT_MAX {
                kept.push(room);
            }
        });
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads pieces of a message of a million bytes; how many of them were asked for.
    fn asked(is_far: bool, allowed: u32, pieces: &[(u32, u32)]) -> Vec<usize> {
        const LEN: u32 = 1_000_000;
        let (mut ahead, mut asked) = (Ahead::default(), Vec::new());
        for &(offset, len) in pieces {
            let mut out = vec![0; len as usize];
            let read = ahead.read((offset, LEN - offset), is_far, &mut out, |bytes| {
                asked.push(bytes.len());
                for (at, byte) in (offset..).zip(bytes.iter_mut()) {
                    *byte = at as u8;
                }
                let is_allowed = offset + bytes.len() as u32 <= allowed;
                is_allowed.then_some(()).ok_or(Refusal::Range)
            });
            assert_eq!(read.is_ok(), offset + len <= allowed);
            let right = (offset..).zip(&out).all(|(at, byte)| *byte == at as u8);
            assert!(read.is_err() || right, "{offset}, {len}");
        }
        asked
    }

    #[test]
    fn far_memory_is_asked_for_more() {
        let stage = STAGE_BYTES as usize;
        let pieces = [(0, 4096), (4096, 4096), (8192, 200_000), (262_000, 4096), (0, 64)];
        assert_eq!(asked(true, 1_000_000, &pieces), [stage, stage, stage]);
        assert_eq!(asked(false, 1_000_000, &pieces), [4096, 4096, 200_000, 4096, 64]);
        // The end, and what is longer than is asked for at a time.
        assert_eq!(asked(true, 1_000_000, &[(999_000, 500), (999_500, 500)]), [1000]);
        assert_eq!(asked(true, 1_000_000, &[(0, 500_000)]), [500_000]);
    }

    #[test]
    fn what_may_not_all_be_read_is_asked_for_alone() {
        let stage = STAGE_BYTES as usize;
        let pieces = [(0, 4096), (4096, 4096), (8192, 4096)];
        assert_eq!(
            asked(true, 8192, &pieces),
            [stage, 4096, stage, 4096, stage, 4096]
        );
    }
}
