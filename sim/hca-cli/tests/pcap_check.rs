//! `hca pcap check` from outside: exit codes and sentences.

use hca_link::{Cable, CableConfig, Dir, LinkKind, Tap};
use hca_wire::{
    ExtHeaders, FlowControl, FlowControlOp, Link, Network, Opcode, PacketRepr, bth, ethernet, grh, ipv4, lrh,
    udp,
};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use std::borrow::Cow;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Exit code, standard output, standard error.
fn check(file: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hca"));
    let output = command
        .args(["pcap", "check"])
        .arg(file)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

fn emit(link: Link, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let bth = bth::Repr {
        opcode: opcode as u8,
        dest_qp: 0x11,
        ..Default::default()
    };
    let ext = ExtHeaders::read(opcode, &[0; 48]).unwrap();
    let repr = PacketRepr {
        link,
        bth,
        ext,
        payload,
    };
    let mut bytes = vec![0; repr.buffer_len().unwrap()];
    repr.emit(&mut bytes).unwrap();
    bytes
}

fn roce(opcode: Opcode) -> Vec<u8> {
    let ip = Network::Ipv4(ipv4::Repr::default());
    let (eth, udp) = (ethernet::Repr::default(), udp::Repr::default());
    emit(
        Link::Ethernet {
            eth,
            vlan: None,
            ip,
            udp,
        },
        opcode,
        &[1; 30],
    )
}

fn infiniband(grh: Option<grh::Repr>) -> Vec<u8> {
    emit(
        Link::InfiniBand {
            lrh: lrh::Repr::default(),
            grh,
        },
        Opcode::XrcWriteOnly,
        &[2; 9],
    )
}

/// Writes the packets through a cable's capture.
fn pcap(folder: &Path, kind: LinkKind, packets: &[Vec<u8>]) -> PathBuf {
    let path = folder.join("c.pcap");
    let mut cable = Cable::new(CableConfig::new("c", kind)).unwrap();
    cable.capture(Tap::Sent, &path).unwrap();
    for (now, packet) in (0..).zip(packets) {
        cable.push_beat(Dir::AToB, now, packet, true).unwrap();
    }
    cable.close().unwrap();
    path
}

fn pcapng(folder: &Path, packets: &[Vec<u8>]) -> PathBuf {
    let path = folder.join("c.pcapng");
    let mut writer = PcapNgWriter::new(File::create(&path).unwrap()).unwrap();
    let linktype = pcap_file::DataLink::ETHERNET;
    let interface = InterfaceDescriptionBlock {
        linktype,
        snaplen: 0xffff,
        options: vec![],
    };
    writer.write_pcapng_block(interface).unwrap();
    for packet in packets {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::ZERO,
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: vec![],
        };
        writer.write_pcapng_block(block).unwrap();
    }
    path
}

fn arp() -> Vec<u8> {
    let mut bytes = vec![0; 42];
    bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    bytes
}

#[test]
fn good_captures_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let frames = [roce(Opcode::RcSendOnly), arp(), roce(Opcode::UdSendOnlyImm)];
    let native = [infiniband(None), infiniband(Some(grh::Repr::default()))];
    for (path, crcs, rows) in [
        (
            pcap(folder.path(), LinkKind::Ethernet, &frames),
            "2 ICRCs and 0 VCRCs",
            "UD SEND Only with",
        ),
        (pcapng(folder.path(), &frames), "2 ICRCs and 0 VCRCs", "other"),
    ] {
        let (code, out, err) = check(&path, &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(
            out.contains(crcs) && out.contains(rows) && out.contains("0x000011"),
            "{out}"
        );
    }
    let (code, out, _) = check(&pcap(folder.path(), LinkKind::InfiniBand, &native), &[]);
    assert!(code == 0 && out.contains("XRC RDMA WRITE Only"), "{out}");
    assert!(out.contains("checked 2 ICRCs and 2 VCRCs: all good"), "{out}");
}

/// Flow control packets are named, and their CRC is checked.
#[test]
fn flow_control_packets_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let op = FlowControlOp::Normal;
    let mut packets: Vec<_> = (0..4)
        .map(|vl| {
            FlowControl {
                op,
                vl,
                fctbs: 7,
                fccl: 99,
            }
            .to_bytes()
            .to_vec()
        })
        .collect();
    packets.push(infiniband(None));
    let (code, out, _) = check(&pcap(folder.path(), LinkKind::InfiniBand, &packets), &[]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("checked 1 ICRCs, 1 VCRCs and 4 LPCRCs: all good"),
        "{out}"
    );
    packets[2][1] ^= 1;
    let (code, out, _) = check(&pcap(folder.path(), LinkKind::InfiniBand, &packets), &[]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("packet 3: link packet: LPCRC expected"), "{out}");
}

