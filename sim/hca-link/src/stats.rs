//! What a cable has carried.

use crate::{Dir, FaultCounts};
use serde::Serialize;

/// Counts of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DirStats {
    /// Data packets the sender put on the wire.
    pub sent_packets: u64,
    /// Their bytes, as the card sent them.
    pub sent_bytes: u64,
    /// Their bytes with the overhead of the link, those of second copies, and those of link packets.
    pub wire_bytes: u64,
    /// Time the wire was busy with them, in picoseconds; pauses are not counted.
    pub busy_ps: u64,
    /// Data packets handed out at the far end.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Link packets the sender put on the wire.
    pub sent_link_packets: u64,
    /// Link packets handed out at the far end.
    pub delivered_link_packets: u64,
    /// What the faults did.
    pub faults: FaultCounts,
}

/// Counts of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CableStats {
    /// From end A to end B.
    pub a_to_b: DirStats,
    /// From end B to end A.
    pub b_to_a: DirStats,
}

impl CableStats {
    /// Counts of one direction.
    pub fn dir(&self, dir: Dir) -> &DirStats {
        match dir {
            Dir::AToB => &self.a_to_b,
            Dir::BToA => &self.b_to_a,
        }
    }
}
