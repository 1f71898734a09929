//! What cards are made of.

use std::cell::Cell;

/// The variable that says it, for tests and for whoever has no option for it.
const VARIABLE: &str = "HCA_CARD";

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

impl Design {
    /// By its name in HCA_CARD.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "rtl" => Some(Self::Rtl),
            "model" => Some(Self::Model),
            _ => None,
        }
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
        if let Some(chosen) = CHOSEN.get() {
            return chosen;
        }
        let name = std::env::var(VARIABLE).unwrap_or_default();
        if name.is_empty() {
            return Self::default();
        }
        Self::named(&name).unwrap_or_else(|| panic!("{VARIABLE} is '{name}': use rtl or model"))
    }
}
