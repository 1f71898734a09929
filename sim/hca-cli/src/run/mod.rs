//! `hca run`: programs that use libibverbs, on simulated cards.

mod alone;
pub mod code;
mod document;
mod end;
mod hang;
mod keep;
mod library;
pub mod namespace;
mod outcome;
mod pair;
mod simulator;
mod view;
mod wait;

use anyhow::{Result, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use self::library::Before;
use self::namespace::Isolation;
use self::view::View;
use crate::sim::folder::{CARD_VARIABLE, FOLDER_VARIABLE, Folder};
use crate::sim::topology::{Manager, Topology};

/// Between the two commands of a pair.
const BETWEEN: &str = "---";
/// Where a client finds its server. By number: a bare root has no list of names.
const SERVER: &str = "127.0.0.1";
/// 1: our libibverbs takes function 0 of a card first.
const MANAGER_VARIABLE: &str = "HCA_MANAGER";
/// 1: our libibverbs shares registered memory with the simulator.
const SHARE_VARIABLE: &str = hca_vfio_user::SHARE_VARIABLE;

const EXAMPLES: &str = "Examples:
  hca run --card 0 -- ibv_devinfo -v
  hca run --pair -- ibv_rc_pingpong -g 1 --- ibv_rc_pingpong -g 1 localhost
  hca run --pair -- ibv_rc_pingpong -g 1          the same: the client's arguments are the server's and 127.0.0.1
  hca run --pair --timeout 60s --keep failure --json report.json --faults loss=0.01 --seed 7 -- ./my-test
  hca run --pair --report -- ib_write_bw --- ib_write_bw localhost
  hca run --pair --sockets -- iperf3 -s -1 --- iperf3 -c 10.0.0.1 -n 10M
  hca run --pair --faults loss=0.001 --pcap run.pcap -- ib_write_bw --- ib_write_bw localhost

The program finds our libibverbs by LD_LIBRARY_PATH, and by LD_PRELOAD where it brings one along under another name, and
the cards by HCA_SIM and HCA_CARD. Where the kernel allows it, the cards are in its /sys and /dev, too.
With --pair hca is the simulator of two cards: the first command sees card 0, the second, started when the first one
listens for TCP connections, sees card 1. Where the kernel allows it, the two have a network of their own, in which
localhost is theirs alone: any number of pairs can use the same TCP ports. --share-network leaves them the machine's.

With --report hca prints, after what the program prints, what the card saw: for every QP messages, bytes and rates,
latencies from doorbell to completion, packets and retransmissions. All of it is simulated time, whatever clock the
program measures with.";

/// Options of `hca run`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", code::HELP))]
pub struct Args {
    /// The only card the program shall see [default: it sees all]
    #[arg(long, value_name = "N", conflicts_with = "pair")]
    card: Option<u32>,
    /// Simulate two cards and run one command on each, SERVER --- CLIENT; without --- the client is the server's
    /// command with 127.0.0.1 behind it
    #[arg(long)]
    pair: bool,
    /// Print what the card saw, in simulated time, when the program has ended
    #[arg(long)]
    report: bool,
    /// Folder with the simulator's sockets, as given to hca sim
    #[arg(long, value_name = "DIR", conflicts_with = "pair")]
    dir: Option<PathBuf>,
    /// Let the two commands use the machine's network; without it they have one of their own, a loopback device
    #[arg(long, requires = "pair", help_heading = "Options of --pair")]
    share_network: bool,
    /// End both programs after this time of the machine's clock (90s, 5m), and say who hung and where it stood
    #[arg(long, value_name = "DURATION", requires = "pair", value_parser = humantime::parse_duration,
          help_heading = "Options of --pair")]
    timeout: Option<Duration>,
    /// Write one JSON document about the run to FILE; - is standard output, and the programs' output then goes to
    /// standard error
    #[arg(
        long,
        value_name = "FILE",
        requires = "pair",
        help_heading = "Options of --pair"
    )]
    json: Option<PathBuf>,
    /// If it fails, keep packets, output, counters and a command that repeats it in DIR, and run it once more there for
    /// the waveforms around the failure
    #[arg(
        long,
        value_name = "DIR",
        requires = "pair",
        help_heading = "Options of --pair"
    )]
    keep: Option<PathBuf>,
    /// Leave /sys and /dev as they are: programs that look for cards there find none
    #[arg(long)]
    no_sysfs: bool,
    /// Programs that know sockets alone, as curl and iperf3, use the cards: TCP connections to a card's address go over
    /// RDMA (rsockets)
    #[arg(long)]
    sockets: bool,
    /// Programs take function 0 of their card, which alone may configure ports and use raw packets, if it is free
    #[arg(long)]
    manager: bool,
    /// Pages of registered memory are shared with the cards instead of copied by the kernel: with --model long messages
    /// are several times as fast
    #[arg(long)]
    share_memory: bool,
    #[command(flatten, next_help_heading = "Options of --pair")]
    topology: Topology,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    words: Vec<OsString>,
}

