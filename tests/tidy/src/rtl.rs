//! Rules for `hw/rtl` and the file lists of `hw/filelists`.

use std::collections::BTreeSet;

use crate::{File, Finding, words};

fn rtl_files(files: &[File]) -> impl Iterator<Item = &File> {
    files
        .iter()
        .filter(|file| file.path.starts_with("hw/rtl/") && file.extension() == "sv")
}

/// One module or package per file, named as the file, with the project's prefix.
pub fn one_module_per_file(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rtl_files(files) {
        let names = declared_names(&file.text);
        if names != [file.stem()] {
            let found = if names.is_empty() {
                "nothing".to_owned()
            } else {
                names.join(", ")
            };
            findings.push(Finding::new(
                file,
                0,
                format!("declares {found}; must declare {} alone", file.stem()),
            ));
        }
        if !file.stem().starts_with("hca_") {
            findings.push(Finding::new(file, 0, "the name of an RTL file starts with hca_"));
        }
    }
    findings
}

/// Names of the modules, packages and interfaces that a SystemVerilog text declares.
pub fn declared_names(text: &str) -> Vec<String> {
    let code = without_comments(text);
    let mut names = Vec::new();
    for line in code.lines() {
        let mut words = words(line)
            .map(|(_, word)| word)
            .filter(|word| *word != "automatic");
        if matches!(words.next(), Some("module" | "package" | "interface"))
            && let Some(name) = words.next()
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// `initial` blocks and delays: hardware has neither, and a simulation that relies on them lies.
pub fn synthesisable(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rtl_files(files) {
        for (index, line) in without_comments(&file.text).lines().enumerate() {
            if words(line).any(|(_, word)| word == "initial") {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    "an initial block: reset control flops, leave RAM alone",
                ));
            }
            if has_delay(line) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    "a delay (#): RTL has no time but its clock",
                ));
            }
        }
    }
    findings
}

/// A `unique case` is an assertion: a value that no item names ends the simulation of every card. What a client writes
/// may be any value, so each has a default.
pub fn unique_cases_have_a_default(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rtl_files(files) {
        // Of the cases around a word: line, must it have a default, has it one.
        let mut open: Vec<(usize, bool, bool)> = Vec::new();
        let mut before = String::new();
        for (index, line) in without_comments(&file.text).lines().enumerate() {
            for (place, (_, word)) in words(line).enumerate() {
                match word {
                    "case" | "casez" | "casex" => {
                        let checked = matches!(before.as_str(), "unique" | "unique0" | "priority");
                        open.push((index + 1, checked, false));
                    }
                    "default" if place == 0 => {
                        if let Some((_, _, has)) = open.last_mut() {
                            *has = true;
                        }
                    }
                    "endcase" => {
                        if let Some((line, true, false)) = open.pop() {
                            findings.push(Finding::new(
                                file,
                                line,
                                "a unique case without a default: no value from outside may stop the simulation",
                            ));
                        }
                    }
                    _ => {}
                }
                word.clone_into(&mut before);
            }
        }
    }
    findings
}

/// A `#` that does not open the parameters of a module: `#5`, `#Delay`, `begin #(5)`.
fn has_delay(line: &str) -> bool {
    line.match_indices('#').any(|(at, _)| {
        let opens_parameters = line[at + 1..].trim_start().starts_with('(');
        let before = line[..at].trim_end();
        let word = words(before)
            .last()
            .filter(|(start, word)| start + word.len() == before.len());
        let after_name = match word {
            Some((_, word)) => !matches!(word, "begin" | "end" | "else" | "always" | "forever"),
            None => before.is_empty(), // a parameter list that stands on a line of its own
        };
        !(opens_parameters && after_name)
    })
}

/// Every RTL file is in a file list, and every file a list names is there.
pub fn file_lists(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for list in files
        .iter()
        .filter(|file| file.path.starts_with("hw/filelists/") && file.extension() == "f")
    {
        for (index, line) in list.text.lines().enumerate() {
            let entry = line.split("//").next().unwrap_or("").trim();
            let path = entry.strip_prefix("-f ").map_or(entry, str::trim);
            if path.is_empty() || path.starts_with("+incdir+") {
                continue;
            }
            if !files.iter().any(|file| file.path == path) {
                findings.push(Finding::new(list, index + 1, format!("{path} is not there")));
            }
            if !listed.insert(path) {
                findings.push(Finding::new(list, index + 1, format!("{path} is listed twice")));
            }
        }
    }
    for file in rtl_files(files).filter(|file| !listed.contains(file.path.as_str())) {
        findings.push(Finding::new(
            file,
            0,
            "in no file list: add it to one in hw/filelists, or delete it",
        ));
    }
    findings
}

/// The text with comments and strings blanked out; line breaks stay.
pub fn without_comments(text: &str) -> String {
    #[derive(Clone, Copy, PartialEq)]
    enum In {
        Code,
        Line,
        Block,
        Text,
    }
    let mut state = In::Code;
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let mut keep = state == In::Code;
        match (state, c, next) {
            (In::Code, '/', Some('/')) => (state, keep) = (In::Line, false),
            (In::Code, '/', Some('*')) => {
                chars.next();
                (state, keep) = (In::Block, false);
            }
            (In::Code, '"', _) => (state, keep) = (In::Text, false),
            (In::Line, '\n', _) => state = In::Code,
            (In::Block, '*', Some('/')) => {
                chars.next();
                state = In::Code;
            }
            (In::Text, '\\', Some(_)) => drop(chars.next()),
            (In::Text, '"', _) => state = In::Code,
            _ => {}
        }
        out.push(if keep || c == '\n' { c } else { ' ' });
    }
    out
}
