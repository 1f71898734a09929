//! How fast the simulator is: cycles per second of two cards under four loads, as JSON lines. `make bench-sim` runs it.
//!
//! It is compiled against older commits, too: it may use only what those have.
//! `cargo run --release -p hca-system-tests --example sim_speed -- [bulk|storm|pingpong|idle ...]`

use std::error::Error;
use std::time::Instant;

use hca_link::LinkKind;
use hca_system_tests::{Dev, Place, Rig, RigConfig, path};
use hca_verbs::{Access, Mr, Mtu, QpCap, RawQp, SendFlags, SendOp, SendWr, WrData};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What keeps the cards busy.
struct Load {
    name: &'static str,
    bytes: u32,
    qps: usize,
    /// Messages of a QP under way.
    depth: u32,
    /// Messages of a QP.
    total: u32,
    /// Each message answers the one before.
    alternate: bool,
}

const LOADS: &[Load] = &[
    Load {
        name: "bulk",
        bytes: 65536,
        qps: 1,
        depth: 4,
        total: 64,
        alternate: false,
    },
    Load {
        name: "storm",
        bytes: 64,
        qps: 64,
        depth: 16,
        total: 200,
        alternate: false,
    },
    Load {
        name: "pingpong",
        bytes: 4096,
        qps: 1,
        depth: 1,
        total: 150,
        alternate: true,
    },
];
/// Nothing to do for so long: `idle`.
const IDLE_CYCLES: u64 = 200_000_000;

/// A QP, with messages posted and completed.
struct Flow {
    qps: [RawQp<Dev>; 2],
    posted: u32,
    completed: u32,
}

/// Clocks at one moment.
struct Clocks {
    wall: Instant,
    cpu_s: f64,
    simulated: u64,
    evaluated: u64,
}

fn main() -> Outcome<()> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for load in LOADS.iter().filter(|load| wanted(load.name)) {
        let rig = Rig::new(&RigConfig::new(1, LinkKind::Ethernet))?;
        carry(&rig, load)?;
    }
    if wanted("idle") {
        let mut rig = Rig::new(&RigConfig::new(1, LinkKind::Ethernet))?;
        let start = clocks(&rig);
        rig.run(IDLE_CYCLES);
        print(&rig, "idle", &start);
    }
    Ok(())
}

fn carry(rig: &Rig, load: &Load) -> Outcome<()> {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let memory = |node: usize| -> Outcome<Mr<Dev>> {
        let buf = rig.nodes[node].alloc(load.bytes as usize)?;
        Ok(rig.nodes[node].register(&buf, Place::whole(&buf, access, (node as u64 + 1) << 40))?)
    };
    let memory = [memory(0)?, memory(1)?];
    let cap = QpCap {
        max_send_wr: load.depth,
        ..QpCap::default()
    };
    let flow = |_| -> Outcome<Flow> {
        Ok(Flow {
            qps: rig.connect([cap; 2], [false; 2], &path(Mtu::Bytes4096))?,
            posted: 0,
            completed: 0,
        })
    };
    let mut flows = (0..load.qps).map(flow).collect::<Outcome<Vec<_>>>()?;
    let start = clocks(rig);
    let due = u64::from(load.total) * load.qps as u64;
    let mut completed = 0;
    while completed < due {
        for (index, flow) in flows.iter_mut().enumerate() {
            post(flow, index, load, &memory)?;
        }
        for node in &rig.nodes {
            // Finding none lets time go on.
            while let Some(wc) = node.poll()? {
                if !wc.is_ok() {
                    return Err(format!("a work request failed: {wc:?}").into());
                }
                flows[wc.wr_id as usize].completed += 1;
                completed += 1;
            }
        }
    }
    print(rig, load.name, &start);
    Ok(())
}

/// Posts what there is room for.
fn post(flow: &mut Flow, index: usize, load: &Load, memory: &[Mr<Dev>; 2]) -> Outcome<()> {
    while flow.posted - flow.completed < load.depth && flow.posted < load.total {
        let from = usize::from(load.alternate && !flow.posted.is_multiple_of(2));
        let target = &memory[1 - from];
        let wr = SendWr {
            wr_id: index as u64,
            op: SendOp::RdmaWrite {
                remote_addr: target.addr(),
                rkey: target.rkey(),
            },
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&[memory[from].sge(0, load.bytes)]),
        };
        flow.qps[from].post_send(&[wr])?;
        flow.posted += 1;
    }
    Ok(())
}

fn clocks(rig: &Rig) -> Clocks {
    let fabric = rig.sim.fabric();
    let evaluated = rig
        .cards
        .map(|card| fabric.card(card).counters().evaluated_cycles);
    Clocks {
        wall: Instant::now(),
        cpu_s: cpu_s(),
        simulated: fabric.now(),
        evaluated: evaluated.iter().sum(),
    }
}

/// Processor time of this process, all threads.
fn cpu_s() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours and large enough.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn print(rig: &Rig, name: &str, start: &Clocks) {
    let end = clocks(rig);
    println!(
        r#"{{"load": "{name}", "simulated_cycles": {}, "evaluated_card_cycles": {}, "wall_s": {:.4}, "cpu_s": {:.4}}}"#,
        end.simulated - start.simulated,
        end.evaluated - start.evaluated,
        end.wall.duration_since(start.wall).as_secs_f64(),
        end.cpu_s - start.cpu_s,
    );
}
