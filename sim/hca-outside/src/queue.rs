//! Frames on their way between two threads; bounded.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frames that a queue holds: more than a peer sends before it waits for an answer.
const FRAMES_MAX: usize = 4096;
/// Their bytes.
const BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
struct Inner {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// A bounded queue of frames.
#[derive(Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    /// Frames in it; a look costs no lock.
    len: AtomicUsize,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is the only one: whoever takes them may sleep.
    First,
    /// It is behind others.
    Behind,
    /// There was no room.
    Dropped,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics between changes that belong together.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, frame: Vec<u8>) -> Pushed {
        let mut inner = self.lock();
        if inner.frames.len() >= FRAMES_MAX || inner.bytes + frame.len() > BYTES_MAX {
            return Pushed::Dropped;
        }
        inner.bytes += frame.len();
        inner.frames.push_back(frame);
        let len = inner.frames.len();
        self.len.store(len, Ordering::SeqCst);
        if len == 1 { Pushed::First } else { Pushed::Behind }
    }

    pub fn pop(&self) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let mut inner = self.lock();
        let frame = inner.frames.pop_front()?;
        inner.bytes -= frame.len();
        self.len.store(inner.frames.len(), Ordering::SeqCst);
        Some(frame)
    }

    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::SeqCst) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold() {
        let queue = Queue::default();
        assert_eq!(queue.push(vec![1]), Pushed::First);
        for _ in 1..FRAMES_MAX {
            assert_eq!(queue.push(vec![2]), Pushed::Behind);
        }
        assert_eq!(queue.push(vec![3]), Pushed::Dropped);
        assert_eq!(queue.pop(), Some(vec![1]));
        (1..FRAMES_MAX).for_each(|_| assert_eq!(queue.pop(), Some(vec![2])));
        assert_eq!((queue.is_empty(), queue.pop()), (true, None));
        let large = BYTES_MAX / 2 + 1;
        assert_eq!(queue.push(vec![0; large]), Pushed::First);
        assert_eq!(queue.push(vec![0; large]), Pushed::Dropped);
        assert_eq!(queue.pop().map(|frame| frame.len()), Some(large));
        assert_eq!(queue.push(vec![0; large]), Pushed::First);
    }
}
