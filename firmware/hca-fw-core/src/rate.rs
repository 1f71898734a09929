//! Rates of paths: how long a byte takes, and which QPs share a rate. The hardware knows groups of QPs; firmware puts
//! all QPs of a function with a static rate to one destination into one group, for the rest after a packet belongs to
//! the destination, not to the QP (RATE-4), and a paced QP into a group of its own (RATE-6). Functions do not share
//! groups: one would slow the other down.

use crate::features::has;
use crate::pool::Shares;
use crate::table::Table;
use crate::{NUM_FUNCS, Quotas};
use hca_abi::{MAX_RATE_INTERVAL, RATE_GROUPS, RATE_GROUPS_LEAST, StaticRate, feature};
use hca_agents::divide;

/// Rate of the port, 4x EDR, in kbit/s.
pub(crate) const PORT_KBPS: u32 = 100_000_000;
/// `rate_interval` times kbit/s: 2^-16 cycles per byte at 250 MHz.
const INTERVAL_KBPS: u64 = 250_000 * 8 * 65_536;
/// The slowest rate that there is, rounded up to whole Mbit/s.
pub(crate) const MIN_KBPS: u32 = (INTERVAL_KBPS / MAX_RATE_INTERVAL as u64).next_multiple_of(1000) as u32;
/// Those of this card: two of each function at least.
pub(crate) const GROUPS: u32 = if has(feature::CONGESTION) || NUM_FUNCS > 4 {
    RATE_GROUPS
} else {
    RATE_GROUPS_LEAST
};

/// Who shares a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateKey {
    /// QPs to a LID, through a port.
    Lid(u8, u16),
    /// QPs to a MAC address, through a port.
    Mac(u8, [u8; 6]),
    /// One QP.
    Qp(u32),
}

/// A rate that packets of a QP must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub key: RateKey,
    /// `rate_interval` of the context.
    pub interval: u32,
}

#[derive(Clone, Copy)]
struct Group {
    key: RateKey,
    interval: u32,
    users: u16,
}

/// The groups in use. Number 0 is none.
pub(crate) struct RateGroups {
    groups: Table<Option<Group>, { GROUPS as usize }>,
    shares: Shares,
}

impl RateGroups {
    pub const fn new(quotas: Quotas) -> Self {
        Self {
            groups: Table::new([None; GROUPS as usize]),
            shares: Shares::new(GROUPS, 1, quotas),
        }
    }

    /// Divides them anew, before any is used.
    pub fn share_out(&mut self, quotas: Quotas) {
        self.shares = Shares::new(GROUPS, 1, quotas);
    }

    /// A group for one more QP; 0 without a rate. When all are taken, destinations of the same rate share one: that is
    /// slower than it need be, never too fast. `None`: there is none to share.
    fn join(&mut self, func: u8, rate: Option<Rate>) -> Option<u8> {
        let Some(rate) = rate else {
            return Some(0);
        };
        let own = self.shares.of(func);
        let own = || own.start as usize..own.end as usize;
        let groups = &mut self.groups;
        let same = |g: &Option<Group>| g.is_some_and(|g| g.key == rate.key);
        let shared =
            |g: &Option<Group>| g.filter(|g| g.interval == rate.interval && !matches!(g.key, RateKey::Qp(_)));
        let index = own()
            .find(|i| same(&groups[*i]))
            .or_else(|| own().find(|i| groups[*i].is_none()))
            .or_else(|| {
                own()
                    .filter(|_| !matches!(rate.key, RateKey::Qp(_)))
                    .filter_map(|i| shared(&groups[i]).map(|g| (g.users, i)))
                    .min()
                    .map(|(_, i)| i)
            })?;
        let group = groups[index].get_or_insert(Group {
            key: rate.key,
            interval: rate.interval,
            users: 0,
        });
        group.users += 1;
        Some(index as u8)
    }

    /// One QP less in a group.
    pub fn leave(&mut self, group: u8) {
        if let Some(slot) = self.groups.get_mut(usize::from(group))
            && let Some(users) = slot.as_mut().map(|g| &mut g.users)
        {
            *users -= 1;
            if *users == 0 {
                *slot = None;
            }
        }
    }

    /// Moves a QP from the group `old` to one of the rate `new`. `None`: there is none for it, and nothing has changed.
    pub fn change(&mut self, func: u8, old: u8, new: Option<Rate>) -> Option<u8> {
        let before = self.groups.get(usize::from(old)).copied().flatten();
        self.leave(old);
        let joined = self.join(func, new);
        if joined.is_none()
            && let Some(slot) = self.groups.get_mut(usize::from(old))
        {
            *slot = before;
        }
        joined
    }
}

/// RATE-8: `rate_interval` of a static rate; 0: that of the port or more, so nothing to hold. `None`: no such rate.
pub(crate) fn static_interval(static_rate: u8) -> Option<u32> {
    let rate = StaticRate::try_from(static_rate).ok()?.in_100mbps();
    Some(rate.map_or(0, |rate| pacing_interval(rate * 100_000).unwrap_or(0)))
}

