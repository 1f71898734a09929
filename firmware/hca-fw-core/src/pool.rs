//! Fixed pools of numbers (QPNs, CQNs, keys) and of ranges (MTT entries). No heap, bounded time.

/// A pool of the numbers `0..WORDS * 64`, lowest free number first after the last one given out, so that a
/// freed number rests as long as possible before it is used again (stale packets and keys die meanwhile).
#[derive(Clone)]
pub struct IdPool<const WORDS: usize> {
    used: [u64; WORDS],
    next: u32,
}

impl<const WORDS: usize> IdPool<WORDS> {
    /// A pool whose first `reserved` numbers are never given out.
    pub const fn new(reserved: u32) -> Self {
        let mut used = [0; WORDS];
        let mut i = 0;
        while i < reserved as usize && i < WORDS * 64 {
            used[i / 64] |= 1 << (i % 64);
            i += 1;
        }
        Self { used, next: reserved }
    }

    /// A pool whose first `reserved` numbers and those from `limit` on are never given out.
    pub const fn with_limit(reserved: u32, limit: u32) -> Self {
        let mut pool = Self::new(reserved);
        let mut i = limit as usize;
        while i < WORDS * 64 {
            pool.used[i / 64] |= 1 << (i % 64);
            i += 1;
        }
        pool
    }

    /// Numbers in the pool, used or not.
    pub const fn capacity(&self) -> u32 {
        (WORDS * 64) as u32
    }

    /// Takes a free number.
    pub fn alloc(&mut self) -> Option<u32> {
        let cap = self.capacity();
        for step in 0..cap {
            let id = (self.next.wrapping_add(step)) % cap;
            if !self.contains(id) {
                self.used[(id / 64) as usize] |= 1 << (id % 64);
                self.next = (id + 1) % cap;
                return Some(id);
            }
        }
        None
    }

    /// Gives a number back; false when it was not in use.
    pub fn free(&mut self, id: u32) -> bool {
        if !self.contains(id) {
            return false;
        }
        self.used[(id / 64) as usize] &= !(1 << (id % 64));
        true
    }

    /// Is the number in use?
    pub fn contains(&self, id: u32) -> bool {
        id < self.capacity() && self.used[(id / 64) as usize] >> (id % 64) & 1 == 1
    }
}

/// First-fit allocator of ranges in a table of `total` entries, kept as up to `N` used extents sorted by start.
#[derive(Clone)]
pub struct RangePool<const N: usize> {
    extents: [(u32, u32); N],
    len: usize,
    total: u32,
}

impl<const N: usize> RangePool<N> {
    /// An empty pool over `0..total`.
    pub const fn new(total: u32) -> Self {
        Self {
            extents: [(0, 0); N],
            len: 0,
            total,
        }
    }

    /// Takes `count` consecutive entries; `None` when no gap is wide enough.
    pub fn alloc(&mut self, count: u32) -> Option<u32> {
        if count == 0 || self.len == N {
            return None;
        }
        let mut start = 0u32;
        for i in 0..=self.len {
            let end = if i < self.len {
                self.extents[i].0
            } else {
                self.total
            };
            if end - start >= count {
                self.extents.copy_within(i..self.len, i + 1);
                self.extents[i] = (start, count);
                self.len += 1;
                return Some(start);
            }
            if i < self.len {
                start = self.extents[i].0 + self.extents[i].1;
            }
        }
        None
    }

    /// Gives back the range that starts at `start`; false when there is none.
    pub fn free(&mut self, start: u32) -> bool {
        let Some(i) = self.extents[..self.len].iter().position(|e| e.0 == start) else {
            return false;
        };
        self.extents.copy_within(i + 1..self.len, i);
        self.len -= 1;
        true
    }

    /// Entries in use.
    #[cfg(test)]
    pub fn used(&self) -> u32 {
        self.extents[..self.len].iter().map(|e| e.1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn ids_are_unique_until_freed_and_rest_before_reuse() {
        let mut p = IdPool::<1>::new(2);
        let ids: Vec<u32> = std::iter::from_fn(|| p.alloc()).collect();
        assert_eq!(ids, (2..64).collect::<Vec<_>>());
        assert!(p.free(5) && !p.free(5) && !p.free(64));
        assert_eq!(p.alloc(), Some(5));
        let mut q = IdPool::<1>::new(0);
        let a = q.alloc().unwrap();
        q.free(a);
        assert_ne!(q.alloc(), Some(a));
    }

    #[test]
    fn numbers_beyond_the_limit_are_never_given_out() {
        let mut p = IdPool::<1>::with_limit(0, 3);
        for round in 0..200 {
            let id = p.alloc();
            assert_eq!(id, Some(round % 3));
            assert!(p.free(round % 3));
        }
        assert_eq!(
            [p.alloc(), p.alloc(), p.alloc(), p.alloc()]
                .iter()
                .flatten()
                .count(),
            3
        );
    }

    proptest! {
        #[test]
        fn ranges_never_overlap(ops in prop::collection::vec((any::<bool>(), 1u32..40), 1..200)) {
            let mut p = RangePool::<16>::new(256);
            let mut live: Vec<(u32, u32)> = Vec::new();
            for (take, n) in ops {
                if take {
                    if let Some(s) = p.alloc(n) {
                        prop_assert!(s + n <= 256);
                        prop_assert!(live.iter().all(|&(b, m)| s + n <= b || b + m <= s));
                        live.push((s, n));
                    }
                } else if !live.is_empty() {
                    let (s, _) = live.remove(n as usize % live.len());
                    prop_assert!(p.free(s));
                }
                prop_assert_eq!(p.used(), live.iter().map(|e| e.1).sum::<u32>());
            }
        }
    }
}
