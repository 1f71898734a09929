//! Incast: several cards write to one through a switch that marks and pauses, or one reads from several. Who gets what,
//! and how long the queue of the switch is. `hca incast` and the system test stand on this.

use std::fmt::Write as _;
use std::path::PathBuf;

use hca_cosim::{BuiltSwitch, CableId, CardId, EthSwitchId, Fabric, SimError, Simulation};
use hca_link::Tap;
use hca_topology::Topology;
use hca_verbs::{
    Access, CcAlgorithm, Congestion, ConnectOptions, LinkConfig, Mr, Mtu, QpCap, RawQp, SendFlags, SendOp,
    SendWr, WorkCompletion, WrData,
};

use crate::{Dev, Node, Place, RigError, connect, path};

/// Of a message.
const BYTES: u32 = 4096;
/// Messages of a sender under way.
const DEPTH: u32 = 32;
/// Class of the traffic; the cards make a priority of its upper three bits.
const CLASS: u8 = PRIORITY << 5;
const PRIORITY: u8 = 3;
const PORT: u8 = 1;
/// Cycles between two looks.
const STEP_CYCLES: u64 = 100;

/// What is run.
#[derive(Clone, Debug)]
pub struct Incast {
    /// Cards whose data goes to one more.
    pub senders: u8,
    /// That one reads it; else they write.
    pub reads: bool,
    /// Rate of all cables.
    pub rate_gbps: u32,
    /// What all cards do about congestion.
    pub congestion: Option<Congestion>,
    /// Cycles before anything is counted: rates find their values.
    pub settle_cycles: u64,
    /// Cycles in which it is.
    pub look_cycles: u64,
    /// Decides which packets the switch marks.
    pub seed: u64,
    /// A capture of the receiver's cable.
    pub capture: Option<PathBuf>,
}

impl Default for Incast {
    fn default() -> Self {
        Self {
            senders: 8,
            reads: false,
            rate_gbps: 100,
            congestion: None,
            settle_cycles: 150_000,
            look_cycles: 150_000,
            seed: 5,
            capture: None,
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Payload of each sender, in the cycles that counted.
    pub bytes: Vec<u64>,
    /// Cycles that counted.
    pub cycles: u64,
    /// Bytes inside the switch at each look, from the very beginning.
    pub queue: Vec<u64>,
    /// Of these, looks before anything counted.
    pub settling: usize,
    /// Frames with which the switch paused a sender.
    pub pauses: u64,
    /// Share of the time for which a sender was paused.
    pub paused: f64,
    /// CNPs that reached senders.
    pub cnps: u64,
}

impl Seen {
    /// Jain's index: 1 where all got the same, 1 / n where one got all.
    pub fn fairness(&self) -> f64 {
        let sum: f64 = self.bytes.iter().map(|bytes| *bytes as f64).sum();
        let squares: f64 = self.bytes.iter().map(|bytes| (*bytes as f64).powi(2)).sum();
        sum * sum / (self.bytes.len() as f64 * squares).max(f64::MIN_POSITIVE)
    }

    /// Payload, in bytes per cycle.
    pub fn goodput(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.cycles as f64
    }

    /// Mean length of the queue, in bytes.
    pub fn queue_mean(&self) -> f64 {
        let counted = &self.queue[self.settling..];
        counted.iter().sum::<u64>() as f64 / counted.len().max(1) as f64
    }

    /// Length that the queue has no more than, this percentage of the time.
    pub fn queue_percentile(&self, percent: usize) -> u64 {
        let mut counted = self.queue[self.settling..].to_vec();
        counted.sort_unstable();
        let at = (counted.len() * percent).div_ceil(100).saturating_sub(1);
        counted.get(at).copied().unwrap_or(0)
    }
}

/// DCQCN with times in proportion to a fabric whose round trip is 2 us, not the 50 us of its publication.
pub fn quick_dcqcn() -> Congestion {
    Congestion {
        cnp_interval_ns: 4_000,
        alpha_period_ns: 5_000,
        rate_period_ns: 10_000,
        rate_bytes: 400_000,
        alpha_shift: 4,
        min_rate_mbps: 500,
        additive_mbps: 400,
        hyper_mbps: 1_000,
        ..Congestion::default()
    }
}

/// Rates by round trips, for the same fabric.
pub fn quick_delay() -> Congestion {
    Congestion {
        algorithm: CcAlgorithm::Delay,
        delay_target_ns: 5_000,
        delay_scale: 11,
        delay_shift: 2,
        rate_period_ns: 4_000,
        ..quick_dcqcn()
    }
}

struct Sender {
    node: Node,
    memory: Mr<Dev>,
    /// That of the two which asks for the data to move: the receiver's if it reads.
    qp: RawQp<Dev>,
    _other: RawQp<Dev>,
    under_way: u32,
    bytes: u64,
}

impl Sender {
    fn take(&mut self, wc: &WorkCompletion) -> Result<(), RigError> {
        if !wc.is_ok() {
            return Err(RigError::Wrong(format!("a message failed: {wc:?}")));
        }
        self.under_way -= 1;
        self.bytes += u64::from(BYTES);
        Ok(())
    }

    /// Keeps `DEPTH` messages under way.
    fn fill(&mut self, landing: &Mr<Dev>, reads: bool) -> Result<(), RigError> {
        let (local, remote) = match reads {
            true => (landing, &self.memory),
            false => (&self.memory, landing),
        };
        let (remote_addr, rkey) = (remote.addr(), remote.rkey());
        while self.under_way < DEPTH {
            let request = SendWr {
                wr_id: 0,
                op: match reads {
                    true => SendOp::RdmaRead { remote_addr, rkey },
                    false => SendOp::RdmaWrite { remote_addr, rkey },
                },
                flags: SendFlags::SIGNALED,
                data: WrData::Sges(&[local.sge(0, BYTES)]),
            };
            self.qp.post_send(&[request])?;
            self.under_way += 1;
        }
        Ok(())
    }
}

/// Counters of all senders.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Cycle in which the first one was asked.
    at: u64,
    pauses: u64,
    paused_cycles: u64,
    cnps: u64,
}

struct Bench {
    sim: Simulation,
    switch: EthSwitchId,
    /// That of the receiver.
    cable: CableId,
    senders: Vec<Sender>,
    receiver: Node,
    landing: Mr<Dev>,
    reads: bool,
}

impl Bench {
    fn queue(&self) -> u64 {
        let fabric = self.sim.fabric();
        let switch = fabric.net().eth_switch(self.switch);
        let ports = 2..=self.senders.len() as u8 + 1;
        ports
            .map(|port| u64::from(switch.held_bytes(port, PRIORITY)))
            .sum()
    }

