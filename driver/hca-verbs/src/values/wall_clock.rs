//! What time it was, by the host's clock, when the card's clock said something.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::values::lock::lock;

/// For so long both clocks are taken to run side by side.
const TRUSTED: Duration = Duration::from_millis(1);

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    seen: Instant,
    cycles: u64,
    /// Since 1970.
    wall_ns: u64,
}

impl Moment {
    /// The card's clock is read between two looks at the host's.
    fn look(read_cycles: impl FnOnce() -> u64) -> Self {
        let before_ns = wall_ns();
        let cycles = read_cycles();
        let seen = Instant::now();
        let after_ns = wall_ns();
        Self {
            seen,
            cycles,
            wall_ns: before_ns + after_ns.saturating_sub(before_ns) / 2,
        }
    }

    /// The host's time at a time of the card's, before or after.
    fn wall_ns_at(&self, cycles: u64, clock_khz: u32) -> u64 {
        let away = i128::from(cycles.wrapping_sub(self.cycles) as i64);
        let away_ns = away * 1_000_000 / i128::from(clock_khz.max(1));
        u64::try_from(i128::from(self.wall_ns) + away_ns).unwrap_or(0)
    }
}

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The relation of a card's clock to the host's, looked at again when it is asked for after a while.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    last: Mutex<Option<Moment>>,
}

impl WallClock {
    /// The host's time, in ns since 1970, at a time of the card's.
    pub fn wall_ns_at(&self, cycles: u64, clock_khz: u32, read_cycles: impl FnOnce() -> u64) -> u64 {
        let mut last = lock(&self.last);
        let moment = match *last {
            Some(moment) if moment.seen.elapsed() < TRUSTED => moment,
            _ => *last.insert(Moment::look(read_cycles)),
        };
        moment.wall_ns_at(cycles, clock_khz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KHZ: u32 = 250_000;

    /// V-59: before, at and after the moment; a clock that has wrapped; times before 1970 are none.
    #[test]
    fn times_around_a_moment() {
        let moment = Moment {
            seen: Instant::now(),
            cycles: 1000,
            wall_ns: 1_700_000_000_000_000_000,
        };
        let at = |cycles| moment.wall_ns_at(cycles, KHZ) as i64 - moment.wall_ns as i64;
        assert_eq!(at(1000), 0);
        assert_eq!(at(1250), 1000);
        assert_eq!(at(750), -1000);
        assert_eq!(at(0u64.wrapping_sub(250)), -5000);
        let early = Moment {
            wall_ns: 10,
            ..moment
        };
        assert_eq!(early.wall_ns_at(0, KHZ), 0);
    }

    /// The card is asked once, and again when the answer is old.
    #[test]
    fn the_card_is_asked_seldom() {
        let clock = WallClock::default();
        let before_ns = wall_ns();
        let first = clock.wall_ns_at(500, KHZ, || 500);
        assert!((before_ns..=wall_ns()).contains(&first));
        let moment = lock(&clock.last).expect("a moment");
        let is_old = |moment: &Moment| moment.seen.elapsed() >= TRUSTED;
        let again = clock.wall_ns_at(750, KHZ, || 1_000_000);
        let now = lock(&clock.last).expect("a moment");
        assert!(now.cycles == moment.cycles && again == first + 1000 || is_old(&moment));
        *lock(&clock.last) = Some(Moment {
            seen: moment
                .seen
                .checked_sub(2 * TRUSTED)
                .expect("the machine runs for longer"),
            ..moment
        });
        clock.wall_ns_at(750, KHZ, || 9999);
        assert_eq!(lock(&clock.last).expect("a moment").cycles, 9999);
    }
}
