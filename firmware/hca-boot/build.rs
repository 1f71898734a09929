//! The linker script of the boot program, for the soft core alone.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=link.x");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
        println!("cargo:rustc-link-arg-bins=-T{}", folder.join("link.x").display());
        for (name, value) in [
            ("soc_rom_base", hca_abi::SOC_ROM_BASE),
            ("soc_rom_bytes", hca_abi::SOC_ROM_BYTES),
            ("soc_data_base", hca_abi::SOC_DATA_BASE),
            ("soc_data_bytes", hca_abi::SOC_DATA_BYTES),
        ] {
            println!("cargo:rustc-link-arg-bins=--defsym={name}={value}");
        }
    }
}
