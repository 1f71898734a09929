//! Captures: what they hold, and what happens when they cannot be written.

use hca_link::*;
use hca_wire::{ExtHeaders, Link, Network, Opcode, PacketRepr, bth, ethernet, ipv4, lrh, udp};
use std::path::Path;
use std::process::Command;

/// A SEND of 30 bytes in the framing of the link.
fn send_packet(kind: LinkKind) -> Vec<u8> {
    let link = match kind {
        LinkKind::InfiniBand => Link::InfiniBand {
            lrh: lrh::Repr {
                dlid: 1,
                slid: 2,
                ..Default::default()
            },
            grh: None,
        },
        LinkKind::Ethernet => Link::Ethernet {
            eth: ethernet::Repr::default(),
            vlan: None,
            ip: Network::Ipv4(ipv4::Repr {
                ttl: 64,
                src_addr: [10, 0, 0, 1],
                ..Default::default()
            }),
            udp: udp::Repr {
                src_port: 49152,
                ..Default::default()
            },
        },
    };
    let bth = bth::Repr {
        opcode: Opcode::RcSendOnly as u8,
        pkey: 0xffff,
        dest_qp: 17,
        ..Default::default()
    };
    let repr = PacketRepr {
        link,
        bth,
        ext: ExtHeaders::default(),
        payload: &[7; 30],
    };
    let mut bytes = vec![0; repr.buffer_len().unwrap()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

fn push(cable: &mut Cable, dir: Dir, now: u64, bytes: &[u8]) -> Result<(), LinkError> {
    let beats = bytes.chunks(64);
    let last = beats.len() as u64 - 1;
    for (at, beat) in (0..).zip(beats) {
        cable.push_beat(dir, now + at, beat, at == last)?;
    }
    Ok(())
}

#[test]
fn the_sent_tap_is_in_front_of_the_faults_the_delivered_tap_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (sent, delivered) = (
        folder.path().join("sent.pcap"),
        folder.path().join("delivered.pcap"),
    );
    let faults = "loss=0.5".parse().unwrap();
    let config = CableConfig {
        faults,
        seed: 1,
        ..CableConfig::new("c", LinkKind::Ethernet)
    };
    let mut cable = Cable::new(config).unwrap();
    cable.capture(Tap::Sent, &sent).unwrap();
    cable.capture(Tap::Delivered, &delivered).unwrap();
    let bytes = send_packet(LinkKind::Ethernet);
    for round in 0..100 {
        for dir in Dir::ALL {
            push(&mut cable, dir, round * 1_000, &bytes).unwrap();
            while cable.poll(dir, round * 1_000 + 999).is_some() {}
        }
    }
    cable.close().unwrap();
    let stats = cable.stats();
    let record_len = 16 + bytes.len() as u64;
    assert_eq!(std::fs::metadata(&sent).unwrap().len(), 24 + 200 * record_len);
    let arrived = stats.a_to_b.delivered_packets + stats.b_to_a.delivered_packets;
    assert!((50..150).contains(&arrived));
    assert_eq!(
        std::fs::metadata(&delivered).unwrap().len(),
        24 + arrived * record_len
    );
}

/// Header and first record, as the pcap format defines them.
#[test]
fn captures_are_nanosecond_pcap_of_the_right_link_type() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, link_type) in [(LinkKind::Ethernet, 1), (LinkKind::InfiniBand, 197)] {
        let path = folder.path().join("c.pcap");
        let mut cable = Cable::new(CableConfig::new("c", kind)).unwrap();
        cable.capture(Tap::Sent, &path).unwrap();
        let bytes = send_packet(kind);
        // Cycle 250,000,001 of 4 ns is 1.000000004 s.
        let last_beat = bytes.len().div_ceil(64) as u64 - 1;
        push(&mut cable, Dir::AToB, 250_000_001 - last_beat, &bytes).unwrap();
        cable.close().unwrap();
        let file = std::fs::read(&path).unwrap();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(20)), (0xa1b2_3c4d, link_type));
        assert_eq!((word(24), word(28)), (1, 4));
        let record = &file[40..];
        assert_eq!((word(32), word(36)), (record.len() as u32, record.len() as u32));
        match kind {
            LinkKind::Ethernet => assert_eq!(record, bytes),
            LinkKind::InfiniBand => {
                // 4 ns are 17.2 units of 2^-32 s; type 21; varying length, interface 0.
                assert_eq!(record[..10], [17, 0, 0, 0, 1, 0, 0, 0, 21, 4]);
                assert_eq!(&record[16..], bytes);
                assert_eq!(erf::unwrap(record), Some(&bytes[..]));
            }
        }
    }
}

