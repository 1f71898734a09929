//! `hca link`: what the links of a running simulator do, live, and how they are configured.

mod ethernet;
mod lldp;
pub mod notation;
mod show;

use anyhow::{Context as _, Result, bail};
use hca_verbs::{
    Context, DevicePtr, LinkConfig, LinkLayer, ModifyPortCmd, OpVls, OpenOptions, VlArbTable, port_attr,
};
use hca_vfio_user::VfioUserDevice;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::sim::folder::Folder;
use notation::{Arbitration, AskedCongestion, AskedState, Limit, PkeyEntry, Policy, Priorities, Sl2vl};
use show::{Look, Pkeys, Rates};

type Card = Context<Rc<VfioUserDevice>>;

const FIRST_PORT: u8 = 1;

/// A simulator may be slow in wall-clock time: it shares the processor with its programs.
const PATIENCE_NS: u64 = 60_000_000_000;
/// To the first corner, clear what is left of a line, clear what is below: a screen that is written over does not
/// flicker as one that is cleared does.
const TO_CORNER: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";
/// Exit code of a second Ctrl-C, while a card does not answer: that of a shell.
const EXIT_INTERRUPTED: i32 = 130;

const EXAMPLES: &str = "Examples:
  hca link                                  all links, refreshed until Ctrl-C
  hca link --card 1 --once
  hca link --once --json
  hca link set --sl2vl 0,1 --vlarb-high 0:16 --vlarb-low 1:4 --high-limit 1 --policy round-quantum
  hca link set --card 0 --vls 4 --lid 0x40 --lmc 2
  hca link set --port 2 --pfc 3             the second port of every card
  hca link show --card 0                    once: states, tables, priorities
  hca link trust dscp; hca link dscp 26:3 46:5; hca link pfc 3
  hca link ets --map 0,0,0,1,0,2,0,0 0:40 1:60 2:strict
  hca link lldp --tx on; hca link lldp      who is at the other end of an Ethernet cable
  hca link set --card 1 --node-desc db1-hca0
  hca link set --congestion dcqcn           rates of connections by marks (docs/congestion.md)

A card is asked through a function that no process has, which the command keeps while it runs; what configures needs
function 0, the only one that may, and which programs take only when they find no other. Credits, tx ring and rx
ring are blocks of 64 bytes: what the other end has room for, what waits here to be sent, what was received and not
taken yet. B/s is per second of simulated time, since the look before. Waited: cycles in which a packet was ready but
had no credits or not its turn.

Exit code: 0 done or Ctrl-C; 2 no simulator, no such card, or a card that refuses.";

/// Options of `hca link`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    which: Which,
    /// Look once and end, instead of looking again and again until Ctrl-C
    #[arg(long)]
    once: bool,
    /// Print one JSON object per card and look
    #[arg(long)]
    json: bool,
    /// Time between two looks
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    interval: u64,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Look once and end
    Show(Show),
    /// Configure links; every card unless one is named
    Set(Set),
    #[command(flatten)]
    Ethernet(ethernet::Change),
    /// Ethernet: who is at the other end, as it says itself (LLDP), and whether ports say who they are
    Lldp(lldp::Args),
}

#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object per port
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Which {
    /// This card only
    #[arg(long, value_name = "N")]
    card: Option<u32>,
    /// This port; else all are shown, `set` configures the first, the others all that are Ethernet
    #[arg(long, value_name = "N")]
    port: Option<u8>,
    /// Folder with the simulator's sockets, as given to hca sim
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Set {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    arbitration: ArbitrationArgs,
    /// State to move to: down from any state, else one step of down, init, armed, active
    #[arg(long, value_enum)]
    state: Option<AskedState>,
    /// Data VLs to use: 1, 2, 4, 8 or 15; the link uses the smaller number of both ends
    #[arg(long, value_name = "N", value_parser = notation::vls)]
    vls: Option<OpVls>,
    /// Data VLs of the other end
    #[arg(long, value_name = "N", value_parser = notation::vls)]
    peer_vls: Option<OpVls>,
    /// A packet may wait 1024 << N cycles to be sent; 31: for ever
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=31))]
    hoq_life: Option<u8>,
    /// Ethernet: priorities with PFC, N,N,.. or none
    #[arg(long, value_name = "LIST")]
    pfc: Option<Priorities>,
    /// Ethernet: congestion control of connections, with its usual parameters
    #[arg(long, value_enum)]
    congestion: Option<AskedCongestion>,
    /// Base LID, a multiple of 1 << LMC
    #[arg(long, value_name = "LID", value_parser = lid)]
    lid: Option<u16>,
    /// LID mask control: the port answers to 1 << N LIDs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    lmc: Option<u8>,
    /// NodeDescription: what subnet managers call the card; at most 64 bytes
    #[arg(long, value_name = "TEXT")]
    node_desc: Option<String>,
    /// P_Key table entry, INDEX=PKEY; several times for several entries
    #[arg(long, value_name = "ENTRY")]
    pkey: Vec<PkeyEntry>,
}

