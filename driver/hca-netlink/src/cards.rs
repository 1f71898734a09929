//! The cards by their files below /sys/class/infiniband, as the kernel's documentation describes them.

use std::fs;
use std::path::{Path, PathBuf};

/// A card.
pub struct Card {
    pub name: String,
    /// N of `hcaN`.
    pub index: u32,
    folder: PathBuf,
}

/// A port of a card.
pub struct Port {
    pub number: u32,
    folder: PathBuf,
}

fn text(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// "0001:0002:0003:0004".
fn groups(text: &str) -> Option<u64> {
    u64::from_str_radix(&text.replace(':', ""), 16).ok()
}

/// All cards, by their numbers.
pub fn all(class: &Path) -> Vec<Card> {
    let card = |name: String| {
        let index = name.strip_prefix("hca")?.parse().ok()?;
        let folder = class.join(&name);
        Some(Card { name, index, folder })
    };
    let mut cards: Vec<Card> = names(class).into_iter().filter_map(card).collect();
    cards.sort_by_key(|card| card.index);
    cards
}

impl Card {
    fn text(&self, name: &str) -> Option<String> {
        text(self.folder.join(name))
    }

    pub fn firmware(&self) -> Option<String> {
        self.text("fw_ver")
    }

    /// `node_guid`, `sys_image_guid`.
    pub fn guid(&self, name: &str) -> Option<u64> {
        groups(&self.text(name)?)
    }

    /// The number before the words: "1: CA".
    pub fn node_type(&self) -> Option<u8> {
        number_before_words(&self.text("node_type")?)
    }

    pub fn ports(&self) -> Vec<Port> {
        let folder = self.folder.join("ports");
        let numbers = names(&folder).into_iter().filter_map(|name| name.parse().ok());
        let mut ports: Vec<Port> = numbers
            .map(|number: u32| Port {
                number,
                folder: folder.join(number.to_string()),
            })
            .collect();
        ports.sort_by_key(|port| port.number);
        ports
    }
}

fn number_before_words(text: &str) -> Option<u8> {
    text.split(':').next()?.trim().parse().ok()
}

impl Port {
    fn text(&self, name: &str) -> Option<String> {
        text(self.folder.join(name))
    }

    /// `state`, `phys_state`.
    pub fn state(&self, name: &str) -> Option<u8> {
        number_before_words(&self.text(name)?)
    }

    /// `lid`, `sm_lid`, `cap_mask`: with 0x before them.
    pub fn hex(&self, name: &str) -> Option<u32> {
        u32::from_str_radix(self.text(name)?.strip_prefix("0x")?, 16).ok()
    }

    pub fn lid_mask_count(&self) -> Option<u8> {
        self.text("lid_mask_count")?.parse().ok()
    }

    pub fn is_infiniband(&self) -> bool {
        self.text("link_layer").as_deref() == Some("InfiniBand")
    }

    /// The upper half of the first GID.
    pub fn subnet_prefix(&self) -> Option<u64> {
        groups(self.text("gids/0")?.get(..19)?)
    }

    /// The network device of the first GID that has one.
    pub fn net_device(&self) -> Option<String> {
        let devices = self.folder.join("gid_attrs/ndevs");
        names(&devices)
            .into_iter()
            .find_map(|name| text(devices.join(name)))
    }

    /// Counters that are no IBTA ones, by name.
    pub fn hardware_counters(&self) -> Vec<(String, u64)> {
        let folder = self.folder.join("hw_counters");
        let value = |name: String| {
            let value = text(folder.join(&name))?.parse().ok()?;
            Some((name, value))
        };
        names(&folder).into_iter().filter_map(value).collect()
    }
}
