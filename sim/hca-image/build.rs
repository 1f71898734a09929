//! Builds `firmware/hca-fw` for the soft core and packs its image: what is loaded into the core's memory, from
//! address 0 on. The words behind the reset vector are the head (see `firmware/hca-fw/src/start.rs`): magic, where the
//! first values of data are, bytes of the image, version, SHA-256 of the image with this field zero.
//!
//! Without Rust's library for the target there is no image: what runs firmware natively needs none. Nor is there one of
//! a card with more than 1,024 lines, whose tables the core's memory does not hold.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};
use sha2::{Digest, Sha256};

const TARGET: &str = "riscv32imc-unknown-none-elf";
/// Small rather than fast in single steps; the processor reaches words at any address.
const FLAGS: &str = "-Cllvm-args=-inline-threshold=60 -Ctarget-feature=+unaligned-scalar-mem";
const HEAD_OFFSET: usize = 0x84;
const MAGIC: u32 = 0x4657_4348;
const DIGEST_WORD: usize = 4;
const DIGEST_BYTES: usize = 32;
/// What the image and its data may have: below the memories' sizes, so that firmware does not grow unseen. The goals
/// are 64 and 128 KiB (docs/firmware.md).
const IMAGE_BUDGET_BYTES: usize = 84 << 10;
const DATA_BUDGET_BYTES: u64 = 128 << 10;
/// Zero words inside a run that cost less than a new run.
const GAP_WORDS: usize = 2;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let root = manifest
        .ancestors()
        .nth(2)
        .expect("the crate lies in sim/hca-image of the workspace");
    for path in ["firmware", "abi", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed=../../{path}");
    }
    println!("cargo:rerun-if-env-changed=HCA_VSIM_LINES");
    let image = if is_clippy() { None } else { build(root, &out) };
    let image = image.unwrap_or_default();
    fs::write(out.join("image.bin"), &image.bytes).expect("OUT_DIR is writable");
    let facts = format!(
        "/// Bytes of data that firmware has beside its stack.\npub const DATA_BYTES: u32 = {};\n\
         /// SHA-256 of the image.\npub const DIGEST: [u8; 32] = {:?};\n",
        image.data_bytes, image.digest
    );
    fs::write(out.join("facts.rs"), facts).expect("OUT_DIR is writable");
}

#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
    data_bytes: u64,
    digest: [u8; DIGEST_BYTES],
}

/// Clippy runs nothing.
fn is_clippy() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    wrapper.is_some_and(|path| path.file_stem().is_some_and(|name| name == "clippy-driver"))
}

fn build(root: &Path, out: &Path) -> Option<Image> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let libdir = Command::new(&rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let libdir = libdir
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", rustc.display()))
        .stdout;
    if !Path::new(String::from_utf8_lossy(&libdir).trim()).exists() {
        println!(
            "cargo:warning=no firmware for the soft core: run 'rustup target add {TARGET}', touch this build script"
        );
        return None;
    }
    // The core's memory is that of a card with as many lines as are built without being told.
    if let Some(lines) = env::var("HCA_VSIM_LINES").ok().filter(|lines| lines != "1024") {
        println!(
            "cargo:warning=no firmware for the soft core: with HCA_VSIM_LINES={lines} it does not fit, 1024 is the most"
        );
        return None;
    }
    let target_dir = out.join("target");
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "hca-fw",
            "--profile",
            "firmware",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTFLAGS", FLAGS)
        // The flag for words at any address is one that Rust does not promise to keep.
        .stderr(Stdio::piped());
    // What the outer cargo says of its own build.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy().into_owned();
        let is_of_outer =
            name_text.starts_with("CARGO_") && name_text != "CARGO_HOME" && name_text != "CARGO_NET_OFFLINE";
        if is_of_outer
            || [
                "RUSTC_WORKSPACE_WRAPPER",
                "RUSTC_WRAPPER",
                "RUSTC",
                "TARGET",
                "PROFILE",
            ]
            .contains(&name_text.as_str())
        {
            command.env_remove(name);
        }
    }
    let output = command.output().expect("cargo can be run again");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the firmware for the soft core could not be built:\n{said}"
    );
    let elf = target_dir.join(TARGET).join("firmware/hca-fw");
    let elf = fs::read(&elf).unwrap_or_else(|e| panic!("cannot read {}: {e}", elf.display()));
    Some(pack(&elf))
}

