//! Where firmware runs.

use std::cell::Cell;

use crate::choice::Choice;

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

impl Choice for Processor {
    const VARIABLE: &'static str = "HCA_FIRMWARE";
    const NAMES: &'static [(&'static str, Self)] = &[("native", Self::Native), ("core", Self::Core)];
}

impl Processor {
    /// By its name in options and in HCA_FIRMWARE.
    pub fn named(name: &str) -> Option<Self> {
        Choice::named(name)
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
        CHOSEN.with(Choice::chosen)
    }
}
