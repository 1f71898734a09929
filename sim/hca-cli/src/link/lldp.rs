//! `hca link lldp`: who is at the other end of an Ethernet link, as it says itself (IEEE 802.1AB).

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use hca_verbs::{LinkLayer, LldpStatus};
use hca_wire::lldp::{self, Ets, Pfc, Tlv, Tlvs, selection};
use serde::Serialize;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Card, Which};

/// Options of `hca link lldp`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub which: Which,
    /// Have ports tell their neighbours who they are, or stop; all Ethernet ports unless one is named
    #[arg(long, value_enum, conflicts_with = "json")]
    pub tx: Option<Switch>,
    /// Print one JSON object per port
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// LLDP of a port.
#[derive(Serialize)]
pub struct Lldp {
    tx: bool,
    neighbour: Option<Neighbour>,
    sent: u32,
    received: u32,
    malformed: u32,
    aged_out: u32,
    replaced: u32,
}

/// Who is there.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Neighbour {
    chassis_id: String,
    port_id: String,
    ttl_s: u16,
    left_s: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    port_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_description: Option<String>,
    capabilities: Vec<&'static str>,
    enabled: Vec<&'static str>,
    management: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ets: Option<EtsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ets_recommendation: Option<EtsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pfc: Option<PfcView>,
    /// TLVs that are not shown.
    others: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct EtsView {
    willing: bool,
    classes: u8,
    prio_tc: [u8; 8],
    percent: [u8; 8],
    selection: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct PfcView {
    willing: bool,
    capability: u8,
    priorities: Vec<u8>,
}

impl Lldp {
    /// Asks about a port, if it is an Ethernet one.
    pub fn take(card: &Card, port: u8) -> Result<Option<Self>> {
        if card.link_status(port)?.link_layer != LinkLayer::Ethernet {
            return Ok(None);
        }
        Self::new(&card.lldp_status(port)?).map(Some)
    }

    fn new(status: &LldpStatus) -> Result<Self> {
        let neighbour = (!status.tlvs.is_empty()).then(|| Neighbour::read(&status.tlvs, status.left_s));
        Ok(Self {
            tx: status.tx,
            neighbour: neighbour.transpose()?,
            sent: status.sent,
            received: status.received,
            malformed: status.malformed,
            aged_out: status.aged_out,
            replaced: status.replaced,
        })
    }

    /// One line.
    pub fn summary(&self) -> String {
        match &self.neighbour {
            Some(n) => format!(
                "  neighbour {}, chassis {}, port {}, known for {} s more\n",
                n.system_name.as_deref().unwrap_or("without a name"),
                n.chassis_id,
                n.port_id,
                n.left_s
            ),
            None => "  neighbour: none heard\n".to_owned(),
        }
    }

    /// Everything.
    pub fn text(&self) -> String {
        let tx = if self.tx { "on" } else { "off" };
        let mut text = format!(
            "tx {tx}; sent {}, received {} ({} malformed), {} aged out, {} replaced\n{}",
            self.sent,
            self.received,
            self.malformed,
            self.aged_out,
            self.replaced,
            self.summary()
        );
        self.neighbour.iter().for_each(|n| n.add_to(&mut text));
        text
    }
}

impl Neighbour {
    /// Of TLVs that the card has checked.
    fn read(tlvs: &[u8], left_s: u32) -> Result<Self> {
        let head = lldp::check(tlvs).map_err(|error| anyhow::anyhow!("{error:?}"));
        let head = head.context("the card hands over an LLDPDU that is malformed")?;
        let mut found = Self {
            chassis_id: id(head.chassis_id, lldp::CHASSIS_MAC, 5),
            port_id: id(head.port_id, lldp::PORT_MAC, 4),
            ttl_s: head.ttl_s,
            left_s,
            ..Self::default()
        };
        Tlvs::of(tlvs).flatten().skip(3).for_each(|tlv| found.take(tlv));
        Ok(found)
    }

    fn take(&mut self, tlv: Tlv<'_>) {
        match (tlv.kind, tlv.of_8021()) {
            (lldp::PORT_DESCRIPTION, _) => self.port_description = Some(plain(tlv.value)),
            (lldp::SYSTEM_NAME, _) => self.system_name = Some(plain(tlv.value)),
            (lldp::SYSTEM_DESCRIPTION, _) => self.system_description = Some(plain(tlv.value)),
            (lldp::CAPABILITIES, _) if tlv.value.len() >= 4 => {
                let mask = |at: usize| u16::from_be_bytes([tlv.value[at], tlv.value[at + 1]]);
                (self.capabilities, self.enabled) = (capabilities(mask(0)), capabilities(mask(2)));
            }
            (lldp::MANAGEMENT_ADDRESS, _) => self.management.extend(management(tlv.value)),
            (_, Some((lldp::ETS_CONFIGURATION, bytes))) => self.ets = Ets::read(bytes).map(Into::into),
            (_, Some((lldp::ETS_RECOMMENDATION, bytes))) => {
                self.ets_recommendation = Ets::read(bytes).map(Into::into);
            }
            (_, Some((lldp::PFC_CONFIGURATION, bytes))) => self.pfc = Pfc::read(bytes).map(Into::into),
            _ => self.others += 1,
        }
    }

    fn add_to(&self, text: &mut String) {
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "    {name:20} {value}");
        };
        for (name, value) in [
            ("port description", &self.port_description),
            ("system name", &self.system_name),
            ("system description", &self.system_description),
        ] {
            value.iter().for_each(|value| line(name, value));
        }
        if !self.capabilities.is_empty() {
            let (can, does) = (self.capabilities.join(", "), self.enabled.join(", "));
            line("capabilities", &format!("{can}; enabled {does}"));
        }
        self.management
            .iter()
            .for_each(|at| line("management address", at));
        self.ets.iter().for_each(|ets| line("ETS", &ets.text()));
        let recommended = self.ets_recommendation.iter();
        recommended.for_each(|ets| line("ETS recommendation", &ets.text()));
        if let Some(pfc) = &self.pfc {
            let list: Vec<_> = pfc.priorities.iter().map(u8::to_string).collect();
            let list = if list.is_empty() {
                "none".to_owned()
            } else {
                list.join(",")
            };
            let text = format!("{list} of at most {}{}", pfc.capability, willing(pfc.willing));
            line("PFC", &text);
        }
        if self.others != 0 {
            line("other TLVs", &self.others.to_string());
        }
    }
}

