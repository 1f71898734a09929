//! The key table of a function: rows of memory keys in host memory, of which the card reads what it needs. It grows
//! with the keys; a row that is given back rests until all that were never used, or have rested longer, are taken.

use std::collections::{BTreeSet, VecDeque};

use hca_abi::{MAX_LOG_KEYS, Mpt};
use hca_dev::DmaBuf;

/// log2 of the rows of a function's first table: 64 KiB.
pub(super) const FIRST_LOG_SIZE: u8 = 10;

/// Where a function's keys are, and which rows are free.
#[derive(Default)]
pub(crate) struct KeyTable {
    pub(super) buf: Option<DmaBuf>,
    pub(super) log_size: u8,
    /// The first row that was never used; 0 is none.
    pub(super) fresh: u32,
    /// Rows that were given back, the first one longest ago.
    pub(super) resting: VecDeque<u32>,
    /// Rows that the card writes, when a work request binds, registers or invalidates: those of memory windows and of
    /// regions for fast registration.
    pub(super) written: BTreeSet<u32>,
}

/// Row of a key.
pub(super) fn row_of(key: u32) -> u32 {
    (key >> 8) & ((1 << MAX_LOG_KEYS) - 1)
}

impl KeyTable {
    /// A row for a new key; none: the table has to grow.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.buf.as_ref()?;
        if self.fresh >> self.log_size == 0 {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.resting.pop_front()
    }

    pub(super) fn row(&self, row: u32) -> Mpt {
        let mut mpt = Mpt::new();
        if let Some(buf) = &self.buf {
            buf.read_bytes(row as usize * Mpt::BYTES, &mut mpt.0);
        }
        mpt
    }

    /// Windows that are bound to a region.
    pub(super) fn bound_to(&self, lkey: u32) -> Vec<u32> {
        let is_bound = |row: &u32| {
            let mpt = self.row(*row);
            mpt.is_window() && mpt.valid() && mpt.region() == row_of(lkey)
        };
        self.written.iter().copied().filter(is_bound).collect()
    }

    /// Its memory, to be released; it is as new then.
    pub(super) fn end(&mut self) -> Option<DmaBuf> {
        std::mem::take(self).buf
    }
}
