//! Messages of 2^31 bytes, the longest there are, by accounting: where such a message begins and where it ends, not the
//! half million packets between. Its memory is 1024 pages of 2 MiB, of which all but the first and the last are one and
//! the same; the end of a READ is reached by a requester that asks for it.
//!
//! Shown: driver and card accept 2^31 bytes and not one more; length in the RETH; sequence numbers of the whole
//! message, also of the one behind it; position in memory at both ends, sender of a WRITE and of READ responses; bounds
//! of a region at its last byte. Not shown: the middle, whose counters every other test moves too, and the last packets
//! at the receiving side of a WRITE or READ, where this test sees only the first ones; the last ones of the sender of a
//! WRITE are in tests/rtl/requester/test_huge.py.

mod common;

use std::fs::File;
use std::path::Path;

use common::forge::{self, Forged};
use common::{LIMIT_NS, LOCAL_AND_REMOTE, cap};
use hca_dev::DmaBuf;
use hca_link::LinkKind;
use hca_system_tests::{Dev, Rig, RigConfig, Rng, identity, path};
use hca_verbs::{
    Access, Mr, MrOptions, Mtu, PageSize, QpState, RawQp, SendFlags, SendOp, SendWr, WcStatus,
    WorkCompletion, WrData,
};
use hca_wire::{ExtHeaders, Framing, Link, Opcode, WholePacket, aeth, reth};
use pcap_file::pcap::PcapReader;

const HUGE: u64 = 1 << 31;
const PAGE: u64 = 2 << 20;
const MTU: u32 = 4096;
/// Packets of a message.
const PACKETS: u32 = (HUGE / MTU as u64) as u32;
/// Virtual addresses of the windows, by node.
const BASES: [u64; 2] = [0x5000_0000_0000, 0x6000_0000_0000];

/// A region of 2^31 bytes: its first page, its last, and one for all the others.
struct Window {
    buf: DmaBuf,
    /// Offset of the first page in the buffer.
    start: usize,
    mr: Mr<Dev>,
}

impl Window {
    fn new(rig: &Rig, node: usize, access: Access, length: u64) -> Self {
        let buf = rig.nodes[node].alloc(4 * PAGE as usize).unwrap();
        let first = buf.iova().next_multiple_of(PAGE);
        let start = (first - buf.iova()) as usize;
        let last = HUGE / PAGE - 1;
        let page = |index| match index {
            0 => first,
            index if index == last => first + 2 * PAGE,
            _ => first + PAGE,
        };
        let list: Vec<u64> = (0..=last).map(page).collect();
        let options = MrOptions {
            page_size: PageSize::MiB2,
            addr: Some(BASES[node]),
            length: Some(length as usize),
            ..MrOptions::new(access)
        };
        let mr = rig.nodes[node].pd.reg_pages(&list, &options).unwrap();
        let bytes = Rng::new(node as u64, "window").bytes(3 * PAGE as usize);
        buf.write_bytes(start, &bytes);
        Self { buf, start, mr }
    }

    /// Bytes of the first or the last page.
    fn bytes(&self, offset: u64, len: u32) -> Vec<u8> {
        let at = if offset < PAGE {
            offset
        } else {
            assert!(offset >= HUGE - PAGE, "in the middle");
            offset - (HUGE - PAGE) + 2 * PAGE
        };
        let mut bytes = vec![0; len as usize];
        self.buf.read_bytes(self.start + at as usize, &mut bytes);
        bytes
    }
}

/// A packet in a capture.
#[derive(Debug)]
struct Seen {
    /// Node that sent it.
    from: usize,
    opcode: Opcode,
    psn: u32,
    ack_req: bool,
    reth: Option<reth::Repr>,
    payload: Vec<u8>,
}

