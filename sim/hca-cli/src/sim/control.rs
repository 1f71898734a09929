//! The network of a running simulator, for `hca fabric`: a socket beside those of the cards. Who connects writes a
//! line, and gets a line of JSON. Cables can be pulled, switches restarted, and what the switches know can be read.

use anyhow::{Context as _, Result, bail};
use hca_cosim::{Calls, Fabric};
use hca_switch::{IbSwitch, LinkId, SwitchId};
use hca_topology::{EndSpec, SwitchSpec, Topology as Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::files::FileError;
use crate::report;

/// Name of the socket in the simulator's folder.
const NAME: &str = "control";
/// How long somebody may take to write a line, or to read one.
const PATIENCE: Duration = Duration::from_secs(5);
/// No line is longer.
const LINE_BYTES: u64 = 512;

/// The socket of a simulator. Dropping it removes it.
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Answers from a thread until the process ends.
    pub fn serve(folder: &Path, plan: &Plan, calls: Calls) -> Result<Self> {
        let path = folder.join(NAME);
        let cannot =
            |error| FileError::from_display(format_args!("cannot listen at {}: {error}", path.display()));
        let listener: UnixListener = report::listen(&path).map_err(cannot)?;
        let plan = Arc::new(plan.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Who goes away has only himself to blame.
                let _ = stream
                    .map_err(Into::into)
                    .and_then(|stream| answer(stream, &plan, &calls));
            }
        });
        Ok(Self { path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A path that somebody else removed is as good as removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, plan: &Arc<Plan>, calls: &Calls) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LINE_BYTES)).read_line(&mut line)?;
    let found = command(line.trim_end(), plan, calls);
    let text = match found {
        Ok(value) => value,
        Err(error) => json!({ "error": format!("{error:#}") }),
    };
    stream.write_all(format!("{text}\n").as_bytes())?;
    stream.shutdown(Shutdown::Both)?;
    Ok(())
}

fn command(line: &str, plan: &Arc<Plan>, calls: &Calls) -> Result<Value> {
    let (verb, name) = line.split_once(' ').unwrap_or((line, ""));
    let gone = "the simulator is about to end";
    match verb {
        "show" => {
            let plan = plan.clone();
            calls.call(move |fabric| show(&plan, fabric)).context(gone)
        }
        "pull" | "plug" => {
            let link = find_link(plan, name)?;
            let is_plugged = verb == "plug";
            let done = calls.call(move |fabric| fabric.net_mut().plug(LinkId(link), is_plugged));
            done.context(gone)?;
            Ok(json!({}))
        }
        "restart" => {
            let id = find_switch(plan, name)?;
            let restart = move |fabric: &mut Fabric| {
                let found = fabric.net().switches().nth(id);
                found.map(|id| fabric.net_mut().restart(id))
            };
            calls.call(restart).flatten().context(gone)?;
            Ok(json!({}))
        }
        _ => bail!("'{line}' is no command"),
    }
}

/// The link that has this name, or an end of this name.
fn find_link(plan: &Plan, name: &str) -> Result<usize> {
    let is_it = |link: &hca_topology::LinkSpec| {
        link.cable.name == name || link.ends.iter().any(|end| plan.end_name(*end) == name)
    };
    match plan.links.iter().position(is_it) {
        Some(link) => Ok(link),
        None => {
            let names = plan.links.iter().flat_map(|link| link.ends);
            let names: Vec<_> = names.map(|end| plan.end_name(end)).collect();
            bail!(
                "no cable has the name or an end '{name}'; ends are {}",
                names.join(", ")
            )
        }
    }
}

/// The place of an InfiniBand switch among those.
fn find_switch(plan: &Plan, name: &str) -> Result<usize> {
    let is_ib = |switch: &&SwitchSpec| matches!(switch, SwitchSpec::InfiniBand(_));
    let mut switches = plan.switches.iter().filter(is_ib);
    match switches.position(|switch| switch.name() == name) {
        Some(place) => Ok(place),
        None => bail!("there is no InfiniBand switch '{name}'"),
    }
}

fn show(plan: &Plan, fabric: &Fabric) -> Value {
    let net = fabric.net();
    let switches: Vec<_> = net.switches().map(|id| switch(plan, fabric, id)).collect();
    let links = plan.links.iter().zip(net.cables()).map(|(link, cable)| {
        json!({
            "name": link.cable.name,
            "ends": link.ends.map(|end| plan.end_name(end)),
            "up": cable.is_up(),
        })
    });
    json!({ "switches": switches, "links": links.collect::<Vec<_>>() })
}

fn switch(plan: &Plan, fabric: &Fabric, id: SwitchId) -> Value {
    let switch = fabric.net().switch(id);
    let (lid, lmc) = switch.lid();
    let tables = switch.forwarding();
    let unicast: BTreeMap<_, _> = tables.all_unicast().collect();
    let bits = |ports: u64| (0..64).filter(|port| ports >> port & 1 != 0).collect::<Vec<u8>>();
    let groups = tables.all_multicast();
    let multicast: BTreeMap<_, _> = groups.map(|(mlid, ports)| (mlid, bits(ports))).collect();
    json!({
        "name": switch.name(),
        "guid": switch.config().guid,
        "lid": lid,
        "lmc": lmc,
        "ports": (1..=switch.config().ports).map(|number| port(plan, switch, number)).collect::<Vec<_>>(),
        "unicast": unicast,
        "multicast": multicast,
    })
}

fn port(plan: &Plan, switch: &IbSwitch, number: u8) -> Value {
    const STATES: [&str; 5] = ["no cable", "DOWN", "INIT", "ARMED", "ACTIVE"];
    let state = switch.port_state(number).unwrap_or(0);
    let is_here = |end: &EndSpec| match *end {
        EndSpec::Switch(at, port) => port == number && plan.switches[at].name() == switch.name(),
        _ => false,
    };
    let link = plan.links.iter().find(|link| link.ends.iter().any(is_here));
    let peer = link.and_then(|link| link.ends.iter().find(|end| !is_here(end)));
    let inputs = (1..=switch.config().ports).filter(|input| switch.arbitration(*input).is_some());
    let sl2vl: BTreeMap<_, _> = inputs.map(|input| (input, switch.sl2vl(input, number))).collect();
    let vls = switch.operational_vls(number);
    let lanes = (0..vls.unwrap_or(0)).map(|vl| switch.vl_counters(number, vl));
    json!({
        "port": number,
        "peer": peer.map(|end| plan.end_name(*end)),
        "state": STATES.get(usize::from(state)),
        "counters": switch.counters(number),
        "vls": vls,
        "lanes": lanes.collect::<Vec<_>>(),
        "arbitration": switch.arbitration(number),
        "sl2vl": link.map(|_| sl2vl),
    })
}

/// Has a simulator do something with its network.
pub fn ask(folder: &Path, line: &str) -> Result<Value> {
    let path = folder.join(NAME);
    let mut stream =
        UnixStream::connect(&path).with_context(|| format!("no simulator answers at {}", path.display()))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .context("the simulator's answer broke off")?;
    let value: Value = serde_json::from_str(&text).context("the simulator's answer is not readable")?;
    match value.get("error").and_then(Value::as_str) {
        Some(error) => bail!("{error}"),
        None => Ok(value),
    }
}
