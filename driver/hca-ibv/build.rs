//! Two generated files: the structures of Debian's verbs headers, with assertions of every size and offset, and the
//! verbs that our other C libraries call.

/// The structures.
const HEADERS: &str = "#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n#include <rdma/ib_user_verbs.h>\n\
                       #include <rdma/ib_user_sa.h>\n";
/// Verbs that are functions and no operations of a context.
const CALLS: [&str; 5] = [
    "ibv_(get_device_list|free_device_list|get_device_name|get_device_guid|open_device|close_device)",
    "ibv_(query_device|query_port|query_gid|query_pkey|alloc_pd|dealloc_pd|reg_mr|dereg_mr)",
    "ibv_(create|destroy)_(comp_channel|cq|qp|ah|srq)",
    "ibv_(modify_qp|get_cq_event|ack_cq_events|init_ah_from_wc)",
    "ibv_(attach|detach)_mcast",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let structures = hca_bindings::structures(HEADERS)
        .allowlist_type("(ibv|verbs|ib_uverbs|ib_user)_.*")
        .allowlist_var("(IBV|_IBV)_.*")
        .ignore_functions();
    hca_bindings::write(structures, "verbs_h.rs", "libibverbs-dev");
    let calls = hca_bindings::structures(HEADERS).allowlist_recursively(false);
    let calls = CALLS
        .iter()
        .fold(calls, |calls, name| calls.allowlist_function(name));
    hca_bindings::write(calls, "calls.rs", "libibverbs-dev");
}
