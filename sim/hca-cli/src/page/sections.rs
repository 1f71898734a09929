//! The parts of a page.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use std::path::Path;

use super::load::Folder;
use super::table::{facts, flat, grouped, of_rows, shown, title};

/// Colours of pieces; the seventeenth has the first one's.
const COLORS: usize = 16;
/// Lists of a run that have a place of their own on the page.
const PLACED: [&str; 5] = ["headline", "stages", "links", "messages", "sessions"];
/// In front of the names of what faults did to a cable.
const FAULT: &str = "faults.";
/// Titles of lists, by name.
const TITLES: [(&str, &str); 3] = [
    ("figures", "Figures"),
    ("programs", "Programs"),
    ("cards", "Cards"),
];

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// What it was, and how it ended.
pub fn head(folder: &Folder, kind: &str) -> Markup {
    let run = &folder.run;
    let verdict = match text(run, "verdict") {
        "" if run["ok"] == false => "failed",
        "" => "ok",
        verdict => verdict,
    };
    let good = ["ok", "passed"].contains(&verdict);
    let simulated_us = run["simulated_ns"].as_u64().unwrap_or(0) as f64 / 1000.0;
    html! {
        h1 { "hca " (kind) span.pill.good[good].bad[!good] { (verdict) } }
        div.facts {
            @if !text(run, "link").is_empty() { span { "link " b { (text(run, "link")) } } }
            span { "faults " b { (shown(&run["faults"], "")) } }
            span { "seed " b { (run["seed"]) } }
            @if simulated_us > 0.0 { span { "simulated " b { (format!("{simulated_us:.1}")) " us" } } }
            @if let Some(wall_s) = run["wall_s"].as_f64() { span { "took " b { (format!("{wall_s:.1}")) " s" } } }
            span { "version " b { (text(run, "version")) } }
        }
        @for message in list(run, "messages") { p.message { (message.as_str().unwrap_or_default()) } }
        p.soft { "Repeat it with" }
    }
}

/// The figures that say most.
pub fn headline(folder: &Folder) -> Markup {
    let tiles = list(&folder.run, "headline");
    html! {
        @if !tiles.is_empty() {
            div.headline { @for tile in tiles {
                div.tile {
                    div.value { (text(tile, "value")) span.unit { (text(tile, "unit")) } }
                    div.name { (text(tile, "name")) }
                }
            } }
        }
    }
}

/// Every list of the run that has no place of its own, and the queue pairs that `hca run` saw.
pub fn lists(folder: &Folder) -> Markup {
    let object = folder.run.as_object();
    let lists = object
        .into_iter()
        .flatten()
        .filter(|(name, _)| !PLACED.contains(&name.as_str()));
    let lists = lists.filter_map(|(name, value)| Some((name, value.as_array()?)));
    let qps: Vec<Value> = list(&folder.run, "sessions")
        .iter()
        .flat_map(queue_pairs)
        .collect();
    html! {
        @for (name, rows) in lists.filter(|(_, rows)| rows.iter().any(Value::is_object)) {
            @let known = TITLES.iter().find(|(key, _)| key == name);
            h2 { (known.map_or_else(|| title(name).0, |(_, title)| (*title).to_owned())) }
            (of_rows(rows))
        }
        @if !qps.is_empty() { h2 { "Queue pairs" } (of_rows(&qps)) }
    }
}

/// Queue pairs of a process, each with the process's name.
fn queue_pairs(session: &Value) -> Vec<Value> {
    let qps = list(session, "qps").iter().map(|qp| {
        let mut row = qp.clone();
        let number = |key: &str| {
            qp[key]
                .as_u64()
                .map_or(Value::Null, |number| format!("{number:#x}").into())
        };
        row["card"] = session["card"].clone();
        row["program"] = session["program"].clone();
        (row["qp_num"], row["peer_qp_num"]) = (number("qp_num"), number("peer_qp_num"));
        row
    });
    qps.collect()
}

/// Plots, in the reader's colours.
pub fn plots(folder: &Folder) -> Markup {
    // The bars below say the same.
    let has_stages = !breakdowns(folder).is_empty();
    let plots: Vec<_> = folder
        .plots
        .iter()
        .filter(|(name, _)| !(has_stages && name == "stages.svg"))
        .collect();
    html! {
        @if !plots.is_empty() {
            h2 { "Plots" }
            div.plots { @for (_, svg) in plots { figure { (PreEscaped(inline(svg))) } } }
        }
    }
}

