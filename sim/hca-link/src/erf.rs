//! ERF records (Extensible Record Format) that hold InfiniBand packets.

use crate::{Dir, LinkKind};

/// Bytes of an ERF record header.
pub const HEADER_LEN: usize = 16;
/// Record type of an InfiniBand packet, LRH through VCRC.
const TYPE_INFINIBAND: u8 = 21;
/// Record type of an InfiniBand link packet.
const TYPE_INFINIBAND_LINK: u8 = 25;
/// Type bit that says an extension header of 8 bytes follows; each of them has the same bit.
const MORE_HEADERS: u8 = 0x80;
const EXTENSION_LEN: usize = 8;
/// Length of a link packet in a record: its six bytes, and zeros. In the first of its two passes Wireshark 4.0 takes
/// a link packet for a data packet, looks for the headers behind an LRH, and calls what is shorter malformed.
const LINK_RECORD_LEN: usize = 64;
/// Flag: records differ in length.
const FLAG_VARYING: u8 = 4;

/// Wraps an InfiniBand packet in a record. End A sends on capture interface 0, end B on 1. Link packets have a record
/// type of their own.
pub fn wrap(dir: Dir, time_ns: u64, packet: &[u8]) -> Vec<u8> {
    const NS_PER_S: u64 = 1_000_000_000;
    // The stamp counts 2^-32 seconds.
    let stamp = ((time_ns / NS_PER_S) << 32) | (((time_ns % NS_PER_S) << 32) / NS_PER_S);
    let interface = u8::from(dir == Dir::BToA);
    let (record_type, packet_len) = if LinkKind::InfiniBand.is_link_packet(packet) {
        (TYPE_INFINIBAND_LINK, LINK_RECORD_LEN)
    } else {
        (TYPE_INFINIBAND, packet.len())
    };
    let record_len = HEADER_LEN + packet_len;
    let mut record = Vec::with_capacity(record_len);
    record.extend(stamp.to_le_bytes());
    record.extend([record_type, FLAG_VARYING | interface]);
    record.extend((record_len as u16).to_be_bytes());
    record.extend([0, 0]); // Packets lost by the capture: none.
    record.extend((packet_len as u16).to_be_bytes());
    record.extend(packet);
    record.resize(record_len, 0);
    record
}

/// The InfiniBand packet in a record; `None` where the record is cut or holds something else.
pub fn unwrap(record: &[u8]) -> Option<&[u8]> {
    payload(record, TYPE_INFINIBAND)
}

/// The InfiniBand link packet in a record; `None` where the record is cut or holds something else.
pub fn unwrap_link(record: &[u8]) -> Option<&[u8]> {
    payload(record, TYPE_INFINIBAND_LINK)?.get(..LinkKind::LINK_PACKET_BYTES)
}

fn payload(record: &[u8], record_type: u8) -> Option<&[u8]> {
    let header = record.get(..HEADER_LEN)?;
    if header[8] & !MORE_HEADERS != record_type {
        return None;
    }
    let mut at = HEADER_LEN;
    let mut more = header[8] & MORE_HEADERS != 0;
    while more {
        more = record.get(at)? & MORE_HEADERS != 0;
        at += EXTENSION_LEN;
    }
    let packet_len = usize::from(u16::from_be_bytes([header[14], header[15]]));
    record.get(at..at.checked_add(packet_len)?)
}
