//! Threads that work on several cards side by side, within one cycle.
//!
//! What they work on has nothing in common while they do: so the results are the same with any number of threads. A
//! thread looks for the next work for some microseconds before it sleeps, because in a busy simulation it comes sooner
//! than the thread could be woken.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::draw::{self, JOBS_MAX, Word, Words};

/// Looks for the next work before a thread sleeps.
const LOOKS: u32 = 3000;
/// So many of them keep the processor; from then on whoever is ready to run goes first. With more threads than
/// processors the one that is waited for may be among them.
const PATIENT_LOOKS: u32 = 200;

/// What the threads do in a round, and on what.
struct Round<T> {
    task: fn(&mut T),
    jobs: Vec<*mut T>,
}

/// Number of a job that panicked, and what it said.
type Panic = (usize, Box<dyn Any + Send>);

struct Shared<T> {
    /// Written by the owner while no job is open; then each job belongs to who has drawn it.
    round: UnsafeCell<Round<T>>,
    undrawn: AtomicU64,
    open: AtomicU64,
    asleep: Box<[AtomicU64]>,
    ends: AtomicU64,
    /// Of the first job that panicked.
    panic: Mutex<Option<Panic>>,
}

// SAFETY: see `round`. What is worked on may be used by any thread, by one at a time.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn at(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Undrawn => &self.undrawn,
            Word::Open => &self.open,
            Word::Asleep(thread) => &self.asleep[thread],
            Word::Ends => &self.ends,
        }
    }
}

impl<T> Words for Shared<T> {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        self.at(word).load(Ordering::SeqCst)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.at(word).store(value, Ordering::SeqCst);
    }

    #[inline]
    fn fetch_and(&self, word: Word, value: u64) -> u64 {
        self.at(word).fetch_and(value, Ordering::SeqCst)
    }

    #[inline]
    fn fetch_sub(&self, word: Word, value: u64) -> u64 {
        self.at(word).fetch_sub(value, Ordering::SeqCst)
    }

    #[inline]
    fn relax(&self, looks: u32) {
        if looks < PATIENT_LOOKS {
            spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

impl<T: Send> Shared<T> {
    /// Does jobs of the present round until all are drawn.
    fn work(&self, preferred: u64) {
        draw::work(self, preferred, |job| {
            // SAFETY: the round stands still while a job of it is open, and this one is ours.
            let done = unsafe {
                let round = &*self.round.get();
                let subject: *mut T = round.jobs[job];
                catch_unwind(AssertUnwindSafe(|| (round.task)(&mut *subject)))
            };
            if let Err(panic) = done {
                self.note_panic(job, panic);
            }
        });
    }

    fn first_panic(&self) -> MutexGuard<'_, Option<Panic>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_panic(&self, job: usize, panic: Box<dyn Any + Send>) {
        let mut noted = self.first_panic();
        if noted.as_ref().is_none_or(|(before, _)| job < *before) {
            *noted = Some((job, panic));
        }
    }

    fn serve(&self, thread: usize, preferred: u64) {
        let mut looks = 0;
        while self.load(Word::Ends) == 0 {
            if draw::has_work(self) {
                self.work(preferred);
                looks = 0;
            } else if looks < LOOKS {
                self.relax(looks);
                looks += 1;
            } else {
                draw::sleep(self, thread, std::thread::park);
                looks = 0;
            }
        }
    }
}

/// The threads beside the simulation's own.
pub(crate) struct Crew<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    preferred: u64,
}

/// Every so many jobs, from the one with this number on.
fn share(number: usize, threads: usize) -> u64 {
    let jobs = (0..JOBS_MAX).filter(|job| job % threads == number);
    jobs.fold(0, |share, job| share | 1 << job)
}

impl<T: Send + 'static> Crew<T> {
    /// So many threads beside the caller's; fewer where the system gives no more.
    pub fn new(threads: usize) -> Self {
        let round = Round {
            task: |_| (),
            jobs: Vec::new(),
        };
        let shared = Arc::new(Shared {
            round: UnsafeCell::new(round),
            undrawn: AtomicU64::new(0),
            open: AtomicU64::new(0),
            asleep: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            ends: AtomicU64::new(0),
            panic: Mutex::new(None),
        });
        let spawn = |number| {
            let (shared, preferred) = (shared.clone(), share(number + 1, threads + 1));
            let thread = std::thread::Builder::new().name(format!("model{number}"));
            thread.spawn(move || shared.serve(number, preferred)).ok()
        };
        let handles = (0..threads).map_while(spawn).collect();
        Self {
            shared,
            threads: handles,
            preferred: share(0, threads + 1),
        }
    }

    /// Does the task with each of them. A panic of one goes on here, when all others are done: the first in their
    /// order, if there are several.
    pub fn run<'a>(&mut self, mut subjects: impl Iterator<Item = &'a mut T>, task: fn(&mut T)) {
        loop {
            // SAFETY: no job is open, so nobody else looks at it.
            let round = unsafe { &mut *self.shared.round.get() };
            round.task = task;
            round.jobs.clear();
            let subjects = subjects.by_ref().take(JOBS_MAX);
            round.jobs.extend(subjects.map(std::ptr::from_mut));
            if round.jobs.is_empty() {
                return;
            }
            draw::leave(&*self.shared, round.jobs.len(), self.threads.len(), |thread| {
                self.threads[thread].thread().unpark();
            });
            self.shared.work(self.preferred);
            draw::wait(&*self.shared);
            let panic = self.shared.first_panic().take();
            if let Some((_, panic)) = panic {
                resume_unwind(panic);
            }
        }
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        self.shared.store(Word::Ends, 1);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It catches panics of what it works on.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_in_every_round() {
        let mut crew = Crew::new(3);
        for count in [0, 1, 2, 64, 65, 130] {
            let mut numbers = vec![0u32; count];
            for _ in 0..100 {
                crew.run(numbers.iter_mut(), |number| *number += 1);
            }
            assert_eq!(numbers, vec![100; count]);
        }
    }

    #[test]
    fn the_first_panic_reaches_the_caller_when_all_is_done() {
        let mut crew = Crew::new(2);
        let mut numbers = [1, 2, 3, 4];
        for _ in 0..10 {
            let run = AssertUnwindSafe(|| {
                crew.run(numbers.iter_mut(), |number| {
                    assert!(*number % 2 == 1, "even: {number}");
                    *number += 2;
                });
            });
            let panic = catch_unwind(run).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>().unwrap(), "even: 2");
        }
        assert_eq!(numbers, [21, 2, 23, 4]);
    }
}
