//! Frames that Linux soft-RoCE sent to itself: packets not made by our code.

use hca_wire::*;
use pcap_file::pcap::PcapReader;
use std::fs::File;
use std::path::Path;

/// All frames of the capture.
fn frames() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/rxe-golden.pcap");
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut reader = PcapReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

#[test]
fn every_frame_has_the_icrc_we_compute_and_is_built_again_byte_for_byte() {
    let frames = frames();
    let mut roce = 0;
    for (number, frame) in (1..).zip(&frames) {
        let packet = match WholePacket::parse(Framing::Ethernet, frame) {
            Ok(packet) => packet,
            Err(WireError::NotIba(_)) => continue,
            Err(error) => panic!("frame {number}: {error}"),
        };
        roce += 1;
        let crcs = packet.crcs();
        assert_eq!(
            crcs.icrc_found,
            crcs.icrc_expected,
            "frame {number}, {}",
            packet.opcode()
        );
        let mut buffer = vec![0; packet.repr().buffer_len().unwrap()];
        packet.repr().emit(&mut buffer).unwrap();
        assert_eq!(&buffer, frame, "frame {number}, {}", packet.opcode());
    }
    assert_eq!((roce, frames.len() - roce), (246, 2));
}

#[test]
fn the_capture_holds_the_operations_it_should() {
    let frames = frames();
    let mut seen = Vec::new();
    for frame in &frames {
        if let Ok(packet) = WholePacket::parse(Framing::Ethernet, frame) {
            seen.push(packet.opcode());
        }
    }
    for opcode in [
        Opcode::RcSendOnly,
        Opcode::RcWriteFirst,
        Opcode::RcWriteMiddle,
        Opcode::RcWriteLast,
        Opcode::RcReadRequest,
        Opcode::RcReadResponseFirst,
        Opcode::RcReadResponseLast,
        Opcode::RcAcknowledge,
        Opcode::RcCmpSwap,
        Opcode::RcFetchAdd,
        Opcode::RcAtomicAcknowledge,
        Opcode::UcSendFirst,
        Opcode::UdSendOnly,
    ] {
        assert!(seen.contains(&opcode), "{opcode}");
    }
}
