//! Memory that somebody else keeps, and may keep from us: a process has pages that lie on a disk, at the other end of a
//! network, or with a file system that never answers. A thread for each such memory touches it, one access after the
//! other; the simulation starts accesses and looks later whether they are done.
//!
//! Order: accesses of one memory happen as they were started. So do accesses to other memory of the same function while
//! some of these wait (rings, which are written behind the data that they tell of).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hca_dev::{SharedMem, load_bytes, store_bytes, store_line};

use crate::patience::Patience;
use crate::{LINE_BYTES, Line};

/// Memory of another process, reached by its own address. Both calls may take as long as they like.
pub trait RemoteMemory: Send + Sync {
    /// Copies out. False: the address is not there any more.
    fn read(&self, addr: u64, out: &mut [u8]) -> bool;
    /// Copies in. False: the address is not there any more, or not writable.
    fn write(&self, addr: u64, bytes: &[u8]) -> bool;
}

/// Whom the thread of a remote memory tells what it has done.
pub trait Watcher: Send + Sync {
    /// Accesses are done.
    fn progress(&self);
    /// The thread has ended, and has nothing of the memory any more.
    fn ended(&self);
}

/// Accesses that wait before the thread is woken for them: a wake costs as much as ten of them.
const WAKE_AT: usize = 64;
/// Accesses under way with which a memory counts as stuck.
const ACCESSES_MAX: u64 = 65_536;
/// Looks before a sleep: a thread that is awake does an access in a microsecond.
const SPINS: u32 = 64;
/// Looks that leave the processor to whom is waited for, before a sleep: to be woken takes longer than an access. With
/// 16 a program's WRITEs of 64 KiB took 1.8 times as long, with none three times; 256 are no better.
const YIELDS: u32 = 64;
/// Failed writes whose addresses are kept; more are only counted.
const FAILED_WRITES_MAX: usize = 32;
/// Whole lines that are written at once, where they follow each other: a call costs more than the bytes.
const RUN_LINES_MAX: usize = 64;
/// Rooms of reads and runs that are kept to be used again, and the most bytes of one.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Where an access goes.
pub(crate) enum Target {
    /// An address of the process.
    Process(u64),
    /// Shared memory, kept alive meanwhile, and the place in it.
    Shared(Arc<SharedMem>, usize),
}

enum Access {
    Read {
        len_bytes: usize,
    },
    Write {
        line: Box<Line>,
        strb: u64,
    },
    /// Whole lines that follow each other.
    Run(Vec<u8>),
}

struct Job {
    number: u64,
    target: Target,
    access: Access,
}