    /// Runs for so long and adds the queue of each step.
    fn run(&mut self, cycles: u64, queue: &mut Vec<u64>) -> Result<(), RigError> {
        let end = self.sim.fabric().now() + cycles;
        while self.sim.fabric().now() < end {
            self.take()?;
            for sender in &mut self.senders {
                sender.fill(&self.landing, self.reads)?;
            }
            self.sim.fabric().run(STEP_CYCLES);
            queue.push(self.queue());
        }
        Ok(())
    }

    /// Takes what is complete.
    fn take(&mut self) -> Result<(), RigError> {
        if self.reads {
            while let Some(wc) = self.receiver.poll_ready()? {
                let of = |sender: &&mut Sender| sender.qp.qp_num() == wc.qp_num;
                let sender = self.senders.iter_mut().find(of);
                let stranger = || RigError::Wrong(format!("{wc:?} of a QP that nobody has"));
                sender.ok_or_else(stranger)?.take(&wc)?;
            }
        }
        for sender in &mut self.senders {
            while let Some(wc) = sender.node.poll_ready()? {
                sender.take(&wc)?;
            }
        }
        Ok(())
    }

    /// Payload of each sender, so far.
    fn bytes(&self) -> Vec<u64> {
        self.senders.iter().map(|sender| sender.bytes).collect()
    }

