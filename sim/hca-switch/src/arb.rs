//! VL arbitration: two weighted lists with a limit between them, under one of two policies.
//!
//! Every entry of a list keeps a deficit in bytes. A packet may go when its entry's deficit is positive; it is then
//! charged whole, so that a weight smaller than a packet still gets its exact share in the long run (QOS-16).

use serde::{Deserialize, Serialize};

use crate::SwitchError;

/// Unit of a weight.
const WEIGHT_BYTES: i64 = 64;
/// Unit of the limit of high priority.
const LIMIT_BYTES: u64 = 4096;
/// Limit of high priority that is none.
pub const LIMIT_UNLIMITED: u8 = 255;
/// Entries of a list.
pub const ENTRIES_MAX: usize = 64;
/// Data VLs that there can be.
pub(crate) const DATA_VLS_MAX: usize = 15;

/// How the two lists share the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The specification's rule (IBA vol1 7.6.9): weighted round robin in each list; the high list sends until its
    /// limit is used up, then one packet of the low list goes.
    #[default]
    Iba,
    /// QOS-14: in each round every backlogged entry of the low list gets its weight once, and those of the high list
    /// get theirs n = max(1, floor(k L / H)) times, with k = limit * 4096 / MTU and L, H the sums of the weights.
    RoundQuantum,
}

/// Entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VlWeight {
    /// Data VL, 0 to 14.
    pub vl: u8,
    /// Units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// Tables of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VlArbConfig {
    /// The high list.
    pub high: Vec<VlWeight>,
    /// The low list.
    pub low: Vec<VlWeight>,
    /// Limit of high priority, in 4096 bytes; 0: one packet; 255: none.
    pub limit: u8,
    /// How the lists share the link.
    pub policy: Policy,
    /// The MTU that [`Policy::RoundQuantum`] reckons with.
    pub mtu_bytes: u32,
}

impl Default for VlArbConfig {
    /// All VLs alike, one packet of 4096 bytes at a time.
    fn default() -> Self {
        Self {
            high: Vec::new(),
            low: (0..DATA_VLS_MAX as u8)
                .map(|vl| VlWeight { vl, weight: 64 })
                .collect(),
            limit: 0,
            policy: Policy::Iba,
            mtu_bytes: 4096,
        }
    }
}

impl VlArbConfig {
    /// Fails where a table cannot be.
    pub fn check(&self) -> Result<(), SwitchError> {
        for (list, entries) in [("high", &self.high), ("low", &self.low)] {
            if entries.len() > ENTRIES_MAX {
                return Err(SwitchError::range(
                    format!("entries of the {list} list"),
                    entries.len(),
                    0,
                    ENTRIES_MAX,
                ));
            }
            if let Some(entry) = entries.iter().find(|entry| usize::from(entry.vl) >= DATA_VLS_MAX) {
                let what = format!("VL in the {list} list");
                return Err(SwitchError::range(
                    what,
                    usize::from(entry.vl),
                    0,
                    DATA_VLS_MAX - 1,
                ));
            }
        }
        if !(256..=4096).contains(&self.mtu_bytes) {
            return Err(SwitchError::range(
                "mtu_bytes",
                self.mtu_bytes as usize,
                256,
                4096,
            ));
        }
        Ok(())
    }
}

/// Heads of the VLs: bytes of the packet that could go next on each, if any.
pub type Heads = [Option<u32>; DATA_VLS_MAX];

#[derive(Debug, Clone)]
struct Entry {
    vl: usize,
    weight: i64,
    deficit: i64,
}

/// A list and the place where its round robin stands.
#[derive(Debug, Clone)]
struct List {
    entries: Vec<Entry>,
    at: usize,
}

impl List {
    fn new(entries: &[VlWeight]) -> Self {
        let entry = |entry: &VlWeight| Entry {
            vl: entry.vl.into(),
            weight: entry.weight.into(),
            deficit: 0,
        };
        Self {
            entries: entries
                .iter()
                .filter(|entry| entry.weight > 0)
                .map(entry)
                .collect(),
            at: 0,
        }
    }

