//! Threads that evaluate the models of several cards side by side, within one cycle.
//!
//! All cards have had their inputs before, and nobody looks at an output before all are done: so the results are the
//! same with any number of threads. A thread looks for the next evaluation for some microseconds before it sleeps,
//! because in a busy simulation it comes sooner than the thread could be woken.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use hca_vsim::Dut;

/// Looks for the next evaluation before a thread sleeps.
const LOOKS: u32 = 3000;

/// Number of the round, of its jobs, and of the next job that nobody has drawn.
struct Ticket(u64);

impl Ticket {
    const BITS: u32 = 16;

    fn first(round: u64, jobs: usize) -> u64 {
        round << (2 * Self::BITS) | (jobs as u64) << Self::BITS
    }

    /// The job that it stands for; none when all of its round are drawn.
    fn job(&self) -> Option<usize> {
        let mask = (1 << Self::BITS) - 1;
        let (jobs, next) = (self.0 >> Self::BITS & mask, self.0 & mask);
        (next < jobs).then_some(next as usize)
    }
}

struct Shared {
    /// The models of this round. Written by the owner while no job is open; then each belongs to who has drawn its
    /// number.
    jobs: UnsafeCell<Vec<*mut Dut>>,
    ticket: AtomicU64,
    /// Jobs of the round that are not done.
    open: AtomicUsize,
    asleep: Box<[AtomicBool]>,
    ends: AtomicBool,
}

// SAFETY: see `jobs`. A model may be used by any thread, by one at a time.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Does jobs of the present round until all are drawn.
    fn work(&self) {
        while Ticket(self.ticket.load(Ordering::SeqCst)).job().is_some() {
            let Some(job) = Ticket(self.ticket.fetch_add(1, Ordering::SeqCst)).job() else {
                return;
            };
            // SAFETY: the jobs stand still while one is open, and this one is ours.
            unsafe {
                let dut = (&(*self.jobs.get()))[job];
                (*dut).eval();
            }
            self.open.fetch_sub(1, Ordering::Release);
        }
    }

    fn serve(&self, number: usize) {
        let mut looks = 0;
        while !self.ends.load(Ordering::Relaxed) {
            if Ticket(self.ticket.load(Ordering::SeqCst)).job().is_some() {
                self.work();
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                spin_loop();
            } else {
                self.sleep(number);
                looks = 0;
            }
        }
    }

    /// Says that it sleeps, looks once more, and sleeps; `Crew::wake` first leaves work and then looks who sleeps.
    fn sleep(&self, number: usize) {
        self.asleep[number].store(true, Ordering::SeqCst);
        let has_work = Ticket(self.ticket.load(Ordering::SeqCst)).job().is_some();
        if !has_work && !self.ends.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.asleep[number].store(false, Ordering::SeqCst);
    }
}

/// The threads beside the simulation's own.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    round: u64,
}

impl Crew {
    /// So many threads beside the caller's; fewer where the system gives no more.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            jobs: UnsafeCell::default(),
            ticket: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            asleep: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            ends: AtomicBool::new(false),
        });
        let spawn = |number| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("model{number}"));
            thread.spawn(move || shared.serve(number)).ok()
        };
        let threads = (0..threads).map_while(spawn).collect();
        Self {
            shared,
            threads,
            round: 0,
        }
    }

    /// Evaluates each model once.
    pub fn evaluate<'a>(&mut self, models: impl Iterator<Item = &'a mut Dut>) {
        // SAFETY: no job is open, so nobody else looks at them.
        let jobs = unsafe { &mut *self.shared.jobs.get() };
        jobs.clear();
        jobs.extend(models.map(std::ptr::from_mut));
        self.round = (self.round + 1) & 0xffff_ffff;
        self.shared.open.store(jobs.len(), Ordering::SeqCst);
        let ticket = Ticket::first(self.round, jobs.len());
        self.shared.ticket.store(ticket, Ordering::SeqCst);
        self.wake();
        self.shared.work();
        while self.shared.open.load(Ordering::Acquire) != 0 {
            spin_loop();
        }
    }

    fn wake(&self) {
        for (asleep, thread) in self.shared.asleep.iter().zip(&self.threads) {
            if asleep.load(Ordering::SeqCst) {
                thread.thread().unpark();
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic of its own has been printed.
            let _ = thread.join();
        }
    }
}
