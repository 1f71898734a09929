//! The ring of posted writes as an algorithm on any memory of atomic words: shared memory in use ([`crate::posted`],
//! which says what each ordering is for), loom's in the tests, which try every order of things there is.

use std::sync::atomic::Ordering;

use crate::posted::PostedWrite;

/// Bits of an entry's state word: pass and full in the upper half, then length and offset.
pub(crate) const LENGTH_SHIFT: u32 = 24;
pub(crate) const OFFSET_MASK: u64 = 0xff_ffff;

/// The words of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// Tickets given so far.
    Tickets,
    /// The reader sleeps.
    Asleep,
    /// State of an entry.
    State(u64),
    /// Value of an entry.
    Value(u64),
}

/// Where the words are.
pub(crate) trait Words {
    /// Entries of the ring.
    const ENTRIES: u64;
    fn load(&self, word: Word, order: Ordering) -> u64;
    fn store(&self, word: Word, value: u64, order: Ordering);
    fn fetch_add(&self, word: Word, value: u64, order: Ordering) -> u64;
    fn swap(&self, word: Word, value: u64, order: Ordering) -> u64;
    fn fence(&self, order: Ordering);
}

/// Upper half of the state of a free entry; one more: full.
fn free<W: Words>(ticket: u64) -> u64 {
    u64::from(((ticket / W::ENTRIES) as u32).wrapping_mul(2))
}

/// What a writer does. `wait` waits until its argument is true, or gives up: false, and the write is lost. The result
/// says that the reader sleeps, and is to be woken.
#[inline]
pub(crate) fn post<W: Words>(
    words: &W,
    write: PostedWrite,
    wait: impl FnOnce(&dyn Fn() -> bool) -> bool,
) -> bool {
    let ticket = words.fetch_add(Word::Tickets, 1, Ordering::Relaxed);
    let entry = ticket % W::ENTRIES;
    let is_free = || words.load(Word::State(entry), Ordering::Acquire) >> 32 == free::<W>(ticket);
    if !is_free() && !wait(&is_free) {
        return false;
    }
    words.store(Word::Value(entry), write.value, Ordering::Relaxed);
    let full = (free::<W>(ticket) + 1) << 32;
    let length = u64::from(write.len_bytes) << LENGTH_SHIFT;
    let state = full | length | u64::from(write.offset) & OFFSET_MASK;
    words.store(Word::State(entry), state, Ordering::Release);
    words.fence(Ordering::SeqCst);
    words.load(Word::Asleep, Ordering::Relaxed) != 0 && words.swap(Word::Asleep, 0, Ordering::Relaxed) != 0
}

/// Takes the write with the ticket `next`, if it is there.
#[inline]
pub(crate) fn take<W: Words>(words: &W, next: u64) -> Option<PostedWrite> {
    let entry = next % W::ENTRIES;
    let state = words.load(Word::State(entry), Ordering::Acquire);
    if state >> 32 != free::<W>(next) + 1 {
        return None;
    }
    let write = PostedWrite {
        offset: (state & OFFSET_MASK) as u32,
        len_bytes: (state >> LENGTH_SHIFT) as u8,
        value: words.load(Word::Value(entry), Ordering::Relaxed),
    };
    let next_pass = free::<W>(next + W::ENTRIES) << 32;
    words.store(Word::State(entry), next_pass, Ordering::Release);
    Some(write)
}

/// The write with the ticket `next` is there.
pub(crate) fn has_any<W: Words>(words: &W, next: u64) -> bool {
    let state = words.load(Word::State(next % W::ENTRIES), Ordering::Acquire);
    state >> 32 == free::<W>(next) + 1
}

/// From now on a writer wakes the reader, who looks once more before it sleeps. A swap, not a store, here and below:
/// then all changes of the word are in one chain, each of them made on the one before.
pub(crate) fn fall_asleep<W: Words>(words: &W) {
    words.swap(Word::Asleep, 1, Ordering::Relaxed);
    words.fence(Ordering::SeqCst);
}

