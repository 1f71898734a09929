//! What an Ethernet port makes of priorities: where a frame's priority is, which traffic class a priority waits in, and
//! how the classes share the link (IEEE 802.1Q 8.6.6; 802.1Qaz).

use crate::CmdResult;
use hca_abi::{AdminStatus, DSCPS, EthTrust, PRIORITIES, SetLinkCmd, link_attr};

const DSCP_COUNT: usize = DSCPS as usize;
pub(crate) const PRIORITY_COUNT: usize = PRIORITIES as usize;
/// Rows LINK_ROW_DSCP of the hardware's map.
pub(crate) const DSCP_ROWS: usize = DSCP_COUNT / 8;

/// Traffic classes.
#[derive(Clone, Copy)]
pub(crate) struct Ets {
    /// Class of each priority.
    pub prio_tc: [u8; PRIORITY_COUNT],
    /// Classes that go before those with shares, a bit each.
    pub strict: u8,
    /// Share of each of the others.
    pub percent: [u8; PRIORITY_COUNT],
}

/// Priorities of a port.
#[derive(Clone, Copy)]
pub(crate) struct Priorities {
    pub trust: EthTrust,
    pub dscp: [u8; DSCP_COUNT],
    /// `None`: priority i is class i modulo the classes, and all have the same weight.
    pub ets: Option<Ets>,
}

impl Priorities {
    /// The class selectors: the upper three bits of the DSCP.
    pub const fn new() -> Self {
        let mut dscp = [0; DSCP_COUNT];
        let mut at = 0;
        while at < DSCP_COUNT {
            dscp[at] = (at >> 3) as u8;
            at += 1;
        }
        Self {
            trust: EthTrust::Dscp,
            dscp,
            ets: None,
        }
    }

    /// Priority of a packet that this card makes: it has no VLAN tag.
    pub fn of(&self, traffic_class: u8) -> u8 {
        match self.trust {
            EthTrust::Dscp => self.dscp[usize::from(traffic_class >> 2)],
            EthTrust::Pcp => 0,
        }
    }

    /// The hardware's rows of the map.
    pub fn dscp_rows(&self) -> [u32; DSCP_ROWS] {
        let row = |at: usize| {
            let eight = self.dscp[8 * at..8 * at + 8].iter().rev();
            eight.fold(0, |row, priority| row << 4 | u32::from(*priority))
        };
        core::array::from_fn(row)
    }

    /// Takes what a command changes, or names what is wrong. `classes`: how many traffic classes the port has.
    pub fn change(&mut self, cmd: &SetLinkCmd, classes: u8) -> CmdResult {
        let mask = cmd.attr_mask();
        let bad = |attr| (AdminStatus::BadParam, attr);
        if mask & link_attr::TRUST != 0 {
            self.trust = EthTrust::try_from(cmd.trust()).map_err(|_| bad(link_attr::TRUST))?;
        }
        if mask & link_attr::DSCP != 0 {
            for (at, (new, old)) in cmd.dscp().iter().zip(&mut self.dscp).enumerate() {
                if cmd.dscp_mask() >> at & 1 != 0 {
                    if *new >= PRIORITY_COUNT as u8 {
                        return Err(bad(link_attr::DSCP));
                    }
                    *old = *new;
                }
            }
        }
        if mask & link_attr::ETS != 0 {
            let ets = Ets {
                prio_tc: core::array::from_fn(|priority| (cmd.prio_tc() >> (4 * priority) & 15) as u8),
                strict: cmd.strict(),
                percent: cmd.tc_percent(),
            };
            if !ets.is_legal(classes) {
                return Err(bad(link_attr::ETS));
            }
            self.ets = Some(ets);
        }
        Ok(())
    }
}

impl Ets {
    /// Every class is one that the port has; a strict one has no share, every other one in use has; they are 100 % in
    /// all.
    fn is_legal(&self, classes: u8) -> bool {
        let used = self.prio_tc.iter().fold(0u16, |used, tc| used | 1 << tc);
        let shares = (0..).zip(&self.percent).all(|(tc, percent)| {
            let (is_used, is_strict) = (used >> tc & 1 != 0, self.strict >> tc & 1 != 0);
            match percent {
                0 => is_strict || !is_used,
                _ => !is_strict && tc < u32::from(classes),
            }
        });
        let sum: u32 = self.percent.iter().map(|percent| u32::from(*percent)).sum();
        let there = (1u32 << classes) - 1;
        let weighted = u32::from(used) & !u32::from(self.strict) != 0;
        let is_known = (u32::from(used) | u32::from(self.strict)) & !there == 0;
        is_known && shares && (sum == 100 || (sum == 0 && !weighted))
    }

    /// The class of each SL, which is a priority here.
    pub fn class_map(&self) -> u64 {
        let classes = (0..16).map(|sl| u64::from(self.prio_tc[sl % PRIORITY_COUNT]) << (4 * sl));
        classes.sum()
    }

