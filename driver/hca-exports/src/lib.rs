//! What our C libraries share: symbols, and the way in.
//!
//! * Each has a list `exports.txt`, a line for each symbol with its version in front. Build scripts make of it what the
//!   linker wants ([`link`]); [`exports!`] and [`jumps!`] give the symbols their functions, [`old_jumps!`] those of
//!   versions that programs are no longer linked with.
//! * [`errno`]: results become return values and errno, and no panic crosses.
//! * [`table`]: what a process has once, behind locks that a fork leaves free; what a program holds pointers to.
//! * [`next`]: what is behind a library that stands before the C library.
//! * [`elf`]: a library beside the one of rdma-core that it stands for, for tests.

pub mod elf;
pub mod errno;
pub mod next;
pub mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// For a build script: the cdylib has this soname, and the symbols of `exports.txt` beside the script.
///
/// # Panics
/// Outside of a build script, or with a list that cannot be read.
pub fn link(soname: &str) {
    println!("cargo:rerun-if-changed=exports.txt");
    let list = fs::read_to_string("exports.txt").expect("exports.txt lies beside build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let map = Path::new(&out).join("exports.map");
    fs::write(&map, version_map(&list)).expect("OUT_DIR is writable");
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,--version-script={}",
        map.display()
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
}

/// The linker's map of symbol versions: nodes in ascending order, each inheriting from the one before; a private node
/// stands alone.
///
/// # Panics
/// If a line is not VERSION NAME, with a number at the end of VERSION.
pub fn version_map(list: &str) -> String {
    let mut nodes: BTreeMap<(bool, u32, &str), String> = BTreeMap::new();
    for line in list.lines() {
        let (node, name) = line.split_once(' ').expect("exports.txt: VERSION NAME");
        let minor = node.rsplit(['.', '_']).next().and_then(|n| n.parse().ok());
        let key = (
            node.contains("PRIVATE"),
            minor.expect("a version ends with a number"),
            node,
        );
        *nodes.entry(key).or_default() += &format!("    {name};\n");
    }
    let (mut text, mut parent) = (String::new(), String::new());
    for ((is_private, _, node), names) in nodes {
        let inherits = if is_private { "" } else { &parent };
        text += &format!("{node} {{\n  global:\n{names}}}{inherits};\n");
        parent = format!(" {node}");
    }
    text
}

/// Functions by the names that programs link to.
#[macro_export]
macro_rules! exports {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        // A thread that is cancelled unwinds through it.
        unsafe extern "C-unwind" fn $name($($arg: $ty),*) $(-> $ret)? $body
        $crate::jumps!($name = $name,);
    )*};
}

/// Names that programs link to, for functions that are there already.
///
/// rustc gives every symbol that it exports its own anonymous version, so it must not know of these: each is a jump in
/// assembly to a Rust function that is not exported.
#[macro_export]
macro_rules! jumps {
    ($($name:ident = $function:path,)*) => {
        $(::std::arch::global_asm!(
            concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ": jmp {f}"),
            concat!(".size ", stringify!($name), ",.-", stringify!($name)),
            ".popsection",
            f = sym $function,
        );)*
    };
}

/// Versions that programs are no longer linked with: only one that was built long ago finds them. The linker's map does
/// not list them; the assembler names the version.
#[macro_export]
macro_rules! old_jumps {
    ($version:literal: $($name:ident = $function:path,)*) => {
        $(::std::arch::global_asm!(
            concat!(".pushsection .text.old_", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl old_", stringify!($name)),
            concat!(".type old_", stringify!($name), ",@function"),
            concat!("old_", stringify!($name), ": jmp {f}"),
            concat!(".size old_", stringify!($name), ",.-old_", stringify!($name)),
            concat!(".symver old_", stringify!($name), ",", stringify!($name), "@", $version),
            ".popsection",
            f = sym $function,
        );)*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_inherit_in_order() {
        let map = version_map("A_1.1 c\nA_1.0 a\nA_PRIVATE_34 p\nA_1.0 b\n");
        assert_eq!(
            map,
            "A_1.0 {\n  global:\n    a;\n    b;\n};\nA_1.1 {\n  global:\n    c;\n} A_1.0;\n\
             A_PRIVATE_34 {\n  global:\n    p;\n};\n"
        );
    }
}
