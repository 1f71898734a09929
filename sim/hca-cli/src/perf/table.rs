//! `hca perf --table LIST`: what is asked of the card, measured row by row, each with the command that does it alone.

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use hca_fw_core::NUM_QPS;
use hca_host::PcieParams;
use serde::Serialize;
use std::process::ExitCode;

use super::{Args, Figures, again as after_nak, losses, measure::Bench};
use crate::options::{Link, Machine};
use crate::plots::engineering;

/// Lists of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Rates, latencies and cycles of the core
    Core,
    /// What is left when the cable loses packets
    Loss,
}

impl Table {
    fn rows(self) -> Vec<Row> {
        match self {
            Table::Core => core(),
            Table::Loss => losses::rows(),
        }
    }
}

/// What is taken of a measurement. Of the first four more is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Goodput,
    Messages,
    /// Of the cable's rate, percent.
    Wire,
    /// Messages, percent of those of an earlier row.
    OfRow(usize),
    P50,
    ToWire,
    InCards,
    /// Cycles from a NAK to the packet that it asks for.
    Again,
    /// Simulated cycles per second of this machine: no limit.
    Speed,
}

/// `options`: what follows `hca perf`.
pub(super) struct Row {
    pub what: What,
    pub name: String,
    pub options: String,
    pub must: f64,
    pub goal: f64,
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// What came out, as JSON.
#[derive(Serialize)]
struct Outcome<'a> {
    name: &'a str,
    measured: f64,
    must: Option<f64>,
    goal: Option<f64>,
    verdict: &'static str,
    note: Option<String>,
    command: String,
}

pub(super) const NONE: f64 = f64::NAN;
/// Messages in the window of QPs in turn, by what is in flight.
const IN_FLIGHT_OF_WINDOW: u32 = 4;
const MANY: &str = "--size 64 --qps 64 --outstanding 64 --signal-every 16";

/// From a NAK to the packet that it asks for.
pub(super) fn again() -> Row {
    Row {
        what: What::Again,
        name: "NAK to the packet sent again, cycles and a read".to_owned(),
        options: String::new(),
        must: 250.0,
        goal: 150.0,
    }
}

fn core() -> Vec<Row> {
    let row = |what, name: &str, options: &str, must, goal| Row {
        what,
        name: name.to_owned(),
        options: options.to_owned(),
        must,
        goal,
    };
    let mut rows = vec![
        row(
            What::Goodput,
            "WRITE 64 KiB, one QP, Ethernet",
            "--size 64k",
            12.24e9,
            NONE,
        ),
        row(
            What::Goodput,
            "WRITE 64 KiB, one QP, InfiniBand",
            "--size 64k --link ib",
            12.40e9,
            NONE,
        ),
        row(
            What::Goodput,
            "READ 64 KiB, one QP, Ethernet",
            "--op read --size 64k",
            12.24e9,
            NONE,
        ),
        row(
            What::Goodput,
            "READ 64 KiB, one QP, InfiniBand",
            "--op read --size 64k --link ib",
            12.40e9,
            NONE,
        ),
        row(What::Messages, "WRITE 64 B, 64 QPs, Ethernet", MANY, 74e6, 77.2e6),
        row(
            What::Messages,
            "WRITE 64 B, 64 QPs, InfiniBand",
            &format!("{MANY} --link ib"),
            80e6,
            NONE,
        ),
        row(
            What::Messages,
            "WRITE 64 B, one QP, a completion each",
            "--size 64",
            50e6,
            70e6,
        ),
        row(
            What::Messages,
            "READ 64 B, 64 QPs",
            &format!("--op read {MANY}"),
            50e6,
            70e6,
        ),
        row(
            What::Messages,
            "SEND 64 B, 64 QPs",
            &format!("--op send {MANY}"),
            60e6,
            70e6,
        ),
    ];
    // Against as few QPs that do the same otherwise: messages in flight of each, and completions, count as well. Each
    // has as many as 65,536 in flight allow, and 32 at most. QPs end one after the other, with less and less in
    // flight, so the window is several times what is in flight: of twice that much its ends decide.
    for (qps, outstanding) in [(1_022, 32), (4_096, 16), (16_382, 4)]
        .into_iter()
        .filter(|(qps, _)| qps + 2 <= NUM_QPS)
    {
        let options = |qps, iters| {
            format!("--size 64 --qps {qps} --outstanding {outstanding} --signal-every 4 --iters {iters}")
        };
        let base = rows.len();
        let name = format!("WRITE 64 B, 64 QPs, {outstanding} messages of each in flight");
        rows.push(row(What::Messages, &name, &options(64, 256), NONE, NONE));
        let name = format!("{qps} QPs in turn, % of these");
        let iters = (IN_FLIGHT_OF_WINDOW * outstanding).max(64);
        rows.push(row(What::OfRow(base), &name, &options(qps, iters), 95.0, 99.0));
    }
    let random = "--op read --size 4k --qps 16 --region 64G --page 4k";
    rows.extend([
        row(
            What::Wire,
            "READ 4 KiB in 64 GiB of 4 KiB pages, % of the wire",
            random,
            50.0,
            80.0,
        ),
        row(
            What::ToWire,
            "doorbell to wire, WRITE 64 B, cycles",
            "--size 64",
            60.0,
            NONE,
        ),
        row(
            What::InCards,
            "the same, and wire to memory",
            "--size 64",
            100.0,
            80.0,
        ),
        row(
            What::P50,
            "p50 of WRITE 64 B, pushed, ns",
            "--size 64",
            1_700.0,
            1_600.0,
        ),
        again(),
        row(
            What::Speed,
            "simulated cycles per second, WRITE 64 KiB",
            "--size 64k",
            NONE,
            NONE,
        ),
    ]);
    rows
}

