//! ERF records (Extensible Record Format) that hold InfiniBand packets.

use crate::Dir;

/// Bytes of an ERF record header.
pub const HEADER_LEN: usize = 16;
/// Record type of an InfiniBand packet, LRH through VCRC.
const TYPE_INFINIBAND: u8 = 21;
/// Type bit that says an extension header of 8 bytes follows; each of them has the same bit.
const MORE_HEADERS: u8 = 0x80;
const EXTENSION_LEN: usize = 8;
/// Flag: records differ in length.
const FLAG_VARYING: u8 = 4;

/// Wraps an InfiniBand packet in a record. End A sends on capture interface 0, end B on 1.
pub fn wrap(dir: Dir, time_ns: u64, packet: &[u8]) -> Vec<u8> {
    const NS_PER_S: u64 = 1_000_000_000;
    // The stamp counts 2^-32 seconds.
    let stamp = ((time_ns / NS_PER_S) << 32) | (((time_ns % NS_PER_S) << 32) / NS_PER_S);
    let interface = u8::from(dir == Dir::BToA);
    let record_len = (HEADER_LEN + packet.len()) as u16;
    let mut record = Vec::with_capacity(HEADER_LEN + packet.len());
    record.extend(stamp.to_le_bytes());
    record.extend([TYPE_INFINIBAND, FLAG_VARYING | interface]);
    record.extend(record_len.to_be_bytes());
    record.extend([0, 0]); // Packets lost by the capture: none.
    record.extend((packet.len() as u16).to_be_bytes());
    record.extend(packet);
    record
}

/// The InfiniBand packet in a record; `None` where the record is cut or holds something else.
pub fn unwrap(record: &[u8]) -> Option<&[u8]> {
    let header = record.get(..HEADER_LEN)?;
    if header[8] & !MORE_HEADERS != TYPE_INFINIBAND {
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
