//! A fabric without gates, switches and credits: who hears of whom.

use hca_link::{Dir, LinkKind};
use hca_switch::Net;

use crate::card::Card;
use crate::design::Design;

/// A direction of a cable.
pub(crate) struct Way {
    pub cable: usize,
    pub dir: Dir,
    /// The place of the card that hears what comes along it.
    pub to: usize,
}

/// Where packets of cards without gates go, if there is nothing else.
pub(crate) struct Plain {
    is_plain: bool,
    /// By the place of the card that sends.
    ways: Vec<Vec<Way>>,
}

impl Plain {
    /// Looks at a fabric; `rest`: what is not among these does not keep it from being plain.
    pub fn of(rest: bool, cards: &[Card], net: &Net) -> Self {
        let is_plain = rest
            && net.is_cables_alone()
            && cards.iter().all(|card| card.design() == Design::Model)
            && net
                .cables()
                .iter()
                .all(|cable| cable.config().kind == LinkKind::Ethernet);
        let ports = |card: &Card| {
            (1..=card.ports())
                .filter_map(|port| card.attachment(port))
                .collect()
        };
        let ends: Vec<Vec<_>> = cards.iter().map(ports).collect();
        let ways_from = |from: usize| {
            let mut ways = Vec::new();
            for (cable, tx, _) in &ends[from] {
                let hears = |(at, _, rx): &(usize, Dir, Dir)| at == cable && rx == tx;
                let to = ends.iter().position(|ends| ends.iter().any(hears));
                ways.extend(to.map(|to| Way {
                    cable: *cable,
                    dir: *tx,
                    to,
                }));
            }
            ways
        };
        Self {
            is_plain,
            ways: (0..cards.len()).map(ways_from).collect(),
        }
    }

    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Where what a card sends is heard.
    pub fn ways_from(&self, card: usize) -> &[Way] {
        self.ways.get(card).map_or(&[], Vec::as_slice)
    }
}
