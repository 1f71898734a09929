//! Interrupts of a function as its client has set them up, and BAR 2: the MSI-X table and the pending bits.
//!
//! Who is told of a vector is said by eventfd (SET_IRQS), as with the kernel's VFIO: a virtual machine keeps the
//! table to itself. So an entry of the table masks its vector only once the client has written that entry's mask;
//! before, it reads as masked, as after any reset. A vector that is masked, there or by SET_IRQS, or whose function
//! may not send, is pending until it may.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use hca_vfio_user::{SetIrqs, irq, irq_data};

use super::config_space::{ConfigSpace, MSIX_BAR_BYTES, PBA_OFFSET};
use super::lane::Given;
use super::signal::Signals;
use crate::NUM_VECTORS;

const COUNT: usize = NUM_VECTORS as usize;
const ENTRY_BYTES: usize = 16;
/// In an entry: address (two words), data, and this.
const CONTROL_OFFSET: usize = 12;
const TABLE_BYTES: usize = COUNT * ENTRY_BYTES;

/// Bits of all vectors: one each.
type Bits = u32;
const _: () = assert!(COUNT <= Bits::BITS as usize && TABLE_BYTES <= PBA_OFFSET);

/// See the head of this file.
pub(super) struct Vectors {
    eventfds: Vec<Option<OwnedFd>>,
    /// Told when the card breaks.
    error: Option<OwnedFd>,
    masked: Bits,
    pending: Bits,
    table: Box<[u8; TABLE_BYTES]>,
    /// Entries whose mask the client has written.
    programmed: Bits,
}

/// Vectors of a message.
fn bits(range: Range<usize>) -> Bits {
    range.fold(0, |bits, vector| bits | 1 << vector)
}

impl Vectors {
    pub fn new() -> Self {
        let mut vectors = Self {
            eventfds: (0..COUNT).map(|_| None).collect(),
            error: None,
            masked: 0,
            pending: 0,
            table: Box::new([0; TABLE_BYTES]),
            programmed: 0,
        };
        vectors.reset();
        vectors
    }

    /// The function is reset: its table and pending bits are, too. Eventfds are the client's, and stay.
    pub fn reset(&mut self) {
        (self.pending, self.programmed) = (0, 0);
        self.table.fill(0);
        for entry in self.table.chunks_exact_mut(ENTRY_BYTES) {
            entry[CONTROL_OFFSET] = 1;
        }
    }

    /// The card raises a vector.
    pub fn raise(&mut self, signals: &Signals, config: &ConfigSpace, vector: u16) {
        if usize::from(vector) < COUNT {
            self.pending |= 1 << vector;
            self.release(signals, config);
        }
    }

    /// Sends what is pending and may be sent.
    pub fn release(&mut self, signals: &Signals, config: &ConfigSpace) {
        if self.pending == 0 || !config.masters_bus() || config.masks_vectors() {
            return;
        }
        for vector in 0..COUNT {
            if self.pending & !self.masks() & 1 << vector != 0 {
                self.pending &= !(1 << vector);
                // With nobody to tell it is lost.
                if let Some(eventfd) = &self.eventfds[vector] {
                    signals.raise(eventfd.as_fd());
                }
            }
        }
    }

    /// Vectors that are masked one by one.
    fn masks(&self) -> Bits {
        let by_table = (0..COUNT).filter(|vector| {
            self.programmed & 1 << vector != 0 && self.table[vector * ENTRY_BYTES + CONTROL_OFFSET] & 1 != 0
        });
        by_table.fold(self.masked, |bits, vector| bits | 1 << vector)
    }

    /// The card is broken.
    pub fn raise_error(&self, signals: &Signals) {
        if let Some(eventfd) = &self.error {
            signals.raise(eventfd.as_fd());
        }
    }

