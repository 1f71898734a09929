//! Each rule finds what it is for, and nothing else.

use hca_tidy::floors::{self, House};
use hca_tidy::{File, Finding, docs, rtl, style};

fn lines_of(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn file_size_spares_generated_files() {
    let long = "x\n".repeat(501);
    let generated = format!("// {} a script\n{long}", concat!("Generated", " by"));
    let files = [
        File::new("hw/rtl/a.sv", &long),
        File::new("hw/rtl/b.sv", &generated),
        File::new("c.rs", &long),
        File::new("d.md", &long),
    ];
    let findings = style::file_size(&files);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].path, "hw/rtl/a.sv");
}

#[test]
fn line_width_counts_characters() {
    let text = format!("{}\n{}\n", "─".repeat(120), "x".repeat(121));
    assert_eq!(lines_of(&style::line_width(&[File::new("a.rs", &text)])), [2]);
}

#[test]
fn tabs_are_for_make_only() {
    let files = [File::new("a.py", "a\n\tb\n"), File::new("Makefile", "a:\n\tb\n")];
    assert_eq!(lines_of(&style::tabs(&files)), [2]);
}

#[test]
fn two_benches_of_one_name() {
    let files = [
        File::new("tests/rtl/a/bench.py", ""),
        File::new("tests/rtl/b/bench.sv", ""),
        File::new("tests/rtl/b/bench.py", ""),
        File::new("tests/programs/bench.py", ""),
    ];
    let findings = style::bench_names(&files);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].path, "tests/rtl/b/bench.py");
}

#[test]
fn unfinished_work_is_a_word_not_a_part() {
    let text = concat!(
        "// TO",
        "DO later\nmktemp XXXXXX\nto",
        "do!()\nlet todo_list = 1;\n"
    );
    assert_eq!(lines_of(&style::unfinished(&[File::new("a.rs", text)])), [1, 3]);
}

#[test]
fn foreign_names_are_found_in_any_text() {
    let text = concat!(
        "see /wo",
        "rk/x\nnet/wo",
        "rk/x\n${a}/wo",
        "rk/x\n(/wo",
        "rk/x)\n"
    );
    assert_eq!(
        lines_of(&style::foreign_names(&[File::new("a.md", text)])),
        [1, 4]
    );
}

#[test]
fn module_and_file_share_a_name() {
    let files = [
        File::new(
            "hw/rtl/lib/hca_a.sv",
            "// module wrong\nmodule hca_a #(\n);\nendmodule\n",
        ),
        File::new(
            "hw/rtl/lib/hca_b.sv",
            "module hca_c;\nendmodule\nmodule hca_b;\nendmodule\n",
        ),
        File::new("hw/rtl/lib/hca_d.sv", ""),
        File::new("hw/rtl/lib/e.sv", "module automatic e;\nendmodule\n"),
        File::new("tests/rtl/wrap.sv", "module other;\nendmodule\n"),
    ];
    let paths: Vec<_> = rtl::one_module_per_file(&files)
        .into_iter()
        .map(|finding| finding.path)
        .collect();
    assert_eq!(
        paths,
        ["hw/rtl/lib/hca_b.sv", "hw/rtl/lib/hca_d.sv", "hw/rtl/lib/e.sv"]
    );
}

#[test]
fn unique_cases_without_a_default_are_found() {
    let text = "unique case (a)\n  1: case (b) default: x = '{default: 0}; endcase\n  2: x = '{default: 0};\nendcase\n\
                  unique case (a)\n  1: case (b)\n    2: x = 1;\n  endcase\n  default: x = 0;\nendcase\n\
                  case (a)\n  1: x = 1;\nendcase\npriority\n casez (a)\n  1: x = 1;\n  // default: x = 2;\nendcase\n";
    assert_eq!(
        lines_of(&rtl::unique_cases_have_a_default(&[File::new(
            "hw/rtl/hca_a.sv",
            text
        )])),
        [1, 15]
    );
}

