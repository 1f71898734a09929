//! Crates whose folders are floors: imports lead down, and never in a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::{File, Finding};

/// A crate's sources, and its floors from the ground up: folders or files in it. `lib.rs` stands on top.
pub struct House {
    /// Folder of the sources.
    pub sources: &'static str,
    /// Floors, lowest first.
    pub floors: &'static [&'static str],
}

/// The crates that are built so.
pub const HOUSES: [House; 5] = [
    House {
        sources: "driver/hca-driver/src",
        floors: &["base", "rings", "function"],
    },
    House {
        sources: "driver/hca-cm/src",
        floors: &[
            "layout",
            "message",
            "ip",
            "api",
            "outbox",
            "connection",
            "sidr",
            "engine",
            "lookups",
        ],
    },
    House {
        sources: "driver/hca-verbs/src",
        floors: &["values", "function", "objects", "connect", "streams"],
    },
    House {
        sources: "driver/hca-capi/src",
        floors: &["abi", "boundary", "cards", "objects", "entry", "exports", "flow"],
    },
    House {
        sources: "driver/hca-rdmacm/src",
        floors: &[
            "abi",
            "errno",
            "live",
            "address",
            "registry",
            "clock",
            "gsi",
            "sa",
            "channel",
            "state",
            "events",
            "xrc",
            "path",
            "qp",
            "srq",
            "ids",
            "multicast",
            "flow",
            "connect",
            "options",
            "info",
            "rsocket",
            "exports",
        ],
    },
];

/// Every file stands on a floor, imports nothing from above its own, and from its own nothing that imports it.
pub fn imports_lead_down(files: &[File]) -> Vec<Finding> {
    HOUSES.iter().flat_map(|house| judge(house, files)).collect()
}

/// One house.
pub fn judge(house: &House, files: &[File]) -> Vec<Finding> {
    let inside = |file: &&File| {
        let rest = file
            .path
            .strip_prefix(house.sources)
            .and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest.ends_with(".rs") && rest != "lib.rs")
    };
    let modules: BTreeMap<String, &File> = files
        .iter()
        .filter(inside)
        .map(|file| (module_of(house, file), file))
        .collect();
    let (mut findings, mut graph) = (Vec::new(), BTreeMap::new());
    for (module, file) in &modules {
        let Some(floor) = floor_of(house, module) else {
            let message = format!("stands on no floor of {}", house.sources);
            findings.push(Finding::new(file, 1, message));
            continue;
        };
        let mut targets = BTreeSet::new();
        for (line, path) in imports(module, file) {
            let Some(target) = resolve(&modules, &path) else {
                let message = format!(
                    "crate::{} is a name of lib.rs, which stands above: name its file",
                    path.join("::")
                );
                findings.push(Finding::new(file, line, message));
                continue;
            };
            if floor_of(house, &target).is_some_and(|above| above > floor) {
                findings.push(Finding::new(
                    file,
                    line,
                    format!("imports {target}, from a floor above"),
                ));
            }
            if target != *module {
                targets.insert(target);
            }
        }
        graph.insert(module.clone(), targets);
    }
    if let Some(circle) = circle(&graph) {
        let first = modules[&circle[0]];
        findings.push(Finding::new(
            first,
            1,
            format!("imports in a circle: {}", circle.join(" -> ")),
        ));
    }
    findings
}

/// `objects/cq.rs` is `objects::cq`, and `objects/mod.rs` is `objects`.
fn module_of(house: &House, file: &File) -> String {
    let name = file.path[house.sources.len() + 1..].trim_end_matches(".rs");
    name.trim_end_matches("/mod").replace('/', "::")
}

fn floor_of(house: &House, module: &str) -> Option<usize> {
    let first = module.split("::").next();
    house.floors.iter().position(|floor| Some(*floor) == first)
}

/// The module that a path from the crate's root names something of.
fn resolve(modules: &BTreeMap<String, &File>, path: &[String]) -> Option<String> {
    let prefixes = (1..=path.len()).rev().map(|len| path[..len].join("::"));
    prefixes.into_iter().find(|name| modules.contains_key(name))
}

/// Paths from the crate's root that a file names, with their lines: comments and its tests do not count.
fn imports(module: &str, file: &File) -> Vec<(usize, Vec<String>)> {
    let text = file.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect();
    let mut found = Vec::new();
    let children: Vec<&str> = code.iter().filter_map(|line| child(line)).collect();
    let code = code.join("\n");
    for (at, _) in code.match_indices("crate::") {
        if !is_part_of_name(&code, at) {
            let line = code[..at].matches('\n').count() + 1;
            tree(&code[at + "crate::".len()..], &mut Vec::new(), &mut |path| {
                found.push((line, path.to_vec()))
            });
        }
    }
    // A folder's own file names what is in it without more.
    for name in children {
        let prefix = format!("{name}::");
        for (at, _) in code.match_indices(&prefix) {
            if !is_part_of_name(&code, at) && !code[..at].ends_with("::") {
                let line = code[..at].matches('\n').count() + 1;
                let path = module.split("::").chain([name]).map(str::to_owned).collect();
                found.push((line, path));
            }
        }
    }
    found
}

/// The name in `mod name;`.
fn child(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    rest.strip_prefix("mod ")?.strip_suffix(';')
}

fn is_part_of_name(code: &str, at: usize) -> bool {
    code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Walks `a::{b, c::{d, e}}`, and tells every path in it. Returns what follows.
fn tree<'a>(text: &'a str, prefix: &mut Vec<String>, tell: &mut dyn FnMut(&[String])) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        while !rest.trim_start().starts_with('}') && !rest.trim().is_empty() {
            rest = tree(rest, prefix, tell).trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        return rest.trim_start().strip_prefix('}').unwrap_or("");
    }
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        // `*`, or something that is no path.
        tell(prefix);
        return rest
            .get(rest.chars().next().map_or(0, char::len_utf8)..)
            .unwrap_or("");
    }
    prefix.push(name.to_owned());
    let rest = match rest.strip_prefix("::") {
        Some(more) => tree(more, prefix, tell),
        None => {
            tell(prefix);
            // `as name`
            &rest[rest.find([',', '}', ';', '(', ')', '\n']).unwrap_or(rest.len())..]
        }
    };
    prefix.pop();
    rest
}

/// Modules that import each other, the first one again at the end.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn visit(
        graph: &BTreeMap<String, BTreeSet<String>>,
        module: &str,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|other| other == module) {
            let mut circle = way[start..].to_vec();
            circle.push(module.to_owned());
            return Some(circle);
        }
        if !done.insert(module.to_owned()) {
            return None;
        }
        way.push(module.to_owned());
        let targets = graph.get(module).into_iter().flatten();
        let found = targets
            .into_iter()
            .find_map(|target| visit(graph, target, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|module| visit(graph, module, &mut Vec::new(), &mut done))
}
