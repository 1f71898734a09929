//! The C libraries that programs shall find instead of the system's.

use anyhow::{Context as _, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place;

/// What cargo calls the one that the others need.
const BUILT: &str = "libibverbs.so";
/// What programs ask for.
const SONAME: &str = "libibverbs.so.1";
/// Those of connection managers and of subnet managers, where they were built.
const OTHERS: [(&str, &str); 5] = [
    ("librdmacm.so", "librdmacm.so.1"),
    ("libibumad.so", "libibumad.so.3"),
    (SOCKETS, SOCKETS),
    (VIEW, VIEW),
    (NETLINK, NETLINK),
];
/// The one that makes sockets rsockets, both here and where programs find it.
const SOCKETS: &str = "librspreload.so";
/// The one that leads programs to files of cards where nothing can be mounted.
const VIEW: &str = "libhcaview.so";
/// The one that answers what programs ask the kernel about cards by RDMA netlink.
const NETLINK: &str = "libhcanetlink.so";
/// The folder with those files, for it.
pub const VIEW_VARIABLE: &str = "HCA_VIEW";
/// Folder beside the executable that holds nothing else.
const FOLDER: &str = "verbs";
/// The same where hca is installed, from the executable's folder.
const INSTALLED: &str = "../lib/openhca";

/// The folder for LD_LIBRARY_PATH.
pub fn folder() -> Result<PathBuf> {
    let home = place::folder()?;
    match home.join(INSTALLED).canonicalize() {
        Ok(folder) if folder.join(SONAME).is_file() => Ok(folder),
        _ => folder_beside(home),
    }
}

fn folder_beside(home: &Path) -> Result<PathBuf> {
    let library = home.join(BUILT);
    if !library.is_file() {
        bail!(
            "the C library is neither {} nor {INSTALLED}/{SONAME} beside it; build it with: cargo build --release -p \
             hca-capi",
            library.display()
        );
    }
    let folder = home.join(FOLDER);
    link(&folder, BUILT, SONAME)?;
    for (built, soname) in OTHERS {
        if home.join(built).is_file() {
            link(&folder, built, soname)?;
        }
    }
    Ok(folder)
}

/// Gives a library the name that programs ask for.
fn link(folder: &Path, built: &str, soname: &str) -> Result<()> {
    let link = folder.join(soname);
    let target = Path::new("..").join(built);
    if fs::read_link(&link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    let cannot = || format!("cannot make the link {}", link.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    // Others may be doing the same: the name appears complete or not at all.
    let new = folder.join(format!("{soname}.{}", std::process::id()));
    symlink(&target, &new).with_context(cannot)?;
    fs::rename(&new, &link).with_context(cannot)
}

/// LD_LIBRARY_PATH with the folder in front.
pub fn search_path(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// What of ours stands before the C library.
#[derive(Clone, Copy)]
pub struct Before {
    /// Sockets are rsockets.
    pub sockets: bool,
    /// Who asks the kernel about cards by RDMA netlink hears of ours, as in /sys.
    pub asks_kernel: bool,
}

/// LD_PRELOAD with our libraries behind what is there: their symbols come before those of a libibverbs that a program
/// brings along under another name, and where it is asked for before those of the C library.
pub fn preload(folder: &Path, before: &Before) -> Result<OsString> {
    let mut names = vec![SONAME];
    if before.sockets {
        if !folder.join(SOCKETS).is_file() {
            bail!(
                "--sockets needs {SOCKETS} in {}; build it with: cargo build --release -p hca-rspreload",
                folder.display()
            );
        }
        names.push(SOCKETS);
    }
    if before.asks_kernel && folder.join(NETLINK).is_file() {
        names.push(NETLINK);
    }
    let mut path = env::var_os("LD_PRELOAD").unwrap_or_default();
    for name in names {
        if !path.is_empty() {
            path.push(":");
        }
        // ld.so(8): blanks and colons separate. A name without a folder is looked for in LD_LIBRARY_PATH.
        let library = folder.join(name);
        match library.to_str() {
            Some(text) if !text.contains([' ', ':']) => path.push(library),
            _ => path.push(name),
        }
    }
    Ok(path)
}

/// Has a command look into a folder for what it would find in /sys and /dev.
pub fn look_into(command: &mut Command, folder: &Path) -> Result<()> {
    let library = self::folder()?.join(VIEW);
    if !library.is_file() {
        bail!(
            "{} is not there; build it with: cargo build --release -p hca-view",
            library.display()
        );
    }
    let set = |name: &str| {
        let found = command.get_envs().find(|(known, _)| *known == name);
        found
            .and_then(|(_, value)| value.map(OsStr::to_owned))
            .unwrap_or_default()
    };
    let mut preload = set("LD_PRELOAD");
    preload.push(":");
    preload.push(VIEW);
    command.env("LD_PRELOAD", preload).env(VIEW_VARIABLE, folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_leads_to_the_library() {
        let home = tempfile::tempdir().unwrap();
        let error = folder_beside(home.path()).unwrap_err().to_string();
        assert!(error.contains(BUILT) && error.contains("hca-capi"), "{error}");
        fs::write(home.path().join(BUILT), b"ELF").unwrap();
        let folder = folder_beside(home.path()).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        for (built, _) in OTHERS.into_iter().filter(|(built, _)| *built != SOCKETS) {
            fs::write(home.path().join(built), b"ELF").unwrap();
        }
        for _ in 0..2 {
            let folder = folder_beside(home.path()).unwrap();
            assert_eq!(fs::read(folder.join(SONAME)).unwrap(), b"ELF");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), OTHERS.len());
        }
        assert!(search_path(Path::new("/x")).to_string_lossy().starts_with("/x"));
        let preloaded = |folder: &str| {
            let before = Before {
                sockets: false,
                asks_kernel: true,
            };
            preload(Path::new(folder), &before)
                .unwrap()
                .to_string_lossy()
                .into_owned()
        };
        assert!(preloaded("/x").ends_with("/x/libibverbs.so.1"));
        for folder in ["/x y", "/x:y"] {
            assert!(preloaded(folder).ends_with("libibverbs.so.1"));
            assert!(!preloaded(folder).contains(folder));
        }
        let sockets = Before {
            sockets: true,
            asks_kernel: false,
        };
        let error = preload(&folder, &sockets).unwrap_err().to_string();
        assert!(error.contains("hca-rspreload"), "{error}");
        fs::write(home.path().join(SOCKETS), b"ELF").unwrap();
        let folder = folder_beside(home.path()).unwrap();
        let file = |name| folder.join(name).display().to_string();
        let ends = |sockets, asks_kernel, end: &str| {
            let all = preload(&folder, &Before { sockets, asks_kernel }).unwrap();
            assert!(all.to_string_lossy().ends_with(end), "{all:?}");
        };
        ends(true, false, &format!("{SONAME}:{}", file(SOCKETS)));
        ends(false, true, &format!("{SONAME}:{}", file(NETLINK)));
        ends(true, true, &format!("{}:{}", file(SOCKETS), file(NETLINK)));
        ends(false, false, SONAME);
    }
}
