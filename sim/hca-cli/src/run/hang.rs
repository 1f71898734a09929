//! Where programs stand that do not end.

use hca_cosim::ServerStatus;
use hca_meter::{QpReport, Report, SessionReport};
use std::time::Duration;

/// An end that still runs.
pub struct Hung<'a> {
    /// `server` or `client`.
    pub name: &'static str,
    /// Name of its card.
    pub card: &'a str,
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

fn qp(qp: &QpReport) -> String {
    let mut text = format!(
        "QP {:#x}: {} sent, {} received, {} not completed",
        qp.qp_num, qp.sent.messages, qp.received.messages, qp.open
    );
    let errors = qp.sent.errors + qp.received.errors;
    if errors > 0 {
        text += &format!(", {errors} with errors");
    }
    if qp.retransmitted_packets > 0 {
        text += &format!(", {} packets sent again", qp.retransmitted_packets);
    }
    for (what, when) in [
        ("completion", qp.last_completion_ns),
        ("packet", qp.last_packet_ns),
    ] {
        if let Some(at) = when {
            text += &format!(", last {what} at {}", milliseconds(at));
        }
    }
    text
}

fn session(end: &Hung<'_>, session: &SessionReport) -> Vec<String> {
    let who = format!("{}: {} (process {})", end.name, session.program, session.pid);
    if session.qps.is_empty() {
        return vec![format!("{who}: nothing sent or received")];
    }
    let qps = session.qps.iter().map(qp);
    qps.map(|qp| format!("{who}: {qp}")).collect()
}

/// Lines for people: who did not end in time, and where each of them stood.
pub fn describe(
    limit: Duration,
    idle: Duration,
    ends: &[Hung<'_>],
    status: &ServerStatus,
    report: &Report,
) -> Vec<String> {
    let names: Vec<_> = ends.iter().map(|end| end.name).collect();
    let mut lines = vec![format!(
        "{} killed: not ended within --timeout {}; simulated {}, {} packets, none in the last {:.1} s",
        names.join(" and "),
        humantime::format_duration(limit),
        milliseconds(status.now_ns()),
        status.packets(),
        idle.as_secs_f64(),
    )];
    for end in ends {
        let sessions = report
            .sessions
            .iter()
            .filter(|session| session.is_running && session.card == end.card);
        let stood: Vec<_> = sessions.flat_map(|found| session(end, found)).collect();
        if stood.is_empty() {
            lines.push(format!("{}: has no card open", end.name));
        }
        lines.extend(stood);
    }
    lines.extend(status.deadlock().map(str::to_owned));
    lines
}
