//! From a NAK to the packet that is sent again: cycles of the card, one PCIe round trip for its payload included.

use anyhow::{Context as _, Result, bail};
use hca_link::FaultSpec;
use hca_system_tests::{Place, Rig, RigConfig, path};
use hca_verbs::{Mtu, QpCap, SendFlags, SendOp, SendWr, WrData};
use serde_json::Value;
use std::fs;
use std::path::Path;

use super::measure::RIGHTS;
use crate::options::Link;

/// Bytes of the message in which a packet is lost.
const MESSAGE_BYTES: u64 = 64 << 10;
/// NAKs to look at, and messages to find them in.
const SAMPLES: usize = 8;
const SEEDS: u64 = 40;
/// One packet in sixteen, which is how many the message has.
const LOSS: f64 = 1.0 / 16.0;
/// Card cycles in a microsecond.
const CYCLES_PER_US: f64 = 250.0;

/// Cycles from the last beat of each NAK at the sender's port to the first beat of the packet that it asks for, the
/// shortest first.
pub fn cycles(link: Link) -> Result<Vec<u64>> {
    let folder = tempfile::tempdir().context("no folder for a timeline")?;
    let mut found = Vec::new();
    for seed in 1..=SEEDS {
        let file = folder.path().join("timeline.json");
        send_one(link, seed, &file)?;
        found.extend(answered(&events(&file)?));
        if found.len() >= SAMPLES {
            found.sort_unstable();
            return Ok(found);
        }
    }
    bail!(
        "{SEEDS} messages of which packets are lost, and only {} NAKs",
        found.len()
    )
}

/// One WRITE over a cable that loses packets.
fn send_one(link: Link, seed: u64, timeline: &Path) -> Result<()> {
    let config = RigConfig {
        faults: FaultSpec {
            loss: LOSS,
            ..FaultSpec::default()
        },
        functions: 1,
        timeline: Some((timeline.to_owned(), 0..u64::MAX)),
        ..RigConfig::new(seed, link.into())
    };
    let rig = Rig::new(&config)?;
    let end = |node: usize| -> Result<_> {
        let buf = rig.nodes[node].alloc(MESSAGE_BYTES as usize)?;
        let place = Place::whole(&buf, RIGHTS, (node as u64 + 1) << 44);
        let mr = rig.nodes[node].register(&buf, place)?;
        Ok((buf, mr))
    };
    let ((_source, from), (_target, to)) = (end(0)?, end(1)?);
    let mut qps = rig.connect([QpCap::default(); 2], [false; 2], &path(Mtu::Bytes4096))?;
    let wr = SendWr {
        wr_id: 0,
        op: SendOp::RdmaWrite {
            remote_addr: to.addr(),
            rkey: to.rkey(),
        },
        flags: SendFlags::SIGNALED,
        data: WrData::Sges(&[from.sge(0, MESSAGE_BYTES as u32)]),
    };
    qps[0].post_send(&[wr])?;
    while rig.nodes[0].poll()?.is_none() {}
    rig.close_timeline()?;
    Ok(())
}

fn events(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Of each NAK of the first card's timeline.
fn answered(events: &[Value]) -> Vec<u64> {
    let cycle = |event: &Value, name| (event[name].as_f64().unwrap_or(0.0) * CYCLES_PER_US).round() as u64;
    let packets = || {
        let of_card = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["pid"] == 1);
        of_card.filter(|event| event["args"]["psn"].is_u64())
    };
    let naks = packets().filter(|event| event["name"].as_str().is_some_and(|name| name.contains(": NAK ")));
    let after = naks.filter_map(|nak| {
        // A slice ends with the cycle behind its last one.
        let at = cycle(nak, "ts") + cycle(nak, "dur") - 1;
        let again = packets().find(|packet| {
            packet["args"]["psn"] == nak["args"]["psn"]
                && cycle(packet, "ts") > at
                && packet["name"].as_str().is_some_and(|name| name.contains("WRITE"))
        });
        again.map(|packet| cycle(packet, "ts") - at)
    });
    after.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_nak_is_answered_by_the_packet_of_its_psn() {
        let packet = |name: &str, ts: f64, psn: u32| {
            let args = json!({ "psn": psn });
            json!({"ph": "X", "pid": 1, "name": name, "ts": ts, "dur": 0.008, "args": args})
        };
        let events = [
            packet("RC RDMA WRITE Middle", 1.0, 7),
            packet("RC Acknowledge: NAK PsnSequence", 2.0, 7),
            packet("RC RDMA WRITE Middle", 2.1, 9),
            packet("RC RDMA WRITE Middle", 3.0, 7),
        ];
        assert_eq!(answered(&events), [249]);
        assert!(answered(&events[..3]).is_empty());
    }
}
