//! Builds `firmware/hca-fw` for the soft core and packs its image: what is loaded into the core's memory, from
//! address 0 on. The words behind the reset vector are the head (`image_head` of `abi/`); behind the image is the
//! head's signature, by the key in the file that HCA_FIRMWARE_KEY names, or by one that everybody knows.
//! `firmware/hca-boot`, which checks it, is built beside it.
//!
//! Without Rust's library for the target there is no image: what runs firmware natively needs none. Nor is there one of
//! a card with more than 1,024 lines, whose tables the core's memory does not hold.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[path = "src/sign.rs"]
mod sign;
#[path = "src/stack.rs"]
mod stack;

use hca_abi::{IMAGE_HEAD_OFFSET, IMAGE_MAGIC, ImageHead};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};

const TARGET: &str = "riscv32imc-unknown-none-elf";
/// The variable that names the file of the key.
const KEY_VARIABLE: &str = "HCA_FIRMWARE_KEY";
/// Small rather than fast in single steps; the processor has bit manipulation and reaches words at any address; the
/// linker makes calls of near functions short.
const FLAGS: &str =
    "-Cllvm-args=-inline-threshold=15 -Ctarget-feature=+unaligned-scalar-mem,+relax,+zba,+zbb,+zbs";
/// Of the firmware itself: its functions share what keeps registers (`firmware/hca-fw/src/frames.rs`), data near its
/// beginning are reached by a register (`link.x`), and only a table of jumps that is nearly full is worth its bytes.
const FIRMWARE_FLAGS: &str =
    ",+save-restore -Clink-arg=--relax-gp -Cllvm-args=-optsize-jump-table-density=70";
/// What the image and its data may have: below the memories' sizes, so that firmware does not grow unseen. The goals
/// are 66 and 132 KiB (docs/firmware.md, decision 0078).
const IMAGE_BUDGET_BYTES: usize = 66 << 10;
const DATA_BUDGET_BYTES: u64 = 132 << 10;
/// Zero bytes inside a run that cost no more than a new run.
const GAP_BYTES: usize = 2;
/// Most bytes that a run leaves as they are, and has.
const RUN_SKIP: usize = (1 << 15) - 1;
const RUN_BYTES: usize = 255;

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
    for variable in ["HCA_VSIM_LINES", KEY_VARIABLE] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let seed = seed();
    let image = if is_clippy() {
        None
    } else {
        build(root, &out, seed)
    };
    let image = image.unwrap_or_default();
    fs::write(out.join("image.bin"), &image.bytes).expect("OUT_DIR is writable");
    fs::write(out.join("rom.bin"), &image.rom).expect("OUT_DIR is writable");
    let facts = format!(
        "/// SHA-256 of the image.\npub const DIGEST: [u8; 32] = {:?};\n\
         /// What verifies its signature.\npub const PUBLIC_KEY: [u8; 32] = {:?};\n",
        image.digest,
        sign::public_key(seed)
    );
    fs::write(out.join("facts.rs"), facts).expect("OUT_DIR is writable");
}

#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
    digest: [u8; 32],
    rom: Vec<u8>,
}

/// The key that images are signed with.
fn seed() -> [u8; 32] {
    let Some(path) = env::var_os(KEY_VARIABLE).map(PathBuf::from) else {
        return sign::DEVELOPMENT_SEED;
    };
    println!("cargo:rerun-if-changed={}", path.display());
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{KEY_VARIABLE}: cannot read {}: {e}", path.display()));
    sign::seed_from(&text).unwrap_or_else(|e| panic!("{KEY_VARIABLE}: {}: {e}", path.display()))
}

/// Clippy runs nothing.
fn is_clippy() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    wrapper.is_some_and(|path| path.file_stem().is_some_and(|name| name == "clippy-driver"))
}

fn build(root: &Path, out: &Path, seed: [u8; 32]) -> Option<Image> {
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
    compile(root, &target_dir, "hca-fw", &[FLAGS, FIRMWARE_FLAGS].concat());
    compile(root, &target_dir, "hca-boot", FLAGS);
    let elf = |name: &str| {
        let path = target_dir.join(TARGET).join("firmware").join(name);
        fs::read(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
    };
    let mut image = pack(&elf("hca-fw"));
    image.bytes =
        sign::sign(&image.bytes, seed, |_| ()).unwrap_or_else(|e| panic!("the firmware's image: {e}"));
    image.digest = sign::head(&image.bytes)
        .expect("it has just been signed")
        .digest();
    image.rom = rom(&elf("hca-boot"));
    Some(image)
}

/// Builds a program of the soft core.
fn compile(root: &Path, target_dir: &Path, package: &str, flags: &str) {
    let cargo = env::var_os("CARGO").expect("cargo sets CARGO");
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["build", "--quiet", "--locked", "--package", package])
        .args(["--profile", "firmware", "--target", TARGET])
        .arg("--target-dir")
        .arg(target_dir)
        .env("RUSTFLAGS", flags)
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
        "{package} for the soft core could not be built:\n{said}"
    );
}

