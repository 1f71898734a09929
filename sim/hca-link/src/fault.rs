//! Faults: how they are asked for, and the dice that decide them.

use crate::LinkError;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// A reordered packet waits for 1 up to this many later packets to pass.
pub const REORDER_DISTANCE_MAX: u64 = 3;
/// A reordered packet waits no longer than this for later packets.
pub const REORDER_HOLD_NS: u64 = 2_000;
/// Longest delay and pause.
const TIME_NS_MAX: u64 = 1_000_000_000;
/// A corrupted packet has 1 up to this many flipped bits.
const FLIPS_MAX: usize = 3;

/// Which faults a cable has, read from text such as `loss=0.01,reorder=0.02,delay_ns=500`.
///
/// All of them are drawn per packet and independently of each other. Link packets (InfiniBand flow control) are drawn
/// from a stream of their own, so that their number does not change the fate of the data. They are lost, corrupted and
/// delayed as data packets are, unless `fc_loss` and `fc_corrupt` say otherwise: `loss=0.1,fc_loss=0` spares them,
/// `fc_loss=0.1` alone hits nothing else. They are neither duplicated nor reordered: no wire does that, and the counts
/// they carry hold only in order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FaultSpec {
    /// `loss`: probability that the packet never arrives.
    pub loss: f64,
    /// `dup`: probability that a second copy arrives behind the packet.
    pub dup: f64,
    /// `reorder`: probability that the packet is held back until up to [`REORDER_DISTANCE_MAX`]
    /// later packets have passed, or [`REORDER_HOLD_NS`] are over. At 1 every packet is held back
    /// and the order stays.
    pub reorder: f64,
    /// `corrupt`: probability that 1 to 3 bits of the packet are flipped. The link layer does not
    /// notice: on Ethernet this is an error that the frame check sequence misses.
    pub corrupt: f64,
    /// `delay_ns`: longest random extra delay. Delayed packets do not overtake each other.
    pub delay_ns: u64,
    /// `pause`: probability that the sender's side of the line stops behind the packet.
    pub pause: f64,
    /// `pause_ns`: length of such a stop.
    pub pause_ns: u64,
    /// `fc_loss`: as `loss`, for link packets.
    pub fc_loss: Option<f64>,
    /// `fc_corrupt`: as `corrupt`, for link packets.
    pub fc_corrupt: Option<f64>,
}

impl Default for FaultSpec {
    /// No faults; `pause_ns` is 1000, so that asking for `pause` alone does something.
    fn default() -> Self {
        Self {
            loss: 0.0,
            dup: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            delay_ns: 0,
            pause: 0.0,
            pause_ns: 1_000,
            fc_loss: None,
            fc_corrupt: None,
        }
    }
}

fn error(text: impl Into<String>, why: &'static str) -> LinkError {
    LinkError::FaultSpec {
        text: text.into(),
        why,
    }
}

impl FaultSpec {
    /// True where nothing can happen to a packet.
    pub fn is_clean(&self) -> bool {
        self.probabilities().iter().all(|(_, value)| *value == 0.0) && self.delay_ns == 0
    }

    /// What happens to link packets.
    pub(crate) fn of_link_packets(&self) -> Self {
        Self {
            loss: self.fc_loss.unwrap_or(self.loss),
            corrupt: self.fc_corrupt.unwrap_or(self.corrupt),
            dup: 0.0,
            reorder: 0.0,
            ..*self
        }
    }

    fn probabilities(&self) -> [(&'static str, f64); 7] {
        [
            ("loss", self.loss),
            ("dup", self.dup),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
            ("pause", self.pause),
            ("fc_loss", self.fc_loss.unwrap_or(0.0)),
            ("fc_corrupt", self.fc_corrupt.unwrap_or(0.0)),
        ]
    }

    /// Fails where a number is out of range.
    pub fn check(&self) -> Result<(), LinkError> {
        for (key, value) in self.probabilities() {
            if !(0.0..=1.0).contains(&value) {
                return Err(error(format!("{key}={value}"), "a probability is 0 to 1"));
            }
        }
        for (key, value) in [("delay_ns", self.delay_ns), ("pause_ns", self.pause_ns)] {
            if value > TIME_NS_MAX {
                return Err(error(format!("{key}={value}"), "the time is over one second"));
            }
        }
        Ok(())
    }
}

impl FromStr for FaultSpec {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let mut spec = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| error(part, "there is no '='"))?;
            let (key, value) = (key.trim(), value.trim());
            if seen.contains(&key) {
                return Err(error(part, "the key is given twice"));
            }
            seen.push(key);
            let probability = || {
                value
                    .parse()
                    .map_err(|_| error(part, "the value is not a number"))
            };
            let time_ns = || {
                value
                    .parse()
                    .map_err(|_| error(part, "the value is not a whole number"))
            };
            match key {
                "loss" => spec.loss = probability()?,
                "dup" => spec.dup = probability()?,
                "reorder" => spec.reorder = probability()?,
                "corrupt" => spec.corrupt = probability()?,
                "pause" => spec.pause = probability()?,
                "fc_loss" => spec.fc_loss = Some(probability()?),
                "fc_corrupt" => spec.fc_corrupt = Some(probability()?),
                "delay_ns" => spec.delay_ns = time_ns()?,
                "pause_ns" => spec.pause_ns = time_ns()?,
                _ => return Err(error(part, "the key is unknown")),
            }
        }
        spec.check()?;
        Ok(spec)
    }
}

