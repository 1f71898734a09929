//! Verilates the card and the small test card, and compiles the C shim.

mod code;
mod state;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::SystemTime;

/// One Verilated design.
#[derive(Clone, Copy)]
struct Model<'a> {
    prefix: &'static str,
    top: &'static str,
    /// File lists that tools read before.
    before: &'static [&'static str],
    file_list: &'a str,
    /// Ports that the card is built with.
    ports: u8,
    /// Without HCA_VSIM_CFLAGS.
    cflags: &'static str,
}

/// HCA_VSIM_CXX names the compiler, HCA_VSIM_VERILATOR_FLAGS further options of Verilator.
/// HCA_VSIM_CORE, a file list, replaces the card by a variant with the same ports. A second port would cost a card with
/// one a quarter of its speed: it has a model of its own, which is compiled faster.
const MODELS: &[Model<'_>] = &[
    Model {
        prefix: "Vcore",
        top: CARD,
        before: &[],
        file_list: "hw/filelists/hca_core.f",
        ports: 1,
        cflags: "-O2 -march=native",
    },
    Model {
        prefix: "Vtwo",
        top: CARD,
        before: &[],
        file_list: "hw/filelists/hca_core.f",
        ports: 2,
        cflags: "-O1 -march=native",
    },
    Model {
        prefix: "Vprobe",
        top: CARD,
        before: &[],
        file_list: "sim/hca-vsim/testtop/hca_probe.f",
        ports: 1,
        cflags: "-O2 -march=native",
    },
    // The card's processor is a model of its own: who runs firmware natively neither evaluates it nor waits for it.
    Model {
        prefix: "Vsoc",
        top: "hca_fw_soc",
        before: &["hw/filelists/pkg.f", "hw/filelists/lib.f", ".tools/ibex/ibex.f"],
        file_list: "hw/filelists/soc.f",
        ports: 1,
        cflags: "-O3 -march=native",
    },
];

const CARD: &str = "hca_core";
/// What makes one evaluation of the soft core enough: src/soc.cpp does without Verilator's search for loops.
const IBEX_SPLITS: &str = "hw/lint/ibex.vlt";
const VERILATOR: &str = ".tools/verilator/bin/verilator";

impl Model<'_> {
    fn lists(&self) -> impl Iterator<Item = &str> {
        self.before.iter().copied().chain([self.file_list])
    }

    /// It has the card's ports and parts.
    fn is_card(&self) -> bool {
        self.top == CARD
    }
}

fn main() {
    let crate_dir = PathBuf::from(env_var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env_var("OUT_DIR"));
    let root = crate_dir
        .ancestors()
        .nth(2)
        .expect("the crate lies in sim/hca-models of the workspace")
        .to_path_buf();
    let verilator = find_verilator(&root);
    for var in [
        "VERILATOR",
        "HCA_VSIM_CFLAGS",
        "HCA_VSIM_CORE",
        "HCA_VSIM_CXX",
        "HCA_VSIM_PORTABLE",
        "HCA_VSIM_TRACE",
        "HCA_VSIM_VERILATOR_FLAGS",
    ] {
        println!("cargo:rerun-if-env-changed={var}");
    }
    for path in ["build", "src/shim.cpp", "src/soc.cpp", "src/parts.h"] {
        println!("cargo:rerun-if-changed={path}");
    }

    watch(IBEX_SPLITS);
    if is_clippy() {
        return;
    }
    let core_list = env::var("HCA_VSIM_CORE").ok();
    let models = MODELS.iter().map(|model| match &core_list {
        Some(list) if model.prefix == "Vcore" => Model {
            file_list: list,
            ..*model
        },
        _ => *model,
    });
    let models: Vec<Model> = models.collect();
    for model in &models {
        let mut files = Vec::new();
        for list in model.lists() {
            read_file_list(&root, list, &mut files);
        }
        for file in &files {
            watch(file);
        }
    }
    // Two of them are large, and neither can keep two processors busy all the time.
    let jobs = (thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
    thread::scope(|scope| {
        for model in &models {
            let (verilator, root, crate_dir, out) = (&verilator, &root, &crate_dir, &out);
            scope.spawn(move || {
                let obj = out.join(model.prefix);
                build_model(verilator, root, model, &obj, jobs);
                let include = verilator_include(&obj, model.prefix);
                compile_shim(crate_dir, &obj, &include, model);
            });
        }
    });
    for prefix in models.iter().map(|model| model.prefix) {
        println!("cargo:rustc-link-search=native={}", out.join(prefix).display());
        // The linker looks into archives in turn: who needs a thing comes before who has it.
        println!("cargo:rustc-link-lib=static=shim_{prefix}");
        println!("cargo:rustc-link-lib=static={prefix}");
    }
    println!("cargo:rustc-link-lib=static=verilated");
    link_libraries();
}

/// Clippy reads Rust and links nothing. Cargo keeps what is built for it apart from what is built to run, so that it
/// would wait for models that nobody uses.
fn is_clippy() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").map(PathBuf::from);
    wrapper.is_some_and(|path| path.file_stem().is_some_and(|name| name == "clippy-driver"))
}

