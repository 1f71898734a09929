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

/// Puts what is compared together next to each other in the model's one structure, and writes hca_state.h:
///
/// * `HCA_PARTS(M)`: the numbers of the parts (hca_part_clock), and of what has the card's own clock.
/// * `HCA_GATED`: a bit for each part with a clock of its own; `HCA_TIMED`: for those that go by the time.
/// * `HCA_TRIGGER_n`: the bit in Verilator's set of triggers that stands for a part's clock.
/// * `HCA_OWN_n(R)`: what only the edges of a part's clock may write, memories left out, as `R(first member, last
///   member)`.
/// * `HCA_READS_n(R)`: what an edge of that clock reads and others or inputs may write. The time is left out.
pub fn write(obj: &Path, prefix: &str) {
    check_one_structure(obj, prefix);
    let path = obj.join(format!("{prefix}___024root.h"));
    let header = read(&path);
    let structure = Structure::find(&header);
    let code = Code::read(obj, prefix);
    let mut parts = Parts::find(&code);
    // Whoever drives the model changes its inputs.
    let inputs = header.lines().filter_map(input).map(str::to_owned);
    parts.others.all.extend(inputs);
    let groups = groups(&structure, &parts, prefix);
    let text = constants(&code, &parts) + &lists(&groups, &parts);
    assert!(
        parts.own.len() > 1 || !header.contains("part_en_i"),
        "{prefix}: no part's clock was found in what Verilator wrote"
    );
    fs::write(&path, structure.arranged(&groups)).expect("OUT_DIR is writable");
    fs::write(obj.join("hca_state.h"), text).expect("OUT_DIR is writable");
}

/// What members that lie next to each other have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// The part that alone may write to them.
    owner: Option<u32>,
    /// Bits of the other parts that look at them.
    readers: u64,
}

/// Members of each kind, in the order in which Verilator has them.
type Groups<'a> = BTreeMap<Kind, Vec<&'a str>>;

fn groups<'a>(structure: &Structure<'a>, parts: &Parts, prefix: &str) -> Groups<'a> {
    let mut groups = Groups::new();
    let members = structure.members.iter();
    for (name, line) in members.filter(|(name, _)| !is_bookkeeping(name) && *name != "now_i") {
        let touching = || {
            parts
                .own
                .keys()
                .filter(|part| parts.own[part].all.contains(*name))
        };
        let owner = touching().find(|part| !parts.is_shared(**part, name)).copied();
        let others = touching().filter(|part| Some(**part) != owner);
        let readers = others.fold(0, |bits, part| bits | 1 << part);
        if memory(line).is_some_and(|bytes| bytes >= SMALLEST_MEMORY) {
            // It could change behind the back of one of them.
            assert!(
                touching().count() < 2 && (owner.is_some() || readers == 0),
                "{prefix}: several parts touch {name}: put them into one"
            );
            continue;
        }
        if owner.is_none() && readers == 0 {
            continue;
        }
        groups.entry(Kind { owner, readers }).or_default().push(name);
    }
    groups
}

fn constants(code: &Code, parts: &Parts) -> String {
    let mut text = String::new();
    for (index, part) in &code.triggers {
        writeln!(text, "#define HCA_TRIGGER_{part} {index}").expect("write to a string");
    }
    text += &list("HCA_PARTS(M)", parts.own.keys().map(|part| format!("M({part})")));
    let bits = |parts: &mut dyn Iterator<Item = &u32>| parts.fold(0u64, |bits, part| bits | 1 << part);
    let gated = bits(&mut parts.own.keys().filter(|part| **part != UNGATED));
    let is_timed = |part: &&u32| parts.own[*part].is_timed;
    let timed = bits(&mut parts.own.keys().filter(is_timed));
    text + &format!("#define HCA_GATED {gated}ull\n#define HCA_TIMED {timed}ull\n")
}

