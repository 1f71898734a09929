//! The file as it is written.

use hca_link::LinkKind;
use hca_switch::{Policy, VlWeight};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Place in the file, and what is wrong there.
pub(crate) type Problem = (String, String);

/// How routes are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Over the fewest links; of several such ways the one by the lowest port, other ones for the further LIDs of a
    /// card.
    #[default]
    Shortest,
    /// Up a tree and down again, never up after down: cannot deadlock.
    UpDown,
    /// Only the routes in the file.
    Explicit,
}

/// Kind of a link or switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    #[default]
    #[serde(alias = "ib")]
    InfiniBand,
    #[serde(alias = "eth")]
    Ethernet,
}

impl From<Kind> for LinkKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::InfiniBand => Self::InfiniBand,
            Kind::Ethernet => Self::Ethernet,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    pub seed: Option<u64>,
    /// Who sets InfiniBand ports up: `simulator` or `external`.
    pub sm: Manager,
    pub pcie: toml::Table,
    pub defaults: Defaults,
    pub routing: Routing,
    pub card: Vec<Card>,
    pub switch: Vec<Switch>,
    pub link: Vec<Link>,
    pub multicast: Vec<Multicast>,
}

/// Who sets InfiniBand ports up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Manager {
    #[default]
    Simulator,
    External,
}

/// What links and switches have that say nothing else.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Defaults {
    pub kind: Kind,
    pub rate_gbps: f64,
    pub latency_ns: u64,
    pub faults: String,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            kind: Kind::InfiniBand,
            rate_gbps: 100.0,
            latency_ns: 100,
            faults: String::new(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Routing {
    pub algorithm: Algorithm,
    pub root: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Card {
    pub name: Option<String>,
    pub lid: Option<u16>,
    pub lmc: u8,
    pub guid: Option<String>,
    pub mac: Option<String>,
    pub ipv4: Option<String>,
    pub ipv6: Option<String>,
    pub pcie: toml::Table,
    pub functions: Option<u8>,
    pub shares: Option<Vec<u8>>,
    /// It has no gates.
    pub model: bool,
    pub ports: Option<u8>,
    /// Addresses of the second port.
    pub second: SecondPort,
}

/// What the keys of a card say of its first port.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SecondPort {
    pub lid: Option<u16>,
    pub lmc: u8,
    pub guid: Option<String>,
    pub mac: Option<String>,
    pub ipv4: Option<String>,
    pub ipv6: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Switch {
    pub name: Option<String>,
    pub kind: Option<Kind>,
    pub ports: Option<u8>,
    pub vls: Option<u8>,
    pub mtu: Option<u32>,
    pub buffer_bytes: Option<u32>,
    pub latency_ns: Option<u64>,
    pub hoq_life_ns: Option<u64>,
    pub fcp_max_cycles: Option<u64>,
    pub queue_bytes: Option<u32>,
    pub pfc: Option<Pfc>,
    pub trust: Option<Trust>,
    pub lldp: Option<bool>,
    pub dscp: BTreeMap<String, u8>,
    pub ecn: Option<Ecn>,
    pub weights: Option<[u8; 8]>,
    pub arbitration: Option<Arbitration>,
    pub routes: Vec<Route>,
    pub sl2vl: Vec<SlTable>,
}

impl Switch {
    /// The keys given of those that only one kind of switch has.
    pub fn keys_of(&self, kind: Kind) -> impl Iterator<Item = &'static str> {
        let keys = match kind {
            Kind::InfiniBand => vec![
                ("vls", self.vls.is_some()),
                ("mtu", self.mtu.is_some()),
                ("buffer_bytes", self.buffer_bytes.is_some()),
                ("hoq_life_ns", self.hoq_life_ns.is_some()),
                ("fcp_max_cycles", self.fcp_max_cycles.is_some()),
                ("arbitration", self.arbitration.is_some()),
                ("routes", !self.routes.is_empty()),
                ("sl2vl", !self.sl2vl.is_empty()),
            ],
            Kind::Ethernet => vec![
                ("queue_bytes", self.queue_bytes.is_some()),
                ("pfc", self.pfc.is_some()),
                ("trust", self.trust.is_some()),
                ("lldp", self.lldp.is_some()),
                ("dscp", !self.dscp.is_empty()),
                ("ecn", self.ecn.is_some()),
                ("weights", self.weights.is_some()),
            ],
        };
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }
}

/// Where an Ethernet switch reads the priority of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Trust {
    Dscp,
    Pcp,
}

/// Priority flow control; thresholds that are missing keep the switch's default.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pfc {
    pub priorities: Vec<u8>,
    pub xoff_bytes: Option<u32>,
    pub xon_bytes: Option<u32>,
    pub headroom_bytes: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ecn {
    pub min_bytes: u32,
    pub max_bytes: u32,
    pub probability: f64,
}

/// Keys that are missing keep the value of the switch's default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Arbitration {
    pub high: Option<Vec<VlWeight>>,
    pub low: Option<Vec<VlWeight>>,
    pub limit: Option<u8>,
    pub policy: Option<Policy>,
    /// The same for one port.
    pub port: Vec<PortArbitration>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortArbitration {
    pub number: u8,
    pub high: Option<Vec<VlWeight>>,
    pub low: Option<Vec<VlWeight>>,
    pub limit: Option<u8>,
    pub policy: Option<Policy>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    pub lid: u16,
    pub port: u8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlTable {
    pub from: u8,
    pub to: u8,
    pub vls: Vec<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    pub ends: [String; 2],
    pub name: Option<String>,
    pub kind: Option<Kind>,
    pub rate_gbps: Option<f64>,
    pub latency_ns: Option<u64>,
    pub faults: Option<String>,
    /// Of a link to the outside: `IP,MAC`, and `IP/BITS`.
    #[serde(default)]
    pub neighbours: Vec<String>,
    #[serde(default)]
    pub gateways: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Multicast {
    pub mlid: u16,
    pub members: Vec<String>,
}

/// Reads the text; what TOML or a key's type forbids is named by its line.
pub(crate) fn parse(text: &str) -> Result<File, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let place = line.map_or_else(|| "text".to_owned(), |line| format!("line {line}"));
        (place, error.message().replace('\n', " "))
    })
}