    fn is_backlogged(&self, heads: &Heads) -> bool {
        self.entries.iter().any(|entry| heads[entry.vl].is_some())
    }

    /// Sum of the weights of the entries that have something to send.
    fn weight(&self, heads: &Heads) -> i64 {
        let backlogged = self.entries.iter().filter(|entry| heads[entry.vl].is_some());
        backlogged.map(|entry| entry.weight).sum()
    }

    /// Weighted round robin. Charges the packet it picks.
    fn round_robin(&mut self, heads: &Heads) -> Option<usize> {
        if !self.is_backlogged(heads) {
            return None;
        }
        loop {
            let entry = &mut self.entries[self.at];
            match heads[entry.vl] {
                Some(bytes) if entry.deficit > 0 => {
                    entry.deficit -= i64::from(bytes);
                    return Some(entry.vl);
                }
                // Who has nothing to send saves nothing up.
                None => entry.deficit = entry.deficit.min(0),
                Some(_) => {}
            }
            self.at = (self.at + 1) % self.entries.len();
            let next = &mut self.entries[self.at];
            if heads[next.vl].is_some() {
                next.deficit += next.weight * WEIGHT_BYTES;
            }
        }
    }

    /// The next entry with something to send and a deficit left, in turn. Charges the packet.
    fn spend(&mut self, heads: &Heads) -> Option<usize> {
        let count = self.entries.len();
        for step in 0..count {
            let at = (self.at + step) % count;
            let entry = &mut self.entries[at];
            if let Some(bytes) = heads[entry.vl].filter(|_| entry.deficit > 0) {
                entry.deficit -= i64::from(bytes);
                self.at = (at + 1) % count;
                return Some(entry.vl);
            }
        }
        None
    }

    /// A new round: what is left of the last one is dropped, debts stay.
    fn new_round(&mut self, heads: &Heads, times: i64) {
        for entry in &mut self.entries {
            entry.deficit = entry.deficit.min(0);
            if heads[entry.vl].is_some() {
                entry.deficit += times * entry.weight * WEIGHT_BYTES;
            }
        }
    }
}

/// Picks the VL of each packet that a port sends.
#[derive(Debug, Clone)]
pub struct VlArbiter {
    config: VlArbConfig,
    high: List,
    low: List,
    /// Bytes and packets of the high list since the low one had its chance.
    high_bytes: u64,
    high_packets: u64,
}

impl VlArbiter {
    /// An arbiter with these tables; fails where they cannot be.
    pub fn new(config: VlArbConfig) -> Result<Self, SwitchError> {
        config.check()?;
        Ok(Self {
            high: List::new(&config.high),
            low: List::new(&config.low),
            config,
            high_bytes: 0,
            high_packets: 0,
        })
    }

    /// Its tables.
    pub fn config(&self) -> &VlArbConfig {
        &self.config
    }

    /// The VL whose head goes next, and charges it. None where no VL that is in a list has a head: with anything to
    /// send the link never rests (VL-13).
    pub fn pick(&mut self, heads: &Heads) -> Option<u8> {
        let vl = match self.config.policy {
            Policy::Iba => self.pick_iba(heads),
            Policy::RoundQuantum => self.pick_round_quantum(heads),
        };
        vl.map(|vl| vl as u8)
    }

    fn pick_iba(&mut self, heads: &Heads) -> Option<usize> {
        let low_waits = self.low.is_backlogged(heads);
        let limit = self.config.limit;
        let high_may = match limit {
            LIMIT_UNLIMITED => true,
            0 => self.high_packets == 0,
            limit => self.high_bytes < u64::from(limit) * LIMIT_BYTES,
        };
        if (high_may || !low_waits)
            && let Some(vl) = self.high.round_robin(heads)
        {
            if !high_may {
                // The low list had its chance and nothing to send.
                (self.high_bytes, self.high_packets) = (0, 0);
            }
            self.high_bytes += u64::from(heads[vl].unwrap_or(0));
            self.high_packets += 1;
            return Some(vl);
        }
        (self.high_bytes, self.high_packets) = (0, 0);
        self.low.round_robin(heads)
    }

