//! Tables of a process, each behind one lock, that a fork leaves usable.
//!
//! A child has the threads of its parent no more: a lock that one of them held at that moment would be held for ever.
//! So the first thing that a child does, while it has one thread, is to look at every table: one that nobody held is as
//! it was, another one is empty. What was in it is its parent's in any case, and calls that name it fail.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

use hca_room::NoRoom;

/// A lock whose last owner's panic does not matter.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a child does with a table, without its type.
trait InChild: Sync {
    fn begin(&self);
}

/// All tables of this library that were used, in a list that only grows.
static TABLES: AtomicPtr<Entry> = AtomicPtr::new(null_mut());
static FORKS: Once = Once::new();

struct Entry {
    table: &'static dyn InChild,
    next: *mut Entry,
}

/// A value and its lock, for a static.
pub struct Table<T> {
    current: AtomicPtr<Mutex<T>>,
    is_listed: AtomicBool,
}

impl<T: Default + Send + 'static> Table<T> {
    /// With a default value, once it is used.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self {
            current: AtomicPtr::new(null_mut()),
            is_listed: AtomicBool::new(false),
        }
    }

    /// The value, until the guard is dropped. A panic of an earlier owner does not matter.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        lock(self.mutex())
    }

    /// The value if nobody has it, for who must not wait.
    pub fn try_lock(&'static self) -> Option<MutexGuard<'static, T>> {
        match self.mutex().try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn mutex(&'static self) -> &'static Mutex<T> {
        let mut current = self.current.load(Ordering::Acquire);
        if current.is_null() {
            current = self.first();
        }
        // SAFETY: made by Box::into_raw, and never freed: a child may leave one behind.
        unsafe { &*current }
    }

    #[cold]
    fn first(&'static self) -> *mut Mutex<T> {
        // A child that begins before the table is listed finds it empty or free: nobody has locked it yet.
        if !self.is_listed.swap(true, Ordering::Relaxed) {
            list(self);
        }
        let made = Box::into_raw(Box::<Mutex<T>>::default());
        let order = Ordering::AcqRel;
        let swapped = self
            .current
            .compare_exchange(null_mut(), made, order, Ordering::Acquire);
        swapped.map_or_else(
            |other| {
                // SAFETY: just made, and nobody has seen it.
                drop(unsafe { Box::from_raw(made) });
                other
            },
            |_| made,
        )
    }
}

impl<T: Default + Send + 'static> InChild for Table<T> {
    fn begin(&self) {
        let current = self.current.load(Ordering::Relaxed);
        // SAFETY: as in `mutex`.
        let is_held = unsafe { current.as_ref() }
            .is_some_and(|mutex| matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock)));
        if is_held {
            // The value may be half changed: it is left behind.
            self.current.store(null_mut(), Ordering::Relaxed);
        }
    }
}

fn list(table: &'static dyn InChild) {
    // SAFETY: a function of this library, which the C library forgets when it is closed.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(begin_in_child));
    });
    let entry = Box::into_raw(Box::new(Entry {
        table,
        next: null_mut(),
    }));
    let mut first = TABLES.load(Ordering::Relaxed);
    loop {
        // SAFETY: ours until it is in the list.
        unsafe { (*entry).next = first };
        match TABLES.compare_exchange(first, entry, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => first = other,
        }
    }
}

unsafe extern "C" fn begin_in_child() {
    let mut at = TABLES.load(Ordering::Acquire);
    // SAFETY: entries are never freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        entry.table.begin();
        at = entry.next;
    }
}

/// What a program holds pointers to, and as what. A call looks a pointer up here first, so that one that is no such
/// thing, or that was given back already, is an error and no crash.
pub struct Live<K: 'static>(Table<HashMap<usize, K>>);

impl<K: Copy + PartialEq + Send + 'static> Live<K> {
    /// Nothing yet.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self(Table::new())
    }

    /// The program has it from now on. Where there is no memory to remember that, nothing has happened.
    pub fn publish<T>(&'static self, kind: K, pointer: *mut T) -> Result<*mut T, NoRoom> {
        let mut live = self.0.lock();
        let len_bytes = live.len() * size_of::<(usize, K)>();
        live.try_reserve(1).map_err(|_| NoRoom { len_bytes })?;
        live.insert(pointer as usize, kind);
        Ok(pointer)
    }

    /// Is there memory to remember one more?
    pub fn require_room(&'static self) -> Result<(), NoRoom> {
        let len_bytes = size_of::<(usize, K)>();
        let reserved = self.0.lock().try_reserve(1);
        reserved.map_err(|_| NoRoom { len_bytes })
    }

    /// Is this one of the kind?
    pub fn has<T>(&'static self, kind: K, pointer: *const T) -> bool {
        self.0.lock().get(&(pointer as usize)) == Some(&kind)
    }

    /// The program gives it back: true for one of two callers.
    pub fn retire<T>(&'static self, kind: K, pointer: *mut T) -> bool {
        let mut live = self.0.lock();
        let is_there = live.get(&(pointer as usize)) == Some(&kind);
        is_there && live.remove(&(pointer as usize)).is_some()
    }

    /// What `f` has to say of the first address of a kind of which it says anything. None is retired meanwhile, and
    /// `f` calls nothing of this table.
    pub fn find_map<R>(&'static self, kind: K, f: impl Fn(usize) -> Option<R>) -> Option<R> {
        let live = self.0.lock();
        let mut of_kind = live.iter().filter(|(_, found)| **found == kind);
        of_kind.find_map(|(pointer, _)| f(*pointer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_and_as_what_it_is() {
        static LIVE: Live<u8> = Live::new();
        let mut thing = 1u64;
        let pointer = LIVE.publish(3, &raw mut thing).unwrap();
        assert!(LIVE.has(3, pointer) && !LIVE.has(4, pointer));
        assert_eq!(LIVE.find_map(3, Some), Some(pointer as usize));
        assert_eq!(LIVE.find_map(4, Some), None);
        assert!(!LIVE.retire(4, pointer));
        assert!(LIVE.retire(3, pointer));
        assert!(!LIVE.retire(3, pointer));
    }

    /// What a child finds in a table: its value, or -1 where it cannot be locked at once.
    fn in_child(table: &'static Table<u32>) -> i32 {
        let mut status = 0;
        // SAFETY: the child calls nothing that a thread of its parent may have locked but this table.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let found = table.mutex().try_lock().map_or(255, |value| *value as i32);
                libc::_exit(found);
            }
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
        }
        assert!(libc::WIFEXITED(status), "status {status:#x}");
        libc::WEXITSTATUS(status)
    }

    /// V-12, V-14: the lock of a thread that a child has not got is free in it.
    #[test]
    fn a_child_finds_every_table_free() {
        static FREE: Table<u32> = Table::new();
        static HELD: Table<u32> = Table::new();
        *FREE.lock() = 7;
        let mut held = HELD.lock();
        *held = 7;
        assert_eq!((in_child(&FREE), in_child(&HELD)), (7, 0));
        drop(held);
        assert_eq!(in_child(&HELD), 7);
        assert_eq!(*HELD.lock(), 7);
    }
}
