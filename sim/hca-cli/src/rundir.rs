//! The folder of a run: what a command leaves for people and for `hca report`. docs/run-folder.md has its layout.

use anyhow::Result;
use hca_abi::QueryCountersResult;
use hca_link::CableStats;
use hca_system_tests::Rig;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;

use crate::files;
use crate::stages::Breakdown;

/// Version of the layout.
const FORMAT: u32 = 1;

/// A figure that says most about a run.
#[derive(Clone, Debug, Serialize)]
pub struct Headline {
    /// What it is.
    pub name: String,
    /// The number as people read it.
    pub value: String,
    /// Its unit.
    pub unit: &'static str,
}

impl Headline {
    /// A figure.
    pub fn new(name: impl Into<String>, value: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            unit,
        }
    }
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Of the layout.
    pub format: u32,
    /// Of this program.
    pub version: &'static str,
    /// Which command.
    pub kind: &'static str,
    /// The command that repeats it.
    pub command: String,
    /// Decides everything that is random.
    pub seed: u64,
    /// Kind of the links.
    pub link: String,
    /// Faults of the cables, as --faults takes them; empty: none.
    pub faults: String,
    /// It did what it should.
    pub ok: bool,
    /// What went wrong, for people.
    pub messages: Vec<String>,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Real time.
    pub wall_s: f64,
    /// What says most.
    pub headline: Vec<Headline>,
    /// Every figure: an object for each measurement.
    pub figures: Vec<Value>,
    /// Where the time goes.
    pub stages: Vec<Breakdown>,
}

impl Run {
    /// A run that went well, with nothing measured.
    pub fn new(kind: &'static str, command: String, seed: u64) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            kind,
            command,
            seed,
            link: String::new(),
            faults: String::new(),
            ok: true,
            messages: Vec::new(),
            simulated_ns: 0,
            wall_s: 0.0,
            headline: Vec::new(),
            figures: Vec::new(),
            stages: Vec::new(),
        }
    }
}

/// The words of this process, as a shell takes them.
pub fn this_command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("hca".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Writes the run, and what the cards and cables of a rig have counted.
pub fn save(folder: &Path, run: &Run, rig: Option<&Rig>) -> Result<()> {
    if let Some(rig) = rig {
        write(&folder.join("counters.json"), &counters(rig)?)?;
    }
    write(&folder.join("run.json"), &serde_json::to_value(run)?)
}

fn write(path: &Path, value: &Value) -> Result<()> {
    files::write(path, (serde_json::to_string_pretty(value)? + "\n").as_bytes())
}

/// Counters of the cards' first ports, and of every cable between them.
fn counters(rig: &Rig) -> Result<Value> {
    let mut ports = Vec::new();
    for node in &rig.nodes {
        ports.push(node.context.query_counters(1)?.0);
    }
    let value = |body: &[u8], at: usize| {
        let bytes = body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let fields = QueryCountersResult::TABLE.fields.iter();
    let counters = fields.map(|field| {
        let values: Vec<u64> = ports
            .iter()
            .map(|body| value(body, field.byte as usize))
            .collect();
        json!({ "name": field.name, "meaning": field.doc, "values": values })
    });
    let fabric = rig.sim.fabric();
    let cards: Vec<&str> = rig.cards.iter().map(|card| fabric.card(*card).name()).collect();
    let cables = rig.cables.iter().chain(&rig.second).map(|cable| {
        let cable = fabric.cable(*cable);
        let CableStats { a_to_b, b_to_a } = cable.stats();
        json!({ "name": cable.config().name, "a_to_b": a_to_b, "b_to_a": b_to_a })
    });
    Ok(json!({
        "cards": cards,
        "counters": counters.collect::<Vec<_>>(),
        "cables": cables.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted() {
        for (word, pasted) in [
            ("--size=64:1M", "--size=64:1M"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(shell_word(word), pasted);
        }
    }
}