fn willing(is_it: bool) -> &'static str {
    if is_it { "; willing" } else { "" }
}

impl EtsView {
    fn text(&self) -> String {
        let used = (0..8).filter(|class| self.prio_tc.contains(class));
        let shares = used.map(|class| match self.selection[usize::from(class)].as_str() {
            "ets" => format!("{class}:{}", self.percent[usize::from(class)]),
            other => format!("{class}:{other}"),
        });
        let shares: Vec<_> = shares.collect();
        let map = self.prio_tc.map(|class| class.to_string()).join(",");
        format!("map {map}, classes {}{}", shares.join(" "), willing(self.willing))
    }
}

impl From<Ets> for EtsView {
    fn from(ets: Ets) -> Self {
        let name = |code: u8| match code {
            selection::STRICT => "strict".to_owned(),
            1 => "credit-based".to_owned(),
            selection::ETS => "ets".to_owned(),
            255 => "vendor".to_owned(),
            _ => format!("selection {code}"),
        };
        Self {
            willing: ets.willing,
            classes: ets.classes,
            prio_tc: ets.prio_tc,
            percent: ets.percent,
            selection: ets.selection.map(name).to_vec(),
        }
    }
}

impl From<Pfc> for PfcView {
    fn from(pfc: Pfc) -> Self {
        Self {
            willing: pfc.willing,
            capability: pfc.capability,
            priorities: (0..8)
                .filter(|priority| pfc.enabled >> priority & 1 != 0)
                .collect(),
        }
    }
}

