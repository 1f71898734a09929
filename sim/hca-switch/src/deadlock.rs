//! Deadlock: receive buffers that wait for each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::eth::switch::EthSwitch;
use crate::ib::switch::IbSwitch;
use crate::net::{EthSwitchId, LinkEndAt, SwitchId};

/// What a packet waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    /// Room in the next buffer, in blocks of 64 bytes.
    Room {
        /// What it needs.
        needs_blocks: u16,
        /// What is free there.
        free_blocks: u32,
    },
    /// The end of a pause of its priority.
    Pause,
}

/// A receive buffer of a switch, and what its first packet waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Name of the switch.
    pub switch: String,
    /// Port at which the packets came in.
    pub port: u8,
    /// Their VL, on Ethernet their priority.
    pub vl: u8,
    /// The port by which one of them has to leave.
    pub output: u8,
    /// What it waits for there.
    pub lacks: Lacks,
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
            let Buffer {
                switch,
                port,
                vl,
                output,
                lacks,
            } = buffer;
            match lacks {
                Lacks::Room {
                    needs_blocks,
                    free_blocks,
                } => write!(
                    f,
                    "; switch {switch} port {port} VL {vl} needs {needs_blocks} blocks behind port {output}, where \
                     {free_blocks} are free"
                )?,
                Lacks::Pause => write!(
                    f,
                    "; switch {switch} port {port} priority {vl} is paused at port {output}"
                )?,
            }
        }
        f.write_str("; use more VLs, routes without cycles (up/down), or a head-of-queue lifetime")
    }
}

impl std::error::Error for Deadlock {}

/// All switches of a network, and what is at the ends of its cables.
pub(crate) struct View<'a> {
    pub ib: &'a [IbSwitch],
    pub eth: &'a [EthSwitch],
    pub ends: &'a [[LinkEndAt; 2]],
}

/// A buffer: switch, input port, VL or priority. Ethernet switches are counted behind those of InfiniBand.
type Key = (usize, u8, u8);

/// What one packet at a head of a buffer waits for.
struct Wait {
    output: u8,
    next: Key,
    lacks: Lacks,
}

impl View<'_> {
    fn name(&self, switch: usize) -> &str {
        match self.ib.get(switch) {
            Some(switch) => switch.name(),
            None => self.eth.get(switch - self.ib.len()).map_or("", EthSwitch::name),
        }
    }

    /// The other end of a cable.
    fn behind(&self, cable: Option<usize>, here: LinkEndAt) -> Option<LinkEndAt> {
        let ends = self.ends.get(cable?)?;
        Some(if ends[0] == here { ends[1] } else { ends[0] })
    }

    /// For each packet at a head: its buffer, and what it waits for if that is a buffer of a switch. A card or an
    /// endpoint takes what comes, sooner or later.
    fn heads(&self) -> Vec<(Key, Option<Wait>)> {
        let mut heads = Vec::new();
        // With a lifetime at the head of its queues a switch frees itself.
        for (index, switch) in self.ib.iter().enumerate() {
            let waits = switch.waits();
            let for_ever = waits.filter(|(_, output, ..)| switch.hoq_life_cycles(*output).is_none());
            for (source, output, vl, needs_blocks) in for_ever {
                let here = LinkEndAt::Switch(SwitchId(index), output);
                let wait = match self.behind(switch.cable(output), here) {
                    Some(LinkEndAt::Switch(next, port)) => {
                        let free_blocks = self.ib[next.0].buffer_free(port, vl);
                        (free_blocks < needs_blocks.into()).then_some(Wait {
                            output,
                            next: (next.0, port, vl),
                            lacks: Lacks::Room {
                                needs_blocks,
                                free_blocks,
                            },
                        })
                    }
                    _ => None,
                };
                heads.push(((index, source.port, source.vl), wait));
            }
        }
        for (index, switch) in self.eth.iter().enumerate() {
            for (source, output, priority) in switch.waits() {
                let here = LinkEndAt::EthSwitch(EthSwitchId(index), output);
                let wait = match self.behind(switch.cable(output), here) {
                    Some(LinkEndAt::EthSwitch(next, port)) => {
                        let pausing = self.eth[next.0].is_pausing(port, priority);
                        pausing.then_some(Wait {
                            output,
                            next: (self.ib.len() + next.0, port, priority),
                            lacks: Lacks::Pause,
                        })
                    }
                    _ => None,
                };
                heads.push(((self.ib.len() + index, source.port, source.vl), wait));
            }
        }
        heads
    }
}

/// Looks at the buffers as they are. A buffer is stuck when each packet at a head of it waits for a stuck buffer: found
/// by striking out, again and again, those that have a way out. What remains cannot ever move, whatever is on the
/// cables; if anything remains there is a cycle in it.
pub(crate) fn find(now: u64, view: &View<'_>) -> Option<Deadlock> {
    let mut stuck: BTreeMap<Key, Vec<Wait>> = BTreeMap::new();
    let mut free: BTreeSet<Key> = BTreeSet::new();
    for (key, wait) in view.heads() {
        match wait {
            Some(wait) => stuck.entry(key).or_default().push(wait),
            None => {
                free.insert(key);
            }
        }
    }
    stuck.retain(|key, _| !free.contains(key));
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
            switch: view.name(key.0).to_owned(),
            port: key.1,
            vl: key.2,
            output: wait.output,
            lacks: wait.lacks,
        })
    };
    Some(Deadlock {
        found_at: now,
        cycle: path[start..].iter().filter_map(buffer).collect(),
    })
}
