//! Times of lines: which is the next.

/// A line that has no time.
const NONE: u32 = u32::MAX;

/// A heap in which each line has at most one time, and knows where it is: a time that is set anew moves a little.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Times with their lines; none is before the one at half its place.
    heap: Vec<(u64, u32)>,
    /// Place of each line in the heap.
    places: Vec<u32>,
}

impl Timers {
    pub fn new(lines: usize) -> Self {
        Self {
            heap: Vec::new(),
            places: vec![NONE; lines],
        }
    }

    /// The first time, and whose it is.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Sets the time of a line, or takes it away.
    #[inline]
    pub fn set(&mut self, line: u32, at: Option<u64>) {
        let place = self.places[line as usize];
        match (place, at) {
            (NONE, None) => {}
            (NONE, Some(at)) => {
                self.heap.push((at, line));
                self.rise(self.heap.len() - 1);
            }
            (place, Some(at)) => {
                self.heap[place as usize].0 = at;
                self.settle(place as usize);
            }
            (place, None) => {
                self.places[line as usize] = NONE;
                self.heap.swap_remove(place as usize);
                if (place as usize) < self.heap.len() {
                    self.settle(place as usize);
                }
            }
        }
    }

    fn settle(&mut self, place: usize) {
        let place = self.rise(place);
        self.sink(place);
    }

    fn put(&mut self, place: usize, entry: (u64, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above] <= entry {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut below = 2 * place + 1;
            if below + 1 < self.heap.len() && self.heap[below + 1] < self.heap[below] {
                below += 1;
            }
            if below >= self.heap.len() || entry <= self.heap[below] {
                break;
            }
            self.put(place, self.heap[below]);
            place = below;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whatever is set in whatever order, the first is that of a sorted set.
    #[test]
    fn the_first_is_the_first() {
        let mut timers = Timers::new(32);
        let (mut all, mut times) = (BTreeSet::new(), [None; 32]);
        let mut random = 1u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (line, number) = ((random >> 59) as u32, random >> 40 & 0xff);
            let at = (number % 3 != 0).then_some(number);
            if let Some(before) = std::mem::replace(&mut times[line as usize], at) {
                all.remove(&(before, line));
            }
            all.extend(at.map(|at| (at, line)));
            timers.set(line, at);
            assert_eq!(timers.first(), all.first().copied());
        }
    }
}