/// A stranger's text: nothing in it moves the cursor.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

fn colons(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

/// Of an address family (IANA).
fn address(family: u8, bytes: &[u8]) -> String {
    match (family, <[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (lldp::FAMILY_IPV4, Ok(ipv4), _) => Ipv4Addr::from(ipv4).to_string(),
        (lldp::FAMILY_IPV6, _, Ok(ipv6)) => Ipv6Addr::from(ipv6).to_string(),
        _ => colons(bytes),
    }
}

/// A Chassis ID or Port ID; `mac` and `network`: subtypes of those that are such addresses.
fn id(bytes: &[u8], mac: u8, network: u8) -> String {
    match bytes.split_first() {
        Some((kind, rest)) if *kind == mac => colons(rest),
        Some((kind, [family, rest @ ..])) if *kind == network => address(*family, rest),
        Some((_, rest)) => plain(rest),
        None => String::new(),
    }
}

/// The address of a management address TLV, if it is whole.
fn management(bytes: &[u8]) -> Option<String> {
    let (length, rest) = bytes.split_first()?;
    let (family, rest) = rest.get(..usize::from(*length))?.split_first()?;
    Some(address(*family, rest))
}

fn capabilities(mask: u16) -> Vec<&'static str> {
    const NAMES: [&str; 11] = [
        "other",
        "repeater",
        "bridge",
        "wlan-ap",
        "router",
        "telephone",
        "docsis",
        "station",
        "c-vlan",
        "s-vlan",
        "two-port-relay",
    ];
    let named = NAMES.iter().enumerate();
    named
        .filter(|(bit, _)| mask >> bit & 1 != 0)
        .map(|(_, name)| *name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[kind << 1 | (value.len() >> 8) as u8, value.len() as u8], value].concat()
    }

    /// A switch as they are sold, and a stranger who means harm to the terminal.
    #[test]
    fn a_neighbour_is_read() {
        let ets = [0x80, 0, 0, 1, 1, 50, 50, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0];
        let tlvs = [
            tlv(1, &[4, 0, 1, 2, 3, 4, 5]),
            tlv(2, b"\x05swp3"),
            tlv(3, &[0, 120]),
            tlv(5, b"leaf1\x1b[2J"),
            tlv(7, &[0, 0x14, 0, 4]),
            tlv(8, &[5, 1, 10, 0, 0, 1, 2, 0, 0, 0, 3, 0]),
            tlv(8, &[200, 1]),
            tlv(127, &[&[0, 0x80, 0xc2, 9][..], &ets].concat()),
            tlv(127, &[0, 0x80, 0xc2, 11, 0x08, 0x18]),
            tlv(127, &[0, 0x12, 0x0f, 1, 0]),
        ];
        let found = Neighbour::read(&tlvs.concat(), 77).unwrap();
        assert_eq!(
            (&*found.chassis_id, &*found.port_id),
            ("00:01:02:03:04:05", "swp3")
        );
        assert_eq!(found.system_name.as_deref(), Some("leaf1\\u{1b}[2J"));
        assert_eq!(
            (found.capabilities.join(","), found.enabled.join(",")),
            ("bridge,router".into(), "bridge".into())
        );
        assert_eq!((found.management.join(","), found.others), ("10.0.0.1".into(), 1));
        let ets = found.ets.as_ref().unwrap();
        assert_eq!(
            (ets.willing, ets.classes, ets.prio_tc),
            (true, 8, [0, 0, 0, 0, 0, 1, 0, 1])
        );
        assert_eq!(found.pfc.as_ref().unwrap().priorities, [3, 4]);
        let mut text = String::new();
        found.add_to(&mut text);
        for words in [
            "0:50 1:50; willing",
            "3,4 of at most 8",
            "10.0.0.1",
            "other TLVs           1",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