#[test]
fn delays_and_initial_blocks_are_found() {
    let text = "module hca_a #(parameter int A = 1) ();\n  hca_b #(.W(1)) u_b ();\n  hca_c\n  #(\n  .W(1)) u_c ();\n\
                  #5 x = 1;\n  x <= #1 y;\n  begin #(5) x = 1; end\n  initial x = 0;\n\
                  // initial #5\n  $display(\"#1\"); /* #2\n initial */ logic initial_x;\n";
    assert_eq!(
        lines_of(&rtl::synthesisable(&[File::new("hw/rtl/hca_a.sv", text)])),
        [6, 7, 8, 9]
    );
}

#[test]
fn file_lists_and_files_agree() {
    let list = "// all\n+incdir+hw/rtl\n-f hw/filelists/b.f\nhw/rtl/hca_a.sv // why\nhw/rtl/gone.sv\nhw/rtl/hca_a.sv\n";
    let files = [
        File::new("hw/filelists/a.f", list),
        File::new("hw/filelists/b.f", ""),
        File::new("hw/rtl/hca_a.sv", ""),
        File::new("hw/rtl/hca_dead.sv", ""),
    ];
    let findings: Vec<_> = rtl::file_lists(&files).iter().map(Finding::to_string).collect();
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings[0].contains("gone.sv is not there"));
    assert!(findings[1].contains("listed twice"));
    assert!(findings[2].contains("hca_dead.sv: in no file list"));
}

#[test]
fn links_are_followed_from_their_page() {
    let page = "[a](b.md#part) [b](../README.md) [c](#here) [d](https://x.example/y) [e](../hw)\n\
                ```\n[f](nowhere)\n```\n[g](gone.md) [h](../../outside.md)\n";
    let files = [
        File::new("docs/a.md", page),
        File::new("docs/b.md", ""),
        File::new("README.md", ""),
        File::new("hw/x.sv", ""),
    ];
    assert_eq!(lines_of(&docs::links(&files)), [5, 5]);
}

fn walk_through(text: &str) -> Vec<String> {
    let files = [
        File::new(docs::WALK_THROUGH, text),
        File::new(
            "hw/rtl/host/hca_doorbell.sv",
            "module hca_doorbell (\n  output logic sq_db_valid_o\n);\n",
        ),
        File::new(
            "hw/rtl/pkg/hca_pkg.sv",
            "package hca_pkg;\n  function automatic logic [3:0] wrap(x);\n",
        ),
        File::new(
            "driver/hca-driver/src/ring.rs",
            "impl Ring {\n    pub fn post(&mut self) {\n",
        ),
        File::new("driver/hca-driver/src/lib.rs", "pub struct Ring;\n"),
        File::new(
            "sim/hca-link/src/lib.rs",
            "pub enum Fault {\n    Drop,\n}\npub fn cable() {}\n",
        ),
    ];
    docs::walk_through_names(&files)
        .into_iter()
        .map(|finding| finding.what)
        .collect()
}

#[test]
fn names_that_exist_pass() {
    let good = "`hca_doorbell` `hca_doorbell.sq_db_valid_o` `hca_pkg` `hca_link` `ring.rs` `hca-link/src/lib.rs`\n\
                `post()` `wrap()` `hca_driver::ring::Ring::post` `hca_link::Fault::Drop` `Ring::post()`\n\
                `valid` `64 B`\n\
                ```\n`hca_nothing`\n```\n";
    assert_eq!(walk_through(good), Vec::<String>::new());
}

#[test]
fn names_that_have_gone_are_found() {
    let gone = [
        "hca_gone",
        "hca_doorbell.gone_o",
        "gone.rs",
        "gone()",
        "hca_driver::ring::Ring::gone",
        "hca_driver::Fault",
        "Ring::gone()",
    ];
    for name in gone {
        assert_eq!(walk_through(&format!("`{name}`")).len(), 1, "{name}");
    }
}

#[test]
fn every_dependency_needs_a_reason() {
    let manifest = "[dependencies]\nhca-wire.workspace = true\nlibc.workspace = true\nserde = { version = \"1\" }\n\
                    [features]\nfast = []\n[dev-dependencies]\n# none = 1\nrand = \"1\"\n";
    let files = [
        File::new(docs::DEPENDENCIES, "| `libc`, `pytest` | why |"),
        File::new("sim/a/Cargo.toml", manifest),
        File::new("scripts/requirements.txt", "# pinned\npytest==1.0\nscapy==2.0\n"),
    ];
    let findings: Vec<_> = docs::dependencies_explained(&files)
        .iter()
        .map(Finding::to_string)
        .collect();
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings[0].contains("serde") && findings[1].contains("rand") && findings[2].contains("scapy"));
}

