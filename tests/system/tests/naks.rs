//! Refusals as they stand on the wire: the NAK code in the capture, not what our driver makes of it (REL-16, X-3).

mod common;

use std::fs::File;

use common::forge::{self, Forged};
use common::{LOCAL_AND_REMOTE, Pair};
use hca_dev::Device;
use hca_link::LinkKind;
use hca_system_tests::{Place, RigConfig, path};
use hca_verbs::{Mtu, QpState, SendOp, Sge, WcStatus};
use hca_wire::{ExtHeaders, Framing, Opcode, WholePacket, reth};
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

/// A READ is under way when the WRITE behind it is refused: its data comes first, then the NAK, for the WRITE.
#[test]
fn a_read_before_a_refused_write_succeeds() {
    const LEN: u32 = 1 << 20;
    let config = RigConfig::new(18, LinkKind::Ethernet);
    let mut pair = Pair::new(&config, &path(Mtu::Bytes4096), LEN.into(), [LOCAL_AND_REMOTE; 2]);
    let bytes = pair.expected(1, 0, LEN);
    let (landing, source) = ([pair.mrs[0].sge(0, LEN)], [pair.mrs[0].sge(0, 8)]);
    let (remote_addr, rkey) = pair.remote(1, 0);
    let rkey = rkey ^ 1;
    pair.post(0, 1, pair.read_from(1, 0), &landing);
    pair.post(0, 2, SendOp::RdmaWrite { remote_addr, rkey }, &source);
    pair.expect(0, 0, &bytes);
    pair.wait_ok(0, 1);
    pair.check_memory("READ before a refused WRITE");
    let wc = pair.wait(0);
    assert_eq!((wc.wr_id, wc.status), (2, WcStatus::RemAccessErr));
}

/// REL-16, REL-19: a request comes again while a NAK waits behind the responses of a READ: the NAK is still sent. With
/// timeout 0 (REL-7) nobody would ever ask again.
#[test]
fn a_repeated_request_does_not_take_away_a_nak() {
    const READ_PSNS: u32 = 64;
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let config = RigConfig {
        capture: Some(capture.clone()),
        ..RigConfig::new(19, LinkKind::Ethernet)
    };
    let len = READ_PSNS * 1024;
    let mut pair = Pair::new(&config, &path(Mtu::Bytes1024), len.into(), [LOCAL_AND_REMOTE; 2]);
    // From here on the requester is the test.
    pair.qps[0].modify_state(QpState::Reset).unwrap();
    let (va, rkey) = pair.remote(1, 0);
    let gap = 1 + READ_PSNS;
    let write = (Opcode::RcWriteOnly, 0);
    for (psn, (opcode, dma_len)) in [
        (0, write),
        (1, (Opcode::RcReadRequest, len)),
        (gap + 1, write),
        (0, write),
    ] {
        let packet = Forged {
            link: forge::link(0, LinkKind::Ethernet),
            opcode,
            dest_qp: pair.qps[1].qp_num(),
            psn,
            pkey: 0xffff,
            ext: ExtHeaders {
                reth: Some(reth::Repr { va, rkey, dma_len }),
                ..ExtHeaders::default()
            },
            payload: &[],
        };
        forge::send(&mut pair.rig, 0, &packet);
    }
    pair.rig.run(40_000);
    pair.rig.close_captures().unwrap();
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut answers = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
        if let Some(aeth) = packet.ext().aeth {
            answers.push((packet.bth().psn, aeth.syndrome));
        }
    }
    // An ACK: there is no receive to tell of.
    assert_eq!(answers.first(), Some(&(0, 0)));
    assert_eq!(answers.last(), Some(&(gap, 0x60)), "{answers:x?}");
}
