//! The lock of the data path: held for some nanoseconds, taken and released by one atomic access and a plain store.
//!
//! A thread that finds it taken spins, then lets others run, then sleeps: whoever holds it may have been preempted, or
//! keep it for as long as a section of a program lasts. Two threads that never share an object never meet here.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks before others are let run.
const SPINS: u32 = 100;
/// Looks before it sleeps: on a busy machine a thread that lets others run waits longer than one that sleeps.
const YIELDS: u32 = SPINS + 8;
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);

/// A promise that whatever it is given to is used by one thread at a time.
#[derive(Clone, Copy, Debug)]
pub struct OneThread(());

impl OneThread {
    /// Makes the promise.
    ///
    /// # Safety
    /// No two threads are in calls on the same object at the same time, of all objects that this is given to.
    pub const unsafe fn promise() -> Self {
        Self(())
    }
}

/// A value and the lock that guards it. A reference to the value exists only while a closure runs, never from one
/// call to the next: who enters twice has two, so closures do not call back.
pub struct ShortLock<T> {
    is_held: AtomicBool,
    /// Somebody else sees to it.
    one_thread: bool,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has the lock has the value alone; so has whoever needs none, by the promise.
unsafe impl<T: Send> Sync for ShortLock<T> {}

impl<T> ShortLock<T> {
    /// With a promise there is nothing to lock.
    pub fn new(value: T, promise: Option<OneThread>) -> Self {
        Self {
            is_held: AtomicBool::new(false),
            one_thread: promise.is_some(),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the lock held, and releases it also if `f` panics.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            #[inline]
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        self.open();
        let _release = Release(&self.is_held);
        // SAFETY: the lock is held, or the promise holds.
        f(unsafe { &mut *self.value.get() })
    }

    /// Opens a section: until [`ShortLock::close`] this thread has the value.
    #[inline]
    pub fn open(&self) {
        let taken = self.one_thread || !self.is_held.swap(true, Ordering::Acquire);
        if !taken {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0u32;
        while self.is_held.load(Ordering::Relaxed) || self.is_held.swap(true, Ordering::Acquire) {
            match looks {
                ..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
            looks = looks.saturating_add(1);
        }
    }

    /// Runs `f` in an open section.
    ///
    /// # Safety
    /// This thread has opened it, and is not in another closure of it.
    #[inline]
    pub unsafe fn inside<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller has the lock, and no other reference.
        f(unsafe { &mut *self.value.get() })
    }

    /// Ends a section.
    ///
    /// # Safety
    /// This thread has opened it.
    #[inline]
    pub unsafe fn close(&self) {
        self.is_held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_at_a_time() {
        let lock = Arc::new(ShortLock::new((0u64, 0u64), None));
        let threads = [(); 4].map(|()| {
            let lock = lock.clone();
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    lock.with(|(a, b)| {
                        assert_eq!(a, b);
                        *a += 1;
                        *b += 1;
                    });
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lock.with(|both| assert_eq!(*both, (80_000, 80_000)));
    }

    #[test]
    fn a_section_keeps_others_out_until_it_ends() {
        let lock = Arc::new(ShortLock::new(0, None));
        lock.open();
        let is_there = Arc::new(AtomicBool::new(false));
        let other = std::thread::spawn({
            let (lock, is_there) = (lock.clone(), is_there.clone());
            move || {
                is_there.store(true, Ordering::Relaxed);
                lock.with(|value| *value)
            }
        });
        // SAFETY: this thread has opened it.
        unsafe {
            lock.inside(|value| *value = 1);
            while !is_there.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            lock.inside(|value| *value = 2);
            lock.close();
        }
        assert_eq!(other.join().unwrap(), 2);
    }

    #[test]
    fn a_panic_releases_it() {
        let lock = ShortLock::new(7, None);
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.with(|_| panic!("on purpose"));
        }));
        assert!(broken.is_err());
        assert_eq!(lock.with(|value| *value), 7);
    }
}
