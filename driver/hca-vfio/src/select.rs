//! Which cards a program uses.

use std::ffi::OsStr;

use crate::sysfs::{Bdf, Sysfs};

/// The variable that names them: `BDF[,BDF]`; empty for none.
pub const ENVIRONMENT: &str = "HCA_VFIO";

/// Cards, in the order in which programs see them, and what was wrong with what they were asked for by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The cards.
    pub cards: Vec<Bdf>,
    /// Sentences for whoever asked.
    pub mistakes: Vec<String>,
}

impl Selection {
    /// With the variable: those that it names, in its order, bound or not (opening tells what is missing). Without: all
    /// OpenHCA cards that are bound to vfio-pci, by address.
    pub fn new(variable: Option<&OsStr>, sysfs: &Sysfs) -> Self {
        let Some(list) = variable else {
            return Self {
                cards: sysfs.bound_cards(),
                mistakes: Vec::new(),
            };
        };
        let mut selection = Self::default();
        let list = list.to_string_lossy();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.parse::<Bdf>() {
                Err(mistake) => selection.mistakes.push(format!("{ENVIRONMENT}: {mistake}")),
                Ok(bdf) if selection.cards.contains(&bdf) => {}
                Ok(bdf) if !sysfs.exists(bdf) => {
                    let mistake = format!("{ENVIRONMENT}: there is no PCI function {bdf}");
                    selection.mistakes.push(mistake);
                }
                Ok(bdf) => selection.cards.push(bdf),
            }
        }
        selection
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    #[test]
    fn named_cards_or_all_that_are_bound() {
        let tree = FakeTree::new();
        tree.add_card("0000:02:00.0", Some("vfio-pci"), Some(2));
        tree.add_card("0000:01:00.0", Some("vfio-pci"), Some(1));
        tree.add_card("0000:03:00.0", None, Some(3));
        tree.add("0000:04:00.0", (0x8086, 1), Some("vfio-pci"), Some(4));
        let select = |variable: Option<&str>| {
            let found = Selection::new(variable.map(OsStr::new), &tree.sysfs());
            let cards: Vec<String> = found.cards.iter().map(Bdf::to_string).collect();
            (cards.join(" "), found.mistakes.join("; "))
        };
        let found = |cards: &str| (cards.to_owned(), String::new());
        assert_eq!(select(None), found("0000:01:00.0 0000:02:00.0"));
        assert_eq!(select(Some("")), found(""));
        assert_eq!(
            select(Some("02:00.0, 0000:01:00.0,2:0.0,")),
            found("0000:02:00.0 0000:01:00.0")
        );
        assert_eq!(select(Some("03:00.0")), found("0000:03:00.0"));
        let (cards, mistakes) = select(Some("9:0.0,card0,01:00.0"));
        assert_eq!(cards, "0000:01:00.0");
        assert!(
            mistakes.contains("no PCI function 0000:09:00.0")
                && mistakes.contains("'card0' is no PCI address"),
            "{mistakes}"
        );
    }

    #[test]
    fn a_machine_without_pci_has_none() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(
            Selection::new(None, &Sysfs::at(empty.path())),
            Selection::default()
        );
    }
}
