//! Several cards write to one through a switch that marks: who gets what, and how long the switch's queue is.

use hca_cosim::{BuiltSwitch, CardId, EthSwitchId, Fabric, Simulation};
use hca_system_tests::{Dev, Node, Place, connect, path};
use hca_topology::Topology;
use hca_verbs::{
    Access, CcAlgorithm, Congestion, ConnectOptions, Mr, Mtu, QpCap, RawQp, SendFlags, SendOp, SendWr, WrData,
};

const SENDERS: usize = 3;
const BYTES: u32 = 4096;
/// WRITEs of a sender under way.
const DEPTH: u32 = 32;
/// Class of the traffic: priority 3.
const CLASS: u8 = 96;
const PRIORITY: u8 = 3;
/// The queue of the switch has no flow control and room for all.
const QUEUE_BYTES: u32 = 1 << 22;
/// Where the switch begins to mark, and marks all.
const MARKS: (u32, u32) = (8_000, 60_000);
const SETTLE_CYCLES: u64 = 150_000;
const LOOK_CYCLES: u64 = 150_000;

struct Sender {
    node: Node,
    memory: Mr<Dev>,
    qp: RawQp<Dev>,
    under_way: u32,
    bytes: u64,
}

struct Incast {
    sim: Simulation,
    switch: EthSwitchId,
    senders: Vec<Sender>,
    /// Kept as long as the senders write to it.
    _receiver: (Node, Mr<Dev>, Vec<RawQp<Dev>>),
    target: (u64, u32),
}

/// What was seen in a time.
#[derive(Debug)]
struct Seen {
    /// Payload of each sender.
    bytes: Vec<u64>,
    /// Of the queue, in bytes.
    mean: f64,
    peak: u64,
    cycles: u64,
}

impl Seen {
    /// Jain's index: 1 where all got the same, 1 / n where one got all.
    fn fairness(&self) -> f64 {
        let sum: f64 = self.bytes.iter().map(|bytes| *bytes as f64).sum();
        let squares: f64 = self.bytes.iter().map(|bytes| (*bytes as f64).powi(2)).sum();
        sum * sum / (self.bytes.len() as f64 * squares)
    }

    /// Payload, in bytes per cycle.
    fn goodput(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.cycles as f64
    }
}

fn topology() -> Topology {
    let (min, max) = MARKS;
    let mut text = format!(
        "[defaults]\nkind = \"ethernet\"\nrate_gbps = 100\n[[switch]]\nname = \"sw\"\nports = {}\n\
         queue_bytes = {QUEUE_BYTES}\necn = {{ min_bytes = {min}, max_bytes = {max}, probability = 0.1 }}\n",
        SENDERS + 1
    );
    for card in 0..=SENDERS {
        text += &format!("[[card]]\n[[link]]\nends = [\"card{card}\", \"sw\"]\n");
    }
    Topology::parse("incast.toml", &text).unwrap()
}

fn node(sim: &Simulation, card: CardId, base: u64) -> (Node, Mr<Dev>) {
    let node = Node::open(sim.device(card, 0).unwrap(), 256).unwrap();
    let buf = node.alloc(BYTES as usize).unwrap();
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let memory = node.register(&buf, Place::whole(&buf, access, base)).unwrap();
    (node, memory)
}

