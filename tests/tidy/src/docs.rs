//! Rules that keep the documentation true: links lead somewhere, and names in the walk-through exist.

use std::collections::BTreeSet;

use crate::{File, Finding, rtl, words};

/// The page whose names are checked, one by one.
pub const WALK_THROUGH: &str = "docs/life-of-a-wqe.md";

/// Relative links of every Markdown page.
pub fn links(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in files.iter().filter(|file| file.extension() == "md") {
        for (line, text) in prose_lines(&page.text) {
            for target in link_targets(text) {
                if !leads_somewhere(files, page, target) {
                    findings.push(Finding::new(
                        page,
                        line,
                        format!("the link to '{target}' leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// Lines outside fenced blocks, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target.trim()))
}

fn leads_somewhere(files: &[File], page: &File, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or("");
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = page.folder().split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    path.is_empty()
        || files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&folder))
}

/// Names in backticks on the walk-through page that the code does not have. Judged are:
/// `hca_module` and `hca_module.port`, `hca_crate::path::name`, `name()`, and files such as `ring.rs`.
/// Any other word in backticks is left to the reader.
pub fn walk_through_names(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == WALK_THROUGH) else {
        return Vec::new();
    };
    let code = Names::collect(files);
    let mut findings = Vec::new();
    for (line, text) in prose_lines(&page.text) {
        for name in text.split('`').skip(1).step_by(2) {
            if let Err(why) = code.check(name) {
                findings.push(Finding::new(page, line, format!("`{name}`: {why}")));
            }
        }
    }
    findings
}

/// The page that says why each dependency is there.
pub const DEPENDENCIES: &str = "docs/decisions/0001-dependencies.md";

/// Dependencies of manifests, Python and Debian packages without a line of their own in [`DEPENDENCIES`].
pub fn dependencies_explained(files: &[File]) -> Vec<Finding> {
    let page = files
        .iter()
        .find(|file| file.path == DEPENDENCIES)
        .map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for file in files {
        let names = match file.path.as_str() {
            "scripts/packages.txt" | "scripts/packages-dist.txt" | "scripts/requirements.txt" => {
                package_names(&file.text)
            }
            path if path == "Cargo.toml" || path.ends_with("/Cargo.toml") => crate_names(&file.text),
            _ => continue,
        };
        for name in names
            .into_iter()
            .filter(|name| !page.contains(&format!("`{name}`")))
        {
            findings.push(Finding::new(
                file,
                0,
                format!("{name} has no line in {DEPENDENCIES}"),
            ));
        }
    }
    findings
}

/// The other way round: lines of [`DEPENDENCIES`] about what nobody declares, and declarations that nobody uses.
///
/// A crate of the workspace's list must be asked for by a member; what a member asks for must be named in its sources.
pub fn dependencies_used(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut declared, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        if file.folder() == "scripts" {
            // Some packages are fetched by a script of their own.
            declared.extend(file.text.split(|c: char| c.is_whitespace() || "\"'=".contains(c)));
        }
        let Some(folder) = file.path.strip_suffix("Cargo.toml") else {
            continue;
        };
        let names = all_crate_names(&file.text);
        declared.extend(names.iter().copied());
        if folder.is_empty() {
            continue;
        }
        asked.extend(names.iter().copied());
        for name in names.into_iter().filter(|name| !is_named(files, folder, name)) {
            findings.push(Finding::new(file, 0, format!("{name} is declared and not used")));
        }
    }
    for file in files {
        let unused = match file.path.as_str() {
            "Cargo.toml" => {
                let names = all_crate_names(&file.text).into_iter();
                let unused = names.filter(|name| !asked.contains(name));
                unused
                    .map(|name| (0, format!("{name} is declared and no crate asks for it")))
                    .collect()
            }
            DEPENDENCIES => lines_about_nothing(&file.text, &declared),
            _ => Vec::new(),
        };
        findings.extend(
            unused
                .into_iter()
                .map(|(line, what)| Finding::new(file, line, what)),
        );
    }
    findings
}

/// Names in the first column of the page's tables that are declared nowhere.
fn lines_about_nothing(page: &str, declared: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let names = line.strip_prefix("| ").and_then(|row| row.split('|').next());
        for name in names.unwrap_or("").split('`').skip(1).step_by(2) {
            if !declared.contains(name) {
                found.push((
                    index + 1,
                    format!("{name} is explained and not declared anywhere"),
                ));
            }
        }
    }
    found
}

/// A Rust file below the folder names the crate, whose library may have a name of its own.
fn is_named(files: &[File], folder: &str, name: &str) -> bool {
    let manifest = files
        .iter()
        .find(|file| file.path.ends_with(&format!("/{name}/Cargo.toml")));
    let library = manifest.and_then(|manifest| manifest.text.split_once("[lib]\nname = \""));
    let library = library.and_then(|(_, after)| after.split('"').next());
    let name = library.unwrap_or(name).replace('-', "_");
    files
        .iter()
        .filter(|file| file.extension() == "rs" && file.path.starts_with(folder))
        .any(|file| words(&file.text).any(|(_, word)| word == name))
}

fn package_names(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split("==").next())
        .map(str::trim)
        .collect()
}

/// Names in the dependency sections of a manifest, without the crates of this repository.
fn crate_names(text: &str) -> Vec<&str> {
    let names = all_crate_names(text).into_iter();
    names.filter(|name| !name.starts_with("hca-")).collect()
}

/// Names in the dependency sections of a manifest.
fn all_crate_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut wanted = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            wanted = line.ends_with("dependencies]");
        } else if let Some((key, _)) = line.split_once('=').filter(|_| wanted && !line.starts_with('#')) {
            let name = key.split('.').next().unwrap_or(key).trim();
            names.push(name);
        }
    }
    names
}

