//! Numbers (QPNs, CQNs, keys), divided among the functions. No heap, bounded time.

use core::ops::Range;

use crate::{CmdResult, NUM_FUNCS, Quotas};
use hca_abi::AdminStatus;

/// Parts of a table, as `quotas` divides it: what one function takes, another cannot miss.
#[derive(Clone, Copy)]
pub struct Shares {
    /// Entries of a part.
    each: u32,
    /// First entries of each function's that are never given out.
    reserved: u32,
    quotas: Quotas,
}

impl Shares {
    /// Of `size` entries.
    pub const fn new(size: u32, reserved: u32, quotas: Quotas) -> Self {
        Self {
            each: size / quotas.parts(),
            reserved,
            quotas,
        }
    }

    /// What a function has; empty if it has no part.
    #[inline(never)]
    pub const fn of(&self, func: u8) -> Range<u32> {
        let Range { start, end } = self.quotas.of(func);
        if start == end {
            return 0..0;
        }
        self.each * start + self.reserved..self.each * end
    }

    /// How many.
    #[inline(never)]
    pub const fn limit(&self, func: u8) -> u32 {
        let own = self.of(func);
        own.end - own.start
    }
}

/// What a pool has beside its numbers, of whatever size it is: functions for it are in the image once.
#[derive(Clone)]
struct Head {
    shares: Shares,
    /// Where each function's search begins.
    next: [u32; NUM_FUNCS],
}

impl Head {
    #[inline(never)]
    const fn new(size: u32, reserved: u32, quotas: Quotas) -> Self {
        let shares = Shares::new(size, reserved, quotas);
        let mut next = [0; NUM_FUNCS];
        let mut func = 0;
        while func < NUM_FUNCS {
            next[func] = shares.of(func as u8).start;
            func += 1;
        }
        Self { shares, next }
    }

    /// Takes the first free number of the function that `find` finds in a range, from its last one on.
    #[inline]
    fn take(
        &mut self,
        used: &mut [u32],
        func: u8,
        find: impl Fn(&[u32], Range<u32>) -> Option<u32>,
    ) -> Option<u32> {
        let own = self.shares.of(func);
        let next = self.next.get_mut(usize::from(func))?;
        let from = (*next).clamp(own.start, own.start.max(own.end));
        let id = find(used, from..own.end).or_else(|| find(used, own.start..from))?;
        *used.get_mut((id / 32) as usize)? |= 1 << (id % 32);
        *next = id + 1;
        Some(id)
    }

    #[inline(never)]
    fn alloc(&mut self, used: &mut [u32], func: u8) -> Option<u32> {
        self.take(used, func, first_free)
    }

    /// Is a number one that the function has? Each command asks this of all that it names, so it is one piece.
    #[inline(never)]
    fn own(&self, used: &[u32], func: u8, id: u32) -> CmdResult<usize> {
        let is_own = self.shares.of(func).contains(&id);
        match used.get((id / 32) as usize) {
            Some(word) if is_own && word >> (id % 32) & 1 == 1 => Ok(id as usize),
            _ => Err((AdminStatus::BadHandle, id)),
        }
    }
}

/// The first number of a range that is not used.
#[inline(never)]
fn first_free(used: &[u32], range: Range<u32>) -> Option<u32> {
    let mut id = range.start;
    while id < range.end {
        let free = !used.get((id / 32) as usize)? >> (id % 32);
        if free & 1 != 0 {
            return Some(id);
        }
        id += if free == 0 {
            32 - id % 32
        } else {
            free.trailing_zeros()
        };
    }
    None
}

/// The first number of a range that is used.
#[inline(never)]
fn first_used(used: &[u32], range: Range<u32>) -> Option<u32> {
    let mut id = range.start;
    while id < range.end {
        let left = used.get((id / 32) as usize)? >> (id % 32);
        if left != 0 {
            id += left.trailing_zeros();
            return Some(id).filter(|id| *id < range.end);
        }
        id = (id / 32 + 1) * 32;
    }
    None
}

#[inline(never)]
fn is_used(used: &[u32], id: u32) -> bool {
    let word = used.get((id / 32) as usize);
    word.is_some_and(|word| word >> (id % 32) & 1 == 1)
}

#[inline(never)]
fn give_back(used: &mut [u32], id: u32) -> bool {
    let was_used = is_used(used, id);
    if let Some(word) = used.get_mut((id / 32) as usize) {
        *word &= !(1 << (id % 32));
    }
    was_used
}

/// A pool of the numbers below `WORDS * 32`. A function gets its lowest free number after the last one it was given,
/// so that a freed number rests as long as possible before it is used again (stale packets and keys die meanwhile).
#[derive(Clone)]
pub struct IdPool<const WORDS: usize> {
    head: Head,
    used: [u32; WORDS],
}

impl<const WORDS: usize> IdPool<WORDS> {
    /// `size` numbers, of each function's the first `reserved` not to be given out.
    pub const fn new(size: u32, reserved: u32, quotas: Quotas) -> Self {
        Self {
            head: Head::new(size, reserved, quotas),
            used: [0; WORDS],
        }
    }

    /// Divides it anew, before any is taken.
    pub fn share_out(&mut self, size: u32, reserved: u32, quotas: Quotas) {
        self.head = Head::new(size, reserved, quotas);
    }

