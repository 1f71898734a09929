//! From what the file says to a network: names resolved, gaps filled, limits checked.

use std::collections::BTreeMap;

use hca_host::{PcieModel, PcieParams};
use hca_link::{CableConfig, FaultSpec, LinkKind};
use hca_switch::{MLID_MIN, PORTS_MAX, is_multicast};
use serde::Deserialize as _;

use crate::file::{self, File, Problem};
use crate::switch;
use crate::{CARDS_MAX, CardSpec, EndSpec, GroupSpec, LinkSpec, SWITCHES_MAX, SwitchSpec, Topology};

pub(crate) fn problem(place: impl Into<String>, what: impl std::fmt::Display) -> Problem {
    (place.into(), what.to_string())
}

pub(crate) fn range<T: PartialOrd + std::fmt::Display>(
    place: &str,
    key: &str,
    found: T,
    low: T,
    high: T,
) -> Result<(), Problem> {
    if found >= low && found <= high {
        return Ok(());
    }
    Err(problem(
        place,
        format!("{key} is {found}, it must be {low} to {high}"),
    ))
}

/// The network that a file describes.
pub(crate) fn check(file: File) -> Result<Topology, Problem> {
    range("file", "number of cards", file.card.len(), 1, CARDS_MAX)?;
    range("file", "number of switches", file.switch.len(), 0, SWITCHES_MAX)?;
    let names = Names::new(&file)?;
    let mut cards = cards(&file, &names)?;
    let cycle_ps = 1_000_000 / u64::from(cards[0].pcie.clock_mhz);
    let mut switches = Vec::new();
    for (index, raw) in file.switch.iter().enumerate() {
        switches.push(switch::read(
            raw,
            &names.switches[index],
            file.defaults.kind,
            cycle_ps,
        )?);
    }
    let links = links(&file, &names, &mut switches, cycle_ps)?;
    for link in &links {
        for end in link.ends {
            if let EndSpec::Card(card) = end {
                cards[card].kind = link.cable.kind;
            }
        }
    }
    for (raw, switch) in file.switch.iter().zip(&mut switches) {
        switch::tables(raw, switch)?;
    }
    let root = match &file.routing.root {
        None => 0,
        Some(name) => match names.find(name) {
            Some(EndSpec::Switch(index, _)) => index,
            _ => return Err(problem("[routing]", format!("root '{name}' is no switch"))),
        },
    };
    Ok(Topology {
        seed: file.seed,
        groups: groups(&file, &names)?,
        cards,
        switches,
        links,
        algorithm: file.routing.algorithm,
        root,
    })
}

/// Names of all cards and switches.
struct Names {
    cards: Vec<String>,
    switches: Vec<String>,
    by_name: BTreeMap<String, EndSpec>,
}

impl Names {
    fn new(file: &File) -> Result<Self, Problem> {
        let given = |name: &Option<String>, kind: &str, index: usize| {
            name.clone().unwrap_or_else(|| format!("{kind}{index}"))
        };
        let cards = file.card.iter().enumerate();
        let cards: Vec<_> = cards
            .map(|(index, card)| given(&card.name, "card", index))
            .collect();
        let switches = file.switch.iter().enumerate();
        let switches: Vec<_> = switches
            .map(|(index, switch)| given(&switch.name, "switch", index))
            .collect();
        let mut by_name = BTreeMap::new();
        let ends = (0..).map(EndSpec::Card).zip(&cards);
        let ends = ends.chain((0..).map(|index| EndSpec::Switch(index, 0)).zip(&switches));
        for (end, name) in ends {
            let good = !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
            if !good {
                let what = "a name has letters, digits, '_', '-' and '.'";
                return Err(problem(format!("name '{name}'"), what));
            }
            if by_name.insert(name.clone(), end).is_some() {
                let what = "two cards or switches have it; names are unique";
                return Err(problem(format!("name '{name}'"), what));
            }
        }
        Ok(Self {
            cards,
            switches,
            by_name,
        })
    }