/// What the code declares.
struct Names<'a> {
    files: &'a [File],
    /// Rust: (crate with underscores, name).
    rust: BTreeSet<(String, String)>,
    /// Functions of any language.
    functions: BTreeSet<String>,
}

impl<'a> Names<'a> {
    fn collect(files: &'a [File]) -> Self {
        let mut names = Names {
            files,
            rust: BTreeSet::new(),
            functions: BTreeSet::new(),
        };
        for file in files {
            match file.extension() {
                "rs" => names.add_rust(file),
                "py" => names.add_after(&file.text, &["def"]),
                "sv" | "svh" => names.add_sv_functions(&file.text),
                _ => {}
            }
        }
        names
    }

    fn add_rust(&mut self, file: &File) {
        const KEYWORDS: [&str; 9] = [
            "fn",
            "struct",
            "enum",
            "trait",
            "const",
            "static",
            "type",
            "mod",
            "macro_rules",
        ];
        let krate = crate_of(file);
        self.rust.insert((krate.clone(), krate.clone()));
        self.rust.insert((krate.clone(), file.stem().to_owned()));
        for line in file
            .text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            let mut before = "";
            for (_, word) in words(line) {
                if before == "fn" {
                    self.functions.insert(word.to_owned());
                }
                if KEYWORDS.contains(&before) {
                    self.rust.insert((krate.clone(), word.to_owned()));
                }
                before = word;
            }
            // A variant, or an entry of a table, stands first on its line.
            if let Some((_, word)) = words(line)
                .next()
                .filter(|(_, word)| word.starts_with(char::is_uppercase))
            {
                self.rust.insert((krate.clone(), word.to_owned()));
            }
        }
    }

    fn add_after(&mut self, text: &str, keywords: &[&str]) {
        for line in text.lines() {
            let mut before = "";
            for (_, word) in words(line) {
                if keywords.contains(&before) {
                    self.functions.insert(word.to_owned());
                }
                before = word;
            }
        }
    }

    /// `function automatic logic [3:0] name(`: the name is the last word before the bracket.
    fn add_sv_functions(&mut self, text: &str) {
        for line in text
            .lines()
            .filter(|line| words(line).any(|(_, word)| word == "function"))
        {
            let head = line.split(['(', ';']).next().unwrap_or("");
            if let Some((_, name)) = words(head).last() {
                self.functions.insert(name.to_owned());
            }
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let is_name = |text: &str| !text.is_empty() && words(text).next() == Some((0, text));
        if name.contains("::") {
            return self.check_rust_path(name.trim_end_matches("()"));
        }
        if let Some(function) = name.strip_suffix("()").filter(|function| is_name(function)) {
            let known = self.functions.contains(function);
            return if known {
                Ok(())
            } else {
                Err("no function of this name".to_owned())
            };
        }
        if is_file_name(name) {
            let tail = format!("/{name}");
            let known = self
                .files
                .iter()
                .any(|file| file.path == name || file.path.ends_with(&tail));
            return if known {
                Ok(())
            } else {
                Err("no file of this name".to_owned())
            };
        }
        match name.split_once('.') {
            Some((module, port)) if module.starts_with("hca_") && is_name(port) => {
                let text = self.module(module).ok_or("no module of this name")?;
                let known = words(text).any(|(_, word)| word == port);
                if known {
                    Ok(())
                } else {
                    Err(format!("{module} has no {port}"))
                }
            }
            None if name.starts_with("hca_") && is_name(name) => {
                let known = self.module(name).is_some() || self.rust.iter().any(|(krate, _)| krate == name);
                if known {
                    Ok(())
                } else {
                    Err("no module or crate of this name".to_owned())
                }
            }
            _ => Ok(()),
        }
    }

    fn module(&self, name: &str) -> Option<&str> {
        let file = self
            .files
            .iter()
            .find(|file| file.extension() == "sv" && file.stem() == name)?;
        rtl::declared_names(&file.text)
            .iter()
            .any(|declared| declared == name)
            .then_some(file.text.as_str())
    }

    fn check_rust_path(&self, path: &str) -> Result<(), String> {
        let krate = path.split("::").next().filter(|first| first.starts_with("hca_"));
        for part in path.split("::") {
            let known = self
                .rust
                .iter()
                .any(|(of, name)| name == part && krate.is_none_or(|krate| krate == of));
            if !known {
                return Err(format!("{} has no {part}", krate.unwrap_or("the Rust code")));
            }
        }
        Ok(())
    }
}

fn is_file_name(name: &str) -> bool {
    let stem_ok = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    matches!(
        extension,
        Some("rs" | "sv" | "svh" | "py" | "rdl" | "sh" | "md" | "f")
    ) && name.chars().all(stem_ok)
}

/// The crate a Rust file belongs to, by its folder: `sim/hca-vsim/src/lib.rs` is of `hca_vsim`.
fn crate_of(file: &File) -> String {
    let folder = file
        .path
        .split('/')
        .find(|part| part.starts_with("hca-"))
        .unwrap_or("tests");
    folder.replace('-', "_")
}