fn read_capture(capture: &Path) -> Vec<Seen> {
    let mut reader = PcapReader::new(File::open(capture).unwrap()).unwrap();
    let mut seen = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame.unwrap();
        let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
        let Link::Ethernet { eth, .. } = packet.link() else {
            panic!("not Ethernet")
        };
        seen.push(Seen {
            from: usize::from(eth.src_mac != identity(0, LinkKind::Ethernet).mac),
            opcode: packet.opcode(),
            psn: packet.bth().psn,
            ack_req: packet.bth().ack_req,
            reth: packet.ext().reth,
            payload: packet.payload().to_vec(),
        });
    }
    seen
}

/// Puts a packet on the wire as if a node had sent it.
fn send(rig: &mut Rig, from: usize, dest_qp: u32, psn: u32, opcode: Opcode, ext: ExtHeaders) {
    let packet = Forged {
        link: forge::link(from, LinkKind::Ethernet),
        opcode,
        dest_qp,
        psn,
        pkey: 0xffff,
        ext,
        payload: &[],
    };
    forge::send(rig, from, &packet);
}

fn acknowledge(syndrome: u8, msn: u32) -> ExtHeaders {
    ExtHeaders {
        aeth: Some(aeth::Repr { syndrome, msn }),
        ..ExtHeaders::default()
    }
}

fn rig(capture: &Path) -> (Rig, [RawQp<Dev>; 2]) {
    let rig = Rig::new(&RigConfig {
        capture: Some(capture.to_owned()),
        ..RigConfig::new(31, LinkKind::Ethernet)
    })
    .unwrap();
    let qps = rig.connect([cap(); 2], [true; 2], &path(Mtu::Bytes4096)).unwrap();
    (rig, qps)
}

fn post(qp: &mut RawQp<Dev>, wr_id: u64, op: SendOp, window: &Window, len: u32) {
    let sges = [window.mr.sge(0, len)];
    qp.post_send(&[SendWr {
        wr_id,
        op,
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&sges),
    }])
    .unwrap();
}

fn wait(rig: &Rig) -> WorkCompletion {
    let end_ns = rig.now_ns() + LIMIT_NS;
    loop {
        if let Some(wc) = rig.nodes[0].poll().unwrap() {
            return wc;
        }
        assert!(rig.now_ns() < end_ns, "no completion");
    }
}

/// The sender of a WRITE: its first packets. A peer that claims to have packets which were not sent yet is not
/// believed: nothing completes, nothing is left out (REL-1).
#[test]
fn a_write_from_its_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let (mut rig, mut qps) = rig(&capture);
    let source = Window::new(&rig, 0, Access::empty(), HUGE);
    let qpn = qps[0].qp_num();
    // From here on the peer is the test.
    qps[1].modify_state(QpState::Reset).unwrap();
    let (remote_addr, rkey) = (BASES[1], 0x1234_5678);
    let op = SendOp::RdmaWrite { remote_addr, rkey };
    post(&mut qps[0], 1, op, &source, HUGE as u32);
    post(&mut qps[0], 2, op, &source, 100);
    rig.run(4_000);
    for (psn, syndrome) in [
        (PACKETS - 3, 0x60),
        (PACKETS - 1, 0x1f),
        (PACKETS, 0x1f),
        (1500, 0x62),
    ] {
        let aeth = acknowledge(syndrome, 1);
        send(&mut rig, 1, qpn, psn, Opcode::RcAcknowledge, aeth);
        rig.run(1_000);
    }
    assert_eq!(rig.nodes[0].poll().unwrap(), None, "it has hardly begun");
    assert_eq!(qps[0].query().unwrap().qp_state, QpState::Rts);
    rig.close_captures().unwrap();

    let seen = read_capture(&capture);
    let sent: Vec<_> = seen.iter().filter(|packet| packet.from == 0).collect();
    assert!(sent.len() > 20 && sent.len() < 1500, "{}", sent.len());
    for (psn, packet) in sent.iter().enumerate() {
        let opcode = if psn == 0 {
            Opcode::RcWriteFirst
        } else {
            Opcode::RcWriteMiddle
        };
        assert_eq!((packet.psn, packet.opcode), (psn as u32, opcode));
        assert_eq!(packet.ack_req, psn % 16 == 15);
        assert_eq!(
            packet.payload,
            source.bytes(psn as u64 * u64::from(MTU), MTU),
            "packet {psn}"
        );
    }
    let reth = sent[0].reth.unwrap();
    assert_eq!(
        (reth.va, reth.rkey, u64::from(reth.dma_len)),
        (remote_addr, rkey, HUGE)
    );
}

