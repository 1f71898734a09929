//! The library as the dynamic linker sees it, beside the one of rdma-core that this system has.

use std::collections::BTreeSet;
use std::path::Path;

use hca_exports::elf::{ours, readelf, theirs};

const NAME: &str = "librspreload.so";

/// Calls that it stands in front of. Versions play no part: programs ask for the C library's.
fn calls(library: &Path) -> BTreeSet<String> {
    let table = readelf("--dyn-syms", library);
    let columns = table
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let functions = columns.filter(|c| c.len() >= 8 && c[3] == "FUNC" && c[6] != "UND");
    functions
        .map(|c| c[7].split('@').next().unwrap_or_default().to_string())
        .collect()
}

/// RS-6.
#[test]
fn every_call_of_rdma_cores_is_here() {
    let (ours, theirs) = (
        calls(&ours(NAME)),
        calls(&theirs(&format!("rsocket/{NAME}"), "librdmacm1")),
    );
    assert!(theirs.contains("socket"), "rdma-core's library cannot be read");
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // Also those that compilers and newer programs call.
    for name in [
        "__recv_chk",
        "accept4",
        "epoll_wait",
        "fcntl64",
        "ppoll",
        "sendfile64",
    ] {
        assert!(ours.contains(name), "{name}");
    }
}

/// It works with whichever librdmacm.so.1 there is: not with our verbs or crates alone.
#[test]
fn it_needs_rsockets_and_the_c_library_alone() {
    let needed = readelf("--dynamic", &ours(NAME));
    let names: BTreeSet<_> = needed
        .lines()
        .filter(|line| line.contains("NEEDED"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let allowed = [
        "librdmacm.so.1",
        "libc.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
    ];
    assert!(
        names.contains("librdmacm.so.1") && names.iter().all(|name| allowed.contains(name)),
        "{names:?}"
    );
    assert!(needed.contains("soname: [librspreload.so]"));
}
