//! Where cards are: the sockets of a simulator, one for each function of each card, named `card<N>.<F>`; and slots of
//! this machine ([`crate::slots`]).
//!
//! `HCA_SIM` names the one, `HCA_VFIO` the other; where neither is set, both are looked for. A simulator's card N is
//! `hca<N>`; those in slots come behind, in the order of `HCA_VFIO`, else of their addresses.

use std::collections::BTreeMap;
use std::env;
use std::ffi::c_int;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use hca_dev::Device;
use hca_verbs::{Context, OpenOptions};
use hca_vfio_user::VfioUserDevice;

use crate::boundary::{Errno, Verb, warn};
use crate::slots;

/// A device that any thread may use.
pub type DevPtr = Arc<dyn Device + Send + Sync>;

/// A card may be slow in wall-clock time: its simulator shares the processor with the programs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Cards that programs can use.
pub trait Cards: Send + Sync {
    /// Their numbers, without claiming any.
    fn list(&self) -> Vec<u32>;
    /// Claims a function of a card.
    fn claim(&self, number: u32) -> Verb<Context<DevPtr>>;
}

/// This process manages ports.
static PREFERS_MANAGER: AtomicBool = AtomicBool::new(false);

/// `hca_prefer_manager`, for our libibumad: functions that this process claims from now on shall be those of managers,
/// or with 0 those of others again.
pub extern "C" fn prefer_manager(prefers: c_int) {
    PREFERS_MANAGER.store(prefers != 0, Ordering::Relaxed);
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

/// Place of a card among those that this process sees, for its name. The only card is the first one, whatever its
/// number: programs on several cards find each its own under one name, as on several machines.
pub fn index_of(card: u32) -> u32 {
    slots::index_of(card).unwrap_or_else(|| simulated_index(card))
}

fn simulated_index(card: u32) -> u32 {
    if env::var_os("HCA_CARD").is_some() {
        0
    } else {
        card
    }
}

/// Numbers of a simulator's cards.
fn simulated() -> Vec<u32> {
    let found = sockets(&folder())
        .into_iter()
        .filter(|(card, _)| is_chosen(*card));
    // A simulator that was killed leaves its sockets; nobody listens there. A connection that says nothing claims
    // nothing.
    let alive = found.filter(|(_, funcs)| funcs.values().any(|path| UnixStream::connect(path).is_ok()));
    alive.map(|(card, _)| card).collect()
}

impl Cards for Everywhere {
    fn list(&self) -> Vec<u32> {
        let kinds = kinds(|name| env::var_os(name).is_some());
        let mut numbers = if kinds.simulated { simulated() } else { Vec::new() };
        if kinds.in_slots {
            let before = numbers.last().map_or(0, |last| simulated_index(*last) + 1);
            numbers.extend(slots::list(before));
        }
        numbers
    }

    fn claim(&self, number: u32) -> Verb<Context<DevPtr>> {
        slots::claim(number).unwrap_or_else(|| claim_simulated(number))
    }
}

fn claim_simulated(number: u32) -> Verb<Context<DevPtr>> {
    let folder = folder();
    let mut functions = sockets(&folder).remove(&number).unwrap_or_default();
    // Function 0 alone may configure ports, and has QP0: programs, which do not, take it when there is no other.
    let manager = functions.remove(&0);
    let (before, behind) = match PREFERS_MANAGER.load(Ordering::Relaxed) {
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
    warn(&format!(
        "card {number} in {} has no free function: start `hca sim`",
        folder.display()
    ));
    Err(last)
}

/// Opens a card with the patience that a simulator needs: a real one never takes so long.
pub fn open(device: DevPtr) -> hca_verbs::Result<Context<DevPtr>> {
    let options = OpenOptions {
        ready_timeout_ns: PATIENCE_NS,
        command_timeout_ns: PATIENCE_NS,
        ..OpenOptions::default()
    };
    Context::open_with(device, &options)
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
