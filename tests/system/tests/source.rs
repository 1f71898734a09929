//! Who may speak to a QP: its peer, and nobody else who knows its number, its PSN and its P_Key (QPS-17, KEY-15).

mod common;

use std::fs::File;

use common::forge::{self, Forged};
use common::{BOTH_LINKS, LOCAL_AND_REMOTE, Pair};
use hca_link::LinkKind;
use hca_system_tests::{RigConfig, path};
use hca_verbs::{AhAttr, ConnectOptions, Gid, Mtu, QpAttr, QpAttrMask, QpState};
use hca_wire::{ExtHeaders, Framing, Link, Network, Opcode, WholePacket, reth};
use pcap_file::pcap::PcapReader;

const REGION_BYTES: u64 = 8192;
/// Where forged packets write.
const TARGET: u64 = 4096;

/// Two connected nodes, and a stranger on the wire.
struct Attack {
    pair: Pair,
    kind: LinkKind,
    /// PSN that node 1 expects.
    psn: u32,
}

/// One packet that claims to be from node 0's card.
#[derive(Clone, Copy)]
struct Lie {
    link: Link,
    pkey: u16,
}

impl Attack {
    fn new(kind: LinkKind, gid_index: Option<u8>) -> Self {
        let options = ConnectOptions {
            gid_index,
            ..path(Mtu::Bytes1024)
        };
        Self::on(&RigConfig::new(17, kind), &options)
    }

    fn on(config: &RigConfig, options: &ConnectOptions) -> Self {
        let pair = Pair::new(config, options, REGION_BYTES, [LOCAL_AND_REMOTE; 2]);
        let kind = config.link;
        Self { pair, kind, psn: 0 }
    }

    /// What node 0's card would send: the truth.
    fn truth(&self, gid_index: Option<u8>) -> Link {
        let link = forge::link(0, self.kind);
        match (gid_index, self.kind) {
            (None, _) | (Some(1), LinkKind::Ethernet) => link,
            (Some(index), _) => {
                let [sgid, dgid] = [0, 1].map(|node: usize| self.gid(node, index));
                forge::global(link, sgid, dgid)
            }
        }
    }

    fn gid(&self, node: usize, index: u8) -> Gid {
        self.pair.rig.nodes[node]
            .context
            .query_gid(1, index.into())
            .unwrap()
    }

    /// Node 1 gets a WRITE of `fill`.
    fn write(&mut self, lie: Lie, fill: u8) {
        let (va, rkey) = self.pair.remote(1, TARGET);
        let payload = [fill; 64];
        let packet = Forged {
            link: lie.link,
            opcode: Opcode::RcWriteOnly,
            dest_qp: self.pair.qps[1].qp_num(),
            psn: self.psn,
            pkey: lie.pkey,
            ext: ExtHeaders {
                reth: Some(reth::Repr {
                    va,
                    rkey,
                    dma_len: 64,
                }),
                ..ExtHeaders::default()
            },
            payload: &payload,
        };
        forge::send(&mut self.pair.rig, 0, &packet);
        self.pair.rig.run(3_000);
    }

    /// bad_sources and bad_pkey_cntr of node 1.
    fn counts(&self) -> (u64, u32) {
        let context = &self.pair.rig.nodes[1].context;
        let (counters, port) = (context.query_counters(1).unwrap(), context.query_port(1).unwrap());
        assert_eq!(counters.pkey_violations(), u64::from(port.bad_pkey_cntr()));
        (counters.bad_sources(), port.bad_pkey_cntr())
    }

    /// The packet is dropped without a trace but in these counters.
    #[track_caller]
    fn refused(&mut self, lie: Lie, sources: u64, pkeys: u32, what: &str) {
        let before = self.counts();
        self.write(lie, 0xee);
        self.pair.check_memory(what);
        assert_eq!(self.counts(), (before.0 + sources, before.1 + pkeys), "{what}");
        assert_eq!(self.pair.qps[1].query().unwrap().qp_state, QpState::Rts, "{what}");
        assert_eq!(self.pair.rig.nodes[1].context.poll_async_event(), None, "{what}");
    }

    /// The same packet from the peer is carried out: nothing else was wrong with it.
    #[track_caller]
    fn accepted(&mut self, link: Link, what: &str) {
        let before = self.counts();
        let fill = 0x40 + self.psn as u8;
        self.pair.expect(1, TARGET, &[fill; 64]);
        self.write(Lie { link, pkey: 0xffff }, fill);
        self.psn += 1;
        self.pair.check_memory(what);
        assert_eq!(self.counts(), before, "{what}");
    }
}

/// Lies about the addresses of `truth`, one each.
fn lies(truth: Link) -> Vec<(&'static str, Link)> {
    match truth {
        Link::Ethernet { eth, vlan, ip, udp } => {
            let with = |ip| Link::Ethernet { eth, vlan, ip, udp };
            match ip {
                Network::Ipv4(ip) => {
                    let (mut source, mut target) = (ip, ip);
                    source.src_addr[3] ^= 1;
                    target.dst_addr[0] ^= 0x80;
                    vec![
                        ("IPv4 source", with(Network::Ipv4(source))),
                        ("IPv4 destination", with(Network::Ipv4(target))),
                    ]
                }
                Network::Ipv6(ip) => {
                    let (mut source, mut target) = (ip, ip);
                    source.src_addr[15] ^= 1;
                    target.dst_addr[0] ^= 0x80;
                    vec![
                        ("IPv6 source", with(Network::Ipv6(source))),
                        ("IPv6 destination", with(Network::Ipv6(target))),
                    ]
                }
            }
        }
        Link::InfiniBand { lrh, grh } => {
            let mut stranger = lrh;
            stranger.slid ^= 0x10;
            let mut lies = vec![("source LID", Link::InfiniBand { lrh: stranger, grh })];
            if let Some(grh) = grh {
                let (mut source, mut target) = (grh, grh);
                source.sgid[15] ^= 1;
                target.dgid[0] ^= 0x80;
                for (what, grh) in [("source GID", source), ("destination GID", target)] {
                    lies.push((what, Link::InfiniBand { lrh, grh: Some(grh) }));
                }
            }
            lies
        }
    }
}

