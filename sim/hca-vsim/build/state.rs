//! What a model's state consists of, for the shim that compares it: read from the C++ that Verilator has written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Memories of less bytes are compared like registers.
const SMALLEST_MEMORY: u64 = 1024;

/// Number of the part that has the card's own clock.
const UNGATED: u32 = 63;

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

fn read(path: &Path) -> String {
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

/// The functions of a model that run in every cycle.
struct Code {
    /// By name, without the class.
    functions: HashMap<String, String>,
    /// What starts each function of `class`.
    class: String,
    /// Part of each trigger.
    triggers: BTreeMap<u32, u32>,
}

impl Code {
    fn read(obj: &Path, prefix: &str) -> Self {
        let class = format!("{prefix}___024root");
        let marker = format!("{class}___");
        let (mut functions, mut clocks) = (HashMap::new(), BTreeMap::new());
        let entries = fs::read_dir(obj).expect("the model's folder is there");
        let paths = entries.map(|entry| entry.expect("a folder of ours is readable").path());
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "cpp")) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !name.starts_with(&class) {
                continue;
            }
            let text = read(&path);
            clocks.extend(text.lines().filter_map(trigger));
            if !name.contains("Slow") {
                functions.extend(split(&text, &marker));
            }
        }
        let clocks = clocks.into_iter();
        let triggers = clocks
            .map(|(index, clock): (u32, String)| (index, part_of(&clock, &functions)))
            .collect();
        Self {
            functions,
            class: marker,
            triggers,
        }
    }

    /// A function's text with that of all that it calls.
    fn whole(&self, text: &str) -> String {
        let (mut out, mut todo) = (String::new(), vec![text]);
        let mut seen = BTreeSet::new();
        while let Some(text) = todo.pop() {
            out.push_str(text);
            out.push('\n');
            // A message for debugging names the function that it is in.
            let calls = idents_after(text, &self.class).filter(|(_, rest)| rest.starts_with('('));
            for (name, _) in calls {
                if let Some((name, body)) = self.functions.get_key_value(name)
                    && seen.insert(name)
                {
                    todo.push(body);
                }
            }
        }
        out
    }
}

/// Verilator tells in a message what each trigger is: its index, and the name of its clock.
fn trigger(line: &str) -> Option<(u32, String)> {
    let (_, rest) = line.split_once("region trigger index ")?;
    let (index, rest) = rest.split_once(" is active: @(posedge ")?;
    let (clock, _) = rest.split_once(")\\n")?;
    Some((index.parse().ok()?, clock.to_owned()))
}

/// The part that a clock belongs to, from its name or from where the code makes it.
fn part_of(clock: &str, functions: &HashMap<String, String>) -> u32 {
    if clock == "clk_i" {
        return UNGATED;
    }
    if let Some((_, rest)) = clock.split_once("part_en_i[") {
        let end = rest.find(']').unwrap_or(rest.len());
        return rest[..end].parse().expect("a part has a number");
    }
    let member = clock
        .replace('.', "__DOT__")
        .replace('[', "__BRA__")
        .replace(']', "__KET__");
    let found = functions.values().find_map(|text| {
        let (_, rest) = text.split_once(&format!("vlSelfRef.{member} "))?;
        let made = rest.trim_start().strip_prefix("= ")?.split(';').next()?;
        made.split_once("part_en_i").map(|(_, shift)| shift.to_owned())
    });
    let shift = found.unwrap_or_else(|| panic!("Verilator made a clock '{clock}' that is of no part"));
    let Some((_, amount)) = shift.split_once(">> ") else {
        return 0;
    };
    let digits = amount.split('U').next().unwrap_or(amount);
    let part = match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    part.unwrap_or_else(|e| panic!("Verilator's shift by '{digits}' for the clock '{clock}': {e}"))
}

/// The functions of a file: they begin and end at the left margin.
fn split(text: &str, marker: &str) -> Vec<(String, String)> {
    let mut functions = Vec::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some((_, body)) = &mut current {
            if line == "}" {
                functions.extend(current.take());
            } else {
                body.push_str(line);
                body.push('\n');
            }
        } else if line.ends_with('{')
            && !line.starts_with(' ')
            && let Some((name, _)) = idents_after(line, marker).next()
        {
            current = Some((name.to_owned(), String::new()));
        }
    }
    functions
}