impl Job {
    /// A whole line, to this address of the process.
    fn whole_line(&self) -> Option<(u64, &Line)> {
        match (&self.target, &self.access) {
            (Target::Process(addr), Access::Write { line, strb: u64::MAX }) => Some((*addr, line)),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Results {
    /// None: not there.
    reads: HashMap<u64, Option<Vec<u8>>>,
    failed_writes: Vec<u64>,
    failed_count: u64,
    /// Room of reads that have been taken, and of runs that are written.
    spare: Vec<Vec<u8>>,
}

impl Results {
    fn give_back(&mut self, room: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && room.len() <= SPARE_BYTES_MAX {
            self.spare.push(room);
        }
    }
}

/// What both threads have.
pub(crate) struct Common {
    jobs: Mutex<VecDeque<Job>>,
    work: Condvar,
    /// Nothing is wanted any more: what was not done never will be.
    closed: AtomicBool,
    /// Number of the last access that is done.
    done: AtomicU64,
    /// Number of the access that somebody sleeps for.
    awaited: AtomicU64,
    results: Mutex<Results>,
    arrived: Condvar,
    /// Lines written into shared memory.
    shared_writes: AtomicU64,
    /// How long the simulation may yet wait.
    patience: Mutex<Patience>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Common {
    fn is_done(&self, number: u64) -> bool {
        self.closed.load(Ordering::SeqCst) || self.done.load(Ordering::SeqCst) >= number
    }

    /// Waits as long as there is patience with this memory.
    fn wait(&self, number: u64) -> bool {
        for _ in 0..SPINS {
            if self.is_done(number) {
                return true;
            }
            std::hint::spin_loop();
        }
        let mut patience = lock(&self.patience);
        let begin = Instant::now();
        let limit = patience.limit(begin);
        let is_done = self.await_awake(number, begin, limit) || self.sleep(number, begin, limit);
        patience.spend(begin.elapsed());
        is_done
    }

    /// Waits without a look at patience.
    fn wait_for(&self, number: u64, limit: Duration) -> bool {
        let begin = Instant::now();
        self.await_awake(number, begin, limit) || self.sleep(number, begin, limit)
    }

    fn await_awake(&self, number: u64, begin: Instant, limit: Duration) -> bool {
        for _ in 0..YIELDS {
            if self.is_done(number) {
                return true;
            }
            // Whoever else has the processor meanwhile may keep it for long.
            if begin.elapsed() >= limit {
                break;
            }
            std::thread::yield_now();
        }
        false
    }

    fn sleep(&self, number: u64, begin: Instant, limit: Duration) -> bool {
        let mut results = lock(&self.results);
        self.awaited.store(number, Ordering::SeqCst);
        while !self.is_done(number) {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.arrived.wait_timeout(results, left);
            results = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.awaited.store(u64::MAX, Ordering::SeqCst);
        drop(results);
        self.is_done(number)
    }

    fn run(&self, job: Job, memory: &dyn RemoteMemory) {
        match job.access {
            Access::Run(bytes) => {
                self.write_run(&job.target, &bytes, memory);
                lock(&self.results).give_back(bytes);
            }
            Access::Read { len_bytes } => {
                let mut bytes = lock(&self.results).spare.pop().unwrap_or_default();
                bytes.resize(len_bytes, 0);
                let found = match &job.target {
                    Target::Process(addr) => memory.read(*addr, &mut bytes),
                    Target::Shared(shared, offset) => {
                        // SAFETY: whoever started it has seen that the range is inside the mapping, which is alive.
                        unsafe { load_bytes(shared.as_ptr().wrapping_add(*offset), &mut bytes) };
                        true
                    }
                };
                lock(&self.results)
                    .reads
                    .insert(job.number, found.then_some(bytes));
            }
            Access::Write { line, strb } => match &job.target {
                Target::Process(addr) => self.write_process(*addr, &line, strb, memory),
                Target::Shared(shared, offset) => {
                    // SAFETY: as above; a whole line.
                    unsafe { store_line(shared.as_ptr().wrapping_add(*offset), &line.0, strb) };
                    self.shared_writes.fetch_add(1, Ordering::SeqCst);
                }
            },
        }
        self.finish(job.number);
    }

    fn write_run(&self, target: &Target, bytes: &[u8], memory: &dyn RemoteMemory) {
        match target {
            Target::Process(addr) => {
                if memory.write(*addr, bytes) {
                    return;
                }
                // Some of it cannot be written: which.
                let mut line = Line::ZERO;
                for (at, chunk) in (*addr..).step_by(LINE_BYTES).zip(bytes.chunks_exact(LINE_BYTES)) {
                    line.0.copy_from_slice(chunk);
                    self.write_process(at, &line, u64::MAX, memory);
                }
            }
            Target::Shared(shared, offset) => {
                // SAFETY: whoever started it has seen that the range is inside the mapping, which is alive.
                unsafe { store_bytes(shared.as_ptr().wrapping_add(*offset), bytes) };
                self.shared_writes
                    .fetch_add((bytes.len() / LINE_BYTES) as u64, Ordering::SeqCst);
            }
        }
    }

    /// All accesses up to this one are done.
    fn finish(&self, number: u64) {
        self.done.store(number, Ordering::SeqCst);
        if self.awaited.load(Ordering::SeqCst) <= number {
            // Who waits either has not looked yet or sleeps.
            drop(lock(&self.results));
            self.arrived.notify_all();
        }
    }

    /// The whole lines at the head of the jobs that follow each other, written at once. False: there are no two, or
    /// they are to be written one by one, to find out which of them cannot be.
    fn run_lines(&self, jobs: &mut VecDeque<Job>, memory: &dyn RemoteMemory) -> bool {
        let Some((first, _)) = jobs.front().and_then(Job::whole_line) else {
            return false;
        };
        let mut bytes = Vec::new();
        let follows = |(at, job): (usize, &Job)| {
            let next = first.wrapping_add((at * LINE_BYTES) as u64);
            let line = job.whole_line().filter(|(addr, _)| *addr == next)?;
            bytes.extend_from_slice(&line.1.0);
            Some(())
        };
        let lines = jobs
            .iter()
            .take(RUN_LINES_MAX)
            .enumerate()
            .map_while(follows)
            .count();
        if lines < 2 || !memory.write(first, &bytes) {
            return false;
        }
        if let Some(last) = jobs.drain(..lines).next_back() {
            self.finish(last.number);
        }
        true
    }

    /// One run of enabled bytes at a time.
    fn write_process(&self, addr: u64, line: &Line, strb: u64, memory: &dyn RemoteMemory) {
        let mut byte = strb.trailing_zeros() as usize;
        while byte < LINE_BYTES {
            let run = (strb >> byte).trailing_ones() as usize;
            let at = addr.wrapping_add(byte as u64);
            if !memory.write(at, &line.0[byte..byte + run]) {
                let mut results = lock(&self.results);
                results.failed_count += 1;
                if results.failed_writes.len() < FAILED_WRITES_MAX {
                    results.failed_writes.push(at);
                }
            }
            byte += run;
            if byte < LINE_BYTES {
                byte += (strb >> byte).trailing_zeros() as usize;
            }
        }
    }

    fn close(&self) {
        let mut jobs = lock(&self.jobs);
        self.closed.store(true, Ordering::SeqCst);
        jobs.clear();
        drop(jobs);
        self.work.notify_all();
        drop(lock(&self.results));
        self.arrived.notify_all();
    }
}

/// The thread: until nothing is wanted any more.
fn serve(common: &Common, memory: &dyn RemoteMemory, watcher: &dyn Watcher) {
    loop {
        for _ in 0..YIELDS {
            if !lock(&common.jobs).is_empty() || common.closed.load(Ordering::SeqCst) {
                break;
            }
            std::thread::yield_now();
        }
        let mut jobs = lock(&common.jobs);
        while jobs.is_empty() && !common.closed.load(Ordering::SeqCst) {
            jobs = common.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        let mut batch = std::mem::take(&mut *jobs);
        drop(jobs);
        while !batch.is_empty() && !common.closed.load(Ordering::SeqCst) {
            if !common.run_lines(&mut batch, memory)
                && let Some(job) = batch.pop_front()
            {
                common.run(job, memory);
            }
        }
        if common.closed.load(Ordering::SeqCst) {
            return;
        }
        watcher.progress();
    }
}

/// A started access, to ask for later. It may outlive its memory: then it is done, and found nothing.
#[derive(Clone)]
pub struct Ticket {
    common: Arc<Common>,
    number: u64,
}

impl Ticket {
    /// It is done, now or before there is no patience left with this memory.
    pub(crate) fn wait(&self) -> bool {
        self.common.wait(self.number)
    }

    /// It is done within this time.
    pub(crate) fn wait_for(&self, limit: Duration) -> bool {
        self.common.wait_for(self.number, limit)
    }

    /// It is done.
    pub(crate) fn is_done(&self) -> bool {
        self.common.is_done(self.number)
    }

    /// What was read, into as many bytes. False: nothing is there.
    pub(crate) fn take(&self, out: &mut [u8]) -> bool {
        let read = lock(&self.common.results).reads.remove(&self.number).flatten();
        let Some(bytes) = read.filter(|bytes| bytes.len() == out.len()) else {
            return false;
        };
        out.copy_from_slice(&bytes);
        lock(&self.common.results).give_back(bytes);
        true
    }
}

/// Says whether the thread of a memory still is in it.
#[derive(Clone)]
pub struct Presence(Weak<()>);

impl Presence {
    /// It is not.
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// A memory and its thread, for the simulation.
pub struct Remote {
    common: Arc<Common>,
    presence: Presence,
    /// Started, and not yet given to the thread.
    waiting: VecDeque<Job>,
    started: u64,
    last_write: u64,
    /// The last write that others may hear of.
    last_seen: u64,
    /// What was done at the last look, and since when it is no more.
    seen: (u64, Instant),
}

impl Remote {
    /// Starts the thread. Fails where the system has none.
    pub fn new(memory: Arc<dyn RemoteMemory>, watcher: Arc<dyn Watcher>) -> io::Result<Self> {
        let common = Arc::new(Common {
            jobs: Mutex::default(),
            work: Condvar::new(),
            closed: AtomicBool::new(false),
            done: AtomicU64::new(0),
            awaited: AtomicU64::new(u64::MAX),
            results: Mutex::default(),
            arrived: Condvar::new(),
            shared_writes: AtomicU64::new(0),
            patience: Mutex::new(Patience::new()),
        });
        let inside = Arc::new(());
        let presence = Presence(Arc::downgrade(&inside));
        let theirs = common.clone();
        let run = move || {
            serve(&theirs, memory.as_ref(), watcher.as_ref());
            drop((memory, inside));
            watcher.ended();
        };
        let thread = std::thread::Builder::new().name("memory of a client".into());
        // It ends with the memory, or when the memory lets it go.
        drop(thread.spawn(run)?);
        Ok(Self {
            common,
            presence,
            waiting: VecDeque::new(),
            started: 0,
            last_write: 0,
            last_seen: 0,
            seen: (0, Instant::now()),
        })
    }

    /// To see when the thread has left the memory.
    pub fn presence(&self) -> Presence {
        self.presence.clone()
    }

    fn start(&mut self, target: Target, access: Access) -> u64 {
        self.started += 1;
        self.waiting.push_back(Job {
            number: self.started,
            target,
            access,
        });
        self.started
    }

    fn ticket(&self, number: u64) -> Ticket {
        Ticket {
            common: self.common.clone(),
            number,
        }
    }

    pub(crate) fn start_read(&mut self, target: Target, len_bytes: usize) -> Ticket {
        let number = self.start(target, Access::Read { len_bytes });
        // Somebody waits for it.
        self.flush();
        self.ticket(number)
    }

    pub(crate) fn start_write(&mut self, target: Target, line: Line, strb: u64) {
        let line = Box::new(line);
        // Somebody waits for what comes into rings.
        let is_ring = matches!(target, Target::Shared(..));
        self.last_write = self.start(target, Access::Write { line, strb });
        if is_ring || self.waiting.len() >= WAKE_AT {
            self.flush();
        }
    }

    /// Whole lines that follow each other.
    pub(crate) fn start_run(&mut self, target: Target, bytes: &[u8]) {
        let mut room = lock(&self.common.results).spare.pop().unwrap_or_default();
        room.clear();
        room.extend_from_slice(bytes);
        self.last_write = self.start(target, Access::Run(room));
        if self.waiting.len() >= WAKE_AT {
            self.flush();
        }
    }

    /// The last write; None: all are done.
    pub(crate) fn last_write(&mut self) -> Option<Ticket> {
        if self.common.is_done(self.last_write) {
            return None;
        }
        self.flush();
        Some(self.ticket(self.last_write))
    }

    /// Others may hear of all writes so far.
    pub(crate) fn see_writes(&mut self) {
        self.last_seen = self.last_write;
    }

    /// The last write that others may hear of; None: all of those are done.
    pub(crate) fn last_seen(&mut self) -> Option<Ticket> {
        if self.common.is_done(self.last_seen) {
            return None;
        }
        self.flush();
        Some(self.ticket(self.last_seen))
    }

    /// Gives the thread what was started.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut jobs = lock(&self.common.jobs);
        let wake = jobs.is_empty();
        jobs.append(&mut self.waiting);
        drop(jobs);
        if wake {
            self.common.work.notify_one();
        }
    }

    /// Everything started is done, now or before there is no patience left.
    pub(crate) fn is_settled(&mut self) -> bool {
        self.flush();
        self.common.is_done(self.started) || self.common.wait(self.started)
    }

    /// Everything is done; does not wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.common.is_done(self.started)
    }

    /// Nothing has been done for so long, or too much waits.
    pub(crate) fn is_stuck(&mut self, limit: Duration) -> bool {
        let done = self.common.done.load(Ordering::SeqCst);
        if done == self.started || done != self.seen.0 {
            self.seen = (done, Instant::now());
        }
        self.seen.1.elapsed() > limit || self.started - done > ACCESSES_MAX
    }

    /// Lines of shared memory written by the thread.
    pub(crate) fn shared_writes(&self) -> u64 {
        self.common.shared_writes.load(Ordering::SeqCst)
    }

    /// Writes that failed since the last call: how many, and the addresses of the first.
    pub(crate) fn take_failed(&self) -> (u64, Vec<u64>) {
        let mut results = lock(&self.common.results);
        let count = std::mem::take(&mut results.failed_count);
        (count, std::mem::take(&mut results.failed_writes))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.common.close();
    }
}