impl Incast {
    fn new(congestion: Option<&Congestion>) -> Self {
        let built = Fabric::from_topology(&topology(), 5).unwrap();
        let BuiltSwitch::Ethernet(switch) = built.switches[0] else {
            panic!("not Ethernet")
        };
        let sim = Simulation::new(built.fabric);
        let (receiver, landing) = node(&sim, built.cards[0], 1 << 40);
        receiver.context.set_congestion(1, congestion).unwrap();
        let cap = QpCap {
            max_send_wr: 2 * DEPTH,
            ..QpCap::default()
        };
        let options = ConnectOptions {
            traffic_class: CLASS,
            ..path(Mtu::Bytes1024)
        };
        let (mut senders, mut ends) = (Vec::new(), Vec::new());
        for card in &built.cards[1..] {
            let (node, memory) = node(&sim, *card, 2 << 40);
            node.context.set_congestion(1, congestion).unwrap();
            let mut qps = [&node, &receiver].map(|node| node.create_qp(cap, false).unwrap());
            connect(&mut qps, &options).unwrap();
            let [qp, end] = qps;
            ends.push(end);
            senders.push(Sender {
                node,
                memory,
                qp,
                under_way: 0,
                bytes: 0,
            });
        }
        let target = (landing.addr(), landing.rkey());
        Self {
            sim,
            switch,
            senders,
            _receiver: (receiver, landing, ends),
            target,
        }
    }

    fn queue(&self) -> u64 {
        let fabric = self.sim.fabric();
        let switch = fabric.net().eth_switch(self.switch);
        (2..=SENDERS as u8 + 1)
            .map(|port| u64::from(switch.held_bytes(port, PRIORITY)))
            .sum()
    }

    fn step(&mut self) {
        let (remote_addr, rkey) = self.target;
        for sender in &mut self.senders {
            while let Some(wc) = sender.node.poll_ready().unwrap() {
                assert!(wc.is_ok(), "{wc:?}");
                sender.under_way -= 1;
                sender.bytes += u64::from(BYTES);
            }
            while sender.under_way < DEPTH {
                let request = SendWr {
                    wr_id: 0,
                    op: SendOp::RdmaWrite { remote_addr, rkey },
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&[sender.memory.sge(0, BYTES)]),
                };
                sender.qp.post_send(&[request]).unwrap();
                sender.under_way += 1;
            }
        }
        self.sim.fabric().run(100);
    }

    fn look(&mut self, cycles: u64) -> Seen {
        let before: Vec<u64> = self.senders.iter().map(|sender| sender.bytes).collect();
        let start = self.sim.fabric().now();
        let (mut sum, mut looks, mut peak) = (0, 0, 0);
        while self.sim.fabric().now() < start + cycles {
            self.step();
            let queue = self.queue();
            (sum, looks, peak) = (sum + queue, looks + 1, peak.max(queue));
        }
        let bytes = self.senders.iter().zip(before);
        Seen {
            bytes: bytes.map(|(sender, before)| sender.bytes - before).collect(),
            mean: sum as f64 / f64::from(looks),
            peak,
            cycles: self.sim.fabric().now() - start,
        }
    }
}

fn run(congestion: Option<&Congestion>) -> Seen {
    let mut incast = Incast::new(congestion);
    incast.look(SETTLE_CYCLES);
    let seen = incast.look(LOOK_CYCLES);
    println!(
        "{congestion:?}\n{seen:?}\nfairness {:.3}, goodput {:.1} bytes per cycle",
        seen.fairness(),
        seen.goodput()
    );
    seen
}

/// Times of DCQCN in proportion to a fabric whose round trip is 2 us, not 50.
fn quick() -> Congestion {
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

/// Three senders share a cable: without control the windows fill the switch's queue; DCQCN keeps it short, the cable in
/// use, and the shares alike. So does the algorithm that looks at round trips alone.
#[test]
fn control_keeps_the_queue_short_and_shares_alike() {
    let without = run(None);
    assert!(
        without.goodput() > 40.0 && without.mean > 100_000.0,
        "{without:?}"
    );
    let delay = Congestion {
        algorithm: CcAlgorithm::Delay,
        delay_target_ns: 5_000,
        delay_scale: 11,
        delay_shift: 2,
        rate_period_ns: 4_000,
        ..quick()
    };
    for congestion in [quick(), delay] {
        let with = run(Some(&congestion));
        assert!(with.mean < without.mean / 2.0, "{with:?} and {without:?}");
        assert!(
            with.goodput() > 0.7 * without.goodput(),
            "{with:?} and {without:?}"
        );
        assert!(with.fairness() > 0.9, "{with:?}");
    }
}