/// What is in the boot program's memory.
fn rom(elf: &[u8]) -> Vec<u8> {
    let file = object::File::parse(elf).unwrap_or_else(|e| panic!("the linker's file cannot be read: {e}"));
    let mut bytes = Vec::new();
    for segment in file.segments() {
        let data = segment
            .data()
            .unwrap_or_else(|e| panic!("a segment cannot be read: {e}"));
        let at = segment.address().checked_sub(hca_abi::SOC_ROM_BASE.into());
        let Some(at) = at.filter(|at| *at < hca_abi::SOC_ROM_BYTES.into()) else {
            continue;
        };
        let at = at as usize;
        let end = (at + data.len()).next_multiple_of(4);
        bytes.resize(bytes.len().max(end), 0);
        bytes[at..at + data.len()].copy_from_slice(data);
    }
    bytes
}

/// The image of a linked program.
fn pack(elf: &[u8]) -> Image {
    let file = object::File::parse(elf).unwrap_or_else(|e| panic!("the linker's file cannot be read: {e}"));
    let data_start = address_of(&file, "_data_start");
    let (mut bytes, mut first_values) = (Vec::new(), Vec::new());
    for segment in file.segments() {
        let data = segment
            .data()
            .unwrap_or_else(|e| panic!("a segment cannot be read: {e}"));
        if segment.address() >= u64::from(hca_abi::SOC_DATA_BASE) {
            let at = segment.address().saturating_sub(data_start) as usize;
            first_values.resize(first_values.len().max(at), 0);
            first_values.extend(data);
        } else {
            let at = segment.address() as usize;
            let end = (at + data.len()).next_multiple_of(4);
            bytes.resize(bytes.len().max(end), 0);
            bytes[at..at + data.len()].copy_from_slice(data);
        }
    }
    let data_at = bytes.len() as u32;
    bytes.extend(runs_of(&first_values));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let mut head = ImageHead::new();
    head.set_magic(IMAGE_MAGIC);
    head.set_data_at(data_at);
    head.set_bytes(bytes.len() as u32);
    head.set_version(hca_fw_core::Image::native().version);
    head.set_hardware(hca_fw_core::HARDWARE);
    bytes[IMAGE_HEAD_OFFSET as usize..][..ImageHead::BYTES].copy_from_slice(head.as_bytes());
    let data = file
        .sections()
        .filter(|section| matches!(section.kind(), SectionKind::Data | SectionKind::UninitializedData))
        .filter(|section| section.name() != Ok(".stack"));
    let data_bytes = data.map(|section| section.size()).sum();
    check_panics(&file);
    check_stack(&file);
    check_budgets(bytes.len(), data_bytes);
    Image {
        bytes,
        ..Image::default()
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

/// The stack is below the data: what outgrows it is an access fault, so it must not. An exception begins it anew.
fn check_stack(file: &object::File) {
    let room = address_of(file, "_stack_top") - u64::from(hca_abi::SOC_DATA_BASE);
    for root in ["run", "trap"] {
        let depth = stack::depth(file, root)
            .unwrap_or_else(|e| panic!("no bound of the firmware's stack is known: {e}"));
        assert!(
            u64::from(depth) <= room,
            "the firmware's stack may take {depth} bytes from '{root}' on, and has {room} (link.x)"
        );
    }
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

/// What link.x calls so.
fn address_of(file: &object::File, name: &str) -> u64 {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    symbol
        .unwrap_or_else(|| panic!("link.x has no '{name}'"))
        .address()
}

/// The bytes of data that are not zero, as runs: how many to leave, how many come, they; none ends
/// (`firmware/hca-fw/src/start.rs`).
fn runs_of(data: &[u8]) -> Vec<u8> {
    let next = |range: std::ops::Range<usize>| {
        range
            .clone()
            .find(|at| data.get(*at).is_some_and(|byte| *byte != 0))
    };
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(first) = next(at..data.len()) {
        let start = first.min(at + RUN_SKIP);
        let mut end = start + 1;
        while let Some(more) = next(end..end + GAP_BYTES + 1).filter(|more| more - start < RUN_BYTES) {
            end = more + 1;
        }
        let skip = start - at;
        if skip >= 1 << 7 {
            runs.push(1 << 7 | (skip >> 8) as u8);
        }
        runs.extend([skip as u8, (end - start) as u8]);
        runs.extend(&data[start..end]);
        at = end;
    }
    runs.extend([0, 0]);
    runs
}