    /// Carries out a SET_IRQS; `data` is what follows it. Or an errno.
    pub fn set(&mut self, signals: &Signals, set: &SetIrqs, data: &[u8], given: Given) -> Result<(), i32> {
        let count = match set.index {
            irq::MSIX => COUNT,
            irq::ERR => 1,
            _ => 0,
        };
        let end = set.start.checked_add(set.count).ok_or(libc::EINVAL)?;
        if end as usize > count {
            return Err(libc::EINVAL);
        }
        let range = set.start as usize..end as usize;
        const KINDS: u32 = irq_data::NONE | irq_data::BOOL | irq_data::EVENTFD;
        let (kind, action) = (set.flags & KINDS, set.flags & !KINDS);
        match (kind, action) {
            (irq_data::EVENTFD, irq_data::TRIGGER) => self.set_eventfds(set.index, range, data, given),
            (irq_data::NONE, irq_data::TRIGGER) if set.count == 0 => {
                self.slots(set.index).fill_with(|| None);
                Ok(())
            }
            (irq_data::NONE, _) => self.act(signals, set.index, action, bits(range)),
            (irq_data::BOOL, _) => {
                let chosen = data.get(..range.len()).ok_or(libc::EINVAL)?;
                let chosen = range.zip(chosen).filter(|(_, byte)| **byte != 0);
                let chosen = chosen.fold(0, |bits, (vector, _)| bits | 1 << vector);
                self.act(signals, set.index, action, chosen)
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn slots(&mut self, index: u32) -> &mut [Option<OwnedFd>] {
        if index == irq::MSIX {
            &mut self.eventfds
        } else {
            std::slice::from_mut(&mut self.error)
        }
    }

    /// Masks, unmasks or fires vectors. The caller lets go what may then be sent.
    fn act(&mut self, signals: &Signals, index: u32, action: u32, chosen: Bits) -> Result<(), i32> {
        match (index, action) {
            (irq::MSIX, irq_data::MASK) => self.masked |= chosen,
            (irq::MSIX, irq_data::UNMASK) => self.masked &= !chosen,
            // As the kernel's does, to try out the way; masks are for what the card raises.
            (_, irq_data::TRIGGER) => {
                let slots = self.slots(index).iter().enumerate();
                for eventfd in
                    slots.filter_map(|(vector, slot)| slot.as_ref().filter(|_| chosen & 1 << vector != 0))
                {
                    signals.raise(eventfd.as_fd());
                }
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    /// Eventfds for a range. The numbers that may follow say which of its vectors get none (-1); without numbers all of
    /// them get one, or none does.
    fn set_eventfds(
        &mut self,
        index: u32,
        range: Range<usize>,
        data: &[u8],
        given: Given,
    ) -> Result<(), i32> {
        let fds = match given {
            Given::Nothing => Vec::new(),
            Given::Eventfds(fds) => fds,
            Given::Refused(errno) => return Err(errno),
            Given::Memory { .. } => return Err(libc::EINVAL),
        };
        let numbers = data.chunks_exact(4);
        let wanted: Vec<bool> = if data.is_empty() {
            vec![!fds.is_empty(); range.len()]
        } else if data.len() == 4 * range.len() {
            numbers.map(|number| number != [0xff; 4]).collect()
        } else {
            return Err(libc::EINVAL);
        };
        if wanted.iter().filter(|wanted| **wanted).count() != fds.len() {
            return Err(libc::EINVAL);
        }
        let mut fds = fds.into_iter();
        for (slot, wanted) in self.slots(index)[range].iter_mut().zip(wanted) {
            *slot = if wanted { fds.next() } else { None };
        }
        Ok(())
    }

    /// A read of BAR 2; None: not inside.
    pub fn read(&self, range: Range<usize>) -> Option<Vec<u8>> {
        let byte = |at: usize| match at {
            0..TABLE_BYTES => self.table[at],
            PBA_OFFSET.. => self
                .pending
                .to_le_bytes()
                .get(at - PBA_OFFSET)
                .copied()
                .unwrap_or(0),
            _ => 0,
        };
        (range.end <= MSIX_BAR_BYTES).then(|| range.map(byte).collect())
    }

    /// A write to BAR 2; None: not inside. Pending bits and what is between are read only.
    pub fn write(&mut self, start: usize, data: &[u8]) -> Option<()> {
        let end = start
            .checked_add(data.len())
            .filter(|end| *end <= MSIX_BAR_BYTES)?;
        for (at, value) in (start..end).zip(data).filter(|(at, _)| *at < TABLE_BYTES) {
            let (vector, place) = (at / ENTRY_BYTES, at % ENTRY_BYTES);
            self.table[at] = match place {
                // A message is a write of an aligned word.
                0 => value & !3,
                CONTROL_OFFSET => {
                    self.programmed |= 1 << vector;
                    value & 1
                }
                1..CONTROL_OFFSET => *value,
                _ => 0,
            };
        }
        Some(())
    }
}
