//! `hca perf --compare BEFORE.json`: what a change did to the figures.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

use super::{Args, Figures};
use crate::plots::engineering;
use crate::sizes::human;

/// A figure that is compared: its name in results, its unit, and whether more is better.
const FIGURES: [(&str, &str, Better); 6] = [
    ("goodput_bytes_per_s", "B/s", Better::More),
    ("messages_per_s", "/s", Better::More),
    ("latency_p50_ns", "ns", Better::Less),
    ("latency_p99_ns", "ns", Better::Less),
    ("card_internal_cycles", "cycles", Better::Less),
    ("retransmitted_packets", "packets", Better::Less),
];

/// What must be the same for a comparison to mean something.
const CONDITIONS: [&str; 13] = [
    "op",
    "size_bytes",
    "qps",
    "mtu",
    "link",
    "rate_gbps",
    "iters",
    "outstanding",
    "inline",
    "signal_every",
    "faults",
    "seed",
    "pcie",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
}

/// Figures of an earlier run.
pub struct Before {
    name: String,
    runs: Vec<Value>,
}

impl Before {
    /// Reads what `hca perf --json` printed, or the run.json of `--keep`, or its folder.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let path = if path.is_dir() {
            path.join("run.json")
        } else {
            path.to_owned()
        };
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let wrong = || {
            format!(
                "{} is neither a run.json nor what hca perf --json prints",
                path.display()
            )
        };
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let values = values.collect::<Result<Vec<_>, _>>().with_context(wrong)?;
        let is_figures = |value: &Value| value.get("goodput_bytes_per_s").is_some();
        let mut runs = Vec::new();
        for value in values {
            match value.get("figures").and_then(Value::as_array) {
                Some(figures) => runs.extend(figures.iter().cloned()),
                None => runs.push(value),
            }
        }
        if runs.is_empty() || !runs.iter().all(is_figures) {
            bail!("{}", wrong());
        }
        Ok(Self { name, runs })
    }

    /// A table: for every size that both have, the figures that differ.
    pub fn table(&self, after: &[Figures]) -> Result<String> {
        let mut text = String::new();
        let mut missing = Vec::new();
        let (mut compared, mut changed) = (0, 0);
        for figures in after {
            let after = serde_json::to_value(figures)?;
            let same = |before: &&Value| CONDITIONS.iter().all(|key| before[*key] == after[*key]);
            let Some(before) = self.runs.iter().find(same) else {
                missing.push(figures.size_bytes);
                continue;
            };
            compared += 1;
            let rows = rows(before, &after);
            changed += usize::from(!rows.is_empty());
            let place = format!("{} {}", human(figures.size_bytes.into()), figures.link);
            if rows.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{place:<12} no difference, to the cycle");
            }
            for (at, row) in rows.iter().enumerate() {
                let place = if at == 0 { place.as_str() } else { "" };
                let _ = writeln!(text, "{place:<12} {row}");
            }
        }
        if compared == 0 {
            bail!("nothing to compare: {}", self.why_nothing(after)?);
        }
        let missing: String = missing
            .iter()
            .map(|size| {
                format!(
                    "{:<12} not in {}, or under other conditions\n",
                    human((*size).into()),
                    self.name
                )
            })
            .collect();
        let head = format!(
            "compared with {}: {changed} of {compared} measurements changed\n{:<12} {:<26} {:>12} {:>12} {:>10}\n",
            self.name, "size", "figure", "before", "after", "change"
        );
        Ok(if changed > 0 {
            head
        } else {
            head.lines().next().unwrap_or_default().to_owned() + "\n"
        } + &text
            + &missing)
    }

    /// Which condition differs from the run that is nearest.
    fn why_nothing(&self, after: &[Figures]) -> Result<String> {
        let mut best: Option<Vec<String>> = None;
        for figures in after {
            let after = serde_json::to_value(figures)?;
            for before in &self.runs {
                let differing = CONDITIONS.iter().filter(|key| before[**key] != after[**key]);
                let differing: Vec<String> = differing
                    .map(|key| format!("{key} was {} and is {}", before[*key], after[*key]))
                    .collect();
                if best.as_ref().is_none_or(|best| differing.len() < best.len()) {
                    best = Some(differing);
                }
            }
        }
        Ok(best.unwrap_or_default().join(", "))
    }

    /// Goodput or another figure of the earlier run at each size, for a plot beside the new one.
    pub fn series(&self, args: &Args, figure: &str) -> Vec<(String, Vec<(u32, f64)>)> {
        let line = |link: &crate::options::Link| {
            let link = link.to_string();
            let of_link = self.runs.iter().filter(|run| run["link"] == link.as_str());
            let points = of_link.filter_map(|run| {
                let size = u32::try_from(run["size_bytes"].as_u64()?).ok()?;
                Some((size, run[figure].as_f64()?))
            });
            (format!("{link} before"), points.collect())
        };
        args.link.iter().map(line).collect()
    }
}

