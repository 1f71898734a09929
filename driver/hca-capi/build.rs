//! The linker's map of symbol versions.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    hca_exports::link("libibverbs.so.1");
}
