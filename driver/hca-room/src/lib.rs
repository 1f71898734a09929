//! Memory that a process may not have: what a C library needs for an object is had, or the call fails with ENOMEM.
//!
//! Rust ends the process where a `Vec`, `Box` or `Arc` gets no memory. So what a program sizes is made by [`slice()`],
//! objects by [`boxed`], tables reserve before they take. What is left is small and of constant size (an `Arc`, a
//! list of three): whoever makes it asks first whether there is [`ROOM_BYTES`] for all of it ([`require`]).
//!
//! Between the question and the answer another thread of the program may take what was there. Then the process ends, as
//! it would with the next `malloc` that nobody checks.

pub mod limited;

use std::alloc::{Layout, alloc};
use std::fmt;
use std::hint::black_box;

/// What a call may need beside what its arguments size.
pub const ROOM_BYTES: usize = 60 << 10;

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// For so much.
    pub len_bytes: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "no memory for {} bytes: free some, or raise the limit (ulimit -v, ulimit -d)",
            self.len_bytes
        )
    }
}

impl std::error::Error for NoRoom {}

/// Is there room for what a call makes?
pub fn require() -> Result<(), NoRoom> {
    let mut probe = Vec::<u8>::new();
    reserve(&mut probe, ROOM_BYTES)?;
    // A compiler may leave out an allocation that nobody uses.
    black_box(probe.as_mut_ptr());
    Ok(())
}

/// Room for so many more, exactly.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), NoRoom> {
    let len_bytes = more.saturating_mul(size_of::<T>());
    list.try_reserve_exact(more).map_err(|_| NoRoom { len_bytes })
}

/// `len` values, of which there is room for what follows.
pub fn slice<T>(len: usize, value: impl FnMut(usize) -> T) -> Result<Box<[T]>, NoRoom> {
    let mut list = Vec::new();
    reserve(&mut list, len)?;
    require()?;
    list.extend((0..len).map(value));
    Ok(list.into_boxed_slice())
}

/// A copy, and room for what follows.
pub fn copied<T: Clone>(from: &[T]) -> Result<Vec<T>, NoRoom> {
    Ok(slice(from.len(), |i| from[i].clone())?.into_vec())
}

/// A value on the heap.
pub fn boxed<T>(value: T) -> Result<Box<T>, NoRoom> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // Needs no memory.
        return Ok(Box::new(value));
    }
    // SAFETY: not of no bytes.
    let at = unsafe { alloc(layout) }.cast::<T>();
    if at.is_null() {
        return Err(NoRoom {
            len_bytes: layout.size(),
        });
    }
    // SAFETY: new, of this layout, by the allocator that a Box gives it back to.
    unsafe {
        at.write(value);
        Ok(Box::from_raw(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_room_for() {
        require().unwrap();
        assert_eq!(*boxed(7u64).unwrap(), 7);
        boxed(()).unwrap();
        assert_eq!(*slice(3, |i| i * 2).unwrap(), [0, 2, 4]);
        assert_eq!(copied(&[1, 2]).unwrap(), [1, 2]);
    }

    #[test]
    fn what_there_is_none_for() {
        let refused = slice(usize::MAX / 8, |i| i as u64).unwrap_err();
        assert_eq!(refused.len_bytes, usize::MAX / 8 * 8);
        assert!(refused.to_string().contains("ulimit"), "{refused}");
    }
}
