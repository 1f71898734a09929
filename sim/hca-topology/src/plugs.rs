//! Which ports have a link, and which get the next one.

use hca_switch::PORTS_MAX;

use crate::check::problem;
use crate::file::{File, Problem};
use crate::names::Names;
use crate::{CardSpec, EndSpec};

/// Ports that have a link.
pub(crate) struct Plugs<'a> {
    names: &'a Names,
    /// Ports of each card, taken or not.
    cards: Vec<Vec<bool>>,
    /// Ports of each switch that are taken or that some link names, a bit each.
    taken: Vec<u64>,
    named: Vec<u64>,
    limit: Vec<u8>,
}

impl<'a> Plugs<'a> {
    pub fn new(file: &File, names: &'a Names, cards: &[CardSpec]) -> Self {
        let count = names.switches.len();
        let mut plugs = Self {
            names,
            cards: cards.iter().map(|card| vec![false; card.ports.len()]).collect(),
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
                if let (Some(EndSpec::Switch(switch, _)), Some(port)) = names.resolve(end)
                    && port < 64
                {
                    plugs.named[switch] |= 1 << port;
                }
            }
        }
        plugs
    }

    /// Plugs a link's end in.
    pub fn take(&mut self, text: &str, place: &str, first: Option<EndSpec>) -> Result<EndSpec, Problem> {
        let bad = |what: String| problem(place, format!("end '{text}': {what}"));
        let (end, port) = self.names.resolve(text);
        if text.contains(':') && port.is_none() {
            return Err(bad("behind ':' there must be the number of a port".to_owned()));
        }
        match end {
            None | Some(EndSpec::Outside(_)) => Err(bad("no card or switch has this name".to_owned())),
            Some(EndSpec::Card(card, _)) => {
                let ports = &mut self.cards[card];
                let count = ports.len() as u8;
                let port = match (port, first) {
                    (Some(port), _) => port,
                    // Both ends: a loopback plug.
                    (None, Some(EndSpec::Card(other, port))) if other == card => port,
                    (None, _) => (1..=count)
                        .find(|port| !ports[usize::from(*port) - 1])
                        .ok_or_else(|| bad("the card has a link already".to_owned()))?,
                };
                if !(1..=count).contains(&port) {
                    return Err(bad(match count {
                        1 => "the card has port 1 only".to_owned(),
                        _ => format!("the card has ports 1 to {count}"),
                    }));
                }
                let end = EndSpec::Card(card, port);
                let loopback = first == Some(end);
                if std::mem::replace(&mut ports[usize::from(port) - 1], true) && !loopback {
                    return Err(bad("the card has a link already".to_owned()));
                }
                Ok(end)
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

    pub fn highest(&self, switch: usize) -> u8 {
        (63 - self.taken[switch].max(1).leading_zeros()) as u8
    }
}
