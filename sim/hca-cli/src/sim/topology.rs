//! Cards joined in pairs.

use anyhow::Result;
use hca_cosim::{CableId, CardConfig, CardId, Fabric, Identity, NUM_FUNCS, Server};
use hca_link::{CableConfig, FaultSpec, LinkKind, Tap};
use std::path::{Path, PathBuf};

use super::folder::Folder;
use crate::files::{self, FileError};
use crate::options::{FAULTS_HELP, Link, Window};
use crate::waveforms::TRACE_HELP;

/// Where waveforms go.
const TRACE_DIR: &str = "target/sim";

/// What a simulated network is made of.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct Topology {
    /// Personality of all ports
    #[arg(long, value_enum, default_value_t = Link::Eth)]
    pub link: Link,
    /// Rate of each cable
    #[arg(long, value_name = "GBPS", default_value_t = 100)]
    pub rate: u64,
    /// Time of a bit from one end of a cable to the other
    #[arg(long, value_name = "NS", default_value_t = 100)]
    pub latency: u64,
    #[arg(long, value_name = "SPEC", default_value = "", hide_default_value = true, help = FAULTS_HELP)]
    pub faults: FaultSpec,
    /// Decides faults and the cards' initial registers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Capture what is sent; cables after the first write to FILE with their number before the ending
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    #[arg(long, value_name = "FROM:TO", num_args = 0..=1, default_missing_value = ":", help = TRACE_HELP)]
    pub trace: Option<Window>,
    /// Folder for the waveforms, card<N>.fst
    #[arg(long, value_name = "DIR", default_value = TRACE_DIR)]
    pub trace_dir: PathBuf,
}

impl Default for Topology {
    fn default() -> Self {
        Self {
            link: Link::Eth,
            rate: 100,
            latency: 100,
            faults: FaultSpec::default(),
            seed: 1,
            pcap: None,
            trace: None,
            trace_dir: TRACE_DIR.into(),
        }
    }
}

/// Cards at the ends of each cable: 0-1, 2-3; one without a partner has a loopback plug.
pub fn cable_ends(cards: u8) -> Vec<(u8, u8)> {
    let last = cards.saturating_sub(1);
    (0..cards).step_by(2).map(|a| (a, last.min(a + 1))).collect()
}

/// A network behind its sockets.
pub struct Network {
    /// To be run.
    pub server: Server,
    captures: Vec<(CableId, PathBuf)>,
    waveforms: Vec<CardId>,
}

impl Network {
    /// Builds cards and cables, and serves every function in the folder.
    pub fn new(topology: &Topology, num_cards: u8, folder: &Folder) -> Result<Self> {
        let mut fabric = Fabric::new(topology.seed);
        let mut cards = Vec::new();
        for index in 0..num_cards {
            let identity = identity(index, topology.link.into());
            cards.push(fabric.add_card(CardConfig::core(&format!("card{index}"), identity))?);
        }
        for (index, (a, b)) in cable_ends(num_cards).into_iter().enumerate() {
            let config = CableConfig {
                rate_bits_per_s: topology.rate.saturating_mul(1_000_000_000),
                latency_ns: topology.latency,
                faults: topology.faults,
                ..CableConfig::new(&format!("link{index}"), topology.link.into())
            };
            config.check()?;
            fabric.connect(cards[usize::from(a)], cards[usize::from(b)], config)?;
        }
        let mut server = Server::new(fabric);
        for (number, card) in (0..).zip(cards) {
            for func in 0..NUM_FUNCS {
                let served = server.serve(card, func, &folder.socket(number, func));
                served.map_err(FileError::from_display)?;
            }
        }
        // After the sockets: these files may be those of a simulator which has them.
        let waveforms = trace(server.fabric(), topology)?;
        let captures = match &topology.pcap {
            Some(path) => capture(server.fabric(), path)?,
            None => Vec::new(),
        };
        Ok(Self {
            server,
            captures,
            waveforms,
        })
    }

    /// Completes the captures and waveforms.
    pub fn close(mut self) -> Result<()> {
        for (cable, path) in &self.captures {
            let closed = self.server.fabric().cable_mut(*cable).close();
            closed.map_err(|error| {
                FileError::from_display(format_args!("cannot complete {}: {error}", path.display()))
            })?;
        }
        for card in self.waveforms {
            let closed = self.server.fabric().card_mut(card).trace_close();
            closed.map_err(FileError::from_display)?;
        }
        Ok(())
    }
}

fn trace(fabric: &mut Fabric, topology: &Topology) -> Result<Vec<CardId>> {
    let Some(window) = topology.trace else {
        return Ok(Vec::new());
    };
    files::make_dir(&topology.trace_dir)?;
    for card in fabric.cards() {
        let card = fabric.card_mut(card);
        let path = topology.trace_dir.join(format!("{}.fst", card.name()));
        card.trace_window(&path, window.from..window.to)
            .map_err(FileError::from_display)?;
    }
    Ok(fabric.cards().collect())
}

fn capture(fabric: &mut Fabric, path: &Path) -> Result<Vec<(CableId, PathBuf)>> {
    let mut captures = Vec::new();
    for (index, cable) in fabric.cables().enumerate() {
        let path = capture_path(path, index);
        // Found out here, the reason is clear; inside the simulator it would end the run as a violation.
        files::write(&path, b"")?;
        fabric
            .cable_mut(cable)
            .capture(Tap::Sent, &path)
            .map_err(FileError::from_display)?;
        captures.push((cable, path));
    }
    Ok(captures)
}

/// The first cable's capture has the name given; the others have their number before the ending.
fn capture_path(path: &Path, cable: usize) -> PathBuf {
    if cable == 0 {
        return path.to_owned();
    }
    let ending = path
        .extension()
        .map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{cable}{ending}"))
}

/// Addresses of a card. Its MAC address is the one that follows from its IPv4 address ([`hca_verbs::mac_of_gid`]), so
/// that programs which exchange GIDs alone find it.
fn identity(index: u8, link: LinkKind) -> Identity {
    let number = index + 1;
    Identity {
        guid: [0x02, 0x00, 0x0a, 0xff, 0xfe, 0, 0, number],
        mac: [0x02, 0x00, 0x0a, 0, 0, number],
        ipv4: [10, 0, 0, number],
        lid: u16::from(number),
        infiniband: link == LinkKind::InfiniBand,
        self_active: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_joined_in_pairs() {
        assert_eq!(cable_ends(1), [(0, 0)]);
        assert_eq!(cable_ends(2), [(0, 1)]);
        assert_eq!(cable_ends(5), [(0, 1), (2, 3), (4, 4)]);
    }

    #[test]
    fn each_cable_has_a_capture_of_its_own() {
        let path = |cable| capture_path(Path::new("a/b.pcap"), cable);
        assert_eq!(path(0), Path::new("a/b.pcap"));
        assert_eq!(path(2), Path::new("a/b-2.pcap"));
        assert_eq!(capture_path(Path::new("b"), 1), Path::new("b-1"));
    }

    #[test]
    fn addresses_follow_from_each_other() {
        let identity = identity(3, LinkKind::Ethernet);
        let gid = hca_verbs::gid_of_ipv4(identity.ipv4);
        assert_eq!(hca_verbs::mac_of_gid(&gid), Some(identity.mac));
    }
}
