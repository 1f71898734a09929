//! The cards where programs look for them: in /sys and /dev, as this process and its children see those. Mounts of a
//! namespace of their own; with it they end.
//!
//! sysfs takes no folders from us. So each folder that lacks one is covered by a new one, in which everything that was
//! there is found again, and ours besides.

mod tree;

use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};
use std::fs::{self, DirEntry, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::sim::facts::{self, CardFacts};
use tree::{Machine, Node, Tree};

/// What is covered. Of it the folders that [`OURS`] names are replaced: a real card's would lead to a library that is
/// not in use.
const COVERED: [&str; 4] = ["/sys/class", "/sys/devices", "/sys/bus/pci/devices", "/dev"];
const OURS: [&str; 4] = [
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    "/sys/class/infiniband_mad",
    "/dev/infiniband",
];
/// Where a machine lists its processors and its PCI buses.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
const DEVICES: &str = "/sys/devices";
/// Devices that are no hardware.
const VIRTUAL: &str = "/sys/devices/virtual";
/// Makes pseudo-terminals.
const PTMX: &str = "/dev/ptmx";
/// The machine's own /dev, in ours.
const MACHINE: &str = ".machine";
const NONE: Option<&str> = None;

/// The cards of a simulator.
pub struct View {
    cards: Vec<CardFacts>,
    /// Its folder.
    simulator: PathBuf,
}

impl View {
    /// What the simulator of this folder says of its cards.
    pub fn read(folder: &Path) -> Result<Self> {
        let cards = facts::read(folder)?;
        let simulator = fs::canonicalize(folder)?;
        Ok(Self { cards, simulator })
    }

    /// Shows one card, or all, to this thread and what it starts; its mounts must be its own. An error may leave a part
    /// of it.
    pub fn show(mut self, card: Option<u32>) -> Result<()> {
        self.cards
            .retain(|facts| card.is_none_or(|card| facts.card == card));
        // As libibverbs has it: the only card of a program is the first one, whatever its number.
        let index = |number: u32| if card.is_some() { 0 } else { number };
        let tree = tree::build(&self.cards, index, &machine()?, &self.simulator);
        for covered in COVERED {
            let folder = Path::new(covered);
            if folder.is_dir() {
                cover(folder, &tree).with_context(|| format!("cannot show the cards in {covered}"))?;
            }
        }
        Ok(())
    }
}

impl View {
    /// Writes the files of one card, or of all, into the simulator's folder, for programs that are led there by
    /// libhcaview.so. Returns the folder.
    pub fn write(mut self, card: Option<u32>) -> Result<PathBuf> {
        self.cards
            .retain(|facts| card.is_none_or(|card| facts.card == card));
        let index = |number: u32| if card.is_some() { 0 } else { number };
        let tree = tree::build(&self.cards, index, &machine()?, &self.simulator);
        let all = self.simulator.join(facts::VIEW);
        fs::create_dir_all(&all)?;
        let folder = all.join(card.map_or("all".into(), |card| format!("card{card}")));
        // Others may be doing the same: the folder appears complete or not at all.
        let new = tempfile::Builder::new().prefix("new-").tempdir_in(&all)?;
        for (path, node) in &tree {
            let path = new.path().join(path.strip_prefix("/").unwrap_or(path));
            lay(&path, node).with_context(|| path.display().to_string())?;
        }
        // What links lead to that are the machine's.
        symlink(VIRTUAL, new.path().join(&VIRTUAL[1..]))?;
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
        match fs::rename(new.path(), &folder) {
            Ok(()) => drop(new.keep()),
            Err(error) if folder.is_dir() => drop(error),
            Err(error) => return Err(error).context("cannot write the cards' files"),
        }
        Ok(folder)
    }
}

/// A node of the tree without a mount.
fn lay(path: &Path, node: &Node) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match node {
        Node::File(text) => fs::write(path, text)?,
        Node::Link(target) => symlink(target, path)?,
        Node::Folder(source) => symlink(source, path)?,
        Node::Device => symlink("/dev/null", path)?,
    }
    Ok(())
}

fn machine() -> Result<Machine> {
    let cpus = fs::read_to_string(PROCESSORS).with_context(|| format!("cannot read {PROCESSORS}"))?;
    let devices = fs::read_dir(DEVICES).with_context(|| format!("cannot read {DEVICES}"))?;
    let names = devices
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    // pciDDDD:BB
    let domains =
        names.filter_map(|name| u16::from_str_radix(name.strip_prefix("pci")?.split_once(':')?.0, 16).ok());
    let domains: Vec<u16> = domains.collect();
    let pci_domain = (1..u16::MAX)
        .find(|domain| !domains.contains(domain))
        .unwrap_or(1);
    Ok(Machine {
        pci_domain,
        cpus: cpus.trim().to_owned(),
    })
}

/// Covers a folder by one that has the same and what the tree has in it: made elsewhere, then moved.
fn cover(folder: &Path, tree: &Tree) -> Result<()> {
    let made = tempfile::tempdir().context("cannot make a folder to mount at")?;
    let new = made.path();
    mount(
        Some("hca"),
        new,
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        Some("mode=755"),
    )?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !OURS.iter().any(|ours| entry.path() == Path::new(ours)) {
            take_over(&entry, new).with_context(|| entry.path().display().to_string())?;
        }
    }
    for (path, node) in tree {
        if let Ok(inside) = path.strip_prefix(folder) {
            make(&new.join(inside), node).with_context(|| path.display().to_string())?;
        }
    }
    Ok(mount(Some(new), folder, NONE, MsFlags::MS_MOVE, NONE)?)
}

/// The same entry in a new folder.
fn take_over(entry: &DirEntry, folder: &Path) -> Result<()> {
    let (old, new) = (entry.path(), folder.join(entry.file_name()));
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        symlink(fs::read_link(&old)?, &new)?;
    } else if kind.is_dir() {
        fs::create_dir(&new)?;
        bind(&old, &new)?;
    } else if old == Path::new(PTMX) {
        // It looks for the folder pts beside itself, and a mount has nothing beside it.
        let machine = folder.join(MACHINE);
        fs::create_dir(&machine)?;
        bind(old.parent().unwrap_or(&old), &machine)?;
        symlink(Path::new(MACHINE).join(entry.file_name()), &new)?;
    } else {
        File::create(&new)?;
        bind(&old, &new)?;
    }
    Ok(())
}

fn make(path: &Path, node: &Node) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match node {
        Node::File(text) => fs::write(path, text)?,
        Node::Link(target) => symlink(target, path)?,
        Node::Folder(source) => {
            fs::create_dir(path)?;
            bind(source, path)?;
        }
        Node::Device => {
            File::create(path)?;
            bind(Path::new("/dev/null"), path)?;
        }
    }
    Ok(())
}

/// With all that is mounted below: the kernel lets an ordinary user take no part of it away.
fn bind(from: &Path, to: &Path) -> Result<()> {
    Ok(mount(
        Some(from),
        to,
        NONE,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NONE,
    )?)
}
