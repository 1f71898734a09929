//! Tables of whatever objects there are: names become titles with units, columns that never change become facts.

use maud::{Markup, html};
use serde_json::Value;

use crate::plots::engineering;

/// Endings of names, and the unit that they stand for; the first that fits counts.
const UNITS: [(&str, &str); 14] = [
    ("_bytes_per_s", "bytes/s"),
    ("_bits_per_s", "bit/s"),
    ("_cycles_per_wall_s", "cycles/s"),
    ("_per_wall_s", "/s"),
    ("_per_s", "/s"),
    ("_bytes", "bytes"),
    ("_cycles", "cycles"),
    ("_gbps", "Gb/s"),
    ("_mbps", "MB/s"),
    ("_mhz", "MHz"),
    ("_ns", "ns"),
    ("_ps", "ps"),
    ("_percent", "%"),
    ("_s", "s"),
];

/// Title and unit of a name.
pub fn title(name: &str) -> (String, &'static str) {
    let found = UNITS
        .iter()
        .find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)));
    let (name, unit) = found.unwrap_or((name, ""));
    (name.replace(['_', '.'], " "), unit)
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A value as people read it.
pub fn shown(value: &Value, unit: &str) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(is_so) => (if *is_so { "yes" } else { "no" }).to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (_, Some(value)) if unit.ends_with("/s") && value >= 10_000.0 => engineering(value),
            (Some(whole), _) => grouped(whole),
            (_, Some(value)) if value.abs() >= 1000.0 => format!("{value:.0}"),
            (_, Some(value)) => format!("{value:.3}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Values of an object by name; those of inner objects have both names. Lists of words are one value, other lists are
/// left to the raw data.
pub fn flat(value: &Value) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    collect("", value, &mut fields);
    fields
}

fn collect(prefix: &str, value: &Value, fields: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let name = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                collect(&name, inner, fields);
            }
        }
        Value::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            if let Some(words) = words.filter(|words| !words.is_empty()) {
                fields.push((prefix.to_owned(), words.join(" ").into()));
            }
        }
        Value::Null => {}
        scalar => fields.push((prefix.to_owned(), scalar.clone())),
    }
}

/// A table of objects, one a row, and below it what is the same in all.
pub fn of_rows(rows: &[Value]) -> Markup {
    let rows: Vec<_> = rows.iter().map(flat).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let get = |row: &[(String, Value)], name: &str| {
        let found = row.iter().find(|(known, _)| known == name);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    let first = |name: &str| rows.first().map_or(Value::Null, |row| get(row, name));
    let is_same = |name: &&str| rows.iter().all(|row| get(row, name) == first(name));
    let (same, mut columns): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_same);
    if rows.len() == 1 {
        return html! { (facts(same.iter().map(|name| ((*name).to_owned(), first(name))))) };
    }
    // What a row is about comes first, and that is what rows are told apart by: words and sizes before figures.
    columns.sort_by_key(|name| {
        !(first(name).is_string() || ["size_bytes", "qp_num", "q", "h", "l"].contains(name))
    });
    html! {
        @if !columns.is_empty() {
            div.scroll { table {
                thead { tr { @for name in &columns {
                    @let (title, unit) = title(name);
                    th.text[first(name).is_string()] { (title) span.unit { (unit) } }
                } } }
                tbody { @for row in &rows { tr { @for name in &columns {
                    @let value = get(row, name);
                    td.text[value.is_string()] { (shown(&value, title(name).1)) }
                } } } }
            } }
        }
        @if !same.is_empty() {
            details { summary { "The same in all (" (same.len()) ")" }
                (facts(same.iter().map(|name| ((*name).to_owned(), first(name)))))
            }
        }
    }
}

/// Names and values.
pub fn facts(fields: impl Iterator<Item = (String, Value)>) -> Markup {
    html! {
        div.scroll { table { tbody {
            @for (name, value) in fields {
                @let (title, unit) = title(&name);
                tr { th { (title) } td.text {
                    (shown(&value, unit)) @if !value.is_null() { " " span.unit { (unit) } }
                } }
            }
        } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_have_units_and_numbers_groups() {
        assert_eq!(title("goodput_bytes_per_s"), ("goodput".into(), "bytes/s"));
        assert_eq!(title("latency.p50_ns"), ("latency p50".into(), "ns"));
        assert_eq!(title("seed"), ("seed".into(), ""));
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(shown(&json!(1.25e9), "bytes/s"), "1.25G");
        assert_eq!(shown(&json!(0.5), ""), "0.5");
        assert_eq!(shown(&json!(""), ""), "none");
    }

    #[test]
    fn what_never_changes_is_no_column() {
        let rows = [
            json!({"a": 1, "b": {"c_ns": 2}}),
            json!({"a": 1, "b": {"c_ns": 3}}),
        ];
        let text = of_rows(&rows).into_string();
        let (table, same) = text.split_once("<details>").unwrap();
        assert!(
            table.contains("b c") && !table.contains(">a<") && same.contains(">a<"),
            "{text}"
        );
        let text = of_rows(&[json!({"name": "<script>"})]).into_string();
        assert!(text.contains("&lt;script&gt;"), "{text}");
    }
}
