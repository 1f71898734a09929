//! The command line of OpenHCA.
#![forbid(unsafe_code)]

mod bind;
mod capture_file;
mod cpu;
mod curves;
mod demo;
mod extras;
mod fabric;
mod files;
mod firmware;
mod incast;
mod info;
mod link;
mod options;
mod page;
mod pcap_check;
mod perf;
mod place;
mod plots;
mod progress;
mod qos;
mod report;
mod run;
mod rundir;
mod samples;
mod sim;
mod sizes;
mod soak;
mod stages;
mod sweep;
mod waveforms;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a command that could not do its work.
const EXIT_CANNOT: u8 = 2;

#[derive(Parser)]
#[command(
    name = "hca",
    version,
    about = "OpenHCA: an open InfiniBand and RoCEv2 adapter, simulated"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Two simulated cards, one cable: send a file there and back by RDMA, and show what happened
    Demo(demo::Args),
    /// Bandwidth, message rate and latency in simulated time
    Perf(perf::Args),
    /// How two flows share a wire under the VL arbiter, beside the formula of the QoS paper
    Qos(qos::Args),
    /// Many cards write to one through a switch: queue, shares and goodput with each congestion control
    Incast(incast::Args),
    /// Random transfers under random faults, seed after seed
    Soak(soak::Args),
    /// One HTML page of a run: figures, plots, stages, counters, faults, the command that repeats it
    Report(page::Args),
    /// The same command with many options, on all cores or on an engine; goes on where it was stopped
    Sweep(sweep::Args),
    /// Simulated cards for programs in other processes
    Sim(sim::Args),
    /// A program that uses libibverbs, on a simulated card
    Run(run::Args),
    /// Give cards in slots to user space (VFIO), for programs to use
    Bind(bind::BindArgs),
    /// Give cards back to the kernel's drivers
    Unbind(bind::UnbindArgs),
    /// Enter namespaces as `hca run` does, and end: says whether the kernel allows it
    #[command(hide = true)]
    Namespaces(run::namespace::Isolation),
    /// What the cards of a running simulator say
    Info(info::Args),
    /// States, credits, rings and counters of the links of a running simulator, and their configuration
    Link(link::Args),
    /// Firmware of the cards of a running simulator: what runs, a new image, keys and signatures
    #[command(subcommand)]
    Firmware(firmware::Command),
    /// The network of a simulator: brought up by OpenSM, looked at, cables pulled, switches restarted
    Fabric(fabric::Args),
    /// Look into packet captures
    #[command(subcommand)]
    Pcap(PcapCommand),
    /// Print what makes a shell complete hca's commands and options
    Completions(extras::CompletionsArgs),
    /// Write man pages and completions into a folder: a part of `make dist`
    #[command(hide = true)]
    Extras(extras::ExtrasArgs),
}

#[derive(Subcommand)]
enum PcapCommand {
    /// List what is in a capture and verify every ICRC and VCRC
    ///
    /// Exit code: 0 all good; 1 a packet is wrong; 2 the file cannot be read.
    Check {
        /// Capture, pcap or pcapng, of an Ethernet or InfiniBand link
        file: PathBuf,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Prints to stdout. A reader that has seen enough (a closed pipe) is no error.
fn print(text: &str) -> io::Result<()> {
    print_open(text).map(drop)
}

/// The same; false: nobody reads any more.
fn print_open(text: &str) -> io::Result<bool> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        result => Ok(result.is_ok()),
    }
}

/// The simulator panics when a card breaks a port contract, an assertion of the RTL fails, or a capture cannot be
/// written: here that becomes an error like any other.
fn simulate<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    let _ = panic::take_hook();
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        bail!(
            "the simulation stopped: {}",
            text.unwrap_or_else(|| "without a message".to_owned())
        )
    })
}

/// The command line. What `hca run` does not understand must not look like a program's own failure.
fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        // Nobody may be there to read it; the code tells enough.
        let _ = error.print();
        let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
        match error.exit_code() {
            0 => ExitCode::SUCCESS,
            _ if is_run => ExitCode::from(run::code::CANNOT),
            _ => ExitCode::from(EXIT_CANNOT),
        }
    })
}

fn main() -> ExitCode {
    place::remember();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Err(error) = cpu::check() {
        eprintln!("hca: {error}");
        return ExitCode::from(EXIT_CANNOT);
    }
    let is_run = matches!(cli.command, Command::Run(_));
    let result = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::Qos(args) => qos::run(&args),
        Command::Incast(args) => incast::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Report(args) => page::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Bind(args) => bind::bind(&args),
        Command::Unbind(args) => bind::unbind(&args),
        Command::Namespaces(isolation) => run::namespace::try_out(&isolation),
        Command::Info(args) => info::run(&args),
        Command::Link(args) => link::run(&args),
        Command::Firmware(command) => firmware::run(&command),
        Command::Fabric(args) => fabric::run(&args),
        Command::Pcap(PcapCommand::Check { file, json }) => pcap_check::run(&file, json),
        Command::Completions(args) => extras::completions(&args),
        Command::Extras(args) => extras::write(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("hca: {error:#}");
        let code = if is_run {
            run::code::of(&error)
        } else {
            EXIT_CANNOT
        };
        ExitCode::from(code)
    })
}
