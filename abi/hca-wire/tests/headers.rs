//! Golden bytes of every header, typed from the figures of the specifications.

use hca_wire::*;

/// Checks that `bytes` parse to `repr` and that `repr` emits `bytes`.
macro_rules! golden {
    ($module:ident, $bytes:expr, { $($field:ident : $value:expr),+ $(,)? }) => {{
        let bytes: [u8; $module::LEN] = $bytes;
        let repr = $module::Repr { $($field: $value),+ };
        assert_eq!($module::Repr::read(&bytes), Ok(repr));
        assert_eq!(repr.to_bytes(), bytes);
        let mut view = $module::Packet::new_checked([0xa5; $module::LEN]).unwrap();
        repr.emit(&mut view);
        assert_eq!(view.into_inner(), bytes);
        let short = $module::Packet::new_checked(&bytes[..$module::LEN - 1]);
        assert!(matches!(short, Err(WireError::Truncated { .. })));
    }};
}

#[test]
fn ethernet_and_vlan() {
    golden!(ethernet, [1, 2, 3, 4, 5, 6, 0x52, 0x54, 0, 0, 0, 2, 0x08, 0x00], {
        dst_mac: [1, 2, 3, 4, 5, 6], src_mac: [0x52, 0x54, 0, 0, 0, 2], ethertype: 0x0800,
    });
    golden!(vlan, [0x70, 0x64, 0x86, 0xdd], { pcp: 3, dei: true, vid: 100, ethertype: 0x86dd });
}

#[test]
fn ipv4_header() {
    let bytes = [
        0x45, 0xb9, 0x04, 0x2c, 0xe1, 0x30, 0x40, 0x00, 0x40, 0x11, 0x41, 0x8e, 10, 0, 0, 2, 10, 0, 0, 1,
    ];
    golden!(ipv4, bytes, {
        version: 4, ihl: 5, dscp: 46, ecn: 1, total_len: 1068, identification: 0xe130,
        reserved_flag: false, dont_fragment: true, more_fragments: false, fragment_offset: 0,
        ttl: 64, protocol: 17, checksum: 0x418e, src_addr: [10, 0, 0, 2], dst_addr: [10, 0, 0, 1],
    });
}

#[test]
fn ipv6_and_grh_have_one_layout() {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45, 0x01, 0x18, 0x1b, 0x3f]);
    bytes[8..24].copy_from_slice(&[0x11; 16]);
    bytes[24..].copy_from_slice(&[0x22; 16]);
    golden!(ipv6, bytes, {
        version: 6, traffic_class: 0xab, flow_label: 0x12345, payload_len: 280, next_header: 0x1b,
        hop_limit: 63, src_addr: [0x11; 16], dst_addr: [0x22; 16],
    });
    golden!(grh, bytes, {
        ip_ver: 6, tclass: 0xab, flow_label: 0x12345, pay_len: 280, nxt_hdr: 0x1b,
        hop_limit: 63, sgid: [0x11; 16], dgid: [0x22; 16],
    });
}

#[test]
fn udp_header() {
    golden!(udp, [0xc1, 0x21, 0x12, 0xb7, 0x04, 0x18, 0xbe, 0xef], {
        src_port: 0xc121, dst_port: 4791, length: 1048, checksum: 0xbeef,
    });
}

#[test]
fn lrh_header_wire_1() {
    golden!(lrh, [0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2], {
        vl: 7, lver: 0, sl: 1, resv2: 0, lnh: 2, dlid: 0x375c, resv5: 0, pkt_len: 14, slid: 0x17d2,
    });
    golden!(lrh, [0x9f, 0x5b, 0xff, 0xff, 0xaf, 0xff, 0x00, 0x01], {
        vl: 9, lver: 15, sl: 5, resv2: 2, lnh: 3, dlid: 0xffff, resv5: 21, pkt_len: 0x7ff, slid: 1,
    });
}

