//! Packets that are nearly right: each begins as one that the card must take, of any service, and then some of what it
//! says is changed: a field, a byte, a length, an end, a CRC. The CRCs fit again afterwards, but for a few.

use hca_system_tests::Rng;
use hca_wire::{
    ExtHeader, ExtHeaders, Link, Network, Opcode, Operation, PacketRepr, Service, aeth, atomic_ack_eth,
    atomic_eth, bth, crc, deth, feth, ieth, immdt, rdeth, reth, xrceth,
};

/// What the attacker knows: more than any peer does.
pub struct Knowledge {
    pub link: Link,
    /// Payload bytes of a packet.
    pub mtu: u32,
    /// R_Keys and L_Keys: good, read-only, of another domain, stale.
    pub keys: Vec<u32>,
    /// First addresses and lengths of regions.
    pub ranges: Vec<(u64, u32)>,
    pub qkey: u32,
    /// Numbers of XRC SRQs.
    pub srqns: Vec<u32>,
}

/// A QP to be attacked.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    pub qpn: u32,
    pub service: Service,
    /// PSN that it may expect.
    pub psn: u32,
}

const ICRC_LEN: usize = 4;
const VCRC_LEN: usize = 2;
/// Bytes that are left of what follows the link's headers.
const LEAST: usize = 8;

fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.below(n) == 0
}

fn word(rng: &mut Rng) -> u32 {
    rng.below(u32::MAX)
}

fn of<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.below(list.len() as u32) as usize]
}

/// Mostly this; else anything, or nearly this.
fn mostly(rng: &mut Rng, value: u32) -> u32 {
    match rng.below(12) {
        0 => word(rng),
        1 => value.wrapping_add(1 + rng.below(4)),
        2 => value.wrapping_sub(1 + rng.below(4)),
        3 => value ^ 1 << rng.below(32),
        _ => value,
    }
}

fn opcode(rng: &mut Rng, service: Service) -> Opcode {
    // Whole SENDs are what a queue without receives refuses for a while.
    if one_in(rng, 6)
        && let Some(opcode) = Opcode::of(service, Operation::SendOnly)
    {
        return opcode;
    }
    loop {
        let opcode = of(rng, Opcode::ALL);
        if opcode.service() == service || one_in(rng, 30) {
            return opcode;
        }
    }
}

fn payload_bytes(rng: &mut Rng, mtu: u32) -> u32 {
    match rng.below(8) {
        0 => 0,
        1 | 2 => mtu,
        3 => mtu + 1 + rng.below(8),
        4 => rng.below(4 * mtu),
        _ => rng.below(80),
    }
}

fn address(rng: &mut Rng, known: &Knowledge) -> u64 {
    let (va, bytes) = of(rng, &known.ranges);
    match rng.below(8) {
        0 => u64::from(word(rng)) << 32 | u64::from(word(rng)),
        1 => va.wrapping_sub(u64::from(rng.below(64))),
        2 => va + u64::from(bytes) - u64::from(rng.below(64)),
        3 => u64::MAX - u64::from(rng.below(64)),
        _ => va + u64::from(rng.below(bytes)),
    }
}

fn key(rng: &mut Rng, known: &Knowledge) -> u32 {
    let key = of(rng, &known.keys);
    mostly(rng, key)
}

fn headers(rng: &mut Rng, known: &Knowledge, opcode: Opcode, payload: u32) -> ExtHeaders {
    let has = |header| opcode.has(header);
    let srqn = of(rng, &known.srqns);
    let length = match rng.below(4) {
        0 => word(rng),
        1 => payload + known.mtu * rng.below(4),
        _ => payload,
    };
    ExtHeaders {
        rdeth: has(ExtHeader::Rdeth).then(rdeth::Repr::default),
        deth: has(ExtHeader::Deth).then(|| deth::Repr {
            qkey: mostly(rng, known.qkey),
            src_qp: word(rng) & 0xff_ffff,
            ..Default::default()
        }),
        xrceth: has(ExtHeader::Xrceth).then(|| xrceth::Repr {
            xrcsrq: mostly(rng, srqn) & 0xff_ffff,
            ..Default::default()
        }),
        feth: has(ExtHeader::Feth).then(|| feth::Repr {
            plt: mostly(rng, 1) as u8 & 15,
            sel: rng.below(3) as u8,
            ..Default::default()
        }),
        reth: has(ExtHeader::Reth).then(|| reth::Repr {
            va: address(rng, known),
            rkey: key(rng, known),
            dma_len: length,
        }),
        atomic_eth: has(ExtHeader::AtomicEth).then(|| atomic_eth::Repr {
            va: address(rng, known) & !u64::from(7 * rng.below(2)),
            rkey: key(rng, known),
            swap_add: u64::from(word(rng)),
            compare: u64::from(word(rng)),
        }),
        aeth: has(ExtHeader::Aeth).then(|| aeth::Repr {
            syndrome: word(rng) as u8,
            msn: word(rng) & 0xff_ffff,
        }),
        atomic_ack_eth: has(ExtHeader::AtomicAckEth).then(|| atomic_ack_eth::Repr {
            orig_remote: u64::from(word(rng)),
        }),
        immdt: has(ExtHeader::ImmDt).then(|| immdt::Repr { imm: word(rng) }),
        ieth: has(ExtHeader::Ieth).then(|| ieth::Repr {
            rkey: key(rng, known),
        }),
    }
}

