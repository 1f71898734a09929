//! Two functions transfer and check every byte, while others of the same cards do everything wrong, or speak to QPs
//! whose peers they are not (D15, SYS-7, QPS-17).
//!
//! ```no_run
//! let report = hca_system_tests::siege::run(7).unwrap();
//! println!("{} operations, {} bytes", report.tally.operations, report.bytes);
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use hca_link::{FaultSpec, LinkKind};

use crate::attack::{Attacker, Tally, Target};
use crate::intruder::Intruder;
use crate::judge::Judge;
use crate::plan::Plan;
use crate::rig::{Rig, RigConfig, RigError, identity};
use crate::rng::Rng;
use crate::scenario::{Options, panic_text};
use crate::traffic::Traffic;

/// The function that is attacked from.
const HOSTILE: u8 = 1;
/// The function that speaks to strangers.
const INTRUDING: u8 = 2;
/// Cycles from the last completion to rest.
const REST_CYCLES: u64 = 40_000_000;
/// Card time that the neighbour's traffic may take in any case: connections with a depth of one, waits for a receive.
const BASE_CYCLES: u64 = 400_000;
/// Bytes per cycle that the neighbour gets at least; a 100 Gbit/s port has 50.
const LEAST_BYTES_PER_CYCLE: u64 = 4;
/// Time that attackers have before the neighbour's program runs again.
const BATCH_CYCLES_MAX: u64 = 300;
/// Register writes of an attacker's that the link to its card holds.
const STORES_MAX: usize = 64;
/// Card time for a command of the neighbour's: it alone takes some 2,500; the attacker may have a ring of them waiting.
const COMMAND_CYCLES_MAX: u64 = 200_000;

/// What has happened in a siege that did no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// What the attackers did.
    pub tally: Tally,
    /// Messages and bytes that passed beside it.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cycles of the traffic.
    pub cycles: u64,
    /// The longest command of the neighbour.
    pub command_cycles_max: u64,
    /// Messages to the neighbour's QPs from a function that is not their peer.
    pub intrusions: u64,
    /// Packets that were refused for their addresses.
    pub bad_sources: u64,
}

/// A siege that did harm.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// What the seed had drawn.
    pub drawn: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, drawn } = self;
        write!(
            f,
            "seed {seed}: {what} ({drawn}); repeat: START={seed} SEEDS=1 cargo test --release -p hca-system-tests \
             --test siege -- --ignored"
        )
    }
}

/// Runs the siege of a seed.
pub fn run(seed: u64) -> Result<Report, Failure> {
    let options = Options {
        faults: Some(FaultSpec::default()),
        pairs_max: 3,
        messages_max: 240,
        ..Options::default()
    };
    let plan = Plan::draw(seed, &options);
    let result = catch_unwind(AssertUnwindSafe(|| run_plan(seed, &plan)));
    let what = match result {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic_text(&*panic),
    };
    let drawn = plan.to_string();
    Err(Failure { seed, what, drawn })
}

struct Siege<'a> {
    rig: Rig,
    rng: Rng,
    traffic: Traffic<'a>,
    judge: Judge,
    attackers: [Attacker; 2],
    intruders: Vec<Intruder>,
    report: Report,
}

fn run_plan(seed: u64, plan: &Plan) -> Result<Report, RigError> {
    let mut rig = Rig::new(&RigConfig {
        switches: 0,
        ..RigConfig::new(seed, plan.link)
    })?;
    // An attacker that is cut off attacks nobody.
    rig.sim.let_writes_be_lost();
    // The neighbour is there first: the numbers of its QPs are never those of an attacker.
    let judge = Judge::attach(&mut rig);
    let traffic = Traffic::new(&mut rig, seed, plan, &judge)?;
    let open = |card: usize, name| {
        let dev = rig.sim.device(rig.cards[card], HOSTILE)?;
        Attacker::new(Rc::new(dev), seed, name)
    };
    let attackers = [open(0, "attacker0")?, open(1, "attacker1")?];
    let mut rng = Rng::new(seed, "siege");
    let intrude = |card: usize| {
        let dev = rig.sim.device(rig.cards[card], INTRUDING)?;
        Intruder::new(dev, plan.link, &mut rng, &traffic.strangers(card))
    };
    let intruders = (0..2).map(intrude).collect::<Result<_, _>>()?;
    let mut siege = Siege {
        rng,
        rig,
        traffic,
        judge,
        attackers,
        intruders,
        report: Report::default(),
    };
    siege.attack(plan.link)?;
    siege.end()
}

