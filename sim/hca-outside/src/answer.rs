//! What is for the card, what is answered in its place, and what is neither. Everything that comes may be anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetFrame, EthernetProtocol, Icmpv4Packet, Icmpv4Repr,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet, NdiscNeighborFlags, NdiscRepr,
    RawHardwareAddress, UdpPacket,
};

use crate::host::{Host, Mac, is_station, is_unicast};
use crate::packet;
use crate::table::Table;

/// RoCEv2's UDP port (IBTA annex A17).
const ROCE_PORT: u16 = 4791;
const BROADCAST: Mac = [0xff; 6];

/// What a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// RoCEv2 for the card.
    Card,
    /// A question about an address, and its answer.
    Asked(Vec<u8>),
    /// An echo request, and its answer.
    Echo(Vec<u8>),
    /// News of a neighbour, which the table has now.
    News,
    /// Somebody else has an address of ours.
    Conflict,
    /// Nothing that concerns the port: for raw QPs, if one has a rule for it.
    Foreign,
    /// It says of itself that it is what it is not.
    Malformed,
}

/// A frame's addresses.
#[derive(Clone, Copy)]
struct Way {
    from: Mac,
    /// To us alone, and not to a group.
    to_us: bool,
}

/// Judges a frame.
pub(crate) fn hear(host: &Host, table: &mut Table, now: Instant, bytes: &[u8]) -> Heard {
    let Ok(frame) = EthernetFrame::new_checked(bytes) else {
        return Heard::Malformed;
    };
    let to = frame.dst_addr().0;
    let way = Way {
        from: frame.src_addr().0,
        to_us: to == host.mac,
    };
    if !(way.to_us || to == BROADCAST || to[..2] == [0x33, 0x33]) || !is_station(way.from) {
        return Heard::Foreign;
    }
    let known = match frame.ethertype() {
        EthernetProtocol::Arp => hear_arp(host, table, now, frame.payload()),
        EthernetProtocol::Ipv4 => hear_ipv4(host, way, frame.payload()),
        EthernetProtocol::Ipv6 => hear_ipv6(host, table, now, way, frame.payload()),
        _ => Ok(Heard::Foreign),
    };
    known.unwrap_or(Heard::Malformed)
}

/// A packet that ends too early, or whose checksum is wrong.
type Judged = Result<Heard, smoltcp::wire::Error>;

fn hear_arp(host: &Host, table: &mut Table, now: Instant, bytes: &[u8]) -> Judged {
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr: source,
        target_protocol_addr: target,
        ..
    } = ArpRepr::parse(&ArpPacket::new_checked(bytes)?)?
    else {
        return Ok(Heard::Foreign);
    };
    let mac = source_hardware_addr.0;
    if !is_station(mac) {
        return Ok(Heard::Malformed);
    }
    if host.has(source.into()) {
        return Ok(if mac == host.mac {
            Heard::Foreign
        } else {
            Heard::Conflict
        });
    }
    let for_us = host.has(target.into());
    // RFC 826: who is known is brought up to date by whatever he says; who asks for us will be asked for.
    table.learn(now, source.into(), mac, for_us);
    Ok(match operation {
        ArpOperation::Request if for_us => Heard::Asked(packet::arp_reply((host.mac, target), (mac, source))),
        ArpOperation::Request | ArpOperation::Reply => Heard::News,
        _ => Heard::Foreign,
    })
}

fn hear_ipv4(host: &Host, way: Way, bytes: &[u8]) -> Judged {
    let packet = Ipv4Packet::new_checked(bytes)?;
    if !way.to_us || packet.version() != 4 {
        return Ok(Heard::Foreign);
    }
    match packet.next_header() {
        IpProtocol::Udp if packet.frag_offset() == 0 => hear_udp(packet.payload()),
        IpProtocol::Icmp => {
            let (source, target) = (packet.src_addr(), packet.dst_addr());
            let whole = packet.frag_offset() == 0 && !packet.more_frags();
            if !whole || !is_for_us(host, source.into(), target.into()) {
                return Ok(Heard::Foreign);
            }
            if !packet.verify_checksum() {
                return Ok(Heard::Malformed);
            }
            echo_ipv4(host, way, (source, target), packet.payload())
        }
        _ => Ok(Heard::Foreign),
    }
}

fn echo_ipv4(host: &Host, way: Way, (source, target): (Ipv4Addr, Ipv4Addr), bytes: &[u8]) -> Judged {
    let message = Icmpv4Packet::new_checked(bytes)?;
    match Icmpv4Repr::parse(&message, &ChecksumCapabilities::default())? {
        Icmpv4Repr::EchoRequest { ident, seq_no, data } => {
            let answer = packet::echo4((host.mac, target), (way.from, source), ident, seq_no, data);
            Ok(Heard::Echo(answer))
        }
        _ => Ok(Heard::Foreign),
    }
}

