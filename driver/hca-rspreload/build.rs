//! The rsockets of whichever librdmacm.so.1 the program finds: ours, under hca run.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=dylib=rdmacm");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librspreload.so");
}
