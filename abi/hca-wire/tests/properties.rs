//! Laws that hold for any bytes and any packet.

use hca_wire::*;
use proptest::prelude::*;

/// Any bytes of a header's length are a legal value: read and written they are the same bytes.
macro_rules! every_header_round_trips {
    ($($module:ident)+) => {
        proptest! {
            $(
                #[test]
                fn $module(bytes in any::<[u8; hca_wire::$module::LEN]>()) {
                    let repr = hca_wire::$module::Repr::read(&bytes).unwrap();
                    prop_assert_eq!(repr.to_bytes(), bytes);
                }
            )+
        }
    };
}
every_header_round_trips! {
    ethernet vlan ipv4 ipv6 udp lrh grh bth rdeth deth xrceth feth reth atomic_eth aeth atomic_ack_eth immdt ieth
}

fn link() -> impl Strategy<Value = Link> {
    let ethernet = (
        any::<[u8; 14]>(),
        any::<Option<[u8; 4]>>(),
        any::<[u8; 40]>(),
        any::<[u8; 8]>(),
    );
    let roce = (ethernet, any::<bool>()).prop_map(|((eth, vlan, ip, udp), is_v6)| {
        let ip = if is_v6 {
            Network::Ipv6(ipv6::Repr::read(&ip).unwrap())
        } else {
            let ip = ipv4::Repr::read(&ip).unwrap();
            Network::Ipv4(ipv4::Repr {
                more_fragments: false,
                fragment_offset: 0,
                ..ip
            })
        };
        Link::Ethernet {
            eth: ethernet::Repr::read(&eth).unwrap(),
            vlan: vlan.map(|tag| vlan::Repr::read(&tag).unwrap()),
            ip,
            udp: udp::Repr::read(&udp).unwrap(),
        }
    });
    let infiniband = (any::<[u8; 8]>(), any::<Option<[u8; 20]>>()).prop_map(|(lrh, grh)| Link::InfiniBand {
        lrh: lrh::Repr::read(&lrh).unwrap(),
        grh: grh.map(|half| grh::Repr::read(&[half, half].concat()).unwrap()),
    });
    prop_oneof![roce, infiniband]
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for framing in [Framing::Ethernet, Framing::InfiniBand] {
            if let Ok(envelope) = Envelope::parse(framing, &bytes) {
                envelope.crcs();
            }
            let _ = WholePacket::parse(framing, &bytes);
        }
    }

    #[test]
    fn a_built_packet_parses_to_what_it_was_built_from(
        link in link(),
        opcode in proptest::sample::select(Opcode::ALL),
        bth_bytes in any::<[u8; 12]>(),
        ext_bytes in any::<[u8; 48]>(),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bth = bth::Repr { opcode: opcode as u8, ..bth::Repr::read(&bth_bytes).unwrap() };
        let ext = ExtHeaders::read(opcode, &ext_bytes).unwrap();
        let repr = PacketRepr { link, bth, ext, payload: &payload };
        let mut buffer = vec![0; repr.buffer_len().unwrap()];
        prop_assert_eq!(repr.emit(&mut buffer), Ok(buffer.len()));

        let packet = WholePacket::parse(link.framing(), &buffer).unwrap();
        prop_assert!(packet.crcs().icrc_ok() && packet.crcs().vcrc_ok());
        prop_assert_eq!(packet.payload(), &payload);
        prop_assert_eq!(packet.ext(), &ext);
        let pad_count = packet.bth().pad_count;
        prop_assert_eq!(*packet.bth(), bth::Repr { pad_count, ..bth });

        let mut headers = [0; 160];
        let headers_len = repr.emit_headers(&mut headers).unwrap();
        let behind = (payload.len() + usize::from(pad_count)) + 4;
        prop_assert!([headers_len + behind, headers_len + behind + 2].contains(&buffer.len()));
        prop_assert_eq!(&headers[..headers_len], &buffer[..headers_len]);
        prop_assert!(repr.emit_headers(&mut headers[..headers_len - 1]).is_err());

        let mut again = vec![0; buffer.len()];
        packet.repr().emit(&mut again).unwrap();
        prop_assert_eq!(&again, &buffer);
        if let Some(last) = buffer.len().checked_sub(1) {
            prop_assert!(WholePacket::parse(link.framing(), &buffer[..last]).is_err());
            let short = repr.emit(&mut again[..last]);
            let (need_bytes, have_bytes) = (buffer.len(), last);
            prop_assert_eq!(short, Err(WireError::BufferTooSmall { need_bytes, have_bytes }));
        }
    }

    #[test]
    fn damaged_packets_never_panic(
        link in link(),
        opcode in proptest::sample::select(Opcode::ALL),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        cut in any::<u16>(),
    ) {
        let bth = bth::Repr { opcode: opcode as u8, ..bth::Repr::default() };
        let ext = ExtHeaders::read(opcode, &[0; 48]).unwrap();
        let repr = PacketRepr { link, bth, ext, payload: &[1; 30] };
        let mut bytes = vec![0; repr.buffer_len().unwrap()];
        repr.emit(&mut bytes).unwrap();
        for (at, bits) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= bits;
        }
        let len = usize::from(cut) % (bytes.len() + 1);
        for bytes in [&bytes[..], &bytes[..len]] {
            if let Ok(packet) = WholePacket::parse(link.framing(), bytes) {
                packet.crcs();
                // A damaged type field can make headers payload: no bound but the packet's own holds.
                prop_assert!(packet.pad().len() <= 3 && packet.payload().len() < bytes.len());
            }
        }
    }

    #[test]
    fn psn_distance_is_the_inverse_of_addition(start in any::<u32>(), step in -(1i32 << 23)..(1 << 23)) {
        let start = Psn::new(start);
        let end = start.wrapping_add(step as u32);
        prop_assert_eq!(end.distance_from(start), step);
        prop_assert_eq!(end.is_after(start), step > 0);
        prop_assert_eq!(end.is_before(start), step < 0);
    }
}

