//! Random transfers under random faults. A seed decides everything; the same seed gives the same cycles.
//!
//! ```no_run
//! use hca_system_tests::scenario::{Options, run};
//! let report = run(7, &Options::default()).unwrap();
//! println!("{} messages in {} cycles", report.messages, report.cycles);
//! ```

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use hca_cosim::Design;
use hca_host::PcieParams;
use hca_link::{CableStats, FaultSpec, LinkKind};

use crate::judge::Judge;
use crate::plan::Plan;
use crate::rig::{Rig, RigConfig, RigError};
use crate::services::{Services, ServicesPlan, join_partition};
use crate::traffic::Traffic;
use crate::upheaval::Upheaval;

/// Simulated time that a scenario may take: every retransmission of every message fits in.
const LIMIT_NS: u64 = 4_000_000_000;
/// Cycles from the last completion to rest; a timer that is still set may run out meanwhile.
const REST_CYCLES: u64 = 40_000_000;

/// Bounds of a scenario; what is `None` is drawn.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the cards are made of.
    pub designs: [Design; 2],
    /// Personality of the ports.
    pub link: Option<LinkKind>,
    /// Faults of each cable.
    pub faults: Option<FaultSpec>,
    /// Selective repeat on all connections.
    pub selective: Option<bool>,
    /// Switches between the cards; `None`: as [`RigConfig::new`] says.
    pub switches: Option<u8>,
    /// Connections at most.
    pub pairs_max: u32,
    /// Messages of each direction of a connection at most.
    pub messages_max: u32,
    /// Draw, at times, a program beside that loses its objects; false: the messages are the only traffic.
    pub upheavals: bool,
    /// Draw, at times, a program beside that uses every service.
    pub services: bool,
    /// Hold the rules of the transport against every packet; false: nobody looks at packets.
    pub judged: bool,
    /// Parts of what is drawn that are left away: their names are those of [`crate::shrink()`].
    pub without: Vec<String>,
    /// Hash every event at the cards' ports.
    pub hash: bool,
    /// Record the stages of this many work requests.
    pub stages: usize,
    /// Write a timeline.
    pub timeline: Option<PathBuf>,
    /// Leave cards alone while nothing of theirs would change ([`hca_cosim::Fabric::set_jumps`]).
    pub jumps: bool,
    /// Threads that evaluate the cards ([`hca_cosim::Fabric::set_threads`]).
    pub threads: usize,
    /// What registers hold before reset ([`hca_cosim::Fabric::set_registers`]).
    pub registers: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            designs: [Design::chosen(); 2],
            link: None,
            faults: None,
            selective: None,
            switches: None,
            pairs_max: 8,
            messages_max: 10,
            upheavals: true,
            services: true,
            judged: true,
            without: Vec::new(),
            hash: false,
            stages: 0,
            timeline: None,
            jumps: true,
            threads: 1,
            registers: 0,
        }
    }
}

/// What has happened in a scenario that went well.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Connections.
    pub pairs: usize,
    /// Messages transferred.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Cycles simulated.
    pub cycles: u64,
    /// Packets that the rules of the transport have been held against.
    pub judged: u64,
    /// What the cable at card 0 has carried and done.
    pub cable: CableStats,
    /// Hash of all port events, if asked for.
    pub trace_hash: u64,
}

