//! Gives a card to user space, and back.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use thiserror::Error;

use crate::limits::memlock_limit;
use crate::open::{no_iommu, not_viable};
use crate::sysfs::{Bdf, Sysfs, VFIO_DRIVER};

/// How to bind.
#[derive(Clone, Debug, Default)]
pub struct BindOptions {
    /// Who may use the card: owner of the group's file from now on.
    pub owner: Option<(u32, u32)>,
    /// Also a function that does not say that it is an OpenHCA card.
    pub force: bool,
}

/// Why a card could not be given away or back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// No such function.
    #[error("there is no PCI function {bdf}{known}")]
    Missing {
        /// Its address.
        bdf: Bdf,
        /// OpenHCA cards that there are.
        known: String,
    },
    /// Not one of ours.
    #[error("{bdf} is {vendor:04x}:{device:04x}, no OpenHCA card: with --force it is bound all the same")]
    NotOurs {
        /// Its address.
        bdf: Bdf,
        /// Its vendor.
        vendor: u16,
        /// Its device number.
        device: u16,
    },
    /// VFIO needs an IOMMU.
    #[error("{bdf} cannot be given to user space: {reason}")]
    NoIommu {
        /// Its address.
        bdf: Bdf,
        /// What to do.
        reason: String,
    },
    /// The kernel has no vfio-pci.
    #[error("the kernel has no driver {VFIO_DRIVER}: {0}")]
    NoDriver(String),
    /// A file could not be written.
    #[error("cannot write {path}: {reason}{remedy}")]
    Write {
        /// The file.
        path: String,
        /// The system's reason.
        reason: io::Error,
        /// What helps.
        remedy: &'static str,
    },
    /// Everything was written, and the kernel did something else.
    #[error("{bdf} was offered to {VFIO_DRIVER}, but {found}: `dmesg | tail` may say why")]
    NotTaken {
        /// Its address.
        bdf: Bdf,
        /// What has it now.
        found: String,
    },
}

fn write(sysfs: &Sysfs, path: &Path, text: &str) -> Result<(), BindError> {
    sysfs
        .write(path, text)
        .map_err(|reason| write_error(path, reason))
}

fn write_error(path: &Path, reason: io::Error) -> BindError {
    let is_forbidden = matches!(reason.raw_os_error(), Some(libc::EACCES | libc::EPERM));
    let is_locked = reason.raw_os_error() == Some(libc::EROFS);
    let remedy = match () {
        () if is_forbidden => ": run it as root",
        () if is_locked => ": /sys is read-only here (a container?): run it on the host",
        () => "",
    };
    BindError::Write {
        path: path.display().to_string(),
        reason,
        remedy,
    }
}

fn check(sysfs: &Sysfs, bdf: Bdf, force: bool) -> Result<(), BindError> {
    let Some((vendor, device)) = sysfs.ids(bdf) else {
        let cards: Vec<String> = sysfs.cards().iter().map(Bdf::to_string).collect();
        let known = match cards.is_empty() {
            true => "; the machine has no OpenHCA card (lspci -D)".to_owned(),
            false => format!("; the machine's OpenHCA cards: {}", cards.join(", ")),
        };
        return Err(BindError::Missing { bdf, known });
    };
    if force || sysfs.is_ours(bdf) {
        Ok(())
    } else {
        Err(BindError::NotOurs { bdf, vendor, device })
    }
}

