//! What a simulated network consists of, read from a small file: cards, switches, links, and the routes between them.
//!
//! [`Topology::read`] reads and checks the TOML text; everything that can be wrong is found there and named by file,
//! place and limit. [`Topology::routes`] says what each switch forwards where: the shortest way, or up and down a tree,
//! always the same for the same file, with the file's own entries on top. docs/topologies holds examples, and its
//! README every key.
//!
//! ```
//! let text = r#"
//!     [[card]]
//!     [[card]]
//!     [[switch]]
//!     name = "sw0"
//!     [[link]]
//!     ends = ["card0", "sw0"]
//!     [[link]]
//!     ends = ["card1", "sw0"]
//! "#;
//! let topology = hca_topology::Topology::parse("example.toml", text).unwrap();
//! assert_eq!(topology.routes()[0].unicast, [(1, 1), (2, 2)]); // LID, port
//! ```
#![forbid(unsafe_code)]

mod check;
mod file;
mod names;
mod outside;
mod plugs;
mod routes;
mod switch;

use std::net::Ipv6Addr;
use std::path::Path;

use hca_fw_core::{Quotas, SHARING_FUNCS};
use hca_host::PcieParams;
use hca_link::{CableConfig, LinkKind};
use hca_outside::WireConfig;
use hca_switch::{EthSwitchConfig, IbSwitchConfig, Sl2Vl, VlArbConfig};

pub use file::Algorithm;
pub use routes::SwitchRoutes;

/// Cards of a topology.
pub const CARDS_MAX: usize = 64;
/// Ports of a card.
pub const CARD_PORTS_MAX: u8 = 2;
/// Functions of a card.
pub const CARD_FUNCTIONS_MAX: u8 = hca_fw_core::NUM_FUNCS as u8;
/// Switches of a topology.
pub const SWITCHES_MAX: usize = 256;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {what}")]
pub struct TopologyError {
    /// The file.
    pub file: String,
    /// Where in it.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

/// A card.
#[derive(Debug, Clone, PartialEq)]
pub struct CardSpec {
    /// Unique name.
    pub name: String,
    /// Host side.
    pub pcie: PcieParams,
    /// Functions among which its tables are divided: the first ones. The others have nothing.
    pub functions: u8,
    /// Parts of the tables that each of them has; empty: equal ones.
    pub shares: Vec<u8>,
    /// It is the reference model behind registers, and has no gates.
    pub is_model: bool,
    /// Its ports, one or two.
    pub ports: Vec<PortSpec>,
}

impl CardSpec {
    /// Card number `index`, from 0, with a port of each kind and the addresses that follow from it.
    pub fn new(index: usize, kinds: &[LinkKind]) -> Self {
        let ports = kinds.iter().zip(0..);
        Self {
            name: format!("card{index}"),
            pcie: PcieParams::default(),
            functions: SHARING_FUNCS,
            shares: Vec::new(),
            is_model: false,
            ports: ports
                .map(|(kind, port)| PortSpec::new(index, port, *kind))
                .collect(),
        }
    }

    /// What its functions may take of its tables.
    pub fn quotas(&self) -> Quotas {
        Quotas::of_parts(&self.shares).unwrap_or(Quotas::from(self.functions))
    }

    /// From now on so many functions have equal shares.
    pub fn share_among(&mut self, functions: u8) {
        self.functions = functions;
        self.shares.clear();
    }

    /// A port by its number, from 1.
    pub fn port(&self, number: u8) -> Option<&PortSpec> {
        self.ports.get(usize::from(number).wrapping_sub(1))
    }
}

/// A port of a card.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSpec {
    /// Its personality: that of its link; InfiniBand without one.
    pub kind: LinkKind,
    /// Its GUID; the first port's is the card's too.
    pub guid: [u8; 8],
    /// Address on Ethernet.
    pub mac: [u8; 6],
    /// Address of RoCEv2.
    pub ipv4: [u8; 4],
    /// The same, IPv6, beside the link-local address that follows from the GUID.
    pub ipv6: [u8; 16],
    /// Local identifier, the first of 2^lmc.
    pub lid: u16,
    /// Its low bits that are free.
    pub lmc: u8,
    /// A subnet manager among the programs sets it up: without one it stays in INIT, and has no LID (VL-14).
    pub is_managed: bool,
}

