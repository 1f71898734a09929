//! What can be known of a simulator's cards without asking them: a file beside their sockets. Asking would take a
//! function of the card from the programs.

use anyhow::{Context as _, Result};
use hca_cosim::{Identity, identities};
use hca_fw_core as firmware;
use hca_topology::{EndSpec, Topology as Plan};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use crate::files;

/// Name of the file in the simulator's folder.
const NAME: &str = "facts.json";
/// `port_state` (E-5).
const DOWN: u8 = 1;
const INIT: u8 = 2;
const ACTIVE: u8 = 4;

/// A card as its simulator starts it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CardFacts {
    /// N of `card<N>`.
    pub card: u32,
    /// Major, minor, patch.
    pub firmware: [u16; 3],
    /// Version of the hardware.
    pub hw_ver: u32,
    /// First byte on the wire first.
    pub node_guid: [u8; 8],
    /// PCI configuration space.
    pub pci_config: Vec<u8>,
    /// Port 1, port 2.
    pub ports: Vec<PortFacts>,
}

/// A port, by the names of `ibv_port_attr`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names of docs/abi.md")]
pub struct PortFacts {
    pub infiniband: bool,
    pub state: u8,
    pub phys_state: u8,
    pub lid: u16,
    pub lmc: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub port_cap_flags: u32,
    /// The whole table; an empty entry is `::`.
    pub gids: Vec<Ipv6Addr>,
    /// The whole table.
    pub pkeys: Vec<u16>,
}

/// All cards of a network.
pub fn of(plan: &Plan) -> Vec<CardFacts> {
    let card = |index: usize| {
        let ports = (1..).zip(identities(plan, index));
        let has_link = |port| {
            let end = EndSpec::Card(index, port);
            plan.links.iter().any(|link| link.ends.contains(&end))
        };
        CardFacts {
            card: index as u32,
            firmware: firmware::VERSION,
            hw_ver: firmware::HARDWARE_VERSION,
            node_guid: plan.cards[index].ports[0].guid,
            pci_config: hca_cosim::pci_config(&plan.cards[index].pcie),
            ports: ports
                .map(|(port, identity)| port_facts(&identity, has_link(port)))
                .collect(),
        }
    };
    (0..plan.cards.len()).map(card).collect()
}

fn port_facts(identity: &Identity, has_link: bool) -> PortFacts {
    let mut gids = vec![Ipv6Addr::UNSPECIFIED; firmware::NUM_GIDS];
    for (entry, gid) in gids.iter_mut().zip(identity.gids()) {
        *entry = gid.into();
    }
    let mut pkeys = vec![0; firmware::NUM_PKEYS];
    pkeys[0] = firmware::DEFAULT_PKEY;
    let (state, phys_state) = match (has_link, identity.self_active) {
        (true, true) => (ACTIVE, firmware::PHYS_LINK_UP),
        (true, false) => (INIT, firmware::PHYS_LINK_UP),
        (false, _) => (DOWN, firmware::PHYS_POLLING),
    };
    let (active_width, active_speed) = firmware::width_and_speed(identity.rate_mbps);
    PortFacts {
        infiniband: identity.infiniband,
        state,
        phys_state,
        lid: if identity.infiniband { identity.lid } else { 0 },
        lmc: 0,
        active_width,
        active_speed,
        port_cap_flags: firmware::port_cap_flags(identity.infiniband),
        gids,
        pkeys,
    }
}

/// Folder beside it with the files for programs that cannot have them mounted (`run/view`).
pub const VIEW: &str = "view";

/// The file of a running simulator. Dropping it removes it, and what programs were given by it.
pub struct FactsFile {
    path: PathBuf,
}

impl FactsFile {
    /// Writes it. One that is there is a killed simulator's.
    pub fn write(folder: &Path, plan: &Plan) -> Result<Self> {
        let path = folder.join(NAME);
        // What was written for programs by what an earlier one said.
        let _ = fs::remove_dir_all(folder.join(VIEW));
        files::write(&path, &serde_json::to_vec(&of(plan))?)?;
        Ok(Self { path })
    }
}

impl Drop for FactsFile {
    fn drop(&mut self) {
        // A path that somebody else removed is as good as removed.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir_all(self.path.with_file_name(VIEW));
    }
}

/// What the simulator of a folder has written.
pub fn read(folder: &Path) -> Result<Vec<CardFacts>> {
    let path = folder.join(NAME);
    let text =
        fs::read(&path).with_context(|| format!("the simulator has not written {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not readable", path.display()))
}
