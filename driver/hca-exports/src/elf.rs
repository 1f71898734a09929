//! A library as the dynamic linker sees it, for tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo puts the library beside the test.
///
/// # Panics
/// If it is not there.
pub fn ours(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let library = test.with_file_name(name);
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// That of a package, where Debian puts it.
///
/// # Panics
/// If the package is not installed.
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

/// What `readelf -W` says of it.
///
/// # Panics
/// If it does not run.
pub fn readelf(option: &str, library: &Path) -> String {
    let output = Command::new("readelf").args(["-W", option]).arg(library).output();
    String::from_utf8(output.expect("readelf, of binutils, runs").stdout).expect("readelf prints text")
}

/// Every symbol that it defines, with its type: `name@@VERSION FUNC` for the version that programs are linked with,
/// `name@VERSION FUNC` for an old one.
///
/// # Panics
/// If readelf does not run.
pub fn symbols(library: &Path) -> BTreeSet<String> {
    let table = readelf("--dyn-syms", library);
    let columns = table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let defined = columns.filter(|c| c.len() >= 8 && c[6] != "UND" && c[7].contains('@'));
    defined.map(|c| format!("{} {}", c[7], c[3])).collect()
}

/// A library of ours beside the one of rdma-core that it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// What cargo calls it.
    pub ours: &'static str,
    /// What programs ask for.
    pub soname: &'static str,
    /// Where theirs comes from.
    pub package: &'static str,
    /// A symbol of theirs.
    pub known: &'static str,
}

impl Library {
    /// Both, in this order.
    ///
    /// # Panics
    /// If one is not there.
    pub fn both(&self) -> [PathBuf; 2] {
        [ours(self.ours), theirs(self.soname, self.package)]
    }

    /// Every symbol of theirs is in ours; what is in ours alone, is what `is_own` knows.
    ///
    /// # Panics
    /// If it is not so.
    pub fn check_symbols(&self, is_own: impl Fn(&str) -> bool) {
        let [ours, theirs] = self.both().map(|library| symbols(&library));
        assert!(theirs.contains(self.known), "rdma-core's library cannot be read");
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(missing.is_empty(), "missing: {missing:#?}");
        let foreign: Vec<_> = ours
            .difference(&theirs)
            .filter(|symbol| !is_own(symbol))
            .collect();
        assert!(foreign.is_empty(), "not rdma-core's: {foreign:#?}");
    }

    /// Both have the name that programs ask for.
    ///
    /// # Panics
    /// If one has another.
    pub fn check_soname(&self) {
        let name = format!("soname: [{}]", self.soname);
        for library in self.both() {
            assert!(
                readelf("--dynamic", &library).contains(&name),
                "{}",
                library.display()
            );
        }
    }

    /// `list` has a line VERSION NAME for each function of ours, and no other.
    ///
    /// # Panics
    /// If it is not so.
    pub fn check_list(&self, list: &Path) {
        let list = std::fs::read_to_string(list).expect("the list is there");
        let ours = symbols(&ours(self.ours));
        let versions = list.lines().filter_map(|line| line.split_once(' '));
        let named: Vec<_> = versions.filter(|(version, name)| version != name).collect();
        for (version, name) in &named {
            assert!(ours.contains(&format!("{name}@@{version} FUNC")), "{name}");
        }
        let functions = ours.iter().filter(|symbol| symbol.ends_with("FUNC")).count();
        assert_eq!(named.len(), functions);
    }
}
