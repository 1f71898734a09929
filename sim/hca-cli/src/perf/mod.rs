//! `hca perf`: bandwidth, message rate and latency in simulated time.

mod again;
mod before;
mod compare;
mod datagrams;
mod frames;
mod internal;
mod keep;
mod losses;
mod measure;
mod table;

use anyhow::{Result, bail};
use clap::ValueEnum;
use hca_host::PcieParams;
use hca_link::FaultSpec;
use hca_system_tests::path;
use hca_verbs::{ConnectOptions, Mtu, Service, StaticRate};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::link::ArbitrationArgs;
use crate::options::{FAULTS_HELP, Link, Machine, Pcie, TimelineArgs, Window};
use crate::plots::engineering;
use crate::sizes::{self, Sizes, human};
use crate::stages::Breakdown;
use crate::waveforms::TRACE_HELP;
use before::Before;
use keep::{keep, plot, plot_stages};
use measure::Bench;

/// Lines of a card at most, but the two that QP0 and QP1 have.
const QPS_MAX: i64 = 16_382;
/// Messages in flight that need no option.
const IN_FLIGHT_MAX: u32 = 1 << 16;
/// All buffers of a measurement together.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Inline bytes of the largest WQE.
const INLINE_BYTES_MAX: u32 = 480;
/// Receives that a shared queue holds.
const SRQ_WRS_MAX: u32 = 1 << 16;
/// Bytes of an atomic.
const ATOMIC_BYTES: u32 = 8;
/// Longest region; only what is touched of it takes memory, and its page list.
const REGION_BYTES_MAX: u64 = 1 << 40;

const EXAMPLES: &str = "Examples:
  hca perf --op write --size 64:1M
  hca perf --op read --size 4k,64k --qps 4 --link ib --json
  hca perf --link eth,ib --size 64:1M --qps 4
  hca perf --op send --size 64 --inline --signal-every 16 --outstanding 64
  hca perf --size 64,4k --keep before    and after a change: hca perf --size 64,4k --compare before
  hca perf --op read --size 4k --qps 16 --region 64G --page 4k
  hca perf --op fetch-add --qps 64 --region 1M    or, all of them the same word: --region 8
  hca perf --table core    every figure that is asked of the core, in one table, in some minutes
  hca perf --link ib --qps 2 --sl 0,1 --sl2vl 0,1 --vlarb-high 0:16 --vlarb-low 1:4 --high-limit 2

What is measured, all in simulated time, with the PCIe model on; a program's own instructions take no time:
  goodput, message rate   every QP keeps --outstanding messages in flight. After a warm-up of that many messages per
                          QP, the window starts with the completion of the last warm-up message and ends with the
                          completion of the last of --iters messages per QP. Counted is what is acknowledged in between.
                          With --in-flight the QPs have a message each in turn, whoever is done first.
  latency                 from post to completion seen by the program, one message in flight, in a phase of its own.
  card_internal_cycles    cycles that an isolated message spends in the cards, PCIe and wire excluded, by the time
                          stamps at their ports: doorbell accepted -> WQE read request, WQE data -> payload read
                          request, payload data -> first wire beat at the sender; last wire beat -> payload written at
                          the receiver. In general: the time from doorbell to first wire beat and from last wire beat
                          to payload write (READ: also from request to response at the responder), less the time in
                          which a PCIe read is in flight.
  goodput of each SL      with several --sl: while all of them are busy, from the end of the warm-up to the moment when
                          the first QP has posted all its messages.

  --region, --page        messages go to or come from random places of one region of the peer's, registered in pages;
                          the card keeps some of the page list, and reads the rest when it is needed. Said below the
                          figures: reads of the list for each message.

  --stages                the time of every work request, cut at the stages that it reaches: doorbell; wqe_asked,
                          wqe_arrived (its WQE, unless it rode with the doorbell); emit_first (its first packet is
                          made); tx_first, tx_last (on the wire); peer_rx_last (at the peer's port); placed (in host
                          memory); reply_tx_first, reply_tx_last, reply_rx (the acknowledge, or a READ's responses); cqe
                          (its completion is in host memory).
                          Twice: alone (one message in flight) and loaded (the window of the goodput and its warm-up).

Plots of a sweep (two sizes or more) go to target/perf or the folder of --plot: bandwidth.svg, message_rate.svg,
latency.svg.";

/// Operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// RDMA WRITE
    Write,
    /// RDMA READ
    Read,
    /// SEND into posted receives
    Send,
    /// SEND of datagrams (UD) into posted receives
    Datagram,
    /// Frames of raw QPs into posted receives, by a rule each; the size is that of the frame without FCS
    Raw,
    /// RDMA WRITE over unreliable connections (UC): over when it has left
    UcWrite,
    /// SEND over unreliable connections, into posted receives
    UcSend,
    /// Atomic fetch and add of 8 bytes: each QP its own word; with --region all of them words of one region, --region 8
    /// one and the same
    FetchAdd,
    /// Atomic compare and swap, likewise
    CmpSwap,
    /// ATOMIC WRITE of 8 bytes, likewise
    AtomicWrite,
    /// FLUSH of 8 bytes, likewise
    Flush,
    /// Masked fetch and add: two fields of 32 bits, likewise
    MaskedFetchAdd,
    /// Masked compare and swap: the masks are read from the WQE, as inline data is; likewise
    MaskedCmpSwap,
}