impl PortSpec {
    /// Port number `port` of card number `card`, both from 0: IPv4 10.0.PORT.N with N = card + 1, IPv6
    /// fd00:0:0:PORT::N, LID N, the MAC address 02:00 and the IPv4 address, and the GUID made from that.
    pub fn new(card: usize, port: u8, kind: LinkKind) -> Self {
        let mut spec = Self {
            kind,
            guid: [0; 8],
            mac: [0; 6],
            ipv4: [0; 4],
            ipv6: Ipv6Addr::new(0xfd00, 0, 0, port.into(), 0, 0, 0, card as u16 + 1).octets(),
            lid: card as u16 + 1,
            lmc: 0,
            is_managed: false,
        };
        spec.set_ipv4([10, 0, port, card as u8 + 1]);
        spec
    }

    pub(crate) fn set_ipv4(&mut self, ipv4: [u8; 4]) {
        let [a, b, c, d] = ipv4;
        self.ipv4 = ipv4;
        self.set_mac([0x02, 0x00, a, b, c, d]);
    }

    pub(crate) fn set_mac(&mut self, mac: [u8; 6]) {
        self.mac = mac;
        // RFC 4291 appendix A: in an interface identifier made from a MAC address the universal/local bit is turned.
        self.guid = [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]];
    }

    /// All its LIDs.
    pub fn lids(&self) -> std::ops::Range<u16> {
        self.lid..self.lid + (1 << self.lmc)
    }
}

/// A switch.
#[derive(Debug, Clone, PartialEq)]
pub enum SwitchSpec {
    /// An InfiniBand switch.
    InfiniBand(IbSwitchSpec),
    /// An Ethernet switch: what it is made from.
    Ethernet(EthSwitchConfig),
}

/// An InfiniBand switch.
#[derive(Debug, Clone, PartialEq)]
pub struct IbSwitchSpec {
    /// What it is made from.
    pub config: IbSwitchConfig,
    /// Entries of its forwarding table that the file has: LID and port.
    pub routes: Vec<(u16, u8)>,
    /// SL-to-VL tables: input port, output port, table.
    pub sl2vl: Vec<(u8, u8, Sl2Vl)>,
    /// VL arbitration of single ports.
    pub arbitration: Vec<(u8, VlArbConfig)>,
}

impl SwitchSpec {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::InfiniBand(switch) => &switch.config.name,
            Self::Ethernet(config) => &config.name,
        }
    }

    /// Kind of its links.
    pub fn kind(&self) -> LinkKind {
        match self {
            Self::InfiniBand(_) => LinkKind::InfiniBand,
            Self::Ethernet(_) => LinkKind::Ethernet,
        }
    }

    /// Number of ports.
    pub fn ports(&self) -> u8 {
        match self {
            Self::InfiniBand(switch) => switch.config.ports,
            Self::Ethernet(config) => config.ports,
        }
    }
}

/// What an end of a link is plugged into; cards and switches by their place in the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSpec {
    /// A card and the number of its port, from 1.
    Card(usize, u8),
    /// A switch and the number of its port, from 1.
    Switch(usize, u8),
    /// A peer outside the simulator.
    Outside(usize),
}

/// A link. Both ends at one port make a loopback plug.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    /// Its ends, A first.
    pub ends: [EndSpec; 2],
    /// Its cable, but for the seed.
    pub cable: CableConfig,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its MLID.
    pub mlid: u16,
    /// Cards in it, with the numbers of their ports.
    pub members: Vec<(usize, u8)>,
}

/// A network, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Root seed, if the file has one.
    pub seed: Option<u64>,
    /// Cards, in the order of the file.
    pub cards: Vec<CardSpec>,
    /// Switches.
    pub switches: Vec<SwitchSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Peers outside the simulator; each is the end of one link.
    pub peers: Vec<WireConfig>,
    /// Multicast groups.
    pub groups: Vec<GroupSpec>,
    /// How routes are found.
    pub algorithm: Algorithm,
    /// Root of the tree of [`Algorithm::UpDown`] and of the groups.
    pub root: usize,
}