    fn find(&self, name: &str) -> Option<EndSpec> {
        self.by_name.get(name).copied()
    }
}

fn cards(file: &File, names: &Names) -> Result<Vec<CardSpec>, Problem> {
    let mut cards = Vec::new();
    for (index, (raw, name)) in file.card.iter().zip(&names.cards).enumerate() {
        let place = format!("card {name}");
        range(&place, "lmc", raw.lmc, 0, 7)?;
        let mut card = CardSpec::new(index, LinkKind::InfiniBand);
        card.name.clone_from(name);
        card.lid = 0;
        card.lmc = raw.lmc;
        let bad = |key, text: &str, example| {
            problem(&place, format!("{key} '{text}' is no address such as {example}"))
        };
        if let Some(text) = &raw.ipv4 {
            let ipv4 = text
                .parse::<std::net::Ipv4Addr>()
                .map_err(|_| bad("ipv4", text, "10.0.0.1"))?;
            card.set_ipv4(ipv4.octets());
        }
        if let Some(text) = &raw.mac {
            card.set_mac(hex_bytes(text).ok_or_else(|| bad("mac", text, "02:00:0a:00:00:01"))?);
        }
        if let Some(text) = &raw.guid {
            card.guid = hex_bytes(text).ok_or_else(|| bad("guid", text, "02:00:0a:ff:fe:00:00:01"))?;
        }
        card.pcie = pcie(&place, &file.pcie, &raw.pcie)?;
        cards.push(card);
    }
    if let Some(other) = cards
        .iter()
        .find(|card| card.pcie.clock_mhz != cards[0].pcie.clock_mhz)
    {
        let what = format!(
            "clock_mhz is {}, that of {} is {}: all cards share one clock",
            other.pcie.clock_mhz, cards[0].name, cards[0].pcie.clock_mhz
        );
        return Err(problem(format!("card {}", other.name), what));
    }
    lids(file, &mut cards)?;
    unique_addresses(&cards)?;
    Ok(cards)
}

/// Parameters of the file with those of the card on top.
fn pcie(place: &str, common: &toml::Table, own: &toml::Table) -> Result<PcieParams, Problem> {
    let mut table = common.clone();
    table.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    let params = PcieParams::deserialize(table)
        .map_err(|error| problem(place, format!("pcie: {}", error.message().replace('\n', " "))))?;
    // The model itself knows what it can simulate.
    PcieModel::new(params.clone(), 0).map_err(|error| problem(place, error))?;
    Ok(params)
}

/// LIDs: those of the file; else number and 1 where that is free, and behind all others where it is not.
fn lids(file: &File, cards: &mut [CardSpec]) -> Result<(), Problem> {
    let mut taken = vec![None; usize::from(MLID_MIN)];
    let mut take = |cards: &mut [CardSpec], index: usize, lid: u16| -> Result<(), Problem> {
        let count = 1u16 << cards[index].lmc;
        let place = format!("card {}", cards[index].name);
        range(&place, "lid", lid, 1, MLID_MIN - count)?;
        if !lid.is_multiple_of(count) {
            let what = format!(
                "lid {lid} must be a multiple of {count}, as lmc is {}",
                cards[index].lmc
            );
            return Err(problem(place, what));
        }
        for lid in lid..lid + count {
            if let Some(other) = taken[usize::from(lid)].replace(index) {
                return Err(problem(
                    place,
                    format!("lid {lid} is that of {} already", cards[other].name),
                ));
            }
        }
        cards[index].lid = lid;
        Ok(())
    };
    for (index, raw) in file.card.iter().enumerate() {
        if let Some(lid) = raw.lid {
            take(cards, index, lid)?;
        }
    }
    let used: Vec<_> = cards
        .iter()
        .filter(|card| card.lid != 0)
        .flat_map(CardSpec::lids)
        .collect();
    let behind = used.iter().max().copied().unwrap_or(0).max(cards.len() as u16);
    let mut next = behind + 1;
    for index in 0..cards.len() {
        if cards[index].lid != 0 {
            continue;
        }
        let own = index as u16 + 1;
        if cards[index].lmc == 0 && !used.contains(&own) {
            take(cards, index, own)?;
        } else {
            let lid = next.next_multiple_of(1 << cards[index].lmc);
            take(cards, index, lid)?;
            next = lid + (1 << cards[index].lmc);
        }
    }
    Ok(())
}