/// A packet, nearly right for `victim`.
pub fn draw(rng: &mut Rng, known: &Knowledge, victim: &mut Victim) -> Vec<u8> {
    let opcode = opcode(rng, victim.service);
    let length = payload_bytes(rng, known.mtu);
    let payload = rng.bytes(length as usize);
    let psn = match rng.below(8) {
        0 => word(rng),
        1 => victim.psn.wrapping_sub(1 + rng.below(8)),
        2 => victim.psn.wrapping_add(1 + rng.below(80)),
        _ => {
            victim.psn = victim.psn.wrapping_add(1);
            victim.psn.wrapping_sub(1)
        }
    };
    let repr = PacketRepr {
        link: known.link,
        bth: bth::Repr {
            opcode: opcode as u8,
            solicited: one_in(rng, 2),
            mig_req: !one_in(rng, 4),
            pkey: if one_in(rng, 20) { word(rng) as u16 } else { 0xffff },
            dest_qp: mostly(rng, victim.qpn) & 0xff_ffff,
            ack_req: one_in(rng, 2),
            psn: psn & 0xff_ffff,
            tver: if one_in(rng, 40) {
                1 + rng.below(15) as u8
            } else {
                0
            },
            ..Default::default()
        },
        ext: headers(rng, known, opcode, length),
        payload: &payload,
    };
    let mut bytes = vec![0; repr.buffer_len().expect("a known opcode")];
    repr.emit(&mut bytes).expect("a packet of a known opcode");
    spoil(rng, &known.link, &mut bytes);
    bytes
}

/// A WRITE as long as one can be, for nobody.
pub fn longest(known: &Knowledge) -> Vec<u8> {
    const PAYLOAD: usize = 4096;
    let repr = PacketRepr {
        link: known.link,
        bth: bth::Repr {
            opcode: Opcode::XrcWriteOnlyImm as u8,
            pkey: 0xffff,
            dest_qp: 0xf_ffff,
            ..Default::default()
        },
        ext: ExtHeaders {
            xrceth: Some(xrceth::Repr::default()),
            reth: Some(reth::Repr::default()),
            immdt: Some(immdt::Repr { imm: 0 }),
            ..Default::default()
        },
        payload: &[0; PAYLOAD],
    };
    let mut bytes = vec![0; repr.buffer_len().expect("a known opcode")];
    repr.emit(&mut bytes).expect("a packet of a known opcode");
    bytes
}

/// Changes bytes, the length, the ends.
fn spoil(rng: &mut Rng, link: &Link, bytes: &mut Vec<u8>) {
    let body = link.header_len();
    let behind = bytes.len() - body;
    if one_in(rng, 3) {
        for _ in 0..=rng.below(3) {
            // The BTH says the most.
            let room = if one_in(rng, 2) { bth::LEN } else { behind };
            let at = body + rng.below(room as u32) as usize;
            bytes[at] = word(rng) as u8;
        }
    }
    if one_in(rng, 10) {
        let less = rng.below(behind as u32) as usize;
        bytes.truncate((bytes.len() - less).max(body + LEAST));
    } else if one_in(rng, 20) {
        let more = 1 + rng.below(64) as usize;
        bytes.extend(rng.bytes(more));
    }
    if let Link::Ethernet { .. } = link
        && one_in(rng, 10)
    {
        // Behind the addresses of Ethernet: with another one it would not come here.
        let at = 12 + rng.below(body as u32 - 12) as usize;
        bytes[at] = word(rng) as u8;
    }
    if !one_in(rng, 40) {
        seal(link, bytes);
    }
}

/// Gives it the CRCs, and the IPv4 header the checksum, that go with what it is now.
fn seal(link: &Link, bytes: &mut [u8]) {
    let covered = link.covered_offset();
    match link {
        Link::Ethernet { ip, .. } => {
            let (body, icrc) = bytes.split_at_mut(bytes.len() - ICRC_LEN);
            let found = match ip {
                Network::Ipv4(_) => {
                    body[covered + 10..covered + 12].fill(0);
                    let sum = crc::ipv4_checksum(&body[covered..covered + 20]);
                    body[covered + 10..covered + 12].copy_from_slice(&sum.to_be_bytes());
                    crc::icrc_roce_ipv4(&body[covered..])
                }
                Network::Ipv6(_) => crc::icrc_roce_ipv6(&body[covered..]),
            };
            icrc.copy_from_slice(&found.to_be_bytes());
        }
        Link::InfiniBand { grh, .. } => {
            let (packet, vcrc) = bytes.split_at_mut(bytes.len() - VCRC_LEN);
            let (body, icrc) = packet.split_at_mut(packet.len() - ICRC_LEN);
            let found = match grh {
                Some(_) => crc::icrc_ib_global(body),
                None => crc::icrc_ib_local(body),
            };
            icrc.copy_from_slice(&found.to_be_bytes());
            vcrc.copy_from_slice(&crc::vcrc(packet).to_be_bytes());
        }
    }
}