impl Siege<'_> {
    fn attack(&mut self, link: LinkKind) -> Result<(), RigError> {
        let start = self.rig.now_cycles();
        let bytes = self.traffic.bytes();
        let limit = start + BASE_CYCLES + bytes / LEAST_BYTES_PER_CYCLE;
        let mut commands = 0u32;
        while !self.traffic.is_done() {
            // Time that an attacker spends on looks at registers is not to hold the neighbour's program up.
            let until = self.rig.now_cycles() + BATCH_CYCLES_MAX;
            for _ in 0..self.rng.between(1, 256) {
                if self.rig.now_cycles() > until {
                    break;
                }
                let which = self.rng.below(2) as usize;
                // A store waits while the link is full.
                let card = self.rig.cards[which];
                let pending = self.rig.sim.fabric().card(card).pcie().mmio_pending(HOSTILE);
                if pending < STORES_MAX {
                    self.attackers[which].step()?;
                }
            }
            self.aim(link);
            if self.rng.percent(50) {
                let card = self.rng.below(2) as usize;
                self.report.intrusions += self.intruders[card].step(&mut self.rng)?;
            }
            while self.traffic.turn(&mut self.rig)? {}
            self.judge.verdict()?;
            let pause = self.rng.pick(&[1, 64, 64, 256, 1000]);
            self.rig.run(pause);
            self.check_faults()?;
            commands += 1;
            if commands.is_multiple_of(64) {
                self.command()?;
            }
            if self.rig.now_cycles() > limit {
                return Err(self.late(limit - start));
            }
        }
        self.report.cycles = self.rig.now_cycles() - start;
        Ok(())
    }

    /// Was it held up, or is it lost?
    fn late(&mut self, limit_cycles: u64) -> RigError {
        let missing = self.traffic.missing();
        for _ in 0..REST_CYCLES / 1000 {
            while let Ok(true) = self.traffic.turn(&mut self.rig) {}
            self.rig.run(1000);
            if self.traffic.is_done() {
                break;
            }
        }
        let then = if self.traffic.is_done() {
            "came when the attack was over"
        } else {
            "never came"
        };
        RigError::Wrong(format!(
            "{missing} did not come within {limit_cycles} cycles, and {then}"
        ))
    }

    /// Attackers send to one another, over the cable or to themselves, or to the neighbour on their own card: its peers
    /// are on the other one, so it must not hear them, whatever PSN they guess (QPS-17).
    fn aim(&mut self, link: LinkKind) {
        if !self.rng.percent(40) {
            return;
        }
        let (from, to) = (self.rng.below(2) as usize, self.rng.below(2) as usize);
        let port = identity(to as u8, link);
        let (qpns, regions) = self.attackers[to].offers();
        let strangers = self.traffic.strangers(to);
        let qpns = if from == to && (qpns.is_empty() || self.rng.percent(50)) {
            strangers.iter().map(|stranger| stranger.qpn).collect()
        } else {
            qpns.to_vec()
        };
        let mut dgid = [0; 16];
        dgid[10..12].fill(0xff);
        dgid[12..].copy_from_slice(&port.ipv4);
        let target = Target {
            dgid,
            dmac: port.mac,
            dlid: port.lid,
            qpns,
            regions: regions.to_vec(),
        };
        self.attackers[from].aim(target);
    }

    /// A command of the neighbour's, in time.
    fn command(&mut self) -> Result<(), RigError> {
        let before = self.rig.now_cycles();
        let node = &self.rig.nodes[self.rng.below(2) as usize];
        node.context.function().nop().map_err(hca_verbs::Error::from)?;
        let cycles = self.rig.now_cycles() - before;
        self.report.command_cycles_max = self.report.command_cycles_max.max(cycles);
        if cycles > COMMAND_CYCLES_MAX {
            return Err(RigError::Wrong(format!(
                "a NOP of the neighbour took {cycles} cycles"
            )));
        }
        Ok(())
    }

    /// Nobody touched memory of the neighbour's that is not mapped; what attackers do to themselves is theirs.
    fn check_faults(&mut self) -> Result<(), RigError> {
        let mut fabric = self.rig.sim.fabric();
        for card in self.rig.cards {
            let faults = fabric.card_mut(card).host().faults();
            if let Some(fault) = faults.into_iter().find(|fault| fault.func != HOSTILE) {
                return Err(RigError::Wrong(fault.to_string()));
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report, RigError> {
        self.intruders.clear();
        for attacker in &mut self.attackers {
            attacker.finish()?;
            self.report.tally += attacker.tally();
        }
        self.rig.check_idle_beside(REST_CYCLES, HOSTILE)?;
        self.traffic.check_end(&mut self.rig)?;
        for node in &self.rig.nodes {
            self.report.bad_sources += node.context.query_counters(1)?.bad_sources();
        }
        // The function works again for whoever comes next.
        for card in self.rig.cards {
            let node = crate::Node::open(self.rig.sim.device(card, HOSTILE)?, 16)?;
            node.context.function().nop().map_err(hca_verbs::Error::from)?;
        }
        self.report.messages = self.traffic.messages();
        self.report.bytes = self.traffic.bytes();
        Ok(self.report)
    }
}
