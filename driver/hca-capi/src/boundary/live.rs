//! The objects that a program holds pointers to. Control verbs look a pointer up here first, so that a second destroy
//! is an error (EINVAL) and no crash. Post and poll do not.

use std::cell::UnsafeCell;

use hca_exports::table::Live;
pub use hca_exports::table::lock;

use crate::boundary::{Verb, invalid, warn};

/// What a pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Device,
    Context,
    Channel,
    Pd,
    Ah,
    Mr,
    ImportedMr,
    Mw,
    Cq,
    Qp,
    Srq,
    Td,
    Xrcd,
    Flow,
    Counters,
    Wq,
    IndTable,
    Dm,
}

/// An object whose first field is the C structure.
pub trait Object {
    const KIND: Kind;
}

/// The C structure of an object. The program reads and writes it by its own pointer whenever it likes, and so do we:
/// always by pointer, field by field. No reference to it is ever made, and none to the object around it says that
/// these bytes stay as they are.
#[repr(transparent)]
pub struct CStruct<T>(UnsafeCell<T>);

impl<T> CStruct<T> {
    pub fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Valid as long as the object.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

static LIVE: Live<Kind> = Live::new();

/// Hands an object to the program. Without memory for that it is dropped, which undoes it.
pub fn publish<T: Object>(object: T) -> Verb<*mut T> {
    let object = Box::into_raw(hca_room::boxed(object)?);
    // SAFETY: just made, and nobody has seen it.
    publish_again(object).inspect_err(|_| drop(unsafe { Box::from_raw(object) }))
}

/// Hands an object to the program that is kept for good: a child may have lost sight of it.
pub fn publish_again<T: Object>(pointer: *mut T) -> Verb<*mut T> {
    Ok(LIVE.publish(T::KIND, pointer)?)
}

/// It was to be given back, and is still there. Its place in the table is, too.
pub fn put_back<T: Object>(object: Box<T>) {
    let object = Box::into_raw(object);
    if LIVE.publish(T::KIND, object).is_err() {
        warn(&format_args!("{object:?} is lost: no memory to remember it"));
    }
}

fn check<T: Object>(pointer: *const T, is_there: bool) -> Verb<()> {
    if is_there {
        return Ok(());
    }
    Err(invalid(format_args!(
        "{pointer:?} is no {:?}, or it was destroyed",
        T::KIND
    )))
}

/// The object behind a pointer of the program.
///
/// # Safety
/// The program does not destroy the object while the reference lives (V-1).
pub unsafe fn get<'a, T: Object>(pointer: *const T) -> Verb<&'a T> {
    check(pointer, LIVE.has(T::KIND, pointer))?;
    // SAFETY: published, not yet retired, of this type; the caller vouches for the time.
    Ok(unsafe { &*pointer })
}

/// What `f` has to say of the first object of a type of which it says anything. What it takes along it clones: another
/// thread may retire the object right after. `f` calls nothing that looks an object up.
pub fn find_map<T: Object, R>(f: impl Fn(&T) -> Option<R>) -> Option<R> {
    // SAFETY: published, of this type, and not retired while the table is locked.
    LIVE.find_map(T::KIND, |pointer| f(unsafe { &*(pointer as *const T) }))
}

/// Takes an object back from the program. Only one of two callers gets it.
pub fn retire<T: Object>(pointer: *mut T) -> Verb<Box<T>> {
    check(pointer, LIVE.retire(T::KIND, pointer))?;
    // SAFETY: it came from Box::into_raw in publish, and was in the table, as this type, until now.
    Ok(unsafe { Box::from_raw(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Thing {
        raw: CStruct<u32>,
        ours: u32,
    }

    impl Object for Thing {
        const KIND: Kind = Kind::Pd;
    }

    struct Other;

    impl Object for Other {
        const KIND: Kind = Kind::Mr;
    }

    #[test]
    fn the_program_writes_while_we_look() {
        let thing = publish(Thing {
            raw: CStruct::new(1),
            ours: 2,
        })
        .unwrap();
        // SAFETY: published, and not yet retired; the first field is the program's.
        unsafe {
            let ours = get(thing).unwrap();
            *thing.cast::<u32>() = 7;
            assert_eq!((*ours.raw.as_ptr(), ours.ours), (7, 2));
            *ours.raw.as_ptr() = 8;
            assert_eq!(*thing.cast::<u32>(), 8);
        }
        assert!(retire(thing.cast::<Other>()).is_err());
        assert_eq!(retire(thing).unwrap().ours, 2);
        assert!(retire(thing).is_err());
    }
}