impl Topology {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TopologyError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| TopologyError {
            file: file.clone(),
            place: "file".to_owned(),
            what: error.to_string(),
        })?;
        Self::parse(&file, &text)
    }

    /// Reads a file's text; `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, TopologyError> {
        let raw = file::parse(text).map_err(|(place, what)| TopologyError {
            file: file.to_owned(),
            place,
            what,
        })?;
        check::check(raw).map_err(|(place, what)| TopologyError {
            file: file.to_owned(),
            place,
            what,
        })
    }

    /// Cards with one port each, joined in pairs: [`Topology::pairs_of`].
    pub fn pairs(count: usize, cable: &CableConfig) -> Result<Self, hca_link::LinkError> {
        Self::pairs_of(count, std::slice::from_ref(cable))
    }

    /// Cards joined in pairs, 0-1, 2-3, by a cable for each of their ports, first to first and second to second; a card
    /// without a partner has loopback plugs. All are like `cables`, which are checked, and have the names link0, link1
    /// and so on.
    pub fn pairs_of(count: usize, cables: &[CableConfig]) -> Result<Self, hca_link::LinkError> {
        let count = count.clamp(1, CARDS_MAX);
        let cables = &cables[..cables.len().min(CARD_PORTS_MAX.into())];
        let kinds: Vec<_> = cables.iter().map(|cable| cable.kind).collect();
        let mut cards: Vec<_> = (0..count).map(|index| CardSpec::new(index, &kinds)).collect();
        let mut links = Vec::new();
        for first in (0..count).step_by(2) {
            let second = (count - 1).min(first + 1);
            for (port, cable) in (1..).zip(cables) {
                let cable = CableConfig {
                    name: format!("link{}", links.len()),
                    ..cable.clone()
                };
                cable.check()?;
                let ends = [first, second].map(|card| EndSpec::Card(card, port));
                links.push(LinkSpec { ends, cable });
            }
        }
        for (index, card) in cards.iter_mut().enumerate() {
            for (port, spec) in card.ports.iter_mut().enumerate() {
                spec.lid = (port * count + index + 1) as u16;
            }
        }
        Ok(Self {
            seed: None,
            cards,
            switches: Vec::new(),
            links,
            peers: Vec::new(),
            groups: Vec::new(),
            algorithm: Algorithm::default(),
            root: 0,
        })
    }

    /// All InfiniBand ports wait for a subnet manager, those of switches too.
    pub fn wait_for_manager(&mut self) {
        for port in self.cards.iter_mut().flat_map(|card| &mut card.ports) {
            port.is_managed = port.kind == LinkKind::InfiniBand;
        }
        for switch in &mut self.switches {
            if let SwitchSpec::InfiniBand(switch) = switch {
                switch.config.is_managed = true;
            }
        }
    }

    /// Name of an end of a link, as in the file.
    pub fn end_name(&self, end: EndSpec) -> String {
        match end {
            EndSpec::Card(card, port) => {
                let card = &self.cards[card];
                match card.ports.len() {
                    1 => card.name.clone(),
                    _ => format!("{}:{port}", card.name),
                }
            }
            EndSpec::Switch(switch, port) => format!("{}:{port}", self.switches[switch].name()),
            EndSpec::Outside(peer) => self.peers[peer].address.to_string(),
        }
    }

    /// Ports of cards that a port's packets can reach over links and switches, as card and number; without itself.
    pub fn reachable(&self, card: usize, port: u8) -> Vec<(usize, u8)> {
        let from = EndSpec::Card(card, port);
        let mut seen = vec![from];
        let mut next = 0;
        while let Some(&end) = seen.get(next) {
            for link in &self.links {
                // A switch has any number of links, and the packet may leave it through each.
                let touches = |at: &EndSpec| match (at, end) {
                    (EndSpec::Switch(a, _), EndSpec::Switch(b, _)) => *a == b,
                    _ => *at == end,
                };
                let [a, b] = link.ends;
                for (near, far) in [(a, b), (b, a)] {
                    if touches(&near) && !seen.contains(&far) {
                        seen.push(far);
                    }
                }
            }
            next += 1;
        }
        let ports = seen[1..].iter().filter_map(|end| match end {
            EndSpec::Card(card, port) => Some((*card, *port)),
            EndSpec::Switch(..) | EndSpec::Outside(_) => None,
        });
        ports.collect()
    }

    /// Forwarding tables of all switches.
    pub fn routes(&self) -> Vec<SwitchRoutes> {
        routes::find(self)
    }
}