/// READ, first between two cards: its data arrives from the first byte on. Then the requester goes back to the last
/// four packets, as it would after a loss: the responder leaves the middle and ends with the last byte.
#[test]
fn a_read_from_its_first_to_its_last_byte() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let (mut rig, mut qps) = rig(&capture);
    let landing = Window::new(&rig, 0, Access::LOCAL_WRITE, HUGE);
    let source = Window::new(&rig, 1, LOCAL_AND_REMOTE, HUGE);
    let (remote_addr, rkey) = (source.mr.addr(), source.mr.rkey());
    post(
        &mut qps[0],
        1,
        SendOp::RdmaRead { remote_addr, rkey },
        &landing,
        HUGE as u32,
    );
    rig.run(6_000);
    let arrived = 40 * MTU;
    assert_eq!(landing.bytes(0, arrived), source.bytes(0, arrived));
    // From here on the requester is the test.
    qps[0].modify_state(QpState::Reset).unwrap();
    let offset = HUGE - 4 * u64::from(MTU);
    let ext = ExtHeaders {
        reth: Some(reth::Repr {
            va: remote_addr + offset,
            rkey,
            dma_len: 4 * MTU,
        }),
        ..ExtHeaders::default()
    };
    send(
        &mut rig,
        0,
        qps[1].qp_num(),
        PACKETS - 4,
        Opcode::RcReadRequest,
        ext,
    );
    rig.run(4_000);
    rig.check_idle(1_000_000).unwrap();
    rig.close_captures().unwrap();

    let seen = read_capture(&capture);
    let reth = seen.iter().find_map(|packet| packet.reth).unwrap();
    assert_eq!((reth.va, u64::from(reth.dma_len)), (remote_addr, HUGE));
    let sent: Vec<_> = seen.iter().filter(|packet| packet.from == 1).collect();
    let (begin, end) = sent.split_at(sent.len() - 4);
    assert!(begin.len() > 40 && begin.len() < 2000, "{}", begin.len());
    for (psn, packet) in begin.iter().enumerate() {
        let opcode = if psn == 0 {
            Opcode::RcReadResponseFirst
        } else {
            Opcode::RcReadResponseMiddle
        };
        assert_eq!((packet.psn, packet.opcode), (psn as u32, opcode));
        assert_eq!(
            packet.payload,
            source.bytes(psn as u64 * u64::from(MTU), MTU),
            "response {psn}"
        );
    }
    for (index, packet) in end.iter().enumerate() {
        let opcode = [
            Opcode::RcReadResponseFirst,
            Opcode::RcReadResponseMiddle,
            Opcode::RcReadResponseMiddle,
            Opcode::RcReadResponseLast,
        ][index];
        assert_eq!((packet.psn, packet.opcode), (PACKETS - 4 + index as u32, opcode));
        let at = offset + index as u64 * u64::from(MTU);
        assert_eq!(packet.payload, source.bytes(at, MTU), "response {}", packet.psn);
    }
}

