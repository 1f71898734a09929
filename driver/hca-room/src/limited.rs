//! For tests: an allocator that gives a thread so many bytes and no more, and processes in which that is tried out.
//!
//! A test makes [`Limited`] its `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::env;
use std::process::Command;
use std::ptr::null_mut;

thread_local! {
    /// What this thread may still allocate; none: whatever it likes.
    static LEFT_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Gives what is left.
#[derive(Debug)]
pub struct Limited;

// SAFETY: memory is the system's; a request is refused as the trait says.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(left) = LEFT_BYTES.get() {
            let Some(less) = left.checked_sub(layout.size()) else {
                return null_mut();
            };
            LEFT_BYTES.set(Some(less));
        }
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LEFT_BYTES.set(LEFT_BYTES.get().map(|left| left + layout.size()));
        // SAFETY: the caller's memory and layout.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Another limit for this thread until it is dropped.
#[derive(Debug)]
pub struct Limit {
    before: Option<usize>,
}

impl Limit {
    /// So many bytes, or any number.
    pub fn new(bytes: Option<usize>) -> Self {
        let before = LEFT_BYTES.replace(bytes);
        Self { before }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        LEFT_BYTES.set(self.before);
    }
}

/// Runs a call while this thread may allocate so many bytes.
pub fn limited<T>(bytes: usize, f: impl FnOnce() -> T) -> T {
    let _limit = Limit::new(Some(bytes));
    f()
}

/// Runs what has nothing to do with it, as a card has a memory of its own.
pub fn unlimited<T>(f: impl FnOnce() -> T) -> T {
    let _limit = Limit::new(None);
    f()
}

/// From nothing, in steps that are smaller than most of what is allocated, and larger ones beyond what small things
/// need.
pub fn budgets() -> impl Iterator<Item = usize> {
    let small = (0..192).map(|step| step * 512);
    small.chain((96..32 << 10).step_by(8).map(|kib| kib << 10))
}

/// Which row a child is to run.
const ROW: &str = "HCA_ROW_WITHOUT_MEMORY";

/// Runs every row in a process of its own, and says which call has ended it. `test`: the name of the test that calls
/// this.
///
/// # Panics
/// If one of them fails; in a child, as `run` does.
pub fn each_in_a_child<'a>(test: &str, rows: impl Iterator<Item = &'a str>, run: impl Fn(usize)) {
    if let Ok(number) = env::var(ROW) {
        return run(number.parse().expect("the number of a row"));
    }
    let this = env::current_exe().expect("the test");
    let mut failures = Vec::new();
    for (number, name) in rows.enumerate() {
        let mut child = Command::new(&this);
        child
            .args(["--exact", test, "--nocapture"])
            .env(ROW, number.to_string());
        let child = child.output().expect("the test starts again");
        let said = String::from_utf8_lossy(&child.stdout);
        if !child.status.success() || !said.contains("1 passed") {
            let why = String::from_utf8_lossy(&child.stderr);
            failures.push(format!("{name}: {}\n{said}{why}", child.status));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
