//! Two generated files: the structures of Debian's headers, with assertions of every size and offset, and the linker's
//! map of symbol versions.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The verbs of whichever libibverbs.so.1 the program has: ours, under hca run.
    println!("cargo:rustc-link-lib=dylib=ibverbs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    structures(&out.join("rdma_cma_h.rs"));
    hca_exports::link("librdmacm.so.1");
}

fn structures(to: &Path) {
    let bindings = bindgen::Builder::default()
        .header_contents("cma.h", "#include <rdma/rdma_cma.h>\n")
        .allowlist_type("(ibv|rdma|verbs)_.*")
        .allowlist_type("(sockaddr|addrinfo).*")
        .allowlist_var("(IBV|RDMA|RAI)_.*")
        .allowlist_function(
            "ibv_(get_device_list|free_device_list|open_device|close_device|get_device_name|get_device_guid)",
        )
        .allowlist_function(
            "ibv_(query_device|query_port|query_gid|query_pkey|alloc_pd|dealloc_pd|reg_mr|dereg_mr)",
        )
        .allowlist_function("ibv_(create|destroy)_(comp_channel|cq|qp|ah|srq)")
        .allowlist_function(
            "ibv_(modify_qp|get_cq_event|ack_cq_events|init_ah_from_wc|attach_mcast|detach_mcast)",
        )
        .derive_default(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .layout_tests(true)
        .generate_comments(false)
        .generate();
    let bindings = bindings.unwrap_or_else(|e| {
        panic!(
            "the headers of librdmacm-dev cannot be read ({e}): apt-get install librdmacm-dev libclang-dev"
        )
    });
    bindings.write_to_file(to).expect("OUT_DIR is writable");
}
