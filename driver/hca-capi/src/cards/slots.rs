//! Cards in slots of this machine, through the kernel's VFIO; see `hca bind`.

use std::env;
use std::sync::Arc;

use hca_exports::table::Table;
use hca_verbs::Context;
use hca_vfio::{Bdf, ENVIRONMENT, Selection, Sysfs, VfioDevice};

use crate::boundary::{Errno, Verb, warn};
use crate::cards::device::{DevPtr, open};

/// Numbers of cards in slots start here; a simulator has fewer.
const FIRST_NUMBER: u32 = 1 << 16;

/// Cards in slots, in the order in which they were first seen: their numbers stay as long as the process.
#[derive(Default)]
struct Seen {
    cards: Vec<Bdf>,
    /// Cards of a simulator that come before them in names.
    before: u32,
}

static SEEN: Table<Seen> = Table::new();

impl Seen {
    /// Number of a card; a new one is put behind the others.
    fn number(&mut self, card: Bdf, before: u32) -> u32 {
        if self.cards.is_empty() {
            self.before = before;
        }
        let place = self.cards.iter().position(|seen| *seen == card);
        let place = place.unwrap_or_else(|| {
            self.cards.push(card);
            self.cards.len() - 1
        });
        FIRST_NUMBER + place as u32
    }

    /// Place of a number among all cards that this process sees.
    fn index(&self, number: u32) -> Option<u32> {
        Some(self.before + number.checked_sub(FIRST_NUMBER)?)
    }
}

/// Numbers of the cards. `before`: names that a simulator's cards have, where there is one.
pub fn list(before: u32) -> Vec<u32> {
    let selection = Selection::new(env::var_os(ENVIRONMENT).as_deref(), &Sysfs::new());
    selection.mistakes.iter().for_each(|mistake| warn(mistake));
    let mut seen = SEEN.lock();
    let cards = selection.cards.into_iter();
    cards.map(|card| seen.number(card, before)).collect()
}

/// Place of a card among those that this process sees; None: it is a simulator's.
pub fn index_of(number: u32) -> Option<u32> {
    SEEN.lock().index(number)
}

/// Claims a card. None: it is a simulator's.
pub fn claim(number: u32) -> Option<Verb<Context<DevPtr>>> {
    let place = number.checked_sub(FIRST_NUMBER)?;
    let card = SEEN.lock().cards.get(place as usize).copied();
    let Some(card) = card else {
        return Some(Err(Errno(libc::ENODEV)));
    };
    let opened = VfioDevice::open(card)
        .map_err(hca_verbs::Error::from)
        .and_then(|device| open(Arc::new(device)));
    Some(opened.map_err(Errno::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay() {
        let mut seen = Seen::default();
        let [a, b, c] = ["1:0.0", "2:0.0", "3:0.0"].map(|bdf| bdf.parse().unwrap());
        assert_eq!([b, c].map(|card| seen.number(card, 2) - FIRST_NUMBER), [0, 1]);
        // A simulator that ended meanwhile, and a card that was bound meanwhile.
        assert_eq!(
            [a, b, c].map(|card| seen.number(card, 0) - FIRST_NUMBER),
            [2, 0, 1]
        );
        assert_eq!(seen.index(FIRST_NUMBER), Some(2));
        assert_eq!(seen.index(FIRST_NUMBER + 2), Some(4));
        assert_eq!(seen.index(3), None);
    }
}
