//! The repository keeps its own rules.

use hca_tidy::{File, Finding, docs, floors, read_repository, repository_root, rtl, style};

fn judge(rule: fn(&[File]) -> Vec<Finding>) {
    let files = read_repository(&repository_root()).expect("the repository can be read");
    assert!(
        files.iter().any(|file| file.path == "Makefile"),
        "this is not the root of the repository"
    );
    let findings: Vec<String> = rule(&files).iter().map(Finding::to_string).collect();
    assert!(
        findings.is_empty(),
        "{} findings:\n{}\n",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn files_have_a_readable_size() {
    judge(style::file_size);
}

#[test]
fn lines_have_a_readable_width() {
    judge(style::line_width);
}

#[test]
fn no_tabs() {
    judge(style::tabs);
}

#[test]
fn block_tests_have_names_of_their_own() {
    judge(style::bench_names);
}

#[test]
fn nothing_unfinished() {
    judge(style::unfinished);
}

#[test]
fn no_foreign_names() {
    judge(style::foreign_names);
}

#[test]
fn one_module_per_file() {
    judge(rtl::one_module_per_file);
}

#[test]
fn rtl_is_synthesisable() {
    judge(rtl::synthesisable);
}

#[test]
fn rtl_stops_for_no_value() {
    judge(rtl::unique_cases_have_a_default);
}

#[test]
fn file_lists_are_complete() {
    judge(rtl::file_lists);
}

#[test]
fn links_lead_somewhere() {
    judge(docs::links);
}

#[test]
fn names_of_the_walk_through_exist() {
    judge(docs::walk_through_names);
}

#[test]
fn dependencies_are_explained() {
    judge(docs::dependencies_explained);
}

#[test]
fn dependencies_are_used() {
    judge(docs::dependencies_used);
}

#[test]
fn imports_lead_down() {
    judge(floors::imports_lead_down);
}
