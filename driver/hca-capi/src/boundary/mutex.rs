//! A mutex that one function locks and another unlocks: sections of the extended interfaces last from one call of the
//! program to another.

use std::cell::UnsafeCell;

/// pthread_mutex_t that does not move once it is in use.
struct RawMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: locking is what it is for.
unsafe impl Sync for RawMutex {}
// SAFETY: not locked while it moves: objects are boxed before anybody has them.
unsafe impl Send for RawMutex {}

impl RawMutex {
    #[inline]
    fn lock(&self) {
        // SAFETY: initialised.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Only by the thread that has locked it.
    #[inline]
    fn unlock(&self) {
        // SAFETY: initialised; the caller has it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// A value and the mutex that guards it. A reference to the value exists only while a closure runs, never from one
/// call of the program to the next: who enters twice has two, so closures do not call back.
pub struct SectionMutex<T> {
    mutex: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has the mutex has the value alone.
unsafe impl<T: Send> Sync for SectionMutex<T> {}

impl<T> SectionMutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            mutex: RawMutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)),
            value: UnsafeCell::new(value),
        }
    }

    /// Runs `f` with the mutex held, and releases it also if `f` panics.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        struct Release<'a>(&'a RawMutex);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        self.mutex.lock();
        let _release = Release(&self.mutex);
        // SAFETY: the mutex is held.
        f(unsafe { &mut *self.value.get() })
    }

    /// Opens a section: until [`SectionMutex::close`] this thread has the value.
    #[inline]
    pub fn open(&self) {
        self.mutex.lock();
    }

    /// Runs `f` in an open section.
    ///
    /// # Safety
    /// This thread has opened it, and is not in another closure of it.
    #[inline]
    pub unsafe fn inside<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller has the mutex, and no other reference.
        f(unsafe { &mut *self.value.get() })
    }

    /// Ends a section.
    ///
    /// # Safety
    /// This thread has opened it.
    #[inline]
    pub unsafe fn close(&self) {
        self.mutex.unlock();
    }
}