/// The image of a linked program.
fn pack(elf: &[u8]) -> Image {
    let file = object::File::parse(elf).unwrap_or_else(|e| panic!("the linker's file cannot be read: {e}"));
    let (mut bytes, mut runs) = (Vec::new(), Vec::new());
    for segment in file.segments() {
        let data = segment
            .data()
            .unwrap_or_else(|e| panic!("a segment cannot be read: {e}"));
        if segment.address() >= u64::from(hca_abi::SOC_DATA_BASE) {
            runs.extend(runs_of(segment.address(), data));
        } else {
            let at = segment.address() as usize;
            let end = (at + data.len()).next_multiple_of(4);
            bytes.resize(bytes.len().max(end), 0);
            bytes[at..at + data.len()].copy_from_slice(data);
        }
    }
    let data_at = bytes.len() as u32;
    runs.push(0);
    bytes.extend(runs.iter().flat_map(|word| word.to_le_bytes()));
    assert!(
        bytes.len() <= hca_abi::SOC_IMAGE_BYTES as usize,
        "the image has {} bytes, more than the soft core's memory",
        bytes.len()
    );
    let version = hca_fw_core::Image::native().version;
    for (word, value) in [MAGIC, data_at, bytes.len() as u32, version]
        .into_iter()
        .enumerate()
    {
        bytes[HEAD_OFFSET + 4 * word..][..4].copy_from_slice(&value.to_le_bytes());
    }
    let digest: [u8; DIGEST_BYTES] = Sha256::digest(&bytes).into();
    bytes[HEAD_OFFSET + 4 * DIGEST_WORD..][..DIGEST_BYTES].copy_from_slice(&digest);
    let data = file
        .sections()
        .filter(|section| matches!(section.kind(), SectionKind::Data | SectionKind::UninitializedData));
    let data_bytes = data.map(|section| section.size()).sum();
    check_panics(&file);
    check_budgets(bytes.len(), data_bytes);
    Image {
        data_bytes,
        bytes,
        digest,
    }
}

/// Who needs more raises the budget, and knows it.
fn check_budgets(image_bytes: usize, data_bytes: u64) {
    assert!(
        image_bytes <= IMAGE_BUDGET_BYTES,
        "the firmware's image has {image_bytes} bytes, its budget is {IMAGE_BUDGET_BYTES} (IMAGE_BUDGET_BYTES)"
    );
    assert!(
        data_bytes <= DATA_BUDGET_BYTES,
        "the firmware's data have {data_bytes} bytes, their budget is {DATA_BUDGET_BYTES} (DATA_BUDGET_BYTES)"
    );
}

/// A panic on the core would restart it into the same panic, so nothing may be able to panic: the linker keeps Rust's
/// functions for it only if something calls them.
fn check_panics(file: &object::File) {
    let is_panic = |name: &&str| name.contains("panicking") || name.contains("slice_index_fail");
    let names = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    let panics: Vec<String> = names.filter(|name| is_panic(&name.as_str())).collect();
    assert!(
        panics.is_empty(),
        "the firmware can panic: the image has {panics:?}. Whoever calls them indexes or slices without a check, or \
         divides by what may be 0: 'get', a Table or 'checked_div' instead"
    );
}

/// The words of data that are not zero, as runs: address, count, words.
fn runs_of(address: u64, data: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u32::from_le_bytes(word)
    };
    let words: Vec<u32> = data.chunks(4).map(word).collect();
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(start) = (at..words.len()).find(|index| words[*index] != 0) {
        let mut end = start + 1;
        while let Some(next) = (end..words.len().min(end + GAP_WORDS + 1)).find(|index| words[*index] != 0) {
            end = next + 1;
        }
        runs.extend([address as u32 + 4 * start as u32, (end - start) as u32]);
        runs.extend(&words[start..end]);
        at = end;
    }
    runs
}