#[test]
fn wrong_header_sets_and_long_payloads_are_refused() {
    let link = Link::InfiniBand {
        lrh: lrh::Repr::default(),
        grh: None,
    };
    let write = bth::Repr {
        opcode: Opcode::RcWriteOnly as u8,
        ..bth::Repr::default()
    };
    let send = bth::Repr {
        opcode: Opcode::RcSendOnly as u8,
        ..bth::Repr::default()
    };
    let none = ExtHeaders::default();
    let mut buffer = vec![0; 9000];
    let missing = PacketRepr {
        link,
        bth: write,
        ext: none,
        payload: &[],
    }
    .emit(&mut buffer);
    assert_eq!(
        missing,
        Err(WireError::HeaderSet {
            header: "RETH",
            needed: true
        })
    );
    let ext = ExtHeaders {
        ieth: Some(ieth::Repr::default()),
        ..none
    };
    let superfluous = PacketRepr {
        link,
        bth: send,
        ext,
        payload: &[],
    }
    .emit(&mut buffer);
    assert_eq!(
        superfluous,
        Err(WireError::HeaderSet {
            header: "IETH",
            needed: false
        })
    );
    let limit_bytes = 0x7ff * 4 - 8 - 12 - 4;
    let long = vec![0; limit_bytes + 1];
    let too_long = PacketRepr {
        link,
        bth: send,
        ext: none,
        payload: &long,
    }
    .emit(&mut buffer);
    let found_bytes = long.len();
    assert_eq!(
        too_long,
        Err(WireError::PayloadTooLong {
            limit_bytes,
            found_bytes
        })
    );
    let fits = PacketRepr {
        link,
        bth: send,
        ext: none,
        payload: &long[1..],
    }
    .emit(&mut buffer);
    assert_eq!(fits, Ok(0x7ff * 4 + 2));
}

#[test]
fn foreign_frames_are_told_apart_from_broken_ones() {
    let mut arp = [0; 42];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert!(matches!(
        Envelope::parse(Framing::Ethernet, &arp),
        Err(WireError::NotIba(_))
    ));
    assert!(matches!(
        Envelope::parse(Framing::Ethernet, &arp[..9]),
        Err(WireError::Truncated { .. })
    ));
    let raw = [0, 0, 0, 1, 0, 3, 0, 2, 0, 0, 0, 0, 0, 0];
    assert!(matches!(
        Envelope::parse(Framing::InfiniBand, &raw),
        Err(WireError::NotIba(_))
    ));
}
