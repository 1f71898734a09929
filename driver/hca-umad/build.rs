//! Two generated files: the structures of Debian's headers, with assertions of every size and offset, and the linker's
//! map of symbol versions.

use hca_bindings::{structures, without_verbs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The verbs of whichever libibverbs.so.1 the program has: ours, under hca run.
    println!("cargo:rustc-link-lib=dylib=ibverbs");
    let builder = without_verbs(structures("#include <infiniband/umad.h>\n"))
        .allowlist_type("(ib_user|ib_mad|umad)_.*")
        .allowlist_var("UMAD_.*");
    hca_bindings::write(builder, "umad_h.rs", "libibumad-dev");
    hca_exports::link("libibumad.so.3");
}
