//! The structures of Debian's headers, with assertions of every size and offset; symbol versions by `hca-exports`.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The verbs of whichever libibverbs.so.1 the program has: ours, under hca run.
    println!("cargo:rustc-link-lib=dylib=ibverbs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    structures(&out.join("umad_h.rs"));
    hca_exports::link("libibumad.so.3");
}

fn structures(to: &Path) {
    let bindings = bindgen::Builder::default()
        .header_contents(
            "mad.h",
            "#include <infiniband/verbs.h>\n#include <infiniband/umad.h>\n",
        )
        .allowlist_type("(ibv|ib_user|ib_mad|umad)_.*")
        .allowlist_var("(IBV|UMAD)_.*")
        .allowlist_function("ibv_(get_device_list|free_device_list|open_device|close_device|get_device_name)")
        .allowlist_function("ibv_(query_device|query_port|query_gid|query_pkey|alloc_pd|dealloc_pd|dereg_mr)")
        .allowlist_function("ibv_(create|destroy)_(comp_channel|cq|qp|ah)")
        .allowlist_function("ibv_(modify_qp|get_cq_event|ack_cq_events)")
        .derive_default(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .layout_tests(true)
        .generate_comments(false)
        .generate();
    let bindings = bindings.unwrap_or_else(|e| {
        panic!(
            "the headers of libibumad-dev cannot be read ({e}): apt-get install libibumad-dev libclang-dev"
        )
    });
    bindings.write_to_file(to).expect("OUT_DIR is writable");
}
