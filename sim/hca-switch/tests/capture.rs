//! What tshark says of the cables of a switch.

mod common;

use common::*;
use hca_link::Tap;
use hca_switch::LinkId;
use std::collections::BTreeMap;
use std::process::Command;

/// Data and flow control of all VLs on both sides of a switch: every packet is what it should be, none is malformed,
/// and the SL stays while the VL is the one of its link (VL-5).
#[test]
fn tshark_finds_nothing_malformed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.pcap");
    let mut line = line(&LineConfig {
        switches: 2,
        per_switch: 2,
        packets: 1_200,
        data_vls: 4,
        buffer_blocks: 70,
        faults: "",
        stalls: None,
    });
    // The cable between the switches.
    let names: Vec<_> = line
        .net
        .cables()
        .iter()
        .map(|cable| cable.config().name.clone())
        .collect();
    let between = names.iter().position(|name| name == "line1").unwrap();
    let ids: Vec<_> = line.net.switches().collect();
    let backwards = std::array::from_fn(|sl| 3 - sl as u8 % 4);
    for port in [1, 2] {
        line.net
            .switch_mut(ids[0])
            .set_sl2vl(port, 62, backwards)
            .unwrap();
    }
    line.net.cables_mut()[between].capture(Tap::Sent, &path).unwrap();
    assert!(line.net.run(u64::MAX));
    let stats = line.net.cables()[LinkId(between).0].stats();
    line.net.cables_mut()[between].close().unwrap();
    let fields = [
        "erf.types.type",
        "infiniband.lrh.sl",
        "infiniband.lrh.vl",
        "infiniband_link.op",
        "infiniband_link.vl",
        "_ws.malformed",
        "erf.flags.cap",
    ];
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED: tshark is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (mut data, mut link) = (0, BTreeMap::new());
    for row in text.lines() {
        let columns: Vec<_> = row.split('\t').collect();
        assert_eq!(columns[5], "", "{row}");
        match columns[0] {
            "21" => {
                data += 1;
                let vl = columns[2].trim_start_matches("0x");
                let (sl, vl): (u8, u8) = (columns[1].parse().unwrap(), vl.parse().unwrap());
                let expected = if columns[6] == "0" { 3 - sl % 4 } else { sl % 4 };
                assert_eq!(vl, expected, "{row}");
            }
            "25" => {
                *link
                    .entry((columns[3].to_owned(), columns[4].to_owned()))
                    .or_insert(0) += 1
            }
            other => panic!("record type {other}: {row}"),
        }
    }
    assert_eq!(data, stats.a_to_b.sent_packets + stats.b_to_a.sent_packets);
    let links = stats.a_to_b.sent_link_packets + stats.b_to_a.sent_link_packets;
    assert_eq!(link.values().sum::<u64>(), links);
    for vl in 0..4 {
        assert!(link[&("0".to_owned(), vl.to_string())] > 0, "VL {vl}: {link:?}");
    }
}
