//! Headers of the network: who a packet is from, and what leads back to them.

use hca_wire::{Link, Network, ethernet, ipv4, udp};

/// Headers that lead back to the sender of a packet with these.
pub fn reply_link(link: &Link) -> Link {
    let mut reply = *link;
    match &mut reply {
        Link::Ethernet { eth, ip, .. } => {
            std::mem::swap(&mut eth.src_mac, &mut eth.dst_mac);
            match ip {
                Network::Ipv4(ip) => std::mem::swap(&mut ip.src_addr, &mut ip.dst_addr),
                Network::Ipv6(ip) => std::mem::swap(&mut ip.src_addr, &mut ip.dst_addr),
            }
        }
        Link::InfiniBand { lrh, grh } => {
            std::mem::swap(&mut lrh.slid, &mut lrh.dlid);
            if let Some(grh) = grh {
                std::mem::swap(&mut grh.sgid, &mut grh.dgid);
            }
        }
    }
    reply
}

/// QPS-17: `arrived` are the headers of a packet from whom `to_peer` leads to. Addresses alone count: IP addresses, or
/// LIDs, and GIDs where both sides have a GRH.
pub fn same_sender(arrived: &Link, to_peer: &Link) -> bool {
    match (arrived, to_peer) {
        (Link::Ethernet { ip: found, .. }, Link::Ethernet { ip: wanted, .. }) => match (found, wanted) {
            (Network::Ipv4(found), Network::Ipv4(wanted)) => {
                (found.src_addr, found.dst_addr) == (wanted.dst_addr, wanted.src_addr)
            }
            (Network::Ipv6(found), Network::Ipv6(wanted)) => {
                (found.src_addr, found.dst_addr) == (wanted.dst_addr, wanted.src_addr)
            }
            _ => false,
        },
        (
            Link::InfiniBand {
                lrh: found,
                grh: found_grh,
            },
            Link::InfiniBand { lrh, grh },
        ) => {
            let gids = match (found_grh, grh) {
                (Some(found), Some(wanted)) => (found.sgid, found.dgid) == (wanted.dgid, wanted.sgid),
                _ => true,
            };
            gids && found.slid == lrh.dlid
        }
        _ => false,
    }
}

/// Headers for examples and tests: RoCEv2 over IPv4 from 10.0.0.1 to 10.0.0.2.
pub fn example_link() -> Link {
    Link::Ethernet {
        eth: ethernet::Repr {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            ..Default::default()
        },
        vlan: None,
        ip: Network::Ipv4(ipv4::Repr {
            ttl: 64,
            dont_fragment: true,
            src_addr: [10, 0, 0, 1],
            dst_addr: [10, 0, 0, 2],
            ..Default::default()
        }),
        udp: udp::Repr {
            src_port: 0xc000,
            ..Default::default()
        },
    }
}