/// RoCEv2 is told by its port; the rest is the card's own business.
fn hear_udp(bytes: &[u8]) -> Judged {
    let udp = UdpPacket::new_checked(bytes)?;
    Ok(if udp.dst_port() == ROCE_PORT {
        Heard::Card
    } else {
        Heard::Foreign
    })
}

fn is_for_us(host: &Host, source: IpAddr, target: IpAddr) -> bool {
    host.has(target) && is_unicast(&source) && !host.has(source)
}

fn hear_ipv6(host: &Host, table: &mut Table, now: Instant, way: Way, bytes: &[u8]) -> Judged {
    let packet = Ipv6Packet::new_checked(bytes)?;
    let (source, target) = (packet.src_addr(), packet.dst_addr());
    match packet.next_header() {
        _ if packet.version() != 6 => Ok(Heard::Foreign),
        IpProtocol::Udp if way.to_us => hear_udp(packet.payload()),
        IpProtocol::Icmpv6 => {
            let message = Icmpv6Packet::new_checked(packet.payload())?;
            let checks = ChecksumCapabilities::default();
            match Icmpv6Repr::parse(&source, &target, &message, &checks)? {
                Icmpv6Repr::EchoRequest { ident, seq_no, data } => {
                    if !way.to_us || !is_for_us(host, source.into(), target.into()) {
                        return Ok(Heard::Foreign);
                    }
                    let answer = packet::echo6((host.mac, target), (way.from, source), ident, seq_no, data);
                    Ok(Heard::Echo(answer))
                }
                Icmpv6Repr::Ndisc(message) if packet.hop_limit() == packet::NDISC_HOP_LIMIT => {
                    Ok(hear_ndisc(host, table, now, (source, target), &message))
                }
                Icmpv6Repr::Ndisc(_) => Ok(Heard::Malformed),
                _ => Ok(Heard::Foreign),
            }
        }
        _ => Ok(Heard::Foreign),
    }
}

fn station(address: Option<RawHardwareAddress>) -> Option<Mac> {
    let mac: Mac = address?.as_bytes().get(..6)?.try_into().ok()?;
    is_station(mac).then_some(mac)
}

/// RFC 4861, sections 7.1 and 7.2.
fn hear_ndisc(
    host: &Host,
    table: &mut Table,
    now: Instant,
    (source, target): (Ipv6Addr, Ipv6Addr),
    message: &NdiscRepr,
) -> Heard {
    match *message {
        NdiscRepr::NeighborSolicit { target_addr, lladdr } => {
            let mac = station(lladdr);
            // Who looks for duplicates of his address has none yet, asks the group, and names no MAC address.
            let detects = source.is_unspecified();
            if target_addr.is_multicast()
                || (detects && (lladdr.is_some() || target != packet::solicited_node(target_addr)))
            {
                return Heard::Malformed;
            }
            if !host.has(target_addr.into()) {
                return Heard::Foreign;
            }
            if detects {
                return Heard::Asked(packet::advertisement((host.mac, target_addr), None));
            }
            if host.has(source.into()) {
                return Heard::Conflict;
            }
            let known = table
                .list()
                .into_iter()
                .find(|(address, _)| *address == IpAddr::from(source));
            let Some(mac) = mac.or(known.map(|(_, mac)| mac)) else {
                return Heard::Malformed;
            };
            table.learn(now, source.into(), mac, true);
            Heard::Asked(packet::advertisement(
                (host.mac, target_addr),
                Some((mac, source)),
            ))
        }
        NdiscRepr::NeighborAdvert {
            flags,
            target_addr,
            lladdr,
        } => {
            let solicited = flags.contains(NdiscNeighborFlags::SOLICITED);
            if target_addr.is_multicast() || (target.is_multicast() && solicited) {
                return Heard::Malformed;
            }
            match station(lladdr) {
                Some(mac) if host.has(target_addr.into()) => {
                    if mac == host.mac {
                        Heard::Foreign
                    } else {
                        Heard::Conflict
                    }
                }
                Some(mac) => {
                    // One that must not override may only tell what is not known.
                    let known = table
                        .list()
                        .iter()
                        .any(|(address, _)| *address == IpAddr::from(target_addr));
                    if !known || flags.contains(NdiscNeighborFlags::OVERRIDE) {
                        table.learn(now, target_addr.into(), mac, false);
                    }
                    Heard::News
                }
                None => Heard::News,
            }
        }
        _ => Heard::Foreign,
    }
}
