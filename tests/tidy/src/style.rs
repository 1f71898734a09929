//! Rules for the form of every source file: size, width, tabs, marks of unfinished work, foreign words.

use std::collections::HashMap;

use crate::{File, Finding, words};

const COLUMNS_MAX: usize = 120;

/// Lines a file may have, by extension. A longer one holds more than one idea: split it.
const LINES_MAX: [(&str, usize); 4] = [("sv", 500), ("svh", 500), ("rs", 700), ("py", 500)];

/// Spelled in two pieces, so that this file passes its own rules.
const UNFINISHED_WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];

/// Places of one developer's machine, and servers that a build must take from its configuration instead.
const FOREIGN: [&str; 9] = [
    concat!("/wo", "rk/"),
    concat!("/tmp/", "team"),
    concat!("/tmp/", "target-"),
    concat!("/tmp/", "venv-"),
    concat!("/ro", "ot/"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
];

fn is_code(file: &File) -> bool {
    matches!(file.extension(), "sv" | "svh" | "rs" | "py" | "sh" | "c" | "h") || file.path == "Makefile"
}

/// Files that are too long to read in one go.
pub fn file_size(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.is_generated()) {
        let Some((_, lines_max)) = LINES_MAX
            .iter()
            .find(|(extension, _)| *extension == file.extension())
        else {
            continue;
        };
        let lines = file.text.lines().count();
        if lines > *lines_max {
            findings.push(Finding::new(
                file,
                0,
                format!("{lines} lines, at most {lines_max}: split it by idea"),
            ));
        }
    }
    findings
}

/// Lines of code that are too wide.
pub fn line_width(files: &[File]) -> Vec<Finding> {
    each_line(files, |line| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| format!("{columns} columns, at most {COLUMNS_MAX}"))
    })
}

/// Tabs, where a tool does not ask for them.
pub fn tabs(files: &[File]) -> Vec<Finding> {
    let indented: Vec<File> = files
        .iter()
        .filter(|f| matches!(f.extension(), "sv" | "svh" | "rs" | "py"))
        .cloned()
        .collect();
    each_line(&indented, |line| {
        line.contains('\t')
            .then(|| "a tab: indent with spaces".to_owned())
    })
}

/// Python modules of the block tests that share a name: all folders are on one import path, and the first found wins.
pub fn bench_names(files: &[File]) -> Vec<Finding> {
    let mut seen = HashMap::new();
    let benches = files
        .iter()
        .filter(|f| f.path.starts_with("tests/rtl/") && f.extension() == "py");
    benches
        .filter_map(|file| {
            let name = file.path.rsplit('/').next()?;
            let first = seen.insert(name, &file.path)?;
            Some(Finding::new(
                file,
                0,
                format!("{first} has the same module name: choose another"),
            ))
        })
        .collect()
}

/// Marks of unfinished work: finish it, or open an issue.
pub fn unfinished(files: &[File]) -> Vec<Finding> {
    each_line(files, |line| {
        let word = words(line)
            .map(|(_, word)| word)
            .find(|word| UNFINISHED_WORDS.contains(word));
        let found = word.or_else(|| UNFINISHED_MACROS.into_iter().find(|name| line.contains(name)))?;
        Some(format!("{found}: finish it, or open an issue and leave no mark"))
    })
}

fn each_line(files: &[File], judge: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_code(file) && !file.is_generated()) {
        for (index, line) in file.text.lines().enumerate() {
            findings.extend(judge(line).map(|what| Finding::new(file, index + 1, what)));
        }
    }
    findings
}

/// Paths and servers that exist on one developer's machine only; in any text file, also generated ones.
pub fn foreign_names(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path != "Cargo.lock") {
        for (index, line) in file.text.lines().enumerate() {
            for name in FOREIGN.into_iter().filter(|name| contains_path(line, name)) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    format!("'{name}' means nothing on another machine"),
                ));
            }
        }
    }
    findings
}

/// Finds `name` where it does not continue a longer path.
fn contains_path(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !name.starts_with('/') || !before.is_some_and(|c| c.is_alphanumeric() || "._-}".contains(c))
    })
}