    /// Class and weight of each class with a share, for the arbiter: as large as they can be, so that it turns from one
    /// to another seldom, and exact.
    pub fn weights(&self) -> impl Iterator<Item = (u8, u8)> {
        let most = self.percent.iter().copied().max().unwrap_or(0).max(1);
        let entries = (0..).zip(self.percent);
        entries
            .filter(|(_, percent)| *percent != 0)
            .map(move |(tc, percent)| (tc, percent * u8::MAX.checked_div(most).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn change(ets: Ets, classes: u8) -> CmdResult {
        let mut cmd = SetLinkCmd::new();
        cmd.set_attr_mask(link_attr::ETS);
        let pack = (0..).zip(ets.prio_tc).map(|(at, tc)| u32::from(tc) << (4 * at));
        cmd.set_prio_tc(pack.sum());
        cmd.set_strict(ets.strict);
        cmd.set_tc_percent(ets.percent);
        Priorities::new().change(&cmd, classes)
    }

    #[test]
    fn shares_that_can_be_and_such_that_cannot() {
        let good = Ets {
            prio_tc: [0, 0, 0, 1, 1, 2, 2, 3],
            strict: 8,
            percent: [50, 30, 20, 0, 0, 0, 0, 0],
        };
        assert!(change(good, 8).is_ok() && change(good, 4).is_ok());
        let bad: [(&str, Ets); 6] = [
            (
                "99 in all",
                Ets {
                    percent: [49, 30, 20, 0, 0, 0, 0, 0],
                    ..good
                },
            ),
            (
                "strict with a share",
                Ets {
                    percent: [40, 30, 20, 10, 0, 0, 0, 0],
                    ..good
                },
            ),
            (
                "a class in use without a share",
                Ets {
                    percent: [70, 30, 0, 0, 0, 0, 0, 0],
                    ..good
                },
            ),
            (
                "more than 100",
                Ets {
                    percent: [200, 156, 0, 0, 0, 0, 0, 0],
                    ..good
                },
            ),
            (
                "no such class",
                Ets {
                    prio_tc: [9; 8],
                    ..good
                },
            ),
            (
                "nothing",
                Ets {
                    percent: [0; 8],
                    ..good
                },
            ),
        ];
        for (what, ets) in bad {
            let error = change(ets, 8).unwrap_err();
            assert_eq!(error, (AdminStatus::BadParam, link_attr::ETS), "{what}");
        }
        assert!(change(good, 2).is_err(), "two classes");
        let strict = Ets {
            prio_tc: [3; 8],
            percent: [0; 8],
            ..good
        };
        assert!(change(strict, 8).is_ok());
    }

    /// The arbiter's weights are in the ratio of the shares, to the unit.
    #[test]
    fn weights_are_exact() {
        let ets = |percent| Ets {
            prio_tc: [0; 8],
            strict: 0,
            percent,
        };
        let found: Vec<_> = ets([50, 30, 20, 0, 0, 0, 0, 0]).weights().collect();
        assert_eq!(found, [(0, 250), (1, 150), (2, 100)]);
        assert_eq!(
            ets([0, 0, 100, 0, 0, 0, 0, 0]).weights().collect::<Vec<_>>(),
            [(2, 200)]
        );
        assert_eq!(
            ets([1, 99, 0, 0, 0, 0, 0, 0]).weights().collect::<Vec<_>>(),
            [(0, 2), (1, 198)]
        );
    }

    #[test]
    fn dscp_and_trust() {
        let mut priorities = Priorities::new();
        assert_eq!(
            [0, 26 << 2, 46 << 2 | 3, 255].map(|class| priorities.of(class)),
            [0, 3, 5, 7]
        );
        let mut cmd = SetLinkCmd::new();
        cmd.set_attr_mask(link_attr::DSCP);
        cmd.set_dscp_mask(1 << 26);
        let mut dscp = [255; 64];
        dscp[26] = 6;
        cmd.set_dscp(dscp);
        assert!(priorities.change(&cmd, 8).is_ok());
        assert_eq!((priorities.of(26 << 2), priorities.of(27 << 2)), (6, 3));
        assert_eq!(priorities.dscp_rows()[3], 0x3333_3633);
        cmd.set_dscp_mask(3 << 26);
        assert_eq!(
            priorities.change(&cmd, 8),
            Err((AdminStatus::BadParam, link_attr::DSCP))
        );
        cmd.set_attr_mask(link_attr::TRUST);
        cmd.set_trust(EthTrust::Pcp.into());
        assert!(priorities.change(&cmd, 8).is_ok());
        assert_eq!(priorities.of(26 << 2), 0);
        cmd.set_trust(2);
        assert_eq!(
            priorities.change(&cmd, 8),
            Err((AdminStatus::BadParam, link_attr::TRUST))
        );
    }
}
