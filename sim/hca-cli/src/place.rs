//! Where this program lies. What belongs to it is found from there: beside it in a build tree, under `../lib/openhca`
//! where it is installed.

use anyhow::{Context as _, Result};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static PROGRAM: OnceLock<io::Result<PathBuf>> = OnceLock::new();

/// Looks. To be called first of all: after a change of mounts the kernel tells a path that leads nowhere.
pub fn remember() {
    PROGRAM.get_or_init(env::current_exe);
}

/// Path of the program.
pub fn program() -> Result<&'static Path> {
    let found = PROGRAM.get_or_init(env::current_exe);
    let path = found.as_ref().map_err(|error| io::Error::from(error.kind()));
    path.map(PathBuf::as_path)
        .context("cannot tell where hca itself is (is /proc mounted?)")
}

/// The folder that it is in.
pub fn folder() -> Result<&'static Path> {
    Ok(program()?.parent().unwrap_or(Path::new("/")))
}