fn lid(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("'{text}' is not a LID"))
}

/// Options that say how virtual lanes share a link.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ArbitrationArgs {
    /// VL of each SL, VL,VL,.. (15: none); fewer than 16 repeat
    #[arg(long, value_name = "VLS")]
    sl2vl: Option<Sl2vl>,
    /// High priority table, VL:WEIGHT,.. (weights in 64 bytes)
    #[arg(long, value_name = "TABLE")]
    vlarb_high: Option<Arbitration>,
    /// Low priority table, VL:WEIGHT,..
    #[arg(long, value_name = "TABLE")]
    vlarb_low: Option<Arbitration>,
    /// Limit of High Priority in 4096 bytes, or unlimited
    #[arg(long, value_name = "N")]
    high_limit: Option<Limit>,
    /// How the arbiter shares the link
    #[arg(long, value_enum)]
    policy: Option<Policy>,
}

impl ArbitrationArgs {
    fn add_to(&self, mut config: LinkConfig) -> LinkConfig {
        if let Some(policy) = self.policy {
            config = config.policy(policy.into());
        }
        if let Some(limit) = self.high_limit {
            config = config.limit(limit.0);
        }
        config
    }

    /// Configures the link of a card's first port.
    pub fn apply<P: DevicePtr>(&self, card: &Context<P>) -> Result<()> {
        self.apply_with(card, FIRST_PORT, LinkConfig::new())
    }

    /// Numbers of VLs and the state in `config` come before the tables, which they decide about.
    fn apply_with<P: DevicePtr>(&self, card: &Context<P>, port: u8, config: LinkConfig) -> Result<()> {
        let config = self.add_to(config);
        if config != LinkConfig::new() {
            card.link_config(port, &config)?;
        }
        if let Some(table) = &self.vlarb_high {
            card.set_vl_arb(port, VlArbTable::High, &table.0)?;
        }
        if let Some(table) = &self.vlarb_low {
            card.set_vl_arb(port, VlArbTable::Low, &table.0)?;
        }
        if let Some(map) = self.sl2vl {
            card.set_sl2vl(port, &map.0)?;
        }
        Ok(())
    }
}

