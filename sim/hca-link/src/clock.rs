//! Time in picoseconds, and a line that is busy for exact times.

/// Picoseconds in a nanosecond.
pub(crate) const PS_PER_NS: u64 = 1_000;

/// Cycles after the present one for which a transmitter may already have handed out data. A card
/// sees `ready` with some delay; this much buffering keeps the line busy all the same.
const TX_BUFFER_CYCLES: u64 = 2;

/// Serialises bytes at a rate, exactly: fractions of a picosecond are carried over.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    rate_bits_per_s: u128,
    cycle_ps: u64,
    free_ps: u64,
    remainder: u128,
}

impl Line {
    pub(crate) fn new(rate_bits_per_s: u64, cycle_ps: u64) -> Self {
        Self {
            rate_bits_per_s: u128::from(rate_bits_per_s),
            cycle_ps,
            free_ps: 0,
            remainder: 0,
        }
    }

    /// Start of a cycle.
    #[inline]
    pub(crate) fn cycle_start_ps(&self, cycle: u64) -> u64 {
        cycle.saturating_mul(self.cycle_ps)
    }

    /// First cycle that starts at or after a time.
    #[inline]
    pub(crate) fn cycle_at_or_after(&self, time_ps: u64) -> u64 {
        time_ps.div_ceil(self.cycle_ps)
    }

    /// True where data handed over in this cycle does not pile up in front of the line.
    #[inline]
    pub(crate) fn ready(&self, now_cycle: u64) -> bool {
        self.free_ps <= self.cycle_start_ps(now_cycle.saturating_add(TX_BUFFER_CYCLES))
    }

    /// First cycle in which [`Line::ready`] is true.
    #[inline]
    pub(crate) fn ready_cycle(&self) -> u64 {
        self.cycle_at_or_after(self.free_ps)
            .saturating_sub(TX_BUFFER_CYCLES)
    }

    /// Time at which the line has sent everything it was given.
    #[inline]
    pub(crate) fn free_ps(&self) -> u64 {
        self.free_ps
    }

    /// Time of `bytes` at the line rate, rounded down.
    #[inline]
    pub(crate) fn duration_ps(&self, bytes: u64) -> u64 {
        if let Some(bit_ps) = bytes.checked_mul(8_000_000_000_000)
            && let Ok(rate) = u64::try_from(self.rate_bits_per_s)
        {
            return bit_ps / rate;
        }
        (u128::from(bytes) * 8_000_000_000_000 / self.rate_bits_per_s) as u64
    }

    /// Takes bytes handed over in a cycle; returns how long the line is busy with them.
    #[inline]
    pub(crate) fn send(&mut self, now_cycle: u64, bytes: u64) -> u64 {
        let now_ps = self.cycle_start_ps(now_cycle);
        self.free_ps = self.free_ps.max(now_ps);
        let (busy_ps, remainder) = self.busy(bytes);
        self.remainder = remainder;
        self.free_ps = self.free_ps.saturating_add(busy_ps);
        busy_ps
    }

    /// How long the line is busy with so many bytes, and what is left over of a picosecond.
    #[inline]
    fn busy(&self, bytes: u64) -> (u64, u128) {
        let bit_ps = bytes.checked_mul(8_000_000_000_000);
        // Numbers that are not too large are divided in an instruction.
        if let (Some(bit_ps), Ok(remainder), Ok(rate)) = (
            bit_ps,
            u64::try_from(self.remainder),
            u64::try_from(self.rate_bits_per_s),
        ) && let Some(bit_ps) = bit_ps.checked_add(remainder)
        {
            return (bit_ps / rate, u128::from(bit_ps % rate));
        }
        let bit_ps = u128::from(bytes) * 8_000_000_000_000 + self.remainder;
        let busy_ps = (bit_ps / self.rate_bits_per_s) as u64;
        (busy_ps, bit_ps % self.rate_bits_per_s)
    }

    /// First cycle in which [`Line::ready`] is true when so many bytes more have been sent behind each other.
    pub(crate) fn ready_cycle_behind(&self, bytes: u64) -> u64 {
        let free_ps = self.free_ps.saturating_add(self.busy(bytes).0);
        self.cycle_at_or_after(free_ps).saturating_sub(TX_BUFFER_CYCLES)
    }

    /// Keeps the line from sending for a while.
    pub(crate) fn pause(&mut self, pause_ps: u64) {
        self.free_ps = self.free_ps.saturating_add(pause_ps);
    }
}
