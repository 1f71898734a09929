//! A library as the dynamic linker sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo puts the library beside the test.
pub fn ours(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.with_file_name(name);
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// That of a package, where Debian puts it.
pub fn theirs(name: &str, package: &str) -> PathBuf {
    let library = Path::new("/usr/lib")
        .join(format!("{}-linux-gnu", std::env::consts::ARCH))
        .join(name);
    assert!(
        library.is_file(),
        "{}: apt-get install {package}",
        library.display()
    );
    library
}

pub fn readelf(option: &str, library: &Path) -> String {
    let output = Command::new("readelf").args(["-W", option]).arg(library).output();
    String::from_utf8(output.expect("readelf, of binutils, runs").stdout).unwrap()
}

/// Every symbol that it defines, with its type: `name@@VERSION FUNC` for the version that programs are linked with,
/// `name@VERSION FUNC` for an old one.
pub fn symbols(library: &Path) -> BTreeSet<String> {
    let table = readelf("--dyn-syms", library);
    let columns = table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let defined = columns.filter(|c| c.len() >= 8 && c[6] != "UND" && c[7].contains('@'));
    defined.map(|c| format!("{} {}", c[7], c[3])).collect()
}
