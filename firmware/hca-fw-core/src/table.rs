//! Tables of records by number.

use core::ops::{Deref, DerefMut, Index, IndexMut};

/// `N` records, a power of two. A number beyond them is a fault of the firmware, and natively a panic that tests see.
/// On the soft core the bits that are too many do not count: no command brings it there, a record that is not of this
/// table cannot be reached, and a panic would restart the firmware into the same panic.
pub(crate) struct Table<T, const N: usize>([T; N]);

impl<T, const N: usize> Table<T, N> {
    pub const fn new(records: [T; N]) -> Self {
        const { assert!(N.is_power_of_two()) }
        Self(records)
    }
}

const fn place<const N: usize>(number: usize) -> usize {
    if cfg!(feature = "std") { number } else { number % N }
}

impl<T, const N: usize> Index<usize> for Table<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        &self.0[place::<N>(number)]
    }
}

impl<T, const N: usize> IndexMut<usize> for Table<T, N> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.0[place::<N>(number)]
    }
}

impl<T, const N: usize> Deref for Table<T, N> {
    type Target = [T; N];

    fn deref(&self) -> &[T; N] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for Table<T, N> {
    fn deref_mut(&mut self) -> &mut [T; N] {
        &mut self.0
    }
}