/// An SVG as part of the page: it takes the page's colours, its size follows the room, and it can run nothing.
fn inline(svg: &str) -> String {
    let from = svg.find("<svg").unwrap_or(0);
    let mut svg = svg[from..].to_owned();
    for (old, new) in [
        ("#FFFFFF", "none"),
        ("#000000", "currentColor"),
        ("<script", "<desc"),
        ("</script", "</desc"),
    ] {
        svg = svg.replace(old, new);
    }
    let head = svg.find('>').unwrap_or(0);
    let size = |name: &str| {
        let at = svg[..head].find(&format!(" {name}=\""))? + name.len() + 3;
        svg[at..].split('"').next()?.parse::<u32>().ok()
    };
    if let (Some(width), Some(height), false) =
        (size("width"), size("height"), svg[..head].contains("viewBox"))
    {
        svg.insert_str(head, &format!(" viewBox=\"0 0 {width} {height}\""));
    }
    svg
}

/// Breakdowns of the run, and of each of its measurements, with a title.
fn breakdowns(folder: &Folder) -> Vec<(String, &Value)> {
    let phase = |stages: &'_ Value| text(stages, "phase").to_owned();
    let mut all: Vec<_> = list(&folder.run, "stages")
        .iter()
        .map(|stages| (phase(stages), stages))
        .collect();
    for figures in list(&folder.run, "figures") {
        for stages in list(figures, "stages") {
            let size = shown(&figures["size_bytes"], "bytes");
            all.push((format!("{size} bytes, {}", phase(stages)), stages));
        }
    }
    all
}

/// Titles of a breakdown's table, their units, and what is in the columns.
const COLUMNS: [(&str, &str, &str); 6] = [
    ("p50", "cycles", "p50_cycles"),
    ("p99", "cycles", "p99_cycles"),
    ("max", "cycles", "max_cycles"),
    ("p50", "ns", "p50_ns"),
    ("p99", "ns", "p99_ns"),
    ("max", "ns", "max_ns"),
];

/// Where the time of work requests goes.
pub fn stages(folder: &Folder) -> Markup {
    let all = breakdowns(folder);
    let mut names: Vec<String> = Vec::new();
    for row in all.iter().flat_map(|(_, stages)| list(stages, "rows")) {
        if !names.contains(&piece(row)) {
            names.push(piece(row));
        }
    }
    html! {
        @if !all.is_empty() {
            h2 { "Where the time goes" }
            p.soft { "Time of work requests from doorbell to completion, cut at the stages that they reach." }
            div.keys { @for (at, name) in names.iter().enumerate() {
                span { span.key style={ "background: var(--s" (at % COLORS) ")" } {} (name) }
            } }
        }
        @for (name, stages) in &all { (breakdown(name, stages, &names, all.len() <= 2)) }
    }
}

/// One bar and its table. Colours are those of the pieces' places among the names.
fn breakdown(name: &str, stages: &Value, names: &[String], is_open: bool) -> Markup {
    let color = |row: &Value| {
        let at = names.iter().position(|name| *name == piece(row)).unwrap_or(0);
        format!("background: var(--s{})", at % COLORS)
    };
    let percent = |row: &Value| 100.0 * row["share"].as_f64().unwrap_or(0.0);
    let cell = |row: &Value, key: &str| shown(&row[key], "");
    html! {
        h3 { (name) " " span.unit {
            (cell(stages, "work_requests")) " work requests, median " (cell(stages, "total_p50_ns")) " ns, "
            "99 % within " (cell(stages, "total_p99_ns")) " ns, "
            (cell(stages, "retransmitted_packets")) " packets sent again"
        } }
        div.bar { @for row in list(stages, "rows") {
            span style={ (color(row)) "; width: " (format!("{:.2}", percent(row))) "%" }
                title={ (piece(row)) ", " (format!("{:.1}", percent(row))) " %" } {}
        } }
        details open[is_open] { summary { "All pieces" }
            div.scroll { table {
                thead { tr { th.text { "from .. to" } th { "share" span.unit { "%" } }
                    @for (title, unit, _) in COLUMNS { th { (title) span.unit { (unit) } } } } }
                tbody { @for row in list(stages, "rows") { tr {
                    td.text { span.key style=(color(row)) {} (piece(row)) }
                    td { (format!("{:.1}", percent(row))) }
                    @for (_, _, key) in COLUMNS { td { (cell(row, key)) } }
                } } }
            } }
        }
    }
}

