//! Virtual lanes of the cards: tables that change under traffic, and a lane that is stuck beside one that is not.

mod common;

use common::{LOCAL_AND_REMOTE, Pair, cap};
use hca_host::PcieParams;
use hca_link::{Dir, LinkKind, Sighting};
use hca_system_tests::{RigConfig, path};
use hca_verbs::{ConnectOptions, Mtu, SendOp, VlArbTable, VlWeight};

const PORT: u8 = 1;
/// A packet that was made before a table changed may leave so much later: the rings are almost empty, for the cable is
/// faster than what fills them. So no packet on its new lane overtakes one on the old lane either.
const UNDER_WAY_PS: u64 = 3_000_000;
const SLOW_PCIE_MBPS: u32 = 8_000;

fn on_sl(sl: u8) -> ConnectOptions {
    ConnectOptions {
        sl,
        ..path(Mtu::Bytes1024)
    }
}

/// No packet was lost or refused at either card, and none was sent twice.
#[track_caller]
fn assert_clean(pair: &Pair) {
    for node in &pair.rig.nodes {
        let counters = node.context.query_counters(PORT).unwrap();
        assert_eq!(counters.retransmitted_packets(), 0);
        let errors = node.context.link_counters(PORT).unwrap().errors;
        let dropped = [
            errors.port_xmit_discards(),
            errors.port_xmit_constraint_errors(),
            errors.port_rcv_errors(),
            errors.excessive_buffer_overrun_errors(),
        ];
        assert_eq!(dropped, [0; 4]);
    }
}

fn sl(packet: &Sighting) -> u8 {
    packet.head[1] >> 4
}

fn vl(packet: &Sighting) -> u8 {
    packet.head[0] >> 4
}

/// Eight WRITEs and four READs of 64 KiB, in the background: the caller waits for the completions 0..12.
fn post_traffic(pair: &mut Pair) {
    const LEN: u32 = 64 << 10;
    for slot in 0..8u32 {
        let at = u64::from(slot * LEN);
        let bytes = pair.expected(0, at, LEN);
        pair.expect(1, at, &bytes);
        let (write, source) = (pair.write_to(1, at), [pair.mrs[0].sge(at, LEN)]);
        pair.post(0, u64::from(slot), write, &source);
    }
    for slot in 8..12u32 {
        let at = u64::from(slot * LEN);
        let bytes = pair.expected(0, at, LEN);
        pair.expect(1, at, &bytes);
        let (read, landing) = (pair.read_from(0, at), [pair.mrs[1].sge(at, LEN)]);
        pair.post(1, u64::from(slot), read, &landing);
    }
}

fn wait_for_traffic(pair: &Pair) {
    (0..8).for_each(|id| {
        pair.wait_ok(0, id);
    });
    (8..12).for_each(|id| {
        pair.wait_ok(1, id);
    });
}

