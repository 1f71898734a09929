//! Packet captures of a cable.

use crate::{Dir, LinkError, LinkKind, erf};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where on a cable a capture listens. Both directions go into one file, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tap {
    /// At the senders, before any fault: what the cards put on the wire, stamped with the cycle in
    /// which the last beat was handed over.
    Sent,
    /// At the receivers, behind the faults: what the cards get, stamped with the cycle of delivery.
    Delivered,
}

/// A pcap file with nanosecond stamps that count from the start of the simulation.
///
/// InfiniBand packets are wrapped in ERF records: Wireshark decodes InfiniBand in pcap files only
/// inside ERF, not as link type 247. The record also tells the direction.
pub(crate) struct Capture {
    tap: Tap,
    kind: LinkKind,
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl Capture {
    pub(crate) fn create(tap: Tap, kind: LinkKind, path: &Path) -> Result<Self, LinkError> {
        let header = PcapHeader {
            snaplen: u32::from(u16::MAX),
            datalink: match kind {
                LinkKind::Ethernet => DataLink::ETHERNET,
                LinkKind::InfiniBand => DataLink::ERF,
            },
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let failed = |reason| LinkError::Capture {
            path: path.to_owned(),
            reason,
        };
        let file = File::create(path).map_err(failed)?;
        let writer = PcapWriter::with_header(BufWriter::new(file), header);
        let writer = writer.map_err(|error| failed(io_error(error)))?;
        Ok(Self {
            kind,
            tap,
            path: path.to_owned(),
            writer,
        })
    }

    pub(crate) fn tap(&self) -> Tap {
        self.tap
    }

    fn failed(&self, reason: io::Error) -> LinkError {
        LinkError::Capture {
            path: self.path.clone(),
            reason,
        }
    }

    pub(crate) fn write(&mut self, dir: Dir, time_ps: u64, bytes: &[u8]) -> Result<(), LinkError> {
        let time_ns = time_ps / crate::clock::PS_PER_NS;
        let record = match self.kind {
            LinkKind::Ethernet => Cow::Borrowed(bytes),
            LinkKind::InfiniBand => Cow::Owned(erf::wrap(dir, time_ns, bytes)),
        };
        let packet = PcapPacket::new(Duration::from_nanos(time_ns), record.len() as u32, &record);
        match self.writer.write_packet(&packet) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(io_error(error))),
        }
    }

    /// Writes what is still buffered.
    pub(crate) fn close(self) -> Result<(), LinkError> {
        let path = self.path;
        let flushed = self.writer.into_writer().flush();
        flushed.map_err(|reason| LinkError::Capture { path, reason })
    }
}
