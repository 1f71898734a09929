//! The library as the dynamic linker sees it, beside the one of rdma-core that this system has.

#[path = "../../hca-capi/tests/common/elf.rs"]
mod elf;

use std::path::Path;

use elf::{ours, readelf, symbols, theirs};

const OURS: &str = "libibumad.so";
const PACKAGE: [&str; 2] = ["libibumad.so.3", "libibumad3"];

#[test]
fn every_symbol_of_rdma_core_is_here_and_no_other() {
    let (ours, theirs) = (symbols(&ours(OURS)), symbols(&theirs(PACKAGE[0], PACKAGE[1])));
    assert!(
        theirs.contains("umad_send@@IBUMAD_1.0 FUNC"),
        "rdma-core's library cannot be read"
    );
    assert!(
        ours == theirs,
        "only in one: {:#?}",
        ours.symmetric_difference(&theirs)
    );
}

#[test]
fn its_name_is_that_of_rdma_core() {
    for library in [ours(OURS), theirs(PACKAGE[0], PACKAGE[1])] {
        assert!(readelf("--dynamic", &library).contains("soname: [libibumad.so.3]"));
    }
}

/// The list that the project was given is that library's, too.
#[test]
fn the_list_of_exports_is_whole() {
    let list =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/verbs/debian-libibumad-exports.txt");
    let list = std::fs::read_to_string(&list).unwrap();
    let ours = symbols(&ours(OURS));
    let mut named = 0;
    for line in list.lines() {
        let (version, name) = line.split_once(' ').unwrap();
        if version != name {
            assert!(ours.contains(&format!("{name}@@{version} FUNC")), "{name}");
            named += 1;
        }
    }
    assert_eq!(
        named,
        ours.iter().filter(|symbol| symbol.ends_with("FUNC")).count()
    );
}
