//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that goes on after a panic elsewhere: what it guards is consistent between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