    fn counts(&self) -> Result<Counts, RigError> {
        let mut counts = Counts {
            at: self.sim.fabric().now(),
            ..Counts::default()
        };
        for sender in &self.senders {
            let context = &sender.node.context;
            let of_priority = &context.pfc_status(PORT)?.priorities[usize::from(PRIORITY)];
            counts.pauses += u64::from(of_priority.received());
            counts.paused_cycles += u64::from(of_priority.paused_cycles());
            counts.cnps += context.query_counters(PORT)?.rp_cnp_handled();
        }
        Ok(counts)
    }
}

impl Incast {
    /// All of it.
    pub fn run(&self) -> Result<Seen, RigError> {
        let mut bench = self.bench()?;
        let mut seen = Seen::default();
        bench.run(self.settle_cycles, &mut seen.queue)?;
        seen.settling = seen.queue.len();
        let before = bench.counts()?;
        // Asking takes time: what was completed meanwhile does not count.
        bench.run(STEP_CYCLES, &mut Vec::new())?;
        let (bytes, start) = (bench.bytes(), bench.sim.fabric().now());
        bench.run(self.look_cycles, &mut seen.queue)?;
        seen.cycles = bench.sim.fabric().now() - start;
        let sent = bench.bytes().into_iter().zip(bytes);
        seen.bytes = sent.map(|(after, before)| after - before).collect();
        let after = bench.counts()?;
        seen.pauses = after.pauses - before.pauses;
        let paused = (after.paused_cycles - before.paused_cycles) as f64;
        seen.paused = paused / ((after.at - before.at) as f64 * f64::from(self.senders));
        seen.cnps = after.cnps - before.cnps;
        let mut fabric = bench.sim.fabric();
        fabric.cable_mut(bench.cable).close().map_err(SimError::from)?;
        Ok(seen)
    }

    /// A switch that marks from 8 kB on, all from 60 kB on, and pauses a sender of which it has 64 kB.
    fn topology(&self) -> Result<Topology, RigError> {
        let mut text = format!(
            "[defaults]\nkind = \"ethernet\"\nrate_gbps = {}\n[[switch]]\nname = \"sw\"\nports = {}\n\
             queue_bytes = 4194304\npfc = {{ priorities = [{PRIORITY}] }}\n\
             ecn = {{ min_bytes = 8000, max_bytes = 60000, probability = 0.1 }}\n",
            self.rate_gbps,
            self.senders + 1
        );
        for card in 0..=self.senders {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[[card]]\n[[link]]\nends = [\"card{card}\", \"sw\"]");
        }
        Topology::parse("incast.toml", &text).map_err(|why| RigError::Wrong(why.to_string()))
    }

    fn node(&self, sim: &Simulation, card: CardId, base: u64) -> Result<(Node, Mr<Dev>), RigError> {
        let node = Node::open(sim.device(card, 0)?, 2 * DEPTH * u32::from(self.senders))?;
        node.context
            .link_config(PORT, &LinkConfig::new().pfc_enable(1 << PRIORITY))?;
        node.context.set_congestion(PORT, self.congestion.as_ref())?;
        let buf = node.alloc(BYTES as usize)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let memory = node.register(&buf, Place::whole(&buf, access, base))?;
        Ok((node, memory))
    }

    fn bench(&self) -> Result<Bench, RigError> {
        let mut built = Fabric::from_topology(&self.topology()?, self.seed)?;
        let BuiltSwitch::Ethernet(switch) = built.switches[0] else {
            return Err(RigError::Wrong("the switch is not one of Ethernet".to_owned()));
        };
        let cable = built.cables[0];
        if let Some(path) = &self.capture {
            built.fabric.capture(cable, Tap::Sent, path)?;
        }
        let sim = Simulation::new(built.fabric);
        let (receiver, landing) = self.node(&sim, built.cards[0], 1 << 40)?;
        let cap = QpCap {
            max_send_wr: 2 * DEPTH,
            ..QpCap::default()
        };
        let options = ConnectOptions {
            traffic_class: CLASS,
            timeout: 14, // a queue of a megabyte is no loss
            rd_atomic: 16,
            ..path(Mtu::Bytes1024)
        };
        let mut senders = Vec::new();
        for card in &built.cards[1..] {
            let (node, memory) = self.node(&sim, *card, 2 << 40)?;
            let mut qps = [node.create_qp(cap, false)?, receiver.create_qp(cap, false)?];
            connect(&mut qps, &options)?;
            if self.reads {
                qps.reverse();
            }
            let [qp, other] = qps;
            senders.push(Sender {
                node,
                memory,
                qp,
                _other: other,
                under_way: 0,
                bytes: 0,
            });
        }
        Ok(Bench {
            sim,
            switch,
            cable,
            senders,
            receiver,
            landing,
            reads: self.reads,
        })
    }
}
