//! What the ratio of the two flows should be.

use serde::Serialize;

/// Which arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The specification's rule (IBA 7.6.9): high packets up to the limit, then one low packet
    Iba,
    /// The rule that the paper measured: whole weight quanta, a budget per round (QOS-14)
    RoundQuantum,
}

/// One setting of the arbiter: a VL in the high table, another in the low one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Limit of High Priority, units of 4096 bytes.
    pub q: u8,
    /// Weight of the high VL, units of 64 bytes.
    pub h: u8,
    /// Weight of the low VL.
    pub l: u8,
}

/// Unit of the Limit of High Priority.
const LIMIT_UNIT_BYTES: u32 = 4096;
/// A limit without an end.
pub const UNLIMITED: u8 = 255;

impl Setting {
    /// Packets of an MTU that the limit is worth: 2Q at 2048 bytes.
    fn packets_per_round(self, mtu_bytes: u32) -> u32 {
        u32::from(self.q) * LIMIT_UNIT_BYTES / mtu_bytes
    }

    /// Bytes of the high flow for each byte of the low one while both are saturated.
    pub fn ratio(self, policy: Policy, mtu_bytes: u32) -> f64 {
        let (h, l, k) = (
            u32::from(self.h),
            u32::from(self.l),
            self.packets_per_round(mtu_bytes),
        );
        match policy {
            Policy::RoundQuantum => f64::from(h) / f64::from(l) * f64::from((k * l / h).max(1)),
            // One VL in each list: its weight decides nothing; limit 0 is one packet.
            Policy::Iba => f64::from(k.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u32 = 2048;

    fn ratio(q: u8, h: u8, l: u8) -> f64 {
        Setting { q, h, l }.ratio(Policy::RoundQuantum, MTU)
    }

    /// QOS-8: the six points that the paper quotes as whole numbers.
    #[test]
    fn the_papers_points() {
        let points = [
            (0, 2, 2, 1.0),
            (1, 16, 4, 4.0),
            (2, 3, 2, 3.0),
            (5, 10, 90, 10.0),
            (6, 8, 40, 12.0),
            (8, 25, 100, 16.0),
        ];
        for (q, h, l, expected) in points {
            assert_eq!(ratio(q, h, l), expected, "({q}, {h}, {l})");
        }
    }

    /// QOS-12.
    #[test]
    fn the_saw_tooth_of_one_sixteen() {
        let points = [
            (1, 16.0),
            (4, 4.0),
            (8, 2.0),
            (9, 1.778),
            (15, 1.067),
            (16, 2.0),
            (23, 1.391),
            (31, 1.548),
        ];
        for (l, expected) in points {
            assert!((ratio(1, 16, l) - expected).abs() < 1e-3, "L = {l}");
        }
        assert!((ratio(4, 64, 15) - 4.267).abs() < 1e-3);
        assert!((ratio(2, 64, 31) - 2.065).abs() < 1e-3);
    }

    /// QOS-7 and QOS-11: the shape, for every setting.
    #[test]
    fn the_saw_tooth_has_the_papers_properties() {
        for q in 1..=14u8 {
            for h in 1..=254u8 {
                let threshold = f64::from(h) / (2.0 * f64::from(q));
                for l in 1..=254u8 {
                    let (y, bound) = (ratio(q, h, l), 2.0 * f64::from(q));
                    if f64::from(l) >= threshold {
                        let whole = (2 * u32::from(q) * u32::from(l)).is_multiple_of(u32::from(h));
                        assert!(
                            y <= bound + 1e-9 && whole == ((y - bound).abs() < 1e-9),
                            "{q} {h} {l}"
                        );
                    } else {
                        assert!(y > bound, "{q} {h} {l}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_specifications_rule_knows_no_weights() {
        for (h, l) in [(16, 4), (3, 2), (64, 31)] {
            assert_eq!(Setting { q: 2, h, l }.ratio(Policy::Iba, MTU), 4.0);
        }
        assert_eq!(Setting { q: 0, h: 9, l: 1 }.ratio(Policy::Iba, MTU), 1.0);
    }
}
