//! Holds simulated time back to the wall clock, for the sake of peers that live by it.

use std::time::{Duration, Instant};

/// How far simulated time may run after it has stood still or been slow: it never makes up for more.
const CREDIT: Duration = Duration::from_millis(1);
/// Shortest sleep: what the system's timers can do.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// Lets a cycle pass for each period of the wall clock, and no more than a small credit at once.
pub(super) struct Pace {
    cycle_ps: u64,
    /// At `since`, time could go up to `granted`.
    since: Instant,
    granted: u64,
}

impl Pace {
    /// Time is `now` and may run for the whole credit.
    pub fn new(cycle_ps: u64, now: u64, wall: Instant) -> Self {
        let mut pace = Self {
            cycle_ps: cycle_ps.max(1),
            since: wall,
            granted: now,
        };
        pace.granted += pace.cycles(CREDIT);
        pace
    }

    fn cycles(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() * 1000 / u128::from(self.cycle_ps)).unwrap_or(u64::MAX)
    }

    /// Last cycle that time may go to.
    pub fn limit(&mut self, now: u64, wall: Instant) -> u64 {
        let earned = self.cycles(wall.saturating_duration_since(self.since));
        let limit = self.granted.saturating_add(earned);
        let most = now.saturating_add(self.cycles(CREDIT));
        if limit > most {
            // No catching up.
            (self.since, self.granted) = (wall, most);
            return most;
        }
        limit
    }

    /// Where time has come while nothing was due before cycle `due`: as far as the wall clock. That was no slow work,
    /// so none of it is lost.
    pub fn reached(&self, due: u64, wall: Instant) -> u64 {
        let earned = self.cycles(wall.saturating_duration_since(self.since));
        self.granted.saturating_add(earned).min(due.saturating_sub(1))
    }

    /// How long until a cycle may come, once [`Pace::limit`] has said that it may not.
    pub fn wait(&self, cycle: u64, wall: Instant) -> Duration {
        let cycles = u128::from(cycle.saturating_sub(self.granted));
        let after_ns = u64::try_from(cycles * u128::from(self.cycle_ps) / 1000).unwrap_or(u64::MAX);
        let left = Duration::from_nanos(after_ns).saturating_sub(wall.saturating_duration_since(self.since));
        left.max(SLEEP_MIN)
    }
}

/// A time in which nothing but timers runs: a cycle passes for each period of the wall clock.
pub(super) struct Rest {
    cycle_ps: u64,
    since: Instant,
    from: u64,
}

impl Rest {
    /// Begins in cycle `now`.
    pub fn new(cycle_ps: u64, now: u64, wall: Instant) -> Self {
        Self {
            cycle_ps: cycle_ps.max(1),
            since: wall,
            from: now,
        }
    }

    /// Last cycle that time may go to.
    pub fn limit(&self, wall: Instant) -> u64 {
        let passed = wall.saturating_duration_since(self.since).as_nanos() * 1000;
        let cycles = u64::try_from(passed / u128::from(self.cycle_ps)).unwrap_or(u64::MAX);
        self.from.saturating_add(cycles)
    }

    /// How long until a cycle may come; none where it may come now.
    pub fn wait(&self, cycle: u64, wall: Instant) -> Option<Duration> {
        let left = cycle.checked_sub(self.limit(wall)).filter(|left| *left > 0)?;
        let left_ns = u128::from(left) * u128::from(self.cycle_ps) / 1000;
        let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX));
        Some(left.max(SLEEP_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE_PS: u64 = 4000;
    const CREDIT_CYCLES: u64 = 250_000;

    #[test]
    fn timers_live_by_the_wall_clock() {
        let start = Instant::now();
        let rest = Rest::new(CYCLE_PS, 1000, start);
        let later = start + Duration::from_millis(4);
        assert_eq!(rest.limit(start), 1000);
        assert_eq!(rest.limit(later), 1_001_000);
        assert_eq!(rest.wait(1_001_000, later), None);
        assert_eq!(rest.wait(1_251_000, later), Some(Duration::from_millis(1)));
        assert_eq!(rest.wait(1_001_001, later), Some(SLEEP_MIN));
    }

    /// A time-out is looked at much less often than once in the credit.
    #[test]
    fn a_long_wait_is_not_lost() {
        let start = Instant::now();
        let mut pace = Pace::new(CYCLE_PS, 0, start);
        let due = 100 * CREDIT_CYCLES;
        assert_eq!(pace.limit(0, start), CREDIT_CYCLES);
        assert_eq!(pace.wait(due, start), Duration::from_millis(99));
        let half = start + Duration::from_millis(49);
        let now = pace.reached(due, half);
        assert_eq!(now, 50 * CREDIT_CYCLES);
        assert_eq!(pace.limit(now, half), now);
        let end = start + Duration::from_secs(1);
        let now = pace.reached(due, end);
        assert_eq!(now, due - 1);
        assert_eq!(pace.limit(now, end), now + CREDIT_CYCLES);
    }

    #[test]
    fn time_never_outruns_the_clock_and_never_catches_up() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut pace = Pace::new(CYCLE_PS, 0, start);
        assert_eq!(pace.limit(0, at(0)), CREDIT_CYCLES);
        // Used up: a cycle for each 4 ns.
        assert_eq!(pace.limit(CREDIT_CYCLES, at(100)), CREDIT_CYCLES + 25_000);
        let next = CREDIT_CYCLES + 25_000 + 250_000;
        assert_eq!(pace.wait(next, at(100)), Duration::from_millis(1));
        assert_eq!(pace.wait(CREDIT_CYCLES + 25_001, at(100)), SLEEP_MIN);
        // A second of rest earns a millisecond.
        let now = CREDIT_CYCLES + 25_000;
        assert_eq!(pace.limit(now, at(1_000_000)), now + CREDIT_CYCLES);
        assert_eq!(
            pace.limit(now + CREDIT_CYCLES, at(1_000_000)),
            now + CREDIT_CYCLES
        );
        assert_eq!(
            pace.limit(u64::MAX, at(2_000_000)),
            now + CREDIT_CYCLES + 250_000_000
        );
        assert_eq!(pace.limit(now, at(u64::from(u32::MAX))), now + CREDIT_CYCLES);
    }
}
