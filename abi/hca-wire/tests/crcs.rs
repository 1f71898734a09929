//! ICRC and VCRC against the specification's sample packet and a second, bit-serial implementation.

use hca_wire::*;

/// Sample packet of IBA vol1 7.8.1 with the variant fields already ones, LRH through pad bytes.
const SAMPLE_MASKED: [u8; 52] = [
    0xf0, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87, 0xff, 0x87, 0xb1, 0xb3, 0x00,
    0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00,
    0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00,
    0x00,
];

/// The sample as it is sent: VL 7, BTH reserved byte 0, ICRC, VCRC.
fn sample_on_wire() -> Vec<u8> {
    let mut bytes = SAMPLE_MASKED.to_vec();
    bytes[0] = 0x70;
    bytes[12] = 0;
    bytes.extend([0x96, 0x25, 0xb7, 0x5a, 0x45, 0xfa]);
    bytes
}

/// CRC by shift register: the polynomial's top coefficient meets each byte's lowest bit first, the
/// register is complemented at the end, and its top coefficient is sent first, lowest bit first.
fn shift_register(bytes: &[u8], poly: u32, width: u32) -> u32 {
    let ones = u32::MAX >> (32 - width);
    let mut register = ones;
    for bit in bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit) & 1))
    {
        let feedback = (register >> (width - 1)) ^ bit;
        register = ((register << 1) & ones) ^ (poly * feedback);
    }
    let sent_order = (register ^ ones).reverse_bits() >> (32 - width);
    sent_order.swap_bytes() >> (32 - width)
}

#[test]
fn sample_packet_icrc_x_5() {
    assert_eq!(crc::icrc_ib_local(&SAMPLE_MASKED), 0x9625_b75a);
    let wire = sample_on_wire();
    assert_eq!(crc::icrc_ib_local(&wire[..52]), 0x9625_b75a);
    assert_eq!(shift_register(&SAMPLE_MASKED, 0x04c1_1db7, 32), 0x9625_b75a);
}

#[test]
fn sample_packet_vcrc() {
    let wire = sample_on_wire();
    assert_eq!(crc::vcrc(&wire[..56]), 0x45fa);
    assert_eq!(shift_register(&wire[..56], 0x100b, 16), 0x45fa);
}

#[test]
fn sample_packet_parses_and_is_built_again() {
    let wire = sample_on_wire();
    let packet = WholePacket::parse(Framing::InfiniBand, &wire).unwrap();
    assert!(packet.crcs().icrc_ok() && packet.crcs().vcrc_ok());
    assert_eq!(packet.opcode(), Opcode::RcWriteOnly);
    assert_eq!(packet.payload().len(), 14);
    assert_eq!(packet.ext().reth.unwrap().dma_len, 14);
    let mut buffer = [0; 64];
    assert_eq!(packet.repr().emit(&mut buffer), Ok(wire.len()));
    assert_eq!(&buffer[..wire.len()], wire);
}

#[test]
fn every_wrong_bit_is_seen_by_the_vcrc_and_only_variant_bits_escape_the_icrc() {
    let wire = sample_on_wire();
    for bit in 0..wire.len() * 8 {
        let mut bad = wire.clone();
        bad[bit / 8] ^= 0x80 >> (bit % 8);
        let Ok(envelope) = Envelope::parse(Framing::InfiniBand, &bad) else {
            continue; // The LRH's length or next header is hit: not this packet any more.
        };
        let crcs = envelope.crcs();
        assert!(!crcs.vcrc_ok(), "bit {bit}");
        let variant = bit < 4 || bit / 8 == 12 || bit / 8 >= 56;
        assert_eq!(crcs.icrc_ok(), variant, "bit {bit}");
    }
}

#[test]
fn masks_of_all_four_coverages() {
    let bytes: Vec<u8> = (0..100u8).map(|value| value.wrapping_mul(7)).collect();
    let masked = |prefix: &[u8], from: usize, ones: &[(usize, u8)]| {
        let mut copy = bytes[from..].to_vec();
        for &(offset, bits) in ones {
            copy[offset] |= bits;
        }
        shift_register(&[prefix, &copy].concat(), 0x04c1_1db7, 32)
    };
    let lrh = [0xff; 8];
    let all = |offsets: &[usize]| offsets.iter().map(|&at| (at, 0xff)).collect::<Vec<_>>();
    let ipv4 = masked(&lrh, 0, &all(&[1, 8, 10, 11, 26, 27, 32]));
    assert_eq!(crc::icrc_roce_ipv4(&bytes), ipv4);
    let mut ones = all(&[1, 2, 3, 7, 46, 47, 52]);
    ones.push((0, 0x0f));
    assert_eq!(crc::icrc_roce_ipv6(&bytes), masked(&lrh, 0, &ones));
    let mut ones = all(&[1, 2, 3, 7, 44]);
    ones.push((0, 0x0f));
    assert_eq!(crc::icrc_ib_global(&bytes), masked(&lrh, 8, &ones));
    assert_eq!(
        crc::icrc_ib_local(&bytes),
        masked(&[], 0, &[(0, 0xf0), (12, 0xff)])
    );
}

#[test]
fn crcs_of_short_input_do_not_panic() {
    for len in 0..100 {
        let bytes = vec![0x5a; len];
        crc::icrc_roce_ipv4(&bytes);
        crc::icrc_roce_ipv6(&bytes);
        crc::icrc_ib_local(&bytes);
        crc::icrc_ib_global(&bytes);
        crc::vcrc(&bytes);
        crc::ipv4_checksum(&bytes);
    }
}

#[test]
fn ipv4_checksum_of_a_known_header() {
    // Worked example of RFC 1071 arithmetic on a captured header; checksum field zeroed.
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7,
    ];
    assert_eq!(crc::ipv4_checksum(&header), 0xb861);
}