impl Op {
    /// Its messages use up receives.
    fn takes_receives(self) -> bool {
        matches!(self, Self::Send | Self::UcSend | Self::Datagram | Self::Raw)
    }

    /// It is of a word, no more and no less.
    fn is_atomic(self) -> bool {
        matches!(
            self,
            Self::FetchAdd
                | Self::CmpSwap
                | Self::AtomicWrite
                | Self::Flush
                | Self::MaskedFetchAdd
                | Self::MaskedCmpSwap
        )
    }

    /// The peer answers with a response.
    fn is_answered(self) -> bool {
        self == Self::Read || self.is_atomic()
    }

    /// Service of its connections.
    fn service(self) -> Service {
        match self {
            Self::Write | Self::Read | Self::Send => Service::Rc,
            Self::FetchAdd | Self::CmpSwap | Self::AtomicWrite | Self::Flush => Service::Rc,
            Self::MaskedFetchAdd | Self::MaskedCmpSwap => Service::Rc,
            Self::UcWrite | Self::UcSend => Service::Uc,
            Self::Datagram => Service::Ud,
            Self::Raw => Service::Raw,
        }
    }
}

/// Options of `hca perf`.
#[derive(clap::Args, Clone)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Measure a list of figures instead, each beside what it must be and what is wanted; nothing else is asked for
    /// but --json, --threads and --firmware
    #[arg(long, value_enum, value_name = "LIST", conflicts_with_all = ["op", "size", "qps", "link", "keep", "compare"])]
    table: Option<table::Table>,
    /// Operation
    #[arg(long, value_enum, default_value_t = Op::Write)]
    op: Op,
    /// Message sizes: N, N,N,.. or A:B (powers of two from A); k and M are understood [default: 64k; of atomics 8]
    #[arg(
        long,
        value_name = "SIZES",
        default_value = "64k",
        default_value_ifs = [
            ("op", "fetch-add", "8"),
            ("op", "cmp-swap", "8"),
            ("op", "atomic-write", "8"),
            ("op", "flush", "8"),
            ("op", "masked-fetch-add", "8"),
            ("op", "masked-cmp-swap", "8"),
        ],
        hide_default_value = true
    )]
    size: Sizes,
    /// QPs that work at the same time: all that the card has but two at most (HCA_VSIM_LINES). More than 200 have
    /// one memory region, for the card keeps 256 keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=QPS_MAX))]
    qps: u32,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 bytes
    #[arg(long, value_name = "N", default_value = "4096", value_parser = mtu)]
    mtu: u32,
    /// Personality of both ports; eth,ib: both are measured, and stand side by side in one table
    #[arg(
        long,
        value_name = "LINK",
        value_enum,
        value_delimiter = ',',
        default_value = "eth"
    )]
    link: Vec<Link>,
    /// Rate of the cable, line code not counted: 100 is 100 Gigabit Ethernet and InfiniBand 4x EDR
    #[arg(long, value_name = "GBPS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    rate: u64,
    /// InfiniBand with a global route header of 40 bytes, as between subnets
    #[arg(long)]
    grh: bool,
    /// Messages of each QP in the measured window [default: by size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=30_000))]
    iters: Option<u32>,
    /// Messages of each QP in flight [default: by size, 4 to 256; of several QPs 4 to 64, of all 65,536 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    outstanding: Option<u32>,
    /// Messages in flight of all QPs together, one of each at most: the QPs take turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536),
          conflicts_with_all = ["outstanding", "signal_every"])]
    in_flight: Option<u32>,
    /// Send the data inside the work request
    #[arg(long)]
    inline: bool,
    /// All QPs receive from one shared receive queue (SEND of any kind)
    #[arg(long)]
    srq: bool,
    /// Only every N-th message of a QP makes a completion
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    signal_every: u32,
    /// Messages at random places of one region of the peer's, of so many bytes, k, M or G [default: each QP has its own
    /// place]
    #[arg(long, value_name = "BYTES", value_parser = region)]
    region: Option<u64>,
    /// The region is registered in pages of this size, 4k to 1G [default: as one contiguous range]
    #[arg(long, value_name = "BYTES", value_parser = page, requires = "region")]
    page: Option<u64>,
    /// Service levels, N,N,..: the QPs take them in turn. On Ethernet: priorities, 0 to 7
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0",
          value_parser = clap::value_parser!(u8).range(0..=15))]
    sl: Vec<u8>,
    /// Static rate of the path in Gbit/s: 2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80 or more [default: none]
    #[arg(long, value_name = "GBPS", value_parser = static_rate)]
    static_rate: Option<StaticRate>,
    #[command(flatten)]
    arbitration: ArbitrationArgs,
    /// RC connections repeat selectively: what is lost of WRITEs and of READ data comes again alone. Else all behind it
    /// comes again (go-back-N)
    #[arg(long)]
    selective_repeat: bool,
    #[arg(long, value_name = "SPEC", default_value = "", hide_default_value = true, help = FAULTS_HELP)]
    faults: FaultSpec,
    /// Switches between the cards
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=16))]
    switches: u8,
    #[command(flatten)]
    pcie: Pcie,
    /// Decides the faults and the card's initial registers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    machine: Machine,
    /// Where the time goes: the stages of every work request, alone and under load; as a table and stages.svg
    #[arg(long)]
    stages: bool,
    /// One JSON object per size on stdout instead of a table
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "FROM:TO", num_args = 0..=1, default_missing_value = ":", help = TRACE_HELP)]
    trace: Option<Window>,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// Folder for plots and waveforms
    #[arg(long, value_name = "DIR", default_value = "target/perf")]
    plot: PathBuf,
    /// Keep all of the run in a folder for hca report: figures, counters, stages, plots (docs/run-folder.md)
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Show what has changed since an earlier run: its --keep folder, or a file with what --json printed
    #[arg(long, value_name = "BEFORE")]
    compare: Option<PathBuf>,
}

