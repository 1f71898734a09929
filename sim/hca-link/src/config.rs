//! What a cable is told when it is made.

use crate::{FaultSpec, LinkError};
use serde::Serialize;

/// Kind of link; decides the per-packet overhead and the link type of captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkKind {
    /// Ethernet frames without preamble and frame check sequence.
    Ethernet,
    /// InfiniBand packets, LRH through VCRC.
    InfiniBand,
}

impl LinkKind {
    /// Bytes on the wire that belong to a packet but do not reach the card.
    ///
    /// Ethernet: preamble 8, frame check sequence 4, inter-frame gap 12. InfiniBand: one start and
    /// one end delimiter symbol.
    pub const fn overhead_bytes(self) -> u64 {
        match self {
            Self::Ethernet => 8 + 4 + 12,
            Self::InfiniBand => 2,
        }
    }

    /// True for a link packet (InfiniBand: flow control). On the wire its start delimiter tells it apart; here its
    /// length does, because no data packet is as short.
    pub const fn is_link_packet(self, packet: &[u8]) -> bool {
        matches!(self, Self::InfiniBand) && packet.len() == Self::LINK_PACKET_BYTES
    }

    /// Bytes of a link packet.
    pub const LINK_PACKET_BYTES: usize = 6;
}

/// Direction on a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dir {
    /// From end A to end B.
    AToB,
    /// From end B to end A.
    BToA,
}

impl Dir {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::AToB, Self::BToA];

    /// The other direction.
    pub const fn reverse(self) -> Self {
        match self {
            Self::AToB => Self::BToA,
            Self::BToA => Self::AToB,
        }
    }

    /// Name for seeds, reports and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AToB => "a_to_b",
            Self::BToA => "b_to_a",
        }
    }
}

/// When [`crate::Cable::poll`] hands a packet out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// When the last bit has arrived. For receivers that take whole packets.
    LastBit,
    /// When the first beat has arrived, but not before the sender has pushed the last one. For
    /// receivers that stream the packet at the line rate and so end with its last bit.
    FirstBeat,
}

/// Configuration of a cable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CableConfig {
    /// Name, unique in a fabric: faults of each cable follow from the seed and the name.
    pub name: String,
    /// Kind of link.
    pub kind: LinkKind,
    /// Line rate in bits per second, coding overhead not counted.
    pub rate_bits_per_s: u64,
    /// Time of one bit from end to end in nanoseconds.
    pub latency_ns: u64,
    /// Bytes on the wire beside those of the packet; [`LinkKind::overhead_bytes`] by default.
    pub overhead_bytes: u64,
    /// Length of a cycle in picoseconds.
    pub cycle_ps: u64,
    /// When packets are handed out; [`crate::Cable::set_delivery`] changes it for one direction.
    pub delivery: Delivery,
    /// Faults, the same in both directions but drawn apart.
    pub faults: FaultSpec,
    /// Root seed of the simulation.
    pub seed: u64,
}

impl CableConfig {
    /// Bytes of a beat: what a card sends or takes in one cycle.
    pub const BEAT_BYTES: usize = 64;

    /// A faultless cable of 100 Gb/s and 100 ns for cards of 250 MHz.
    pub fn new(name: &str, kind: LinkKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            rate_bits_per_s: 100_000_000_000,
            latency_ns: 100,
            overhead_bytes: kind.overhead_bytes(),
            cycle_ps: 4_000,
            delivery: Delivery::LastBit,
            faults: FaultSpec::default(),
            seed: 0,
        }
    }

    /// Fails where a number is out of range.
    pub fn check(&self) -> Result<(), LinkError> {
        let ranges = [
            (
                "rate_bits_per_s",
                self.rate_bits_per_s,
                1_000_000,
                10_000_000_000_000,
            ),
            ("latency_ns", self.latency_ns, 0, 1_000_000_000),
            ("overhead_bytes", self.overhead_bytes, 0, 1_000),
            ("cycle_ps", self.cycle_ps, 1, 1_000_000_000),
        ];
        for (field, found, low, high) in ranges {
            if !(low..=high).contains(&found) {
                return Err(LinkError::Config {
                    name: self.name.clone(),
                    field,
                    found,
                    low,
                    high,
                });
            }
        }
        self.faults.check()
    }
}
