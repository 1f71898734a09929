//! Links that leave the simulator.

use std::str::FromStr;

use hca_link::{CableConfig, LinkKind};
use hca_outside::{PeerAddress, WireConfig};

use crate::check::problem;
use crate::file::{self, Problem};
use crate::{EndSpec, LinkSpec, Topology};

/// The card's end of a link that leads outside, and what is at the other.
pub(crate) fn of_link<'a>(
    raw: &'a file::Link,
    place: &str,
) -> Result<Option<(&'a str, WireConfig)>, Problem> {
    let [a, b] = &raw.ends;
    let (inner, outer) = match (PeerAddress::is_meant_by(a), PeerAddress::is_meant_by(b)) {
        (false, false) if raw.neighbours.is_empty() && raw.gateways.is_empty() => return Ok(None),
        (false, false) => {
            let what = "only a link to the outside has neighbours and gateways";
            return Err(problem(place, what));
        }
        (false, true) => (a, b),
        (true, false) => (b, a),
        (true, true) => return Err(problem(place, "both ends are outside; one must be a card")),
    };
    let address = outer.parse().map_err(|error| problem(place, error))?;
    let peer = WireConfig {
        address,
        neighbours: parsed(&raw.neighbours, place)?,
        gateways: parsed(&raw.gateways, place)?,
    };
    Ok(Some((inner, peer)))
}

fn parsed<T: FromStr<Err = String>>(texts: &[String], place: &str) -> Result<Vec<T>, Problem> {
    let all = texts.iter().map(|text| text.parse());
    all.collect::<Result<_, _>>()
        .map_err(|error| problem(place, error))
}

/// Only an Ethernet port of a card has a wire to the outside.
pub(crate) fn check_ends(ends: [EndSpec; 2], kind: LinkKind, place: &str) -> Result<(), Problem> {
    if !matches!(ends[1], EndSpec::Outside(_)) {
        return Ok(());
    }
    if !matches!(ends[0], EndSpec::Card(..)) {
        return Err(problem(
            place,
            "only a card's port has a wire to the outside; a switch has none",
        ));
    }
    if kind != LinkKind::Ethernet {
        let what = "a wire to the outside is Ethernet, this link InfiniBand; write kind = \"eth\"";
        return Err(problem(place, what));
    }
    Ok(())
}

impl Topology {
    /// The port that a text names: a card, `CARD.PORT` or `CARD:PORT`; a card alone is its first port.
    pub fn find_port(&self, text: &str) -> Result<(usize, u8), String> {
        let named = |name: &str| self.cards.iter().position(|card| card.name == name);
        let split = || text.rsplit_once(['.', ':']);
        let (card, port) = match (named(text), split()) {
            (Some(card), _) => (Some(card), Ok(1)),
            (None, Some((name, port))) => (named(name), port.parse::<u8>()),
            (None, None) => (None, Ok(1)),
        };
        let names = || {
            self.cards
                .iter()
                .map(|card| &*card.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let card = card.ok_or_else(|| format!("'{text}' is no port of a card; the cards are {}", names()))?;
        let count = self.cards[card].ports.len() as u8;
        match port {
            Ok(port) if (1..=count).contains(&port) => Ok((card, port)),
            _ => Err(format!(
                "'{text}': card {} has ports 1 to {count}",
                self.cards[card].name
            )),
        }
    }

    /// What is at the other end of a port's wire to the outside; the port is named as in [`Topology::find_port`].
    pub fn peer_of(&mut self, text: &str) -> Result<&mut WireConfig, String> {
        let (card, port) = self.find_port(text)?;
        let peer = self.links.iter().find_map(|link| match link.ends {
            [inner, EndSpec::Outside(peer)] if inner == EndSpec::Card(card, port) => Some(peer),
            _ => None,
        });
        let none = || format!("port {text} has no wire to the outside; give it one with --peer {text}=PATH");
        peer.and_then(|peer| self.peers.get_mut(peer)).ok_or_else(none)
    }

    /// Leads the cable of a card's port to a peer outside. The card at its other end gets a loopback plug; a port
    /// without a cable gets one like `spare`.
    pub fn lead_outside(
        &mut self,
        card: usize,
        port: u8,
        peer: WireConfig,
        spare: &CableConfig,
    ) -> Result<(), String> {
        let inner = EndSpec::Card(card, port);
        let ends = [inner, EndSpec::Outside(self.peers.len())];
        let name = self.end_name(inner);
        let renamed = |name: String, cable: &CableConfig| CableConfig {
            name,
            ..cable.clone()
        };
        match self.links.iter().position(|link| link.ends.contains(&inner)) {
            None => {
                let cable = renamed(format!("wire-{name}"), spare);
                self.cards[card].ports[usize::from(port) - 1].kind = cable.kind;
                self.links.push(LinkSpec { ends, cable });
            }
            Some(at) => {
                let LinkSpec { ends: old, cable } = self.links[at].clone();
                if cable.kind != LinkKind::Ethernet {
                    return Err(format!(
                        "port {name} is InfiniBand, and wires to the outside are Ethernet: give it --link eth, or \
                         kind = \"eth\" in the file"
                    ));
                }
                match old.into_iter().find(|end| *end != inner) {
                    Some(EndSpec::Outside(_)) => {
                        return Err(format!("port {name} has a wire to the outside already"));
                    }
                    Some(end @ EndSpec::Switch(..)) => {
                        let end = self.end_name(end);
                        return Err(format!("port {name} has a cable to {end}; leave that link out"));
                    }
                    Some(alone) => {
                        let cable = renamed(format!("loopback-{}", self.end_name(alone)), &cable);
                        let ends = [alone; 2];
                        self.links.push(LinkSpec { ends, cable });
                    }
                    None => {}
                }
                self.links[at].ends = ends;
            }
        }
        self.peers.push(peer);
        Ok(())
    }
}