    /// How the pool is divided.
    pub const fn quotas(&self) -> Quotas {
        self.head.shares.quotas
    }

    /// Numbers that a function can have at a time.
    pub const fn limit(&self, func: u8) -> u32 {
        self.head.shares.limit(func)
    }

    /// The numbers of a function, used or not.
    pub const fn of(&self, func: u8) -> Range<u32> {
        self.head.shares.of(func)
    }

    /// Takes a free number of the function.
    pub fn alloc(&mut self, func: u8) -> Option<u32> {
        self.head.alloc(&mut self.used, func)
    }

    /// The same among those that fit.
    pub fn alloc_where(&mut self, func: u8, fits: impl Fn(u32) -> bool) -> Option<u32> {
        let find = |used: &[u32], range: Range<u32>| {
            let mut from = range.start;
            loop {
                let id = first_free(used, from..range.end)?;
                if fits(id) {
                    return Some(id);
                }
                from = id + 1;
            }
        };
        self.head.take(&mut self.used, func, find)
    }

    /// Gives a number back; false when it was not in use.
    pub fn free(&mut self, id: u32) -> bool {
        give_back(&mut self.used, id)
    }

    /// Is the number in use?
    pub fn contains(&self, id: u32) -> bool {
        is_used(&self.used, id)
    }

    /// The first number of the function from `from` on that is in use.
    pub fn next_of(&self, func: u8, from: u32) -> Option<u32> {
        let own = self.of(func);
        first_used(&self.used, own.start.max(from)..own.end)
    }

    /// All numbers in use.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.used).flat_map(|(at, word)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 32).then_some(32 * at + bit)
            })
        })
    }

    /// Is it in use, and the function's?
    pub fn owns(&self, func: u8, id: u32) -> bool {
        self.own(func, id).is_ok()
    }

    /// The number as a place in a table, if the function has it.
    #[inline(always)]
    pub(crate) fn own(&self, func: u8, id: u32) -> CmdResult<usize> {
        self.head.own(&self.used, func, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn ids_are_unique_until_freed_and_rest_before_reuse() {
        let mut p = IdPool::<2>::new(64, 2, Quotas::equal(1));
        let ids: Vec<u32> = std::iter::from_fn(|| p.alloc(0)).collect();
        assert_eq!(ids, (2..64).collect::<Vec<_>>());
        assert_eq!(ids.len() as u32, p.limit(0));
        assert!(p.free(5) && !p.free(5) && !p.free(64));
        assert_eq!(p.alloc(0), Some(5));
        let mut q = IdPool::<2>::new(64, 0, Quotas::equal(1));
        let a = q.alloc(0).unwrap();
        q.free(a);
        assert_ne!(q.alloc(0), Some(a));
        assert_eq!(q.used().collect::<Vec<_>>(), [1]);
        assert_eq!(p.used().collect::<Vec<_>>(), (2..64).collect::<Vec<_>>());
    }

    /// Each function has its own numbers, all of them, whatever the others take.
    #[test]
    fn functions_do_not_share_numbers() {
        for functions in [1, 2, 3, 4, 7, 16]
            .into_iter()
            .filter(|functions| *functions <= NUM_FUNCS as u32)
        {
            let mut p = IdPool::<4>::new(100, 3, Quotas::equal(functions as u8));
            let each = 100 / functions;
            for func in 0..functions as u8 {
                let ids: Vec<u32> = std::iter::from_fn(|| p.alloc(func)).collect();
                let first = each * u32::from(func);
                assert_eq!(ids, (first + 3..first + each).collect::<Vec<_>>());
                assert!(ids.iter().all(|id| p.owns(func, *id) && !p.owns(func ^ 1, *id)));
            }
            for func in functions as u8..NUM_FUNCS as u8 + 1 {
                assert_eq!(
                    (p.alloc(func), p.of(func).len()),
                    (None, 0),
                    "{functions} functions"
                );
            }
        }
    }

    #[test]
    fn a_number_taken_last_is_found_again_after_the_end() {
        let mut p = IdPool::<1>::new(6, 0, Quotas::equal(2));
        for round in 0..200 {
            assert_eq!(p.alloc(1), Some(3 + round % 3));
            assert!(p.free(3 + round % 3));
        }
        let all = [p.alloc(1), p.alloc(1), p.alloc(1), p.alloc(1)];
        assert_eq!(all.iter().flatten().count(), 3);
    }

    /// Whoever frees all of a function's numbers finds them one after the other, and no one else's.
    #[test]
    fn numbers_in_use_are_found_in_order() {
        let mut p = IdPool::<4>::new(128, 2, Quotas::equal(2));
        let all: Vec<u32> = std::iter::from_fn(|| p.alloc(1)).collect();
        (2..64).for_each(|_| assert!(p.alloc(0).is_some()));
        for id in all.iter().filter(|id| ![66, 95, 96, 127].contains(*id)) {
            p.free(*id);
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(id) = p.next_of(1, from) {
            found.push(id);
            from = id + 1;
        }
        assert_eq!(found, [66, 95, 96, 127]);
        assert_eq!((p.next_of(0, 63), p.next_of(0, 64)), (Some(63), None));
    }
}
