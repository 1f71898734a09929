//! What a model's state consists of, for the shim that compares it: read from the C++ that Verilator has written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::code::{Code, Parts};

/// Memories of less bytes are compared like registers.
const SMALLEST_MEMORY: u64 = 1024;

/// Number of the part that has the card's own clock.
pub const UNGATED: u32 = 63;

/// Writes hca_state.h, lists of members of the model's one structure:
///
/// * `HCA_PARTS(M)`: the numbers of the parts (hca_part_clock), and of what has the card's own clock.
/// * `HCA_GATED`: a bit for each part with a clock of its own; `HCA_TIMED`: for those that read the time.
/// * `HCA_TRIGGER_n`: the bit in Verilator's set of triggers that stands for a part's clock.
/// * `HCA_OWN_n(M)`, `HCA_SHARED_n(M)`: what an edge of a part's clock may read or write, memories and time left out.
///   What is shared others may write too.
pub fn write(obj: &Path, prefix: &str) {
    check_one_structure(obj, prefix);
    let root = read(&obj.join(format!("{prefix}___024root.h")));
    let memories: BTreeMap<&str, u64> = root.lines().filter_map(memory).collect();
    let mut text = String::new();
    let code = Code::read(obj, prefix);
    let mut parts = Parts::find(&code);
    // Whoever drives the model changes its inputs.
    parts
        .others
        .all
        .extend(root.lines().filter_map(input).map(str::to_owned));
    for (part, touched) in &parts.own {
        let known = touched
            .all
            .iter()
            .filter(|name| !is_bookkeeping(name) && *name != "now_i");
        let (mut alone, mut shared) = (Vec::new(), Vec::new());
        for name in known {
            let is_shared = parts.is_shared(*part, name);
            // A large memory that two parts touch could change behind the back of one of them.
            let is_memory = memories
                .get(name.as_str())
                .is_some_and(|bytes| *bytes >= SMALLEST_MEMORY);
            assert!(
                !is_memory || !is_shared,
                "{prefix}: several parts touch {name}: put them into one"
            );
            if !is_memory {
                if is_shared { &mut shared } else { &mut alone }.push(format!("M({name})"));
            }
        }
        text += &list(&format!("HCA_OWN_{part}(M)"), alone.into_iter());
        text += &list(&format!("HCA_SHARED_{part}(M)"), shared.into_iter());
    }
    for (index, part) in &code.triggers {
        writeln!(text, "#define HCA_TRIGGER_{part} {index}").expect("write to a string");
    }
    text += &list("HCA_PARTS(M)", parts.own.keys().map(|part| format!("M({part})")));
    let bits = |parts: &mut dyn Iterator<Item = &u32>| parts.fold(0u64, |bits, part| bits | 1 << part);
    let gated = bits(&mut parts.own.keys().filter(|part| **part != UNGATED));
    let timed = bits(
        &mut parts
            .own
            .keys()
            .filter(|part| parts.own[part].all.contains("now_i")),
    );
    assert!(
        gated != 0 || !root.contains("part_en_i"),
        "{prefix}: no part's clock was found in what Verilator wrote"
    );
    writeln!(text, "#define HCA_GATED {gated}ull\n#define HCA_TIMED {timed}ull").expect("write to a string");
    fs::write(obj.join("hca_state.h"), text).expect("OUT_DIR is writable");
}

/// Verilator's own: which clocks have ticked, and what a waveform has to look at.
fn is_bookkeeping(name: &str) -> bool {
    ["__Vm_", "__Vtrig", "__Vnba", "__Vact", "__Vico"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn list(name: &str, entries: impl Iterator<Item = String>) -> String {
    entries.fold(format!("#define {name}"), |text, entry| text + " \\\n  " + &entry) + "\n"
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

/// A memory by its line of the structure: an array with the name that hw/rtl/lib/hca_ram_1r1w.sv gives it, and its size
/// in bytes.
fn memory(line: &str) -> Option<(&str, u64)> {
    let (kind, name) = line.trim().strip_suffix(';')?.rsplit_once(' ')?;
    let is_memory = kind.starts_with("VlUnpacked<") && name.ends_with("__DOT__mem");
    is_memory.then(|| (name, bytes(kind)))
}

/// An input of the model by its line of the structure.
fn input(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim().split_once('(')?;
    let name = rest.split(',').next()?.trim_start_matches('&');
    kind.starts_with("VL_IN").then_some(name)
}

/// The size of a type of Verilator's.
fn bytes(kind: &str) -> u64 {
    let whole = kind;
    // The bits in use are told in a comment.
    let kind = kind.split("/*").next().unwrap_or(kind);
    let known = [("CData", 1), ("SData", 2), ("IData", 4), ("QData", 8)];
    if let Some((_, size)) = known.iter().find(|(name, _)| kind.starts_with(name)) {
        return *size;
    }
    let inside = |name: &str| kind.strip_prefix(name)?.strip_suffix('>').map(str::trim);
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let wide = inside("VlWide<").and_then(|words| Some(4 * number(words)?));
    let array = || {
        let (element, count) = whole
            .strip_prefix("VlUnpacked<")?
            .strip_suffix('>')?
            .rsplit_once(',')?;
        Some(bytes(element.trim()) * number(count)?)
    };
    let size = wide.or_else(array);
    size.unwrap_or_else(|| panic!("Verilator made a memory of an unknown type: {kind}"))
}

/// All state is to lie in the top module's structure.
fn check_one_structure(obj: &Path, prefix: &str) {
    let modules = read(&obj.join(format!("{prefix}__Syms.h")));
    let modules = modules.split("// MODULE INSTANCE STATE").nth(1).unwrap_or("");
    let modules = modules.split("// CONSTRUCTORS").next().unwrap_or("");
    let apart = modules
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split(' ').next_back());
    for name in apart.filter(|name| *name != "TOP") {
        let constant = name.ends_with("_pkg") || name.starts_with("TOP__std");
        assert!(
            constant,
            "{prefix}: state of {name} lies outside of the top module's structure"
        );
    }
}