/// HCA_VSIM_PORTABLE=1: the program shall run on machines that have other versions of the C++ runtime and of what
/// writes waveforms, or none, and tell nothing of the folder that it was built in.
fn is_portable() -> bool {
    env::var("HCA_VSIM_PORTABLE").is_ok_and(|value| value == "1")
}

fn link_libraries() {
    let is_static = is_portable();
    let compiler = cc::Build::new().cpp(true).get_compiler();
    // Of libatomic clang's code for Verilator's runtime wants a function that g++ does without.
    for lib in ["lz4", "z", "stdc++", "atomic"] {
        if !is_static {
            println!("cargo:rustc-link-lib={lib}");
            continue;
        }
        let name = format!("-print-file-name=lib{lib}.a");
        let output = compiler.to_command().arg(&name).output();
        let output = output.unwrap_or_else(|e| panic!("cannot run the C++ compiler for {name}: {e}"));
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let folder = path.parent().filter(|folder| folder.is_absolute());
        let folder = folder.unwrap_or_else(|| panic!("the C++ compiler finds no lib{lib}.a: install it"));
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static={lib}");
    }
    println!("cargo:rustc-link-lib=pthread");
}

fn env_var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// HCA_VSIM_TRACE=0 builds models without waveform support, in two thirds of the time.
fn waveforms() -> bool {
    env::var("HCA_VSIM_TRACE").map_or(true, |value| value != "0")
}

/// Relative to the crate, so that a checkout that is moved or copied with its `target` is not built anew.
fn watch(path_in_root: &str) {
    println!("cargo:rerun-if-changed=../../{path_in_root}");
}

