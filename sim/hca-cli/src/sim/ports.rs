//! What programs see of each port in /sys/class/infiniband: files beside the sockets, kept up to date while the
//! simulator runs. Names and formats are those of the kernel's documentation
//! (Documentation/ABI/stable/sysfs-class-infiniband). State and LIDs are what the port's firmware says, from when the
//! port has come up: until then it is told of as it is going to be. GIDs and P_Keys are those of the start.
//!
//! Counters are those of PortCountersExtended (IBA 16.1.4.11): data in words of four octets, link packets not counted.

use anyhow::{Context as _, Result};
use hca_cosim::{PortStatus, PortView, ServerStatus};
use std::fs::{self, File};
use std::net::Ipv6Addr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::facts::{CardFacts, PortFacts};
use crate::files;

/// The device whose address a GID of RoCE is: programs reach each other through it.
pub const NET_DEVICE: &str = "lo";
/// Folders of a port's counters, as the kernel divides them: those of the specification, and a driver's own, which here
/// are the same in bytes, by the names that several drivers have for them.
const FOLDERS: [&str; 2] = ["counters", "hw_counters"];
/// Name of the folder in the simulator's.
const NAME: &str = "ports";
/// In it: a file that is about to take another one's place, at once.
const NEW: &str = ".new";
/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(5);
const OCTETS_PER_WORD: u64 = 4;

/// Folder of a port in that of a simulator. Ports count from 1.
pub fn folder_of(simulator: &Path, card: u32, port: u8) -> PathBuf {
    simulator.join(NAME).join(format!("card{card}.port{port}"))
}

/// Name and text of a file.
type Named = (String, String);

/// What a port is by its name in sysfs, as far as it changes. The state is the last one: who sees that it is ACTIVE
/// sees the LID that it has.
fn state_files(port: &PortView) -> [Named; 7] {
    [
        ("phys_state", numbered(port.phys_state(), &PHYS_STATES)),
        ("lid", format!("{:#x}", port.lid())),
        ("lid_mask_count", port.lmc().to_string()),
        ("sm_lid", format!("{:#x}", port.sm_lid())),
        ("sm_sl", port.sm_sl().to_string()),
        ("cap_mask", format!("{:#010x}", port.cap_flags())),
        ("state", numbered(port.state(), &PORT_STATES)),
    ]
    .map(|(name, text)| (name.to_owned(), text))
}

/// A port as its simulator starts it.
fn view_at_start(port: &PortFacts) -> PortView {
    let mut view = PortView::new();
    view.set_state(port.state);
    view.set_phys_state(port.phys_state);
    view.set_lid(port.lid);
    view.set_lmc(port.lmc);
    view.set_cap_flags(port.port_cap_flags);
    view
}

/// What stays.
fn fixed_files(port: &PortFacts) -> Vec<Named> {
    let link_layer = if port.infiniband { "InfiniBand" } else { "Ethernet" };
    let mut files = vec![
        ("rate".to_owned(), rate(port.active_width, port.active_speed)),
        ("link_layer".to_owned(), link_layer.to_owned()),
    ];
    for (index, pkey) in port.pkeys.iter().enumerate() {
        files.push((format!("pkeys/{index}"), format!("{pkey:#06x}")));
    }
    for (index, gid) in port.gids.iter().enumerate() {
        files.push((format!("gids/{index}"), groups(&gid.octets())));
        // Of an empty entry the kernel tells neither: reading them fails.
        if *gid == Ipv6Addr::UNSPECIFIED {
            continue;
        }
        let gid_type = if port.infiniband { "IB/RoCE v1" } else { "RoCE v2" };
        files.push((format!("gid_attrs/types/{index}"), gid_type.to_owned()));
        if !port.infiniband {
            files.push((format!("gid_attrs/ndevs/{index}"), NET_DEVICE.to_owned()));
        }
    }
    files
}

/// Four digits, a colon, and so on.
pub fn groups(bytes: &[u8]) -> String {
    let groups = bytes
        .chunks(2)
        .map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    groups.collect::<Vec<_>>().join(":")
}

/// `ibv_port_state`.
const PORT_STATES: [&str; 6] = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
/// PortPhysicalState of PortInfo (IBA 14.2.5.6).
const PHYS_STATES: [&str; 8] = [
    "No state change",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "Phy Test",
];

fn numbered(value: u8, names: &[&str]) -> String {
    let name = names.get(usize::from(value)).unwrap_or(&"<unknown>");
    format!("{value}: {name}")
}

/// Bits per second of active_width lanes of active_speed each (V-35, E-6).
fn rate(width: u8, speed: u8) -> String {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    // In units of 100 Mbit/s.
    let (lane, name) = match speed {
        1 => (25, " SDR"),
        2 => (50, " DDR"),
        4 => (100, " QDR"),
        8 => (100, " FDR10"),
        16 => (140, " FDR"),
        32 => (250, " EDR"),
        64 => (500, " HDR"),
        128 => (1000, " NDR"),
        _ => (0, ""),
    };
    let hundreds = lanes * lane;
    let half = if hundreds % 10 == 0 { "" } else { ".5" };
    format!("{}{half} Gb/sec ({lanes}X{name})", hundreds / 10)
}