#[test]
fn what_is_declared_is_used() {
    let page = "| Rust crate | Why |\n| `libc`, `serde` | as `x` |\n| `gone` | nobody asks |\n| `pytest` | tests |\n";
    let files = [
        File::new(docs::DEPENDENCIES, page),
        File::new(
            "Cargo.toml",
            "[workspace.dependencies]\nhca-wire = 1\nlibc = 1\nserde = 1\nhca-dead = 1\n",
        ),
        File::new(
            "sim/a/Cargo.toml",
            "[dependencies]\nhca-wire.workspace = true\nlibc.workspace = true\n[dev-dependencies]\nserde = 1\n",
        ),
        File::new("sim/a/src/lib.rs", "use libc::c_int; // serdes\n"),
        File::new("sim/a/tests/t.rs", "use hca_wire::Bth;\n"),
        File::new("sim/ab/src/lib.rs", "use serde::Serialize;\n"),
        File::new("scripts/requirements.txt", "pytest==1.0\n"),
    ];
    let findings: Vec<_> = docs::dependencies_used(&files)
        .iter()
        .map(Finding::to_string)
        .collect();
    assert_eq!(findings.len(), 3, "{findings:?}");
    let named = [
        "sim/a/Cargo.toml: serde",
        "docs/decisions/0001-dependencies.md:3: gone",
        "Cargo.toml: hca-dead",
    ];
    for name in named {
        assert!(
            findings.iter().any(|finding| finding.contains(name)),
            "{name}: {findings:?}"
        );
    }
}

#[test]
fn imports_that_lead_up_or_round_are_found() {
    let house = House {
        sources: "x/src",
        floors: &["low", "high"],
    };
    let judge = |files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(path, text)| File::new(path, text)).collect();
        floors::judge(&house, &files)
            .iter()
            .map(Finding::to_string)
            .collect::<Vec<_>>()
    };
    let fine = [
        ("x/src/lib.rs", "use crate::high::a::A;"),
        ("x/src/low/mod.rs", "pub mod b;\npub struct C;\n"),
        ("x/src/low/b.rs", "// use crate::high::a;\nuse crate::low::C;\n"),
        (
            "x/src/high/a.rs",
            "use crate::low::{\n    C, b::{self, B as D},\n};\nfn f() { crate::low::b::f() }\n",
        ),
        (
            "x/src/high/t.rs",
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::Top;\n}\n",
        ),
        ("y/src/low.rs", "use crate::high::a;"),
    ];
    assert_eq!(judge(&fine), [""; 0]);
    for (path, text, found) in [
        (
            "x/src/low/c.rs",
            "use crate::low::{\n    C, b::{self, B},\n};\nuse crate::high::{a::A};",
            "low/c.rs:4: imports high::a, from",
        ),
        (
            "x/src/low/c.rs",
            "fn f() { crate::high::a::f() }",
            "low/c.rs:1: imports high::a, from",
        ),
        ("x/src/roof.rs", "", "roof.rs:1: stands on no floor"),
        (
            "x/src/high/c.rs",
            "use crate::Name;",
            "crate::Name is a name of lib.rs",
        ),
        (
            "x/src/low/mod.rs",
            "mod b;\npub use b::B;",
            "in a circle: low -> low::b -> low",
        ),
        ("x/src/low/b.rs", "use crate::low::c::C;", ""),
    ] {
        let mut files = fine.to_vec();
        files.retain(|(other, _)| *other != path);
        files.push((path, text));
        let findings = judge(&files);
        match found {
            "" => assert_eq!(findings, [""; 0]),
            found => assert!(
                findings.iter().any(|finding| finding.contains(found)),
                "{findings:?}"
            ),
        }
    }
    let round = [
        ("x/src/low/a.rs", "use crate::low::b::B;"),
        ("x/src/low/b.rs", "use crate::low::c::C;"),
        ("x/src/low/c.rs", "use crate::low::a::A;"),
    ];
    let findings = judge(&round);
    assert!(
        findings[0].contains("low::a -> low::b -> low::c -> low::a"),
        "{findings:?}"
    );
}
