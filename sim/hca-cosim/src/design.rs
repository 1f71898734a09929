//! What cards are made of.

use std::cell::Cell;

use crate::choice::Choice;

thread_local! {
    static CHOSEN: Cell<Option<Design>> = const { Cell::new(None) };
}

/// What does a card's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// The RTL, cycle by cycle.
    #[default]
    Rtl,
    /// The transport's reference model behind the same registers and rings ([`hca_functional`]): much faster,
    /// without cycles inside.
    Model,
}

impl Choice for Design {
    const VARIABLE: &'static str = "HCA_CARD";
    const NAMES: &'static [(&'static str, Self)] = &[("rtl", Self::Rtl), ("model", Self::Model)];
}

impl Design {
    /// By its name in HCA_CARD.
    pub fn named(name: &str) -> Option<Self> {
        Choice::named(name)
    }

    /// Its name there.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, design)| *design == self)
            .map_or("", |(name, _)| name)
    }

    /// Chooses for the cards that this thread makes from now on.
    pub fn choose(self) {
        CHOSEN.set(Some(self));
    }

    /// What this thread has chosen, or else what HCA_CARD says, or else the RTL.
    ///
    /// # Panics
    /// HCA_CARD is neither `rtl` nor `model`.
    pub fn chosen() -> Self {
        CHOSEN.with(Choice::chosen)
    }
}