impl fmt::Display for FaultSpec {
    /// Prints what [`FromStr`] reads; nothing for no faults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (key, value) in self.probabilities() {
            // A zero for link packets says something where data packets have another value.
            let says_zero =
                [("fc_loss", self.fc_loss), ("fc_corrupt", self.fc_corrupt)].contains(&(key, Some(0.0)));
            if value != 0.0 || says_zero {
                write!(f, "{comma}{key}={value}")?;
                comma = ",";
            }
        }
        if self.delay_ns != 0 {
            write!(f, "{comma}delay_ns={}", self.delay_ns)?;
            comma = ",";
        }
        if self.pause_ns != Self::default().pause_ns {
            write!(f, "{comma}pause_ns={}", self.pause_ns)?;
        }
        Ok(())
    }
}

/// How often each fault happened, to packets of all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultCounts {
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets held back for later ones.
    pub reordered: u64,
    /// Packets with flipped bits.
    pub corrupted: u64,
    /// Packets delayed at random.
    pub delayed: u64,
    /// Pauses of the line.
    pub paused: u64,
}

/// What happens to one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) duplicated: bool,
    /// Later packets to let pass; 0 is none.
    pub(crate) reorder_distance: u64,
    /// Random numbers that choose the bits to flip; 0 of them is no corruption.
    pub(crate) flips: usize,
    flip_numbers: [u64; FLIPS_MAX],
    pub(crate) delay_ps: u64,
    pub(crate) paused: bool,
}

impl Fate {
    /// Flips the chosen bits; no bit twice, so that something changes.
    pub(crate) fn corrupt(&self, bytes: &mut [u8]) {
        let bits = bytes.len() as u64 * 8;
        let mut flipped = [u64::MAX; FLIPS_MAX];
        for index in 0..self.flips.min(FLIPS_MAX) {
            let bit = self.flip_numbers[index] % bits.max(1);
            if flipped.contains(&bit) {
                continue;
            }
            flipped[index] = bit;
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}

/// Random stream of one direction.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    spec: FaultSpec,
    is_clean: bool,
    random: ChaCha8Rng,
}

impl Dice {
    /// Splits the stream called `name` off the root seed.
    pub(crate) fn new(spec: FaultSpec, seed: u64, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_le_bytes());
        hash.update(name.as_bytes());
        Self {
            is_clean: spec.is_clean(),
            spec,
            random: ChaCha8Rng::from_seed(hash.finalize().into()),
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        // 53 random bits make every double in [0, 1) on one grid, the same on every machine.
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        ((self.random.next_u64() >> 11) as f64 * STEP) < probability
    }

    /// Draws the fate of the next packet. Always takes the same count of numbers, so that changing
    /// one probability does not change which packets the other faults hit.
    /// Nothing ever happens.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.is_clean
    }

    pub(crate) fn roll(&mut self) -> Fate {
        if self.is_clean {
            return Fate::default();
        }
        let spec = self.spec;
        let lost = self.chance(spec.loss);
        let duplicated = self.chance(spec.dup);
        let reordered = self.chance(spec.reorder);
        let corrupted = self.chance(spec.corrupt);
        let paused = self.chance(spec.pause);
        let distance = 1 + self.random.next_u64() % REORDER_DISTANCE_MAX;
        let delay_ps = self.random.next_u64() % (spec.delay_ns * crate::clock::PS_PER_NS + 1);
        let flips = 1 + (self.random.next_u64() % FLIPS_MAX as u64) as usize;
        let flip_numbers = std::array::from_fn(|_| self.random.next_u64());
        Fate {
            lost,
            duplicated,
            reorder_distance: if reordered { distance } else { 0 },
            flips: if corrupted { flips } else { 0 },
            flip_numbers,
            delay_ps,
            paused,
        }
    }
}
