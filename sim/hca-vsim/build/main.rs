//! Generates the table of ports: here for Rust, and for the models in C++ (`DEP_HCA_VSIM_INCLUDE`).

mod ports;

use std::env;
use std::path::PathBuf;

fn main() {
    for var in [
        "HCA_VSIM_CFLAGS",
        "HCA_VSIM_FEATURES",
        "HCA_VSIM_FUNCS",
        "HCA_VSIM_LINES",
        "HCA_VSIM_POOLS",
        "HCA_VSIM_VLS",
    ] {
        println!("cargo:rerun-if-env-changed={var}");
    }
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let data_vls = data_vls();
    ports::write(&out, data_vls, cpu_level());
    println!("cargo:include={}", out.display());
    println!("cargo:data_vls={data_vls}");
    println!("cargo:lines={}", lines());
    // Without it the RTL has as many as the register map.
    if let Ok(functions) = env::var("HCA_VSIM_FUNCS") {
        println!("cargo:functions={}", checked_functions(&functions));
    }
    if let Ok(names) = env::var("HCA_VSIM_FEATURES") {
        println!("cargo:features={}", features(&names));
    }
    if let Ok(size) = env::var("HCA_VSIM_POOLS") {
        assert!(
            size == "small",
            "HCA_VSIM_POOLS is '{size}': set it to small, or leave it out"
        );
        println!("cargo:small_pools=1");
    }
}

/// HCA_VSIM_VLS: data VLs of each port of the models, 1, 2, 4, 8 (without it) or 15.
fn data_vls() -> u8 {
    let Ok(value) = env::var("HCA_VSIM_VLS") else {
        return 8;
    };
    let found = [1, 2, 4, 8, 15]
        .into_iter()
        .find(|vls: &u8| vls.to_string() == value);
    found.unwrap_or_else(|| panic!("HCA_VSIM_VLS is '{value}': set it to 1, 2, 4, 8 or 15"))
}

/// HCA_VSIM_LINES: lines of the models, that is, QPs: 1024 (without it), 4096 or 16384. The firmware reads it, too.
fn lines() -> u32 {
    let Ok(value) = env::var("HCA_VSIM_LINES") else {
        return 1024;
    };
    let found = [1024, 4096, 16384]
        .into_iter()
        .find(|lines: &u32| lines.to_string() == value);
    found.unwrap_or_else(|| panic!("HCA_VSIM_LINES is '{value}': set it to 1024, 4096 or 16384"))
}

/// HCA_VSIM_FUNCS: functions of the models, 1, 4 or 16 (without it). The firmware reads it, too.
fn checked_functions(value: &str) -> &str {
    assert!(
        ["1", "4", "16"].contains(&value),
        "HCA_VSIM_FUNCS is '{value}': set it to 1, 4 or 16"
    );
    value
}

/// HCA_VSIM_FEATURES: what the models have of that which a card may be built without: names of `feature` of the ABI
/// with commas between them, or `none`. The firmware reads it, too, and refuses a name that there is not. As the RTL
/// says it.
fn features(names: &str) -> String {
    if names.eq_ignore_ascii_case("none") {
        return "0".into();
    }
    let constant = |name: &str| {
        name.split('_').fold("Feature".to_owned(), |constant, word| {
            let (first, rest) = word.split_at(word.len().min(1));
            constant + &first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
        })
    };
    names.split(',').map(constant).collect::<Vec<_>>().join("|")
}

/// The processor that HCA_VSIM_CFLAGS compiles for, as its psABI level; 1 is any. Without that variable it is the one
/// that compiles, whatever it has.
fn cpu_level() -> u8 {
    let cflags = env::var("HCA_VSIM_CFLAGS").unwrap_or_default();
    let levels = [2, 3, 4];
    let named = levels.into_iter().find(|level| {
        let option = format!("-march=x86-64-v{level}");
        cflags.split_ascii_whitespace().any(|word| word == option)
    });
    named.unwrap_or(1)
}
