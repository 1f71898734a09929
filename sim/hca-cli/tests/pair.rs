//! `hca run --pair` as continuous integration meets it: exit codes, time limits, the document, what is kept.

use std::fs;
use std::path::Path;
use std::process::Output;

mod common;
use common::{refused_with, run, text, with_library};

/// Both ends are shell scripts.
fn pair(home: &Path, options: &[&str], server: &str, client: &str) -> Output {
    let program = with_library(home);
    let scripts = ["--", "sh", "-c", server, "---", "sh", "-c", client];
    run(
        &program,
        home,
        &[&["run", "--pair"], options, &scripts[..]].concat(),
    )
}

fn document(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

#[test]
fn one_command_is_enough_for_both_ends() {
    let home = tempfile::tempdir().unwrap();
    let program = with_library(home.path());
    let words = ["run", "--pair", "--", "echo", "card"];
    let output = run(&program, home.path(), &words);
    assert_eq!(output.status.code(), Some(0));
    let stdout = text(&output.stdout);
    let mut lines: Vec<_> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["client: card 127.0.0.1", "server: card"]);
    assert_eq!(text(&output.stderr), "", "quiet where nothing is wrong");
}

#[test]
fn wrong_options_are_no_failure_of_a_program() {
    let home = tempfile::tempdir().unwrap();
    for options in [
        &["--no-such-option"][..],
        &["--timeout", "soon"],
        &["--faults", "loss=2"],
        &["--topology", "/nowhere.toml"],
    ] {
        let output = pair(home.path(), options, "true", "true");
        assert_eq!(output.status.code(), Some(125), "{options:?}");
    }
    let program = with_library(home.path());
    let no_program = run(&program, home.path(), &["run", "--pair", "--", "/etc/passwd"]);
    refused_with(126, &no_program, &["/etc/passwd"]);
}

/// Both are ended with all that they have started, and hca says who hung.
#[test]
fn a_time_limit_ends_everything() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("pid");
    let hangs = format!("sleep 1000 & echo $! > {}; wait", file.display());
    let output = pair(
        home.path(),
        &["--timeout", "1s", "--json", "-"],
        "echo hello",
        &hangs,
    );
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(124), "{stderr}");
    assert!(
        stderr.contains("hca: client killed: not ended within --timeout 1s"),
        "{stderr}"
    );
    assert!(stderr.contains("client: has no card open"), "{stderr}");
    assert!(
        stderr.contains("server: hello"),
        "standard output is the document's: {stderr}"
    );
    let sleeper = fs::read_to_string(file).unwrap();
    let stat = format!("/proc/{}/stat", sleeper.trim());
    // Killed, but perhaps not yet off the processor.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }

    let found = document(&output.stdout);
    assert_eq!(found["verdict"], "timed-out");
    assert_eq!(found["exit_code"], 124);
    assert_eq!(found["programs"][0]["exit_code"], 0);
    assert_eq!(found["programs"][1]["killed"], true);
    assert_eq!(found["programs"][1]["exit_code"], 137);
}

/// fio works in sessions of its own, and its first process may end before them: no signal to a group reaches them, and
/// they hold the output that is waited for.
#[test]
fn what_programs_leave_behind_is_ended_too() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("pid");
    let leaves = format!(
        "setsid sh -c 'echo $$ > {0}; exec sleep 1000' & while ! [ -s {0} ]; do :; done",
        file.display()
    );
    for (hangs, options, code) in [("", &[][..], 0), ("; sleep 1000", &["--timeout", "1s"], 124)] {
        let output = pair(home.path(), options, "true", &format!("{leaves}{hangs}"));
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let left = fs::read_to_string(&file).unwrap();
        let stat = format!("/proc/{}/stat", left.trim());
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn the_document_has_all_of_a_run() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("sub/run.json");
    let options = [
        "--json",
        file.to_str().unwrap(),
        "--seed",
        "9",
        "--faults",
        "loss=0.5",
    ];
    let output = pair(home.path(), &options, "echo '{'", "exit 3");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "server: {\n");
    let found = document(&fs::read(file).unwrap());
    assert_eq!(
        (&found["verdict"], &found["exit_code"]),
        (&"failed".into(), &3.into())
    );
    assert_eq!(
        (&found["seed"], &found["faults"]),
        (&9.into(), &"loss=0.5".into())
    );
    assert!(found["repeat"].as_str().unwrap().contains("run --pair --json"));
    for (card, name) in ["server", "client"].into_iter().enumerate() {
        assert_eq!(found["programs"][card]["name"], name);
        assert_eq!(found["cards"][card]["name"], format!("card{card}"));
    }
    assert_eq!(found["links"][0]["a_to_b"]["sent_packets"], 0);
    assert_eq!(found["packets"], 0);
    assert!(found["sessions"].as_array().unwrap().is_empty());
    assert!(found["wall_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_failed_is_kept_and_what_passed_is_not() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("kept");
    let keep = ["--keep", folder.to_str().unwrap()];
    let output = pair(home.path(), &keep, "true", "true");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
    assert!(!folder.exists());

    let output = pair(home.path(), &keep, "echo hello", "echo oh >&2; exit 7");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("failed again, with exit code 7"), "{stderr}");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        (read("server.log"), read("client.log")),
        ("hello\n".into(), "oh\n".into())
    );
    assert_eq!(document(read("report.json").as_bytes())["exit_code"], 7);
    assert!(read("command.sh").contains("run --pair --keep"));
    for file in [
        "link.pcap",
        "report.txt",
        "again/card0.fst",
        "again/card1.fst",
        "again/report.json",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    // A folder of somebody is not removed, nor what is in it.
    fs::write(folder.join("notes"), "mine").unwrap();
    assert_eq!(pair(home.path(), &keep, "true", "true").status.code(), Some(0));
    assert_eq!(read("notes"), "mine");
    assert!(!folder.join("server.log").exists());

    let file = folder.join("notes");
    let refused = pair(home.path(), &["--keep", file.to_str().unwrap()], "true", "true");
    refused_with(125, &refused, &["notes"]);
}