#[test]
fn bth_header_x_1() {
    golden!(bth, [0x0a, 0xe0, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x80, 0x0d, 0xec, 0x2a], {
        opcode: 0x0a, solicited: true, mig_req: true, pad_count: 2, tver: 0, pkey: 0x2487,
        fecn: false, becn: false, resv6: 0, dest_qp: 0x87b1b3, ack_req: true, resv7: 0, psn: 0x0dec2a,
    });
    golden!(bth, [0x64, 0x1f, 0xff, 0xff, 0xc5, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff], {
        opcode: 0x64, solicited: false, mig_req: false, pad_count: 1, tver: 15, pkey: 0xffff,
        fecn: true, becn: true, resv6: 5, dest_qp: 1, ack_req: false, resv7: 0x7f, psn: 0xffffff,
    });
}

#[test]
fn extended_headers_wire_4() {
    golden!(rdeth, [9, 0x12, 0x34, 0x56], { resv8: 9, ee_context: 0x123456 });
    golden!(deth, [0x80, 0x01, 0, 0, 0, 0, 0, 1], { qkey: QKEY_GSI, resv8: 0, src_qp: 1 });
    golden!(xrceth, [0, 0xab, 0xcd, 0xef], { resv8: 0, xrcsrq: 0xabcdef });
    golden!(feth, [0, 0, 0, 0x11], { resv26: 0, sel: 1, plt: 1 });
    golden!(feth, [0xff, 0xff, 0xff, 0xc2], { resv26: 0x3ff_ffff, sel: 0, plt: 2 });
    golden!(reth, [1, 0x71, 0x0a, 0x1c, 1, 0x5d, 0x40, 2, 0x38, 0xf2, 0x7a, 5, 0, 0, 0, 0x0e], {
        va: 0x01710a1c015d4002, rkey: 0x38f27a05, dma_len: 14,
    });
    let mut atomic = [0; 28];
    for (index, byte) in (1..).zip(atomic.iter_mut()) {
        *byte = index;
    }
    golden!(atomic_eth, atomic, {
        va: 0x0102030405060708, rkey: 0x090a0b0c, swap_add: 0x0d0e0f1011121314,
        compare: 0x15161718191a1b1c,
    });
    golden!(aeth, [0x1f, 0, 1, 2], { syndrome: 0x1f, msn: 0x000102 });
    golden!(atomic_ack_eth, [1, 2, 3, 4, 5, 6, 7, 8], { orig_remote: 0x0102030405060708 });
    golden!(immdt, [0xde, 0xad, 0xbe, 0xef], { imm: 0xdeadbeef });
    golden!(ieth, [0x01, 0x02, 0x03, 0x04], { rkey: 0x01020304 });
}

#[test]
fn header_sizes_wire_1_to_11() {
    let sizes: Vec<_> = HEADERS.iter().map(|def| (def.name, def.bytes)).collect();
    let expected = [
        ("Ethernet", 14),
        ("VLAN", 4),
        ("IPv4", 20),
        ("IPv6", 40),
        ("UDP", 8),
        ("LRH", 8),
        ("GRH", 40),
        ("BTH", 12),
        ("RDETH", 4),
        ("DETH", 8),
        ("XRCETH", 4),
        ("FETH", 4),
        ("RETH", 16),
        ("AtomicETH", 28),
        ("AETH", 4),
        ("AtomicAckETH", 8),
        ("ImmDt", 4),
        ("IETH", 4),
    ];
    assert_eq!(sizes, expected);
}

#[test]
fn a_setter_leaves_neighbours_alone_and_cuts_wide_values() {
    let mut view = bth::Packet::new_checked([0xff; 12]).unwrap();
    view.set_pad_count(0);
    view.set_dest_qp(0xaa12_3456);
    let bytes = view.into_inner();
    assert_eq!(
        bytes,
        [255, 0xcf, 255, 255, 255, 0x12, 0x34, 0x56, 255, 255, 255, 255]
    );
}