/// The figures that differ, each as a line.
fn rows(before: &Value, after: &Value) -> Vec<String> {
    let mut rows = Vec::new();
    let mut add = |name: &str, unit: &str, better: Better, old: f64, new: f64| {
        if old == new {
            return;
        }
        let percent = if old == 0.0 {
            String::new()
        } else {
            format!("{:+.1} %", (new / old - 1.0) * 100.0)
        };
        let verdict = if (new > old) == (better == Better::More) {
            "better"
        } else {
            "worse"
        };
        let [old, new] = [old, new].map(|value| match unit {
            "B/s" | "/s" => format!("{}{unit}", engineering(value)),
            _ => format!("{value} {unit}"),
        });
        rows.push(format!("{name:<26} {old:>12} {new:>12} {percent:>10} {verdict}"));
    };
    for (name, unit, better) in FIGURES {
        if let (Some(old), Some(new)) = (before[name].as_f64(), after[name].as_f64()) {
            add(name, unit, better, old, new);
        }
    }
    let (Some(old), Some(new)) = (before["stages"].as_array(), after["stages"].as_array()) else {
        return rows;
    };
    for (old, new) in old.iter().zip(new) {
        let phase = new["phase"].as_str().unwrap_or_default();
        for row in new["rows"].as_array().into_iter().flatten() {
            let same = |other: &&Value| (&other["from"], &other["to"]) == (&row["from"], &row["to"]);
            let known = old["rows"].as_array().into_iter().flatten().find(same);
            let p50 = |row: &Value| row["p50_cycles"].as_f64();
            if let (Some(before), Some(after)) = (known.and_then(p50), p50(row)) {
                let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
                let name = format!("{phase}: {} .. {}", word("from"), word("to"));
                add(&name, "cycles", Better::Less, before, after);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_shown() {
        let stage = |cycles: u64| {
            json!([{"phase": "alone", "rows": [
                {"from": "doorbell", "to": "wqe_asked", "p50_cycles": cycles},
                {"from": "wqe_asked", "to": "wqe_arrived", "p50_cycles": 9},
            ]}])
        };
        let before = json!({"goodput_bytes_per_s": 1e9, "latency_p50_ns": 800, "stages": stage(10)});
        let after = json!({"goodput_bytes_per_s": 1.1e9, "latency_p50_ns": 800, "stages": stage(12)});
        let rows = rows(&before, &after);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(
            rows[0].contains("+10.0 %") && rows[0].ends_with("better"),
            "{rows:?}"
        );
        assert!(
            rows[1].contains("doorbell .. wqe_asked") && rows[1].ends_with("worse"),
            "{rows:?}"
        );
        assert!(super::rows(&before, &before).is_empty());
    }

    #[test]
    fn a_folder_of_a_run_and_lines_of_json_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = json!({"goodput_bytes_per_s": 1.0});
        let path = folder.path().join("run.json");
        std::fs::write(&path, json!({"figures": [run, run]}).to_string()).unwrap();
        assert_eq!(Before::read(folder.path()).unwrap().runs.len(), 2);
        std::fs::write(&path, format!("{run}\n{run}\n{run}\n")).unwrap();
        assert_eq!(Before::read(&path).unwrap().runs.len(), 3);
        for wrong in ["", "{}", "[1]", "no"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(Before::read(&path).is_err(), "{wrong}");
        }
    }
}