fn load_driver(sysfs: &Sysfs) -> Result<(), BindError> {
    let driver = sysfs.path(format!("/sys/bus/pci/drivers/{VFIO_DRIVER}"));
    if driver.exists() {
        return Ok(());
    }
    if !sysfs.is_real() {
        return Err(BindError::NoDriver("there is none in this tree".to_owned()));
    }
    let found = Command::new("modprobe").arg(VFIO_DRIVER).output();
    match found {
        Ok(output) if output.status.success() && driver.exists() => Ok(()),
        Ok(output) => Err(BindError::NoDriver(format!(
            "modprobe {VFIO_DRIVER} says '{}' (as root? is the kernel's CONFIG_VFIO_PCI on?)",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
        Err(error) => Err(BindError::NoDriver(format!(
            "modprobe cannot be started: {error}"
        ))),
    }
}

/// Takes the function from its driver, says which may have it from now on (any: ""), and offers it.
fn move_to(sysfs: &Sysfs, bdf: Bdf, driver: &str, done: &mut String) -> Result<(), BindError> {
    let folder = sysfs.device(bdf);
    write(sysfs, &folder.join("driver_override"), &format!("{driver}\n"))?;
    if let Some(before) = sysfs.driver(bdf) {
        write(sysfs, &folder.join("driver/unbind"), &bdf.to_string())?;
        let _ = writeln!(done, "{bdf}: taken from {before}");
    }
    write(sysfs, &sysfs.path("/sys/bus/pci/drivers_probe"), &bdf.to_string())
}

/// Binds a function to vfio-pci. Returns what was done and what is left to do, a line each.
pub fn bind(sysfs: &Sysfs, bdf: Bdf, options: &BindOptions) -> Result<String, BindError> {
    check(sysfs, bdf, options.force)?;
    let reason = no_iommu();
    let group = sysfs.group(bdf).ok_or(BindError::NoIommu { bdf, reason })?;
    load_driver(sysfs)?;
    let mut done = String::new();
    if sysfs.driver(bdf).as_deref() == Some(VFIO_DRIVER) {
        let _ = writeln!(done, "{bdf}: bound to {VFIO_DRIVER} already");
    } else {
        move_to(sysfs, bdf, VFIO_DRIVER, &mut done)?;
        match sysfs.driver(bdf) {
            Some(driver) if driver == VFIO_DRIVER => {}
            other => {
                let found = other.map_or("no driver has it".to_owned(), |other| format!("{other} has it"));
                return Err(BindError::NotTaken { bdf, found });
            }
        }
        let _ = writeln!(done, "{bdf}: bound to {VFIO_DRIVER}, IOMMU group {group}");
    }
    let file = sysfs.group_file(group);
    if let Some((user, owners_group)) = options.owner {
        std::os::unix::fs::chown(&file, Some(user), Some(owners_group))
            .map_err(|reason| write_error(&file, reason))?;
        let _ = writeln!(done, "{}: user {user} may use it", file.display());
    }
    done += &left_to_do(sysfs, bdf, group, options);
    Ok(done)
}

fn left_to_do(sysfs: &Sysfs, bdf: Bdf, group: u32, options: &BindOptions) -> String {
    let mut text = String::new();
    if !sysfs.in_the_way(group).is_empty() {
        let _ = writeln!(text, "left to do: {}", not_viable(sysfs, group));
    }
    if !sysfs.path("/dev/vfio/vfio").exists() {
        let _ = writeln!(
            text,
            "left to do: /dev/vfio/vfio is missing: `modprobe -a vfio vfio_iommu_type1` as root"
        );
    }
    let is_roots = fs::metadata(sysfs.group_file(group))
        .is_ok_and(|file| std::os::unix::fs::MetadataExt::uid(&file) == 0);
    if options.owner.is_none() && is_roots {
        let _ = writeln!(
            text,
            "only root may use it: `hca bind {bdf} --user NAME` lets somebody else"
        );
    }
    if let Some(limit) = memlock_limit() {
        let _ = writeln!(
            text,
            "memory that the card reaches counts as locked: `ulimit -l` is {} KiB here; `NAME - memlock unlimited` in \
             /etc/security/limits.conf raises it for a user",
            limit / 1024
        );
    }
    text
}

/// Gives a function back to whichever driver wants it. Returns what was done, a line each.
pub fn unbind(sysfs: &Sysfs, bdf: Bdf) -> Result<String, BindError> {
    // Whatever it is: it was bound by somebody.
    check(sysfs, bdf, true)?;
    match sysfs.driver(bdf) {
        Some(driver) if driver == VFIO_DRIVER => {}
        Some(other) => return Ok(format!("{bdf}: {other} has it, nothing to do\n")),
        None => return Ok(format!("{bdf}: no driver has it, nothing to do\n")),
    }
    let mut done = String::new();
    // A new line clears the override.
    move_to(sysfs, bdf, "", &mut done)?;
    let _ = match sysfs.driver(bdf) {
        Some(driver) => writeln!(done, "{bdf}: given to {driver}"),
        None => writeln!(done, "{bdf}: no other driver wants it"),
    };
    Ok(done)
}

#[cfg(test)]
mod tests;