    fn pick_round_quantum(&mut self, heads: &Heads) -> Option<usize> {
        if self.config.limit == LIMIT_UNLIMITED
            && let Some(vl) = self.high.round_robin(heads)
        {
            return Some(vl);
        }
        let (high_weight, low_weight) = (self.high.weight(heads), self.low.weight(heads));
        if high_weight == 0 && low_weight == 0 {
            return None;
        }
        let budget = i64::from(self.config.limit) * LIMIT_BYTES as i64 * low_weight;
        let times = (budget / (i64::from(self.config.mtu_bytes) * high_weight.max(1))).max(1);
        loop {
            let spent = self.high.spend(heads).or_else(|| self.low.spend(heads));
            if spent.is_some() {
                return spent;
            }
            self.high.new_round(heads, times);
            self.low.new_round(heads, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LRH, BTH, ICRC and VCRC around 2048 bytes.
    const PACKET: u32 = 2048 + 26;

    fn two_vls(q: u8, high: u8, low: u8, policy: Policy) -> VlArbiter {
        let list = |vl, weight| vec![VlWeight { vl, weight }];
        let config = VlArbConfig {
            high: list(0, high),
            low: list(1, low),
            limit: q,
            policy,
            mtu_bytes: 2048,
        };
        VlArbiter::new(config).unwrap()
    }

    /// Bytes of each VL after so many packets, all VLs in `sizes` saturated.
    fn shares(arbiter: &mut VlArbiter, sizes: &Heads, packets: u32) -> [f64; DATA_VLS_MAX] {
        let mut bytes = [0.0; DATA_VLS_MAX];
        for _ in 0..packets {
            let vl = usize::from(arbiter.pick(sizes).unwrap());
            bytes[vl] += f64::from(sizes[vl].unwrap());
        }
        bytes
    }

    fn saturated(vls: usize, bytes: u32) -> Heads {
        std::array::from_fn(|vl| (vl < vls).then_some(bytes))
    }

    fn ratio(q: u8, high: u8, low: u8, policy: Policy) -> f64 {
        let mut arbiter = two_vls(q, high, low, policy);
        let bytes = shares(&mut arbiter, &saturated(2, PACKET), 60_000);
        bytes[0] / bytes[1]
    }

    fn formula(q: u8, high: u8, low: u8) -> f64 {
        let (q, h, l) = (u32::from(q), u32::from(high), u32::from(low));
        f64::from(h) / f64::from(l) * f64::from((2 * q * l / h).max(1))
    }

    /// QOS-12, QOS-15 and the six sample points of the paper.
    #[test]
    fn round_quantum_follows_the_formula() {
        let samples = [
            ((0, 2, 2), 1.0),
            ((1, 16, 4), 4.0),
            ((2, 3, 2), 3.0),
            ((5, 10, 90), 10.0),
            ((6, 8, 40), 12.0),
            ((8, 25, 100), 16.0),
        ];
        for ((q, h, l), y) in samples {
            assert_eq!(formula(q, h, l), y);
        }
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let drawn = (0..200).map(|_| (random() % 16, random().max(1), random().max(1)));
        let table = [1, 4, 8, 9, 15, 16, 23, 24, 31, 32].map(|l| (1, 16, l));
        for (q, h, l) in samples
            .map(|(point, _)| point)
            .into_iter()
            .chain(table)
            .chain(drawn)
        {
            let (found, expected) = (ratio(q, h, l, Policy::RoundQuantum), formula(q, h, l));
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "Q {q}, H {h}, L {l}: {found} is not {expected}"
            );
        }
    }

    /// QOS-14: the literal rule gives 2Q, whatever the weights are.
    #[test]
    fn the_literal_rule_gives_a_constant() {
        for (q, h, l) in [(1, 16, 4), (2, 3, 2), (2, 64, 31), (8, 25, 100), (14, 1, 255)] {
            let found = ratio(q, h, l, Policy::Iba);
            assert!((found / f64::from(2 * q) - 1.0).abs() < 0.01, "Q {q}: {found}");
        }
        assert!((ratio(0, 255, 1, Policy::Iba) - 1.0).abs() < 0.01);
    }

    /// VL-12: within one list the shares are those of the weights, also of weights below a packet.
    #[test]
    fn weights_share_a_list() {
        for policy in [Policy::Iba, Policy::RoundQuantum] {
            let weights = [1, 3, 0, 200, 7];
            let low = (0..5).map(|vl| VlWeight {
                vl,
                weight: weights[usize::from(vl)],
            });
            let config = VlArbConfig {
                low: low.collect(),
                policy,
                ..VlArbConfig::default()
            };
            let mut arbiter = VlArbiter::new(config).unwrap();
            let mut sizes = saturated(5, PACKET);
            (sizes[1], sizes[4]) = (Some(90), Some(300));
            let bytes = shares(&mut arbiter, &sizes, 400_000);
            let total: f64 = bytes.iter().sum();
            for (vl, weight) in weights.into_iter().enumerate() {
                let (found, expected) = (bytes[vl] / total, f64::from(weight) / 211.0);
                assert!(
                    (found - expected).abs() <= 0.01 * expected,
                    "{policy:?} VL {vl}: {found}"
                );
            }
        }
    }

    /// VL-13: a VL alone gets everything, in whichever list, and an empty one costs nothing.
    #[test]
    fn no_rest_while_anything_waits() {
        for policy in [Policy::Iba, Policy::RoundQuantum] {
            for limit in [0, 1, 200, LIMIT_UNLIMITED] {
                let mut arbiter = two_vls(limit, 1, 255, policy);
                for vl in [0, 1] {
                    let mut heads: Heads = [None; DATA_VLS_MAX];
                    heads[vl] = Some(PACKET);
                    assert!((0..1000).all(|_| arbiter.pick(&heads) == Some(vl as u8)));
                }
                let mut heads: Heads = [None; DATA_VLS_MAX];
                assert_eq!(arbiter.pick(&heads), None);
                // A VL in no list gets no service.
                heads[5] = Some(64);
                assert_eq!(arbiter.pick(&heads), None);
            }
        }
    }

    #[test]
    fn without_a_limit_the_high_list_takes_the_link() {
        for policy in [Policy::Iba, Policy::RoundQuantum] {
            let mut arbiter = two_vls(LIMIT_UNLIMITED, 1, 255, policy);
            let heads = saturated(2, PACKET);
            assert!((0..1000).all(|_| arbiter.pick(&heads) == Some(0)));
        }
    }

    /// Many weights at random: no entry's debt grows, so no VL starves.
    #[test]
    fn debts_stay_bounded() {
        for policy in [Policy::Iba, Policy::RoundQuantum] {
            let list = |range: std::ops::Range<u8>| {
                range
                    .map(|vl| VlWeight {
                        vl,
                        weight: 1 + vl * 17,
                    })
                    .collect::<Vec<_>>()
            };
            let config = VlArbConfig {
                high: list(0..7),
                low: list(7..15),
                limit: 3,
                policy,
                mtu_bytes: 4096,
            };
            let mut arbiter = VlArbiter::new(config).unwrap();
            for step in 0..50_000u32 {
                let heads = std::array::from_fn(|vl| {
                    (step.wrapping_mul(2_654_435_761) >> vl & 1 == 1)
                        .then(|| 64 + (step * 37 + vl as u32) % 4000)
                });
                arbiter.pick(&heads);
            }
            for entry in arbiter.high.entries.iter().chain(&arbiter.low.entries) {
                assert!(entry.deficit > -4096, "{policy:?}: {entry:?}");
            }
        }
    }

    #[test]
    fn tables_are_checked() {
        let bad = |change: fn(&mut VlArbConfig)| {
            let mut config = VlArbConfig::default();
            change(&mut config);
            VlArbiter::new(config).unwrap_err().to_string()
        };
        let text = bad(|config| config.low.push(VlWeight { vl: 15, weight: 1 }));
        assert!(text.contains("VL in the low list"), "{text}");
        let text = bad(|config| config.high = vec![VlWeight { vl: 0, weight: 1 }; 65]);
        assert!(text.contains("entries of the high list"), "{text}");
        let text = bad(|config| config.mtu_bytes = 100);
        assert!(text.contains("mtu_bytes"), "{text}");
    }
}
