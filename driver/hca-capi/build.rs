//! Two generated files: the structures of Debian's verbs headers, with assertions of every size and offset, and the
//! linker's map of symbol versions.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    structures(&out.join("verbs_h.rs"));
    hca_exports::link("libibverbs.so.1");
}

fn structures(to: &Path) {
    let headers = "#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n#include <rdma/ib_user_verbs.h>\n\
                   #include <rdma/ib_user_sa.h>\n";
    let bindings = bindgen::Builder::default()
        .header_contents("verbs.h", headers)
        .allowlist_type("(ibv|verbs|ib_uverbs|ib_user)_.*")
        .allowlist_var("(IBV|_IBV)_.*")
        .ignore_functions()
        .derive_default(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .layout_tests(true)
        .generate_comments(false)
        .generate();
    let bindings = bindings.unwrap_or_else(|e| {
        panic!(
            "the headers of libibverbs-dev cannot be read ({e}): apt-get install libibverbs-dev libclang-dev"
        )
    });
    bindings.write_to_file(to).expect("OUT_DIR is writable");
}
