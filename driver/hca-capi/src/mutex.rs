//! A mutex that one function locks and another unlocks: sections of the extended interfaces last from one call of the
//! program to another.

use std::cell::UnsafeCell;

/// pthread_mutex_t that does not move once it is in use.
pub struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: locking is what it is for.
unsafe impl Sync for RawMutex {}
// SAFETY: not locked while it moves: objects are boxed before anybody has them.
unsafe impl Send for RawMutex {}

impl RawMutex {
    pub fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    #[inline]
    pub fn lock(&self) {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Only by the thread that has locked it.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: initialised; the caller has it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Runs `f` with the mutex held, and releases it also if `f` panics.
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Release<'a>(&'a RawMutex);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        self.lock();
        let _release = Release(self);
        f()
    }
}
