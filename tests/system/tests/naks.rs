//! Refusals as they stand on the wire: the NAK code in the capture, not what our driver makes of it (REL-16, X-3).

mod common;

use std::fs::File;

use common::{LOCAL_AND_REMOTE, Pair};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_system_tests::{Place, RigConfig, path};
use hca_verbs::{Mtu, SendOp, Sge, WcStatus};
use hca_wire::{Framing, Opcode, WholePacket};
use pcap_file::pcap::PcapReader;

/// Lets `bad` post one work request that is refused, and returns the syndromes of all NAKs on the wire.
fn naks(status: WcStatus, bad: impl FnOnce(&mut Pair)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let config = RigConfig {
        capture: Some(capture.clone()),
        ..RigConfig::new(16, LinkKind::Ethernet)
    };
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), 4096, [LOCAL_AND_REMOTE; 2]);
    bad(&mut pair);
    assert_eq!(pair.wait(0).status, status);
    pair.rig.close_captures().unwrap();
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut found = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
        // An ACK's first byte behind the BTH is the syndrome; bits 6 and 5 set: a NAK.
        if packet.opcode() == Opcode::RcAcknowledge && packet.envelope().body()[0] & 0x60 == 0x60 {
            found.push(packet.envelope().body()[0]);
        }
    }
    found
}

#[test]
fn a_wrong_r_key_is_a_remote_access_error() {
    let seen = naks(WcStatus::RemAccessErr, |pair| {
        let (remote_addr, rkey) = pair.remote(1, 0);
        let source = [pair.mrs[0].sge(0, 64)];
        let rkey = rkey ^ 1;
        pair.post(0, 1, SendOp::RdmaWrite { remote_addr, rkey }, &source);
    });
    assert_eq!(seen, [0x62]);
}

#[test]
fn a_read_one_byte_too_long_is_a_remote_access_error() {
    let seen = naks(WcStatus::RemAccessErr, |pair| {
        let landing = [pair.mrs[0].sge(0, 64)];
        pair.post(0, 1, pair.read_from(1, 4096 - 63), &landing);
    });
    assert_eq!(seen, [0x62]);
}

#[test]
fn a_send_longer_than_its_receive_is_an_invalid_request() {
    let seen = naks(WcStatus::RemInvReqErr, |pair| {
        let (source, short) = ([pair.mrs[0].sge(0, 65)], [pair.mrs[1].sge(0, 64)]);
        pair.recv(1, 9, &short);
        pair.post(0, 1, SendOp::Send, &source);
    });
    assert_eq!(seen, [0x61]);
}

#[test]
fn a_receive_with_a_wrong_l_key_is_a_remote_operational_error() {
    let seen = naks(WcStatus::RemOpErr, |pair| {
        let good = pair.mrs[1].sge(0, 64);
        let lkey = good.lkey ^ 1;
        let (source, bad) = ([pair.mrs[0].sge(0, 64)], [Sge { lkey, ..good }]);
        pair.recv(1, 9, &bad);
        pair.post(0, 1, SendOp::Send, &source);
    });
    assert_eq!(seen, [0x63]);
}

/// The memory behind a good R_Key is gone from the host: found when the responder gathers, so the NAK stands where the
/// first response would.
#[test]
fn a_read_of_memory_that_is_gone_is_a_remote_operational_error() {
    const LEN: u32 = 3000;
    let seen = naks(WcStatus::RemOpErr, |pair| {
        let node = &pair.rig.nodes[1];
        let buf = node.alloc(4096).unwrap();
        let place = Place::whole(&buf, LOCAL_AND_REMOTE, 0x3000_0000_0000);
        let gone = node.register(&buf, place).unwrap();
        node.dev.free_dma(buf).unwrap();
        let (remote_addr, rkey) = (gone.addr(), gone.rkey());
        // Its registration outlives it until the end of the test.
        std::mem::forget(gone);
        let landing = [pair.mrs[0].sge(0, LEN)];
        pair.post(0, 1, SendOp::RdmaRead { remote_addr, rkey }, &landing);
    });
    assert!(
        !seen.is_empty() && seen.iter().all(|syndrome| *syndrome == 0x63),
        "{seen:x?}"
    );
}
