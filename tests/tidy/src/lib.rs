//! House rules that a machine can judge, run as `cargo test -p hca-tidy` (or `make tidy`).
//!
//! A rule is a function from the files of the repository to [`Finding`]s. It knows nothing about Git and reads nothing
//! itself, so every rule is tested on made-up files as well: `tests/rules.rs`. The repository itself is judged in
//! `tests/repository.rs`.
#![forbid(unsafe_code)]

pub mod docs;
pub mod floors;
pub mod rtl;
pub mod style;

use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Folders that hold nothing written by hand.
const SKIPPED_FOLDERS: [&str; 7] = [
    ".git",
    ".venv",
    ".tools",
    "target",
    "sim_build",
    "__pycache__",
    ".pytest_cache",
];

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct File {
    /// Path from the repository root, with `/`.
    pub path: String,
    /// The whole content.
    pub text: String,
}

impl File {
    /// A file with this path and content.
    pub fn new(path: &str, text: &str) -> Self {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// What follows the last dot of the name, or nothing.
    pub fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or("")
    }

    /// The name without folder and extension.
    pub fn stem(&self) -> &str {
        Path::new(&self.path)
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or("")
    }

    /// The folder, without a trailing `/`; empty for a file at the root.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// True for the output of a generator: it says so at its head.
    pub fn is_generated(&self) -> bool {
        let mark = concat!("generated", " by");
        self.text
            .lines()
            .take(12)
            .any(|line| line.to_ascii_lowercase().contains(mark))
    }
}

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path of the file from the repository root.
    pub path: String,
    /// Line from 1 on; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong, and what to do about it.
    pub what: String,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Finding {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Root of the repository this crate is part of.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All text files below `root`, ordered by path. What is not UTF-8 (captures, pictures) is left out.
pub fn read_repository(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Some(file) = read_file(root, &entry.path())?
            {
                files.push(file);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_file(root: &Path, path: &Path) -> io::Result<Option<File>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        // Another process's temporary file that has gone since the folder was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let below = path
        .strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/");
    Ok(String::from_utf8(bytes)
        .ok()
        .map(|text| File { path: below, text }))
}

/// The words (letters, digits, `_`) of a line, each with its byte position.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + line[rest..].find(is_word)?;
        let end = line[start..]
            .find(|c| !is_word(c))
            .map_or(line.len(), |length| start + length);
        rest = end;
        Some((start, &line[start..end]))
    })
}