/// QPS-17, KEY-15, both personalities, every kind of address a path can have.
#[test]
fn only_the_peer_is_heard() {
    let cases = BOTH_LINKS.map(|kind| match kind {
        LinkKind::Ethernet => (kind, [Some(0), Some(1)]),
        LinkKind::InfiniBand => (kind, [None, Some(0)]),
    });
    for (kind, indices) in cases {
        for gid_index in indices {
            let mut attack = Attack::new(kind, gid_index);
            let truth = attack.truth(gid_index);
            attack.accepted(truth, "the peer");
            for (what, link) in lies(truth) {
                let what = format!("{kind:?}, GID {gid_index:?}: {what}");
                let pkey = 0xffff;
                attack.refused(Lie { link, pkey }, 1, 0, &what);
                attack.accepted(truth, &what);
            }
            let wrong_key = Lie {
                link: truth,
                pkey: 0x7001,
            };
            attack.refused(wrong_key, 0, 1, "P_Key of nobody");
            attack.accepted(truth, "after a wrong P_Key");
        }
    }
}

/// The address that counts is the path's of this moment: after a change in SQD the old one is a stranger's (QPS-10).
#[test]
fn a_new_path_counts_from_its_modify_on() {
    let mut attack = Attack::new(LinkKind::InfiniBand, None);
    let truth = attack.truth(None);
    attack.accepted(truth, "the old path");
    let Link::InfiniBand { mut lrh, grh } = truth else {
        unreachable!("an InfiniBand link")
    };
    lrh.slid = 0x77;
    let moved = Link::InfiniBand { lrh, grh };
    let pkey = 0xffff;
    attack.refused(Lie { link: moved, pkey }, 1, 0, "not yet the path");
    let qp = &mut attack.pair.qps[1];
    qp.modify_state(QpState::Sqd).unwrap();
    attack.pair.rig.run(20_000);
    let qp = &mut attack.pair.qps[1];
    let ah_attr = AhAttr {
        dlid: 0x77,
        ..qp.query().unwrap().ah_attr
    };
    let attr = QpAttr {
        qp_state: QpState::Sqd,
        ah_attr,
        ..QpAttr::default()
    };
    qp.modify(&attr, QpAttrMask::STATE | QpAttrMask::AV).unwrap();
    qp.modify_state(QpState::Rts).unwrap();
    attack.refused(Lie { link: truth, pkey }, 1, 0, "no longer the path");
    attack.accepted(moved, "the new path");
}

/// DSCP and congestion bits of an IP header, in one byte.
fn class_of(ip: &Network) -> u8 {
    match ip {
        Network::Ipv4(ip) => ip.dscp << 2 | ip.ecn,
        Network::Ipv6(ip) => ip.traffic_class,
    }
}

fn with_class(link: Link, class: u8) -> Link {
    let Link::Ethernet {
        eth,
        vlan,
        mut ip,
        udp,
    } = link
    else {
        panic!("not Ethernet")
    };
    match &mut ip {
        Network::Ipv4(ip) => (ip.dscp, ip.ecn) = (class >> 2, class & 3),
        Network::Ipv6(ip) => ip.traffic_class = class,
    }
    Link::Ethernet { eth, vlan, ip, udp }
}

/// What a QP sends, requests and acknowledges alike, carries its traffic class, DSCP and ECN; what it receives is taken
/// whatever a switch has made of either on the way, "congestion experienced" included.
#[test]
fn classes_and_congestion_marks_pass() {
    const CLASS: u8 = 46 << 2 | 2;
    for index in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("link.pcap");
        let config = RigConfig {
            capture: Some(capture.clone()),
            ..RigConfig::new(19, LinkKind::Ethernet)
        };
        let options = ConnectOptions {
            gid_index: Some(index),
            traffic_class: CLASS,
            ..path(Mtu::Bytes1024)
        };
        let mut attack = Attack::on(&config, &options);
        attack.pair.check_traffic("before");
        attack.psn = 2;
        let truth = attack.truth(Some(index));
        let classes = [0, 1, 2, 3, CLASS | 1, CLASS, 0xff, 0xfc];
        for class in classes {
            attack.accepted(
                with_class(truth, class),
                &format!("GID {index}, class {class:#04x}"),
            );
        }
        attack.pair.rig.close_captures().unwrap();

        let mut reader = PcapReader::new(File::open(&capture).unwrap()).unwrap();
        let mut seen = Vec::new();
        while let Some(frame) = reader.next_packet() {
            let frame = frame.unwrap();
            let packet = WholePacket::parse(Framing::Ethernet, &frame.data).unwrap();
            let Link::Ethernet { ip, .. } = packet.link() else {
                panic!("not Ethernet")
            };
            seen.push((packet.opcode(), class_of(ip)));
        }
        // Two requests of node 0, the forged ones, and the acknowledges of node 1.
        let own = seen.iter().filter(|(_, class)| *class == CLASS).count();
        let acknowledges = seen.iter().filter(|(opcode, _)| *opcode == Opcode::RcAcknowledge);
        assert!(acknowledges.clone().count() >= classes.len(), "{seen:?}");
        assert!(acknowledges.clone().all(|(_, class)| *class == CLASS), "{seen:?}");
        assert_eq!(seen.len(), own + classes.len() - 1, "{seen:?}");
    }
}