/// Measures and prints them. The code is 1 if one is not what it must be.
pub fn run(which: Table, json: bool, machine: &Machine) -> Result<ExitCode> {
    if !json {
        let lines =
            format!("A card of {NUM_QPS} lines (HCA_VSIM_LINES), PCIe model on, simulated time at 250 MHz\n");
        let head = format!(
            "{:<52} {:>9} {:>7} {:>7}         measured by\n",
            "", "measured", "must", "goal"
        );
        crate::print(&(lines + &head))?;
    }
    let (mut done, mut missed) = (Vec::new(), false);
    let mut last: Option<(String, Figures)> = None;
    for row in which.rows() {
        let (mut must, mut goal) = (row.must, row.goal);
        let note;
        let measured = if row.what == What::Again {
            let cycles = after_nak::cycles(Link::Eth)?;
            // One PCIe round trip of the model.
            let pcie = PcieParams::default();
            let read = pcie.cycles(pcie.read_latency_ns.into());
            (must, goal) = (must + read as f64, goal + read as f64);
            note = Some(format!(
                "of {} NAKs {} to {}",
                cycles.len(),
                cycles[0],
                cycles[cycles.len() - 1]
            ));
            cycles[cycles.len() / 2] as f64
        } else {
            let figures = match last.take().filter(|(options, _)| *options == row.options) {
                Some((_, figures)) => figures,
                None => measure(&row.options, machine)?,
            };
            note = remark(row.what, &figures);
            let value = of(row.what, &figures, &done);
            last = Some((row.options.clone(), figures));
            value
        };
        let verdict = verdict(row.what, measured, must, goal);
        missed |= verdict == "misses";
        done.push(measured);
        let command = match row.what {
            What::Again => "hca perf --table loss".to_owned(),
            _ => format!("hca perf {}", row.options),
        };
        print(
            &Outcome {
                name: &row.name,
                measured,
                must: some(must),
                goal: some(goal),
                verdict,
                note,
                command,
            },
            json,
        )?;
    }
    Ok(ExitCode::from(u8::from(missed)))
}

/// What stands below a figure.
fn remark(what: What, figures: &Figures) -> Option<String> {
    if let What::OfRow(_) = what {
        let Figures {
            iters, outstanding, ..
        } = figures;
        return Some(format!("of {iters} messages of each QP, {outstanding} in flight"));
    }
    let region = figures.region.as_ref()?;
    Some(format!(
        "{:.3} reads of the page list per message",
        region.list_reads_per_message
    ))
}

fn some(limit: f64) -> Option<f64> {
    (!limit.is_nan()).then_some(limit)
}

