//! What a thread, or else the environment, has chosen for the cards that are made.

use std::cell::Cell;

/// One of a few, with a name each.
pub(crate) trait Choice: Copy + Default + 'static {
    /// The variable that says it, for tests and for whoever has no option for it.
    const VARIABLE: &'static str;
    /// All of them.
    const NAMES: &'static [(&'static str, Self)];

    fn named(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, choice)| *choice)
    }

    /// What the thread has chosen, or else what the variable says, or else the usual one.
    ///
    /// # Panics
    /// The variable has another value.
    fn chosen(by_thread: &Cell<Option<Self>>) -> Self {
        if let Some(chosen) = by_thread.get() {
            return chosen;
        }
        let name = std::env::var(Self::VARIABLE).unwrap_or_default();
        if name.is_empty() {
            return Self::default();
        }
        Self::named(&name).unwrap_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            panic!("{} is '{name}': use {}", Self::VARIABLE, names.join(" or "))
        })
    }
}
