//! `hca sweep` from outside: points, stops, changes, failures, engines; and `hca report` on what a run keeps.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const HCA: &str = env!("CARGO_BIN_EXE_hca");

/// Points that cannot run, for what a sweep does with points takes no simulation: a READ inline, at once refused.
const REFUSED: &str =
    "command = 'perf'\n[options]\nop = 'read'\ninline = true\n[grid]\nseed = { from = 1, to = 6 }\n";

/// Exit code, standard output, standard error.
fn hca(words: &[&str]) -> (i32, String, String) {
    let output = Command::new(HCA).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

fn write(folder: &Path, text: &str) -> String {
    let path = folder.join("study.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn results(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("results.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn figures_come_in_lines_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "command = 'perf'\n[options]\niters = 16\n[grid]\nsize = [64, 256]\n\
         [[plot]]\nx = 'size_bytes'\ny = 'goodput_bytes_per_s'\nlog = 'x'\n",
    );
    let out = folder.path().join("out");
    let out_words = ["--out", out.to_str().unwrap()];
    let (code, stdout, stderr) = hca(&[&["sweep", &file], &out_words[..]].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.contains("2 of 2 points have results, 0 of them failed"),
        "{stdout}"
    );
    let lines = results(&out);
    assert!(
        lines
            .iter()
            .all(|line| line["ok"] == true && line["results"][0]["latency_p50_ns"].is_u64())
    );
    assert!(out.join("goodput_bytes_per_s-size_bytes.svg").exists());
    let spec = "x=size_bytes,y=latency_p50_ns";
    let (code, stdout, _) = hca(&[&["sweep", &file, "--plot", spec], &out_words[..]].concat());
    assert!(
        code == 0 && stdout.contains("latency_p50_ns-size_bytes.svg"),
        "{stdout}"
    );
    let (code, _, stderr) = hca(&[&["sweep", &file, "--plot", "x=no,y=nothing"], &out_words[..]].concat());
    assert!(code == 2 && stderr.contains("goodput_bytes_per_s"), "{stderr}");
    // The command of a line gives the line's figures, wherever it is run.
    let command = lines[0]["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--json"]).collect();
    let (_, stdout, _) = hca(&words);
    let again: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(again["latency_p50_ns"], lines[0]["results"][0]["latency_p50_ns"]);
}

#[test]
fn a_failing_point_stops_nobody_and_a_changed_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), REFUSED);
    let out = folder.path().join("out");
    let sweep = |more: &[&str]| hca(&[&["sweep", &file, "--out", out.to_str().unwrap()], more].concat());
    let (code, listed, _) = sweep(&["--dry-run"]);
    assert_eq!(
        (code, listed.lines().filter(|line| line.contains(" due ")).count()),
        (0, 6)
    );
    let (code, stdout, stderr) = sweep(&["--jobs", "3"]);
    assert!(
        code == 1 && stdout.contains("6 of them failed") && stderr.contains("--inline works"),
        "{stderr}"
    );
    assert!(
        results(&out)
            .iter()
            .all(|line| line["exit_code"] == 2 && line["ok"] == false)
    );
    // What is there is not run again, not even a failure; unless that is asked for.
    assert_eq!((sweep(&[]).0, results(&out).len()), (1, 6));
    assert_eq!((sweep(&["--retry"]).0, results(&out).len()), (1, 12));
    // A line that was cut.
    let path = out.join("results.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 7]).unwrap();
    let (_, _, stderr) = sweep(&["--dry-run"]);
    assert!(stderr.contains("was cut"), "{stderr}");
    // Two points go, one comes.
    write(
        folder.path(),
        &REFUSED.replace("{ from = 1, to = 6 }", "[3, 4, 5, 6, 9]"),
    );
    let before = results(&out).len();
    let (_, _, stderr) = sweep(&[]);
    assert!(stderr.contains("file has changed: 2 results"), "{stderr}");
    assert_eq!(results(&out).len(), before + 1);
}

