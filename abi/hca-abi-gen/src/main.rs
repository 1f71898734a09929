//! Prints the contract (`hca-abi`, `hca-wire`) for the languages that cannot read Rust.
//!
//! `write` writes every output, `check` compares them with the files in the tree and fails on a difference.
#![forbid(unsafe_code)]

mod c_header;
mod markdown;
mod model;
mod python;
mod sv;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One generated file: where it goes in the tree, and what is in it.
type Output = (&'static str, fn() -> String);

const OUTPUTS: &[Output] = &[
    ("hw/rtl/pkg/hca_abi_gen.svh", sv::print),
    ("abi/include/hca_abi.h", c_header::print),
    ("tests/rtl/hca_abi.py", python::print),
    ("docs/abi.md", markdown::print),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write() -> Result<(), String> {
    for (path, print) in OUTPUTS {
        let full = root().join(path);
        let text = print();
        if std::fs::read_to_string(&full).is_ok_and(|old| old == text) {
            continue;
        }
        let parent = full
            .parent()
            .ok_or_else(|| format!("{path} has no parent directory"))?;
        std::fs::create_dir_all(parent).map_err(|e| format!("cannot create the directory of {path}: {e}"))?;
        std::fs::write(&full, text).map_err(|e| format!("cannot write {path}: {e}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

fn check() -> Result<(), String> {
    let mut stale = Vec::new();
    for (path, print) in OUTPUTS {
        let text = print();
        let old = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        if old != text {
            let line = old.lines().zip(text.lines()).take_while(|(a, b)| a == b).count() + 1;
            stale.push(format!("{path} differs from the tables, first in line {line}"));
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}\nrun `cargo run -p hca-abi-gen -- write` and commit the result",
        stale.join("\n")
    ))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write"] => write(),
        ["check"] => check(),
        _ => Err("usage: hca-abi-gen write | check".to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
