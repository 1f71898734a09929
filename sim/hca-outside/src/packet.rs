//! Frames that we send: questions and answers about addresses, and echoes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
};

use crate::host::Mac;

/// RFC 4861: a question that has passed a router is none.
pub(crate) const NDISC_HOP_LIMIT: u8 = 255;
const HOP_LIMIT: u8 = 64;
const BROADCAST: Mac = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A frame with room for `len` bytes behind its header.
fn frame(source: Mac, target: Mac, ethertype: EthernetProtocol, len: usize) -> Vec<u8> {
    let header = EthernetRepr {
        src_addr: EthernetAddress(source),
        dst_addr: EthernetAddress(target),
        ethertype,
    };
    let mut bytes = vec![0; header.buffer_len() + len];
    header.emit(&mut EthernetFrame::new_unchecked(&mut bytes));
    bytes
}

/// RFC 2464: the address of a group's frames.
fn group_mac(group: Ipv6Addr) -> Mac {
    let octets = group.octets();
    [0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]
}

/// RFC 4291: the group in which the owner of an address listens for questions about it.
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    )
}

fn arp(operation: ArpOperation, source: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr), to: Mac) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(source.0),
        source_protocol_addr: source.1,
        target_hardware_addr: EthernetAddress(target.0),
        target_protocol_addr: target.1,
    };
    let mut bytes = frame(source.0, to, EthernetProtocol::Arp, repr.buffer_len());
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes);
    repr.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
    bytes
}

/// The answer to an ARP request.
pub(crate) fn arp_reply(source: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    arp(ArpOperation::Reply, source, target, target.0)
}

fn icmpv6(source: (Mac, Ipv6Addr), target: (Mac, Ipv6Addr), hop_limit: u8, repr: &Icmpv6Repr) -> Vec<u8> {
    let header = Ipv6Repr {
        src_addr: source.1,
        dst_addr: target.1,
        next_header: IpProtocol::Icmpv6,
        payload_len: repr.buffer_len(),
        hop_limit,
    };
    let len = header.buffer_len() + repr.buffer_len();
    let mut bytes = frame(source.0, target.0, EthernetProtocol::Ipv6, len);
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes);
    let mut packet = Ipv6Packet::new_unchecked(ethernet.payload_mut());
    header.emit(&mut packet);
    let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
    repr.emit(
        &source.1,
        &target.1,
        &mut message,
        &ChecksumCapabilities::default(),
    );
    bytes
}

/// The answer to a neighbour solicitation; `asker`: none where it has no address yet and looks for duplicates.
pub(crate) fn advertisement(own: (Mac, Ipv6Addr), asker: Option<(Mac, Ipv6Addr)>) -> Vec<u8> {
    let solicited = asker.map_or(NdiscNeighborFlags::empty(), |_| NdiscNeighborFlags::SOLICITED);
    let repr = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags: solicited | NdiscNeighborFlags::OVERRIDE,
        target_addr: own.1,
        lladdr: Some(EthernetAddress(own.0).into()),
    });
    let to = asker.unwrap_or((group_mac(ALL_NODES), ALL_NODES));
    icmpv6(own, to, NDISC_HOP_LIMIT, &repr)
}

/// Asks who has an address.
pub(crate) fn question(mac: Mac, source: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let target = ([0; 6], target);
            Some(arp(ArpOperation::Request, (mac, source), target, BROADCAST))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let group = solicited_node(target);
            let repr = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
                target_addr: target,
                lladdr: Some(EthernetAddress(mac).into()),
            });
            let to = (group_mac(group), group);
            Some(icmpv6((mac, source), to, NDISC_HOP_LIMIT, &repr))
        }
        _ => None,
    }
}

/// The answer to an ICMP echo request.
pub(crate) fn echo4(
    source: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
    ident: u16,
    seq: u16,
    data: &[u8],
) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoReply {
        ident,
        seq_no: seq,
        data,
    };
    let header = Ipv4Repr {
        src_addr: source.1,
        dst_addr: target.1,
        next_header: IpProtocol::Icmp,
        payload_len: repr.buffer_len(),
        hop_limit: HOP_LIMIT,
    };
    let len = header.buffer_len() + repr.buffer_len();
    let mut bytes = frame(source.0, target.0, EthernetProtocol::Ipv4, len);
    let mut ethernet = EthernetFrame::new_unchecked(&mut bytes);
    let mut packet = Ipv4Packet::new_unchecked(ethernet.payload_mut());
    header.emit(&mut packet, &ChecksumCapabilities::default());
    let mut message = Icmpv4Packet::new_unchecked(packet.payload_mut());
    repr.emit(&mut message, &ChecksumCapabilities::default());
    bytes
}

/// The same for IPv6.
pub(crate) fn echo6(
    source: (Mac, Ipv6Addr),
    target: (Mac, Ipv6Addr),
    ident: u16,
    seq: u16,
    data: &[u8],
) -> Vec<u8> {
    let repr = Icmpv6Repr::EchoReply {
        ident,
        seq_no: seq,
        data,
    };
    icmpv6(source, target, HOP_LIMIT, &repr)
}
