//! Names of cards and switches, and ends of links by them.

use std::collections::BTreeMap;

use crate::check::problem;
use crate::file::{File, Problem};
use crate::{CARD_PORTS_MAX, EndSpec};

/// Names of all cards and switches.
pub(crate) struct Names {
    pub cards: Vec<String>,
    pub switches: Vec<String>,
    by_name: BTreeMap<String, EndSpec>,
}

impl Names {
    pub fn new(file: &File) -> Result<Self, Problem> {
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
        let ends = (0..).map(|index| EndSpec::Card(index, 0)).zip(&cards);
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

    /// Card or switch; its port is not known.
    pub fn find(&self, name: &str) -> Option<EndSpec> {
        self.by_name.get(name).copied()
    }

    /// The same with the port, if it is named.
    pub fn resolve(&self, text: &str) -> (Option<EndSpec>, Option<u8>) {
        match text.rsplit_once(':') {
            Some((name, port)) => (self.find(name), port.parse().ok()),
            None => (self.find(text), None),
        }
    }

    /// The highest port of a card that a link names.
    pub fn highest_port(&self, file: &File, card: usize) -> u8 {
        let ends = file.link.iter().flat_map(|link| &link.ends);
        let named = ends.filter_map(|end| match self.resolve(end) {
            (Some(EndSpec::Card(found, _)), port) if found == card => port,
            _ => None,
        });
        named.max().unwrap_or(1).clamp(1, CARD_PORTS_MAX)
    }
}