fn mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(bytes),
        _ => Err("the MTU is 256, 512, 1024, 2048 or 4096".to_owned()),
    }
}

fn region(text: &str) -> Result<u64, String> {
    match sizes::bytes(text)? {
        bytes @ 1..=REGION_BYTES_MAX => Ok(bytes),
        _ => Err("a region has 1 byte to 1024G".to_owned()),
    }
}

fn page(text: &str) -> Result<u64, String> {
    match sizes::bytes(text)? {
        bytes if bytes.is_power_of_two() && (1 << 12..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("a page has 4k to 1G bytes, a power of two".to_owned()),
    }
}

fn static_rate(text: &str) -> Result<StaticRate, String> {
    let tenths = text.parse::<f64>().map_err(|error| error.to_string())? * 10.0;
    let same = |rate: &StaticRate| rate.in_100mbps().is_some_and(|rate| f64::from(rate) == tenths);
    let found = StaticRate::ALL.iter().copied().find(same);
    found.ok_or_else(|| {
        "no path has this rate: 2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80...".to_owned()
    })
}

impl Args {
    fn mtu_code(&self) -> Mtu {
        match self.mtu {
            256 => Mtu::Bytes256,
            512 => Mtu::Bytes512,
            1024 => Mtu::Bytes1024,
            2048 => Mtu::Bytes2048,
            _ => Mtu::Bytes4096,
        }
    }

    fn outstanding(&self, size: u32) -> u32 {
        let most = match self.qps {
            1 => 256,
            qps => (IN_FLIGHT_MAX / qps).clamp(4, 64),
        };
        self.in_flight
            .map(|_| 1)
            .or(self.outstanding)
            .unwrap_or_else(|| ((1 << 20) / size.max(1)).clamp(4, most).max(self.signal_every))
    }

    fn iters(&self, size: u32) -> u32 {
        let by_size = (8u32 << 20) / size.max(1) / self.qps;
        // A message without a completion of its own is counted late, up to --signal-every of each QP.
        let late = if self.signal_every > 1 {
            32 * self.signal_every
        } else {
            0
        };
        let at_least = late.max(2 * self.outstanding(size) / self.qps);
        let found = self.iters.unwrap_or_else(|| {
            by_size
                .clamp(if self.qps > 1000 { 4 } else { 16 }, 2000)
                .max(at_least)
        });
        if self.srq && self.iters.is_none() {
            found.min(
                (SRQ_WRS_MAX / self.qps)
                    .saturating_sub(self.outstanding(size))
                    .max(1),
            )
        } else {
            found
        }
    }

    /// Service level of a QP.
    fn sl_of(&self, qp: u32) -> u8 {
        self.sl
            .get(qp as usize % self.sl.len().max(1))
            .copied()
            .unwrap_or(0)
    }

    /// Inline bytes of a work request: a datagram's has its address, too.
    fn inline_bytes_max(&self) -> u32 {
        match self.op {
            Op::Datagram => INLINE_BYTES_MAX - 32,
            _ => INLINE_BYTES_MAX,
        }
    }

    /// The path of a QP. On Ethernet the traffic class carries the priority.
    fn path(&self, link: Link, qp: u32) -> ConnectOptions {
        let path = ConnectOptions {
            static_rate: self.static_rate.unwrap_or(StaticRate::Max).into(),
            selective_repeat: self.selective_repeat,
            ..path(self.mtu_code())
        };
        let sl = self.sl_of(qp);
        match link {
            Link::Eth => ConnectOptions {
                sl,
                traffic_class: sl << 5,
                ..path
            },
            Link::Ib => ConnectOptions {
                sl,
                gid_index: path.gid_index.filter(|_| self.grh),
                ..path
            },
        }
    }

    fn rate_bits_per_s(&self) -> u64 {
        self.rate * 1_000_000_000
    }

    fn check_raw(&self, ethernet: bool, largest: u32) -> Result<()> {
        if !ethernet || self.link.contains(&Link::Ib) {
            bail!("--op raw: frames need --link eth");
        }
        let smallest = self.size.0.iter().copied().min().unwrap_or(0);
        let max = self.mtu + frames::HEADER_BYTES;
        if smallest < frames::FRAME_BYTES_MIN || largest > max {
            bail!(
                "--op raw: a frame has {} to {max} bytes, the MTU and its header",
                frames::FRAME_BYTES_MIN
            );
        }
        if self.qps > frames::QPS_MAX {
            bail!("--op raw: a card has {} rules, one for each QP", frames::QPS_MAX);
        }
        if self.static_rate.is_some() || self.inline {
            bail!("--op raw: frames have no static rate here, and come from memory");
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.link.len() > 1 {
            compare::check(self)?;
        }
        let ethernet = self.link.contains(&Link::Eth);
        if let Some(sl) = self.sl.iter().find(|sl| ethernet && **sl > 7) {
            bail!("--sl {sl}: Ethernet has the priorities 0 to 7; --link ib has 16 service levels");
        }
        if self.sl.len() as u64 > u64::from(self.qps) {
            bail!(
                "--sl names {} service levels for {} QPs: take more --qps",
                self.sl.len(),
                self.qps
            );
        }
        let largest = self.size.0.iter().copied().max().unwrap_or(0);
        if self.srq && !self.op.takes_receives() {
            bail!("--srq: only messages of --op send, uc-send and datagram use up receives");
        }
        let messages = |size: &u32| self.qps * (self.iters(*size) + self.outstanding(*size));
        if self.srq && self.size.0.iter().map(messages).max() > Some(SRQ_WRS_MAX) {
            bail!(
                "--srq holds {SRQ_WRS_MAX} receives, the messages of all QPs need more: fewer --iters, --outstanding"
            );
        }
        if self.op.is_atomic() && self.size.0 != [ATOMIC_BYTES] {
            bail!(
                "--op fetch-add, cmp-swap, atomic-write, flush and masked-...: they are of {ATOMIC_BYTES} bytes, \
                 leave --size away"
            );
        }
        if self.inline && self.op.is_answered() {
            bail!("--inline works with write and send only: a READ or an atomic brings data in");
        }
        if self.inline && largest > self.inline_bytes_max() {
            let max = self.inline_bytes_max();
            bail!("--inline takes at most {max} bytes, --size asks for {largest}");
        }
        if self.op == Op::Datagram && largest > self.mtu {
            bail!(
                "--op datagram: a datagram is one packet, and --size {largest} is more than --mtu {}",
                self.mtu
            );
        }
        if self.op == Op::Raw {
            self.check_raw(ethernet, largest)?;
        }
        if self.op == Op::Datagram && self.static_rate.is_some() {
            bail!("--op datagram: datagrams have no static rate");
        }
        if let Some(region) = self.region {
            if self.op.takes_receives() {
                bail!("--region works with write, read and atomics only: a SEND does not choose its place");
            }
            if region < u64::from(largest) {
                bail!("--region of {region} bytes has no room for a message of {largest}");
            }
        }
        if self
            .outstanding
            .is_some_and(|outstanding| outstanding < self.signal_every)
        {
            bail!(
                "--signal-every {} needs --outstanding of at least as many",
                self.signal_every
            );
        }
        if u64::from(largest) * u64::from(self.qps) > MEMORY_BYTES_MAX {
            bail!(
                "{} QPs with messages of {largest} bytes need over 1 GiB: take less of either",
                self.qps
            );
        }
        Ok(())
    }
}

/// Figures of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    op: Op,
    size_bytes: u32,
    qps: u32,
    mtu: u32,
    link: String,
    rate_gbps: u64,
    goodput_bytes_per_s: f64,
    messages_per_s: f64,
    latency_p50_ns: u64,
    latency_p99_ns: u64,
    card_internal_cycles: u64,
    card_cycles_to_wire: u64,
    sim_cycles_per_wall_s: f64,
    iters: u32,
    outstanding: u32,
    inline: bool,
    signal_every: u32,
    faults: String,
    seed: u64,
    retransmitted_packets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
    by_sl: Vec<Share>,
    pcie: PcieParams,
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<[Breakdown; 2]>,
}

/// Of messages at random places of a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Region {
    bytes: u64,
    /// None: one contiguous range.
    page_bytes: Option<u64>,
    /// Lines of the page list, of eight pages each, that the peer read for a message of the window.
    list_reads_per_message: f64,
}

