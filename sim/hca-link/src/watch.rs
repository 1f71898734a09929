//! Packets seen on their way, for measurements that need no capture file.

/// Hears every data packet of a cable, whole: where it was put on the wire, and what came out at the other end. Can
/// change nothing.
pub trait Listener {
    /// A packet was pushed, before any fault.
    fn sent(&mut self, dir: crate::Dir, now_cycle: u64, bytes: &[u8]);
    /// A packet was handed out, behind the faults.
    fn delivered(&mut self, dir: crate::Dir, now_cycle: u64, bytes: &[u8]);
}

/// A packet as it was put on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// When its last beat was pushed, in picoseconds.
    pub sent_ps: u64,
    /// Its bytes.
    pub len_bytes: u32,
    /// Its first bytes; zeros after the end of a shorter one.
    pub head: [u8; 8],
}

/// What is kept of one direction. Bounded: what nobody takes is counted, not kept.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    on: bool,
    seen: Vec<Sighting>,
    lost: u64,
}

/// Sightings kept until they are taken.
const CAPACITY: usize = 1 << 20;

impl Watch {
    pub fn switch(&mut self, on: bool) {
        *self = Self {
            on,
            ..Self::default()
        };
    }

    pub fn is_on(&self) -> bool {
        self.on
    }

    pub fn see(&mut self, sent_ps: u64, bytes: &[u8]) {
        if !self.on {
            return;
        }
        if self.seen.len() == CAPACITY {
            self.lost += 1;
            return;
        }
        let mut head = [0; 8];
        let known = bytes.len().min(head.len());
        head[..known].copy_from_slice(&bytes[..known]);
        let len_bytes = bytes.len() as u32;
        self.seen.push(Sighting {
            sent_ps,
            len_bytes,
            head,
        });
    }

    pub fn take(&mut self) -> (Vec<Sighting>, u64) {
        (std::mem::take(&mut self.seen), std::mem::take(&mut self.lost))
    }
}
