//! A rule for every field of every spec, with frames that it takes and frames that it leaves.

use crate::net::{ALL_MACS, Net, TCP, UDP, frame, ipv4, ipv6, mac};
use hca_verbs::{EthFilter, FlowAttr, FlowKind, FlowSpec, Ipv4Filter, Ipv6Filter, PortFilter};

pub const A4: [u8; 4] = [10, 1, 2, 3];
pub const B4: [u8; 4] = [10, 1, 200, 4];
const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 2];

/// A frame's variants: the one that rules below describe, and what differs from it in one thing.
pub fn four(proto: u8, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut ip = ipv4(proto, [A4, B4], [1000, 2000], &[9; 40], true);
    change(&mut ip);
    frame(mac(1), mac(0), None, 0x0800, &ip)
}

pub fn six(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut ip = ipv6(UDP, [A6, B6], [1000, 2000], &[9; 40]);
    change(&mut ip);
    frame(mac(1), mac(0), None, 0x86dd, &ip)
}

/// A rule, frames that it takes, and frames that it leaves.
type Case = (&'static str, Vec<FlowSpec>, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn eth_cases() -> Vec<Case> {
    let (none, all) = (
        EthFilter::default(),
        EthFilter {
            dst_mac: ALL_MACS,
            src_mac: ALL_MACS,
            ether_type: 0xffff,
            vlan_tag: 0xffff,
        },
    );
    let bare = |dst, src, kind| frame(dst, src, None, kind, &[3; 80]);
    let tagged = |tag, kind| frame(mac(1), mac(0), Some(tag), kind, &[3; 80]);
    let kind = EthFilter {
        ether_type: 0x88b5,
        ..none
    };
    let tag = EthFilter {
        vlan_tag: 0x3005,
        ..none
    };
    let odd = [2, 0x48, 0x43, 7, 7, 7];
    vec![
        (
            "destination",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: mac(1),
                    ..none
                },
                EthFilter {
                    dst_mac: ALL_MACS,
                    ..none
                },
            )],
            vec![bare(mac(1), odd, 0x1234)],
            vec![bare([2, 0x48, 0x43, 0, 0, 3], odd, 0x1234)],
        ),
        (
            "vendor of the destination",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: [2, 0x48, 0x43, 9, 9, 9],
                    ..none
                },
                EthFilter {
                    dst_mac: [0xff, 0xff, 0xff, 0, 0, 0],
                    ..none
                },
            )],
            vec![bare(mac(1), mac(0), 0x88b5), bare(odd, mac(0), 0x88b5)],
            vec![bare([2, 0x48, 0x44, 0, 0, 2], mac(0), 0x88b5)],
        ),
        (
            "source",
            vec![FlowSpec::Eth(
                EthFilter { src_mac: odd, ..none },
                EthFilter {
                    src_mac: ALL_MACS,
                    ..none
                },
            )],
            vec![bare(mac(1), odd, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b5)],
        ),
        (
            "EtherType, behind a tag too",
            vec![FlowSpec::Eth(
                kind,
                EthFilter {
                    ether_type: 0xffff,
                    ..none
                },
            )],
            vec![bare(mac(1), mac(0), 0x88b5), tagged(7, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b6), bare(mac(1), mac(0), 0x8100)],
        ),
        (
            "VLAN",
            vec![FlowSpec::Eth(
                tag,
                EthFilter {
                    vlan_tag: 0x0fff,
                    ..none
                },
            )],
            vec![tagged(0x3005, 0x88b5), tagged(0x0005, 0x88b6)],
            vec![tagged(0x3006, 0x88b5), bare(mac(1), mac(0), 0x3005)],
        ),
        (
            "VLAN 0: a tag",
            vec![FlowSpec::Eth(
                none,
                EthFilter {
                    vlan_tag: 0x0fff,
                    ..none
                },
            )],
            vec![tagged(0xe000, 0x88b5)],
            vec![bare(mac(1), mac(0), 0x88b5)],
        ),
        (
            "all of it",
            vec![FlowSpec::Eth(
                EthFilter {
                    dst_mac: mac(1),
                    src_mac: mac(0),
                    ether_type: 0x88b5,
                    vlan_tag: 0x3005,
                },
                all,
            )],
            vec![tagged(0x3005, 0x88b5)],
            vec![tagged(0x2005, 0x88b5), tagged(0x3005, 0x88b4)],
        ),
    ]
}