/// What one service level got while all were busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    sl: u8,
    goodput_bytes_per_s: f64,
}

/// Runs the measurement.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(which) = args.table {
        return crate::simulate(|| table::run(which, args.json, &args.machine));
    }
    let args = &Args {
        // What is kept is whole: plots beside the rest, and where the time goes.
        plot: args.keep.clone().unwrap_or_else(|| args.plot.clone()),
        stages: args.stages || (args.keep.is_some() && args.link.len() == 1),
        ..args.clone()
    };
    args.check()?;
    // Found out now, the reason costs no time.
    let before = args.compare.as_deref().map(Before::read).transpose()?;
    let all = crate::simulate(|| match args.link[..] {
        [link] => measure_all(args, link),
        _ => compare::run(args),
    })?;
    if all.len() > 1 {
        plot(args, &all, before.as_ref())?;
    }
    if let Some(before) = before {
        let table = before.table(&all)?;
        if args.json {
            eprint!("{table}");
        } else {
            crate::print(&("\n".to_owned() + &table))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure_all(args: &Args, link: Link) -> Result<Vec<Figures>> {
    let mut bench = Bench::new(args, link)?;
    if !args.json {
        crate::print(&header(args, link, bench.pcie()))?;
    }
    let mut all = Vec::new();
    for size in &args.size.0 {
        let figures = bench.measure(*size)?;
        let line = if args.json {
            serde_json::to_string(&figures)? + "\n"
        } else {
            let tables = figures.stages.iter().flatten().map(Breakdown::table);
            row(&figures) + &tables.collect::<String>()
        };
        crate::print(&line)?;
        all.push(figures);
    }
    for trace in bench.end()? {
        eprintln!("waveform: {trace}");
    }
    if let Some(folder) = &args.keep {
        keep(folder, args, &all, Some(&bench))?;
    }
    if args.stages {
        plot_stages(args, link, &all)?;
        eprintln!("plot: {}/stages.svg", args.plot.display());
    }
    Ok(all)
}

fn header(args: &Args, link: Link, pcie: &PcieParams) -> String {
    format!(
        "{}{:>10} {:>12} {:>8} {:>12} {:>10} {:>10} {:>14} {:>12}\n",
        conditions(args, &link.to_string(), pcie),
        "size",
        "goodput B/s",
        "% wire",
        "messages/s",
        "p50 ns",
        "p99 ns",
        "card cycles",
        "cycles/s"
    )
}

/// What was measured, as a line above its table.
fn conditions(args: &Args, link: &str, p: &PcieParams) -> String {
    format!(
        "{:?} over {link}, {} Gb/s, MTU {}, {} QPs; PCIe model: {} MB/s, read {} ns, write {} ns, register {} ns, \
         MPS {}, MRRS {}, {} tags\n",
        args.op,
        args.rate,
        args.mtu,
        args.qps,
        p.bandwidth_mbps,
        p.read_latency_ns,
        p.write_latency_ns,
        p.mmio_latency_ns,
        p.max_payload_bytes,
        p.max_read_request_bytes,
        p.max_tags,
    )
}

impl Figures {
    /// Goodput as a share of the cable's rate.
    fn wire_percent(&self) -> f64 {
        self.goodput_bytes_per_s * 8.0 * 100.0 / (self.rate_gbps * 1_000_000_000) as f64
    }
}

fn row(f: &Figures) -> String {
    format!(
        "{:>10} {:>12} {:>8.1} {:>12} {:>10} {:>10} {:>14} {:>12}\n",
        human(f.size_bytes.into()),
        engineering(f.goodput_bytes_per_s),
        f.wire_percent(),
        engineering(f.messages_per_s),
        f.latency_p50_ns,
        f.latency_p99_ns,
        f.card_internal_cycles,
        engineering(f.sim_cycles_per_wall_s)
    ) + &shares(f)
        + &region_line(f)
}

/// A line below a size, where there is a region.
fn region_line(f: &Figures) -> String {
    f.region.as_ref().map_or(String::new(), |region| {
        let pages = region.page_bytes.map_or("one range".to_owned(), |page| {
            let reads = region.list_reads_per_message;
            format!(
                "pages of {}, {reads:.3} reads of the page list per message",
                human(page)
            )
        });
        format!("{:>10} {}, {pages}\n", "", human(region.bytes))
    })
}

/// A line for each service level, where there are several.
fn shares(f: &Figures) -> String {
    if f.by_sl.len() < 2 {
        return String::new();
    }
    let line = |share: &Share| {
        format!(
            "{:>10} {:>12}\n",
            format!("SL {}", share.sl),
            engineering(share.goodput_bytes_per_s)
        )
    };
    f.by_sl.iter().map(line).collect()
}