fn unique_addresses(cards: &[CardSpec]) -> Result<(), Problem> {
    for (index, card) in cards.iter().enumerate() {
        for other in &cards[..index] {
            let same = [
                ("mac", card.mac == other.mac),
                ("ipv4", card.ipv4 == other.ipv4),
                ("guid", card.guid == other.guid),
            ];
            if let Some((key, _)) = same.iter().find(|(_, same)| *same) {
                let what = format!("{key} is that of {} already", other.name);
                return Err(problem(format!("card {}", card.name), what));
            }
        }
    }
    Ok(())
}

/// Bytes in hex, with or without ':' between.
fn hex_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: String = text
        .trim_start_matches("0x")
        .chars()
        .filter(|c| *c != ':')
        .collect();
    if digits.len() != 2 * N || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

fn links(
    file: &File,
    names: &Names,
    switches: &mut [SwitchSpec],
    cycle_ps: u64,
) -> Result<Vec<LinkSpec>, Problem> {
    let mut plugs = Plugs::new(file, names)?;
    let mut links: Vec<LinkSpec> = Vec::new();
    for (index, raw) in file.link.iter().enumerate() {
        let place = format!("link {index} ({} to {})", raw.ends[0], raw.ends[1]);
        let [a, b] = &raw.ends;
        let first = plugs.take(a, &place, None)?;
        let ends = [first, plugs.take(b, &place, Some(first))?];
        let name = raw.name.clone().unwrap_or_else(|| format!("link{index}"));
        if links.iter().any(|link| link.cable.name == name) {
            return Err(problem(place, format!("another link has the name {name}")));
        }
        let cable = cable(file, raw, &name, &place, cycle_ps)?;
        for end in ends {
            if let EndSpec::Switch(switch, _) = end
                && switches[switch].kind() != cable.kind
            {
                let what = format!("the link and switch {} differ in kind", switches[switch].name());
                return Err(problem(place, what));
            }
        }
        links.push(LinkSpec { ends, cable });
    }
    for (index, switch) in switches.iter_mut().enumerate() {
        if file.switch[index].ports.is_none() {
            let ports = plugs.highest(index).max(switch::DEFAULT_PORTS);
            match switch {
                SwitchSpec::InfiniBand(switch) => switch.config.ports = ports,
                SwitchSpec::Ethernet(config) => config.ports = ports,
            }
        }
    }
    Ok(links)
}

fn cable(
    file: &File,
    raw: &file::Link,
    name: &str,
    place: &str,
    cycle_ps: u64,
) -> Result<CableConfig, Problem> {
    let rate_gbps = raw.rate_gbps.unwrap_or(file.defaults.rate_gbps);
    range(place, "rate_gbps", rate_gbps, 0.001, 10_000.0)?;
    let faults = raw.faults.as_ref().unwrap_or(&file.defaults.faults);
    let faults: FaultSpec = faults.parse().map_err(|error| problem(place, error))?;
    let cable = CableConfig {
        rate_bits_per_s: (rate_gbps * 1e9).round() as u64,
        latency_ns: raw.latency_ns.unwrap_or(file.defaults.latency_ns),
        cycle_ps,
        faults,
        ..CableConfig::new(name, raw.kind.unwrap_or(file.defaults.kind).into())
    };
    cable.check().map_err(|error| problem(place, error))?;
    Ok(cable)
}

/// Ports that have a link.
struct Plugs<'a> {
    names: &'a Names,
    card_taken: Vec<bool>,
    /// Ports of each switch that are taken or that some link names, a bit each.
    taken: Vec<u64>,
    named: Vec<u64>,
    limit: Vec<u8>,
}

