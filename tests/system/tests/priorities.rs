//! Ethernet ports: the priority of a frame by its DSCP or VLAN tag, traffic classes that share the wire, pauses.

mod common;

use common::{LOCAL_AND_REMOTE, Pair, cap};
use hca_link::{Dir, LinkKind};
use hca_system_tests::{RigConfig, connect, path};
use hca_verbs::{ConnectOptions, EthTrust, EtsConfig, LinkConfig, Mtu, RawQp, SendFlags, SendWr, WrData};

const PORT: u8 = 1;
const LEN: u32 = 65536;
/// Messages of a QP under way.
const DEPTH: u32 = 8;
/// Bits per second of a cable that is slower than what fills the rings.
const SLOW_CABLE: u64 = 40_000_000_000;

fn with_dscp(dscp: u8) -> ConnectOptions {
    ConnectOptions {
        traffic_class: dscp << 2,
        timeout: 16,
        ..path(Mtu::Bytes2048)
    }
}

fn pair(seed: u64, rate_bits_per_s: u64) -> Pair {
    let config = RigConfig {
        switches: 0,
        rate_bits_per_s,
        ..RigConfig::new(seed, LinkKind::Ethernet)
    };
    Pair::new(&config, &with_dscp(0), u64::from(LEN), [LOCAL_AND_REMOTE; 2])
}

fn configure(pair: &Pair, config: &LinkConfig) {
    for node in &pair.rig.nodes {
        node.context.link_config(PORT, config).unwrap();
    }
}

/// Further QPs of node 0, each with its DSCP.
fn senders(pair: &Pair, dscps: &[u8]) -> Vec<[RawQp<hca_system_tests::Dev>; 2]> {
    let make = |dscp: &u8| {
        let mut qps = [0, 1].map(|node: usize| pair.rig.nodes[node].create_qp(cap(), false).unwrap());
        connect(&mut qps, &with_dscp(*dscp)).unwrap();
        qps
    };
    dscps.iter().map(make).collect()
}

/// Blocks that left in each traffic class while every QP always had something to send.
fn measure(pair: &mut Pair, qps: &mut [[RawQp<hca_system_tests::Dev>; 2]], cycles: u64) -> [f64; 8] {
    let sent = |pair: &Pair| {
        let counters = pair.rig.nodes[0].context.link_counters(PORT).unwrap();
        std::array::from_fn::<_, 8, _>(|class| counters.vls[class].tx_blocks())
    };
    let mut posted = vec![0; qps.len()];
    let mut before = None;
    let (start, warm_up) = (pair.rig.now_cycles(), cycles / 5);
    while pair.rig.now_cycles() < start + warm_up + cycles {
        for (index, (qp, posted)) in qps.iter_mut().zip(&mut posted).enumerate() {
            while *posted < DEPTH {
                let op = pair.write_to(1, 0);
                let wr = SendWr {
                    wr_id: index as u64,
                    op,
                    flags: SendFlags::SIGNALED,
                    data: WrData::Sges(&[pair.mrs[0].sge(0, LEN)]),
                };
                qp[0].post_send(&[wr]).unwrap();
                *posted += 1;
            }
        }
        pair.rig.run(200);
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            assert!(wc.is_ok(), "{wc:?}");
            posted[wc.wr_id as usize] -= 1;
        }
        if before.is_none() && pair.rig.now_cycles() >= start + warm_up {
            before = Some(sent(pair));
        }
    }
    let (before, after) = (before.unwrap(), sent(pair));
    while posted.iter().any(|left| *left > 0) {
        pair.rig.run(200);
        while let Some(wc) = pair.rig.nodes[0].poll().unwrap() {
            posted[wc.wr_id as usize] -= 1;
        }
    }
    std::array::from_fn(|class| f64::from(after[class].wrapping_sub(before[class])))
}

/// IEEE 802.1Qaz: classes share a full wire as their percents say, within 5 %, whichever priorities are in them; a
/// strict class takes what it wants, here all.
#[test]
fn classes_share_the_wire_as_set() {
    let mut pair = pair(71, SLOW_CABLE);
    let ets = EtsConfig {
        prio_tc: [0, 0, 0, 1, 1, 2, 2, 2],
        strict: 0b100,
        percent: [30, 70, 0, 0, 0, 0, 0, 0],
    };
    let config = LinkConfig::new().ets(ets).dscp(26, 3).dscp(27, 4).dscp(46, 5);
    configure(&pair, &config);
    let mut shared = senders(&pair, &[0, 26, 27]);
    let sent = measure(&mut pair, &mut shared, 30_000);
    let share = sent[0] / sent.iter().sum::<f64>();
    println!("ETS 30:70: {share:.4} of {:.0} blocks", sent.iter().sum::<f64>());
    assert!((share - 0.3).abs() < 0.3 * 0.05, "{share}: {sent:?}");

    let mut all = senders(&pair, &[0, 46]);
    let sent = measure(&mut pair, &mut all, 10_000);
    assert!(sent[2] > 20.0 * sent[0], "strict before shared: {sent:?}");
}

