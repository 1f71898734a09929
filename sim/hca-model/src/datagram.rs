//! The receiving side of a QP for datagrams (IBA vol1 9.8.3).

use hca_abi::WcStatus;
use hca_wire::{Link, Network, grh};

use crate::config::QpConfig;
use crate::memory::Refusal;
use crate::model::World;
use crate::packet::Packet;
use crate::work::Completion;

/// OP-22: bytes in front of the data, for the header of the network.
const GRH_BYTES: usize = grh::LEN;

/// A datagram for this QP. False: the QP has failed.
pub(crate) fn receive(link: &Link, packet: &Packet, config: &QpConfig, world: &mut World) -> bool {
    let Some(deth) = packet.ext.deth else { return true };
    // KEY-23; and nothing that is longer than the path carries.
    if deth.qkey != config.qkey || packet.payload.len() > config.mtu_bytes() as usize {
        return true;
    }
    let queue = world.receives.entry(config.receive_queue).or_default();
    let Some(receive) = queue.pop_front() else {
        return true;
    };
    let mut bytes = network_header(link).to_vec();
    bytes.extend_from_slice(&packet.payload);
    let status = match world.memory.scatter(config.domain, &receive.sges, 0, &bytes) {
        Ok(()) => WcStatus::Success,
        Err(Refusal::TooShort) => WcStatus::LocLenErr,
        Err(_) => WcStatus::LocProtErr,
    };
    world.completions.push_back(Completion {
        byte_len: bytes.len() as u32,
        imm: packet.ext.immdt.map(|immdt| immdt.imm),
        src_qp: deth.src_qp,
        solicited: packet.solicited,
        ..Completion::of_recv(config.qpn, receive.wr_id, status)
    });
    status == WcStatus::Success
}

/// The first 40 bytes of a receive: GRH or IPv6 header, or an IPv4 header at their end (A17.4.4); WIRE-12 leaves them
/// open where there is none.
fn network_header(link: &Link) -> [u8; GRH_BYTES] {
    let mut bytes = [0; GRH_BYTES];
    match link {
        Link::InfiniBand { grh: Some(grh), .. } => bytes = grh.to_bytes(),
        Link::InfiniBand { grh: None, .. } => {}
        Link::Ethernet {
            ip: Network::Ipv6(ip),
            ..
        } => bytes = ip.to_bytes(),
        Link::Ethernet {
            ip: Network::Ipv4(ip),
            ..
        } => {
            let header = ip.to_bytes();
            bytes[GRH_BYTES - header.len()..].copy_from_slice(&header);
        }
    }
    bytes
}
