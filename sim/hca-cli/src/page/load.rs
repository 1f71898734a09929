//! What is in the folder of a run.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Largest file that is read whole.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A run as hca itself keeps it, or as `hca run --keep` does.
const RUNS: [&str; 2] = ["run.json", "report.json"];

/// A file that is only named.
pub struct Kept {
    /// Name in the folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Everything that a page is made of.
pub struct Folder {
    /// Name of the file it comes from.
    pub run_name: &'static str,
    /// The run.
    pub run: Value,
    /// What cards and cables counted.
    pub counters: Option<Value>,
    /// Plots: name and SVG.
    pub plots: Vec<(String, String)>,
    /// All files.
    pub files: Vec<Kept>,
}

impl Folder {
    /// Reads a folder.
    pub fn read(path: &Path) -> Result<Self> {
        let found = RUNS.into_iter().find(|name| path.join(name).is_file());
        let Some(run_name) = found else {
            bail!(
                "{} is no folder of a run: it has no run.json (hca demo, hca perf --keep, hca qos --keep) and no \
                 report.json (hca run --keep)",
                path.display()
            );
        };
        let mut files = Vec::new();
        let mut plots = Vec::new();
        let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
            let (metadata, name) = (entry.metadata(), entry.file_name().to_string_lossy().into_owned());
            let Ok(metadata) = metadata else { continue };
            if !metadata.is_file() || name.ends_with(".html") {
                continue;
            }
            if name.ends_with(".svg") {
                plots.push((name.clone(), text(&path.join(&name))?));
            }
            files.push(Kept {
                name,
                bytes: metadata.len(),
            });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        plots.sort();
        let counters = path.join("counters.json");
        Ok(Self {
            run_name,
            run: json(&path.join(run_name))?,
            counters: counters.is_file().then(|| json(&counters)).transpose()?,
            plots,
            files,
        })
    }

    /// A text of the run; empty where it has none.
    pub fn text(&self, key: &str) -> &str {
        self.run[key].as_str().unwrap_or_default()
    }
}

fn text(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let bytes = fs::metadata(path).with_context(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        bail!(
            "{} has {bytes} bytes; a page takes files up to {FILE_BYTES_MAX}",
            path.display()
        );
    }
    fs::read_to_string(path).with_context(cannot)
}

fn json(path: &Path) -> Result<Value> {
    serde_json::from_str(&text(path)?).with_context(|| format!("{} is not JSON", path.display()))
}
