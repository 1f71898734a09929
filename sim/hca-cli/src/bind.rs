//! `hca bind`, `hca unbind`: cards in slots, given to user space and back.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use hca_vfio::{Bdf, BindOptions, Sysfs};
use nix::unistd::User;

/// Says what it did and what is left to do. Needs root.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The same by hand: driverctl --nosave set-override BDF vfio-pci (package driverctl), and back: \
                  driverctl unset-override BDF. A binding lasts until the next boot; driverctl \
                  without --nosave makes it last."
)]
pub struct BindArgs {
    /// PCI addresses, as lspci -D prints them: 0000:01:00.0
    #[arg(required = true, value_name = "BDF")]
    cards: Vec<Bdf>,
    /// User who may use the cards without being root: a name, or a number
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Bind a function that does not say that it is an OpenHCA card
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    tree: Tree,
}

/// Gives cards back to the kernel's drivers. Needs root.
#[derive(clap::Args, Debug)]
pub struct UnbindArgs {
    /// PCI addresses, as lspci -D prints them: 0000:01:00.0
    #[arg(required = true, value_name = "BDF")]
    cards: Vec<Bdf>,
    #[command(flatten)]
    tree: Tree,
}

/// Another tree than the machine's own.
#[derive(clap::Args, Debug)]
struct Tree {
    /// Folder that stands for /: for tests
    #[arg(long, hide = true, env = "HCA_SYSFS_ROOT", value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Tree {
    fn open(&self) -> Sysfs {
        self.root.as_deref().map_or_else(Sysfs::new, Sysfs::at)
    }
}

/// Each of them; one that fails does not keep the others from it.
fn each(cards: &[Bdf], mut run: impl FnMut(Bdf) -> Result<String>) -> Result<ExitCode> {
    let mut failures = Vec::new();
    for card in cards {
        match run(*card) {
            Ok(said) => crate::print(&said).context("standard output")?,
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    match failures.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => bail!("{}", failures.join("\nhca: ")),
    }
}

/// User and group number behind a name or number.
fn owner(name: &str) -> Result<(u32, u32)> {
    if let Ok(uid) = name.parse::<u32>() {
        // A number needs no name, nor a list of names.
        let group = User::from_uid(uid.into())
            .ok()
            .flatten()
            .map(|user| user.gid.as_raw());
        return Ok((uid, group.unwrap_or(uid)));
    }
    let found = User::from_name(name).context("the list of users cannot be read (give a number instead)")?;
    let user = found.ok_or_else(|| anyhow!("there is no user '{name}' (getent passwd lists all)"))?;
    Ok((user.uid.as_raw(), user.gid.as_raw()))
}

/// Runs `hca bind`.
pub fn bind(args: &BindArgs) -> Result<ExitCode> {
    let options = BindOptions {
        owner: args.user.as_deref().map(owner).transpose()?,
        force: args.force,
    };
    let sysfs = args.tree.open();
    each(&args.cards, |card| Ok(hca_vfio::bind(&sysfs, card, &options)?))
}

/// Runs `hca unbind`.
pub fn unbind(args: &UnbindArgs) -> Result<ExitCode> {
    let sysfs = args.tree.open();
    each(&args.cards, |card| Ok(hca_vfio::unbind(&sysfs, card)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name_and_number() {
        assert_eq!(owner("root").unwrap(), (0, 0));
        assert_eq!(owner("0").unwrap(), (0, 0));
        assert_eq!(owner("3999999999").unwrap(), (3_999_999_999, 3_999_999_999));
        let error = owner("nobody of this name").unwrap_err().to_string();
        assert!(error.contains("no user 'nobody of this name'"), "{error}");
    }
}
