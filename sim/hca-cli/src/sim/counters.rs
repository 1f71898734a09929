//! Counters of the ports as files beside the sockets, which programs see in /sys/class/infiniband: one number each,
//! kept up to date while the simulator runs. Names and units are those of PortCountersExtended (IBA 16.1.4.11): data in
//! words of four octets, link packets not counted.

use anyhow::{Context as _, Result};
use hca_cosim::{PortStatus, ServerStatus};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::files;

/// Folders of a port, as the kernel divides them: the counters of the specification, and a driver's own, which here are
/// the same in bytes, by the names that several drivers have for them.
pub const FOLDERS: [&str; 2] = ["counters", "hw_counters"];
/// Name of the folder in the simulator's.
const NAME: &str = "counters";
/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(5);
const OCTETS_PER_WORD: u64 = 4;

/// Folder of a port's counters in that of a simulator. Ports count from 1.
pub fn folder_of(simulator: &Path, card: u32, port: u8) -> PathBuf {
    simulator.join(NAME).join(format!("card{card}.port{port}"))
}

/// The counters of a port by folder and name.
fn values(port: &PortStatus) -> [(&'static str, &'static str, u64); 8] {
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

/// One port's files, and what is in them.
struct Port {
    files: Vec<(File, u64)>,
}

impl Port {
    fn make(folder: &Path, port: &PortStatus) -> Result<Self> {
        let make = |(kind, name, value): (&str, &str, u64)| {
            let path = folder.join(kind).join(name);
            files::write(&path, line(value).as_bytes())?;
            let file = File::options()
                .write(true)
                .open(&path)
                .with_context(|| path.display().to_string())?;
            Ok((file, value))
        };
        let files = values(port).into_iter().map(make).collect::<Result<_>>()?;
        Ok(Self { files })
    }

    /// Numbers only grow: a line is written over by one that is as long or longer.
    fn update(&mut self, port: &PortStatus) {
        for ((file, written), (.., value)) in self.files.iter_mut().zip(values(port)) {
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
pub struct Counters {
    path: PathBuf,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Counters {
    /// Makes them, and keeps them up to date. Some that are there are a killed simulator's.
    pub fn start(simulator: &Path, status: Arc<ServerStatus>) -> Result<Self> {
        let path = simulator.join(NAME);
        let make = |port: &PortStatus| Port::make(&folder_of(simulator, port.card, port.port), port);
        let ports = status.ports().iter().map(make).collect::<Result<Vec<_>>>()?;
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

impl Drop for Counters {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only copies numbers: there is nothing of it to lose.
            let _ = thread.join();
        }
        // A path that somebody else removed is as good as removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}
