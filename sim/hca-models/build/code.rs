//! Which members of a model the code of each clock touches: read from the C++ that Verilator has written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use crate::state::{UNGATED, read};

/// The functions of a model that run in every cycle.
pub struct Code {
    /// By name, without the class.
    functions: HashMap<String, String>,
    /// What starts each function of `class`.
    class: String,
    /// Part of each trigger.
    pub triggers: BTreeMap<u32, u32>,
}

impl Code {
    pub fn read(obj: &Path, prefix: &str) -> Self {
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
                functions.extend(functions_of(&text, &marker));
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

    /// Bits of the parts that belong to the triggers of a mask.
    fn parts_of(&self, mask: u64) -> u64 {
        let part = |index: u32| {
            let part = self.triggers.get(&index);
            part.unwrap_or_else(|| panic!("Verilator wrote code for a trigger {index} that is no clock"))
        };
        let set = (0..u64::BITS).filter(|index| mask >> index & 1 != 0);
        set.fold(0, |bits, index| bits | 1 << part(index))
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
fn functions_of(text: &str, marker: &str) -> Vec<(String, String)> {
    let name = |line: &str| {
        let begins = line.ends_with('{') && !line.starts_with(' ');
        let (name, _) = idents_after(line, marker).next().filter(|_| begins)?;
        Some(name.to_owned())
    };
    sections(text, name, "}").0
}

/// The sections of a text from lines that `begins` knows to the next line `end`, and the rest.
fn sections<T>(text: &str, begins: impl Fn(&str) -> Option<T>, end: &str) -> (Vec<(T, String)>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut current: Option<(T, String)> = None;
    for line in text.lines() {
        if line == end && current.is_some() {
            found.extend(current.take());
        } else if let Some(begun) = begins(line).filter(|_| current.is_none()) {
            current = Some((begun, String::new()));
        } else {
            let text = current.as_mut().map_or(&mut rest, |(_, text)| text);
            text.push_str(line);
            text.push('\n');
        }
    }
    (found, rest)
}

/// The identifiers that follow a text, each with what comes behind it.
fn idents_after<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(before).map(move |(at, _)| {
        let rest = &text[at + before.len()..];
        let end = rest.find(|c| !is_of_name(c));
        rest.split_at(end.unwrap_or(rest.len()))
    })
}

fn members(text: &str) -> BTreeSet<String> {
    let of = |before| idents_after(text, before).map(|(name, _)| name.to_owned());
    let members = of("vlSelfRef.").chain(of("vlSelf->"));
    members.filter(|name| name != "vlSymsp").collect()
}

/// The time, an input.
const TIME: &str = "vlSelfRef.now_i";

/// Members that some code touches, and those of them that it assigns to.
#[derive(Default)]
pub struct Touched {
    pub all: BTreeSet<String>,
    /// It does more with the time than to keep it in a register, which shows by itself whether it does.
    pub is_timed: bool,
    assigned: BTreeSet<String>,
}

impl Touched {
    fn add(&mut self, text: &str) {
        self.all.extend(members(text));
        self.is_timed |= text.match_indices(TIME).any(|(at, _)| !is_kept(text, at));
        let assigned = idents_after(text, "vlSelfRef.").filter(|(_, rest)| is_assignment(rest));
        self.assigned.extend(assigned.map(|(name, _)| name.to_owned()));
        // Functions of Verilator's that are a statement write to one of their arguments.
        let statements = text.split([';', '{', '}']).map(str::trim_start);
        let calls = statements.filter(|statement| statement.starts_with("VL_"));
        self.assigned.extend(calls.flat_map(members));
    }
}

/// The time that stands here in a text is all that a register takes over.
fn is_kept(text: &str, at: usize) -> bool {
    let target = text[..at].trim_end().strip_suffix('=').map(str::trim_end);
    target.is_some_and(|target| target.ends_with("_q")) && text[at + TIME.len()..].starts_with(';')
}

/// What follows is `= value`, behind any number of indices and fields.
fn is_assignment(rest: &str) -> bool {
    let mut rest = rest.trim_start();
    while let Some(first) = rest.chars().next().filter(|c| ['[', '.'].contains(c)) {
        let mut depth = 0;
        let is_end = |c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            if first == '[' { depth < 0 } else { !is_of_name(c) }
        };
        let end = rest[1..].find(is_end).map_or(rest.len(), |end| end + 1);
        rest = rest[end..].trim_start_matches(']').trim_start();
    }
    rest.starts_with("= ") || rest.starts_with("=\n")
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Which code belongs to which part.
pub struct Parts {
    /// The code of each part's edge.
    pub own: BTreeMap<u32, Touched>,
    /// All code but that of one part alone, and the inputs.
    pub others: Touched,
}

impl Parts {
    pub fn find(code: &Code) -> Self {
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
        let (mut blocks, rest) = sections(nba, mask, "    }");
        blocks.push((0, rest));
        for (mask, text) in blocks {
            let text = code.whole(&text);
            assert!(
                mask != 0 || members(&text).is_empty(),
                "Verilator wrote logic that depends on no clock, which this program does not know"
            );
            let bits = code.parts_of(mask);
            if bits.is_power_of_two() {
                parts.own.entry(bits.trailing_zeros()).or_default().add(&text);
            } else {
                parts.others.add(&text);
            }
        }
        parts
    }

    /// Whether others may change it. A register (a name in _q) that the part alone assigns to nobody else does;
    /// anything else might be changed by whoever touches it, through a function too.
    pub fn is_shared(&self, part: u32, name: &str) -> bool {
        let others = self.own.iter().filter(|(other, _)| **other != part);
        let mut others = others.map(|(_, touched)| touched).chain([&self.others]);
        if name.ends_with("_q") && self.own[&part].assigned.contains(name) {
            return others.any(|touched| touched.assigned.contains(name));
        }
        others.any(|touched| touched.all.contains(name))
    }
}

/// The mask of triggers on which a block of a function depends, by its first line.
fn mask(line: &str) -> Option<u64> {
    let inner = line.strip_prefix("    if ((")?;
    let inner = inner.strip_suffix("ULL & vlSelfRef.__VnbaTriggered[0U])) {")?;
    let mask = match inner.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => inner.parse(),
    };
    Some(mask.unwrap_or_else(|e| panic!("Verilator's mask of triggers '{inner}': {e}")))
}
