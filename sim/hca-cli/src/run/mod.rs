//! `hca run`: programs that use libibverbs, on simulated cards.

mod alone;
mod end;
mod library;
pub mod namespace;
mod pair;
mod view;

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use self::namespace::Isolation;
use self::view::View;
use crate::sim::folder::{CARD_VARIABLE, FOLDER_VARIABLE, Folder};
use crate::sim::topology::Topology;

/// Between the two commands of a pair.
const BETWEEN: &str = "---";

const EXAMPLES: &str = "Examples:
  hca run --card 0 -- ibv_devinfo -v
  hca run --pair -- ibv_rc_pingpong -g 1 --- ibv_rc_pingpong -g 1 localhost
  hca run --pair --report -- ib_write_bw --- ib_write_bw localhost
  hca run --pair --faults loss=0.001 --pcap run.pcap -- ib_write_bw --- ib_write_bw localhost

The program finds our libibverbs by LD_LIBRARY_PATH, and by LD_PRELOAD where it brings one along under another name, and
the cards by HCA_SIM and HCA_CARD. Where the kernel allows it, the cards are in its /sys and /dev, too.
With --pair hca is the simulator of two cards: the first command sees card 0, the second, started when the first one
listens for TCP connections, sees card 1. Where the kernel allows it, the two have a network of their own, in which
localhost is theirs alone: any number of pairs can use the same TCP ports. --share-network leaves them the machine's.

With --report hca prints, after what the program prints, what the card saw: for every QP messages, bytes and rates,
latencies from doorbell to completion, packets and retransmissions. All of it is simulated time, whatever clock the
program measures with.

Exit code: that of the program, of the two the larger (128 + N: ended by signal N); 2 it could not be started.";

/// Options of `hca run`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The only card the program shall see [default: it sees all]
    #[arg(long, value_name = "N", conflicts_with = "pair")]
    card: Option<u32>,
    /// Simulate two cards and run one command on each, SERVER --- CLIENT
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
    /// Leave /sys and /dev as they are: programs that look for cards there find none
    #[arg(long)]
    no_sysfs: bool,
    #[command(flatten, next_help_heading = "Options of --pair")]
    topology: Topology,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    words: Vec<OsString>,
}

/// Runs one program, or two.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.pair {
        let at = args.words.iter().position(|word| word == BETWEEN);
        let (server, client) = match at.map(|at| (&args.words[..at], &args.words[at + 1..])) {
            Some((server, client)) if !server.is_empty() && !client.is_empty() => (server, client),
            _ => bail!("--pair needs two commands: hca run --pair -- SERVER ARGS {BETWEEN} CLIENT ARGS"),
        };
        let isolation = Isolation {
            mounts: false,
            network: !args.share_network,
        };
        let options = pair::Options {
            isolation,
            sysfs: !args.no_sysfs,
            report: args.report,
        };
        return pair::run(&args.topology, &options, server, client);
    }
    if args.topology != Topology::default() {
        bail!("options of the network need --pair; those of a running simulator were given to hca sim");
    }
    let folder = Folder::find(args.dir.as_deref())?;
    folder.demand_cards(args.card)?;
    let mut command = command(&args.words, folder.path(), args.card)?;
    if !args.no_sysfs && may_show() {
        show(folder.path(), args.card);
    }
    if args.report {
        return alone::run(command, &args.words[0], folder.path());
    }
    // Only a failure comes back.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", args.words[0].display()))
}

/// Gives this process mounts of its own, so that it can show cards; it must not have a second thread. False: the
/// kernel forbids it, and the user has been told.
fn may_show() -> bool {
    let isolation = Isolation {
        mounts: true,
        network: false,
    };
    let entered = isolation.enter();
    warn_of_view(&entered);
    entered.is_ok()
}

/// Shows cards to this thread and what it starts; its mounts must be its own.
fn show(folder: &Path, card: Option<u32>) {
    warn_of_view(&View::read(folder).and_then(|view| view.show(card)));
}

fn warn_of_view(result: &Result<()>) {
    if let Err(error) = result {
        eprintln!("hca: programs that look for cards in /sys or /dev will miss some: {error:#}");
    }
}

/// A program with the environment that leads it to a simulator.
fn command(words: &[OsString], folder: &Path, card: Option<u32>) -> Result<Command> {
    let library = library::folder()?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("LD_LIBRARY_PATH", library::search_path(&library))
        .env("LD_PRELOAD", library::preload(&library))
        .env(FOLDER_VARIABLE, folder);
    if let Some(card) = card {
        command.env(CARD_VARIABLE, card.to_string());
    }
    Ok(command)
}
