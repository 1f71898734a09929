//! Cards around one switch, each writing to the next one: what keeps several threads busy.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hca_cosim::{CardId, Fabric, Simulation};
use hca_link::LinkKind;
use hca_topology::Topology;
use hca_verbs::{Access, Mr, Mtu, QpCap, RawQp, SendFlags, SendOp, SendWr, WrData};

use crate::node::{Dev, Node, Place, connect, path};
use crate::rig::RigError;
use crate::trace_hash::TraceHash;

/// Messages of a QP under way.
const DEPTH: u32 = 4;
/// Entries of a card's CQ: its one QP sends no more than `DEPTH` at a time.
const CQE: u32 = 64;

/// A star, and what its cards carry.
#[derive(Clone, Debug)]
pub struct Star {
    /// Cards, 2 to 16.
    pub cards: usize,
    /// What joins them.
    pub link: LinkKind,
    /// Threads that evaluate the cards.
    pub threads: usize,
    /// Bytes of a message.
    pub bytes: u32,
    /// Messages of a card.
    pub messages: u32,
}

/// What a run has shown.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Of all cards' ports ([`TraceHash`]).
    pub trace_hash: u64,
    /// Simulated cycles of the traffic.
    pub cycles: u64,
    /// Cycles of single cards that were evaluated for it: over `cycles`, how many cards a cycle has to work on.
    pub evaluated_cycles: u64,
    /// How long they took.
    pub wall: Duration,
}

/// One card's end of what it sends and of what it receives.
struct Spoke {
    node: Node,
    memory: Mr<Dev>,
    posted: u32,
    completed: u32,
}

impl Star {
    fn topology(&self) -> Result<Topology, RigError> {
        let kind = match self.link {
            LinkKind::Ethernet => "ethernet",
            LinkKind::InfiniBand => "infiniband",
        };
        let mut text = format!(
            "[defaults]\nkind = \"{kind}\"\n[[switch]]\nname = \"sw\"\nports = {}\n",
            self.cards
        );
        for card in 0..self.cards {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[[card]]\n[[link]]\nends = [\"card{card}\", \"sw\"]");
        }
        Topology::parse("star.toml", &text).map_err(|why| RigError::Wrong(why.to_string()))
    }

    /// Carries the traffic.
    pub fn carry(&self) -> Result<Carried, RigError> {
        let built = Fabric::from_topology(&self.topology()?, 1)?;
        let (cards, mut fabric) = (built.cards, built.fabric);
        fabric.set_threads(self.threads);
        let mut hash = TraceHash::record(&mut fabric, &cards);
        let sim = Simulation::new(fabric);
        let mut spokes = cards
            .iter()
            .enumerate()
            .map(|(index, card)| self.spoke(&sim, *card, index))
            .collect::<Result<Vec<_>, _>>()?;
        let mut qps = self.connect(&spokes)?;
        let progress = || {
            let fabric = sim.fabric();
            let of_card = |card: &CardId| fabric.card(*card).counters().evaluated_cycles;
            (fabric.now(), cards.iter().map(of_card).sum::<u64>())
        };
        let (start, before) = (Instant::now(), progress());
        while spokes.iter().any(|spoke| spoke.completed < self.messages) {
            for index in 0..self.cards {
                let next = &spokes[(index + 1) % self.cards].memory;
                let target = (next.addr(), next.rkey());
                self.post(&mut spokes[index], &mut qps[index][0], target)?;
            }
            for spoke in &mut spokes {
                reap(spoke)?;
            }
            hash.collect(&mut sim.fabric(), &cards);
        }
        let (wall, after) = (start.elapsed(), progress());
        Ok(Carried {
            trace_hash: hash.value(),
            cycles: after.0 - before.0,
            evaluated_cycles: after.1 - before.1,
            wall,
        })
    }

    fn spoke(&self, sim: &Simulation, card: CardId, index: usize) -> Result<Spoke, RigError> {
        let node = Node::open(sim.device(card, 0)?, CQE)?;
        let buf = node.alloc(self.bytes as usize)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = node.register(&buf, Place::whole(&buf, access, (index as u64 + 1) << 40))?;
        Ok(Spoke {
            node,
            memory,
            posted: 0,
            completed: 0,
        })
    }

    /// A QP from each card to the next, as two ends.
    fn connect(&self, spokes: &[Spoke]) -> Result<Vec<[RawQp<Dev>; 2]>, RigError> {
        let cap = QpCap {
            max_send_wr: DEPTH,
            ..QpCap::default()
        };
        let pair = |index: usize| -> Result<[RawQp<Dev>; 2], RigError> {
            let ends = [index, (index + 1) % self.cards];
            let [here, there] = ends.map(|end| spokes[end].node.create_qp(cap, false));
            let mut qps = [here?, there?];
            connect(&mut qps, &path(Mtu::Bytes4096))?;
            Ok(qps)
        };
        (0..self.cards).map(pair).collect()
    }

    /// Posts what there is room for.
    fn post(
        &self,
        spoke: &mut Spoke,
        qp: &mut RawQp<Dev>,
        (remote_addr, rkey): (u64, u32),
    ) -> Result<(), RigError> {
        while spoke.posted - spoke.completed < DEPTH && spoke.posted < self.messages {
            qp.post_send(&[SendWr {
                wr_id: spoke.posted.into(),
                op: SendOp::RdmaWrite { remote_addr, rkey },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[spoke.memory.sge(0, self.bytes)]),
            }])?;
            spoke.posted += 1;
        }
        Ok(())
    }
}

/// Takes what has completed. Finding none lets time go on.
fn reap(spoke: &mut Spoke) -> Result<(), RigError> {
    while let Some(wc) = spoke.node.poll()? {
        if !wc.is_ok() {
            return Err(RigError::Wrong(format!("a work request failed: {wc:?}")));
        }
        spoke.completed += 1;
    }
    Ok(())
}
