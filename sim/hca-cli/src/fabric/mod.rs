//! `hca fabric`: the network of a simulator: brought up by a subnet manager, looked at, and disturbed.

use anyhow::Result;
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::sim::folder::Folder;
use crate::sim::{self, control};

const EXAMPLES: &str = "Examples:
  hca fabric up --sm opensm --topology docs/topologies/ring.toml -- -R updn      as hca sim, set up by OpenSM
  hca fabric show                       switches with their LIDs, ports and tables
  hca fabric pull sw0:1                 the cable at that port; plug brings it back
  hca fabric restart sw1                a switch goes, and comes again as new

Exit code: 0 done; 2 no simulator, no such cable or switch.";

/// Options of `hca fabric`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Simulate until Ctrl-C, as `hca sim` does; with --sm opensm Debian's OpenSM runs on card 0
    Up(Box<Up>),
    /// What the switches of a running simulator are and know
    Show {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: At,
    },
    /// Pull a cable out: the links at both ends go down
    Pull(Cable),
    /// Plug a cable in again
    Plug(Cable),
    /// Switch an InfiniBand switch off and on: it has forgotten what a subnet manager has set
    Restart {
        /// Its name in the topology
        switch: String,
        #[command(flatten)]
        at: At,
    },
}

#[derive(clap::Args)]
struct Up {
    #[command(flatten)]
    sim: sim::Args,
    /// Further arguments of opensm
    #[arg(last = true, value_name = "ARGUMENT")]
    opensm: Vec<OsString>,
}

#[derive(clap::Args)]
struct Cable {
    /// Its name, or one of its ends: card0, card0:2, sw0:1
    cable: String,
    #[command(flatten)]
    at: At,
}

#[derive(clap::Args)]
struct At {
    /// Folder with the simulator's sockets, as given to hca sim
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl At {
    fn ask(&self, line: &str) -> Result<Value> {
        control::ask(Folder::find(self.dir.as_deref())?.path(), line)
    }
}

/// Does what was asked for.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Up(up) => return sim::run_managed(&up.sim, &up.opensm),
        Command::Show { json, at } => {
            let found = at.ask("show")?;
            let text = if *json {
                format!("{found}\n")
            } else {
                text_of(&found)
            };
            crate::print(&text)?;
        }
        Command::Pull(cable) => drop(cable.at.ask(&format!("pull {}", cable.cable))?),
        Command::Plug(cable) => drop(cable.at.ask(&format!("plug {}", cable.cable))?),
        Command::Restart { switch, at } => drop(at.ask(&format!("restart {switch}"))?),
    }
    Ok(ExitCode::SUCCESS)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("-")
}

/// A line for each switch and each of its ports that has a cable, and for each cable that is down.
fn text_of(found: &Value) -> String {
    let mut text = String::new();
    for switch in list(found, "switches") {
        let entries = |name| {
            switch
                .get(name)
                .and_then(Value::as_object)
                .map_or(0, |table| table.len())
        };
        let _ = writeln!(
            text,
            "{}: GUID {:#018x}, LID {}, {} LIDs and {} groups in its tables",
            word(switch, "name"),
            switch["guid"].as_u64().unwrap_or(0),
            switch["lid"],
            entries("unicast"),
            entries("multicast"),
        );
        for port in list(switch, "ports")
            .iter()
            .filter(|port| !port["peer"].is_null())
        {
            let (number, peer) = (port["port"].as_u64().unwrap_or(0), word(port, "peer"));
            let counters = &port["counters"];
            let _ = writeln!(
                text,
                "  {number:2} {peer:12} {:8} {:>10} packets out {:>10} in",
                word(port, "state"),
                counters["port_xmit_pkts"],
                counters["port_rcv_pkts"],
            );
        }
    }
    for link in list(found, "links").iter().filter(|link| link["up"] == false) {
        let ends: Vec<_> = list(link, "ends").iter().filter_map(Value::as_str).collect();
        let _ = writeln!(text, "{}: down", ends.join(" - "));
    }
    text
}
