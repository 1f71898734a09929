//! Output files: every error is one sentence that names the file.

use anyhow::Result;
use std::fs;
use std::path::Path;

/// A file or folder that cannot be made.
#[derive(Debug)]
pub struct FileError(String);

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// An error that names its file already.
    pub fn from_display(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Makes a folder and those above it.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path)
        .map_err(|error| FileError(format!("cannot make folder {}: {error}", path.display())).into())
}

/// Writes a file, and its folder where it is missing.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        make_dir(folder)?;
    }
    fs::write(path, bytes).map_err(|error| {
        let path = path.display();
        FileError(format!(
            "cannot write {path}: {error}; free some space or choose another folder"
        ))
        .into()
    })
}
