//! Memory of two nodes in which every message has a place of its own, and a cable that does all that cables do.

use hca_link::FaultSpec;
use hca_system_tests::{Arena, Dev, Place, Rig, Rng};
use hca_verbs::{Access, Mr, Sge};

use super::{BASES, CANARY_BYTES};

pub const REGION_BYTES: u64 = 512 << 10;
pub const ROOM: u64 = 4096;

/// A region of each node, with what must be in it.
pub fn regions(rig: &Rig, seed: u64, access: Access) -> ([Arena; 2], [Mr<Dev>; 2]) {
    let mut rng = Rng::new(seed, "memory");
    let memory = [0, 1].map(|node: usize| {
        let len = (REGION_BYTES + 2 * CANARY_BYTES) as usize;
        Arena::new(rig.nodes[node].alloc(len).unwrap(), &mut rng)
    });
    let mrs = [0, 1].map(|node: usize| {
        let place = Place {
            offset: CANARY_BYTES,
            len: REGION_BYTES,
            ..Place::whole(memory[node].buf(), access, BASES[node])
        };
        rig.nodes[node].register(memory[node].buf(), place).unwrap()
    });
    (memory, mrs)
}

fn place(wr_id: u64) -> u64 {
    wr_id % (REGION_BYTES / ROOM) * ROOM
}

/// The place of a receive in node 1's region.
pub fn room(mrs: &[Mr<Dev>; 2], wr_id: u64) -> Sge {
    mrs[1].sge(place(wr_id), ROOM as u32)
}

/// From now on a message of `len` bytes from `offset` must be where `wr_id` says.
pub fn expect(memory: &mut [Arena; 2], wr_id: u64, offset: u64, len: u32) {
    let bytes = memory[0].expected(CANARY_BYTES + offset, len).to_vec();
    memory[1].expect(CANARY_BYTES + place(wr_id), &bytes);
}

#[track_caller]
pub fn check(memory: &[Arena; 2]) {
    for (node, arena) in memory.iter().enumerate() {
        assert_eq!(arena.first_difference(), None, "node {node}");
    }
}

/// Loss, damage, copies and disorder.
pub fn bad_cable() -> FaultSpec {
    FaultSpec {
        loss: 0.02,
        corrupt: 0.01,
        dup: 0.02,
        reorder: 0.02,
        ..FaultSpec::default()
    }
}