/// X-4, REL-19: at MTU 256 a READ of 2^31 bytes takes 2^23 PSNs, half of all. Asked for again from its first byte,
/// before any other request, it is still a duplicate and begins anew.
#[test]
fn a_read_of_half_of_all_psns_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("link.pcap");
    let config = RigConfig {
        capture: Some(capture.clone()),
        ..RigConfig::new(32, LinkKind::Ethernet)
    };
    let mut rig = Rig::new(&config).unwrap();
    let mut qps = rig.connect([cap(); 2], [true; 2], &path(Mtu::Bytes256)).unwrap();
    let source = Window::new(&rig, 1, LOCAL_AND_REMOTE, HUGE);
    // The requester is the test.
    qps[0].modify_state(QpState::Reset).unwrap();
    let ext = ExtHeaders {
        reth: Some(reth::Repr {
            va: source.mr.addr(),
            rkey: source.mr.rkey(),
            dma_len: HUGE as u32,
        }),
        ..ExtHeaders::default()
    };
    for _ in 0..2 {
        send(&mut rig, 0, qps[1].qp_num(), 0, Opcode::RcReadRequest, ext);
        rig.run(2_000);
    }
    qps[1].modify_state(QpState::Reset).unwrap();
    rig.check_idle(1_000_000).unwrap();
    rig.close_captures().unwrap();

    let seen = read_capture(&capture);
    let sent = || seen.iter().filter(|packet| packet.from == 1);
    assert!(
        sent().all(|packet| packet.opcode != Opcode::RcAcknowledge),
        "no NAK"
    );
    let begins = sent().filter(|packet| packet.opcode == Opcode::RcReadResponseFirst);
    assert_eq!(begins.map(|packet| packet.psn).collect::<Vec<_>>(), [0, 0]);
    assert!(sent().count() > 100);
    for packet in sent() {
        let offset = u64::from(packet.psn) * 256;
        assert_eq!(
            packet.payload,
            source.bytes(offset, 256),
            "response {}",
            packet.psn
        );
    }
}

/// A region of one byte less refuses the whole message before anything is written; one of 2^31 bytes takes what comes.
#[test]
fn bounds_of_a_huge_region() {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, mut qps) = rig(&folder.path().join("link.pcap"));
    for (is_read, length) in [(false, HUGE - 1), (true, HUGE - 1), (false, HUGE)] {
        let local = Window::new(&rig, 0, Access::LOCAL_WRITE, HUGE);
        let remote = Window::new(&rig, 1, LOCAL_AND_REMOTE, length);
        let before = remote.bytes(0, PAGE as u32);
        let (remote_addr, rkey) = (remote.mr.addr(), remote.mr.rkey());
        let op = if is_read {
            SendOp::RdmaRead { remote_addr, rkey }
        } else {
            SendOp::RdmaWrite { remote_addr, rkey }
        };
        post(&mut qps[0], 1, op, &local, HUGE as u32);
        if length < HUGE {
            assert_eq!(wait(&rig).status, WcStatus::RemAccessErr);
            assert_eq!(remote.bytes(0, PAGE as u32), before, "nothing may be written");
            // The next one needs a connection that has not failed.
            qps = rig.connect([cap(); 2], [true; 2], &path(Mtu::Bytes4096)).unwrap();
        } else {
            rig.run(6_000);
            let arrived = 40 * MTU;
            assert_eq!(remote.bytes(0, arrived), local.bytes(0, arrived));
            assert_eq!(rig.nodes[0].poll().unwrap(), None, "it is not complete");
        }
    }
}

/// One byte more is refused before the card sees it, whatever the pieces are.
#[test]
fn one_byte_more_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, mut qps) = rig(&folder.path().join("link.pcap"));
    let source = Window::new(&rig, 0, Access::empty(), HUGE);
    let half = source.mr.sge(0, HUGE as u32 / 2);
    for sges in [
        vec![source.mr.sge(0, HUGE as u32 + 1)],
        vec![half, half, source.mr.sge(0, 1)],
    ] {
        let refused = qps[0].post_send(&[SendWr {
            wr_id: 1,
            op: SendOp::Send,
            flags: SendFlags::SIGNALED,
            data: WrData::Sges(&sges),
        }]);
        assert!(refused.is_err(), "{} pieces", sges.len());
    }
}
