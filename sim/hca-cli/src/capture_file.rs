//! Reads pcap and pcapng files as one stream of packets.

use anyhow::{Context, Result, bail};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;

/// One packet of a capture.
pub struct Captured {
    /// Link type of the interface it was seen on.
    pub link: DataLink,
    /// Bytes in the file.
    pub bytes: Vec<u8>,
    /// Bytes on the wire; more than in the file where the capture cut the packet.
    pub wire_len: usize,
}

enum Format {
    Pcap(PcapReader<File>),
    PcapNg(PcapNgReader<File>),
}

/// An open capture.
pub struct CaptureFile {
    name: String,
    format: Format,
    /// Packets read so far.
    packets: u64,
}

const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP_MAGICS: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

impl CaptureFile {
    /// Opens a capture. Every error is one sentence that names the file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let mut file = File::open(path).with_context(|| format!("{name} cannot be opened"))?;
        let mut magic = Vec::new();
        let head = file.by_ref().take(4).read_to_end(&mut magic);
        head.with_context(|| format!("{name} cannot be read"))?;
        let Ok(magic) = <[u8; 4]>::try_from(magic) else {
            bail!("{name} is too short for a capture: it has not even the 4 bytes of a magic number");
        };
        file.rewind()
            .with_context(|| format!("{name} cannot be read from its start"))?;
        let is_pcap = PCAP_MAGICS.contains(&u32::from_le_bytes(magic))
            || PCAP_MAGICS.contains(&u32::from_be_bytes(magic));
        let broken = |error| sentence(&name, "in its file header", &error);
        let format = if magic == PCAPNG_MAGIC {
            Format::PcapNg(PcapNgReader::new(file).map_err(broken)?)
        } else if is_pcap {
            Format::Pcap(PcapReader::new(file).map_err(broken)?)
        } else {
            bail!("{name} is not a capture: it begins like neither pcap nor pcapng");
        };
        Ok(Self {
            name,
            format,
            packets: 0,
        })
    }

    /// The next packet; `None` at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<Captured>> {
        let next = match &mut self.format {
            Format::Pcap(reader) => next_pcap(reader),
            Format::PcapNg(reader) => next_pcapng(reader),
        };
        match next {
            Ok(captured) => {
                self.packets += u64::from(captured.is_some());
                Ok(captured)
            }
            Err(error) => Err(sentence(
                &self.name,
                &format!("behind packet {}", self.packets),
                &error,
            )),
        }
    }
}

/// What is wrong with a file, and where.
fn sentence(name: &str, place: &str, error: &PcapError) -> anyhow::Error {
    match error {
        PcapError::IncompleteBuffer => anyhow::anyhow!("{name} is truncated {place}"),
        PcapError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
            anyhow::anyhow!("{name} is truncated {place}")
        }
        PcapError::IoError(error) => anyhow::anyhow!("{name} cannot be read {place}: {error}"),
        other => anyhow::anyhow!("{name} is damaged {place}: {other}"),
    }
}

fn next_pcap(reader: &mut PcapReader<File>) -> Result<Option<Captured>, PcapError> {
    let link = reader.header().datalink;
    let Some(packet) = reader.next_raw_packet() else {
        return Ok(None);
    };
    let packet = packet?;
    let wire_len = packet.orig_len as usize;
    Ok(Some(Captured {
        link,
        bytes: packet.data.into_owned(),
        wire_len,
    }))
}

fn next_pcapng(reader: &mut PcapNgReader<File>) -> Result<Option<Captured>, PcapError> {
    loop {
        let Some(block) = reader.next_block() else {
            return Ok(None);
        };
        let (interface, bytes, wire_len) = match block? {
            Block::EnhancedPacket(packet) => (
                packet.interface_id,
                packet.data.into_owned(),
                packet.original_len as usize,
            ),
            Block::SimplePacket(packet) => (0, packet.data.into_owned(), packet.original_len as usize),
            Block::Packet(packet) => (
                u32::from(packet.interface_id),
                packet.data.into_owned(),
                packet.original_len as usize,
            ),
            _ => continue,
        };
        let Some(description) = reader.interfaces().get(interface as usize) else {
            return Err(PcapError::InvalidInterfaceId(interface));
        };
        return Ok(Some(Captured {
            link: description.linktype,
            bytes,
            wire_len,
        }));
    }
}
