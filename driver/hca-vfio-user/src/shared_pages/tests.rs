use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PAGE: usize = PAGE_BYTES;

/// A count of all files is one of the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// A test that shares pages, if the kernel lets it.
fn turn() -> Option<MutexGuard<'static, ()>> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = Block::new(1);
    let works = Still::new(probe.addr(), PAGE);
    if let Err(error) = &works {
        eprintln!("skipped: no userfaultfd here ({error})");
    }
    works.is_ok().then_some(turn)
}

/// Pages of a mapping of their own.
struct Block {
    first: *mut u8,
    len_bytes: usize,
}

impl Block {
    fn new(pages: usize) -> Self {
        let len_bytes = pages * PAGE;
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping; the result is checked.
        let first = unsafe { libc::mmap(std::ptr::null_mut(), len_bytes, rights, flags, -1, 0) };
        assert_ne!(first, libc::MAP_FAILED);
        Self {
            first: first.cast(),
            len_bytes,
        }
    }

    fn addr(&self) -> u64 {
        self.first as u64
    }

    fn memory(&self, start: usize, len_bytes: usize) -> UserMemory {
        assert!(start + len_bytes <= self.len_bytes);
        // SAFETY: alive longer than what is made of it.
        unsafe { UserMemory::new(self.first.wrapping_add(start), len_bytes) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= self.len_bytes && at.is_multiple_of(8));
        // SAFETY: inside, aligned, and only accessed so.
        unsafe { AtomicU64::from_ptr(self.first.wrapping_add(at).cast()) }
    }

    fn fill(&self) {
        (0..self.len_bytes)
            .step_by(8)
            .for_each(|at| self.word(at).store(at as u64 ^ 0x5a5a, Ordering::Relaxed));
    }

    fn check(&self) {
        for at in (0..self.len_bytes).step_by(8) {
            assert_eq!(
                self.word(at).load(Ordering::Relaxed),
                at as u64 ^ 0x5a5a,
                "{at:#x}"
            );
        }
    }

    fn shared_bytes(&self) -> usize {
        let maps = Maps::read().unwrap();
        let lines = maps.of(self.addr(), self.addr() + self.len_bytes as u64).unwrap();
        let shared = lines.iter().filter(|line| line.memfd(NAME).is_some());
        shared.map(|line| (line.end - line.start) as usize).sum()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.first.cast(), self.len_bytes) };
    }
}

