//! Bytes of a packet whose memory is used again.

use std::ops::{Deref, DerefMut};

/// The payload of a packet. What becomes shorter keeps its room as it is, so that nothing is filled twice when a packet
/// becomes another, longer one.
#[derive(Default)]
pub struct Payload {
    room: Vec<u8>,
    len: usize,
}

impl Payload {
    /// No bytes.
    pub const fn new() -> Self {
        Self {
            room: Vec::new(),
            len: 0,
        }
    }

    /// Room for so many bytes, in which anything may stand.
    pub(crate) fn make_room(&mut self, len: usize) -> &mut [u8] {
        if self.room.len() < len {
            self.room.resize(len, 0);
        }
        self.len = len;
        self
    }

    /// It has none any more.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// What is behind so many is gone.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

impl DerefMut for Payload {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[..self.len]
    }
}

impl From<Vec<u8>> for Payload {
    fn from(room: Vec<u8>) -> Self {
        Self {
            len: room.len(),
            room,
        }
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        (**self).into()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_shorter_and_longer_is_as_long_as_asked() {
        let mut payload = Payload::from(vec![1, 2, 3, 4]);
        payload.truncate(2);
        assert_eq!(*payload, [1, 2]);
        payload.truncate(9);
        assert_eq!((payload.len(), payload.clone()), (2, vec![1, 2].into()));
        payload.clear();
        assert!(payload.is_empty());
        payload.make_room(6).fill(7);
        assert_eq!(*payload, [7; 6]);
    }
}
