//! The CRCs and the checksum of a packet, in software.
//!
//! CRC values are in the specification's notation: the most significant byte is sent first. The
//! sample packet of IBA vol1 7.8.1 has ICRC 0x9625B75A, sent as 96 25 B7 5A.

use crc::{Algorithm, Crc, Table};

/// ICRC: the CRC-32 of Ethernet (IBA vol1 7.8.1, X-5).
#[cfg(not(target_os = "none"))]
fn crc32(parts: [&[u8]; 3]) -> u32 {
    let mut digest = crc32fast::Hasher::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// The same where there is no operating system.
#[cfg(target_os = "none")]
fn crc32(parts: [&[u8]; 3]) -> u32 {
    const ICRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&crc::CRC_32_ISO_HDLC);
    let mut digest = ICRC.digest();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// VCRC: polynomial 0x100B, bits in the order of the wire (IBA vol1 7.8.2).
const VCRC_ALGORITHM: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    refin: true,
    refout: true,
    xorout: 0xffff,
    check: 0x0a3d,
    residue: 0,
};
const VCRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&VCRC_ALGORITHM);

/// LRH, GRH and BTH: the longest run of headers with masked bytes.
const HEAD_LEN_MAX: usize = 60;

/// Bytes that count as ones in the ICRC: offset from the first covered header, and which bits.
type Masks = [(usize, u8)];

/// From the IPv4 header: TOS, TTL, header checksum, UDP checksum, BTH byte 4 (annex A17.3.3).
const ROCE_IPV4_MASKS: &Masks = &[
    (1, 0xff),
    (8, 0xff),
    (10, 0xff),
    (11, 0xff),
    (26, 0xff),
    (27, 0xff),
    (32, 0xff),
];

/// From the IPv6 header: traffic class and flow label, hop limit, UDP checksum, BTH byte 4.
const ROCE_IPV6_MASKS: &Masks = &[
    (0, 0x0f),
    (1, 0xff),
    (2, 0xff),
    (3, 0xff),
    (7, 0xff),
    (46, 0xff),
    (47, 0xff),
    (52, 0xff),
];

/// From the LRH of a packet without GRH: VL, BTH byte 4.
const IB_LOCAL_MASKS: &Masks = &[(0, 0xf0), (12, 0xff)];

/// From the GRH: traffic class and flow label, hop limit, BTH byte 4. The LRH counts as all ones.
const IB_GLOBAL_MASKS: &Masks = &[(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff), (7, 0xff), (44, 0xff)];

const LRH_ONES: [u8; crate::lrh::LEN] = [0xff; crate::lrh::LEN];

fn masked_icrc(with_lrh_of_ones: bool, bytes: &[u8], masks: &Masks) -> u32 {
    let before: &[u8] = if with_lrh_of_ones { &LRH_ONES } else { &[] };
    let (head, tail) = bytes.split_at(bytes.len().min(HEAD_LEN_MAX));
    let mut masked = [0; HEAD_LEN_MAX];
    let masked = &mut masked[..head.len()];
    masked.copy_from_slice(head);
    for &(offset, bits) in masks {
        if let Some(byte) = masked.get_mut(offset) {
            *byte |= bits;
        }
    }
    crc32([before, masked, tail]).swap_bytes()
}

/// ICRC of a RoCEv2 packet over IPv4; `bytes` is the IP header up to and with the pad bytes.
pub fn icrc_roce_ipv4(bytes: &[u8]) -> u32 {
    masked_icrc(true, bytes, ROCE_IPV4_MASKS)
}

/// ICRC of a RoCEv2 packet over IPv6; `bytes` is the IP header up to and with the pad bytes.
pub fn icrc_roce_ipv6(bytes: &[u8]) -> u32 {
    masked_icrc(true, bytes, ROCE_IPV6_MASKS)
}

/// ICRC of an InfiniBand packet without GRH; `bytes` is the LRH up to and with the pad bytes.
pub fn icrc_ib_local(bytes: &[u8]) -> u32 {
    masked_icrc(false, bytes, IB_LOCAL_MASKS)
}

/// ICRC of an InfiniBand packet with GRH; `bytes` is the LRH up to and with the pad bytes.
pub fn icrc_ib_global(bytes: &[u8]) -> u32 {
    masked_icrc(true, bytes.get(crate::lrh::LEN..).unwrap_or(&[]), IB_GLOBAL_MASKS)
}

/// VCRC of an InfiniBand packet; `bytes` is the LRH up to and with the ICRC.
pub fn vcrc(bytes: &[u8]) -> u16 {
    VCRC.checksum(bytes).swap_bytes()
}

/// LPCRC of a link packet; `bytes` is what stands in front of it. The polynomial and the register rules are those of
/// the VCRC (IBA vol1 7.8.2, 7.9.4).
pub fn lpcrc(bytes: &[u8]) -> u16 {
    vcrc(bytes)
}

/// Internet checksum of an IPv4 header whose checksum field is zero (RFC 1071).
pub fn ipv4_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in header.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