#[test]
fn a_stopped_sweep_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let text = "command = 'perf'\n[options]\niters = 16\nsize = 64\n[grid]\nseed = { from = 1, to = 4 }\n";
    let file = write(folder.path(), text);
    let out = folder.path().join("out");
    let words = ["sweep", &file, "--out", out.to_str().unwrap(), "--jobs", "1"];
    let mut child = Command::new(HCA)
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Two points are there, and it is killed in the middle of another.
    let path = out.join("results.jsonl");
    while fs::read_to_string(&path).unwrap_or_default().lines().count() < 2 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "it was too fast to be stopped"
        );
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, stdout, stderr) = hca(&words);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("4 of 4 points"), "{stdout}");
    let lines = results(&out);
    let mut ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), lines.len()), (4, 4), "a point was run twice");
}

#[test]
fn an_engine_runs_points_and_they_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), REFUSED);
    let out = folder.path().join("the out");
    let (out_text, script) = (out.to_str().unwrap(), folder.path().join("job.sh"));
    let sweep = |more: &[&str]| hca(&[&["sweep", &file, "--out", out_text], more].concat());
    let (code, _, stderr) = sweep(&["--slurm", script.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
    let text = fs::read_to_string(&script).unwrap();
    assert!(
        text.contains("#SBATCH --array=0-5\n") && text.contains("'the out'") | text.contains("the out'"),
        "{text}"
    );
    for task in ["1", "4"] {
        let status = Command::new("bash")
            .arg(&script)
            .env("SLURM_ARRAY_TASK_ID", task)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(1));
    }
    let parts = out.join("parts");
    let (code, stdout, _) = sweep(&["--merge", parts.to_str().unwrap()]);
    assert!(code == 1 && stdout.starts_with("2 new results"), "{stdout}");
    let (_, stdout, _) = sweep(&["--merge", parts.to_str().unwrap()]);
    assert!(stdout.starts_with("0 new results"), "{stdout}");
    sweep(&["--slurm", script.to_str().unwrap()]);
    assert!(fs::read_to_string(&script).unwrap().contains("--array=0,2-3,5\n"));
    let (code, stdout, _) = sweep(&["--point", "0", "--print"]);
    let line: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &line["index"]), (1, &0.into()));
    let (code, _, stderr) = sweep(&["--point", "6"]);
    assert!(code == 2 && stderr.contains("0 to 5"), "{stderr}");
    // Results of something else are not taken.
    write(folder.path(), &REFUSED.replace("to = 6", "to = 2"));
    fs::remove_file(out.join("results.jsonl")).unwrap();
    let (code, _, stderr) = sweep(&["--merge", parts.to_str().unwrap()]);
    assert!(code == 2 && stderr.contains("has changed"), "{stderr}");
}

#[test]
fn a_kept_run_has_a_page_and_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let (kept_text, timeline) = (kept.to_str().unwrap(), kept.join("timeline.json"));
    let perf = ["perf", "--size=64", "--iters=16"];
    let keep = ["--keep", kept_text, "--timeline", timeline.to_str().unwrap()];
    let (code, _, stderr) = hca(&[&perf[..], &keep].concat());
    assert_eq!(code, 0, "{stderr}");
    let events: Value = serde_json::from_str(&fs::read_to_string(&timeline).unwrap()).unwrap();
    assert!(events.as_array().unwrap().len() > 1000);
    let run: Value = serde_json::from_str(&fs::read_to_string(kept.join("run.json")).unwrap()).unwrap();
    assert!(
        run["command"]
            .as_str()
            .unwrap()
            .starts_with("hca perf --size=64 --iters=16"),
        "{run}"
    );
    let (code, _, stderr) = hca(&["report", kept_text]);
    assert_eq!(code, 0, "{stderr}");
    let page = fs::read_to_string(kept.join("report.html")).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "retransmitted packets",
        "doorbell .. wqe_asked",
        "timeline.json",
        "goodput",
    ] {
        assert!(page.contains(part), "'{part}' is missing");
    }
    let compare = ["--compare", kept_text];
    let (code, stdout, stderr) = hca(&[&perf[..], &compare].concat());
    assert!(
        code == 0 && stdout.contains("no difference, to the cycle"),
        "{stdout}{stderr}"
    );
    let other = ["perf", "--size=64", "--iters=16", "--pcie-read-latency=700"];
    let (code, _, stderr) = hca(&[&other[..], &compare].concat());
    assert!(code == 2 && stderr.contains("pcie was"), "{stderr}");
    let (code, _, stderr) = hca(&["report", folder.path().to_str().unwrap()]);
    assert!(code == 2 && stderr.contains("run.json"), "{stderr}");
}
