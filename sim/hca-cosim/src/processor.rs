//! Where firmware runs.

use std::cell::Cell;

/// The variable that says it, for tests and for whoever has no option for it.
const VARIABLE: &str = "HCA_FIRMWARE";

thread_local! {
    static CHOSEN: Cell<Option<Processor>> = const { Cell::new(None) };
}

/// What runs the firmware of cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// This machine: fast, an access every few cycles.
    #[default]
    Native,
    /// The card's own RISC-V processor, cycle by cycle.
    Core,
}

impl Processor {
    /// By its name in options and in HCA_FIRMWARE.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "native" => Some(Self::Native),
            "core" => Some(Self::Core),
            _ => None,
        }
    }

    /// The card's own processor needs an image, which a build without Rust's library for it has not.
    pub fn is_there(self) -> bool {
        self == Self::Native || !hca_image::IMAGE.is_empty()
    }

    /// Chooses for the cards that this thread makes from now on.
    pub fn choose(self) {
        CHOSEN.set(Some(self));
    }

    /// What this thread has chosen, or else what HCA_FIRMWARE says, or else native.
    ///
    /// # Panics
    /// HCA_FIRMWARE is neither `native` nor `core`.
    pub fn chosen() -> Self {
        if let Some(chosen) = CHOSEN.get() {
            return chosen;
        }
        let name = std::env::var(VARIABLE).unwrap_or_default();
        if name.is_empty() {
            return Self::default();
        }
        Self::named(&name).unwrap_or_else(|| panic!("{VARIABLE} is '{name}': use native or core"))
    }
}
