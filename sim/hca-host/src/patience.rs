//! How long the simulation waits for one client's memory. In ordinary life an access is there after some microseconds,
//! and to wait for it keeps simulated time true. Who makes it wait longer uses up what it has; then nobody waits for it
//! any more, and its accesses come when they come.

use std::time::{Duration, Instant};

/// The most that may be waited at once: longer than a busy machine lets a thread wait for a processor.
const CREDIT_MAX: Duration = Duration::from_millis(100);
/// One part in so many of the time that passes may be waited: a client can make everybody half as fast, no more. On a
/// machine whose processors others have, an honest one's memory takes most of that.
const SHARE: u32 = 2;

pub(crate) struct Patience {
    credit: Duration,
    since: Instant,
}

impl Patience {
    pub fn new() -> Self {
        Self {
            credit: CREDIT_MAX,
            since: Instant::now(),
        }
    }

    /// The longest wait that may begin now.
    pub fn limit(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.since);
        self.since = now;
        self.credit = (self.credit + passed / SHARE).min(CREDIT_MAX);
        self.credit
    }

    /// So long was waited.
    pub fn spend(&mut self, waited: Duration) {
        self.credit = self.credit.saturating_sub(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_time_may_be_waited() {
        let mut patience = Patience::new();
        let mut now = patience.since;
        assert_eq!(patience.limit(now), CREDIT_MAX);
        patience.spend(Duration::from_secs(1));
        assert_eq!(patience.limit(now), Duration::ZERO);
        now += Duration::from_millis(10);
        assert_eq!(patience.limit(now), Duration::from_millis(5));
        patience.spend(Duration::from_millis(1));
        now += Duration::from_secs(10);
        assert_eq!(patience.limit(now), CREDIT_MAX);
    }
}
