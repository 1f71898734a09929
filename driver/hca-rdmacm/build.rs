//! Two generated files: the structures of Debian's headers, with assertions of every size and offset, and the linker's
//! map of symbol versions.

use hca_bindings::{structures, without_verbs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The verbs of whichever libibverbs.so.1 the program has: ours, under hca run.
    println!("cargo:rustc-link-lib=dylib=ibverbs");
    let builder = without_verbs(structures("#include <rdma/rdma_cma.h>\n"))
        .allowlist_type("rdma_.*")
        .allowlist_type("(sockaddr|addrinfo).*")
        .allowlist_var("(RDMA|RAI)_.*");
    hca_bindings::write(builder, "rdma_cma_h.rs", "librdmacm-dev");
    hca_exports::link("librdmacm.so.1");
}
