//! A ring of WQEs, as firmware checks and keeps it.

use hca_abi::{CreateQpCmd, MAX_LOG_WQ_SIZE, MAX_LOG_WQE_STRIDE, MIN_WQE_STRIDE_BYTES};

use crate::CmdResult;
use crate::objects::{require, require_size};
use crate::probe::Probes;

/// Bits of the size in `Ring::to_word`.
const SIZE_BITS: u32 = 5;
const _: () = assert!(MAX_LOG_WQ_SIZE < 1 << SIZE_BITS && MAX_LOG_WQE_STRIDE < 4);
const _: () = assert!(MIN_WQE_STRIDE_BYTES == 2 << SIZE_BITS);

/// A ring of WQEs: where it is, how long, and how far one is from the next.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    pub base: u64,
    pub log_size: u8,
    pub log_stride: u8,
}

impl Ring {
    /// Of a queue that a QP does not have.
    pub const NONE: Self = Self {
        base: 0,
        log_size: 0,
        log_stride: 0,
    };

    pub fn of_sends(cmd: &CreateQpCmd) -> Self {
        Self {
            base: cmd.sq_base(),
            log_size: cmd.sq_log_size(),
            log_stride: cmd.sq_log_stride(),
        }
    }

    pub fn of_receives(cmd: &CreateQpCmd) -> Self {
        Self {
            base: cmd.rq_base(),
            log_size: cmd.rq_log_size(),
            log_stride: cmd.rq_log_stride(),
        }
    }

    /// It is not longer, and its WQEs are not, than the card knows.
    pub fn check_size(&self) -> CmdResult {
        let (size, stride) = (u32::from(self.log_size), u32::from(self.log_stride));
        require_size(size <= MAX_LOG_WQ_SIZE, size)?;
        require_size(stride <= MAX_LOG_WQE_STRIDE, stride)
    }

    /// It lies where it may; `probes` show whether it can be read. Its size has been checked.
    pub fn check_place(&self, probes: &mut Probes) -> CmdResult {
        let stride = MIN_WQE_STRIDE_BYTES << self.log_stride;
        require(self.base as u32 & (stride - 1) == 0, 0)?;
        probes.add(self.base, stride << self.log_size)
    }

    /// Bus address behind it. Whoever reads there is refused by the host, if nothing is there.
    pub fn end(&self) -> u64 {
        self.base
            .wrapping_add(u64::from(MIN_WQE_STRIDE_BYTES << self.log_stride) << self.log_size)
    }

    /// In one word: the bits of a base below its stride are 0. The highest of them is set here, and tells the stride;
    /// the lowest ones are the size.
    pub const fn to_word(self) -> u64 {
        self.base | (1 << SIZE_BITS << (self.log_stride & 3) | self.log_size as u32) as u64
    }

    /// Back again; also of the 0 that a record begins with.
    pub const fn of_word(word: u64) -> Self {
        let low = word as u32;
        let marked = low >> SIZE_BITS;
        let base = marked & marked.wrapping_sub(1);
        Self {
            base: word >> 32 << 32 | (base << SIZE_BITS) as u64,
            log_size: (low & ((1 << SIZE_BITS) - 1)) as u8,
            log_stride: (marked.trailing_zeros() & 3) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rings of every size and stride, at the ends of the address space.
    #[test]
    fn rings_are_what_they_were() {
        let nothing = Ring::of_word(0);
        assert_eq!((nothing.base, nothing.log_size, nothing.log_stride), (0, 0, 0));
        for (log_size, log_stride) in
            (0..=MAX_LOG_WQ_SIZE).flat_map(|s| (0..=MAX_LOG_WQE_STRIDE).map(move |t| (s, t)))
        {
            for base in [0, 64 << log_stride, u64::MAX << (6 + log_stride)] {
                let (log_size, log_stride) = (log_size as u8, log_stride as u8);
                let ring = Ring {
                    base,
                    log_size,
                    log_stride,
                };
                let back = Ring::of_word(ring.to_word());
                assert_eq!(
                    (back.base, back.log_size, back.log_stride),
                    (base, log_size, log_stride)
                );
            }
        }
    }
}
