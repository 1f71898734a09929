//! What of a packet tells a retransmission: where it goes, and its sequence number.

use hca_link::LinkKind;
use hca_wire::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, IP_PROTO_UDP, LNH_IBA_GLOBAL, LNH_IBA_LOCAL, Opcode, Psn,
    ROCE_UDP_PORT, WireError, bth, ethernet, grh, ipv4, ipv6, lrh, reth, udp, vlan,
};

/// Where a packet goes, or a QP's path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// By GID; an IPv4 address in its IPv6 form.
    Gid([u8; 16]),
    /// By LID.
    Lid(u16),
}

/// A request packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub peer: Peer,
    pub dest_qp: u32,
    pub psn: Psn,
    /// READ: bytes it asks for.
    pub read_bytes: Option<u32>,
}

fn gid_of_ipv4(addr: [u8; 4]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[10..12].fill(0xff);
    gid[12..].copy_from_slice(&addr);
    gid
}

/// The destination, and where the BTH begins; None: no transport packet.
fn envelope(link: LinkKind, bytes: &[u8]) -> Result<Option<(Peer, usize)>, WireError> {
    let behind = |at: usize| bytes.get(at..).unwrap_or(&[]);
    if link == LinkKind::InfiniBand {
        let lrh = lrh::Repr::read(bytes)?;
        let at = match lrh.lnh {
            LNH_IBA_LOCAL => lrh::LEN,
            LNH_IBA_GLOBAL => lrh::LEN + grh::LEN,
            _ => return Ok(None),
        };
        return Ok(Some((Peer::Lid(lrh.dlid), at)));
    }
    let mut ethertype = ethernet::Repr::read(bytes)?.ethertype;
    let mut at = ethernet::LEN;
    if ethertype == ETHERTYPE_VLAN {
        ethertype = vlan::Repr::read(behind(at))?.ethertype;
        at += vlan::LEN;
    }
    let (gid, protocol) = match ethertype {
        ETHERTYPE_IPV4 => {
            let ip = ipv4::Repr::read(behind(at))?;
            at += ipv4::LEN;
            (gid_of_ipv4(ip.dst_addr), ip.protocol)
        }
        ETHERTYPE_IPV6 => {
            let ip = ipv6::Repr::read(behind(at))?;
            at += ipv6::LEN;
            (ip.dst_addr, ip.next_header)
        }
        _ => return Ok(None),
    };
    if protocol != IP_PROTO_UDP || udp::Repr::read(behind(at))?.dst_port != ROCE_UDP_PORT {
        return Ok(None);
    }
    Ok(Some((Peer::Gid(gid), at + udp::LEN)))
}

/// Reads the first bytes of a packet. None: no request.
pub(crate) fn request(link: LinkKind, bytes: &[u8]) -> Option<Request> {
    let (peer, at) = envelope(link, bytes).ok()??;
    let bth = bth::Repr::read(bytes.get(at..)?).ok()?;
    let opcode = Opcode::try_from(bth.opcode)
        .ok()
        .filter(|opcode| opcode.is_request())?;
    let is_read = opcode == Opcode::RcReadRequest;
    let asks = || {
        reth::Repr::read(bytes.get(at + bth::LEN..)?)
            .ok()
            .map(|reth| reth.dma_len)
    };
    Some(Request {
        peer,
        dest_qp: bth.dest_qp,
        psn: Psn::new(bth.psn),
        read_bytes: if is_read { asks() } else { None },
    })
}
