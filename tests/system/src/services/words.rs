//! Words that the atomics of several lanes change. A byte of a word counts those of one lane, so that what an atomic
//! finds says which others came before it: each is done once, whatever the wire does.

use std::collections::HashMap;

use crate::rig::RigError;

/// What a lane knows of its byte of a word.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Surely done.
    done: u64,
    /// Posted and lost sight of: done or not.
    open: u64,
}

#[derive(Clone, Debug, Default)]
struct Word {
    /// By lane: its byte, and what it knows.
    shares: HashMap<usize, (u8, Share)>,
    /// What those found that changed it, and those that did not.
    found: Vec<(u64, bool)>,
    newest: u64,
}

/// All words of both nodes, by region and number.
#[derive(Default)]
pub(super) struct Words(HashMap<(usize, u32), Word>);

/// One atomic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub word: (usize, u32),
    pub lane: usize,
    pub field: u8,
    /// Of a compare and swap: with what, and the bits that count.
    pub compare: Option<(u64, u64)>,
}

fn wrong(text: String) -> RigError {
    RigError::Wrong(text)
}

fn part(value: u64, field: u8) -> u64 {
    value >> (8 * field) & 0xff
}

fn total(value: u64) -> u64 {
    (0..8).map(|field| part(value, field)).sum()
}

impl Words {
    fn share(&mut self, asked: &Asked) -> &mut Share {
        let word = self.0.entry(asked.word).or_default();
        &mut word
            .shares
            .entry(asked.lane)
            .or_insert((asked.field, Share::default()))
            .1
    }

    /// What a compare and swap had better compare with.
    pub fn newest(&self, word: (usize, u32)) -> u64 {
        self.0.get(&word).map_or(0, |word| word.newest)
    }

    /// Nobody will say whether it was done.
    pub fn lose(&mut self, asked: &Asked) {
        self.share(asked).open += 1;
    }

    /// It has completed, and found that.
    pub fn done(&mut self, asked: &Asked, found: u64) -> Result<(), RigError> {
        let changed = asked
            .compare
            .is_none_or(|(compare, mask)| (compare ^ found) & mask == 0);
        let share = self.share(asked);
        let count = part(found, asked.field);
        if !(share.done..=share.done + share.open).contains(&count) {
            return Err(wrong(format!(
                "{asked:?} found {found:#018x}: {count} atomics of its lane before it instead of {share:?}"
            )));
        }
        *share = Share {
            done: count + u64::from(changed),
            open: 0,
        };
        let word = self.0.entry(asked.word).or_default();
        word.found.push((found, changed));
        let left = found + (u64::from(changed) << (8 * asked.field));
        if total(left) > total(word.newest) {
            word.newest = left;
        }
        Ok(())
    }

    /// There must be one order in which all of them were done, and its end is what the word holds.
    pub fn check(&self, at: (usize, u32), holds: u64) -> Result<(), RigError> {
        let Some(word) = self.0.get(&at) else {
            return if holds == 0 {
                Ok(())
            } else {
                Err(wrong(format!("word {at:?} is {holds:#x}, and nobody changed it")))
            };
        };
        for (lane, (field, share)) in &word.shares {
            let count = part(holds, *field);
            if !(share.done..=share.done + share.open).contains(&count) {
                return Err(wrong(format!(
                    "word {at:?} holds {holds:#018x}: {count} atomics of lane {lane} instead of {share:?}"
                )));
            }
        }
        let mut found = word.found.clone();
        found.push((holds, false));
        found.sort_by_key(|(value, changed)| (total(*value), *changed));
        for pair in found.windows(2) {
            let [(before, changed), (after, _)] = [pair[0], pair[1]];
            let grows = (0..8).all(|field| part(before, field) <= part(after, field));
            if !grows || (changed && before == after) {
                return Err(wrong(format!(
                    "word {at:?}: one atomic found {before:#018x}, another one {after:#018x}: no order has both"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: (usize, u32) = (0, 0);

    fn add(lane: usize) -> Asked {
        Asked {
            word: WORD,
            lane,
            field: lane as u8,
            compare: None,
        }
    }

    #[test]
    fn sums_are_exact() {
        let mut words = Words::default();
        words.done(&add(0), 0).unwrap();
        words.done(&add(1), 1).unwrap();
        words.done(&add(0), 0x101).unwrap();
        words.check(WORD, 0x102).unwrap();
        assert!(words.check(WORD, 0x103).is_err(), "one too many");
        assert!(words.check(WORD, 0x101).is_err(), "one too few");
        assert!(words.done(&add(0), 0x103).is_err(), "done twice");
    }

    #[test]
    fn what_is_lost_may_have_been_done_once() {
        let mut words = Words::default();
        words.lose(&add(0));
        words.check(WORD, 0).unwrap();
        words.check(WORD, 1).unwrap();
        assert!(words.check(WORD, 2).is_err());
        words.done(&add(0), 1).unwrap();
        assert!(words.check(WORD, 1).is_err(), "it was seen");
        words.check(WORD, 2).unwrap();
    }

    #[test]
    fn two_that_found_the_same_changed_it_once() {
        let mut words = Words::default();
        words.done(&add(0), 0).unwrap();
        words.done(&add(1), 0).unwrap();
        assert!(words.check(WORD, 0x101).is_err());
        let swap = Asked {
            compare: Some((1, u64::MAX)),
            ..add(2)
        };
        let mut words = Words::default();
        words.done(&add(0), 0).unwrap();
        words.done(&swap, 0).unwrap();
        words.check(WORD, 1).unwrap();
        words.done(&swap, 1).unwrap();
        words.check(WORD, 0x1_0001).unwrap();
        // One that looks at its own byte alone does not mind the others.
        let masked = Asked {
            compare: Some((0x2_0000, 0xff_0000)),
            ..add(2)
        };
        words.done(&masked, 0x1_0001).unwrap();
        words.check(WORD, 0x1_0001).unwrap();
        let masked = Asked {
            compare: Some((0x1_0000, 0xff_0000)),
            ..add(2)
        };
        words.done(&masked, 0x1_0001).unwrap();
        words.check(WORD, 0x2_0001).unwrap();
    }
}