/// The counters of a port by folder and name.
fn counters(port: &PortStatus) -> [(&'static str, &'static str, u64); 8] {
    let [sent, received] = port.traffic();
    let [specified, own] = FOLDERS;
    [
        (specified, "port_xmit_packets", sent.packets),
        (specified, "port_xmit_data", sent.octets / OCTETS_PER_WORD),
        (specified, "port_rcv_packets", received.packets),
        (specified, "port_rcv_data", received.octets / OCTETS_PER_WORD),
        (own, "tx_pkts", sent.packets),
        (own, "tx_bytes", sent.octets),
        (own, "rx_pkts", received.packets),
        (own, "rx_bytes", received.octets),
    ]
}

/// The part of a port's files that says what it is.
struct State {
    folder: PathBuf,
    /// What is in the files.
    shown: PortView,
    /// It has been what the simulator starts it as.
    has_come_up: bool,
}

impl State {
    /// States count upwards from NOP to ACTIVE. What was not written is tried again at the next look.
    fn update(&mut self, now: Option<PortView>) {
        let Some(mut now) = now else {
            return;
        };
        now.set_port_num(self.shown.port_num());
        self.has_come_up |= now.state() >= self.shown.state();
        if !self.has_come_up || now == self.shown {
            return;
        }
        let old = state_files(&self.shown);
        let changed = state_files(&now)
            .into_iter()
            .zip(old)
            .filter(|(new, old)| new != old);
        let replaced: std::io::Result<()> = changed
            .into_iter()
            .try_for_each(|((name, text), _)| replace(&self.folder.join(name), &text));
        if replaced.is_ok() {
            self.shown = now;
        }
    }
}

/// A reader finds the old line or the new one, never a part of each.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let all = path.parent().and_then(Path::parent).unwrap_or(path);
    let new = all.join(NEW);
    fs::write(&new, format!("{text}\n"))?;
    fs::rename(new, path)
}

/// One port's files, and what is in them.
struct Port {
    state: State,
    counters: Vec<(File, u64)>,
}

impl Port {
    fn make(folder: PathBuf, facts: &PortFacts, port: &PortStatus) -> Result<Self> {
        let shown = view_at_start(facts);
        for (name, text) in fixed_files(facts).into_iter().chain(state_files(&shown)) {
            files::write(&folder.join(name), format!("{text}\n").as_bytes())?;
        }
        let make = |(kind, name, value): (&str, &str, u64)| {
            let path = folder.join(kind).join(name);
            files::write(&path, line(value).as_bytes())?;
            let file = File::options()
                .write(true)
                .open(&path)
                .with_context(|| path.display().to_string())?;
            Ok((file, value))
        };
        let counters = counters(port).into_iter().map(make).collect::<Result<_>>()?;
        let state = State {
            folder,
            shown,
            has_come_up: false,
        };
        Ok(Self { state, counters })
    }

    /// Numbers only grow: a line is written over by one that is as long or longer.
    fn update(&mut self, port: &PortStatus) {
        self.state.update(port.view());
        for ((file, written), (.., value)) in self.counters.iter_mut().zip(counters(port)) {
            if value != *written && file.write_all_at(line(value).as_bytes(), 0).is_ok() {
                *written = value;
            }
        }
    }
}

fn line(value: u64) -> String {
    format!("{value}\n")
}

/// The files of a running simulator. Dropping it removes them.
pub struct Ports {
    path: PathBuf,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ports {
    /// Makes them, and keeps them up to date. Some that are there are a killed simulator's.
    pub fn start(simulator: &Path, cards: &[CardFacts], status: Arc<ServerStatus>) -> Result<Self> {
        let path = simulator.join(NAME);
        let facts = cards.iter().flat_map(|card| &card.ports);
        let make = |(port, facts): (&PortStatus, &PortFacts)| {
            Port::make(folder_of(simulator, port.card, port.port), facts, port)
        };
        let ports = status.ports().iter().zip(facts).map(make);
        let ports = ports.collect::<Result<Vec<_>>>()?;
        let (stop, stopped) = channel();
        Ok(Self {
            path,
            stop: Some(stop),
            thread: Some(std::thread::spawn(move || keep(ports, &status, &stopped))),
        })
    }
}

fn keep(mut ports: Vec<Port>, status: &ServerStatus, stopped: &Receiver<()>) {
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        for (port, status) in ports.iter_mut().zip(status.ports()) {
            port.update(status);
        }
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only copies what others say: there is nothing of it to lose.
            let _ = thread.join();
        }
        // A path that somebody else removed is as good as removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
