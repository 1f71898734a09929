//! The sockets of a simulator, one for each function of each card, named `card<N>.<F>`. `HCA_SIM` names their folder.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hca_verbs::Context;
use hca_vfio_user::VfioUserDevice;

use crate::boundary::{Errno, Verb, warn};
use crate::cards::device::{DevPtr, open};

/// This process manages ports.
static PREFERS_MANAGER: AtomicBool = AtomicBool::new(false);

/// Functions that this process claims from now on shall be those of managers, or those of others again.
pub fn prefer_manager(prefers: bool) {
    PREFERS_MANAGER.store(prefers, Ordering::Relaxed);
}

/// HCA_SIM, else `hca` in XDG_RUNTIME_DIR, else /tmp/hca-UID.
fn folder() -> PathBuf {
    if let Some(folder) = env::var_os("HCA_SIM") {
        return folder.into();
    }
    if let Some(runtime) = env::var_os("XDG_RUNTIME_DIR") {
        return Path::new(&runtime).join("hca");
    }
    // SAFETY: cannot fail and touches nothing.
    let uid = unsafe { libc::getuid() };
    PathBuf::from(format!("/tmp/hca-{uid}"))
}

/// Card and function of a socket's name.
fn parse(name: &str) -> Option<(u32, u32)> {
    let (card, func) = name.strip_prefix("card")?.split_once('.')?;
    Some((card.parse().ok()?, func.parse().ok()?))
}

/// Sockets by card, functions in ascending order.
fn sockets(folder: &Path) -> BTreeMap<u32, BTreeMap<u32, PathBuf>> {
    let mut found: BTreeMap<u32, BTreeMap<u32, PathBuf>> = BTreeMap::new();
    // No folder: no simulator, no cards.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Some((card, func)) = entry.file_name().to_str().and_then(parse) {
            found.entry(card).or_default().insert(func, entry.path());
        }
    }
    found
}

/// HCA_CARD: the only card that this process shall see.
fn is_chosen(card: u32) -> bool {
    match env::var("HCA_CARD") {
        Ok(chosen) => chosen.parse() == Ok(card),
        Err(_) => true,
    }
}

/// Place of a card among the simulator's.
pub fn index_of(card: u32) -> u32 {
    if env::var_os("HCA_CARD").is_some() {
        0
    } else {
        card
    }
}

/// Numbers of a simulator's cards.
pub fn list() -> Vec<u32> {
    let found = sockets(&folder())
        .into_iter()
        .filter(|(card, _)| is_chosen(*card));
    // A simulator that was killed leaves its sockets; nobody listens there. A connection that says nothing claims
    // nothing.
    let alive = found.filter(|(_, funcs)| funcs.values().any(|path| UnixStream::connect(path).is_ok()));
    alive.map(|(card, _)| card).collect()
}

/// Claims a function of a card.
pub fn claim(number: u32) -> Verb<Context<DevPtr>> {
    let folder = folder();
    let mut functions = sockets(&folder).remove(&number).unwrap_or_default();
    // Function 0 alone may configure ports, has QP0, and sends and takes frames: programs, which do not, take it when
    // there is no other. HCA_MANAGER=1: this one does.
    let manager = functions.remove(&0);
    let prefers =
        PREFERS_MANAGER.load(Ordering::Relaxed) || env::var_os("HCA_MANAGER").is_some_and(|v| v == "1");
    let (before, behind) = match prefers {
        true => (manager, None),
        false => (None, manager),
    };
    let mut last = Errno(libc::ENODEV);
    // That others have some of them is nothing to warn of, as long as one is left.
    let mut refusals = Vec::new();
    for path in before.iter().chain(functions.values()).chain(&behind) {
        let claimed = VfioUserDevice::connect(path).map_err(hca_verbs::Error::from);
        match claimed.and_then(|device| open(Arc::new(device))) {
            Ok(context) => return Ok(context),
            Err(e) => {
                refusals.push(format!("{}: {e}", path.display()));
                last = Errno(e.errno());
            }
        }
    }
    refusals.iter().for_each(|refusal| warn(refusal));
    warn(&format_args!(
        "card {number} in {} has no free function: start `hca sim`",
        folder.display()
    ));
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets() {
        assert_eq!(parse("card0.0"), Some((0, 0)));
        assert_eq!(parse("card12.3"), Some((12, 3)));
        for other in ["card0", "card.1", "cards0.1", "card0.x", "card-1.0", "lock"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