fn find_verilator(root: &Path) -> PathBuf {
    let path = env::var_os("VERILATOR").map_or_else(
        || {
            watch(VERILATOR);
            root.join(VERILATOR)
        },
        PathBuf::from,
    );
    match Command::new(&path).arg("--version").output() {
        Ok(output) if output.status.success() => path,
        Ok(output) => panic!(
            "{} --version failed: {}\nRun `make setup`, or set VERILATOR to Verilator 5.036 or newer.",
            path.display(),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!(
            "cannot run Verilator at {}: {error}\nRun `make setup`, or set VERILATOR to its path.",
            path.display()
        ),
    }
}

/// Collects the files of a file list (see hw/filelists/README.md), the lists themselves and the include
/// folders.
fn read_file_list(root: &Path, list: &str, files: &mut Vec<String>) {
    let text = fs::read_to_string(root.join(list))
        .unwrap_or_else(|e| panic!("cannot read file list {list}: {e}\nRun `make setup`."));
    files.push(list.to_owned());
    for line in text
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").trim())
    {
        if let Some(nested) = line.strip_prefix("-f ") {
            read_file_list(root, nested.trim(), files);
        } else if let Some(dir) = line.strip_prefix("+incdir+") {
            files.push(dir.to_owned());
        } else if !line.is_empty() {
            files.push(line.to_owned());
        }
    }
}

/// Verilates and compiles a model. Of what Verilator writes only the changed files reach the folder in which make
/// works: a change of one RTL file compiles the few files in which its logic ends up.
fn build_model(verilator: &Path, root: &Path, model: &Model, obj: &Path, jobs: usize) {
    let cflags = env::var("HCA_VSIM_CFLAGS").unwrap_or_else(|_| model.cflags.to_owned());
    let paths = match is_portable() {
        true => format!(" -ffile-prefix-map={}=.", root.display()),
        false => String::new(),
    };
    let opts = format!("OPT_FAST={cflags}{paths}");
    let global = format!("OPT_GLOBAL=-O2{paths}");
    let cxx = format!("CXX={}", compiler());
    let fresh = obj.with_extension("new");
    remove_dir(&fresh);
    // Make looks at times alone.
    let (flags, known) = (
        obj.join("flags"),
        format!("{cxx} {opts} waveforms {}", waveforms()),
    );
    if fs::read_to_string(&flags).ok().as_ref() != Some(&known) {
        remove_dir(obj);
    }
    fs::create_dir_all(obj).expect("OUT_DIR is writable");
    verilate(verilator, root, model, &fresh);
    if model.is_card() {
        state::write(&fresh, model.prefix);
    } else {
        check_one_clock(&fresh);
    }
    renew(&fresh, obj);
    remove_dir(&fresh);
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(obj)
        .args(["-f", &format!("{}.mk", model.prefix), &format!("-j{jobs}")])
        .args([&opts, "OPT_SLOW=-O0", &global])
        .arg(cxx)
        .env_remove("MAKEFLAGS")
        .env_remove("CARGO_MAKEFLAGS")
        .env("CCACHE_NOHASHDIR", "1")
        // Without these ccache passes by everything that is compiled with a precompiled header.
        .env("CCACHE_SLOPPINESS", "pch_defines,time_macros");
    if Command::new("ccache").arg("--version").output().is_ok() {
        make.env("OBJCACHE", "ccache");
    }
    run_logged(&mut make, model, &obj.with_extension("make.log"));
    fs::write(&flags, known).expect("OUT_DIR is writable");
}

/// src/soc.cpp makes the edge of the only clock by itself: nothing else may trigger logic.
fn check_one_clock(obj: &Path) {
    let entries = fs::read_dir(obj).expect("Verilator made its folder");
    let paths = entries.map(|entry| entry.expect("a folder of ours is readable").path());
    let mut clocks = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "cpp")) {
        let text =
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        let triggers = text
            .lines()
            .filter_map(|line| line.split_once("region trigger index "));
        clocks.extend(triggers.map(|(_, trigger)| trigger.to_owned()));
    }
    let is_right = |trigger: &String| {
        let known = ["0 is active: @(posedge clk_i)", "1 is active: @(negedge clk_i)"];
        trigger.contains("Internal") || known.iter().any(|known| trigger.starts_with(known))
    };
    let wrong: Vec<_> = clocks.iter().filter(|trigger| !is_right(trigger)).collect();
    assert!(
        wrong.is_empty() && clocks.iter().any(|trigger| trigger.contains("posedge clk_i")),
        "the soft core has other clocks or loops: {wrong:?}; see {IBEX_SPLITS}"
    );
}

/// The C++ compiler of the models: clang where it is installed. Its models are by a fifth faster than those of g++, and
/// are built sooner (docs/simulator-speed.md).
fn compiler() -> String {
    env::var("HCA_VSIM_CXX").unwrap_or_else(|_| {
        let runs = |name: &str| Command::new(name).arg("--version").output().is_ok();
        let name = if runs("clang++") { "clang++" } else { "g++" };
        name.to_owned()
    })
}

