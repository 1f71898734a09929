//! Small networks of switches and traffic endpoints.
#![allow(dead_code, reason = "each test file uses a part of it")]

use hca_link::{CableConfig, LinkKind};
use hca_switch::*;

/// A cable of 100 Gb/s and 100 ns with faults.
pub fn cable(name: &str, faults: &str) -> CableConfig {
    CableConfig {
        faults: faults.parse().unwrap(),
        seed: 11,
        ..CableConfig::new(name, LinkKind::InfiniBand)
    }
}

/// Small buffers, so that everything fills up.
pub fn small_switch(name: &str, ports: u8, data_vls: u8, buffer_blocks: u32) -> IbSwitchConfig {
    IbSwitchConfig {
        data_vls,
        buffer_blocks,
        mtu_bytes: 2048,
        ..IbSwitchConfig::new(name, ports)
    }
}

/// An endpoint that sends `packets` to each of the LIDs in turn, on SLs 0 to `sls` - 1.
pub fn sender(lid: u16, dlids: impl IntoIterator<Item = u16>, sls: u8, packets: u64) -> IbEndpointConfig {
    let flows = dlids
        .into_iter()
        .flat_map(|dlid| (0..sls).map(move |sl| Flow { dlid, sl, share: 1 }));
    IbEndpointConfig {
        seed: u64::from(lid) * 7919,
        flows: flows.collect(),
        packets,
        mtu_bytes: 2048,
        ..IbEndpointConfig::new(&format!("end{lid}"), lid)
    }
}

/// Lets the links' time-outs run for a while, so that both sides of each know all credits.
pub fn settle(net: &mut Net) {
    let end = net.now() + 100_000;
    while let Some(next) = net.next_event(true).map(|at| at.max(net.now() + 1)) {
        if next > end {
            break;
        }
        net.step(next, true);
    }
}

/// Every flow has arrived whole, once and in order.
#[track_caller]
pub fn check_delivery(net: &Net) {
    for from in net.endpoints().map(|id| net.endpoint(id)) {
        let config = from.config();
        for (flow, sent) in config.flows.iter().zip(from.sent()) {
            if is_multicast(flow.dlid) {
                continue;
            }
            let mut ends = net.endpoints().map(|id| net.endpoint(id));
            let to = ends.find(|end| end.config().lid == flow.dlid).unwrap();
            let count = to.received(config.lid, flow.dlid, flow.sl);
            assert_eq!(
                (count.packets, count.missing, count.out_of_order),
                (sent, 0, 0),
                "{} to {} on SL {}",
                from.name(),
                to.name(),
                flow.sl
            );
        }
        assert_eq!(from.damaged(), 0, "{}", from.name());
    }
}

/// No port has dropped anything, and no buffer was ever fuller than it is large.
#[track_caller]
pub fn check_no_drops(net: &Net) {
    for switch in net.switches().map(|id| net.switch(id)) {
        for port in 1..=switch.config().ports {
            let Some(counters) = switch.counters(port) else {
                continue;
            };
            let dropped = [
                counters.port_rcv_errors,
                counters.port_rcv_switch_relay_errors,
                counters.port_xmit_discards,
                counters.port_xmit_constraint_errors,
                counters.excessive_buffer_overrun_errors,
                counters.vl15_dropped,
            ];
            assert_eq!(dropped, [0; 6], "{} port {port}: {counters:?}", switch.name());
            for vl in 0..15 {
                let peak = switch.vl_counters(port, vl).unwrap().buffer_peak_blocks;
                let limit = switch.config().buffer_blocks;
                assert!(
                    peak <= limit,
                    "{} port {port} VL {vl}: {peak} blocks",
                    switch.name()
                );
            }
        }
    }
}

/// At rest: every buffer is empty, and every sender has all credits of the buffer behind its cable.
#[track_caller]
pub fn check_credits(net: &mut Net) {
    settle(net);
    for switch in net.switches().map(|id| net.switch(id)) {
        for port in 1..=switch.config().ports {
            let Some(vls) = switch.operational_vls(port) else {
                continue;
            };
            for vl in 0..vls {
                assert_eq!(switch.buffer_fill(port, vl), 0, "{} port {port}", switch.name());
            }
        }
    }
    let blocks = |end| match end {
        LinkEndAt::Switch(id, _) => net.switch(id).config().buffer_blocks,
        LinkEndAt::Endpoint(id) => net.endpoint(id).config().buffer_blocks,
        _ => unreachable!("no cards here"),
    };
    for link in (0..net.cables().len()).map(LinkId) {
        let [a, b] = net.ends(link);
        for (from, to) in [(a, b), (b, a)] {
            let expected = Some(blocks(to).min(2048) as u16);
            let vls = [a, b].map(|end| match end {
                LinkEndAt::Switch(id, port) => net.switch(id).operational_vls(port).unwrap(),
                _ => 15,
            });
            for vl in 0..vls[0].min(vls[1]) {
                let credits = match from {
                    LinkEndAt::Switch(id, port) => net.switch(id).credits(port, vl),
                    LinkEndAt::Endpoint(id) => net.endpoint(id).credits(vl),
                    _ => unreachable!("no cards here"),
                };
                assert_eq!(credits, expected, "{from:?} VL {vl}");
            }
        }
    }
}

/// A line of switches with `per_switch` endpoints each, all talking to all. LIDs count from 1; port 62 of a switch
/// leads up the line, 63 down.
pub struct Line {
    pub net: Net,
    pub ends: Vec<EndpointId>,
}

pub struct LineConfig {
    pub switches: u16,
    pub per_switch: u16,
    pub packets: u64,
    pub data_vls: u8,
    pub buffer_blocks: u32,
    pub faults: &'static str,
    pub stalls: Option<Stalls>,
}

pub fn line(config: &LineConfig) -> Line {
    const UP: u8 = 62;
    const DOWN: u8 = 63;
    let mut net = Net::new();
    let mut ends = Vec::new();
    let count = config.switches * config.per_switch;
    let mut before = None;
    for index in 0..config.switches {
        let name = format!("sw{index}");
        let switch = small_switch(&name, 63, config.data_vls, config.buffer_blocks);
        let id = net.add_ib_switch(switch).unwrap();
        for number in 0..config.per_switch {
            let lid = 1 + index * config.per_switch + number;
            let dlids = (1..=count).filter(|dlid| *dlid != lid);
            let end = IbEndpointConfig {
                data_vls: config.data_vls,
                buffer_blocks: config.buffer_blocks,
                stalls: config.stalls,
                ..sender(lid, dlids, 15, config.packets / u64::from(count))
            };
            let end = net.add_ib_endpoint(end).unwrap();
            let at = [LinkEndAt::Endpoint(end), LinkEndAt::Switch(id, 1 + number as u8)];
            net.connect(at, cable(&format!("end{lid}"), config.faults))
                .unwrap();
            ends.push(end);
        }
        if let Some(before) = before {
            let at = [LinkEndAt::Switch(before, UP), LinkEndAt::Switch(id, DOWN)];
            net.connect(at, cable(&format!("line{index}"), config.faults))
                .unwrap();
        }
        for lid in 1..=count {
            let (home, place) = ((lid - 1) / config.per_switch, (lid - 1) % config.per_switch);
            let port = match home.cmp(&index) {
                std::cmp::Ordering::Less => DOWN,
                std::cmp::Ordering::Equal => 1 + place as u8,
                std::cmp::Ordering::Greater => UP,
            };
            let tables = net.switch_mut(id).forwarding_mut();
            tables.set_unicast(lid, port).unwrap();
        }
        before = Some(id);
    }
    Line { net, ends }
}