/// RATE-6: `rate_interval` of a rate in kbit/s; 0: no limit. `None`: slower than can be.
pub(crate) fn pacing_interval(kbps: u32) -> Option<u32> {
    match kbps {
        0 | PORT_KBPS.. => Some(0),
        1..MIN_KBPS => None,
        _ => Some(divide(INTERVAL_KBPS + u64::from(kbps) - 1, kbps) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// RATE-7, RATE-8: cycles of a packet of 4096 bytes, times the rate, are those at the port's rate.
    #[test]
    fn intervals_of_static_rates() {
        for (code, gbps) in [
            (2, 2.5),
            (5, 5.0),
            (3, 10.0),
            (4, 30.0),
            (7, 40.0),
            (12, 56.0),
            (15, 25.0),
            (20, 50.0),
        ] {
            let cycles = f64::from(static_interval(code).unwrap()) / 65536.0 * 4096.0;
            let wanted = 4096.0 / 50.0 * 100.0 / gbps;
            assert!(
                cycles >= wanted && cycles < wanted * 1.001,
                "rate code {code}: {cycles} cycles"
            );
        }
        for code in [0, 10, 13, 14, 16, 17, 24] {
            assert_eq!(static_interval(code), Some(0), "rate code {code}");
        }
        for code in [1, 25, 255] {
            assert_eq!(static_interval(code), None, "rate code {code}");
        }
    }

    /// RATE-6: what the device says it can do, it can.
    #[test]
    fn intervals_of_pacing() {
        assert_eq!(pacing_interval(0), Some(0));
        assert_eq!(pacing_interval(PORT_KBPS), Some(0));
        assert_eq!(pacing_interval(MIN_KBPS - 1), None);
        let slowest = pacing_interval(MIN_KBPS).unwrap();
        assert!(slowest <= MAX_RATE_INTERVAL && slowest > MAX_RATE_INTERVAL / 10 * 9);
        assert_eq!(pacing_interval(1_000_000), Some(131_072));
    }

    fn to(lid: u16, interval: u32) -> Option<Rate> {
        let key = RateKey::Lid(1, lid);
        Some(Rate { key, interval })
    }

    /// RATE-4: QPs to one destination share a group; a group without QPs is free again.
    #[test]
    fn groups_are_shared_and_freed() {
        let mut groups = RateGroups::new(Quotas::equal(1));
        let a = groups.change(0, 0, to(5, 10)).unwrap();
        let b = groups.change(0, 0, to(6, 10)).unwrap();
        assert!(a != 0 && b != 0 && a != b);
        assert_eq!(groups.change(0, 0, to(5, 20)), Some(a));
        assert_eq!(groups.change(0, 0, None), Some(0));
        assert_eq!(groups.change(0, b, to(5, 10)), Some(a));
        assert_eq!(groups.change(0, 0, to(7, 10)), Some(b));
        for _ in 0..3 {
            assert_eq!(groups.change(0, a, None), Some(0));
        }
        assert_eq!(groups.change(0, 0, to(8, 10)), Some(a));
    }

    /// More destinations than groups: those of the same rate share; any other is refused and loses nothing.
    #[test]
    fn groups_run_out() {
        let mut groups = RateGroups::new(Quotas::equal(1));
        let last = GROUPS as u16 - 1;
        let first = groups.change(0, 0, to(1, 10)).unwrap();
        for lid in 2..=last {
            assert!(groups.change(0, 0, to(lid, 20)).unwrap() != first);
        }
        assert_eq!(groups.change(0, 0, to(100, 10)), Some(first));
        assert_eq!(groups.change(0, 0, to(101, 30)), None);
        let paced = Rate {
            key: RateKey::Qp(9),
            interval: 20,
        };
        assert_eq!(groups.change(0, 0, Some(paced)), None);
        assert_eq!(groups.change(0, first, to(101, 30)), None);
        assert_eq!(groups.change(0, first, None), Some(0));
        assert_eq!(groups.change(0, 0, to(1, 10)), Some(first), "it was still there");
    }

    /// A function cannot take another's groups, nor hold up its packets to the same destination.
    #[test]
    fn functions_have_groups_of_their_own() {
        let mut groups = RateGroups::new(Quotas::equal(4));
        let taken: Vec<u8> = (0..7)
            .map(|lid| groups.change(1, 0, to(lid, 10)).unwrap())
            .collect();
        assert_eq!(groups.change(1, 0, to(9, 20)), None);
        for func in [0, 2, 3] {
            for lid in 0..7 {
                let own = groups.change(func, 0, to(lid, 20)).unwrap();
                assert!(own != 0 && !taken.contains(&own), "function {func}");
            }
        }
    }
}
