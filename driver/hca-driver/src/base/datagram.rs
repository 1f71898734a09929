//! Datagrams: where they go, and what they must fit.

use hca_abi::{AhAttr, SqWqeUdCtrl};

use crate::base::work::SendWr;

/// Hop limit of a route whose own nobody has set; the card's firmware takes the same one for connections.
const ROUTE_HOP_LIMIT: u8 = 64;

/// The way to a port elsewhere, as a WQE has it: what an address handle is made of. It belongs to a protection domain
/// and leads through one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressVector {
    pd: u32,
    port_num: u8,
    /// All but what each datagram has its own of.
    wqe: SqWqeUdCtrl,
}

impl AddressVector {
    /// `attr` is complete: on Ethernet it has a MAC address.
    pub fn new(pd: u32, attr: &AhAttr, is_ethernet: bool) -> Self {
        let mut wqe = SqWqeUdCtrl::new();
        wqe.set_sgid_index(attr.sgid_index());
        wqe.set_dgid(attr.dgid());
        wqe.set_dmac(attr.dmac());
        wqe.set_dlid(attr.dlid());
        wqe.set_flow_label(attr.flow_label());
        wqe.set_traffic_class(attr.traffic_class());
        wqe.set_is_global(attr.is_global());
        wqe.set_src_path_bits(attr.src_path_bits());
        wqe.set_hop_limit(hop_limit(attr, is_ethernet));
        // On Ethernet the card has the priority from the DSCP.
        wqe.set_sl(attr.sl());
        wqe.set_udp_src_port(udp_source_port(attr.flow_label()));
        Self {
            pd,
            port_num: attr.port_num(),
            wqe,
        }
    }

    /// The same way in another partition: datagrams of a QP1 have the P_Key of this index (KEY-21), 0..32. Those of
    /// other QPs have their QP's.
    pub fn in_partition(mut self, pkey_index: u8) -> Self {
        self.wqe.set_pkey_index(pkey_index);
        self
    }

    /// Its protection domain.
    pub fn pd(&self) -> u32 {
        self.pd
    }

    /// The port that it leads through, from 1.
    pub fn port_num(&self) -> u8 {
        self.port_num
    }

    /// The header of a WQE to a QP there; its first 16 bytes are still to be filled.
    #[inline]
    pub(crate) fn wqe_to(&self, remote_qpn: u32, remote_qkey: u32) -> SqWqeUdCtrl {
        let mut wqe = self.wqe;
        wqe.set_remote_qpn(remote_qpn);
        wqe.set_qkey(remote_qkey);
        wqe
    }
}

/// WIRE-18: as given. On Ethernet 0 and 1, which no router passes on, become what the route would say: programs leave
/// the field empty there, because an operating system fills it in.
fn hop_limit(attr: &AhAttr, is_ethernet: bool) -> u8 {
    match attr.hop_limit() {
        0 | 1 if is_ethernet => ROUTE_HOP_LIMIT,
        given => given,
    }
}

/// Source port of a RoCEv2 flow (IBTA annex A17: the dynamic range, made from the flow label), as for connections.
/// Without a flow label the card takes one by the QPN.
fn udp_source_port(flow_label: u32) -> u16 {
    match flow_label & 0xf_ffff {
        0 => 0,
        label => 0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16,
    }
}

/// Who gets a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The way to its port.
    pub address: &'a AddressVector,
    /// QPN there, 24 bits.
    pub remote_qpn: u32,
    /// Q_Key; with bit 31 set that of the sending QP goes out instead (KEY-24).
    pub remote_qkey: u32,
}

/// A send work request of a QP of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// What is sent: SEND or SEND with immediate data.
    pub wr: SendWr<'a>,
    /// Whereto.
    pub to: Destination<'a>,
}

/// What the datagrams of a QP must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramRules {
    /// Protection domain of the QP, and so of every address.
    pub pd: u32,
    /// Port of the QP, from 1, and so of every address.
    pub port_num: u8,
    /// Bytes of the longest message: the MTU of the port.
    pub mtu_bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use hca_abi::SqWqeCtrl;

    /// What both headers begin with is at the same place.
    #[test]
    fn headers_begin_alike() {
        let fields = SqWqeUdCtrl::TABLE.fields.iter().filter(|field| field.byte < 16);
        for field in fields {
            let same = SqWqeCtrl::TABLE
                .fields
                .iter()
                .find(|other| other.name == field.name);
            let same = same.unwrap_or_else(|| panic!("{} is not in both", field.name));
            assert_eq!(
                (same.byte, same.bit, same.width),
                (field.byte, field.bit, field.width)
            );
        }
    }

    /// The values of firmware's tests.
    #[test]
    fn source_ports_follow_the_flow_label() {
        let ports = [0, 1, 0xf_ffff, 0x4000, 0x10_0000].map(udp_source_port);
        assert_eq!(ports, [0, 0xc001, 0xffc0, 0xc001, 0]);
    }

    /// WIRE-18.
    #[test]
    fn hop_limits() {
        let mut attr = AhAttr::new();
        for (given, ethernet, infiniband) in [(0, 64, 0), (1, 64, 1), (2, 2, 2), (255, 255, 255)] {
            attr.set_hop_limit(given);
            for (is_ethernet, wanted) in [(true, ethernet), (false, infiniband)] {
                let wqe = AddressVector::new(1, &attr, is_ethernet).wqe_to(2, 3);
                assert_eq!(wqe.hop_limit(), wanted);
            }
        }
    }
}