/// VL-7, VL-8: each packet's VL is that of the table before or after a change, never another; its SL stays; nothing is
/// lost.
#[test]
fn sl2vl_changes_under_traffic() {
    const SL: u8 = 3;
    let config = RigConfig {
        pcie: PcieParams {
            bandwidth_mbps: SLOW_PCIE_MBPS,
            ..PcieParams::default()
        },
        switches: 0,
        ..RigConfig::new(21, LinkKind::InfiniBand)
    };
    let mut pair = Pair::new(&config, &on_sl(SL), 1 << 20, [LOCAL_AND_REMOTE; 2]);
    let cable = pair.rig.cable;
    let table = |lane: u8| std::array::from_fn(|of| if of == usize::from(SL) { lane } else { 0 });
    pair.rig.nodes[0].context.set_sl2vl(PORT, &table(1)).unwrap();
    for dir in Dir::ALL {
        pair.rig.sim.fabric().cable_mut(cable).watch(dir, true);
    }
    post_traffic(&mut pair);
    // Lane from a time on, in picoseconds: when the command began, and when it was done.
    let mut changes = vec![(0, 0, 1u8)];
    for lane in [2, 7, 4, 6, 1, 3, 5, 2] {
        let begun = pair.rig.now_ns() * 1000;
        pair.rig.nodes[0].context.set_sl2vl(PORT, &table(lane)).unwrap();
        changes.push((begun, pair.rig.now_ns() * 1000, lane));
    }
    wait_for_traffic(&pair);
    pair.check_memory("after the changes");
    assert_clean(&pair);

    let (seen, missed) = pair.rig.sim.fabric().cable_mut(cable).take_sightings(Dir::AToB);
    assert!(seen.len() >= 768 && missed == 0, "{} packets", seen.len());
    let mut on = [0; 16];
    for packet in &seen {
        assert_eq!(sl(packet), SL);
        let (at, lane) = (packet.sent_ps, vl(packet));
        let possible = changes.iter().enumerate().filter(|(index, (begun, _, _))| {
            let over = changes.get(index + 1).map(|(_, done, _)| done + UNDER_WAY_PS);
            *begun <= at && over.is_none_or(|over| at <= over)
        });
        let lanes: Vec<u8> = possible.map(|(_, (_, _, lane))| *lane).collect();
        assert!(
            lanes.contains(&lane),
            "at {at} ps on VL {lane} instead of {lanes:?}"
        );
        on[usize::from(lane)] += 1;
    }
    let used = (1..8).filter(|lane| on[*lane] > 0).count();
    assert!(used >= 4, "the changes came too late: packets per VL {on:?}");
    // The other end's table has not changed: SL 3 is on VL 3 or where it was.
    let (back, _) = pair.rig.sim.fabric().cable_mut(cable).take_sightings(Dir::BToA);
    let other = pair.rig.nodes[1].context.link_status(PORT).unwrap().sl2vl[usize::from(SL)];
    assert!(back.iter().all(|packet| (sl(packet), vl(packet)) == (SL, other)) && !back.is_empty());
}

