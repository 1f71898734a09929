//! Beyond one machine: a job array for Slurm, and results of engines brought together.

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::plan::{Plan, Point};
use super::results::{self, Results};
use crate::files;

/// Largest array that Slurm takes as it is installed (MaxArraySize).
const ARRAY_MAX: usize = 1001;

/// A word for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `0-3,7` for 0, 1, 2, 3 and 7.
fn ranges(indices: &[usize]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < indices.len() {
        let mut end = at;
        while end + 1 < indices.len() && indices[end + 1] == indices[end] + 1 {
            end += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match end - at {
            0 => write!(text, "{comma}{}", indices[at]),
            _ => write!(text, "{comma}{}-{}", indices[at], indices[end]),
        };
        at = end + 1;
    }
    text
}

/// Writes a script that runs these points as an array of jobs, each on one core.
pub fn slurm(script: &Path, file: &Path, out: &Path, due: &[&Point]) -> Result<()> {
    let absolute = |path: &Path| -> Result<PathBuf> {
        std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))
    };
    let (file, out) = (absolute(file)?, absolute(out)?);
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let logs = out.join("slurm");
    for path in [&file, &out, &program, &logs] {
        if path.display().to_string().contains(['\n', '"', '%']) {
            bail!(
                "{}: no path with a quote, a percent sign or a line break",
                path.display()
            );
        }
    }
    // Slurm does not make it, and tasks without a log are lost.
    files::make_dir(&logs)?;
    let indices: Vec<usize> = due.iter().map(|point| point.index).collect();
    let stem = file
        .file_stem()
        .map_or("sweep".into(), |stem| stem.to_string_lossy());
    let name: String = stem.chars().filter(char::is_ascii_alphanumeric).collect();
    let [program, quoted_file, quoted_out] =
        [&program, &file, &out].map(|path| quote(&path.display().to_string()));
    let text = format!(
        "#!/bin/bash\n\
         # {} points of {}. All machines must see these paths. Then:\n\
         #   {program} sweep {quoted_file} --out {quoted_out} --merge {}\n\
         #SBATCH --job-name=hca-{name}\n\
         #SBATCH --array={}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task=1\n\
         #SBATCH --output=\"{}/%A_%a.log\"\n\
         exec {program} sweep {quoted_file} --out {quoted_out} --point \"$SLURM_ARRAY_TASK_ID\"\n",
        indices.len(),
        file.display(),
        quote(&super::parts(&out).display().to_string()),
        ranges(&indices),
        logs.display(),
    );
    files::write(script, text.as_bytes())?;
    if indices.last().is_some_and(|last| *last >= ARRAY_MAX) {
        eprintln!(
            "hca: more than {ARRAY_MAX} points: the cluster's MaxArraySize must be larger than its default"
        );
    }
    Ok(())
}

/// Takes over what is in a folder's files: how many results are new.
pub fn merge(folder: &Path, plan: &Plan, results: &mut Results) -> Result<usize> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    let mut found = BTreeMap::new();
    for file in &files {
        found.extend(results::read(file)?);
    }
    let mut new: Vec<_> = found
        .into_values()
        .filter(|outcome| {
            results
                .known()
                .get(&outcome.id)
                .is_none_or(|known| !known.ok && outcome.ok)
        })
        .collect();
    let strangers = new
        .iter()
        .filter(|outcome| plan.points.iter().all(|point| point.id != outcome.id));
    if let Some(stranger) = strangers.min_by_key(|outcome| outcome.index) {
        bail!(
            "{} has results of points that are not in the sweep's file, as of '{}': it has changed, or the folder is \
             another sweep's",
            folder.display(),
            stranger.command
        );
    }
    new.sort_by_key(|outcome| outcome.index);
    let count = new.len();
    for outcome in new {
        results.add(outcome)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_short_and_words_are_safe() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
    }
}