fn ip_cases() -> Vec<Case> {
    let (n4, n6) = (Ipv4Filter::default(), Ipv6Filter::default());
    let spec4 = |value, mask| vec![FlowSpec::Ipv4(value, mask)];
    let spec6 = |value, mask| vec![FlowSpec::Ipv6(value, mask)];
    let plain = || four(UDP, |_| ());
    let other = |at: usize, byte: u8| four(UDP, move |ip| ip[at] = byte);
    let other6 = |at: usize, byte: u8| six(move |ip| ip[at] = byte);
    let m4 = [0xff; 4];
    let m6 = [0xff; 16];
    let mut net = [0; 16];
    net[..8].fill(0xff);
    vec![
        (
            "IPv4",
            spec4(n4, n4),
            vec![plain(), other(8, 3)],
            vec![six(|_| ()), other(0, 0x46)],
        ),
        (
            "IPv4 source",
            spec4(Ipv4Filter { src_ip: A4, ..n4 }, Ipv4Filter { src_ip: m4, ..n4 }),
            vec![plain(), other(19, 7)],
            vec![other(15, 7)],
        ),
        (
            "IPv4 network",
            spec4(
                Ipv4Filter { dst_ip: B4, ..n4 },
                Ipv4Filter {
                    dst_ip: [255, 255, 0, 0],
                    ..n4
                },
            ),
            vec![plain(), other(19, 7)],
            vec![other(17, 7)],
        ),
        (
            "IPv4 protocol",
            spec4(Ipv4Filter { proto: TCP, ..n4 }, Ipv4Filter { proto: 0xff, ..n4 }),
            vec![four(TCP, |_| ())],
            vec![plain(), other(9, 1)],
        ),
        (
            "IPv4 tos, ttl, flags",
            spec4(
                Ipv4Filter {
                    tos: 0x10,
                    ttl: 61,
                    flags: 2,
                    ..n4
                },
                Ipv4Filter {
                    tos: 0xff,
                    ttl: 0xff,
                    flags: 3,
                    ..n4
                },
            ),
            vec![other(1, 0x10)],
            vec![
                plain(),
                four(UDP, |ip| (ip[1], ip[8]) = (0x10, 9)),
                four(UDP, |ip| (ip[1], ip[6]) = (0x10, 0x60)),
            ],
        ),
        (
            "IPv6",
            spec6(n6, n6),
            vec![six(|_| ())],
            vec![plain(), other6(0, 0x55)],
        ),
        (
            "IPv6 source",
            spec6(Ipv6Filter { src_ip: A6, ..n6 }, Ipv6Filter { src_ip: m6, ..n6 }),
            vec![six(|_| ()), other6(39, 9)],
            vec![other6(23, 9), other6(8, 9)],
        ),
        (
            "IPv6 network",
            spec6(Ipv6Filter { dst_ip: A6, ..n6 }, Ipv6Filter { dst_ip: net, ..n6 }),
            vec![six(|_| ()), other6(39, 9)],
            vec![other6(24, 9), other6(31, 9)],
        ),
        (
            "IPv6 label, class, hops, next header",
            spec6(
                Ipv6Filter {
                    flow_label: 0x1_2345,
                    traffic_class: 0xab,
                    hop_limit: 63,
                    next_hdr: UDP,
                    ..n6
                },
                Ipv6Filter {
                    flow_label: 0xf_ffff,
                    traffic_class: 0xff,
                    hop_limit: 0xff,
                    next_hdr: 0xff,
                    ..n6
                },
            ),
            vec![six(|_| ())],
            vec![
                other6(3, 0x46),
                other6(1, 0xc1),
                other6(1, 0xb0),
                other6(7, 62),
                other6(6, TCP),
            ],
        ),
    ]
}

fn port_cases() -> Vec<Case> {
    let none = PortFilter::default();
    let both = PortFilter {
        src_port: 1000,
        dst_port: 2000,
    };
    let all = PortFilter {
        src_port: 0xffff,
        dst_port: 0xffff,
    };
    let high = PortFilter {
        src_port: 0xff00,
        ..none
    };
    let any4 = FlowSpec::Ipv4(Ipv4Filter::default(), Ipv4Filter::default());
    let port = |proto, at: usize, byte: u8| four(proto, move |ip| ip[20 + at] = byte);
    let later = |proto| four(proto, |ip| ip[7] = 1);
    let tagged = frame(
        mac(1),
        mac(0),
        Some(5),
        0x0800,
        &ipv4(UDP, [A4, B4], [1000, 2000], &[9; 40], true),
    );
    vec![
        (
            "TCP",
            vec![FlowSpec::Tcp(none, none)],
            vec![four(TCP, |_| ()), six(|ip| ip[6] = TCP)],
            vec![four(UDP, |_| ()), later(TCP), four(TCP, |ip| ip[9] = 1)],
        ),
        (
            "UDP ports, of both families",
            vec![FlowSpec::Udp(both, all)],
            vec![four(UDP, |_| ()), six(|_| ()), tagged],
            vec![
                four(TCP, |_| ()),
                port(UDP, 0, 9),
                port(UDP, 1, 9),
                port(UDP, 2, 9),
                later(UDP),
            ],
        ),
        (
            "UDP over IPv4",
            vec![any4, FlowSpec::Udp(both, high)],
            vec![four(UDP, |_| ()), port(UDP, 1, 9), port(UDP, 3, 9)],
            vec![six(|_| ()), port(UDP, 0, 9)],
        ),
    ]
}

/// V-155: every kind of spec, every field, whole and masked: what is described comes to the rule's QP, what differs
/// in one thing to the default one's.
#[test]
fn every_field_of_every_spec_counts() {
    let mut net = Net::new(2);
    let _rest = net.rule(
        1,
        FlowAttr {
            kind: FlowKind::AllDefault,
            ..FlowAttr::default()
        },
    );
    net.recv(0);
    net.recv(1);
    for (what, specs, takes, leaves) in eth_cases().into_iter().chain(ip_cases()).chain(port_cases()) {
        let mut flow = net.rule(
            0,
            FlowAttr {
                specs: &specs,
                ..FlowAttr::default()
            },
        );
        for (frames, to) in [(&takes, 0), (&leaves, 1)] {
            for (i, sent) in frames.iter().enumerate() {
                let (got, _) = net.deliver(sent, sent, false, 1);
                assert_eq!(got, [to], "{what}: frame {i}");
                net.recv(to);
            }
        }
        flow.destroy().unwrap();
        net.who(&takes[0], &[1]);
    }
}