/// The reader is up.
pub(crate) fn wake_up<W: Words>(words: &W) {
    words.swap(Word::Asleep, 0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicU64, fence};
    use loom::sync::{Arc, Notify};

    /// The smallest ring that is used more than once.
    struct Model {
        tickets: AtomicU64,
        asleep: AtomicU64,
        states: [AtomicU64; 2],
        values: [AtomicU64; 2],
    }

    impl Model {
        fn new() -> Self {
            Self {
                tickets: AtomicU64::new(0),
                asleep: AtomicU64::new(0),
                states: [(); 2].map(|()| AtomicU64::new(0)),
                values: [(); 2].map(|()| AtomicU64::new(0)),
            }
        }

        fn at(&self, word: Word) -> &AtomicU64 {
            match word {
                Word::Tickets => &self.tickets,
                Word::Asleep => &self.asleep,
                Word::State(entry) => &self.states[entry as usize],
                Word::Value(entry) => &self.values[entry as usize],
            }
        }
    }

    impl Words for Model {
        const ENTRIES: u64 = 2;

        fn load(&self, word: Word, order: Ordering) -> u64 {
            self.at(word).load(order)
        }

        fn store(&self, word: Word, value: u64, order: Ordering) {
            self.at(word).store(value, order);
        }

        fn fetch_add(&self, word: Word, value: u64, order: Ordering) -> u64 {
            self.at(word).fetch_add(value, order)
        }

        fn swap(&self, word: Word, value: u64, order: Ordering) -> u64 {
            self.at(word).swap(value, order)
        }

        fn fence(&self, order: Ordering) {
            fence(order);
        }
    }

    /// Every order with at most so many threads interrupted: what goes wrong goes wrong with few.
    fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 20_000;
        builder.check(run);
    }

    fn write(value: u64) -> PostedWrite {
        PostedWrite {
            offset: value as u32 * 8,
            len_bytes: 8,
            value,
        }
    }

    fn until(is_so: &dyn Fn() -> bool) -> bool {
        while !is_so() {
            loom::thread::yield_now();
        }
        true
    }

    /// Takes `count` writes: each whole, in the order of its thread, and with what its thread did before it.
    fn take_all(words: &Model, before: &[AtomicU64; 2], count: u64) {
        let mut last = [0; 2];
        for next in 0..count {
            until(&|| has_any(words, next));
            let found = take(words, next).expect("it was there");
            let (i, thread) = (found.value >> 1, (found.value & 1) as usize);
            assert_eq!(found, write(found.value));
            assert_eq!(i, last[thread] + 1);
            assert!(before[thread].load(Ordering::Relaxed) >= i);
            last[thread] = i;
        }
        assert!(!has_any(words, count));
    }

    /// Writers that post so many writes each, and a reader.
    fn traffic(counts: &'static [u64]) {
        model(2, move || {
            let words = Arc::new(Model::new());
            let before: Arc<[AtomicU64; 2]> = Arc::new([(); 2].map(|()| AtomicU64::new(0)));
            let spawn = |(thread, count): (usize, &u64)| {
                let (words, before, count) = (words.clone(), before.clone(), *count);
                loom::thread::spawn(move || {
                    for i in 1..=count {
                        before[thread].store(i, Ordering::Relaxed);
                        post(&*words, write(i << 1 | thread as u64), until);
                    }
                })
            };
            let writers: Vec<_> = counts.iter().enumerate().map(spawn).collect();
            take_all(&words, &before, counts.iter().sum());
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }

    #[test]
    fn a_full_ring_holds_its_writer() {
        traffic(&[3]);
    }

    #[test]
    fn two_writers_at_once() {
        traffic(&[1, 1]);
    }

    /// A reader that sleeps without being woken would sleep for ever: loom finds that nobody can go on.
    #[test]
    fn no_write_is_left_lying_while_the_reader_sleeps() {
        model(2, || {
            let (words, kick) = (Arc::new(Model::new()), Arc::new(Notify::new()));
            let writers = [0, 1].map(|value| {
                let (words, kick) = (words.clone(), kick.clone());
                loom::thread::spawn(move || {
                    if post(&*words, write(value), until) {
                        kick.notify();
                    }
                })
            });
            let (mut next, mut sum) = (0, 0);
            while next < 2 {
                if let Some(found) = take(&*words, next) {
                    (next, sum) = (next + 1, sum + found.value);
                    continue;
                }
                fall_asleep(&*words);
                if !has_any(&*words, next) {
                    kick.wait();
                }
                wake_up(&*words);
            }
            assert_eq!(sum, 1);
            for writer in writers {
                writer.join().unwrap();
            }
        });
    }
}