/// A packet has the priority of its DSCP at both ends: the class it leaves in, the receive ring it comes into; a map
/// that changes holds for the next packet of every QP, and for answers. Trust in VLAN tags, which this card sends none
/// of: priority 0.
#[test]
fn the_dscp_says_the_priority() {
    const DSCP: u8 = 26;
    let mut pair = pair(72, 100_000_000_000);
    let [a, b] = senders(&pair, &[DSCP]).pop().unwrap();
    pair.qps = [a, b];
    let rings = |pair: &Pair| {
        [0, 1].map(|node: usize| {
            let vls = pair.rig.nodes[node].context.link_counters(PORT).unwrap().vls;
            std::array::from_fn::<_, 8, _>(|ring| (vls[ring].tx_packets(), vls[ring].rx_packets()))
        })
    };
    for (config, priority) in [
        (LinkConfig::new(), 3),
        (LinkConfig::new().dscp(DSCP, 6), 6),
        (LinkConfig::new().dscp(DSCP, 1).dscp(0, 6), 1),
        (LinkConfig::new().trust(EthTrust::Pcp), 0),
        (LinkConfig::new().trust(EthTrust::Dscp), 1),
    ] {
        configure(&pair, &config);
        let before = rings(&pair);
        let (write, source) = (pair.write_to(1, 0), [pair.mrs[0].sge(0, 8192)]);
        pair.post(0, 1, write, &source);
        pair.wait_ok(0, 1);
        let after = rings(&pair);
        for node in 0..2 {
            for ring in 0..8 {
                let (tx, rx) = (
                    after[node][ring].0 - before[node][ring].0,
                    after[node][ring].1 - before[node][ring].1,
                );
                assert_eq!(
                    (tx > 0, rx > 0),
                    (ring == priority, ring == priority),
                    "node {node} ring {ring}"
                );
            }
        }
    }
}

/// IEEE 802.1Qbb: a pause frame that comes stops the priority that has PFC and no other, and is counted with the time
/// it lasts.
#[test]
fn pauses_are_obeyed_and_counted_by_priority() {
    const QUANTA: u16 = 2000;
    let mut pair = pair(73, 100_000_000_000);
    configure(&pair, &LinkConfig::new().pfc_enable(1 << 3));
    let [a, b] = senders(&pair, &[26]).pop().unwrap();
    let plain = std::mem::replace(&mut pair.qps, [a, b]);
    let mut frame = vec![
        0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x01, 0x01, 0, 0b1001,
    ];
    for priority in 0..8 {
        let quanta = if priority == 0 || priority == 3 { QUANTA } else { 0 };
        frame.extend(quanta.to_be_bytes());
    }
    frame.resize(60, 0);
    {
        let mut fabric = pair.rig.sim.fabric();
        let now = fabric.now();
        let cable = fabric.cable_mut(pair.rig.cable);
        cable.push_packet(Dir::BToA, now, &frame).unwrap();
    }
    pair.rig.run(100);
    let start = pair.rig.now_cycles();
    let (write, source) = (pair.write_to(1, 0), [pair.mrs[0].sge(0, 64)]);
    pair.post(0, 1, write, &source);
    let paused_qps = std::mem::replace(&mut pair.qps, plain);
    let (write, source) = (pair.write_to(1, 64), [pair.mrs[0].sge(64, 64)]);
    pair.post(0, 2, write, &source);
    assert_eq!(pair.wait_ok(0, 2).wr_id, 2, "priority 0 has no PFC");
    assert!(pair.rig.now_cycles() - start < 2000);
    pair.qps = paused_qps;
    pair.wait_ok(0, 1);
    // A quantum is 512 bit times: 1.28 cycles.
    let (waited, pause) = (pair.rig.now_cycles() - start, u64::from(QUANTA) * 128 / 100);
    assert!(waited >= pause - 200, "{waited} cycles instead of {pause}");
    let pfc = pair.rig.nodes[0].context.pfc_status(PORT).unwrap();
    let counts = pfc.priorities.map(|p| (p.received(), p.paused_cycles()));
    let (received, paused) = counts[3];
    assert_eq!(received, 1);
    assert!(
        u64::from(paused).abs_diff(pause) <= 32,
        "{paused} cycles instead of {pause}"
    );
    assert!(
        counts.iter().enumerate().all(|(p, c)| p == 3 || *c == (0, 0)),
        "{counts:?}"
    );
    // Sixteen blocks are those of VL15, from all data VLs.
    let ring = 512 - 16_u32.div_ceil(hca_cosim::DATA_VLS.into());
    assert_eq!(
        (pfc.rx_ring_blocks, pfc.xoff_blocks, pfc.xon_blocks),
        (ring, ring / 2, ring / 4)
    );
}
