//! The figures.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Everything that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// In the order in which the processes came.
    pub sessions: Vec<SessionReport>,
}

/// What one process did on one function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// Name of the card.
    pub card: String,
    /// Function.
    pub func: u8,
    /// Process.
    pub pid: i32,
    /// Its name when it came.
    pub program: String,
    /// It still has the function.
    pub is_running: bool,
    /// Those with traffic, in the order of their creation.
    pub qps: Vec<QpReport>,
    /// QPs that did nothing.
    pub idle_qps: u64,
    /// QPs with traffic whose figures were not kept: there were too many.
    pub lost_qps: u64,
}

/// One QP from its creation to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QpReport {
    /// Its number.
    pub qp_num: u32,
    /// That of its peer, once it was connected.
    pub peer_qp_num: Option<u32>,
    /// Work requests of the send queue: from the first doorbell to the last completion.
    pub sent: Flow,
    /// Work requests of the receive queue: from the first completion to the last, the first one's bytes not counted in
    /// the rates.
    pub received: Flow,
    /// From doorbell to completion in host memory, of signalled work requests of the send queue.
    pub latency: Option<Latency>,
    /// Request packets on the wire.
    pub packets: u64,
    /// Those of them that were sent before.
    pub retransmitted_packets: u64,
    /// How often transmission went back to an earlier packet.
    pub restarts: u64,
    /// Work requests of the send queue that had no completion yet, or none of their own.
    pub open: u64,
    /// When the last completion of either queue was.
    pub last_completion_ns: Option<u64>,
    /// When the first completion with an error was.
    pub first_error_ns: Option<u64>,
    /// When the last of its request packets was sent.
    pub last_packet_ns: Option<u64>,
}

/// Work requests that completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// With success.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Without.
    pub errors: u64,
    /// Length of the window.
    pub time_ns: u64,
    /// Bytes per second of simulated time.
    pub bytes_per_s: f64,
    /// Messages per second of simulated time.
    pub messages_per_s: f64,
}

/// Percentiles of a time, at most 1/64 too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// How many were measured.
    pub samples: u64,
    /// Shortest, exact.
    pub min_ns: u64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: u64,
    /// 99 % are not longer.
    pub p99_ns: u64,
    /// 99.9 % are not longer.
    pub p999_ns: u64,
    /// Longest, exact.
    pub max_ns: u64,
}

/// A number with three digits and a decimal prefix.
fn engineering(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled >= 999.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = match scaled {
        s if prefix == 0 && s.fract() == 0.0 => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$}{}", PREFIXES[prefix])
}

fn microseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1000.0)
}

impl Flow {
    fn is_empty(&self) -> bool {
        self.messages + self.errors == 0
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} messages, {} bytes in {} us",
            self.messages,
            self.bytes,
            microseconds(self.time_ns)
        );
        if self.time_ns > 0 {
            let _ = write!(
                text,
                ": {}B/s ({}bit/s), {} messages/s",
                engineering(self.bytes_per_s),
                engineering(self.bytes_per_s * 8.0),
                engineering(self.messages_per_s)
            );
        }
        if self.errors > 0 {
            let _ = write!(text, "; {} with errors", self.errors);
        }
        text
    }
}

impl QpReport {
    /// Something was posted and completed.
    pub(crate) fn has_traffic(&self) -> bool {
        !self.sent.is_empty() || !self.received.is_empty() || self.packets > 0
    }

    fn text(&self, out: &mut String) {
        let peer = self
            .peer_qp_num
            .map_or(String::new(), |qpn| format!(" to {qpn:#x}"));
        let _ = writeln!(out, "  QP {:#x}{peer}", self.qp_num);
        if !self.sent.is_empty() {
            let _ = writeln!(out, "    sent      {}", self.sent.text());
        }
        if let Some(l) = &self.latency {
            let times = [l.min_ns, l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns].map(microseconds);
            let _ = writeln!(
                out,
                "    latency   us: min {}, 50 % {}, 90 % {}, 99 % {}, 99.9 % {}, max {} ({} samples)",
                times[0], times[1], times[2], times[3], times[4], times[5], l.samples
            );
        }
        if !self.received.is_empty() {
            let _ = writeln!(out, "    received  {}", self.received.text());
        }
        if self.packets > 0 {
            let _ = write!(
                out,
                "    packets   {} requests, {} of them retransmissions",
                self.packets, self.retransmitted_packets
            );
            if self.restarts > 0 {
                let _ = write!(out, " in {} restarts", self.restarts);
            }
            out.push('\n');
        }
    }
}

impl Report {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut out = String::from("What the card saw, in simulated time:\n");
        if self.sessions.is_empty() {
            out += "  the program opened no card\n";
        }
        for session in &self.sessions {
            let state = if session.is_running { ", still running" } else { "" };
            let _ = writeln!(
                out,
                "{} function {}: {} (process {}{state})",
                session.card, session.func, session.program, session.pid
            );
            session.qps.iter().for_each(|qp| qp.text(&mut out));
            match (session.qps.is_empty(), session.idle_qps) {
                (true, 0) => out += "  no QPs\n",
                (_, 0) => {}
                (_, idle) => {
                    let _ = writeln!(out, "  {idle} QPs without traffic");
                }
            }
            if session.lost_qps > 0 {
                let _ = writeln!(out, "  {} more QPs, not kept", session.lost_qps);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (12.3e9, "12.3G"),
            (9.999e9, "10.0G"),
        ] {
            assert_eq!(engineering(value), text);
        }
        assert_eq!(microseconds(12_345), "12.345");
    }

    #[test]
    fn nothing_is_said_so() {
        assert!(Report::default().to_text().contains("opened no card"));
    }
}
