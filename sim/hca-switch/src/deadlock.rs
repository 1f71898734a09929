//! Deadlock: receive buffers that wait for each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::ib::switch::IbSwitch;
use crate::net::{LinkEndAt, SwitchId};

/// A receive buffer of a switch, and what its first packet waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the switch.
    pub switch: String,
    /// Port at which the packets came in.
    pub port: u8,
    /// Their VL.
    pub vl: u8,
    /// The port by which one of them has to leave.
    pub output: u8,
    /// Blocks of 64 bytes that it needs in the next buffer.
    pub needs_blocks: u16,
    /// Blocks that are free there.
    pub free_blocks: u32,
}

/// A cycle of buffers, each waiting for room in the next and the last for room in the first. Without a lifetime of
/// packets it stays for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// Cycle of simulated time in which it was found.
    pub found_at: u64,
    /// The buffers, each followed by the one it waits for.
    pub cycle: Vec<Buffer>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "deadlock at cycle {}: {} receive buffers wait for each other",
            self.found_at,
            self.cycle.len()
        )?;
        for buffer in &self.cycle {
            write!(
                f,
                "; switch {} port {} VL {} needs {} blocks behind port {}, where {} are free",
                buffer.switch, buffer.port, buffer.vl, buffer.needs_blocks, buffer.output, buffer.free_blocks
            )?;
        }
        f.write_str("; use more VLs, routes without cycles (up/down), or a head-of-queue lifetime")
    }
}

impl std::error::Error for Deadlock {}

/// A buffer by number: switch, input port, VL.
type Key = (usize, u8, u8);

/// What one packet at a head of a buffer waits for.
struct Wait {
    output: u8,
    needs_blocks: u16,
    next: Key,
    free_blocks: u32,
}

/// The heads of each buffer all of whose heads wait for room in another switch.
fn blocked_heads(switches: &[IbSwitch], ends: &[[LinkEndAt; 2]]) -> BTreeMap<Key, Vec<Wait>> {
    let mut heads: BTreeMap<Key, Vec<Wait>> = BTreeMap::new();
    let mut free: BTreeSet<Key> = BTreeSet::new();
    // With a lifetime at the head of its queues a switch frees itself.
    let patient = |(_, switch): &(usize, &IbSwitch)| switch.config().hoq_life_cycles.is_none();
    for (index, switch) in switches.iter().enumerate().filter(patient) {
        for (source, output, vl, needs_blocks) in switch.waits() {
            let key = (index, source.port, source.vl);
            match behind(SwitchId(index), switch, output, ends) {
                Some((next, port)) if switches[next].buffer_free(port, vl) < needs_blocks.into() => {
                    heads.entry(key).or_default().push(Wait {
                        output,
                        needs_blocks,
                        next: (next, port, vl),
                        free_blocks: switches[next].buffer_free(port, vl),
                    });
                }
                // There is room, or a card or an endpoint, which takes what comes sooner or later.
                _ => {
                    free.insert(key);
                }
            }
        }
    }
    heads.retain(|key, _| !free.contains(key));
    heads
}

/// The switch and port behind an output.
fn behind(id: SwitchId, switch: &IbSwitch, output: u8, ends: &[[LinkEndAt; 2]]) -> Option<(usize, u8)> {
    let ends = ends.get(switch.cable(output)?)?;
    let here = LinkEndAt::Switch(id, output);
    match if ends[0] == here { ends[1] } else { ends[0] } {
        LinkEndAt::Switch(next, port) => Some((next.0, port)),
        LinkEndAt::Card { .. } | LinkEndAt::Endpoint(_) => None,
    }
}

/// Looks at the buffers as they are. A buffer is stuck when each packet at a head of it waits for room in a stuck
/// buffer: found by striking out, again and again, those that have a way out. What remains cannot ever move, whatever
/// is on the cables; if anything remains there is a cycle in it.
pub(crate) fn find(now: u64, switches: &[IbSwitch], ends: &[[LinkEndAt; 2]]) -> Option<Deadlock> {
    let mut stuck = blocked_heads(switches, ends);
    loop {
        let keys: BTreeSet<Key> = stuck.keys().copied().collect();
        stuck.retain(|_, waits| waits.iter().all(|wait| keys.contains(&wait.next)));
        if stuck.len() == keys.len() {
            break;
        }
    }
    let mut path: Vec<Key> = Vec::new();
    let mut at = *stuck.keys().next()?;
    while !path.contains(&at) {
        path.push(at);
        at = stuck.get(&at)?.first()?.next;
    }
    let start = path.iter().position(|key| *key == at)?;
    let buffer = |key: &Key| {
        let wait = stuck.get(key)?.first()?;
        Some(Buffer {
            switch: switches[key.0].name().to_owned(),
            port: key.1,
            vl: key.2,
            output: wait.output,
            needs_blocks: wait.needs_blocks,
            free_blocks: wait.free_blocks,
        })
    };
    Some(Deadlock {
        found_at: now,
        cycle: path[start..].iter().filter_map(buffer).collect(),
    })
}