/// A scenario that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// When it was noticed.
    pub cycle: u64,
    /// What is wrong.
    pub what: String,
    /// What the seed had drawn.
    pub drawn: String,
    /// Options that repeat it, beside the seed.
    pub options: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            cycle,
            what,
            drawn,
            options,
        } = self;
        write!(
            f,
            "seed {seed}, cycle {cycle}: {what} ({drawn}); repeat: hca soak --seeds 1 --start {seed}{options}"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs the scenario of a seed.
pub fn run(seed: u64, options: &Options) -> Result<Report, Failure> {
    run_watched(seed, options, |_| ())
}

/// Runs the scenario of a seed, and shows the cards after its good end.
pub fn run_watched(seed: u64, options: &Options, mut watch: impl FnMut(&Rig)) -> Result<Report, Failure> {
    let mut plan = Plan::draw(seed, options);
    plan.leave_away(&options.without);
    let mut cycle = 0;
    // A broken port contract or a failed assertion of the RTL panics inside the simulator.
    let result = catch_unwind(AssertUnwindSafe(|| {
        run_plan(seed, &plan, options, &mut cycle, &mut watch)
    }));
    let what = match result {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic_text(&*panic),
    };
    Err(Failure {
        seed,
        cycle,
        what,
        drawn: plan.to_string(),
        options: repeat(options),
    })
}

/// Options of `hca soak` that are not as usual.
fn repeat(options: &Options) -> String {
    let mut text = String::new();
    if options.designs != [Design::Rtl; 2] {
        let [first, second] = options.designs.map(Design::name);
        text += &format!(" --cards {first},{second}");
    }
    if let Some(count) = options.switches {
        text += &format!(" --switches {count}");
    }
    if !options.without.is_empty() {
        text += &format!(" --without {}", options.without.join(","));
    }
    text
}

/// What a panic inside the simulator said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}

fn run_plan(
    seed: u64,
    plan: &Plan,
    options: &Options,
    cycle: &mut u64,
    watch: &mut dyn FnMut(&Rig),
) -> Result<Report, RigError> {
    let [pcie, other] = plan.swarm.hosts.clone().map(|host| PcieParams {
        read_jitter_ns: plan.read_jitter_ns,
        ..host
    });
    let config = RigConfig::new(seed, plan.link);
    let mut rig = Rig::new(&RigConfig {
        designs: options.designs,
        switches: options.switches.unwrap_or(config.switches),
        faults: plan.faults,
        pcie,
        other_pcie: Some(other),
        think_cycles: plan.swarm.think_cycles,
        stages: options.stages,
        timeline: options.timeline.clone().map(|file| (file, 0..u64::MAX)),
        threads: options.threads,
        registers: options.registers,
        ..config
    })?;
    rig.set_jumps(options.jumps);
    if options.hash {
        rig.hash_traces();
    }
    if let Some(congestion) = &plan.congestion {
        for node in &rig.nodes {
            node.context.set_congestion(1, Some(congestion))?;
        }
    }
    let judge = Judge::attach_if(options.judged, &mut rig).behind_slow_hosts(plan.swarm.pipeline_ns());
    if plan.services.as_ref().is_some_and(ServicesPlan::has_paths) {
        join_partition(&mut rig)?;
    }
    let mut traffic = Traffic::new(&mut rig, seed, plan, &judge)?;
    let upheaval = plan.swarm.upheaval;
    let upheaval = upheaval
        .map(|upheaval| Upheaval::new(&rig, seed, upheaval, plan.swarm.ack_timeout()))
        .transpose()?;
    let services = plan.services.as_ref();
    let mut services = services
        .map(|services| Services::new(&mut rig, seed, plan, services, &judge))
        .transpose()?;
    let mut run = Run {
        rig: &mut rig,
        traffic: &mut traffic,
        services: services.as_mut(),
        upheaval,
        judge: &judge,
    };
    let result = run.drive(plan.swarm.changes_every);
    *cycle = rig.now_cycles();
    result?;
    watch(&rig);
    Ok(Report {
        pairs: plan.pairs.len(),
        messages: traffic.messages() + services.as_ref().map_or(0, Services::messages),
        bytes: traffic.bytes() + services.as_ref().map_or(0, Services::bytes),
        cycles: *cycle,
        judged: judge.packets(),
        cable: rig.cable_stats(),
        trace_hash: rig.trace_hash(),
    })
}

/// All that goes on in a rig.
struct Run<'r, 'p> {
    rig: &'r mut Rig,
    traffic: &'r mut Traffic<'p>,
    services: Option<&'r mut Services<'p>>,
    upheaval: Option<Upheaval>,
    judge: &'r Judge,
}

impl Run<'_, '_> {
    fn drive(&mut self, changes_every: Option<u32>) -> Result<(), RigError> {
        let end_ns = self.rig.now_ns() + LIMIT_NS;
        let mut turns = 0;
        while !self.is_done() {
            let changed = self.turn()?;
            if !changed {
                self.rig.progress();
            }
            turns += 1;
            if changes_every.is_some_and(|every| turns % every == 0) {
                self.traffic.change(self.rig, turns)?;
            }
            if self.rig.now_ns() > end_ns {
                return Err(RigError::Late {
                    what: self.missing(),
                    limit_ns: LIMIT_NS,
                });
            }
        }
        if let Some(upheaval) = &mut self.upheaval {
            upheaval.end(self.rig)?;
        }
        self.rig.check_idle(REST_CYCLES)?;
        self.judge.verdict()?;
        if let Some(upheaval) = &mut self.upheaval {
            upheaval.check_end()?;
        }
        if let Some(services) = &mut self.services {
            services.check_end(self.rig)?;
        }
        self.traffic.check_end(self.rig)
    }

    fn is_done(&self) -> bool {
        self.traffic.is_done() && self.services.as_ref().is_none_or(|services| services.is_done())
    }

    fn turn(&mut self) -> Result<bool, RigError> {
        let mut changed = self.traffic.turn(self.rig)?;
        if let Some(services) = &mut self.services {
            changed |= services.turn(self.rig)?;
        }
        self.judge.verdict()?;
        if let Some(upheaval) = &mut self.upheaval {
            changed |= upheaval.turn()?;
        }
        Ok(changed)
    }

    fn missing(&self) -> String {
        let services = self.services.as_ref().filter(|services| !services.is_done());
        let mut text: Vec<String> = services.map(|services| services.missing()).into_iter().collect();
        if !self.traffic.is_done() {
            text.push(self.traffic.missing());
        }
        text.join("; ")
    }
}
