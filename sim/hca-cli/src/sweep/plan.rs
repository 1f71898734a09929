//! A sweep's file: which options a command gets, point by point.

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

use super::plot::PlotSpec;

/// Points that a file may have: more are a slip of the pen.
const POINTS_MAX: usize = 1_000_000;
/// Bytes of a point's name: enough that no two of a million are alike.
const ID_BYTES: usize = 8;

/// Commands that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Command {
    /// `hca perf`
    Perf,
    /// `hca qos`
    Qos,
    /// `hca demo`
    Demo,
    /// `hca soak`
    Soak,
}

impl Command {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Qos => "qos",
            Self::Demo => "demo",
            Self::Soak => "soak",
        }
    }

    /// Options that the sweep itself gives.
    fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::Perf => &["json", "plot", "keep"],
            Self::Qos => &["json", "out", "paper"],
            Self::Demo => &["out"],
            Self::Soak => &["json"],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    command: String,
    #[serde(default)]
    options: BTreeMap<String, Value>,
    #[serde(default)]
    grid: BTreeMap<String, Value>,
    #[serde(default)]
    zip: Vec<BTreeMap<String, Value>>,
    #[serde(default)]
    plot: Vec<PlotSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: i64,
    to: i64,
    #[serde(default = "one")]
    step: i64,
}

fn one() -> i64 {
    1
}

/// What one run is given: option and value, in the order of their names. A value of a flag is true.
pub type Options = BTreeMap<String, Setting>;

/// Value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// The option stands alone, or is not there.
    Flag(bool),
    /// The word behind it.
    Word(String),
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its place in the file.
    pub index: usize,
    /// Its name: the same for the same command and options, wherever it stands.
    pub id: String,
    /// Options.
    pub options: Options,
}

impl Point {
    /// Words behind `hca COMMAND`.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, setting) in &self.options {
            match setting {
                Setting::Flag(false) => {}
                Setting::Flag(true) => words.push(format!("--{name}")),
                // In one word: a value may begin with a dash.
                Setting::Word(value) => words.push(format!("--{name}={value}")),
            }
        }
        words
    }
}

/// All runs of a file.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is run.
    pub command: Command,
    /// In the order of the file's grid: the last axis changes fastest.
    pub points: Vec<Point>,
    /// What is drawn in the end.
    pub plots: Vec<PlotSpec>,
}

/// One axis: for each of its places the options that it sets.
type Axis = Vec<Options>;

impl Plan {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let command = Command::from_str(&file.command, false)
            .map_err(|_| anyhow::anyhow!("command '{}': it is perf, qos, demo or soak", file.command))?;
        let mut fixed = Options::new();
        for (name, value) in &file.options {
            fixed.insert(name.clone(), setting(name, value)?);
        }
        let mut axes = Vec::new();
        for (name, value) in &file.grid {
            let places = list(name, value)?.into_iter();
            axes.push(
                places
                    .map(|place| Options::from([(name.clone(), place)]))
                    .collect(),
            );
        }
        for group in &file.zip {
            axes.push(zip(group)?);
        }
        check_names(command, &fixed, &axes)?;
        Ok(Self {
            command,
            points: points(command, &fixed, &axes)?,
            plots: file.plot,
        })
    }
}

/// Every option once, and none that the sweep gives.
fn check_names(command: Command, fixed: &Options, axes: &[Axis]) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    let of_axes = axes.iter().flat_map(|axis| axis.first()).flat_map(Options::keys);
    for name in fixed.keys().chain(of_axes) {
        if !seen.insert(name) {
            bail!("option '{name}' stands in two places: in one of [options], [grid] and [[zip]]");
        }
        if command.reserved().contains(&name.as_str()) {
            bail!("option '{name}' is given by the sweep itself: leave it out");
        }
        let is_option = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.starts_with('-') || !name.bytes().all(is_option) {
            bail!("'{name}' is no option: write it as on the command line, without the dashes in front");
        }
    }
    Ok(())
}

fn setting(name: &str, value: &Value) -> Result<Setting> {
    Ok(match value {
        Value::Boolean(is_set) => Setting::Flag(*is_set),
        Value::String(text) => Setting::Word(text.clone()),
        Value::Integer(number) => Setting::Word(number.to_string()),
        Value::Float(number) => Setting::Word(number.to_string()),
        other => bail!("'{name}' is a {}: it must be one value here", other.type_str()),
    })
}

