//! Where the sockets of a simulator are: one for each function of each card, `card<N>.<F>`. The C library looks in the
//! same places.

use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::files::FileError;

/// Environment variable that names the folder.
pub const FOLDER_VARIABLE: &str = "HCA_SIM";
/// Environment variable that names the only card a program shall see.
pub const CARD_VARIABLE: &str = "HCA_CARD";

/// A folder of sockets.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder given, else that of HCA_SIM, else `hca` in XDG_RUNTIME_DIR, else /tmp/hca-UID.
    pub fn find(given: Option<&Path>) -> Result<Self> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let path = if let Some(given) = given {
            given.to_owned()
        } else if let Some(folder) = variable(FOLDER_VARIABLE) {
            folder.into()
        } else if let Some(runtime) = variable("XDG_RUNTIME_DIR") {
            Path::new(&runtime).join("hca")
        } else {
            format!("/tmp/hca-{}", user_id()?).into()
        };
        Ok(Self { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, for this user alone. One that exists must be the user's: in /tmp anybody can make one.
    pub fn make(&self) -> Result<()> {
        let name = self.path.display();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| FileError::from_display(format_args!("cannot make folder {name}: {error}")))?;
        let owner = fs::metadata(&self.path)?.uid();
        let user = user_id()?;
        if owner != user {
            bail!("folder {name} belongs to user {owner}, not to {user}; choose another with --dir");
        }
        Ok(())
    }

    /// Socket of a function.
    pub fn socket(&self, card: u32, func: u8) -> PathBuf {
        self.path.join(format!("card{card}.{func}"))
    }

    /// The simulator's cards with their functions, in ascending order. Sockets at which nobody listens are left out.
    pub fn cards(&self) -> BTreeMap<u32, Vec<u8>> {
        let mut found: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        // No folder: no simulator.
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let function = entry.file_name().to_str().and_then(parse);
            if let Some((card, func)) = function
                && UnixStream::connect(entry.path()).is_ok()
            {
                found.entry(card).or_default().push(func);
            }
        }
        found.values_mut().for_each(|functions| functions.sort_unstable());
        found
    }

    /// The cards, of which `wanted` must be one and there must be any. The error says how to start a simulator.
    pub fn demand_cards(&self, wanted: Option<u32>) -> Result<BTreeMap<u32, Vec<u8>>> {
        let cards = self.cards();
        let name = self.path.display();
        if cards.is_empty() {
            bail!("no simulator runs at {name}; start one in another terminal with: hca sim --dir {name}");
        }
        match wanted.filter(|card| !cards.contains_key(card)) {
            Some(card) => {
                let all: Vec<String> = cards.keys().map(u32::to_string).collect();
                bail!(
                    "the simulator at {name} has no card {card}; its cards are: {}",
                    all.join(", ")
                )
            }
            None => Ok(cards),
        }
    }
}

/// Card and function of a socket's name.
fn parse(name: &str) -> Option<(u32, u8)> {
    let (card, func) = name.strip_prefix("card")?.split_once('.')?;
    Some((card.parse().ok()?, func.parse().ok()?))
}

/// The kernel gives a process' own entries to its user.
fn user_id() -> Result<u32> {
    match fs::metadata("/proc/self") {
        Ok(metadata) => Ok(metadata.uid()),
        Err(error) => bail!("cannot tell the user from /proc/self ({error}); choose a folder with --dir"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets() {
        let folder = Folder::find(Some(Path::new("/run/x"))).unwrap();
        assert_eq!(folder.socket(12, 3), Path::new("/run/x/card12.3"));
        assert_eq!(parse("card12.3"), Some((12, 3)));
        for other in ["card0", "card.1", "card0.x", "card0.999", "link0.pcap"] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert!(folder.cards().is_empty());
    }
}
