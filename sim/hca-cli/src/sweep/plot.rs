//! Plots of a sweep: a figure against an option or another figure, a line for each series.

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::results::Outcome;
use crate::curves::{self, Axes, Curve, Spread};

/// Lines of a plot; more cannot be told apart.
const SERIES_MAX: usize = 24;

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotSpec {
    /// What runs along the bottom: an option or a figure.
    pub x: String,
    /// A figure.
    pub y: String,
    /// Options or figures, with a plus between them; a line for each of their values.
    #[serde(default)]
    pub series: Option<String>,
    /// Axes with a logarithmic scale: x, y or xy.
    #[serde(default)]
    pub log: String,
    /// Title [default: made of the names].
    #[serde(default)]
    pub title: Option<String>,
}

impl FromStr for PlotSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = "write x=NAME,y=NAME, and perhaps series=NAME+NAME, log=xy, title=TEXT";
        let mut known = BTreeMap::new();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(explain)?;
            if !["x", "y", "series", "log", "title"].contains(&key) || known.insert(key, value).is_some() {
                return Err(format!("'{key}': {explain}"));
            }
        }
        let text = |key| known.get(key).map(|value: &&str| (*value).to_owned());
        Ok(Self {
            x: text("x").ok_or(explain)?,
            y: text("y").ok_or(explain)?,
            series: text("series"),
            log: text("log").unwrap_or_default(),
            title: text("title"),
        })
    }
}

/// A value by its name: in a result, else in the options. Inner names follow a dot.
fn lookup<'a>(name: &str, outcome: &'a Outcome, result: &'a Value) -> Option<&'a Value> {
    let inner = name.split('.').try_fold(result, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => value.get(key),
    });
    inner.or_else(|| outcome.options.get(name))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Bool(is_set) => Some(f64::from(u8::from(*is_set))),
        other => other.as_f64(),
    }
}

/// A value along the bottom and all that was measured there.
type Places = Vec<(Value, Vec<f64>)>;

/// Draws a plot into a folder; the file's name says what is in it.
pub fn draw<'a>(
    spec: &PlotSpec,
    outcomes: impl Iterator<Item = &'a Outcome> + Clone,
    folder: &Path,
) -> Result<PathBuf> {
    let series = collect(spec, outcomes.clone())?;
    let all = series.values().flatten();
    let is_number = all.clone().all(|(x, _)| number(x).is_some());
    // What is no number stands in the order in which it came.
    let mut labels: Vec<String> = Vec::new();
    if !is_number {
        for (x, _) in all {
            if !labels.contains(&text(x)) {
                labels.push(text(x));
            }
        }
    }
    let place = |x: &Value| match labels.iter().position(|label| *label == text(x)) {
        Some(at) => at as f64,
        None => number(x).unwrap_or(0.0),
    };
    let curves = series.iter().map(|(name, places)| {
        let mut points: Vec<(f64, Spread)> = places
            .iter()
            .map(|(x, values)| (place(x), Spread::of(values)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve {
            name: name.clone(),
            points,
        }
    });
    let curves: Vec<Curve> = curves.collect();
    let axes = Axes {
        title: spec
            .title
            .clone()
            .unwrap_or_else(|| format!("{} against {}", spec.y, spec.x)),
        x: spec.x.clone(),
        y: spec.y.clone(),
        log_x: spec.log.contains('x') && is_number,
        log_y: spec.log.contains('y'),
        // Sizes have a scale of their own, where the axis is logarithmic.
        sizes: spec.x.contains("size") && spec.log.contains('x') && is_number,
        labels,
    };
    let mut name = format!("{}-{}", spec.y, spec.x);
    name.extend(spec.series.iter().map(|series| format!("-{series}")));
    let name: String = name
        .chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() || "-_.".contains(char) {
                char
            } else {
                '_'
            }
        })
        .collect();
    let path = folder.join(format!("{name}.svg"));
    curves::draw(&path, &axes, &curves)?;
    Ok(path)
}

fn collect<'a>(
    spec: &PlotSpec,
    outcomes: impl Iterator<Item = &'a Outcome>,
) -> Result<BTreeMap<String, Places>> {
    let mut series: BTreeMap<String, Places> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for outcome in outcomes.filter(|outcome| outcome.ok) {
        for result in &outcome.results {
            names = result
                .as_object()
                .map_or(names, |object| object.keys().cloned().collect());
            let (x, y) = (lookup(&spec.x, outcome, result), lookup(&spec.y, outcome, result));
            let (Some(x), Some(y)) = (x, y.and_then(number)) else {
                continue;
            };
            let of = |name: &str| lookup(name, outcome, result).map_or("none".to_owned(), text);
            let parts = spec.series.iter().flat_map(|names| names.split('+'));
            let name = parts
                .map(|name| format!("{name} {}", of(name)))
                .collect::<Vec<_>>()
                .join(", ");
            let places = series.entry(name).or_default();
            match places.iter_mut().find(|(known, _)| known == x) {
                Some((_, values)) => values.push(y),
                None => places.push((x.clone(), vec![y])),
            }
        }
    }
    if series.is_empty() {
        let known = if names.is_empty() {
            "no results yet".to_owned()
        } else {
            names.join(", ")
        };
        bail!(
            "no result has both {} and {}; there are: {known}, and the options",
            spec.x,
            spec.y
        );
    }
    if series.len() > SERIES_MAX {
        bail!(
            "{} lines in a plot, at most {SERIES_MAX} can be told apart: take another series",
            series.len()
        );
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcome(link: &str, size: u64, seed: u64, goodput: f64) -> Outcome {
        serde_json::from_value(json!({
            "id": format!("{link}{size}{seed}"), "index": 0, "command": "", "ok": true, "exit_code": 0,
            "options": {"link": link, "seed": seed}, "wall_s": 1.0, "build": "",
            "results": [{"size_bytes": size, "goodput": goodput, "cards": [{"sent": 7}]}],
        }))
        .unwrap()
    }

    #[test]
    fn seeds_are_a_spread_and_series_are_lines() {
        let mut outcomes = Vec::new();
        for (seed, goodput) in [(1, 1e9), (2, 3e9)] {
            outcomes.push(outcome("eth", 64, seed, goodput));
            outcomes.push(outcome("ib", 128, seed, goodput));
        }
        let spec: PlotSpec = "x=size_bytes,y=goodput,series=link,log=x".parse().unwrap();
        let series = collect(&spec, outcomes.iter()).unwrap();
        assert_eq!(series.keys().collect::<Vec<_>>(), ["link eth", "link ib"]);
        assert_eq!(series["link ib"], [(json!(128), vec![1e9, 3e9])]);
        let folder = tempfile::tempdir().unwrap();
        let path = draw(&spec, outcomes.iter(), folder.path()).unwrap();
        assert!(path.ends_with("goodput-size_bytes-link.svg"));
        assert!(std::fs::read_to_string(path).unwrap().contains("link ib"));
        // By name of an option that is no number, and a figure inside.
        let spec: PlotSpec = "x=link,y=cards.0.sent".parse().unwrap();
        let path = draw(&spec, outcomes.iter(), folder.path()).unwrap();
        assert!(std::fs::read_to_string(path).unwrap().contains("eth"));
        let wrong: PlotSpec = "x=size,y=goodput".parse().unwrap();
        let error = draw(&wrong, outcomes.iter(), folder.path()).unwrap_err();
        assert!(error.to_string().contains("size_bytes"), "{error}");
        assert!("x=a".parse::<PlotSpec>().is_err() && "x=a,y=b,z=c".parse::<PlotSpec>().is_err());
    }
}