fn piece(row: &Value) -> String {
    format!("{} .. {}", text(row, "from"), text(row, "to"))
}

/// What the cables carried, and what was done to it.
pub fn faults(folder: &Folder) -> Markup {
    let cables = match &folder.counters {
        Some(counters) => list(counters, "cables"),
        None => list(&folder.run, "links"),
    };
    let rows: Vec<(String, Vec<(String, Value)>)> = cables
        .iter()
        .flat_map(|cable| ["a_to_b", "b_to_a"].map(|dir| (cable, dir)))
        .map(|(cable, dir)| {
            (
                format!("{} {}", text(cable, "name"), dir.replace('_', " ")),
                flat(&cable[dir]),
            )
        })
        .collect();
    let mut names: Vec<&str> = match rows.first() {
        Some((_, row)) => row.iter().map(|(name, _)| name.as_str()).collect(),
        None => Vec::new(),
    };
    // What was carried first, then what was done to it.
    names.sort_by_key(|name| name.starts_with(FAULT));
    html! {
        @if !rows.is_empty() {
            h2 { "Cables and faults" }
            div.scroll { table {
                thead { tr { th.text {} @for (name, _) in &rows { th { (name) } } } }
                tbody { @for name in names { tr {
                    @let (title, unit) = title(name.trim_start_matches(FAULT));
                    @let is_fault = name.starts_with(FAULT);
                    th { @if is_fault { "fault: " } (title) " " span.unit { (unit) } }
                    @for (_, row) in &rows {
                        @let value = row.iter().find(|(known, _)| known == name);
                        @let value = value.and_then(|(_, value)| value.as_u64()).unwrap_or(0);
                        td.zero[value == 0].hit[is_fault && value > 0] { (grouped(value)) }
                    }
                } } }
            } }
        }
    }
}

/// What the cards counted.
pub fn counters(folder: &Folder) -> Markup {
    let Some(counters) = &folder.counters else {
        return html! {};
    };
    let is_zero = |row: &&Value| list(row, "values").iter().all(|value| value == 0);
    let (zero, some): (Vec<&Value>, Vec<&Value>) = list(counters, "counters").iter().partition(is_zero);
    let table = |rows: &[&Value]| {
        html! {
            div.scroll { table {
                thead { tr { th.text { "counter" }
                    @for card in list(counters, "cards") { th { (card.as_str().unwrap_or_default()) } }
                    th.text { "meaning" }
                } }
                tbody { @for row in rows { tr {
                    @let (name, unit) = title(text(row, "name"));
                    th { (name) " " span.unit { (unit) } }
                    @for value in list(row, "values") { td.zero[value == &json!(0)] { (shown(value, "")) } }
                    td.text.soft { (text(row, "meaning")) }
                } } }
            } }
        }
    };
    html! {
        h2 { "Counters of the cards" }
        (table(&some))
        @if !zero.is_empty() { details { summary { "Counters at zero (" (zero.len()) ")" } (table(&zero)) } }
    }
}

/// Files beside the page, and all data of the run.
pub fn kept(folder: &Folder, place: &Path) -> Markup {
    let hint = |name: &str| match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "pcap" => "packets: hca pcap check, or Wireshark",
        "fst" => "waveforms: GTKWave or Surfer",
        "json" if name.contains("timeline") => "timeline: open it in Perfetto or chrome://tracing",
        "json" | "jsonl" => "data",
        "svg" => "plot",
        "log" => "output of a program",
        "sh" => "the command that repeats the run",
        _ => "",
    };
    let rows = folder
        .files
        .iter()
        .map(|file| (&file.name, file.bytes, hint(&file.name)));
    let raw = serde_json::to_string_pretty(&folder.run).unwrap_or_default();
    let rest = folder.run.as_object().into_iter().flatten();
    let rest = rest
        .filter(|(_, value)| !value.is_array())
        .map(|(name, value)| (name.clone(), value.clone()));
    html! {
        h2 { "Files" }
        p.soft { "In " code { (place.display()) } }
        div.scroll { table { tbody { @for (name, bytes, hint) in rows {
            tr { th { (name) } td { (grouped(bytes)) " " span.unit { "bytes" } } td.text.soft { (hint) } }
        } } } }
        details { summary { "All data of " (folder.run_name) }
            (facts(rest.flat_map(|(name, value)| flat(&json!({ name: value })))))
            pre { code { (raw) } }
        }
    }
}