#[test]
fn the_golden_capture_is_all_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/rxe-golden.pcap");
    let (code, out, _) = check(&path, &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        (&report["icrc_checked"], &report["total"]["packets"]),
        (&246.into(), &248.into())
    );
    assert_eq!(report["opcodes"]["other"]["packets"], 2);
    assert_eq!(report["wrong"], serde_json::json!([]));
}

#[test]
fn a_wrong_packet_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut frames = [arp(), roce(Opcode::RcSendOnly), roce(Opcode::RcSendOnly)];
    let icrc_at = frames[2].len() - 4;
    let right = u32::from_be_bytes(frames[2][icrc_at..].try_into().unwrap());
    frames[2][icrc_at] ^= 0x80;
    let path = pcap(folder.path(), LinkKind::Ethernet, &frames);
    let (code, out, err) = check(&path, &[]);
    let found = right ^ 0x8000_0000;
    let line = format!("packet 3: ICRC expected {right:#010x}, found {found:#010x}");
    assert!(code == 1 && err.is_empty() && out.contains(&line), "{code} {out}");
    assert!(out.ends_with("checked 2 ICRCs and 0 VCRCs: 1 wrong\n"), "{out}");

    let mut native = infiniband(None);
    let last = native.len() - 1;
    native[last] ^= 1;
    let (code, out, _) = check(&pcap(folder.path(), LinkKind::InfiniBand, &[native]), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        (&report["wrong"][0]["kind"], &report["wrong"][0]["packet"]),
        (&"vcrc".into(), &1.into())
    );

    let mut frame = roce(Opcode::RcSendOnly);
    frame.truncate(60);
    let (code, out, _) = check(&pcap(folder.path(), LinkKind::Ethernet, &[frame]), &[]);
    assert!(
        code == 1 && out.contains("packet 1: malformed: IP packet needs"),
        "{out}"
    );
}

/// Code 2, nothing on standard output, one line that names the file.
fn assert_refused(path: &Path, why: &str) {
    let (code, out, err) = check(path, &[]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(
        err.contains(why) && err.contains(&path.display().to_string()),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn files_that_are_no_captures_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    assert_refused(&folder.path().join("missing"), "cannot be opened: No such file");
    assert_refused(folder.path(), "cannot be read");
    assert_refused(&file("empty", b""), "too short");
    assert_refused(&file("text", b"this is a text"), "neither pcap nor pcapng");
    assert_refused(
        &file("header", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]),
        "truncated in its file header",
    );
    let mut foreign = fs::read(pcap(folder.path(), LinkKind::Ethernet, &[arp()])).unwrap();
    foreign[20] = 105;
    assert_refused(&file("wifi", &foreign), "link type 105 is not known");
}

#[test]
fn a_truncated_file_is_refused_at_every_length() {
    let folder = tempfile::tempdir().unwrap();
    let frames = [roce(Opcode::RcSendOnly)];
    for whole in [
        pcap(folder.path(), LinkKind::Ethernet, &frames),
        pcapng(folder.path(), &frames),
    ] {
        let bytes = fs::read(&whole).unwrap();
        let path = folder.path().join("cut");
        for len in (4..bytes.len()).step_by(3) {
            fs::write(&path, &bytes[..len]).unwrap();
            let (code, _, err) = check(&path, &[]);
            // A file may end between two records; then it is a capture without packets.
            assert!(
                code == 2 && err.contains("truncated") || code == 0 && err.is_empty(),
                "{len}: {err}"
            );
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let frames = [roce(Opcode::RcSendOnly), arp()];
    let path = folder.path().join("damaged");
    for whole in [
        pcap(folder.path(), LinkKind::Ethernet, &frames),
        pcapng(folder.path(), &frames),
    ] {
        let bytes = fs::read(&whole).unwrap();
        for at in 4..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= if at % 2 == 0 { 0xff } else { 0x04 };
            fs::write(&path, &damaged).unwrap();
            let (code, _, err) = check(&path, &[]);
            assert!(
                (0..=2).contains(&code) && !err.contains("panicked"),
                "byte {at}: {code} {err}"
            );
            assert!(err.lines().count() <= 1, "byte {at}: {err}");
        }
    }
}