/// Values of an axis: a list, or `{ from, to, step }`.
fn list(name: &str, value: &Value) -> Result<Vec<Setting>> {
    let values = match value {
        Value::Array(values) => values
            .iter()
            .map(|value| setting(name, value))
            .collect::<Result<Vec<_>>>()?,
        Value::Table(_) => {
            let wrong = || format!("'{name}': a range is {{ from = 1, to = 10 }} or with a step = 2");
            let range: Range = value.clone().try_into().with_context(wrong)?;
            if range.step < 1
                || range.from > range.to
                || (range.to - range.from) / range.step >= POINTS_MAX as i64
            {
                bail!("{}, not longer than {POINTS_MAX}", wrong());
            }
            let numbers = (range.from..=range.to).step_by(range.step as usize);
            numbers.map(|number| Setting::Word(number.to_string())).collect()
        }
        other => bail!(
            "'{name}' is a {}: it must be a list or a range here",
            other.type_str()
        ),
    };
    if values.is_empty() {
        bail!("'{name}' has no values");
    }
    Ok(values)
}

/// Options that change together.
fn zip(group: &BTreeMap<String, Value>) -> Result<Axis> {
    let mut axis: Axis = Vec::new();
    for (name, value) in group {
        let values = list(name, value)?;
        if axis.is_empty() {
            axis.resize(values.len(), Options::new());
        }
        if axis.len() != values.len() {
            bail!(
                "'{name}' has {} values in a [[zip]] whose other options have {}",
                values.len(),
                axis.len()
            );
        }
        for (place, value) in axis.iter_mut().zip(values) {
            place.insert(name.clone(), value);
        }
    }
    if axis.is_empty() {
        bail!("a [[zip]] without options");
    }
    Ok(axis)
}

fn points(command: Command, fixed: &Options, axes: &[Axis]) -> Result<Vec<Point>> {
    let count = axes
        .iter()
        .try_fold(1usize, |count, axis| count.checked_mul(axis.len()));
    let count = count.filter(|count| *count <= POINTS_MAX);
    let Some(count) = count else {
        bail!("more than {POINTS_MAX} points: take fewer values");
    };
    let mut points: Vec<Point> = Vec::with_capacity(count);
    let mut ids = BTreeMap::new();
    for index in 0..count {
        let mut options = fixed.clone();
        let mut rest = index;
        for axis in axes.iter().rev() {
            options.extend(axis[rest % axis.len()].clone());
            rest /= axis.len();
        }
        let mut point = Point {
            index,
            id: String::new(),
            options,
        };
        point.id = id(command, &point.words());
        if let Some(other) = ids.insert(point.id.clone(), index) {
            bail!("points {other} and {index} are the same: a value stands twice in a list");
        }
        points.push(point);
    }
    Ok(points)
}

fn id(command: Command, words: &[String]) -> String {
    let mut hash = Sha256::new();
    for word in [command.word()]
        .into_iter()
        .chain(words.iter().map(String::as_str))
    {
        hash.update(word);
        hash.update([0]);
    }
    let digest = hash.finalize();
    digest[..ID_BYTES]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        command = "perf"
        [options]
        op = "read"
        inline = false
        stages = true
        [grid]
        qps = [1, 2]
        seed = { from = 1, to = 5, step = 2 }
        [[zip]]
        link = ["eth", "ib"]
        rate = [100, 56]
        [[plot]]
        x = "qps"
        y = "goodput_bytes_per_s"
    "#;

    #[test]
    fn a_grid_is_every_combination_in_order() {
        let plan = Plan::parse(FILE).unwrap();
        assert_eq!((plan.points.len(), plan.plots.len()), (12, 1));
        let words = |index: usize| plan.points[index].words().join(" ");
        assert_eq!(
            words(0),
            "--link=eth --op=read --qps=1 --rate=100 --seed=1 --stages"
        );
        assert_eq!(
            words(1),
            "--link=ib --op=read --qps=1 --rate=56 --seed=1 --stages"
        );
        assert_eq!(
            words(11),
            "--link=ib --op=read --qps=2 --rate=56 --seed=5 --stages"
        );
    }

    #[test]
    fn a_point_keeps_its_name_when_others_come() {
        let more = Plan::parse(&FILE.replace("[1, 2]", "[4, 1, 2]")).unwrap();
        let before = Plan::parse(FILE).unwrap();
        assert!(before.points.iter().all(|point| {
            let same = more.points.iter().find(|other| other.id == point.id);
            same.is_some_and(|same| same.options == point.options)
        }));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("qps = [1, 2]", "qps = []", "no values"),
            ("qps = [1, 2]", "qps = [1, 1]", "are the same"),
            ("qps = [1, 2]", "qps = 1", "a list or a range"),
            ("qps = [1, 2]", "op = ['read']", "two places"),
            ("qps = [1, 2]", "json = [true]", "by the sweep itself"),
            ("qps = [1, 2]", "--qps = [1]", "is no option"),
            ("[100, 56]", "[100]", "whose other options"),
            ("step = 2", "step = 0", "a range is"),
            ("to = 5", "to = 50000000", "not longer"),
            ("\"perf\"", "\"rm\"", "perf, qos"),
            ("op = \"read\"", "op = [1]", "one value"),
        ];
        for (old, new, words) in cases {
            assert!(FILE.contains(old));
            let error = Plan::parse(&FILE.replacen(old, new, 1)).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{new}: {error:#}");
        }
    }
}