impl<'a> Plugs<'a> {
    fn new(file: &File, names: &'a Names) -> Result<Self, Problem> {
        let count = names.switches.len();
        let mut plugs = Self {
            names,
            card_taken: vec![false; names.cards.len()],
            taken: vec![0; count],
            named: vec![0; count],
            limit: file
                .switch
                .iter()
                .map(|switch| switch.ports.unwrap_or(PORTS_MAX))
                .collect(),
        };
        // Ports that are named anywhere are not given to links that leave the choice.
        for link in &file.link {
            for end in &link.ends {
                if let (Some(EndSpec::Switch(switch, _)), Some(port)) = plugs.resolve(end)
                    && port < 64
                {
                    plugs.named[switch] |= 1 << port;
                }
            }
        }
        Ok(plugs)
    }

    /// Card or switch, and the port if it is named.
    fn resolve(&self, text: &str) -> (Option<EndSpec>, Option<u8>) {
        match text.rsplit_once(':') {
            Some((name, port)) => (self.names.find(name), port.parse().ok()),
            None => (self.names.find(text), None),
        }
    }

    /// Plugs a link's end in.
    fn take(&mut self, text: &str, place: &str, first: Option<EndSpec>) -> Result<EndSpec, Problem> {
        let bad = |what: String| problem(place, format!("end '{text}': {what}"));
        let (end, port) = self.resolve(text);
        if text.contains(':') && port.is_none() {
            return Err(bad("behind ':' there must be the number of a port".to_owned()));
        }
        match end {
            None => Err(bad("no card or switch has this name".to_owned())),
            Some(EndSpec::Card(card)) => {
                if port.is_some_and(|port| port != 1) {
                    return Err(bad("a card has port 1 only".to_owned()));
                }
                let loopback = first == Some(EndSpec::Card(card));
                if std::mem::replace(&mut self.card_taken[card], true) && !loopback {
                    return Err(bad("the card has a link already".to_owned()));
                }
                Ok(EndSpec::Card(card))
            }
            Some(EndSpec::Switch(switch, _)) => {
                let limit = self.limit[switch];
                let busy = self.taken[switch] | self.named[switch];
                let port = match port {
                    Some(port) => port,
                    None => (1..=limit)
                        .find(|port| busy >> port & 1 == 0)
                        .ok_or_else(|| bad(format!("all {limit} ports have a link")))?,
                };
                if !(1..=limit).contains(&port) {
                    return Err(bad(format!("the switch has ports 1 to {limit}")));
                }
                if self.taken[switch] >> port & 1 == 1 {
                    return Err(bad("the port has a link already".to_owned()));
                }
                self.taken[switch] |= 1 << port;
                Ok(EndSpec::Switch(switch, port))
            }
        }
    }

    fn highest(&self, switch: usize) -> u8 {
        (63 - self.taken[switch].max(1).leading_zeros()) as u8
    }
}

fn groups(file: &File, names: &Names) -> Result<Vec<GroupSpec>, Problem> {
    let mut groups: Vec<GroupSpec> = Vec::new();
    for raw in &file.multicast {
        let place = format!("multicast group {:#06x}", raw.mlid);
        if !is_multicast(raw.mlid) {
            return Err(problem(place, "mlid must be 0xc000 to 0xfffe"));
        }
        if groups.iter().any(|group| group.mlid == raw.mlid) {
            return Err(problem(place, "the mlid is given twice"));
        }
        let mut members = Vec::new();
        for name in &raw.members {
            match names.find(name) {
                Some(EndSpec::Card(card)) if !members.contains(&card) => members.push(card),
                Some(EndSpec::Card(_)) => {
                    return Err(problem(place, format!("member '{name}' is given twice")));
                }
                _ => return Err(problem(place, format!("member '{name}' is no card"))),
            }
        }
        groups.push(GroupSpec {
            mlid: raw.mlid,
            members,
        });
    }
    Ok(groups)
}
