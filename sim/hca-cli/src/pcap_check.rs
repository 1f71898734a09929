//! `hca pcap check`: what is in a capture, and whether its CRCs are right.

use crate::capture_file::{CaptureFile, Captured};
use anyhow::{Result, bail};
use hca_link::erf;
use hca_wire::{Envelope, FlowControl, Framing, Opcode, WholePacket, WireError};
use indicatif::{ProgressBar, ProgressStyle};
use pcap_file::DataLink;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Wrong packets, and queue pairs, that the printed report names one by one.
const LISTED_MAX: usize = 32;
/// Work shorter than this shows no progress bar.
const QUIET: Duration = Duration::from_secs(2);

/// Packets and their bytes on the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    packets: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What is wrong with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fault {
    /// The ICRC is not the one of these bytes.
    Icrc { expected: String, found: String },
    /// The VCRC is not the one of these bytes.
    Vcrc { expected: String, found: String },
    /// A link packet that is no flow control packet, or whose LPCRC is wrong.
    FlowControl { reason: String },
    /// The headers contradict each other or the packet's length.
    Malformed { reason: String },
    /// The capture holds only the start of the packet.
    Cut {
        captured_bytes: usize,
        wire_bytes: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Icrc { expected, found } => write!(f, "ICRC expected {expected}, found {found}"),
            Self::Vcrc { expected, found } => write!(f, "VCRC expected {expected}, found {found}"),
            Self::FlowControl { reason } => write!(f, "link packet: {reason}"),
            Self::Malformed { reason } => write!(f, "malformed: {reason}"),
            Self::Cut {
                captured_bytes,
                wire_bytes,
            } => write!(
                f,
                "cut to {captured_bytes} of {wire_bytes} bytes; capture with a larger snap length"
            ),
        }
    }
}

/// A wrong packet. Packets are numbered from 1, as Wireshark does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongPacket {
    packet: u64,
    #[serde(flatten)]
    fault: Fault,
}

/// What is in a capture.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    total: Count,
    /// By opcode, `other` for packets without IBA transport.
    opcodes: BTreeMap<String, Count>,
    /// By destination queue pair.
    dest_qps: BTreeMap<u32, Count>,
    icrc_checked: u64,
    vcrc_checked: u64,
    lpcrc_checked: u64,
    wrong: Vec<WrongPacket>,
}

const OTHER: &str = "other";
const FLOW_CONTROL: &str = "flow control";

impl Report {
    /// Looks at one packet.
    fn add(&mut self, captured: &Captured) -> Result<()> {
        let (framing, bytes) = match captured.link {
            DataLink::ETHERNET => (Framing::Ethernet, &captured.bytes[..]),
            DataLink::INFINIBAND => (Framing::InfiniBand, &captured.bytes[..]),
            DataLink::ERF => match erf::unwrap(&captured.bytes) {
                Some(packet) => (Framing::InfiniBand, packet),
                None => {
                    self.add_record(captured);
                    return Ok(());
                }
            },
            link => bail!(
                "link type {} is not known here; known are Ethernet (1), ERF (197) and InfiniBand (247)",
                u32::from(link)
            ),
        };
        self.total.add(bytes.len());
        let envelope = match Envelope::parse(framing, bytes) {
            Ok(envelope) => envelope,
            Err(WireError::NotIba(_)) => {
                self.count(OTHER, bytes.len());
                return Ok(());
            }
            Err(error) => {
                self.count("malformed", bytes.len());
                self.wrong(malformed_or_cut(captured, &error));
                return Ok(());
            }
        };
        let opcode = envelope.bth().opcode;
        let name = Opcode::try_from(opcode).map_or_else(
            |_| format!("unknown opcode {opcode:#04x}"),
            |opcode| opcode.to_string(),
        );
        self.count(&name, bytes.len());
        self.dest_qps
            .entry(envelope.bth().dest_qp)
            .or_default()
            .add(bytes.len());
        if let Err(error) = WholePacket::parse(framing, bytes)
            && !matches!(error, WireError::UnknownOpcode(_))
        {
            self.wrong(malformed_or_cut(captured, &error));
        }
        self.check_crcs(&envelope);
        Ok(())
    }

    /// Looks at an ERF record that holds no data packet.
    fn add_record(&mut self, captured: &Captured) {
        let Some(link) = erf::unwrap_link(&captured.bytes) else {
            self.total.add(captured.wire_len);
            self.count(OTHER, captured.wire_len);
            return;
        };
        self.total.add(link.len());
        self.count(FLOW_CONTROL, link.len());
        self.lpcrc_checked += 1;
        if let Err(error) = FlowControl::parse(link) {
            let reason = error.to_string();
            self.wrong(Fault::FlowControl { reason });
        }
    }

