//! Where cards are: behind the sockets of a simulator, and in slots of this machine.
//!
//! `HCA_SIM` names the one, `HCA_VFIO` the other; where neither is set, both are looked for. A simulator's card N is
//! `hca<N>`; those in slots come behind, in the order of `HCA_VFIO`, else of their addresses.

pub mod device;
mod slots;
pub mod sockets;

use std::env;
use std::sync::OnceLock;

use hca_verbs::Context;

use crate::boundary::Verb;
pub use device::DevPtr;

/// Cards that programs can use.
pub trait Cards: Send + Sync {
    /// Their numbers, without claiming any.
    fn list(&self) -> Vec<u32>;
    /// Claims a function of a card.
    fn claim(&self, number: u32) -> Verb<Context<DevPtr>>;
}

static CARDS: OnceLock<Box<dyn Cards>> = OnceLock::new();

/// For tests in the same process: from now on these are the cards. False: too late, somebody has looked.
pub fn install_cards(cards: Box<dyn Cards>) -> bool {
    CARDS.set(cards).is_ok()
}

pub fn cards() -> &'static dyn Cards {
    &**CARDS.get_or_init(|| Box::new(Everywhere))
}

struct Everywhere;

/// Which of both kinds of cards count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds {
    simulated: bool,
    in_slots: bool,
}

/// Whoever names one kind wants no other; HCA_CARD names a simulator's.
fn kinds(is_set: impl Fn(&str) -> bool) -> Kinds {
    let (sim, vfio) = (
        is_set("HCA_SIM") || is_set("HCA_CARD"),
        is_set(hca_vfio::ENVIRONMENT),
    );
    Kinds {
        simulated: sim || !vfio,
        in_slots: vfio || !sim,
    }
}

/// Place of a card among those that this process sees, for its name. The only card is the first one, whatever its
/// number: programs on several cards find each its own under one name, as on several machines.
pub fn index_of(card: u32) -> u32 {
    slots::index_of(card).unwrap_or_else(|| sockets::index_of(card))
}

impl Cards for Everywhere {
    fn list(&self) -> Vec<u32> {
        let kinds = kinds(|name| env::var_os(name).is_some());
        let mut numbers = if kinds.simulated {
            sockets::list()
        } else {
            Vec::new()
        };
        if kinds.in_slots {
            let before = numbers.last().map_or(0, |last| sockets::index_of(*last) + 1);
            numbers.extend(slots::list(before));
        }
        numbers
    }

    fn claim(&self, number: u32) -> Verb<Context<DevPtr>> {
        slots::claim(number).unwrap_or_else(|| sockets::claim(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_names_one_kind_wants_no_other() {
        for (variables, simulated, in_slots) in [
            (&[][..], true, true),
            (&["HCA_SIM"], true, false),
            (&["HCA_CARD"], true, false),
            (&["HCA_VFIO"], false, true),
            (&["HCA_VFIO", "HCA_SIM"], true, true),
        ] {
            let found = kinds(|name| variables.contains(&name));
            assert_eq!(found, Kinds { simulated, in_slots }, "{variables:?}");
        }
    }
}
