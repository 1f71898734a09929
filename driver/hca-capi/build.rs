//! Two generated files: the structures of Debian's verbs headers, with assertions of every size and offset, and the
//! linker's map of symbol versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=exports.txt");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    structures(&out.join("verbs_h.rs"));
    let map = out.join("libibverbs.map");
    fs::write(&map, version_map()).expect("OUT_DIR is writable");
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,--version-script={}",
        map.display()
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
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

/// Nodes in ascending order, each inheriting from the one before; the private node stands alone.
fn version_map() -> String {
    let list = fs::read_to_string("exports.txt").expect("exports.txt lies beside build.rs");
    let mut nodes: BTreeMap<(bool, u32), (String, Vec<String>)> = BTreeMap::new();
    for line in list.lines() {
        let (node, name) = line.split_once(' ').expect("exports.txt: VERSION NAME");
        let minor = node.rsplit(['.', '_']).next().and_then(|n| n.parse().ok());
        let key = (
            node.contains("PRIVATE"),
            minor.expect("a version ends with a number"),
        );
        let entry = nodes.entry(key).or_insert_with(|| (node.to_string(), Vec::new()));
        entry.1.push(name.to_string());
    }
    let mut text = String::new();
    let mut parent = String::new();
    for (node, names) in nodes.into_values() {
        let names: String = names.iter().map(|name| format!("    {name};\n")).collect();
        let inherits = if node.contains("PRIVATE") { "" } else { &parent };
        text += &format!("{node} {{\n  global:\n{names}}}{inherits};\n");
        parent = format!(" {node}");
    }
    text
}
