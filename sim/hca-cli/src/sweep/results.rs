//! Results of a sweep: JSON lines, one for each point that has been run.

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::files::{self, FileError};

/// What a run gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The point's name.
    pub id: String,
    /// Its place in the file when it was run.
    pub index: usize,
    /// The command that repeats it.
    pub command: String,
    /// Options that it was given.
    pub options: BTreeMap<String, Value>,
    /// It ended well.
    pub ok: bool,
    /// None: a signal ended it.
    pub exit_code: Option<i32>,
    /// The end of what it said, if it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Real time.
    pub wall_s: f64,
    /// Fingerprint of the program that ran it.
    pub build: String,
    /// What it measured: each object that it printed.
    pub results: Vec<Value>,
}

/// The file of results.
pub struct Results {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, Outcome>,
}

impl Results {
    /// Opens or makes a file, for this process alone. A line that a stop has cut is taken off.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        if let Some(folder) = path.parent() {
            files::make_dir(folder)?;
        }
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file =
            opened.map_err(|error| FileError::from_display(format_args!("cannot open {name}: {error}")))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("{name} is in use: another sweep writes to it"),
            Err(TryLockError::Error(error)) => return Err(error).context(format!("cannot lock {name}")),
        }
        let mut text = String::new();
        file.read_to_string(&mut text)
            .with_context(|| format!("cannot read {name}"))?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            eprintln!("hca: the last line of {name} was cut by a stop: its point is run again");
            file.set_len(whole as u64)
                .and_then(|()| file.seek(SeekFrom::End(0)).map(drop))
                .with_context(|| format!("cannot shorten {name}"))?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            known: parse(&text[..whole], path)?,
        })
    }

    /// Results by the point's name; the newest counts.
    pub fn known(&self) -> &BTreeMap<String, Outcome> {
        &self.known
    }

    /// Adds a result: all of it is in the file when this returns, or nothing.
    pub fn add(&mut self, outcome: Outcome) -> Result<()> {
        let line = serde_json::to_string(&outcome)? + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.and_then(|()| self.file.sync_data()).map_err(|error| {
            let path = self.path.display();
            FileError::from_display(format_args!("cannot write {path}: {error}; free some space"))
        })?;
        self.known.insert(outcome.id.clone(), outcome);
        Ok(())
    }
}

/// Reads a file that nobody writes to.
pub fn read(path: &Path) -> Result<BTreeMap<String, Outcome>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<BTreeMap<String, Outcome>> {
    let mut known = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = || format!("{} line {number} is no result of a sweep", path.display());
        let outcome: Outcome = serde_json::from_str(line).with_context(wrong)?;
        known.insert(outcome.id.clone(), outcome);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(id: &str) -> Outcome {
        Outcome {
            id: id.into(),
            index: 0,
            command: String::new(),
            options: BTreeMap::new(),
            ok: true,
            exit_code: Some(0),
            error: None,
            wall_s: 0.0,
            build: String::new(),
            results: Vec::new(),
        }
    }

    #[test]
    fn a_cut_line_is_taken_off_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/results.jsonl");
        let mut results = Results::open(&path).unwrap();
        results.add(outcome("a")).unwrap();
        results.add(outcome("b")).unwrap();
        let in_use = Results::open(&path).err().unwrap();
        assert!(in_use.to_string().contains("in use"));
        drop(results);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 3]).unwrap();
        let mut results = Results::open(&path).unwrap();
        assert_eq!(results.known().keys().collect::<Vec<_>>(), ["a"]);
        results.add(outcome("b")).unwrap();
        drop(results);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        std::fs::write(&path, "{}\n").unwrap();
        assert!(Results::open(&path).err().unwrap().to_string().contains("line 1"));
    }
}
