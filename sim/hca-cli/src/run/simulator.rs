//! The simulator of a pair: two cards, in a thread of this process.

use anyhow::{Result, anyhow, bail};
use hca_cosim::{ServerStatus, StopHandle};
use hca_link::DirStats;
use hca_meter::Meters;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::sim::folder::Folder;
use crate::sim::topology::{Network, Topology};

/// What its cards and cables have done, when it has ended.
#[derive(Default, Serialize)]
pub struct Totals {
    pub cards: Vec<CardTotals>,
    pub links: Vec<LinkTotals>,
}

#[derive(Serialize)]
pub struct CardTotals {
    pub name: String,
    pub evaluated_cycles: u64,
    pub tx_packets: u64,
    pub rx_packets: u64,
    pub firmware_accesses: u64,
}

#[derive(Serialize)]
pub struct LinkTotals {
    pub name: String,
    pub a_to_b: DirStats,
    pub b_to_a: DirStats,
}

/// A simulator under way.
pub struct Simulator {
    stop: StopHandle,
    status: Arc<ServerStatus>,
    thread: JoinHandle<Result<Totals>>,
}

impl Simulator {
    /// Returns when its sockets are there.
    pub fn start(topology: Topology, home: &Path, meters: Meters) -> Result<Self> {
        let folder = Folder::find(Some(home))?;
        let (started, start) = channel();
        let thread = std::thread::spawn(move || {
            let start = || simulate(&topology, &folder, &meters, &started);
            crate::simulate(start)
        });
        match start.recv() {
            Ok((stop, status)) => Ok(Self { stop, status, thread }),
            // It ended before it began, and says why.
            Err(_) => Err(join(thread)
                .err()
                .unwrap_or_else(|| anyhow!("the simulator did not start"))),
        }
    }

    /// What it has done so far.
    pub fn status(&self) -> &ServerStatus {
        &self.status
    }

    /// The same, for when it has ended.
    pub fn status_handle(&self) -> Arc<ServerStatus> {
        self.status.clone()
    }

    /// It goes on no more: what it says is of no use to programs.
    pub fn has_failed(&self) -> bool {
        self.status.broken().is_some() || self.thread.is_finished()
    }

    /// Ends it. The error says what failed in the meantime.
    pub fn stop(self) -> Result<Totals> {
        self.stop.stop();
        let totals = join(self.thread)?;
        match self.status.broken() {
            Some(what) => bail!("{what}"),
            None => Ok(totals),
        }
    }
}

fn join(thread: JoinHandle<Result<Totals>>) -> Result<Totals> {
    thread
        .join()
        .unwrap_or_else(|_| Err(anyhow!("the simulator ended with a panic")))
}

fn simulate(
    topology: &Topology,
    folder: &Folder,
    meters: &Meters,
    started: &Sender<(StopHandle, Arc<ServerStatus>)>,
) -> Result<Totals> {
    let plan = topology.plan(2)?;
    if plan.cards.len() < 2 {
        bail!("--pair needs a topology with two cards");
    }
    let mut network = Network::new(topology, &plan, folder)?;
    network.server.observe(meters.observers());
    // Whoever started us waits for it.
    let _ = started.send((network.server.stop_handle(), network.server.status()));
    network.server.run();
    let totals = totals(&mut network);
    network.close()?;
    Ok(totals)
}

fn totals(network: &mut Network) -> Totals {
    let fabric = network.server.fabric();
    let card = |id| {
        let (card, counters) = (fabric.card(id), fabric.card(id).counters());
        CardTotals {
            name: card.name().to_owned(),
            evaluated_cycles: counters.evaluated_cycles,
            tx_packets: counters.tx_packets,
            rx_packets: counters.rx_packets,
            firmware_accesses: counters.firmware_accesses,
        }
    };
    let link = |id| {
        let (cable, stats) = (fabric.cable(id), fabric.cable(id).stats());
        LinkTotals {
            name: cable.config().name.clone(),
            a_to_b: stats.a_to_b,
            b_to_a: stats.b_to_a,
        }
    };
    Totals {
        cards: fabric.cards().map(card).collect(),
        links: fabric.cables().map(link).collect(),
    }
}