#[test]
fn tshark_reads_both_link_types() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, protocol) in [
        (LinkKind::Ethernet, "RRoCE"),
        (LinkKind::InfiniBand, "InfiniBand"),
    ] {
        let path = folder.path().join("c.pcap");
        let mut cable = Cable::new(CableConfig::new("c", kind)).unwrap();
        cable.capture(Tap::Sent, &path).unwrap();
        push(&mut cable, Dir::AToB, 0, &send_packet(kind)).unwrap();
        cable.close().unwrap();
        let fields = [
            "_ws.col.Protocol",
            "infiniband.bth.opcode",
            "infiniband.bth.destqp",
        ];
        let arguments = fields.iter().flat_map(|field| ["-e", field]);
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&path)
            .args(["-T", "fields"])
            .args(arguments)
            .output();
        let Ok(output) = output else {
            eprintln!("SKIPPED: tshark is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let columns: Vec<_> = text.split_whitespace().collect();
        assert_eq!(columns, [protocol, "4", "0x000011"], "{kind:?}: {output:?}");
    }
}

#[test]
fn a_full_disk_is_one_sentence_and_the_simulation_goes_on() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        eprintln!("SKIPPED: no /dev/full here");
        return;
    }
    let mut cable = Cable::new(CableConfig::new("c", LinkKind::Ethernet)).unwrap();
    cable.capture(Tap::Sent, full).unwrap();
    let bytes = send_packet(LinkKind::Ethernet);
    for round in 0..1_000 {
        push(&mut cable, Dir::AToB, round * 10, &bytes).unwrap();
    }
    let text = cable.close().unwrap_err().to_string();
    assert!(
        text.contains("/dev/full") && text.contains("No space left"),
        "{text}"
    );
    assert!(cable.close().is_ok());
    assert_eq!(cable.stats().a_to_b.sent_packets, 1_000);

    cable.capture(Tap::Delivered, full).unwrap();
    assert!(cable.poll(Dir::AToB, 1_000_000).is_some());
    assert!(matches!(cable.close(), Err(LinkError::Capture { .. })));
}

#[test]
fn a_capture_that_cannot_be_created_names_the_file() {
    let mut cable = Cable::new(CableConfig::new("c", LinkKind::Ethernet)).unwrap();
    let missing = Path::new("/nonexistent/folder/c.pcap");
    let text = cable.capture(Tap::Sent, missing).unwrap_err().to_string();
    assert!(
        text.contains("/nonexistent/folder/c.pcap") && text.contains("No such file"),
        "{text}"
    );
}

#[test]
fn erf_records_of_any_shape_are_read_or_refused() {
    let packet = [9; 30];
    let record = erf::wrap(Dir::BToA, 0, &packet);
    assert_eq!(record[9] & 3, 1);
    let padded = [&record[..], &[0; 6]].concat();
    assert_eq!(erf::unwrap(&padded), Some(&packet[..]));
    let mut extended = record.clone();
    extended[8] |= 0x80;
    extended.splice(16..16, [0x81, 0, 0, 0, 0, 0, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(erf::unwrap(&extended), Some(&packet[..]));
    for len in 0..record.len() {
        assert_eq!(erf::unwrap(&record[..len]), None);
    }
    for len in 0..extended.len() {
        assert_eq!(erf::unwrap(&extended[..len]), None);
    }
    let mut ethernet = record;
    ethernet[8] = 2;
    assert_eq!(erf::unwrap(&ethernet), None);
}