/// A P_Key that changes between full and limited membership is accepted all the time: each packet carries one of the
/// two, and nothing is lost or sent again.
#[test]
fn pkey_changes_under_traffic() {
    const INDEX: u16 = 1;
    const KEYS: [u16; 2] = [0x8123, 0x0123];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pkeys.pcap");
    let config = RigConfig {
        switches: 0,
        capture: Some(file.clone()),
        ..RigConfig::new(22, LinkKind::InfiniBand)
    };
    let options = ConnectOptions {
        pkey_index: INDEX,
        ..on_sl(0)
    };
    let mut pair = Pair::new(&config, &on_sl(0), 1 << 20, [LOCAL_AND_REMOTE; 2]);
    for node in &pair.rig.nodes {
        node.context.set_pkey(PORT, INDEX, KEYS[0]).unwrap();
    }
    pair.qps = pair.more_qps(cap(), &options);
    post_traffic(&mut pair);
    for change in 1..=32 {
        pair.rig.nodes[0]
            .context
            .set_pkey(PORT, INDEX, KEYS[change % 2])
            .unwrap();
    }
    wait_for_traffic(&pair);
    pair.check_memory("after the changes");
    assert_clean(&pair);
    pair.rig.close_captures().unwrap();
    let mut seen = [0; 2];
    for packet in data_packets(&std::fs::read(&file).unwrap()) {
        // LRH, GRH if there is one, then BTH: the P_Key is in its bytes 2 and 3.
        let bth = if packet[1] & 3 == 3 { 48 } else { 8 };
        let key = u16::from_be_bytes([packet[bth + 2], packet[bth + 3]]);
        let which = KEYS.iter().position(|known| *known == key);
        seen[which.unwrap_or_else(|| panic!("a packet with P_Key {key:#06x}"))] += 1;
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

/// Data packets of a capture, which has an ERF header of 16 bytes in front of each record.
fn data_packets(file: &[u8]) -> Vec<&[u8]> {
    const ERF_INFINIBAND: u8 = 21;
    let (mut at, mut found) = (24, Vec::new());
    while at < file.len() {
        let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        let record = &file[at + 16..at + 16 + len];
        if record[8] == ERF_INFINIBAND {
            found.push(&record[16..]);
        }
        at += 16 + len;
    }
    found
}

/// Picoseconds that 24 WRITEs of 64 KiB take, eight of them under way.
fn time_of_writes(pair: &mut Pair) -> u64 {
    const LEN: u32 = 64 << 10;
    let started = pair.rig.now_cycles();
    for id in 0..24u64 {
        if id >= 8 {
            pair.wait_ok(0, id - 8);
        }
        let (write, source) = (pair.write_to(1, 0), [pair.mrs[0].sge(0, LEN)]);
        pair.post(0, id, write, &source);
    }
    (16..24).for_each(|id| {
        pair.wait_ok(0, id);
    });
    pair.rig.now_cycles() - started
}

/// VL-1, VL-6: a lane that may send nothing at all, its transmit ring full and a QP with work on it, takes nothing from
/// the bandwidth of another; once it may send again, all that waited arrives.
#[test]
fn a_stuck_lane_slows_no_other() {
    let ratio = beside_stuck_lanes(1, 384);
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}

/// All others: the pool of the transmit rings is full but for what each lane has in any case (decisions 0085, 0089).
#[test]
fn all_stuck_lanes_leave_another_its_part() {
    let ratio = beside_stuck_lanes(7, 264);
    assert!(ratio < 1.25, "{ratio}");
}

/// How much longer WRITEs on lane 0 take beside others that are stuck, `blocks` at least in the ring of each.
fn beside_stuck_lanes(stuck: u8, blocks: u32) -> f64 {
    const LEN: u32 = 128 << 10;
    let config = RigConfig {
        switches: 0,
        ..RigConfig::new(23, LinkKind::InfiniBand)
    };
    let options = ConnectOptions {
        mtu: Mtu::Bytes4096,
        ..on_sl(0)
    };
    let mut pair = Pair::new(&config, &options, 1 << 20, [LOCAL_AND_REMOTE; 2]);
    let mut senders = Vec::new();
    for sl in 1..=stuck {
        let on_it = ConnectOptions {
            sl,
            timeout: 0,
            ..options
        };
        senders.push(pair.more_qps(cap(), &on_it));
    }
    let lanes = std::array::from_fn(|sl| if sl <= usize::from(stuck) { sl as u8 } else { 0 });
    let entry = |vl| VlWeight { vl, weight: 64 };
    for node in &pair.rig.nodes {
        node.context.set_sl2vl(PORT, &lanes).unwrap();
    }
    let context = pair.rig.nodes[0].context.clone();
    context.set_vl_arb(PORT, VlArbTable::High, &[]).unwrap();
    context.set_vl_arb(PORT, VlArbTable::Low, &[entry(0)]).unwrap();
    let bytes = pair.expected(0, 0, 64 << 10);
    pair.expect(1, 0, &bytes);

    let _warm = time_of_writes(&mut pair);
    let alone = time_of_writes(&mut pair);
    for (slot, [sender, _]) in (1u64..).zip(&mut senders) {
        let at = slot * u64::from(LEN);
        let bytes = pair.expected(0, at, LEN);
        pair.expect(1, at, &bytes);
        let (remote_addr, rkey) = pair.remote(1, at);
        let source = [pair.mrs[0].sge(at, LEN)];
        sender
            .post_send(&[hca_verbs::SendWr {
                wr_id: 100 + slot,
                op: SendOp::RdmaWrite { remote_addr, rkey },
                flags: hca_verbs::SendFlags::SIGNALED,
                data: hca_verbs::WrData::Sges(&source),
            }])
            .unwrap();
    }
    pair.rig.run(20_000);
    let vls = || context.link_counters(PORT).unwrap().vls;
    for (vl, before) in vls().iter().enumerate().take(usize::from(stuck) + 1).skip(1) {
        assert!(
            before.tx_fill() >= blocks && before.tx_packets() == 0,
            "VL {vl}: {before:?}"
        );
    }
    let beside = time_of_writes(&mut pair);
    let ratio = beside as f64 / alone as f64;
    println!("alone {alone} cycles, beside {stuck} stuck lanes {beside} cycles: {ratio:.4}");
    let sent: u32 = vls()[1..=usize::from(stuck)]
        .iter()
        .map(|vl| vl.tx_packets())
        .sum();
    assert_eq!(sent, 0);

    let all: Vec<_> = (0..=stuck).map(entry).collect();
    context.set_vl_arb(PORT, VlArbTable::Low, &all).unwrap();
    (1..=u64::from(stuck)).for_each(|slot| {
        pair.wait_ok(0, 100 + slot);
    });
    pair.check_memory("after the lanes were set free");
    assert_clean(&pair);
    ratio
}
