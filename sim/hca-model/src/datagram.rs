//! The receiving side of a QP for datagrams (IBA vol1 9.8.3).

use hca_abi::WcStatus;
use hca_wire::{Link, Network, grh};

use crate::config::QpConfig;
use crate::memory::Refusal;
use crate::packet::Packet;
use crate::work::Completion;
use crate::world::{BadReceive, World};

/// OP-22: bytes in front of the data, for the header of the network.
const GRH_BYTES: usize = grh::LEN;

/// A datagram for this QP. False: the QP has failed.
pub(crate) fn receive(link: &Link, packet: &Packet, config: &QpConfig, world: &mut dyn World) -> bool {
    let Some(deth) = packet.ext.deth else { return true };
    // KEY-23; and nothing that is longer than the path carries.
    if deth.qkey != config.qkey || packet.payload.len() > config.mtu_bytes() as usize {
        return true;
    }
    let receive = match world.next_receive(config) {
        Ok(Some(receive)) => receive,
        Ok(None) => return true,
        Err(BadReceive { wr_id, status }) => {
            world.complete(Completion::of_recv(config, wr_id, status));
            return false;
        }
    };
    let (header, begin) = network_header(link);
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(&packet.payload);
    let room: u64 = receive.sges.iter().map(|sge| u64::from(sge.len)).sum();
    let placed = if room < bytes.len() as u64 {
        Err(Refusal::TooShort)
    } else {
        world.scatter(config, &receive.sges, begin as u32, &bytes[begin..])
    };
    let status = match placed {
        Ok(()) => WcStatus::Success,
        Err(Refusal::TooShort) => WcStatus::LocLenErr,
        Err(_) => WcStatus::LocProtErr,
    };
    world.complete(Completion {
        byte_len: bytes.len() as u32,
        imm: packet.ext.immdt.map(|immdt| immdt.imm),
        src_qp: deth.src_qp,
        solicited: packet.solicited,
        ..Completion::of_recv(config, receive.wr_id, status)
    });
    status == WcStatus::Success
}

/// The first 40 bytes of a receive, and from where on they are something: GRH or IPv6 header, or an IPv4 header at
/// their end (A17.4.4); WIRE-12 leaves them open where there is none.
fn network_header(link: &Link) -> ([u8; GRH_BYTES], usize) {
    let (mut bytes, mut begin) = ([0; GRH_BYTES], 0);
    match link {
        Link::InfiniBand { grh: Some(grh), .. } => bytes = grh.to_bytes(),
        Link::InfiniBand { grh: None, .. } => begin = GRH_BYTES,
        Link::Ethernet {
            ip: Network::Ipv6(ip),
            ..
        } => bytes = ip.to_bytes(),
        Link::Ethernet {
            ip: Network::Ipv4(ip),
            ..
        } => {
            let header = ip.to_bytes();
            begin = GRH_BYTES - header.len();
            bytes[begin..].copy_from_slice(&header);
        }
    }
    (bytes, begin)
}