    fn check_crcs(&mut self, envelope: &Envelope<'_>) {
        let crcs = envelope.crcs();
        self.icrc_checked += 1;
        if !crcs.icrc_ok() {
            let expected = format!("{:#010x}", crcs.icrc_expected);
            let found = format!("{:#010x}", crcs.icrc_found);
            self.wrong(Fault::Icrc { expected, found });
        }
        if let Some((found, expected)) = crcs.vcrc_found_expected {
            self.vcrc_checked += 1;
            if found != expected {
                let (expected, found) = (format!("{expected:#06x}"), format!("{found:#06x}"));
                self.wrong(Fault::Vcrc { expected, found });
            }
        }
    }

    fn count(&mut self, name: &str, bytes: usize) {
        match self.opcodes.get_mut(name) {
            Some(count) => count.add(bytes),
            None => self.opcodes.entry(name.to_owned()).or_default().add(bytes),
        }
    }

    fn wrong(&mut self, fault: Fault) {
        self.wrong.push(WrongPacket {
            packet: self.total.packets,
            fault,
        });
    }

    /// The report as a person reads it.
    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<40} {:>10} {:>14}", "opcode", "packets", "bytes");
        for (name, count) in &self.opcodes {
            let _ = writeln!(text, "{name:<40} {:>10} {:>14}", count.packets, count.bytes);
        }
        let _ = writeln!(
            text,
            "{:<40} {:>10} {:>14}",
            "total", self.total.packets, self.total.bytes
        );
        if !self.dest_qps.is_empty() {
            let _ = writeln!(
                text,
                "\n{:<40} {:>10} {:>14}",
                "destination QP", "packets", "bytes"
            );
        }
        for (qp, count) in self.dest_qps.iter().take(LISTED_MAX) {
            let _ = writeln!(
                text,
                "{:<40} {:>10} {:>14}",
                format!("{qp:#08x}"),
                count.packets,
                count.bytes
            );
        }
        if let Some(more) = self
            .dest_qps
            .len()
            .checked_sub(LISTED_MAX)
            .filter(|&more| more > 0)
        {
            let _ = writeln!(text, "and {more} more queue pairs (--json lists all)");
        }
        let _ = writeln!(text);
        for wrong in self.wrong.iter().take(LISTED_MAX) {
            let _ = writeln!(text, "packet {}: {}", wrong.packet, wrong.fault);
        }
        if let Some(more) = self.wrong.len().checked_sub(LISTED_MAX).filter(|&more| more > 0) {
            let _ = writeln!(text, "and {more} more (--json lists all)");
        }
        let verdict = match self.wrong.len() {
            0 => "all good".to_owned(),
            count => format!("{count} wrong"),
        };
        let (icrcs, vcrcs) = (self.icrc_checked, self.vcrc_checked);
        let _ = match self.lpcrc_checked {
            0 => writeln!(text, "checked {icrcs} ICRCs and {vcrcs} VCRCs: {verdict}"),
            links => writeln!(
                text,
                "checked {icrcs} ICRCs, {vcrcs} VCRCs and {links} LPCRCs: {verdict}"
            ),
        };
        text
    }
}

fn malformed_or_cut(captured: &Captured, error: &WireError) -> Fault {
    if captured.bytes.len() < captured.wire_len {
        return Fault::Cut {
            captured_bytes: captured.bytes.len(),
            wire_bytes: captured.wire_len,
        };
    }
    Fault::Malformed {
        reason: error.to_string(),
    }
}

/// A progress bar that appears when the work takes long.
struct Progress {
    started: Instant,
    file_bytes: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(file: &Path) -> Self {
        let file_bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        Self {
            started: Instant::now(),
            file_bytes,
            bar: None,
        }
    }

    fn update(&mut self, done_bytes: u64) {
        if self.started.elapsed() < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(self.file_bytes);
            let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_position(done_bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Reads the whole capture.
fn check(file: &Path) -> Result<Report> {
    /// Bytes in front of each packet of a pcap file; close enough for pcapng.
    const RECORD_HEADER_LEN: u64 = 16;
    const UPDATE_EVERY: u64 = 1024;
    let mut capture = CaptureFile::open(file)?;
    let mut progress = Progress::new(file);
    let mut report = Report::default();
    let mut done_bytes = 0;
    while let Some(captured) = capture.next_packet()? {
        done_bytes += captured.bytes.len() as u64 + RECORD_HEADER_LEN;
        let number = report.total.packets + 1;
        report.add(&captured).map_err(|error| {
            error.context(format!("{}, packet {number} cannot be checked", file.display()))
        })?;
        if number.is_multiple_of(UPDATE_EVERY) {
            progress.update(done_bytes);
        }
    }
    Ok(report)
}

/// Checks a capture and prints the report. Success where all is good, 1 where a packet is wrong;
/// an error, for exit code 2, where the file cannot be read to its end.
pub fn run(file: &Path, json: bool) -> Result<ExitCode> {
    let report = check(file)?;
    let mut text = if json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.text()
    };
    if json {
        text.push('\n');
    }
    // A reader that has seen enough (a closed pipe) does not change the verdict.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    Ok(if report.wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