/// Runs one program, or two.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.pair {
        let (server, client) = two_commands(&args.words)?;
        let isolation = Isolation {
            mounts: false,
            network: !args.share_network,
        };
        let options = pair::Options {
            isolation,
            sysfs: !args.no_sysfs,
            sockets: args.sockets,
            manager: args.manager,
            share_memory: args.share_memory,
            report: args.report,
            json: args.json.clone(),
            timeout: args.timeout,
            keep: args.keep.clone(),
        };
        if args.topology.sm == Manager::Opensm {
            bail!(
                "--sm opensm is of hca fabric up; beside a pair it is a program like others: --sm external"
            );
        }
        return pair::run(&args.topology, &options, [&server, &client]);
    }
    if args.topology != Topology::default() {
        bail!("options of the network need --pair; those of a running simulator were given to hca sim");
    }
    let folder = Folder::find(args.dir.as_deref())?;
    folder.demand_cards(args.card)?;
    let before = Before {
        sockets: args.sockets,
        asks_kernel: !args.no_sysfs,
    };
    let mut command = command(&args.words, folder.path(), args.card, &before)?;
    if args.manager {
        command.env(MANAGER_VARIABLE, "1");
    }
    if args.share_memory {
        command.env(SHARE_VARIABLE, "1");
    }
    if !args.no_sysfs {
        match may_show() {
            true => show(folder.path(), args.card),
            false => lead(&mut command, folder.path(), args.card),
        }
    }
    if args.report {
        return alone::run(command, &args.words[0], folder.path());
    }
    // Only a failure comes back.
    let error = command.exec();
    Err(end::not_started(&args.words[0], error))
}

/// Server and client: the words before and behind the dashes; without dashes the client runs the same as the server
/// and is told where that is.
fn two_commands(words: &[OsString]) -> Result<(Vec<OsString>, Vec<OsString>)> {
    match words.iter().position(|word| word == BETWEEN) {
        None => Ok((words.to_vec(), [words, &[SERVER.into()]].concat())),
        Some(at) if 0 < at && at + 1 < words.len() => Ok((words[..at].to_vec(), words[at + 1..].to_vec())),
        Some(_) => bail!("--pair needs two commands: hca run --pair -- SERVER ARGS {BETWEEN} CLIENT ARGS"),
    }
}

/// Gives this process mounts of its own, so that it can show cards; it must not have a second thread. False: the
/// kernel forbids it, and the user has been told.
fn may_show() -> bool {
    let isolation = Isolation {
        mounts: true,
        network: false,
    };
    let entered = isolation.enter();
    if let Err(error) = &entered {
        eprintln!(
            "hca: cards are in /sys and /dev for calls of the C library alone, and not in lists of shared folders: \
             {error:#}"
        );
    }
    entered.is_ok()
}

/// Shows cards to this thread and what it starts; its mounts must be its own.
fn show(folder: &Path, card: Option<u32>) {
    warn_of_view(&View::read(folder).and_then(|view| view.show(card)));
}

/// Without mounts: a command is led to the cards' files by a library.
fn lead(command: &mut Command, folder: &Path, card: Option<u32>) {
    let written = View::read(folder).and_then(|view| view.write(card));
    let led = written.and_then(|files| library::look_into(command, &files));
    if let Err(error) = led {
        eprintln!("hca: programs that look for cards in /sys or /dev will find none: {error:#}");
    }
}

fn warn_of_view(result: &Result<()>) {
    if let Err(error) = result {
        eprintln!("hca: programs that look for cards in /sys or /dev will miss some: {error:#}");
    }
}

/// A program with the environment that leads it to a simulator.
fn command(words: &[OsString], folder: &Path, card: Option<u32>, before: &Before) -> Result<Command> {
    let library = library::folder()?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("LD_LIBRARY_PATH", library::search_path(&library))
        .env("LD_PRELOAD", library::preload(&library, before)?)
        .env(FOLDER_VARIABLE, folder);
    if let Some(card) = card {
        command.env(CARD_VARIABLE, card.to_string());
    }
    Ok(command)
}