fn word_of(shared: &Shared, at: u64) -> u64 {
    let mut bytes = [0; 8];
    shared.file.read_exact_at(&mut bytes, shared.offset + at).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn whole_pages_are_shared_and_become_private_again() {
    let Some(_turn) = turn() else { return };
    let block = Block::new(8);
    block.fill();
    let shared = Shared::new(&block.memory(PAGE - 8, 5 * PAGE)).unwrap();
    assert_eq!(
        (shared.addr, shared.len_bytes, shared.offset),
        (block.addr() + PAGE as u64, 4 * PAGE, 0)
    );
    assert_eq!(block.shared_bytes(), 4 * PAGE);
    block.check();
    block.word(2 * PAGE).store(77, Ordering::Relaxed);
    assert_eq!(word_of(&shared, PAGE as u64), 77);
    shared
        .file
        .write_all_at(&((2 * PAGE as u64) ^ 0x5a5a).to_le_bytes(), PAGE as u64)
        .unwrap();
    block.check();
    // What is inside has the same file.
    let inner = Shared::new(&block.memory(3 * PAGE, PAGE)).unwrap();
    assert_eq!((inner.inode, inner.offset), (shared.inode, 2 * PAGE as u64));
    drop(shared);
    assert_eq!(block.shared_bytes(), 4 * PAGE);
    drop(inner);
    assert_eq!((block.shared_bytes(), all().len()), (0, 0));
    block.check();
}

#[test]
fn what_is_no_whole_page_or_not_just_memory_stays_private() {
    let Some(_turn) = turn() else { return };
    let block = Block::new(4);
    for (start, len_bytes) in [(0, 0), (8, PAGE), (1, 2 * PAGE - 2), (PAGE, PAGE - 1)] {
        assert!(
            Shared::new(&block.memory(start, len_bytes)).is_none(),
            "{start} + {len_bytes}"
        );
    }
    for rights in [libc::PROT_READ, libc::PROT_NONE] {
        // SAFETY: our own pages.
        let changed = unsafe { libc::mprotect(block.first.cast(), PAGE, rights) };
        assert_eq!(changed, 0);
        assert!(Shared::new(&block.memory(0, 2 * PAGE)).is_none(), "{rights}");
    }
    let part = Shared::new(&block.memory(PAGE, PAGE)).unwrap();
    assert!(
        Shared::new(&block.memory(PAGE, 3 * PAGE)).is_none(),
        "a part has a file already"
    );
    let others = SharedMem::new("others", PAGE).unwrap();
    let last = std::ptr::without_provenance_mut(usize::MAX - 9);
    for (first, len_bytes) in [(others.as_ptr(), PAGE), (last, 10)] {
        // SAFETY: nobody touches it.
        let memory = unsafe { UserMemory::new(first, len_bytes) };
        assert!(Shared::new(&memory).is_none(), "{first:p}");
    }
    drop(part);
    assert!(all().is_empty());
}

#[test]
fn what_a_program_has_unmapped_is_left_alone() {
    let Some(_turn) = turn() else { return };
    let block = Block::new(4);
    block.fill();
    let shared = Shared::new(&block.memory(0, 4 * PAGE)).unwrap();
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let second = block.first.wrapping_add(PAGE).cast();
    // SAFETY: over our own pages.
    let mapped = unsafe { libc::mmap(second, PAGE, rights, flags, -1, 0) };
    assert_eq!(mapped, second);
    assert_eq!(block.shared_bytes(), 3 * PAGE);
    block.word(PAGE).store(5, Ordering::Relaxed);
    let again = Shared::new(&block.memory(PAGE, PAGE)).unwrap();
    assert_ne!(again.inode, shared.inode);
    drop(shared);
    assert_eq!(block.shared_bytes(), PAGE);
    assert_eq!(block.word(PAGE).load(Ordering::Relaxed), 5);
    assert_eq!(
        block.word(2 * PAGE).load(Ordering::Relaxed),
        (2 * PAGE as u64) ^ 0x5a5a
    );
    drop(again);
    assert_eq!((block.shared_bytes(), all().len()), (0, 0));
}

#[test]
fn what_other_threads_write_meanwhile_is_not_lost() {
    let Some(_turn) = turn() else { return };
    let block = Block::new(64);
    let ends = AtomicBool::new(false);
    let (block, ends) = (&block, &ends);
    std::thread::scope(|scope| {
        // SAFETY: `word` accesses atomically.
        struct Words<'a>(&'a Block);
        // SAFETY: as above.
        unsafe impl Send for Words<'_> {}
        let words = Words(block);
        let writer = scope.spawn(move || {
            let words = words;
            let mut rounds = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                rounds += 1;
                for page in 0..64 {
                    let word = words.0.word(page * PAGE + 8 * page);
                    // Not one instruction: a lost store is a lost round.
                    let before = word.load(Ordering::Relaxed);
                    assert_eq!(before, rounds - 1, "a store into page {page} is lost");
                    word.store(rounds, Ordering::Relaxed);
                }
            }
            rounds
        });
        for _ in 0..300 {
            let shared = Shared::new(&block.memory(0, 64 * PAGE)).unwrap();
            std::thread::yield_now();
            drop(shared);
        }
        ends.store(true, Ordering::Relaxed);
        let rounds = writer.join().unwrap();
        assert!(rounds > 300, "only {rounds}");
    });
    assert_eq!(block.shared_bytes(), 0);
}

#[test]
fn a_child_of_fork_has_pages_of_its_own() {
    let Some(_turn) = turn() else { return };
    let block = Block::new(8);
    block.fill();
    let shared = Shared::new(&block.memory(0, 8 * PAGE)).unwrap();
    // SAFETY: the child only touches the block, and leaves without handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = (0..8 * PAGE)
            .step_by(8)
            .all(|at| block.word(at).load(Ordering::Relaxed) == at as u64 ^ 0x5a5a);
        block.word(PAGE).store(9, Ordering::Relaxed);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if good { 42 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 42);
    block.check();
    assert_eq!(block.shared_bytes(), 8 * PAGE);
    block.word(0).store(3, Ordering::Relaxed);
    assert_eq!(word_of(&shared, 0), 3);
    drop(shared);
}
