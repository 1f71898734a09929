//! Packets that no card has sent, put on the first cable.

use hca_link::{Dir, LinkKind};
use hca_system_tests::{Rig, identity};
use hca_wire::{ExtHeaders, Link, Network, Opcode, PacketRepr, bth, ethernet, grh, ipv4, ipv6, lrh, udp};

/// Headers of a packet from node `from` to the other, as its card would make them: IPv4, or without GRH.
pub fn link(from: usize, kind: LinkKind) -> Link {
    let [source, target] = [from, 1 - from].map(|node| identity(node as u8, kind));
    match kind {
        LinkKind::Ethernet => Link::Ethernet {
            eth: ethernet::Repr {
                src_mac: source.mac,
                dst_mac: target.mac,
                ..Default::default()
            },
            vlan: None,
            ip: Network::Ipv4(ipv4::Repr {
                ttl: 64,
                src_addr: source.ipv4,
                dst_addr: target.ipv4,
                ..Default::default()
            }),
            udp: udp::Repr {
                src_port: 0xc000,
                ..Default::default()
            },
        },
        LinkKind::InfiniBand => Link::InfiniBand {
            lrh: lrh::Repr {
                slid: source.lid,
                dlid: target.lid,
                ..Default::default()
            },
            grh: None,
        },
    }
}

/// The same with an IPv6 header or a GRH between these GIDs.
pub fn global(link: Link, sgid: [u8; 16], dgid: [u8; 16]) -> Link {
    match link {
        Link::Ethernet { eth, vlan, udp, .. } => Link::Ethernet {
            eth,
            vlan,
            ip: Network::Ipv6(ipv6::Repr {
                hop_limit: 64,
                src_addr: sgid,
                dst_addr: dgid,
                ..Default::default()
            }),
            udp,
        },
        Link::InfiniBand { lrh, .. } => Link::InfiniBand {
            lrh,
            grh: Some(grh::Repr {
                hop_limit: 64,
                sgid,
                dgid,
                ..Default::default()
            }),
        },
    }
}

/// What of a packet matters to its receiver.
pub struct Forged<'a> {
    pub link: Link,
    pub opcode: Opcode,
    pub dest_qp: u32,
    pub psn: u32,
    pub pkey: u16,
    pub ext: ExtHeaders,
    pub payload: &'a [u8],
}

/// Puts it on the wire in the direction from node `from`, as soon as the wire is free.
pub fn send(rig: &mut Rig, from: usize, packet: &Forged<'_>) {
    send_with(rig, from, false, packet);
}

/// The same with a MigReq.
pub fn send_with(rig: &mut Rig, from: usize, mig_req: bool, packet: &Forged<'_>) {
    let repr = PacketRepr {
        link: packet.link,
        bth: bth::Repr {
            opcode: packet.opcode as u8,
            mig_req,
            pkey: packet.pkey,
            dest_qp: packet.dest_qp,
            psn: packet.psn,
            ack_req: true,
            ..Default::default()
        },
        ext: packet.ext,
        payload: packet.payload,
    };
    let mut bytes = vec![0; repr.buffer_len().unwrap()];
    repr.emit(&mut bytes).unwrap();
    let dir = if from == 0 { Dir::AToB } else { Dir::BToA };
    loop {
        rig.run(1);
        let mut fabric = rig.sim.fabric();
        let now = fabric.now();
        let cable = fabric.cable_mut(rig.cable);
        if cable.ready(dir, now) {
            cable.push_packet(dir, now, &bytes).unwrap();
            return;
        }
    }
}