fn measure(options: &str, machine: &Machine) -> Result<Figures> {
    let line =
        Line::try_parse_from(options.split_whitespace()).with_context(|| format!("hca perf {options}"))?;
    let args = Args {
        machine: *machine,
        ..line.args
    };
    args.check()?;
    Bench::new(&args, args.link[0])?.measure(args.size.0[0])
}

fn of(what: What, figures: &Figures, earlier: &[f64]) -> f64 {
    match what {
        What::Goodput => figures.goodput_bytes_per_s,
        What::Messages => figures.messages_per_s,
        What::Wire => figures.wire_percent(),
        What::OfRow(row) => figures.messages_per_s * 100.0 / earlier[row],
        What::P50 => figures.latency_p50_ns as f64,
        What::ToWire => figures.card_cycles_to_wire as f64,
        What::InCards | What::Again => figures.card_internal_cycles as f64,
        What::Speed => figures.sim_cycles_per_wall_s,
    }
}

fn verdict(what: What, measured: f64, must: f64, goal: f64) -> &'static str {
    let more = matches!(what, What::Goodput | What::Messages | What::Wire | What::OfRow(_));
    let met = |limit: f64| {
        if more {
            measured >= limit
        } else {
            measured <= limit
        }
    };
    match (must.is_nan(), met(must), met(goal)) {
        (true, ..) => "",
        (_, _, true) => "goal",
        (_, true, _) => "must",
        _ => "misses",
    }
}

fn print(outcome: &Outcome, json: bool) -> Result<()> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
    let note = outcome
        .note
        .as_ref()
        .map_or(String::new(), |note| format!("{:<53}{note}\n", ""));
    let line = match json {
        true => serde_json::to_string(outcome)? + "\n",
        false => format!(
            "{:<52} {:>9} {:>7} {:>7} {:<7} {}\n{note}",
            outcome.name,
            figure(outcome.measured),
            number(outcome.must),
            number(outcome.goal),
            outcome.verdict,
            outcome.command
        ),
    };
    crate::print(&line)?;
    Ok(())
}

fn figure(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => engineering(value),
        value if value.fract() == 0.0 => format!("{value}"),
        value => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_command() {
        let rows = Table::value_variants().iter().flat_map(|list| list.rows());
        for row in rows.filter(|row| row.what != What::Again) {
            let line = Line::try_parse_from(row.options.split_whitespace()).unwrap();
            line.args.check().unwrap();
            assert_eq!(
                (line.args.link.len(), line.args.size.0.len()),
                (1, 1),
                "{}",
                row.options
            );
        }
    }

    #[test]
    fn shares_are_of_messages_before() {
        for rows in Table::value_variants().iter().map(|list| list.rows()) {
            let shares = rows.iter().enumerate().filter_map(|(at, row)| match row.what {
                What::OfRow(base) => Some((at, base)),
                _ => None,
            });
            assert!(shares.clone().count() > 0);
            for (at, base) in shares {
                assert!(
                    base < at && rows[base].what == What::Messages,
                    "{}",
                    rows[at].name
                );
            }
        }
    }

    /// Also of cards with more lines than this one.
    #[test]
    fn the_ends_of_a_window_do_not_decide() {
        let in_turn = |row: &&Row| matches!(row.what, What::OfRow(_)) && row.name.contains("in turn");
        let rows = core();
        assert!(rows.iter().any(|row| in_turn(&row)));
        for row in rows.iter().filter(in_turn) {
            let args = Line::try_parse_from(row.options.split_whitespace()).unwrap().args;
            assert!(
                args.iters(64) >= IN_FLIGHT_OF_WINDOW * args.outstanding(64),
                "{}",
                row.options
            );
        }
    }

    #[test]
    fn a_limit_is_met_from_its_side() {
        assert_eq!(verdict(What::Messages, 73.0, 74.0, 77.0), "misses");
        assert_eq!(verdict(What::Messages, 75.0, 74.0, 77.0), "must");
        assert_eq!(verdict(What::Messages, 78.0, 74.0, NONE), "must");
        assert_eq!(verdict(What::P50, 1_590.0, 1_700.0, 1_600.0), "goal");
        assert_eq!(verdict(What::P50, 1_701.0, 1_700.0, 1_600.0), "misses");
        assert_eq!(verdict(What::Speed, 1.0, NONE, NONE), "");
    }
}
