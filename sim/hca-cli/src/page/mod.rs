//! `hca report`: one HTML page of a run, with everything in it.

mod load;
mod sections;
mod table;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::files;
use load::Folder;

const EXAMPLES: &str = "Examples:
  hca demo && hca report target/demo
  hca perf --size 64:64k --keep target/run && hca report target/run
  hca run --pair --keep failure -- ./my-test && hca report failure

The folder is what hca demo leaves in --out, hca perf and hca qos in --keep, hca run in --keep when it fails; what may
be in it: docs/run-folder.md. The page needs nothing but itself: figures, plots, stages, counters, faults, the command
that repeats the run. It follows the reader's choice of light or dark.

Exit code: 0 the page is there; 2 it could not be made.";

const STYLE: &str = include_str!("style.css");

/// Options of `hca report`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the run
    folder: PathBuf,
    /// The page [default: report.html in the folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Makes the page.
pub fn run(args: &Args) -> Result<ExitCode> {
    let folder = Folder::read(&args.folder)?;
    let path = args
        .output
        .clone()
        .unwrap_or_else(|| args.folder.join("report.html"));
    files::write(&path, page(&folder, &args.folder).into_string().as_bytes())?;
    crate::print(&format!("page: {}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn page(folder: &Folder, place: &Path) -> Markup {
    let command = match folder.text("command") {
        "" => folder.text("repeat"),
        command => command,
    };
    let kind = match folder.text("kind") {
        "" => "run",
        kind => kind,
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Without it a browser asks for /favicon.ico.
                link rel="icon" href="data:,";
                title { "hca " (kind) ", seed " (folder.run["seed"]) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (sections::head(folder, kind))
                pre.wrap { code { (command) } }
                (sections::headline(folder))
                (sections::lists(folder))
                (sections::plots(folder))
                (sections::stages(folder))
                (sections::faults(folder))
                (sections::counters(folder))
                (sections::kept(folder, place))
                footer {
                    "Times, rates and latencies are simulated: the card's clock and a PCIe model. OpenHCA "
                    (folder.text("version")) "."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_whole_and_asks_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(
            Folder::read(folder.path())
                .err()
                .unwrap()
                .to_string()
                .contains("run.json")
        );
        let phase = json!({"phase": "alone", "work_requests": 3, "total_p50_ns": 900, "total_mean_ns": 900.5, "rows": [
            {"from": "doorbell", "to": "cqe", "share": 1.0, "count": 3, "p50_cycles": 4, "p99_cycles": 4,
             "max_cycles": 5, "p50_ns": 16, "p99_ns": 16, "max_ns": 20}]});
        let run = json!({
            "kind": "perf", "command": "hca perf '<b>'", "ok": false, "messages": ["it <i>broke"], "seed": 5,
            "link": "ib", "faults": "loss=0.1", "simulated_ns": 12345, "wall_s": 0.5, "version": "0",
            "headline": [{"name": "goodput", "value": "12.3G", "unit": "B/s"}],
            "figures": [{"size_bytes": 64, "goodput_bytes_per_s": 2e9, "stages": [phase]}],
            "stages": [],
        });
        write("run.json", &run.to_string());
        let counts = |lost: u64| json!({"sent_packets": 7, "delivered_packets": 5, "faults": {"lost": lost}});
        let counters = json!({
            "cards": ["card0", "card1"],
            "counters": [{"name": "naks_sent", "meaning": "NAKs sent.", "values": [0, 2]},
                         {"name": "rx_drops", "meaning": "Dropped.", "values": [0, 0]}],
            "cables": [{"name": "link0", "a_to_b": counts(2), "b_to_a": counts(0)}],
        });
        write("counters.json", &counters.to_string());
        write(
            "a.svg",
            r##"<svg width="900" height="540"><rect fill="#FFFFFF"/><text fill="#000000">t</text></svg>"##,
        );
        let text = page(&Folder::read(folder.path()).unwrap(), folder.path()).into_string();
        for part in [
            "12.3G",
            "it &lt;i&gt;broke",
            "hca perf '&lt;b&gt;'",
            "doorbell .. cqe",
            "card1",
            "link0",
            "currentColor",
            "failed",
        ] {
            assert!(text.contains(part), "'{part}' is missing: {text}");
        }
        for outside in ["src=", "http:", "https:", "@import", "url("] {
            assert!(!text.contains(outside), "{outside}");
        }
    }

    #[test]
    fn what_hca_run_keeps_is_a_run_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let run = json!({
            "verdict": "timed-out", "repeat": "hca run --pair", "exit_code": 124, "messages": ["the client hung"],
            "seed": 1, "programs": [{"name": "server", "exit_code": 0}, {"name": "client", "exit_code": 1}],
            "links": [{"name": "link0", "a_to_b": {"sent_packets": 3, "faults": {"lost": 1}},
                       "b_to_a": {"sent_packets": 3, "faults": {"lost": 0}}}],
            "sessions": [{"card": "card0", "program": "x", "qps": [{"qp_num": 17, "packets": 4}]}],
        });
        std::fs::write(folder.path().join("report.json"), run.to_string()).unwrap();
        let text = page(&Folder::read(folder.path()).unwrap(), folder.path()).into_string();
        for part in [
            "timed-out",
            "the client hung",
            "hca run --pair",
            "link0",
            "client",
            "0x11",
        ] {
            assert!(text.contains(part), "'{part}' is missing: {text}");
        }
    }
}
