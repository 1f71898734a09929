//! Several kinds of link under the same load, side by side in one table.

use anyhow::{Result, bail};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::keep::keep;
use super::measure::Bench;
use super::{Args, Figures, conditions};
use crate::plots::engineering;
use crate::sizes::human;

/// A column: its title, and what it shows of a link's figures.
type Measure = (&'static str, fn(&Figures) -> String);

/// Columns of a size: those of each measure, one below the name of each link.
const MEASURES: [Measure; 5] = [
    ("goodput B/s", |f| engineering(f.goodput_bytes_per_s)),
    ("% wire", |f| format!("{:.1}", f.wire_percent())),
    ("messages/s", |f| engineering(f.messages_per_s)),
    ("p50 ns", |f| f.latency_p50_ns.to_string()),
    ("p99 ns", |f| f.latency_p99_ns.to_string()),
];
const COLUMN: usize = 9;

/// What cannot be asked of several links at once.
pub fn check(args: &Args) -> Result<()> {
    for (index, link) in args.link.iter().enumerate() {
        if args.link[..index].contains(link) {
            bail!("--link names {link} twice");
        }
    }
    for (asked, option) in [
        (args.stages, "--stages"),
        (args.trace.is_some(), "--trace"),
        (args.timeline.timeline.is_some(), "--timeline"),
    ] {
        if asked {
            bail!("{option} looks at one link: take --link eth or --link ib");
        }
    }
    Ok(())
}

/// Measures all sizes on all links; each link has two cards of its own, in a thread of its own.
pub fn run(args: &Args) -> Result<Vec<Figures>> {
    let (sender, figures) = mpsc::channel();
    let all = thread::scope(|scope| {
        let sides = (0..args.link.len()).map(|side| {
            let sender = sender.clone();
            scope.spawn(move || measure(args, side, &sender))
        });
        let sides = sides.collect::<Vec<_>>();
        drop(sender);
        let shown = show(args, figures);
        for side in sides {
            match side.join() {
                Ok(result) => result?,
                Err(payload) => std::panic::resume_unwind(payload),
            }
        }
        shown
    })?;
    if let Some(folder) = &args.keep {
        keep(folder, args, &all, None)?;
    }
    Ok(all)
}

fn measure(args: &Args, side: usize, sender: &Sender<(usize, usize, Figures)>) -> Result<()> {
    let mut bench = Bench::new(args, args.link[side])?;
    for (row, size) in args.size.0.iter().enumerate() {
        if sender.send((row, side, bench.measure(*size)?)).is_err() {
            break; // The other end has failed, and says why.
        }
    }
    Ok(())
}

/// Prints the figures of a size when all its links have theirs, so that the order does not depend on the threads.
fn show(args: &Args, figures: mpsc::Receiver<(usize, usize, Figures)>) -> Result<Vec<Figures>> {
    let mut rows: Vec<Vec<Option<Figures>>> = vec![vec![None; args.link.len()]; args.size.0.len()];
    let mut printed = 0;
    for (row, side, figures) in figures {
        if !args.json && rows.iter().flatten().all(Option::is_none) {
            crate::print(&header(args, &figures))?;
        }
        rows[row][side] = Some(figures);
        while let Some(whole) = rows.get(printed).and_then(|row| whole(row)) {
            if args.json {
                for figures in whole {
                    crate::print(&(serde_json::to_string(figures)? + "\n"))?;
                }
            } else {
                crate::print(&line(&whole))?;
            }
            printed += 1;
        }
    }
    Ok(rows.into_iter().flatten().flatten().collect())
}

fn whole(row: &[Option<Figures>]) -> Option<Vec<&Figures>> {
    row.iter().map(Option::as_ref).collect()
}

fn header(args: &Args, any: &Figures) -> String {
    let links = args.link.iter().map(ToString::to_string).collect::<Vec<_>>();
    let width = (COLUMN + 1) * links.len();
    let names = MEASURES.map(|(name, _)| format!("{name:>width$}"));
    let below = links
        .iter()
        .map(|link| format!(" {link:>COLUMN$}"))
        .collect::<String>();
    format!(
        "{}{:>8}{}\n{:>8}{}\n",
        conditions(args, &links.join(" and "), &any.pcie),
        "size",
        names.concat(),
        "",
        below.repeat(MEASURES.len())
    )
}

fn line(row: &[&Figures]) -> String {
    let size = row.first().map_or(String::new(), |f| human(f.size_bytes.into()));
    let cells = MEASURES
        .iter()
        .flat_map(|(_, get)| row.iter().map(|f| format!(" {:>COLUMN$}", get(f))));
    let regions = row.iter().map(|f| super::region_line(f)).collect::<String>();
    format!("{size:>8}{}\n{regions}", cells.collect::<String>())
}
