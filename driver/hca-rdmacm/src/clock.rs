//! The connection manager's clock. Time-outs are the host's time as long as the card keeps up, and none of it while the
//! card stands still: an answer that a stopped or slow simulator has yet to carry is not late. Without a card that says
//! what time it is (it is gone, or another library's) the host's clock alone counts.

use std::mem::offset_of;
use std::time::{Duration, Instant};

use crate::abi::*;

/// What the card must do in a second of the host for it to be one of the manager: 40 us of its own time, several times
/// what a request and its answer take. Simulators make some hundred thousand cycles per second.
const CYCLES_PER_SECOND: u64 = 10_000;

/// A look at the card's clock: how long two readings took, and what lay between them in cycles, which the second one
/// took alone.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    took: Duration,
    cycles: u64,
}

/// The card's clock in cycles.
///
/// # Safety
/// The context of an open device of libibverbs.
unsafe fn cycles_of(context: *mut ibv_context) -> Option<u64> {
    let mut values = ibv_values_ex {
        comp_mask: IBV_VALUES_MASK_RAW_CLOCK,
        ..Default::default()
    };
    // SAFETY: the caller's promise; a library of this version has the structure around each context.
    let code = unsafe {
        let extended = &*context
            .byte_sub(offset_of!(verbs_context, context))
            .cast::<verbs_context>();
        extended.query_rt_values?(context, &mut values)
    };
    (code == 0).then_some(values.raw_clock.tv_nsec as u64)
}

impl Look {
    /// Reads the card's clock. Takes as long as the card does to answer: not to be called under a lock.
    ///
    /// # Safety
    /// The context of an open device of libibverbs.
    pub unsafe fn take(context: *mut ibv_context) -> Option<Self> {
        let begin = Instant::now();
        // SAFETY: the caller's promise.
        let (first, second) = unsafe { (cycles_of(context)?, cycles_of(context)?) };
        // Each reading takes cycles: a clock that does not go is no clock.
        let cycles = second.checked_sub(first).filter(|cycles| *cycles > 0)?;
        Some(Self {
            took: begin.elapsed(),
            cycles,
        })
    }

    /// How much of `host` counts.
    fn share_of(self, host: Duration) -> Duration {
        let needed = self.took.as_nanos() * u128::from(CYCLES_PER_SECOND);
        let made = 2 * u128::from(self.cycles) * 1_000_000_000;
        if made >= needed {
            return host;
        }
        let share_ns = host.as_nanos() * made / needed;
        Duration::from_nanos(u64::try_from(share_ns).unwrap_or(u64::MAX))
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Time since it was made.
#[derive(Debug)]
pub struct Clock {
    passed: Duration,
    /// The host's time that `passed` has come to.
    counted: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            passed: Duration::ZERO,
            counted: Instant::now(),
        }
    }
}

impl Clock {
    /// The time, if the card keeps up: nothing is decided yet.
    pub fn host_ns(&self) -> u64 {
        ns(self.passed + self.counted.elapsed())
    }

    /// The time, where nothing says that the card is slow.
    pub fn now_ns(&mut self) -> u64 {
        self.pass_to(Instant::now(), None)
    }

    /// The time, with the card's part in it.
    pub fn now_ns_by(&mut self, look: Option<Look>) -> u64 {
        self.pass_to(Instant::now(), look)
    }

    fn pass_to(&mut self, host: Instant, look: Option<Look>) -> u64 {
        let elapsed = host.saturating_duration_since(self.counted);
        self.passed += look.map_or(elapsed, |look| look.share_of(elapsed));
        self.counted = host;
        ns(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SECOND_NS: u64 = 1_000_000_000;

    fn look(took: Duration, cycles: u64) -> Option<Look> {
        Some(Look { took, cycles })
    }

    /// Of a clock that nothing has passed of, after `host` and this look.
    fn after(host: Duration, look: Option<Look>) -> u64 {
        let mut clock = Clock::default();
        clock.pass_to(clock.counted + host, look)
    }

    #[test]
    fn a_card_that_keeps_up_lives_by_the_hosts_clock() {
        assert_eq!(after(SECOND, look(Duration::from_micros(200), 100)), SECOND_NS);
        assert_eq!(after(SECOND, look(Duration::from_millis(20), 100)), SECOND_NS);
    }

    /// CM-66: whatever a card makes in longer time is longer by as much.
    #[test]
    fn a_slow_card_makes_seconds_longer() {
        assert_eq!(
            after(SECOND, look(Duration::from_millis(200), 100)),
            SECOND_NS / 10
        );
        assert_eq!(after(20 * SECOND, look(20 * SECOND, 100)), SECOND_NS / 50);
    }

    /// One that is gone cannot make the host wait.
    #[test]
    fn without_a_card_the_hosts_clock_counts() {
        assert_eq!(after(SECOND, None), SECOND_NS);
    }

    #[test]
    fn what_has_passed_does_not_come_back() {
        let mut clock = Clock::default();
        let start = clock.counted;
        assert_eq!(clock.pass_to(start + SECOND, None), SECOND_NS);
        assert_eq!(
            clock.pass_to(start + 21 * SECOND, look(20 * SECOND, 1)),
            SECOND_NS + SECOND_NS / 5000
        );
        assert_eq!(clock.pass_to(start, None), SECOND_NS + SECOND_NS / 5000);
    }
}