/// The identifiers that follow a text, each with what comes behind it.
fn idents_after<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(before).map(move |(at, _)| {
        let rest = &text[at + before.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest.split_at(end.unwrap_or(rest.len()))
    })
}

fn members(text: &str) -> BTreeSet<String> {
    let of = |before| idents_after(text, before).map(|(name, _)| name.to_owned());
    let members = of("vlSelfRef.").chain(of("vlSelf->"));
    members.filter(|name| name != "vlSymsp").collect()
}

/// Members that some code touches, and those of them that it assigns to.
#[derive(Default)]
struct Touched {
    all: BTreeSet<String>,
    assigned: BTreeSet<String>,
}

impl Touched {
    fn add(&mut self, text: &str) {
        self.all.extend(members(text));
        let assigned = idents_after(text, "vlSelfRef.").filter(|(_, rest)| is_assignment(rest));
        self.assigned.extend(assigned.map(|(name, _)| name.to_owned()));
    }
}

/// What follows is `= value`, behind any number of indices.
fn is_assignment(mut rest: &str) -> bool {
    while rest.starts_with('[') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        });
        rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
    }
    let rest = rest.trim_start();
    rest.starts_with("= ") || rest.starts_with("=\n")
}

/// Which code belongs to which part.
struct Parts {
    /// The code of each part's edge.
    own: BTreeMap<u32, Touched>,
    /// All other code.
    others: Touched,
}

impl Parts {
    fn find(code: &Code) -> Self {
        let empty = String::new();
        let nba = code.functions.get("eval_nba").unwrap_or(&empty);
        let mut parts = Self {
            own: BTreeMap::new(),
            others: Touched::default(),
        };
        for name in ["eval_ico", "eval_act"] {
            let text = code.functions.get(name).unwrap_or(&empty);
            parts.others.add(&code.whole(text));
        }
        for (mask, text) in blocks(nba) {
            let text = code.whole(&text);
            assert!(
                mask != 0 || members(&text).is_empty(),
                "Verilator wrote logic that depends on no clock, which this program does not know"
            );
            let part = code.triggers.get(&mask.trailing_zeros()).copied();
            match part.filter(|_| mask.is_power_of_two()) {
                Some(part) => parts.own.entry(part).or_default().add(&text),
                None => parts.others.add(&text),
            }
        }
        parts
    }

    /// Whether others may change it. A register (a name in _q) that the part alone assigns to nobody else does;
    /// anything else might be changed by whoever touches it, through a function too.
    fn is_shared(&self, part: u32, name: &str) -> bool {
        let others = self.own.iter().filter(|(other, _)| **other != part);
        let mut others = others.map(|(_, touched)| touched).chain([&self.others]);
        if name.ends_with("_q") && self.own[&part].assigned.contains(name) {
            return others.any(|touched| touched.assigned.contains(name));
        }
        others.any(|touched| touched.all.contains(name))
    }
}

/// The blocks of a function that depend on triggers: mask and text. What does not depend on any has mask 0.
fn blocks(function: &str) -> Vec<(u64, String)> {
    let (mut blocks, mut rest) = (Vec::new(), String::new());
    let mut current: Option<(u64, String)> = None;
    for line in function.lines() {
        if let Some((_, text)) = &mut current {
            if line == "    }" {
                blocks.extend(current.take());
            } else {
                text.push_str(line);
                text.push('\n');
            }
        } else if let Some(mask) = mask(line) {
            current = Some((mask, String::new()));
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    blocks.push((0, rest));
    blocks
}

fn mask(line: &str) -> Option<u64> {
    let inner = line.strip_prefix("    if ((")?;
    let inner = inner.strip_suffix("ULL & vlSelfRef.__VnbaTriggered[0U])) {")?;
    let mask = match inner.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => inner.parse(),
    };
    Some(mask.unwrap_or_else(|e| panic!("Verilator's mask of triggers '{inner}': {e}")))
}