/// Shows or configures.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Some(Command::Set(set)) => {
            for (number, card) in open(&set.which, manager)? {
                set.apply(&card).with_context(|| format!("card {number}"))?;
            }
        }
        Some(Command::Ethernet(change)) => change_ethernet(change.which(), &change.config()?)?,
        Some(Command::Lldp(args)) => match args.tx {
            Some(tx) => change_ethernet(&args.which, &LinkConfig::new().lldp_tx(tx == lldp::Switch::On))?,
            None => show_neighbours(args)?,
        },
        Some(Command::Show(show)) => watch(&show.which, show.json, None)?,
        None => watch(
            &args.which,
            args.json,
            (!args.once).then(|| Duration::from_millis(args.interval)),
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes what Ethernet ports alone have. Without a port: of all of them.
fn change_ethernet(which: &Which, config: &LinkConfig) -> Result<()> {
    let cards = open(which, manager)?;
    let mut ports = Vec::new();
    for (number, card) in &cards {
        let count = card.query_device()?.phys_port_cnt();
        for port in which.port.map_or(1..=count, |port| port..=port) {
            let place = format!("card {number} port {port}");
            let status = card.link_status(port).with_context(|| place.clone())?;
            if status.link_layer == LinkLayer::Ethernet {
                ports.push((card, port, place));
            }
        }
    }
    if ports.is_empty() {
        bail!("no Ethernet port there; InfiniBand has hca link set --sl2vl and --vlarb-low");
    }
    for (card, port, place) in ports {
        card.link_config(port, config).context(place)?;
    }
    Ok(())
}

/// Shows who is at the other end of Ethernet links.
fn show_neighbours(args: &lldp::Args) -> Result<()> {
    for (number, card) in &open(&args.which, any)? {
        let count = card.query_device()?.phys_port_cnt();
        for port in args.which.port.map_or(1..=count, |port| port..=port) {
            let place = format!("card {number} port {port}");
            let Some(found) = lldp::Lldp::take(card, port).with_context(|| place.clone())? else {
                continue;
            };
            let text = if args.json {
                let mut object = serde_json::json!({ "card": number, "port": port });
                object["lldp"] = serde_json::to_value(&found)?;
                format!("{object}\n")
            } else {
                format!("{place}: {}", found.text())
            };
            if !crate::print_open(&text)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Set {
    fn apply(&self, card: &Card) -> Result<()> {
        let mut config = LinkConfig::new();
        if let Some(state) = self.state {
            config = config.state(state.into());
        }
        if let Some(vls) = self.vls {
            config = config.vls(vls);
        }
        if let Some(vls) = self.peer_vls {
            config = config.peer_vls(vls);
        }
        if let Some(hoq_life) = self.hoq_life {
            config = config.hoq_life(hoq_life);
        }
        if let Some(priorities) = self.pfc {
            config = config.pfc_enable(priorities.0);
        }
        let number = self.which.port.unwrap_or(FIRST_PORT);
        let mut port = ModifyPortCmd::new();
        let mut mask = 0;
        if let Some(lid) = self.lid {
            port.set_lid(lid);
            mask |= port_attr::LID;
        }
        if let Some(lmc) = self.lmc {
            port.set_lmc(lmc);
            mask |= port_attr::LMC;
        }
        if mask != 0 {
            port.set_port_num(number);
            port.set_attr_mask(mask);
            card.modify_port(&port)?;
        }
        if let Some(text) = &self.node_desc {
            card.set_node_description(text)?;
        }
        if let Some(congestion) = self.congestion {
            card.set_congestion(number, congestion.parameters().as_ref())?;
        }
        for entry in &self.pkey {
            card.set_pkey(number, entry.index, entry.pkey)?;
        }
        self.arbitration.apply_with(card, number, config)
    }
}

/// The function that may configure ports.
const MANAGER: u8 = 0;

/// Function 0 of a card.
fn manager(folder: &Folder, card: u32, _: &[u8]) -> Result<VfioUserDevice> {
    VfioUserDevice::connect(&folder.socket(card, MANAGER)).with_context(|| {
        format!(
            "card {card}: only function {MANAGER} may configure ports, and it cannot be had now: end the process that \
             has it (programs take it when all others are in use), then try again"
        )
    })
}

/// The last function that is free: programs take the first ones.
fn any(folder: &Folder, card: u32, functions: &[u8]) -> Result<VfioUserDevice> {
    let connect = |func: &u8| VfioUserDevice::connect(&folder.socket(card, *func)).ok();
    let free = functions.iter().rev().find_map(connect);
    free.with_context(|| format!("card {card}: all {} functions are in use", functions.len()))
}

/// The cards asked for, each through the function that `choose` takes.
fn open(
    which: &Which,
    choose: impl Fn(&Folder, u32, &[u8]) -> Result<VfioUserDevice>,
) -> Result<Vec<(u32, Card)>> {
    let folder = Folder::find(which.dir.as_deref())?;
    let mut cards = Vec::new();
    for (number, functions) in folder.demand_cards(which.card)? {
        if which.card.is_none_or(|card| card == number) {
            let device = choose(&folder, number, &functions)?;
            let options = OpenOptions {
                ready_timeout_ns: PATIENCE_NS,
                command_timeout_ns: PATIENCE_NS,
                ..OpenOptions::default()
            };
            let card = Context::open_with(Rc::new(device), &options);
            cards.push((number, card.with_context(|| format!("card {number}"))?));
        }
    }
    Ok(cards)
}

/// Ctrl-C and its like, as something that can be waited for. A second Ctrl-C ends the program wherever it is.
fn interrupted() -> Result<Receiver<()>> {
    let asked = Arc::new(AtomicBool::new(false));
    let handled = "cannot wait for signals";
    signal_hook::flag::register_conditional_shutdown(SIGINT, EXIT_INTERRUPTED, asked.clone())
        .context(handled)?;
    signal_hook::flag::register(SIGINT, asked).context(handled)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context(handled)?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = sender.send(()); // Nobody to tell: the program ends already.
        }
    });
    Ok(receiver)
}

/// Looks at links, once or with a pause between two looks.
fn watch(which: &Which, json: bool, pause: Option<Duration>) -> Result<()> {
    let interrupted = interrupted()?;
    let cards = open(which, any)?;
    let on_screen = pause.is_some() && !json && io::stdout().is_terminal();
    let mut ports = Vec::new();
    for (number, card) in &cards {
        let count = card.query_device()?.phys_port_cnt();
        let wanted = which.port.map_or(1..=count, |port| port..=port);
        ports.extend(wanted.map(|port| (*number, card, port)));
    }
    let mut before = vec![(Rates::default(), Pkeys::default()); ports.len()];
    loop {
        let mut text = String::new();
        for ((number, card, port), before) in ports.iter().zip(&mut before) {
            let look = Look::take(*number, *port, card, before);
            let look = look.with_context(|| format!("card {number} port {port}"))?;
            text += &if json {
                serde_json::to_string(&look)? + "\n"
            } else {
                look.text()
            };
        }
        if on_screen {
            text = format!("{TO_CORNER}{}{CLEAR_BELOW}", text.replace('\n', CLEAR_LINE));
        }
        let is_open = crate::print_open(&text)?;
        let Some(pause) = pause.filter(|_| is_open) else {
            return Ok(());
        };
        let pause = interrupted.recv_timeout(pause);
        if pause != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}
