//! From what the file says to a network: names resolved, gaps filled, limits checked.

use hca_fw_core::{MAX_PARTS, Quotas};
use hca_host::{PcieModel, PcieParams};
use hca_link::{CableConfig, FaultSpec, LinkKind};
use hca_outside::WireConfig;
use hca_switch::{MLID_MIN, is_multicast};
use serde::Deserialize as _;

use crate::file::{self, File, Problem};
use crate::names::Names;
use crate::plugs::Plugs;
use crate::{
    CARD_FUNCTIONS_MAX, CARD_PORTS_MAX, CARDS_MAX, CardSpec, EndSpec, GroupSpec, LinkSpec, PortSpec,
    SWITCHES_MAX, SwitchSpec, Topology,
};
use crate::{outside, switch};

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
    let (links, peers) = links(&file, &names, &cards, &mut switches, cycle_ps)?;
    for link in &links {
        for end in link.ends {
            if let EndSpec::Card(card, port) = end {
                cards[card].ports[usize::from(port) - 1].kind = link.cable.kind;
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
    let mut topology = Topology {
        seed: file.seed,
        groups: groups(&file, &names)?,
        cards,
        switches,
        links,
        peers,
        algorithm: file.routing.algorithm,
        root,
    };
    if file.sm == file::Manager::External {
        topology.wait_for_manager();
    }
    Ok(topology)
}

fn cards(file: &File, names: &Names) -> Result<Vec<CardSpec>, Problem> {
    let mut cards = Vec::new();
    for (index, (raw, name)) in file.card.iter().zip(&names.cards).enumerate() {
        let place = format!("card {name}");
        let count = raw.ports.unwrap_or_else(|| names.highest_port(file, index));
        range(&place, "ports", count, 1, CARD_PORTS_MAX)?;
        let kinds = vec![LinkKind::InfiniBand; count.into()];
        let mut card = CardSpec::new(index, &kinds);
        card.name.clone_from(name);
        for (spec, raw) in card.ports.iter_mut().zip(addresses(raw)) {
            set_addresses(spec, &raw, &place)?;
        }
        card.pcie = pcie(&place, &file.pcie, &raw.pcie)?;
        card.is_model = raw.model;
        set_shares(&mut card, raw, &place)?;
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

/// Functions that the card's tables are divided among, and how.
fn set_shares(card: &mut CardSpec, raw: &file::Card, place: &str) -> Result<(), Problem> {
    let Some(shares) = &raw.shares else {
        card.functions = raw.functions.unwrap_or(card.functions);
        return range(place, "functions", card.functions, 1, CARD_FUNCTIONS_MAX);
    };
    let count = shares.len();
    if raw
        .functions
        .is_some_and(|functions| usize::from(functions) != count)
    {
        return Err(problem(
            place,
            format!("shares are of {count} functions: leave 'functions' away"),
        ));
    }
    if Quotas::of_parts(shares).is_none() || shares.contains(&0) {
        let what = format!(
            "shares is {shares:?}: give each of 1 to {CARD_FUNCTIONS_MAX} functions 1 or more, {MAX_PARTS} together at \
             most"
        );
        return Err(problem(place, what));
    }
    card.functions = count as u8;
    card.shares.clone_from(shares);
    Ok(())
}

/// What the file says of each port's addresses.
fn addresses(card: &file::Card) -> [file::SecondPort; 2] {
    let first = file::SecondPort {
        lid: card.lid,
        lmc: card.lmc,
        guid: card.guid.clone(),
        mac: card.mac.clone(),
        ipv4: card.ipv4.clone(),
        ipv6: card.ipv6.clone(),
    };
    [first, card.second.clone()]
}

/// All but the LID, which depends on the others'.
fn set_addresses(spec: &mut PortSpec, raw: &file::SecondPort, place: &str) -> Result<(), Problem> {
    range(place, "lmc", raw.lmc, 0, 7)?;
    spec.lid = 0;
    spec.lmc = raw.lmc;
    let bad =
        |key, text: &str, example| problem(place, format!("{key} '{text}' is no address such as {example}"));
    if let Some(text) = &raw.ipv4 {
        let ipv4 = text
            .parse::<std::net::Ipv4Addr>()
            .map_err(|_| bad("ipv4", text, "10.0.0.1"))?;
        spec.set_ipv4(ipv4.octets());
    }
    if let Some(text) = &raw.ipv6 {
        let ipv6 = text
            .parse::<std::net::Ipv6Addr>()
            .map_err(|_| bad("ipv6", text, "fd00::1"))?;
        spec.ipv6 = ipv6.octets();
    }
    if let Some(text) = &raw.mac {
        spec.set_mac(hex_bytes(text).ok_or_else(|| bad("mac", text, "02:00:0a:00:00:01"))?);
    }
    if let Some(text) = &raw.guid {
        spec.guid = hex_bytes(text).ok_or_else(|| bad("guid", text, "00:00:0a:ff:fe:00:00:01"))?;
    }
    Ok(())
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

/// LIDs: those of the file; else, for a first port, number and 1 where that is free; and behind all others.
fn lids(file: &File, cards: &mut [CardSpec]) -> Result<(), Problem> {
    let count = cards.len();
    let wanted = file.card.iter().map(addresses);
    let wanted: Vec<_> = wanted.map(|ports| ports.map(|port| port.lid)).collect();
    let mut ports: Vec<(usize, usize, &mut PortSpec)> = Vec::new();
    for (index, card) in cards.iter_mut().enumerate() {
        for (port, spec) in card.ports.iter_mut().enumerate() {
            ports.push((index, port, spec));
        }
    }
    // Who has a LID, as a place among the ports.
    let mut taken = vec![None; usize::from(MLID_MIN)];
    for at in 0..ports.len() {
        if let Some(lid) = wanted[ports[at].0][ports[at].1] {
            take_lid(file, &mut ports, &mut taken, at, lid)?;
        }
    }
    let last = taken.iter().rposition(Option::is_some).unwrap_or(0);
    let mut next = last.max(count) as u16 + 1;
    // Numbers first: they are those that people know.
    for firsts in [true, false] {
        for at in 0..ports.len() {
            let (card, port, spec) = &ports[at];
            if spec.lid != 0 || (*port == 0) != firsts {
                continue;
            }
            let (own, lmc) = (*card as u16 + 1, spec.lmc);
            if firsts && lmc == 0 && taken[usize::from(own)].is_none() {
                take_lid(file, &mut ports, &mut taken, at, own)?;
            } else {
                let lid = next.next_multiple_of(1 << lmc);
                take_lid(file, &mut ports, &mut taken, at, lid)?;
                next = lid + (1 << lmc);
            }
        }
    }
    Ok(())
}

fn take_lid(
    file: &File,
    ports: &mut [(usize, usize, &mut PortSpec)],
    taken: &mut [Option<usize>],
    at: usize,
    lid: u16,
) -> Result<(), Problem> {
    let name = |(card, port, _): &(usize, usize, &mut PortSpec)| {
        let name = file.card[*card].name.clone();
        let name = name.unwrap_or_else(|| format!("card{card}"));
        if *port == 0 {
            name
        } else {
            format!("{name}:{}", port + 1)
        }
    };
    let lmc = ports[at].2.lmc;
    let count = 1u16 << lmc;
    let place = format!("card {}", name(&ports[at]));
    range(&place, "lid", lid, 1, MLID_MIN - count)?;
    if !lid.is_multiple_of(count) {
        let what = format!("lid {lid} must be a multiple of {count}, as lmc is {lmc}");
        return Err(problem(place, what));
    }
    for lid in lid..lid + count {
        if let Some(other) = taken[usize::from(lid)].replace(at) {
            let what = format!("lid {lid} is that of {} already", name(&ports[other]));
            return Err(problem(place, what));
        }
    }
    ports[at].2.lid = lid;
    Ok(())
}

fn unique_addresses(cards: &[CardSpec]) -> Result<(), Problem> {
    let mut seen: Vec<(&str, &PortSpec)> = Vec::new();
    for card in cards {
        for port in &card.ports {
            for (name, other) in &seen {
                let same = [
                    ("mac", port.mac == other.mac),
                    ("ipv4", port.ipv4 == other.ipv4),
                    ("ipv6", port.ipv6 == other.ipv6),
                    ("guid", port.guid == other.guid),
                ];
                if let Some((key, _)) = same.iter().find(|(_, same)| *same) {
                    let what = format!("{key} is that of {name} already");
                    return Err(problem(format!("card {}", card.name), what));
                }
            }
            seen.push((&card.name, port));
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
    cards: &[CardSpec],
    switches: &mut [SwitchSpec],
    cycle_ps: u64,
) -> Result<(Vec<LinkSpec>, Vec<WireConfig>), Problem> {
    let mut plugs = Plugs::new(file, names, cards);
    let mut links: Vec<LinkSpec> = Vec::new();
    let mut peers = Vec::new();
    for (index, raw) in file.link.iter().enumerate() {
        let place = format!("link {index} ({} to {})", raw.ends[0], raw.ends[1]);
        let [a, b] = &raw.ends;
        let ends = match outside::of_link(raw, &place)? {
            Some((card, peer)) => {
                peers.push(peer);
                [plugs.take(card, &place, None)?, EndSpec::Outside(peers.len() - 1)]
            }
            None => {
                let first = plugs.take(a, &place, None)?;
                [first, plugs.take(b, &place, Some(first))?]
            }
        };
        let name = raw.name.clone().unwrap_or_else(|| format!("link{index}"));
        if links.iter().any(|link| link.cable.name == name) {
            return Err(problem(place, format!("another link has the name {name}")));
        }
        let cable = cable(file, raw, &name, &place, cycle_ps)?;
        outside::check_ends(ends, cable.kind, &place)?;
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
    Ok((links, peers))
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
            let (end, port) = names.resolve(name);
            let port = port.unwrap_or(1);
            match end {
                Some(EndSpec::Card(card, _)) if !members.contains(&(card, port)) => {
                    members.push((card, port))
                }
                Some(EndSpec::Card(..)) => {
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