fn remove_dir(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        let gone = error.kind() == std::io::ErrorKind::NotFound;
        assert!(gone, "cannot remove {}: {error}", path.display());
    }
}

/// Copies the files that differ from those that are there.
fn renew(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).expect("OUT_DIR is readable") {
        let path = entry.expect("a folder of ours is readable").path();
        let name = path.file_name().expect("a file has a name");
        // A model that has shrunk.
        if path.extension().is_some_and(|end| end == "cpp") && !from.join(name).exists() {
            fs::remove_file(&path).unwrap_or_else(|e| panic!("cannot remove {}: {e}", path.display()));
        }
    }
    for entry in fs::read_dir(from).expect("Verilator made its folder") {
        let path = entry.expect("a folder of ours is readable").path();
        let read =
            |path: &Path| fs::read(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        let mut text = read(&path);
        let name = path.file_name().expect("a file has a name").to_string_lossy();
        if name.ends_with(".h") {
            text = without_order(&String::from_utf8_lossy(&text)).into_bytes();
        } else if name.ends_with("_classes.mk") {
            text = traced_slow(&String::from_utf8_lossy(&text)).into_bytes();
        }
        let target = to.join(name.as_ref());
        if !target.exists() || read(&target) != text {
            fs::write(&target, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", target.display()));
        }
    }
}

/// A header without the order relation that Verilator gives every struct. Nothing uses it, and as it compares tuples
/// of all members, those of the register block take two thirds of the compiler's time for any file that includes them.
fn without_order(header: &str) -> String {
    let (mut kept, mut inside) = (String::with_capacity(header.len()), false);
    for line in header.lines() {
        inside |= line.starts_with("    bool operator<(");
        if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
        inside &= line != "    }";
    }
    kept
}

/// Verilator's list of files, where those that run only while a waveform is written are among those that are compiled
/// without optimization: with it they took a sixth of the compiler's time.
fn traced_slow(makefile: &str) -> String {
    makefile.replace("VM_SUPPORT_FAST +=", "VM_SUPPORT_SLOW +=")
}

fn verilate(verilator: &Path, root: &Path, model: &Model, out: &Path) {
    let mut command = Command::new(verilator);
    command
        .current_dir(root)
        .args([
            "--cc",
            "-O3",
            "--assert",
            "--x-initial",
            "unique",
            "--x-assign",
            "fast",
        ])
        // One structure holds all state: the shim compares it.
        .args(["--output-split", "20000", "--no-timing", "--flatten"])
        .arg("--no-std-package")
        .arg(format!("+define+HCA_NUM_PORTS={}", model.ports))
        .arg(format!("+define+HCA_NUM_LINES={}", env_var("DEP_HCA_VSIM_LINES")))
        .args(
            env::var("DEP_HCA_VSIM_FUNCTIONS").map(|functions| format!("+define+HCA_NUM_FUNCS={functions}")),
        )
        .args(env::var("DEP_HCA_VSIM_FEATURES").map(|features| format!("+define+HCA_FEATURES={features}")))
        .args(env::var("DEP_HCA_VSIM_SMALL_POOLS").map(|_| "+define+HCA_SMALL_POOLS"))
        .arg(format!(
            "+define+HCA_NUM_VLS={}",
            env_var("DEP_HCA_VSIM_DATA_VLS")
        ))
        .args(if waveforms() {
            &["--trace-fst", "--trace-structs"][..]
        } else {
            &[]
        })
        .args(["-Wno-fatal", "-Wno-lint", "-Wno-style"])
        .args(["--top-module", model.top, "--prefix", model.prefix, "--Mdir"])
        .arg(out)
        .args(["-CFLAGS", "-fPIC"])
        .args((!model.is_card()).then_some(IBEX_SPLITS))
        .args(model.lists().flat_map(|list| ["-f", list]))
        // Of two that contradict each other the last one counts.
        .args(
            env::var("HCA_VSIM_VERILATOR_FLAGS")
                .unwrap_or_default()
                .split_ascii_whitespace(),
        );
    run_logged(&mut command, model, &out.with_extension("log"));
}

/// Runs a command; where it fails, shows the end of what it said.
fn run_logged(command: &mut Command, model: &Model, log: &Path) {
    let file = fs::File::create(log).expect("OUT_DIR is writable");
    let copy = file.try_clone().expect("duplicate a file handle");
    let status = command.stdout(copy).stderr(file).status();
    let status = status.unwrap_or_else(|e| panic!("cannot run {}: {e}", command.get_program().display()));
    if !status.success() {
        // A compiler that was ended in the middle leaves a header that looks ready: begin anew next time.
        remove_dir(&log.with_extension("").with_extension(""));
        let text = fs::read_to_string(log).unwrap_or_default();
        let start = text.char_indices().rev().nth(6000).map_or(0, |(i, _)| i);
        panic!(
            "{} could not be built from {}; {} ends with:\n{}",
            model.prefix,
            model.file_list,
            log.display(),
            &text[start..]
        );
    }
}

/// The include folder of the Verilator that made this model, from its makefile.
fn verilator_include(obj: &Path, prefix: &str) -> String {
    let makefile = obj.join(format!("{prefix}.mk"));
    let text =
        fs::read_to_string(&makefile).unwrap_or_else(|e| panic!("cannot read {}: {e}", makefile.display()));
    let root = text
        .lines()
        .find_map(|line| line.strip_prefix("VERILATOR_ROOT = "));
    format!(
        "{}/include",
        root.expect("Verilator writes VERILATOR_ROOT into its makefile")
            .trim()
    )
}

fn compile_shim(crate_dir: &Path, obj: &Path, include: &str, model: &Model) {
    let prefix = model.prefix;
    let source = if model.is_card() {
        "src/shim.cpp"
    } else {
        "src/soc.cpp"
    };
    let name = format!("shim_{prefix}");
    let ports = PathBuf::from(env_var("DEP_HCA_VSIM_INCLUDE"));
    let of_model = fs::read_dir(obj).expect("OUT_DIR is readable");
    let of_model = of_model.map(|entry| entry.expect("a folder of ours is readable").path());
    let headers = of_model.filter(|path| path.extension().is_some_and(|end| end == "h"));
    let others = [source, "src/parts.h"].map(|path| crate_dir.join(path));
    let mut inputs = headers.chain(others).chain([ports.join("hca_ports.h")]);
    let made = modified(&obj.join(format!("lib{name}.a")));
    if made.is_some_and(|made| inputs.all(|path| modified(&path).is_some_and(|time| time < made))) {
        return;
    }
    cc::Build::new()
        .cpp(true)
        .compiler(compiler())
        .std("c++20")
        .file(crate_dir.join(source))
        .define("MODEL", prefix)
        .define("VM_TRACE", if waveforms() { "1" } else { "0" })
        .define("VM_TRACE_FST", if waveforms() { "1" } else { "0" })
        .define("MODEL_HEADER", format!("\"{prefix}.h\"").as_str())
        .define("ROOT_HEADER", format!("\"{prefix}___024root.h\"").as_str())
        .define("ROOT", format!("{prefix}___024root").as_str())
        .include(obj)
        .include(ports)
        .include(include)
        .include(format!("{include}/vltstd"))
        .flag("-Wno-invalid-offsetof")
        .warnings(false)
        .opt_level(2)
        .flag(if is_portable() {
            "-mtune=generic"
        } else {
            "-march=native"
        })
        .out_dir(obj)
        .cargo_metadata(false)
        .compile(&name);
}

/// When a file was written last, if it is there.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}
