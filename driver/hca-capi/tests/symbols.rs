//! The library as the dynamic linker sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo puts the library beside the test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name("libibverbs.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

fn readelf(option: &str) -> String {
    let output = Command::new("readelf")
        .args(["-W", option])
        .arg(library())
        .output();
    String::from_utf8(output.expect("readelf, of binutils, runs").stdout).unwrap()
}

#[test]
fn every_name_has_its_version() {
    let list = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("exports.txt")).unwrap();
    let wanted: BTreeSet<String> = list
        .lines()
        .map(|line| {
            let (version, name) = line.split_once(' ').unwrap();
            format!("{name}@@{version}")
        })
        .collect();
    let table = readelf("--dyn-syms");
    let columns = table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let defined = columns.filter(|c| c.len() >= 8 && c[6] != "UND" && c[7].contains('@'));
    let found: BTreeSet<String> = defined.map(|c| c[7].to_string()).collect();
    assert_eq!(wanted.len(), 131);
    assert_eq!(found, wanted);
}

#[test]
fn its_name_is_that_of_rdma_core() {
    assert!(readelf("--dynamic").contains("soname: [libibverbs.so.1]"));
}
