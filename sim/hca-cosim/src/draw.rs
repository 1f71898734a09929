//! How threads draw the jobs of a round, and sleep while there is none, as an algorithm on any atomic words: the
//! processor's in use ([`crate::crew`]), loom's in the tests, which try every order of things there is.
//!
//! All accesses are sequentially consistent. Who goes to sleep says so and then looks for jobs; who has jobs leaves
//! them and then looks who sleeps: so one of them sees the other.

/// Jobs of a round: bits of a word.
pub(crate) const JOBS_MAX: usize = u64::BITS as usize;

/// The words that the threads share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// A bit for each job that nobody has drawn.
    Undrawn,
    /// Jobs that are not done.
    Open,
    /// A thread sleeps, or is about to.
    Asleep(usize),
    /// There will be no more jobs.
    Ends,
}

/// Where the words are.
pub(crate) trait Words {
    fn load(&self, word: Word) -> u64;
    fn store(&self, word: Word, value: u64);
    fn fetch_and(&self, word: Word, value: u64) -> u64;
    fn fetch_sub(&self, word: Word, value: u64) -> u64;
    /// Between two looks at the same word, after so many of them in vain.
    fn relax(&self, looks: u32);
}

/// Leaves the jobs of a round, of which there are some, while none of the round before is open. `wake` wakes one of so
/// many threads.
pub(crate) fn leave<W: Words>(words: &W, jobs: usize, threads: usize, wake: impl Fn(usize)) {
    words.store(Word::Open, jobs as u64);
    words.store(Word::Undrawn, u64::MAX >> (JOBS_MAX - jobs));
    for thread in (0..threads).filter(|thread| words.load(Word::Asleep(*thread)) != 0) {
        wake(thread);
    }
}

/// Does jobs until all are drawn, those that are `preferred` first: then a job is the same thread's in every round, as
/// long as nobody is late, and what it works on stays in that processor's cache.
#[inline]
pub(crate) fn work<W: Words>(words: &W, preferred: u64, task: impl Fn(usize)) {
    loop {
        let undrawn = words.load(Word::Undrawn);
        let own = undrawn & preferred;
        let job = if own != 0 { own } else { undrawn }.trailing_zeros();
        let Some(bit) = 1u64.checked_shl(job) else { return };
        if words.fetch_and(Word::Undrawn, !bit) & bit != 0 {
            task(job as usize);
            words.fetch_sub(Word::Open, 1);
        }
    }
}

/// Waits until all jobs are done.
#[inline]
pub(crate) fn wait<W: Words>(words: &W) {
    let mut looks = 0;
    while words.load(Word::Open) != 0 {
        words.relax(looks);
        looks = looks.saturating_add(1);
    }
}

/// There may be something to do.
#[inline]
pub(crate) fn has_work<W: Words>(words: &W) -> bool {
    words.load(Word::Undrawn) != 0
}

/// Sleeps, unless there is something to do or nothing ever again. `park` may also return without a reason.
pub(crate) fn sleep<W: Words>(words: &W, thread: usize, park: impl FnOnce()) {
    words.store(Word::Asleep(thread), 1);
    if !has_work(words) && words.load(Word::Ends) == 0 {
        park();
    }
    words.store(Word::Asleep(thread), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use loom::sync::{Arc, Notify};

    const THREADS: usize = 2;
    const JOBS: usize = 2;

    struct Model {
        undrawn: AtomicU64,
        open: AtomicU64,
        ends: AtomicU64,
        asleep: [AtomicU64; THREADS],
        /// What the jobs work on: loom fails where two threads have it at once.
        subjects: [UnsafeCell<u32>; JOBS],
        kicks: [Notify; THREADS],
    }

    impl Model {
        fn new() -> Self {
            let word = || AtomicU64::new(0);
            Self {
                undrawn: word(),
                open: word(),
                ends: word(),
                asleep: [(); THREADS].map(|()| word()),
                subjects: [(); JOBS].map(|()| UnsafeCell::new(0)),
                kicks: [(); THREADS].map(|()| Notify::new()),
            }
        }

        fn at(&self, word: Word) -> &AtomicU64 {
            match word {
                Word::Undrawn => &self.undrawn,
                Word::Open => &self.open,
                Word::Ends => &self.ends,
                Word::Asleep(thread) => &self.asleep[thread],
            }
        }

        fn work(&self, preferred: u64) {
            // SAFETY: loom finds out if it is not so.
            work(self, preferred, |job| {
                self.subjects[job].with_mut(|subject| {
                    // SAFETY: loom's cell fails where it is not ours alone.
                    unsafe { *subject += 1 }
                });
            });
        }

        fn serve(&self, thread: usize) {
            while self.ends.load(SeqCst) == 0 {
                self.work(1 << (thread + 1));
                sleep(self, thread, || self.kicks[thread].wait());
            }
        }
    }

    impl Words for Model {
        fn load(&self, word: Word) -> u64 {
            self.at(word).load(SeqCst)
        }

        fn store(&self, word: Word, value: u64) {
            self.at(word).store(value, SeqCst);
        }

        fn fetch_and(&self, word: Word, value: u64) -> u64 {
            self.at(word).fetch_and(value, SeqCst)
        }

        fn fetch_sub(&self, word: Word, value: u64) -> u64 {
            self.at(word).fetch_sub(value, SeqCst)
        }

        fn relax(&self, _looks: u32) {
            loom::thread::yield_now();
        }
    }

    /// So many rounds with so many threads beside the caller's. A thread that sleeps without being woken would sleep
    /// for ever: loom finds that nobody can go on.
    fn rounds(threads: usize, rounds: u32) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.max_branches = 20_000;
        builder.check(move || {
            let model = Arc::new(Model::new());
            let spawn = |thread| {
                let model = model.clone();
                loom::thread::spawn(move || model.serve(thread))
            };
            let crew: Vec<_> = (0..threads).map(spawn).collect();
            for round in 1..=rounds {
                leave(&*model, JOBS, threads, |thread| model.kicks[thread].notify());
                model.work(1);
                wait(&*model);
                for subject in &model.subjects {
                    // SAFETY: loom finds out if it is not so.
                    assert_eq!(subject.with(|subject| unsafe { *subject }), round);
                }
            }
            model.store(Word::Ends, 1);
            for (thread, handle) in crew.into_iter().enumerate() {
                model.kicks[thread].notify();
                handle.join().unwrap();
            }
        });
    }

    #[test]
    fn each_job_is_done_once_in_each_round() {
        rounds(1, 2);
    }

    #[test]
    fn two_threads_beside_the_caller() {
        rounds(2, 1);
    }
}