fn lists(groups: &Groups, parts: &Parts) -> String {
    let mut text = String::new();
    for part in parts.own.keys() {
        let own = ranges(groups, |kind| kind.owner == Some(*part));
        text += &list(&format!("HCA_OWN_{part}(R)"), own.into_iter());
        let reads = ranges(groups, |kind| kind.readers >> part & 1 == 1);
        text += &list(&format!("HCA_READS_{part}(R)"), reads.into_iter());
    }
    text
}

/// The groups that are meant, those that follow each other in one piece.
fn ranges(groups: &Groups, is_meant: impl Fn(&Kind) -> bool) -> Vec<String> {
    let mut pieces: Vec<(&str, &str)> = Vec::new();
    let mut goes_on = false;
    for (kind, members) in groups {
        let ends = members.first().zip(members.last()).filter(|_| is_meant(kind));
        match (ends, pieces.last_mut().filter(|_| goes_on)) {
            (Some((_, last)), Some(piece)) => piece.1 = last,
            (Some((first, last)), None) => pieces.push((first, last)),
            (None, _) => {}
        }
        goes_on = ends.is_some();
    }
    let text = |(first, last)| format!("R({first}, {last})");
    pieces.into_iter().map(text).collect()
}

/// The model's structure in Verilator's header.
struct Structure<'a> {
    before: &'a str,
    /// Names and lines.
    members: Vec<(&'a str, &'a str)>,
    after: &'a str,
}

impl<'a> Structure<'a> {
    fn find(header: &'a str) -> Self {
        let place = |mark: &str| {
            let found = header.find(mark);
            found.unwrap_or_else(|| panic!("Verilator's header of the model has no line '{mark}'"))
        };
        let start = place("    // DESIGN SPECIFIC STATE\n");
        let end = place("    // INTERNAL VARIABLES\n");
        let lines = header[start..end].lines().map(str::trim);
        // Verilator gathers members into anonymous structures, for compilers that this program does not use.
        let lines = lines.filter(|line| line.ends_with(';') && *line != "};");
        Self {
            before: &header[..start],
            members: lines.map(|line| (member(line), line)).collect(),
            after: &header[end..],
        }
    }

    /// The header with the members of each group next to each other.
    fn arranged(&self, groups: &Groups) -> String {
        let lines: BTreeMap<&str, &str> = self.members.iter().copied().collect();
        let grouped = groups.values().flatten();
        let places: BTreeMap<&str, usize> = grouped.enumerate().map(|(place, name)| (*name, place)).collect();
        let mut members = self.members.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        members.sort_by_key(|name| places.get(name).copied().unwrap_or(usize::MAX));
        let members = members
            .into_iter()
            .fold(String::new(), |text, name| text + lines[name] + "\n");
        format!("{}{members}{}", self.before, self.after)
    }
}

/// A member's name by its line.
fn member(line: &str) -> &str {
    input_or_output(line).unwrap_or_else(|| {
        let declared = line.trim_end_matches(';');
        declared.rsplit_once(' ').map_or(declared, |(_, name)| name)
    })
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

/// The size in bytes of a memory by its line of the structure: an array with the name that hw/rtl/lib/hca_ram_1r1w.sv
/// gives it.
fn memory(line: &str) -> Option<u64> {
    let (kind, name) = line.strip_suffix(';')?.rsplit_once(' ')?;
    let is_memory = kind.starts_with("VlUnpacked<") && name.ends_with("__DOT__mem");
    is_memory.then(|| bytes(kind))
}

/// An input of the model by its line of the structure.
fn input(line: &str) -> Option<&str> {
    line.trim().starts_with("VL_IN").then(|| member(line.trim()))
}

fn input_or_output(line: &str) -> Option<&str> {
    let (kind, rest) = line.split_once('(')?;
    let is_port = kind.starts_with("VL_IN") || kind.starts_with("VL_OUT");
    is_port.then(|| rest.split(',').next().unwrap_or(rest).trim_start_matches('&'))
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
