//! The objects that a program holds pointers to. Control verbs look a pointer up here first, so that a second destroy
//! is an error (EINVAL) and no crash. Post and poll do not.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::boundary::{Verb, invalid};

/// What a pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Device,
    Context,
    Channel,
    Pd,
    Mr,
    Cq,
    Qp,
}

/// An object whose first field is the C structure.
pub trait Object {
    const KIND: Kind;
}

static LIVE: LazyLock<Mutex<HashMap<usize, Kind>>> = LazyLock::new(Mutex::default);

/// A lock that goes on after a panic elsewhere.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands an object to the program.
pub fn publish<T: Object>(object: Box<T>) -> *mut T {
    let pointer = Box::into_raw(object);
    lock(&LIVE).insert(pointer as usize, T::KIND);
    pointer
}

fn check<T: Object>(pointer: *const T) -> Verb<()> {
    match lock(&LIVE).get(&(pointer as usize)) {
        Some(kind) if *kind == T::KIND => Ok(()),
        _ => Err(invalid(&format!(
            "{pointer:?} is no {:?}, or it was destroyed",
            T::KIND
        ))),
    }
}

/// The object behind a pointer of the program.
///
/// # Safety
/// The program does not destroy the object while the reference lives (V-1).
pub unsafe fn get<'a, T: Object>(pointer: *const T) -> Verb<&'a T> {
    check(pointer)?;
    // SAFETY: published, not yet retired, of this type; the caller vouches for the time.
    Ok(unsafe { &*pointer })
}

/// Takes an object back from the program. Only one of two callers gets it.
pub fn retire<T: Object>(pointer: *mut T) -> Verb<Box<T>> {
    check(pointer)?;
    if lock(&LIVE).remove(&(pointer as usize)).is_none() {
        return Err(invalid("destroyed twice"));
    }
    // SAFETY: it came from Box::into_raw in publish, and was in the table until now.
    Ok(unsafe { Box::from_raw(pointer) })
}
