//! For build scripts: structures of Debian's C headers in Rust, with assertions of every size and offset.
//!
//! [`structures`] is how all of them are made. Those of verbs.h are made once, for `hca-ibv`; who has further headers
//! takes them from there ([`without_verbs`]).

use std::env;
use std::path::Path;

use bindgen::Builder;
use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

/// What is verbs.h's, by its names.
const VERBS: &str = "(ibv|verbs)_.*";

/// Structures with a default of zeros, enumerations as constants. `headers`: lines of C that include them.
pub fn structures(headers: &str) -> Builder {
    Builder::default()
        .header_contents("headers.h", headers)
        .derive_default(true)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .layout_tests(true)
        .generate_comments(false)
}

/// Nothing of verbs.h: the module that includes the file has `hca_ibv::abi` in scope.
pub fn without_verbs(builder: Builder) -> Builder {
    builder
        .blocklist_type(VERBS)
        .blocklist_function("ibv_.*")
        .blocklist_var("_?IBV_.*")
        .parse_callbacks(Box::new(VerbsElsewhere))
}

/// Writes `name` to OUT_DIR. `package`: Debian's, that has the headers.
///
/// # Panics
/// Outside of a build script, or when the headers cannot be read.
pub fn write(builder: Builder, name: &str, package: &str) {
    let bindings = builder.generate().unwrap_or_else(|e| {
        panic!("the headers of {package} cannot be read ({e}): apt-get install {package} libclang-dev")
    });
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let path = Path::new(&out).join(name);
    bindings.write_to_file(path).expect("OUT_DIR is writable");
}

/// Tells bindgen what the structures of `hca-ibv` can do.
#[derive(Debug)]
struct VerbsElsewhere;

impl ParseCallbacks for VerbsElsewhere {
    fn blocklisted_type_implements_trait(&self, _: &str, derived: DeriveTrait) -> Option<ImplementsTrait> {
        // Some have unions in them, which nobody can print.
        Some(match derived {
            DeriveTrait::Copy | DeriveTrait::Default => ImplementsTrait::Yes,
            _ => ImplementsTrait::No,
        })
    }
}
