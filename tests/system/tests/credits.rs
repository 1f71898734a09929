//! End-to-end credits (X-3, IBA vol1 9.7.7.2, decision 0068): a requester waits for receives instead of being refused.

mod common;

use std::fs::File;

use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_link::{FaultSpec, LinkKind};
use hca_system_tests::judge::Judge;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{ConnectOptions, Mtu, SendOp};
use hca_wire::{Framing, Opcode, Syndrome, WholePacket};
use pcap_file::pcap::PcapReader;

const MESSAGES: u64 = 64;
const QUEUE: u64 = 4;
const BYTES: u32 = 64;
/// What the receiver does with each message.
const WORK_CYCLES: u64 = 2_000;

fn options(credits: bool) -> ConnectOptions {
    ConnectOptions {
        credits,
        psns: (0xff_fff0, 0xff_ffff),
        ..path(Mtu::Bytes1024)
    }
}

/// What went over the wire.
#[derive(Debug, Default)]
struct Wire {
    sends: u64,
    rnr_naks: u64,
    /// Codes of all ACKs.
    codes: Vec<u8>,
}

impl Wire {
    fn read(file: &std::path::Path) -> Self {
        let mut reader = PcapReader::new(File::open(file).unwrap()).unwrap();
        let mut wire = Self::default();
        while let Some(frame) = reader.next_packet() {
            let frame = frame.unwrap();
            let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
            match packet.opcode() {
                Opcode::RcSendOnly => wire.sends += 1,
                Opcode::RcAcknowledge => match Syndrome::from_byte(packet.envelope().body()[0]) {
                    Syndrome::Ack { credit_code } => wire.codes.push(credit_code),
                    Syndrome::RnrNak(_) => wire.rnr_naks += 1,
                    other => panic!("{other:?}"),
                },
                _ => {}
            }
        }
        wire
    }
}

/// A receiver with a small queue that works on each message before it posts the next receive, and a sender that has
/// posted all that fits.
fn slow_receiver(credits: bool) -> Wire {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let config = RigConfig {
        capture: Some(capture.clone()),
        ..RigConfig::new(21, LinkKind::Ethernet)
    };
    let mut pair = Pair::new(&config, &options(credits), 4096, [LOCAL_AND_REMOTE; 2]);
    let (source, target) = ([pair.mrs[0].sge(0, BYTES)], [pair.mrs[1].sge(0, BYTES)]);
    let (mut posted, mut sent) = (0, 0);
    for wr_id in 0..QUEUE {
        pair.recv(1, wr_id, &target);
    }
    for got in 0..MESSAGES {
        while posted < MESSAGES && posted < sent + 24 {
            pair.post(0, posted, SendOp::Send, &source);
            posted += 1;
        }
        pair.wait_ok(1, got);
        pair.rig.run(WORK_CYCLES);
        pair.recv(1, got + QUEUE, &target);
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            assert_eq!(wc.wr_id, sent);
            sent += 1;
        }
    }
    while sent < MESSAGES {
        pair.wait_ok(0, sent);
        sent += 1;
    }
    pair.rig.close_captures().unwrap();
    Wire::read(&capture)
}

/// REL-8: with credits a slow receiver refuses nothing, and nothing is sent twice; without, it refuses most of the
/// time.
#[test]
fn a_slow_receiver_refuses_nothing() {
    let with = slow_receiver(true);
    println!("with credits: {} SENDs, {} RNR NAKs", with.sends, with.rnr_naks);
    assert_eq!((with.sends, with.rnr_naks), (MESSAGES, 0));
    // Never more than the queue; told of none where it is empty, and of the next one that is posted then.
    assert!(
        with.codes.iter().all(|code| u64::from(*code) <= QUEUE),
        "{:?}",
        with.codes
    );
    assert!(
        with.codes.contains(&0) && with.codes.contains(&1),
        "{:?}",
        with.codes
    );
    let without = slow_receiver(false);
    println!("without: {} SENDs, {} RNR NAKs", without.sends, without.rnr_naks);
    assert!(
        without.rnr_naks >= MESSAGES / 4 && without.sends >= 2 * MESSAGES,
        "{without:?}"
    );
    assert!(
        without
            .codes
            .iter()
            .all(|code| *code == Syndrome::CREDIT_UNLIMITED)
    );
}

/// A receiver that posts long after its sender has run dry: it goes on, on both links, also where the news of the
/// receive is lost (a packet beyond the limit asks then), for SENDs and WRITEs with immediate of one packet and more.
#[test]
fn a_dry_sender_goes_on() {
    for (turn, link) in BOTH_LINKS.into_iter().cycle().take(8).enumerate() {
        let config = RigConfig {
            faults: FaultSpec {
                loss: if turn < 2 { 0.0 } else { 0.2 },
                ..FaultSpec::default()
            },
            ..RigConfig::new(100 + turn as u64, link)
        };
        let options = ConnectOptions {
            gid_index: (link == LinkKind::Ethernet).then_some(1),
            ..options(true)
        };
        let mut pair = Pair::new(&config, &options, 1 << 16, [LOCAL_AND_REMOTE; 2]);
        let judge = Judge::attach(&mut pair.rig);
        let qpns = [pair.qps[0].qp_num(), pair.qps[1].qp_num()];
        judge.connect(hca_model::Service::Rc, qpns, &options);
        let (remote_addr, rkey) = pair.remote(1, 0);
        let ops = [
            (SendOp::Send, 64),
            (SendOp::SendWithImm { imm_data: 7 }, 3_000),
            (
                SendOp::RdmaWriteWithImm {
                    remote_addr,
                    rkey,
                    imm_data: 9,
                },
                2_500,
            ),
            (SendOp::RdmaWrite { remote_addr, rkey }, 100),
            (SendOp::RdmaRead { remote_addr, rkey }, 2_048),
        ];
        let post = |pair: &mut Pair, wr_id: u64| {
            let (op, len) = ops[wr_id as usize % ops.len()];
            let sges = [pair.mrs[0].sge(4096, len)];
            pair.post(0, wr_id, op, &sges);
        };
        (0..20).for_each(|wr_id| post(&mut pair, wr_id));
        for receive in 0..12 {
            // Longer than a dry requester waits before it asks.
            pair.rig.run(if receive % 3 == 0 { 90_000 } else { 10_000 });
            let target = [pair.mrs[1].sge(8192, 4096)];
            pair.recv(1, receive, &target);
            pair.wait_ok(1, receive);
        }
        for wr_id in 0..20 {
            pair.wait_ok(0, wr_id);
        }
        judge.verdict().unwrap();
        assert!(judge.packets() >= 40, "{} packets judged", judge.packets());
        println!("{link:?}: {} packets", judge.packets());
    }
}
