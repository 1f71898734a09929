//! The library as the dynamic linker sees it, beside the one of rdma-core that this system has.

use std::path::Path;

use hca_exports::elf::Library;

const LIBRARY: Library = Library {
    ours: "libibumad.so",
    soname: "libibumad.so.3",
    package: "libibumad3",
    known: "umad_send@@IBUMAD_1.0 FUNC",
};

#[test]
fn every_symbol_of_rdma_core_is_here_and_no_other() {
    LIBRARY.check_symbols(|_| false);
}

#[test]
fn its_name_is_that_of_rdma_core() {
    LIBRARY.check_soname();
}

/// The list that the project was given is that library's, too.
#[test]
fn the_list_of_exports_is_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    LIBRARY.check_list(&root.join("shared/verbs/debian-libibumad-exports.txt"));
}
